#pragma once

#include "store/rollup.h"
#include "store/fold.h"

/*
 * timeline - what was recorded, moment by moment, whoever wrote it: ticks, and the minutes that are
 *all there is of those before.
 *
 *	CLEANUP(timeline_close) struct timeline *t = NULL;
 *
 *	r = timeline_open(store, &filter, with_minutes, &t, err);
 *	while (r == 0 && (r = timeline_next(t, err)) > 0)
 *		if (timeline_fold(t)) … a tick … else … a minute …
 *
 * Told are the ticks that were there when it was opened. Nothing is locked between two calls,
 * however long who reads takes: folds are copied, one at a time for each recorder, and ticks that
 * became a fold meanwhile are found there. No sample is told twice, also if ticks become minutes
 * while it goes on; of the minute in which it stands when it meets that, what is not told yet may
 * be missed.
 */

struct timeline_filter {
	const char *job_id;	/* NULL: any */
	pid_t pid;		/* 0: any */
	uint64_t since_wall_ns; /* from then on */
	uint64_t until_wall_ns; /* up to then; 0: no end */
	struct fold_tick from;	/* not those before it… */
	int64_t last_id;	/* …nor, unless it is 0, those behind it, as in fold.h */
	bool newest_first;	/* against the order of time */
	bool minutes_only;	/* no ticks: of these the minutes, too; of the time whole minutes */
	bool heads_only;	/* as in fold.h */
	unsigned n_words;	/* the same */
};

struct timeline;

int timeline_open(struct store *store, const struct timeline_filter *filter, bool with_minutes,
		  struct timeline **ret, struct err *err);
void timeline_close(struct timeline **t);

/* 1: it stands at the next moment. 0: no more. */
int timeline_next(struct timeline *t, struct err *err);

/* The fold that the tick is in, with the tick as its current one; NULL: it is a minute. */
const struct open_fold *timeline_fold(const struct timeline *t);

/* The rows of the minute. */
struct minute_rows timeline_minute(const struct timeline *t);

/*
 * Into a snapshot that was reset: the processes, each as minute_row_sample() has it, and
 * of how many jobs and sheets they are; the GPUs of the host, and no more of it. Strings are
 * the window's. with_attempts as of a snapshot_filter: then those of one job are counted apart.
 */
int minute_rows_snapshot(struct store *store, const struct minute_rows *m, bool with_attempts,
			 struct snapshot *ret, struct err *err);
