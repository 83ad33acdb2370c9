#include "daemon/queue/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

#define LAUNCHER_VARIABLE "PROCTOR_LAUNCHER"
#define MAX_WORDS 32

/* Parted at blanks; no quoting, as in no word there is one. Returns how many; -E2BIG. */
static int split_words(char *text, const char *words[MAX_WORDS])
{
	char *rest = NULL;
	int n = 0;

	for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (n == MAX_WORDS)
			return -E2BIG;
		words[n++] = word;
	}
	return n;
}

static size_t count(const char *const *argv)
{
	size_t n = 0;

	while (argv[n])
		n++;
	return n;
}

/* Where options of ours go: before the "--" that ends the launcher's own. */
static size_t end_of_options(const char *const *words, size_t n)
{
	return n > 0 && strcmp(words[n - 1], "--") == 0 ? n - 1 : n;
}

/* Puts what says who it is to be among the n words. Returns how many there are then. */
static int add_user(const struct launch_user *user, const char *words[MAX_WORDS], int n)
{
	size_t at = end_of_options(words, (size_t)n);
	char *options[3] = { NULL };

	if (n + (int)ARRAY_SIZE(options) > MAX_WORDS)
		return -E2BIG;
	if (asprintf(&options[0], "--uid=%u", (unsigned)user->uid) < 0 ||
	    asprintf(&options[1], "--gid=%u", (unsigned)user->gid) < 0 ||
	    asprintf(&options[2], "--working-directory=%s", user->workdir) < 0)
		return -ENOMEM;
	memmove(words + at + ARRAY_SIZE(options), words + at, ((size_t)n - at) * sizeof(*words));
	memcpy(words + at, options, sizeof(options));
	return n + (int)ARRAY_SIZE(options);
}

/* Services that systemd-run(1) makes have variables put in for "$" in their words: "$$" is one. */
static bool expands_variables(const char *launcher)
{
	const char *slash = strrchr(launcher, '/');

	return strcmp(slash ? slash + 1 : launcher, "systemd-run") == 0;
}

static char *double_dollars(const char *word)
{
	char *doubled = malloc(2 * strlen(word) + 1), *to = doubled;

	for (; doubled && *word; word++) {
		if (*word == '$')
			*to++ = '$';
		*to++ = *word;
	}
	if (doubled)
		*to = '\0';
	return doubled;
}

/* As the launcher has to be told it. -ENOMEM. */
static int add_words(const char **to, const char *const *argv, bool is_expanded)
{
	for (; *argv; argv++, to++) {
		*to = is_expanded ? double_dollars(*argv) : *argv;
		if (!*to)
			return -ENOMEM;
	}
	*to = NULL;
	return 0;
}

/* What is left over when it fails goes with the child. */
static int become_launched(const char *launcher, const char *const *argv,
			   const struct launch_user *user)
{
	const char *words[MAX_WORDS], **all;
	char *text = strdup(launcher);
	size_t n_argv = count(argv);
	int n = text ? split_words(text, words) : -ENOMEM;

	if (n >= 0 && user)
		n = add_user(user, words, n);
	if (n < 0)
		return n;
	all = reallocarray(NULL, (size_t)n + n_argv + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, words, (size_t)n * sizeof(*all));
	if (add_words(all + n, argv, n > 0 && expands_variables(words[0])) < 0)
		return -ENOMEM;
	unsetenv(LAUNCHER_VARIABLE);
	execvp(all[0], (char *const *)all);
	return -errno;
}

static const char *find_launcher(void)
{
	const char *launcher = getenv(LAUNCHER_VARIABLE);

	return launcher && launcher[strspn(launcher, " \t")] ? launcher : NULL;
}

bool launch_is_set(void)
{
	return find_launcher() != NULL;
}

int launch_become(const char *const *argv, const struct launch_user *user)
{
	const char *launcher = find_launcher();

	if (launcher)
		return become_launched(launcher, argv, user);
	execv(argv[0], (char *const *)argv);
	return -errno;
}
