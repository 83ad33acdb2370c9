/*
 * calls - the system calls of a job: the sums of all its processes, what each has called, and both
 * on their way from the process that counts them to the record.
 *
 * Where the daemon has counted and the runner records they are one JSON object; docs/rpc.md has it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "model/time_ledger.h"
#include "rpc/rpc.h"
#include "sources/sources.h"

/*
 * ---- sums by the name of the call ----
 *
 * Where times are from a sample of the calls, a process of which none was timed counts with the
 * mean of the others; else unknown and anything is unknown. Of so many names as samples can have;
 * what a program makes up beyond that is left out, and counted.
 */

/* All zero is a good beginning. Owns the names. */
struct call_sums {
	struct syscall_use *uses;
	size_t n, cap, cap_timed;
	uint64_t *n_timed;   /* where is_sampled: how many calls of each name the times are of */
	bool is_sampled;     /* set before the first is added */
	uint64_t n_left_out; /* calls */
	struct map by_name;  /* from the hash of a name, or the next free number, to its place */
};

void call_sums_release(struct call_sums *sums);

/* What there is no room or memory for is left out. */
void call_sums_add(struct call_sums *sums, const struct syscall_use *uses, size_t n);

/* Times as if all calls had been timed. Nothing can be added any more; once more is no harm. */
void call_sums_settle(struct call_sums *sums);

/* The same, and the most time on a CPU first, as reports show them. */
void call_sums_sort(struct call_sums *sums);

/*
 * ---- what each process has called ----
 *
 * One line of text each, bounded in bytes: those that there is no room for are in the sums of the
 * job alone, and counted.
 */

struct process_call {
	struct proc_key key;
	const char *text; /* syscall_text_write(); NULL: was given to its record */
	const char *time; /* time_ledger_write(); NULL: not known */
};

/* All zero, but for max_bytes, is a good beginning. */
struct process_calls {
	size_t max_bytes; /* of all texts */
	size_t n_bytes;
	struct process_call *items; /* in the order in which they came */
	size_t n, cap;
	uint64_t n_untold; /* processes that there was no room for */
	struct arena arena;
};

void process_calls_release(struct process_calls *calls);

/* What does not fit, or finds no memory, counts as untold. */
void process_calls_add(struct process_calls *calls, const struct proc_key *key,
		       const struct syscall_use *uses, size_t n);
void process_calls_add_time(struct process_calls *calls, const struct proc_key *key,
			    const char *time); /* of the one that was added last; NULL: none */
void process_calls_add_text(struct process_calls *calls, const struct proc_key *key,
			    const char *text, size_t len);

/* Each process of the attempt gets its own, in the arena, and where its time went. Changes the
 * order. */
void process_calls_give(struct process_calls *calls, struct attempt *a);

/*
 * From what each process has called so far (now) to what is new since its last sample (before,
 * which becomes now). Fills the samples of those that are in now, and may change its order. Others
 * have called nothing, if they are in before; is_all: they stay unknown, and what they call counts
 * in a later sample. Sums that went down are those of another count, and all new.
 */
void process_calls_fill_steps(struct process_calls *before, struct process_calls *now, bool is_all,
			      struct snapshot *snap);

/* ---- both ---- */

/* All zero, but for processes.max_bytes, is a good beginning. */
struct counted_calls {
	struct call_sums sums;
	struct process_calls processes;
	struct time_ledger time;   /* of all their threads */
	unsigned time_every;	   /* one call in so many was timed, by chance; 0, 1: all were */
	double time_variance_ns2;  /* of all times on a CPU together; 0: they are exact */
	struct syscalls_lost lost; /* of this job or another */
	uint64_t n_withheld;	   /* processes that are not in it: not its user's alone */
};

void counted_calls_release(struct counted_calls *calls);

/* Of one process, by who has counted it. */
void counted_calls_add(struct counted_calls *calls, const struct syscall_process *p);

/* The same of one that is not to be told. */
void counted_calls_withhold(struct counted_calls *calls, const struct syscall_process *p);

/* The members of an object that is open. Nothing can be added any more. */
void counted_calls_write(struct json *j, struct counted_calls *calls);

/* Adds what is told to what is there. -EBADMSG: that is no such object, and some of it is added. */
int counted_calls_read(const struct rpc_value *v, struct counted_calls *calls);

/* The same of the processes alone: a list, and what is told in it. */
void counted_calls_write_processes(struct json *j, const struct process_calls *processes);
int counted_calls_read_processes(const struct rpc_value *list, struct process_calls *ret);

/* Into the attempt, once: the sums of the job, and of each of its processes that is listed; and
 * what is wrong with them, as notes. trouble: why some were not counted, or NULL. */
void counted_calls_keep(struct counted_calls *calls, const char *trouble, struct attempt *a);

/*
 * Where only some calls were timed, that, and one standard error of the sum; to a sentence that may
 * have begun. After counted_calls_keep() or counted_calls_write().
 */
void counted_calls_say_error(const struct counted_calls *calls, struct buf *out);

/* Adds what is missing in them, if anything is, to a sentence that may have begun. */
void counted_calls_say_missing(const struct counted_calls *calls, struct buf *out);
