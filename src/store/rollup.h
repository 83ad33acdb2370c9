/*
 * rollup - samples of a process or a GPU as minutes, and an hour of those as few bytes.
 * Pure functions, no database.
 *
 * A sample's value that is unknown counts for nothing. Of gauges a minute has the
 * sum, the least and the largest, of everything the last that was known. All are
 * exact, and the same in whatever order samples are added, except for the last where
 * an older sample comes after a newer one that did not know the value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "store/codec/codec.h"
#include "store/fold.h"
#include "store/store.h"

#define MINUTE_NS (UINT64_C(60) * 1000000000)
#define HOUR_NS (60 * MINUTE_NS)
#define ROLLUP_MINUTES 60

/* As the file holds times. */
static inline int64_t minute_begin_ns(uint64_t minute)
{
	return minute > INT64_MAX / MINUTE_NS ? INT64_MAX : (int64_t)(minute * MINUTE_NS);
}

/* Of what: a process (enum sample_word) or a GPU of the host (enum gpu_word). */
enum rollup_kind { ROLLUP_SAMPLES, ROLLUP_GPUS };

/* The id of a row of minutes is hour << ROLLUP_BITS | group; the hour is unix time by HOUR_NS. */
#define ROLLUP_BITS 30

#define ROLLUP_GAUGES SAMPLE_N_GAUGES /* at most: of a process; a GPU has fewer */

struct rollup_gauge {
	uint64_t n;   /* samples that knew it; 0: all else here means nothing */
	uint64_t sum; /* U64_UNKNOWN: more than fits */
	uint64_t min, max;
};

struct rollup_minute {
	uint64_t n;		     /* samples; 0: all else here means nothing */
	int64_t last_tick;	     /* the newest of their ticks */
	uint64_t last[SAMPLE_WORDS]; /* of a GPU the first GPU_WORDS */
	struct rollup_gauge gauges[ROLLUP_GAUGES];
};

struct rollup {
	struct rollup_minute minutes[ROLLUP_MINUTES];
};

void rollup_init(struct rollup *rollup); /* no samples */

/*
 * The minute of row from (unix time by MINUTE_NS), and behind which row another
 * begins; wall_ns is that of the table's ticks.
 */
unsigned rollup_find_run(const struct table *samples, unsigned from, const uint64_t *wall_ns,
			 uint64_t *ret_minute);

/* Adds rows from up to, and without, to; tick_ids are those of the table's ticks. */
void rollup_minute_add(struct rollup_minute *m, enum rollup_kind kind, const struct table *samples,
		       unsigned from, unsigned to, const int64_t *tick_ids);

/* At least one minute has samples. t is room to work in, here and below. */
void rollup_write(struct buf *out, const struct rollup *rollup, enum rollup_kind kind,
		  struct table *t);
/* The bytes that were read, or -EBADMSG. */
ssize_t rollup_read(const void *data, size_t len, enum rollup_kind kind, struct table *t,
		    struct rollup *ret);

/* All of the row that comes from samples; row->last holds who it is. -EBADMSG */
int rollup_minute_tell(const struct rollup_minute *m, struct minute_row *row);

/* A minute of a GPU as one sample: averages where it has them, else the last. -EBADMSG */
int rollup_minute_tell_gpu(const struct rollup_minute *m, struct gpu_sample *ret);

/*
 * minutes of processes and GPUs, as readers and retention use them; what they are is in store.h.
 */

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
 * The row of an hour stands behind that of group 0: a pack of the tables of its GPUs, one behind
 * the other. Several recorders may have looked at the same GPU: their samples count alike. In the
 * sums a GPU's index is what a process's row is for others.
 */

/* Room to work in. */
struct gpu_work {
	struct table t;
	struct rollup rollup;
	struct buf raw;
};

/*
 * Adds those minutes of a fold's GPUs that there is room for. *ret_any is set where there were
 * some. -EBADMSG, -ENOMEM, -EOVERFLOW
 */
int gpu_minutes_add_fold(struct minute_sums *s, struct fold_reader things,
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
 *	r = minute_window_new(store, job_id, pid, false, &w, err);
 *	r = minute_window_read(w, from, to, err);
 *	rows = minute_window_rows(w, 0, false);
 *	for (size_t i = 0; i < rows.n; i++)
 *		… minute_window_row(w, rows.first + i, &row, err) …
 *
 * All of a window is read as of one moment, so it makes no difference what of it has
 * become rollups by then. What is damaged is left out (damage.h).
 */

struct minute_window;

/* job_id NULL and pid 0 are any. rollups_only: no minutes of samples that are still there. */
int minute_window_new(struct store *store, const char *job_id, pid_t pid, bool rollups_only,
		      struct minute_window **ret, struct err *err);
void minute_window_free(struct minute_window **w);

/* Whether no process can match, whatever is read. */
bool minute_window_is_empty(const struct minute_window *w);

/*
 * The minutes (unix time by MINUTE_NS) from up to, and without, to, all of one hour.
 * -EOVERFLOW, and err is not set: there are too many rows; fewer minutes are fewer.
 */
int minute_window_read(struct minute_window *w, uint64_t from, uint64_t to, struct err *err);

/* Rows of one minute: those of the window from first on. */
struct minute_rows {
	struct minute_window *window;
	size_t first, n;
	uint64_t minute; /* unix time by MINUTE_NS */
};

/* Those from this row on; newest_first: those that end before it. n is 0 if there are none. Rows
 * stand by minute, then as processes were first seen. */
struct minute_rows minute_window_rows(struct minute_window *w, size_t at, bool newest_first);

/* With rollups_only: the host's GPUs in this minute, into a snapshot that has none; NULL: none was
 * seen. */
int minute_window_gpus(struct minute_window *w, uint64_t minute, struct snapshot *ret,
		       struct err *err);

/* 1: the row; its pointers live until the next read. 0: it is not told, as its process is gone, or
 * it makes no sense. */
int minute_window_row(struct minute_window *w, size_t i, struct minute_row *ret, struct err *err);
