/*
 * fold_calls - the system calls of one process, tick by tick, behind its samples.
 *
 * In a tick they are a list of their own (LIST_SYSCALLS). In a fold they stand behind
 * the process's table of samples: a table for each name, which is a number of the
 * fold's strings.
 */
#ifndef PROCTOR_STORE_FOLD_CALLS_H
#define PROCTOR_STORE_FOLD_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "store/codec.h"

/* ---- into a tick ---- */

/*
 * Which number each name has in the keys of a recorder's ticks. All zero is empty. A program can
 * make up numbers of calls: beyond SYSCALL_NUMBERS names, more than any kernel has, they
 * are left out.
 */
struct call_names {
	struct map numbers; /* by hash */
	char **items;	    /* from 1 on */
	uint64_t *strings;  /* of the tick that is written; unknown: not in it yet */
	size_t n;
};

void call_names_release(struct call_names *names);
void call_names_begin_tick(struct call_names *names);

/* What p has called; processes come by row, ascending. -ENOMEM. */
int tick_add_calls(struct tick *t, struct call_names *names, int64_t process_id,
		   const struct proc_sample *p);

/* ---- out of a fold ---- */

struct fold_calls;

/*
 * data is what stands behind the samples; *ret is NULL where that is nothing. Pointers
 * are those of the arena and the strings. -EBADMSG, -ENOMEM.
 */
int fold_calls_read(const void *data, size_t len, unsigned n_ticks,
		    const struct fold_strings *strings, struct arena *arena,
		    struct fold_calls **ret);

/* Those of a tick; nothing is changed where nobody counted them. */
void fold_calls_tell(const struct fold_calls *calls, unsigned tick, struct proc_sample *ret);

#endif
