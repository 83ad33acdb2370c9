/*
 * strace - counts the system calls of a process through the program strace.
 *
 * The lowest rung: it stops the process twice at each call, which makes it tens of
 * times slower, so it is for who asks for it. The process is let go of when
 * strace_detach() is called, and when proctor ends, however it ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "sources/sources.h" /* strace_start(), strace_await() */

/* ---- the table that "strace -c" ends with ---- */

struct strace_row {
	const char *name;
	double time_pct; /* as it stands there */
	double seconds;	 /* on a CPU, in the kernel */
	uint64_t count;	 /* U64_UNKNOWN: more than 64 bits hold */
	uint64_t errors;
};

struct strace_summary {
	struct strace_row
		*rows; /* in the order of the table, each name once: the last row counts */
	size_t n;
	struct arena arena; /* owns rows and names */
};

void strace_summary_release(struct strace_summary *s);

/*
 * Everything that is not a row of the table is skipped: headings, rules, totals,
 * what strace says about attaching, calls that it has no name for. -ENOMEM.
 */
int strace_parse(const char *text, struct strace_summary *ret);

/* ---- running it ---- */

/*
 * Whether it can be: there is such a process, it is neither this one nor a strace of ours,
 * nobody else traces it. -ESRCH, -EINVAL, -EBUSY, with the sentence in err.
 */
int strace_check(pid_t pid, struct err *err);

/*
 * Lets go and takes the table, waiting at most some seconds for it. Frees s in any
 * case. -ETIMEDOUT: it did not answer and was killed, so there is no table. -ENODATA: it
 * left none, for somebody else ended it, or no call was made at all.
 */
int strace_detach(struct strace *s, struct strace_summary *ret, struct err *err);
