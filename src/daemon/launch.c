#include "daemon/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* What is left over when it fails goes with the child. */
static int become_launched(const char *launcher, const char *const *argv)
{
	const char *words[MAX_WORDS], **all;
	char *text = strdup(launcher);
	size_t n_argv = count(argv);
	int n = text ? split_words(text, words) : -ENOMEM;

	if (n < 0)
		return n;
	all = reallocarray(NULL, (size_t)n + n_argv + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, words, (size_t)n * sizeof(*all));
	memcpy(all + n, argv, (n_argv + 1) * sizeof(*all));
	unsetenv(LAUNCHER_VARIABLE);
	execvp(all[0], (char *const *)all);
	return -errno;
}

int launch_become(const char *const *argv)
{
	const char *launcher = getenv(LAUNCHER_VARIABLE);

	if (launcher && launcher[strspn(launcher, " \t")])
		return become_launched(launcher, argv);
	execv(argv[0], (char *const *)argv);
	return -errno;
}
