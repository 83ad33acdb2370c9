/*
 * tick_snapshot - the parts of a snapshot as rows of a tick (tick.h), and back.
 *
 * The samples themselves are words (words.h). Which processes are in a tick, and under which
 * numbers, is for who writes it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/snapshot.h"
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

/*
 * ---- which number each process has, and whether it is still called the same ----
 *
 * Who writes ticks gives each process a number, and describes it once. All zero is empty.
 */

struct process_entry {
	uint64_t key;	      /* of pid and start */
	uint64_t fingerprint; /* of its description */
	int64_t number;
};

struct process_index {
	struct process_entry *items;
	size_t n, cap;
	size_t next;	     /* behind the one that was found last */
	struct map index_of; /* key -> place in items */
};

void process_index_release(struct process_index *index);
void process_index_clear(struct process_index *index); /* keeps its memory */

/* NULL: it is not there. Valid until the next is added. */
struct process_entry *process_index_find(struct process_index *index, struct proc_key key);

/*
 * One that is not there yet. A key that no process of Linux can have is passed over: it is never
 * found. -ENOMEM.
 */
int process_index_add(struct process_index *index, struct proc_key key, uint64_t fingerprint,
		      int64_t number);

uint64_t fingerprint_number(uint64_t h, uint64_t v);

/* Of all that exec, a launcher or a new sheet can change about a process. h: HASH_INIT, or what
 * else it is of. */
uint64_t process_fingerprint(uint64_t h, const struct proc_sample *p);
