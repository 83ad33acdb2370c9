/*
 * timeline - what was recorded, moment by moment: ticks, and the minutes that are all there
 * is of those before.
 *
 *	CLEANUP(timeline_close) struct timeline *t = NULL;
 *
 *	r = timeline_open(store, &filter, &t, err);
 *	while (r == 0 && (r = timeline_next(t, err)) > 0)
 *		if (timeline_fold(t)) … a tick … else … a minute …
 *
 * No sample is told twice, also if ticks become minutes while it goes on; of the minute in
 * which it stands when it meets that, what is not told yet may be missed. Otherwise as walk.h.
 */
#ifndef PROCTOR_STORE_TIMELINE_H
#define PROCTOR_STORE_TIMELINE_H

#include "store/minute_window.h"
#include "store/walk.h"

struct timeline;

/* Without minutes it is a walk. With them filter->newest is not used. */
int timeline_open(struct store *store, const struct walk_filter *filter, bool with_minutes,
		  struct timeline **ret, struct err *err);
void timeline_close(struct timeline **t);

/* 1: it stands at the next moment. 0: no more. */
int timeline_next(struct timeline *t, struct err *err);

/* The fold that the tick is in, with the tick as its current one; NULL: it is a minute. */
const struct open_fold *timeline_fold(const struct timeline *t);

/* The rows of the minute: those of the window from first on. */
struct minute_rows {
	struct minute_window *window;
	size_t first, n;
	uint64_t minute; /* unix time by MINUTE_NS */
};
struct minute_rows timeline_minute(const struct timeline *t);

/*
 * Into a snapshot that was reset: the processes, each as minute_row_sample() has it, and
 * of how many jobs and sheets they are; the GPUs of the host, and no more of it. Strings are
 * the window's. with_attempts as of a snapshot_filter: then those of one job are counted apart.
 */
int minute_rows_snapshot(struct store *store, const struct minute_rows *m, bool with_attempts,
			 struct snapshot *ret, struct err *err);

#endif
