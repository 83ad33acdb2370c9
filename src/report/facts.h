/*
 * facts - an attempt sorted and counted, ready to be told in any format.
 */
#ifndef PROCTOR_REPORT_FACTS_H
#define PROCTOR_REPORT_FACTS_H

#include <stddef.h>

#include "base/arena.h"
#include "model/job.h"
#include "report/figures.h"

/* One sheet with all its tries; the last one is what came of it. */
struct sheet_fact {
	const struct sheet_record *const *tries; /* first to last */
	size_t n_tries;
	const struct sheet_record *last;
	struct figures figures; /* of the last try */
};

/* Borrows the attempt until facts_release(). */
struct facts {
	const struct attempt *a;
	struct figures figures;
	struct sheet_fact *sheets; /* by number */
	size_t n_sheets;
	const struct proc_record **processes; /* largest peak first, unknown last */
	size_t n_processes;
	const struct proc_record *top_cpu; /* most CPU time; NULL: not known of any */
	struct unknown_note *notes; /* the attempt's, and those of numbers that are missing */
	size_t n_notes;
	struct arena arena;
};

/* -ENOMEM: then there is nothing to release. */
int facts_init(struct facts *f, const struct attempt *a);
void facts_release(struct facts *f);

/* The sheet that gave the attempt its outcome, or the first that did not succeed; NULL: none. */
const struct sheet_fact *facts_culprit(const struct facts *f);

/* The sheet that runs, or ran when the runner was lost; NULL: none. */
const struct sheet_fact *facts_current(const struct facts *f);

/* The rank of a sheet that failed first; NULL: none did. */
const struct rank_record *facts_first_failed_rank(const struct sheet_record *sheet);

/* CPU time over wall time, 100 = one core. */
double facts_cpu_percent(const struct figures *figures);

/* User and system time. */
uint64_t facts_process_cpu_ns(const struct proc_record *p);

/* The process of an event; NULL: not recorded. */
const struct proc_record *facts_find_process(const struct facts *f, const struct proc_event *ev);

#endif
