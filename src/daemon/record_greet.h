/*
 * record_greet - what a run tells a daemon of itself, by its link (link.h), and when.
 *
 * Where nothing is to be written down a daemon is not told either, but for the one that has
 * submitted the job.
 */
#ifndef PROCTOR_DAEMON_RECORD_GREET_H
#define PROCTOR_DAEMON_RECORD_GREET_H

#include <stddef.h>

#include "base/err.h"

struct run;

/* Before the first command: what it starts is followed from its beginning, where a daemon can. */
void record_begin(struct run *run);

/*
 * Says that the job runs, once it is in the database or cannot be, and once that is worth it.
 * Called at each tick: what was said is not said again.
 */
void record_greet(struct run *run);

/* The same, whether it is worth it or not: a daemon knows the job by the return. */
void record_greet_at_once(struct run *run);

/* The sheets from number n_from on have changed. */
void record_tell_changed(struct run *run, size_t n_from);

/* A daemon of root, or the one that has started us, is to count the system calls, of the command
 * that waits for it as well. */
int record_ask_to_count(struct run *run, struct err *err);

/* The end, which is stored by now. Who should hear of it and has not: run->is_untold. */
void record_tell_end(struct run *run);

#endif
