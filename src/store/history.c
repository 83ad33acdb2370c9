#include "base/macros.h"
#include "base/unknown.h"
#include "store/rollup.h"
#include "store/timeline.h"

/* ---- samples ---- */

static int tell_samples(struct store *store, const struct open_fold *fold, history_fn *fn,
			void *ctx, struct err *err)
{
	struct history_row row = {
		.wall_ns = fold->ticks[fold->current].wall_ns,
		.resolution_seconds = F64_UNKNOWN,
		.n_samples = 1,
	};

	for (size_t i = 0; i < fold->n_processes; i++) {
		int r = open_fold_sample(store, fold, i, &row.sample, &row.attempt_num, err);

		if (r > 0)
			r = fn(ctx, &row);
		if (r != 0)
			return r;
	}
	return 0;
}

static int tell_minute(const struct minute_rows *m, history_fn *fn, void *ctx, struct err *err)
{
	struct history_row row = {
		.wall_ns = m->minute * MINUTE_NS,
		.resolution_seconds = MINUTE_SECONDS,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct minute_row minute;

		r = minute_window_row(m->window, m->first + i, &minute, err);
		if (r <= 0)
			continue;
		row.attempt_num = minute.attempt_num;
		row.n_samples = minute.n_samples;
		minute_row_sample(&minute, &row.sample);
		r = fn(ctx, &row);
	}
	return r;
}

int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = NULL;
	const struct walk_filter moments = {
		.job_id = filter->job_id,
		.pid = filter->pid,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns,
	};
	int r = timeline_open(store, &moments, filter->with_minutes, &t, err);

	while (r == 0 && (r = timeline_next(t, err)) > 0) {
		const struct open_fold *fold = timeline_fold(t);
		const struct minute_rows minute = timeline_minute(t);

		r = fold ? tell_samples(store, fold, fn, ctx, err)
			 : tell_minute(&minute, fn, ctx, err);
	}
	return r;
}

/* ---- snapshots ---- */

static int tell_snapshot(struct store *store, const struct timeline *t,
			 const struct snapshot_filter *filter, struct snapshot *snap,
			 snapshot_fn *fn, void *ctx, struct err *err)
{
	unsigned parts = FOLD_ALL | (filter->with_attempts ? FOLD_ATTEMPTS : 0);
	const struct open_fold *fold = timeline_fold(t);
	const struct minute_rows minute = timeline_minute(t);
	int r;

	snapshot_reset(snap);
	r = fold ? open_fold_snapshot(store, fold, parts, snap, err)
		 : minute_rows_snapshot(store, &minute, filter->with_attempts, snap, err);
	if (r == 0 && filter->job_id && !snapshot_covers(snap, filter->job_id))
		return 0; /* it says nothing of the job, which is not that it was gone */
	return r < 0 ? r : fn(ctx, snap);
}

int store_read_snapshots(struct store *store, const struct snapshot_filter *filter, snapshot_fn *fn,
			 void *ctx, struct err *err)
{
	CLEANUP(timeline_close) struct timeline *t = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct walk_filter moments = {
		.job_id = filter->job_id,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns,
		.newest = filter->limit,
	};
	int r;

	snapshot_init(&snap);
	r = timeline_open(store, &moments, filter->with_minutes, &t, err);
	while (r == 0 && (r = timeline_next(t, err)) > 0)
		r = tell_snapshot(store, t, filter, &snap, fn, ctx, err);
	return r;
}
