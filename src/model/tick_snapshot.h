/*
 * tick_snapshot - the parts of a snapshot as rows of a tick (tick.h), and back.
 *
 * The samples themselves are words (words.h). Which processes are in a tick, and under which
 * numbers, is for who writes it.
 */
#ifndef PROCTOR_MODEL_TICK_SNAPSHOT_H
#define PROCTOR_MODEL_TICK_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/tick.h"

/* ---- into a tick ---- */

/* The head, the GPUs, the progress of jobs and the cgroups. The tick is empty. -ENOMEM. */
int tick_fill_host(struct tick *t, const struct snapshot *s);

/*
 * Which number each name has in the keys of a recorder's ticks. All zero is empty. A program can
 * make up numbers of calls: beyond SYSCALL_NUMBERS names, more than any kernel has, they
 * are left out.
 */
struct call_names {
	struct map numbers; /* by hash */
	struct call_name {
		char *name;
		uint64_t string; /* of the tick that is written; unknown: not in it yet */
	} * items;		 /* from number 1 on */
	size_t n, cap;
};

void call_names_release(struct call_names *names);

/* A process of a snapshot that goes into a tick. */
struct listed_process {
	int64_t number; /* the key of its sample */
	size_t index;	/* in the snapshot */
};

/*
 * The samples and system calls of n listed processes, which are sorted by number. Of those with the
 * same number the last counts: that is not worth losing the tick. -ENOMEM.
 */
int tick_fill_samples(struct tick *t, struct call_names *names, const struct snapshot *s,
		      struct listed_process *listed, size_t n);

/* ---- out of a tick ---- */

/*
 * One more of the snapshot's GPUs, jobs or cgroups, from a row of LIST_GPUS, LIST_PROGRESS or
 * LIST_CGROUPS. The strings that words refer to are copied. -EBADMSG, -ENOMEM.
 */
int snapshot_add_row(struct snapshot *s, enum tick_list list, const uint64_t *words,
		     const char *const *strings, size_t n_strings);

#endif
