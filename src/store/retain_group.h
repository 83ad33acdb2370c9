/*
 * retain_group - folds whose samples become minutes together: the oldest, and the
 * recorder's next ones of the same hour, so that a row of minutes is mostly written once.
 *
 * Processes are taken one after the other, by id. Up to which one that was done stands in
 * each fold (rolled_to): who reads minutes takes those from the rollups and the others
 * from the chunks. The chunks stay until the last is done. So who reads ticks finds a
 * whole fold, and then none.
 */
#ifndef PROCTOR_STORE_RETAIN_GROUP_H
#define PROCTOR_STORE_RETAIN_GROUP_H

#include "store/fold_times.h"
#include "store/retain.h"

#define GROUP_FOLDS 8

struct old_fold {
	int64_t id;
	int64_t rolled_to; /* as it stands in the database */
	int64_t next;	   /* the first process that is not in minutes; 0: all are */
	struct fold_times times;
};

struct fold_group {
	struct slice *slice;
	struct store *store;
	struct old_fold folds[GROUP_FOLDS];
	unsigned n;
	int64_t rolled_to; /* the last process that was done */
	struct table t;	   /* room to work in */
};

/*
 * The folds that ended before the cutoff, or were begun. 1: there is something to do, which
 * may have been to drop what is damaged. 0: nothing is left.
 */
int fold_group_load(struct fold_group *g, struct slice *slice, int64_t cutoff_ns, struct err *err);

/* The next process of any of them; 0: none is left. */
int64_t fold_group_next(const struct fold_group *g);

/* Its samples are in minutes. */
int fold_group_pass(struct fold_group *g, int64_t process, struct err *err);

/* Puts down how far it went; in the transaction that has the minutes. */
int fold_group_mark(struct fold_group *g, struct err *err);

/* Removes what is all in minutes, after fold_group_mark(). 1: the slice is over. */
int fold_group_drop(struct fold_group *g, struct err *err);

/* The GPUs of folds that were not begun become minutes, from this hour on (retain_gpus.c). */
int retain_roll_gpus(struct fold_group *g, uint64_t first_hour, struct err *err);

#endif
