/*
 * minute_window - up to an hour of all processes, a row for each and each minute.
 *
 *	CLEANUP(minute_window_free) struct minute_window *w = NULL;
 *
 *	r = minute_window_new(store, &filter, &w, err);
 *	r = minute_window_read(w, from, to, err);
 *	for (size_t i = 0; i < minute_window_count(w); i++)
 *		… minute_window_row(w, i, &row, err) …
 *
 * All of a window is read as of one moment, so it makes no difference what of it has
 * become rollups by then. What is damaged is left out (damage.h).
 */
#ifndef PROCTOR_STORE_MINUTE_WINDOW_H
#define PROCTOR_STORE_MINUTE_WINDOW_H

#include <stdbool.h>

#include "store/minutes.h"
#include "store/store.h"

struct window_filter {
	const char *job_id; /* NULL: any; not used any more once the window is there */
	pid_t pid;	    /* 0: any */
	bool rollups_only;  /* no minutes of samples that are still there */
};

struct minute_window;

int minute_window_new(struct store *store, const struct window_filter *filter,
		      struct minute_window **ret, struct err *err);
void minute_window_free(struct minute_window **w);

/* Whether no process can match, whatever is read. */
bool minute_window_is_empty(const struct minute_window *w);

/*
 * The minutes (unix time by MINUTE_NS) from up to, and without, to, all of one hour.
 * -EOVERFLOW, and err is not set: there are too many rows; fewer minutes are fewer.
 */
int minute_window_read(struct minute_window *w, uint64_t from, uint64_t to, struct err *err);

/* Rows by minute, then as processes were first seen. Their pointers live until the next read. */
size_t minute_window_count(const struct minute_window *w);
uint64_t minute_window_minute(const struct minute_window *w, size_t i);
int64_t minute_window_process(const struct minute_window *w, size_t i); /* its row */

/* With rollups_only: the host's GPUs in this minute, into a snapshot that has none; NULL: none was
 * seen. */
int minute_window_gpus(struct minute_window *w, uint64_t minute, struct snapshot *ret,
		       struct err *err);

/* 1: the row. 0: it is not told, as its process is gone, or it makes no sense. */
int minute_window_row(struct minute_window *w, size_t i, struct minute_row *ret, struct err *err);

#endif
