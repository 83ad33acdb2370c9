/*
 * unowned - signals and OOM kills of processes of which nobody knows yet whose they are.
 *
 * The daemon hears of a job some time after its first command was started, and by then that may
 * have been killed. So for some seconds it is kept who was born of whom, and what happened to
 * strangers: once a job is known, what was its is found by its ancestors.
 */
#ifndef PROCTOR_DAEMON_UNOWNED_H
#define PROCTOR_DAEMON_UNOWNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "sources/sources.h"

/* All zero is an empty one. */
struct unowned {
	struct map parents[2];	  /* pid -> parent: the newer births, and those before */
	uint64_t turned_wall_ns;  /* when the newer ones began */
	struct life_event *items; /* the oldest first */
	size_t n;
	uint64_t n_dropped; /* before their time, for want of room */
};

void unowned_release(struct unowned *u);

/* A birth of which the parent is nobody's, as far as is known. */
void unowned_note_birth(struct unowned *u, const struct life_event *ev);

/* The parent of one that was born within the last seconds; 0: unknown. */
pid_t unowned_parent(const struct unowned *u, pid_t pid);

/* Something has happened to a process that is nobody's, as far as is known. */
void unowned_keep(struct unowned *u, const struct life_event *ev);

/* True: it was somebody's, and is kept no longer. Does not change u. */
typedef bool unowned_fn(void *ctx, const struct life_event *ev);

/* Asks again of each, and forgets those that are too old by now. */
void unowned_place(struct unowned *u, uint64_t now_wall_ns, unowned_fn *fn, void *ctx);

#endif
