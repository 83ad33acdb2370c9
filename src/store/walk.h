/*
 * walk - recorded ticks in the order of time or against it, whoever wrote them.
 *
 *	CLEANUP(walk_close) struct walk *walk = NULL;
 *
 *	r = walk_open(store, &filter, &walk, err);
 *	while (r == 0 && (r = walk_next(walk, err)) > 0)
 *		…
 *
 * Told are the ticks that were there when it was opened. Nothing is locked
 * between two calls, however long who reads takes: folds are copied, one at a
 * time for each recorder, and ticks that became a fold meanwhile are found there.
 */
#ifndef PROCTOR_STORE_WALK_H
#define PROCTOR_STORE_WALK_H

#include "store/open_fold.h"

struct walk_filter {
	const char *job_id;	/* NULL: any */
	pid_t pid;		/* 0: any */
	uint64_t since_wall_ns; /* from then on */
	uint64_t until_wall_ns; /* up to then; 0: no end */
	size_t newest;		/* 0: all; else the newest so many ticks */
	bool newest_first;	/* against the order of time */
	bool skips_rolled;	/* not what is in rollups as well: it is told as minutes */
	bool heads_only;	/* as in open_fold.h */
	unsigned n_words;	/* the same */
};

struct walk;

int walk_open(struct store *store, const struct walk_filter *filter, struct walk **ret,
	      struct err *err);
void walk_close(struct walk **walk);

/*
 * 1: the walk stands at the next tick. 0: no more. -ESTALE, with skips_rolled, and err is
 * not set: what comes next has become rollups since the walk was opened.
 */
int walk_next(struct walk *walk, struct err *err);

/* The fold that the tick is in, with the tick as its current one. */
const struct open_fold *walk_fold(const struct walk *walk);

#endif
