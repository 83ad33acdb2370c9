/*
 * timeline_minute - a minute of a timeline as a snapshot.
 */
#ifndef PROCTOR_STORE_TIMELINE_MINUTE_H
#define PROCTOR_STORE_TIMELINE_MINUTE_H

#include "store/timeline.h"

/*
 * Into a snapshot that was reset: the processes, each as minute_row_sample() has it, and
 * of how many jobs and sheets they are; the GPUs of the host, and no more of it. Strings are
 * the window's. with_attempts as of a snapshot_filter: then those of one job are counted apart.
 */
int minute_rows_snapshot(struct store *store, const struct minute_rows *m, bool with_attempts,
			 struct snapshot *ret, struct err *err);

#endif
