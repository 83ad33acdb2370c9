/*
 * minute_window - minutes of processes and GPUs, as readers and retention use them; what they are
 * is in minutes.h.
 */
#ifndef PROCTOR_STORE_MINUTE_WINDOW_H
#define PROCTOR_STORE_MINUTE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "store/codec/codec.h"
#include "store/open_fold.h"
#include "store/rollup.h"
#include "store/store.h"

/* ---- while samples are added up: a row for each process and minute, found by both ---- */

struct minute_sum {
	int64_t process;
	uint64_t minute;
	struct rollup_minute sums;
};

struct minute_sums {
	uint64_t from, to; /* minutes that there is room for: to is not part of it */
	struct minute_sum *rows;
	size_t n, cap;
	const struct minute_sum **sorted; /* by minute, then by process */
	size_t cap_sorted;
	struct map row_of; /* process and minute -> place in rows */
};

void minute_sums_release(struct minute_sums *s); /* of one that was zeroed */

/* No rows, for these minutes: an hour at most. */
void minute_sums_begin(struct minute_sums *s, uint64_t from, uint64_t to);

/*
 * ---- the host's GPUs ----
 *
 * The row of an hour stands where that of process 0 would, which there is not: the tables of its
 * GPUs, one behind the other. Several recorders may have looked at the same GPU: their samples
 * count alike. In the sums a GPU's index is what a process's row is for others.
 */

/* Room to work in. */
struct gpu_work {
	struct table t;
	struct rollup rollup;
};

/*
 * Adds those minutes of a fold's GPUs that there is room for; head is its blob. *ret_any is set
 * where there were some. -EBADMSG, -ENOMEM, -EOVERFLOW
 */
int gpu_minutes_add_fold(struct minute_sums *s, const void *head, size_t len,
			 const struct fold_times *times, struct gpu_work *work, bool *ret_any);

/* The row of the hour that the sums are of, if there is one, before anything else is added. The
 * same; for -EBADMSG err is not set. */
int64_t gpu_minutes_row_id(const struct minute_sums *s);
int gpu_minutes_read_row(struct store *store, struct minute_sums *s, struct gpu_work *work,
			 struct err *err);
void gpu_minutes_write(struct buf *out, const struct minute_sums *s, struct gpu_work *work);

/*
 * ---- up to an hour of all processes, a row for each and each minute ----
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

/* ---- minutes in the order of time or against it, one row after the other ---- */

struct minute_walk;

int minute_walk_open(struct store *store, const struct minute_filter *filter, bool newest_first,
		     struct minute_walk **ret, struct err *err);
void minute_walk_close(struct minute_walk **walk);

/* 1: the walk stands at the next row. 0: no more. */
int minute_walk_next(struct minute_walk *walk, struct err *err);

/* Its pointers live until the next step. */
const struct minute_row *minute_walk_row(const struct minute_walk *walk);
int64_t minute_walk_process(const struct minute_walk *walk); /* its row */

#endif
