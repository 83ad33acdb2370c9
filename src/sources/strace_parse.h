/*
 * strace_parse - the table that "strace -c" ends with.
 */
#ifndef PROCTOR_SOURCES_STRACE_PARSE_H
#define PROCTOR_SOURCES_STRACE_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

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

#endif
