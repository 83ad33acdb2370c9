/*
 * signal_list - signals and OOM kills: which of a job's are listed in its record, and those of
 * processes of which nobody knows yet whose they are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "model/job.h"
#include "sources/sources.h"

/*
 * ---- of one job ----
 *
 * A storm of them is worth a few lines, and must not take the room of the one that ends the job:
 * the same signal, from the same sender to the same process, is listed some times, one that was
 * not seen before when others have no room any more, and a kill when neither has. Of those that
 * are not listed the last is, or the last kill, with their number, when the job ends.
 */

#define SIGNAL_LIST_SAME 20	  /* of the same kind */
#define SIGNAL_LIST_REPEATED 1000 /* unless it is the first of its kind */
#define SIGNAL_LIST_FIRST 2000	  /* unless it kills */
#define SIGNAL_LIST_KILLS 3000

struct unlisted;

/* All zero is a good beginning. */
struct signal_list {
	size_t n;		   /* that are listed */
	struct map n_same;	   /* the hash of a kind -> how many there were */
	struct unlisted *unlisted; /* NULL: there were none */
};

void signal_list_release(struct signal_list *list);

/* True: it is to be listed, and takes its place. */
bool signal_list_take(struct signal_list *list, const struct proc_event *ev, pid_t sender);

/* The job is over: the event that stands for those that were not listed, or NULL. Valid until the
 * list is released. */
const struct proc_event *signal_list_end(struct signal_list *list);

/*
 * ---- of processes of which nobody knows yet whose they are ----
 *
 * The daemon learns of a job some time after its first command was started, and by then that may
 * have been killed. So for some seconds it is kept who was born of whom, and what happened to
 * strangers: once a job is known, what was its is found by its ancestors.
 */

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
