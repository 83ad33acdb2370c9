/*
 * minutes - what was recorded, a minute at a time: for as long as rollups are kept.
 *
 * Where every sample is still there the minutes are made of those, so it does not
 * show where one ends and the other begins. Part of store.h.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/snapshot.h"

struct store;
struct history_filter; /* of its time whole minutes, the first and the last of them too */

/* Over the samples that knew it; NaN where none did. */
struct sample_averages {
#define SAMPLE_GAUGE(kind_, member_, ...) double member_;
#include "model/sample_fields.def"
};

/* One process in one minute. */
struct minute_row {
	uint64_t wall_ns; /* when the minute begins */
	int attempt_num;
	int64_t attempt_id;
	int64_t process; /* its row */
	uint64_t n_samples;
	struct sample_averages avg;
	struct proc_sample min, max; /* of what has an average; all else is unknown */
	struct proc_sample last;     /* who it is, and each value as it was known last in this
					minute, but the age; its pointers are valid during the call */
};
typedef int minute_fn(void *ctx, const struct minute_row *row); /* non-zero stops, is returned */

/* What a minute's values stand for, beside those of samples. */
#define MINUTE_SECONDS 60.0

/*
 * A minute as one sample: the averages of what goes up and down, to the byte; the largest
 * high-water mark; of all else the last, and the age unknown.
 */
void minute_row_sample(const struct minute_row *row, struct proc_sample *ret);

/*
 * Calls fn for every process and minute that matches, by time and then in the
 * order in which processes were first seen. Nothing is locked while fn runs.
 * When the clock was set back a minute may come twice in a process's life: that
 * is one row.
 */
int store_read_minutes(struct store *store, const struct history_filter *filter, minute_fn *fn,
		       void *ctx, struct err *err);
