#include "base/macros.h"
#include "store/walk.h"

static int tell_samples(struct store *store, const struct open_fold *fold, history_fn *fn,
			void *ctx, struct err *err)
{
	struct history_row row = { .wall_ns = fold->ticks[fold->current].wall_ns };

	for (size_t i = 0; i < fold->n_processes; i++) {
		int r = open_fold_sample(store, fold, i, &row.sample, &row.attempt_num, err);

		if (r > 0)
			r = fn(ctx, &row);
		if (r != 0)
			return r;
	}
	return 0;
}

int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(walk_close) struct walk *walk = NULL;
	const struct walk_filter ticks = {
		.job_id = filter->job_id,
		.pid = filter->pid,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns,
	};
	int r = walk_open(store, &ticks, &walk, err);

	while (r == 0 && (r = walk_next(walk, err)) > 0)
		r = tell_samples(store, walk_fold(walk), fn, ctx, err);
	return r;
}

static int tell_snapshot(struct store *store, const struct open_fold *fold, struct snapshot *snap,
			 snapshot_fn *fn, void *ctx, struct err *err)
{
	int r;

	snapshot_reset(snap);
	r = open_fold_snapshot(store, fold, FOLD_ALL, snap, err);
	return r < 0 ? r : fn(ctx, snap);
}

int store_read_snapshots(struct store *store, const struct snapshot_filter *filter, snapshot_fn *fn,
			 void *ctx, struct err *err)
{
	CLEANUP(walk_close) struct walk *walk = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct walk_filter ticks = {
		.job_id = filter->job_id,
		.since_wall_ns = filter->since_wall_ns,
		.until_wall_ns = filter->until_wall_ns,
		.newest = filter->limit,
	};
	int r;

	snapshot_init(&snap);
	r = walk_open(store, &ticks, &walk, err);
	while (r == 0 && (r = walk_next(walk, err)) > 0)
		r = tell_snapshot(store, walk_fold(walk), &snap, fn, ctx, err);
	return r;
}
