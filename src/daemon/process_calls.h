/*
 * process_calls - what each process of a job has called, as one line of text, for its record.
 *
 * Bounded in bytes: those that there is no room for are in the sums of the job alone, and
 * counted.
 */
#ifndef PROCTOR_DAEMON_PROCESS_CALLS_H
#define PROCTOR_DAEMON_PROCESS_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/job.h"
#include "model/snapshot.h"

struct process_call {
	struct proc_key key;
	const char *text; /* syscall_text_write(); NULL: was given to its record */
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
void process_calls_add_text(struct process_calls *calls, const struct proc_key *key,
			    const char *text, size_t len);

/* For process_calls_find(): which may change the order of the items. */
void process_calls_sort(struct process_calls *calls);

/* The text of this very process, of items in order; NULL: there is none. */
const char *process_calls_find(const struct process_calls *calls, const struct proc_key *key);

/*
 * Hands each record its own, into the arena. A process that no sample saw has no start time: of
 * several with its pid it is the first. Changes the order of the items.
 */
void process_calls_tell(struct process_calls *calls, struct proc_record *processes, size_t n,
			struct arena *arena);

/*
 * From what each process has called so far (now) to what is new since its last sample (before,
 * which becomes now). Fills the samples of those that are in now, and may change its order. Others
 * stay unknown, and what they call counts in a later sample. Sums that went down are those of
 * another count, and all new.
 */
void process_calls_fill_steps(struct process_calls *before, struct process_calls *now,
			      struct snapshot *snap);

#endif
