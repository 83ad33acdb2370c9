#include "daemon/phase_owner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alive.h"
#include "base/macros.h"
#include "recorder/recorder.h"
#include "sources/sources.h"

/* Deeper than any tree of processes that somebody means. */
#define MAX_ANCESTORS 256

/* Of a command line as much as a shell's name and options take. */
#define CMDLINE_BYTES 4096

static bool is_shell(const char *word)
{
	static const char *const shells[] = { "sh",   "dash", "bash", "ash", "ksh",
					      "mksh", "zsh",  "fish", "csh", "tcsh" };
	const char *slash = strrchr(word, '/');
	const char *name = slash ? slash + 1 : word;

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (strcmp(name, shells[i]) == 0)
			return true;
	return false;
}

/* The word after this one; NULL: it was the last. */
static const char *next_word(const char *word, const char *end)
{
	word += strlen(word) + 1;
	return word < end ? word : NULL;
}

bool phase_is_text_shell(const char *cmdline, size_t n)
{
	const char *end = cmdline + n, *word = cmdline;

	if (n == 0 || cmdline[n - 1] != '\0' || !is_shell(word))
		return false;
	while ((word = next_word(word, end)) && (word[0] == '-' || word[0] == '+')) {
		if (word[0] == '-' && word[1] != '-' && strchr(word, 'c'))
			return true;
		if (strcmp(word + 1, "o") == 0) /* its name is the next word */
			word = next_word(word, end);
		if (!word)
			return false;
	}
	return false;
}

/* What is longer than text ends there, as a word. Returns its bytes, 0 where there is none. */
static size_t read_cmdline(int root_fd, pid_t pid, char *text)
{
	ssize_t n = proc_read_text(root_fd, pid, "cmdline", text, CMDLINE_BYTES);

	if (n > 0 && text[n - 1] != '\0')
		n++; /* the NUL that ends the text */
	return n > 0 ? (size_t)n : 0;
}

/* One that was forked and has executed nothing is a part of its script, which goes on beside it. */
static bool is_passing_shell(int root_fd, pid_t pid, pid_t parent)
{
	char own[CMDLINE_BYTES], above[CMDLINE_BYTES];
	size_t n = read_cmdline(root_fd, pid, own), n_above;

	if (!phase_is_text_shell(own, n))
		return false;
	n_above = read_cmdline(root_fd, parent, above);
	return n_above != n || memcmp(own, above, n) != 0;
}

pid_t phase_owner_find(int root_fd, pid_t pid, pid_t runner)
{
	struct process_facts facts;

	for (int i = 0; i < MAX_ANCESTORS; i++) {
		if (pid == runner || process_facts_read(root_fd, pid, &facts) < 0 ||
		    facts.ppid <= 1 || facts.ppid == runner ||
		    !is_passing_shell(root_fd, pid, facts.ppid) ||
		    sources_read_rank(root_fd, pid) != sources_read_rank(root_fd, facts.ppid))
			break;
		pid = facts.ppid;
	}
	return pid;
}

static bool is_above(int root_fd, pid_t above, pid_t pid)
{
	struct process_facts facts = { .ppid = pid };

	for (int i = 0; i < MAX_ANCESTORS && facts.ppid > 1 && facts.ppid != above; i++)
		if (process_facts_read(root_fd, facts.ppid, &facts) < 0)
			return false;
	return facts.ppid == above;
}

bool phase_are_kin(void *ctx, pid_t a, pid_t b)
{
	const int *root_fd = ctx;

	return is_above(*root_fd, a, b) || is_above(*root_fd, b, a);
}

int phase_refuse(const struct phase_mark *mark, const char *job_id, const char *name,
		 struct err *err)
{
	if (mark->result == -ENOSPC)
		return err_set(err, -ENOSPC, "the job %s has entered too many phases: not '%s'",
			       job_id, name);
	if (mark->entered_by > 0)
		return err_set(err, mark->result,
			       "process %d has not entered the phase '%s': it was entered by pid "
			       "%d",
			       (int)mark->phase.pid, name, (int)mark->entered_by);
	return err_set(err, mark->result, "the job %s is in no phase '%s'", job_id, name);
}
