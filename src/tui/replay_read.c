/*
 * What there is to be replayed: the moments at which somebody looked, and when jobs, sheets and
 * anomalies began and ended.
 */
#include <errno.h>

#include "base/unknown.h"
#include "tui/replay_feed.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* An end that is unknown is later than all. */
static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* From its first beginning to its last end: what others did before and after is not its own. */
static void keep_to_job(struct replay_feed *f, const struct attempt_list *list)
{
	uint64_t began_ns = U64_UNKNOWN, ended_ns = 0;

	for (size_t i = 0; i < list->n; i++) {
		began_ns = earlier(began_ns, list->items[i].started_wall_ns);
		ended_ns = later(ended_ns, list->items[i].ended_wall_ns);
	}
	if (list->n == 0)
		return;
	if (u64_known(began_ns) && began_ns > f->first_ns)
		f->first_ns = began_ns;
	if (u64_known(ended_ns) && (f->last_ns == 0 || ended_ns < f->last_ns))
		f->last_ns = ended_ns; /* else it goes on, or nobody knows how long it did */
}

static int read_attempts(struct replay_feed *f, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = f->options->job_id,
					       .since_wall_ns = f->options->since_wall_ns };
	int r = store_list_attempts(f->options->store, &filter, &list, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < list.n; i++) {
		r = merge_add_attempt(&f->merge, &list.items[i]);
		if (r == 0)
			r = ends_add(&f->ends, &list.items[i]);
		if (r < 0)
			return err_set(err, r, "out of memory");
		r = changes_add(&f->changes, f->options->store, &list.items[i], err);
	}
	changes_sort(&f->changes);
	if (f->options->job_id)
		keep_to_job(f, &list);
	return r;
}

static int note_snapshot(void *ctx, const struct snapshot *snap)
{
	struct replay_feed *f = ctx;

	return moments_add(&f->moments, snap);
}

static int read_moments(struct replay_feed *f, struct err *err)
{
	const struct snapshot_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = f->first_ns,
		.until_wall_ns = f->last_ns,
		.with_minutes = true,
	};
	int r = store_read_snapshots(f->options->store, &filter, note_snapshot, f, err);

	if (r < 0 || f->moments.n > 0)
		return r;
	if (f->options->job_id)
		return err_set(err, -ENODATA, "nothing was recorded of job %s in that time",
			       f->options->job_id);
	return err_set(err, -ENODATA, "nothing was recorded in that time");
}

static int add_span(void *ctx, const struct anomaly_row *row)
{
	struct replay_feed *f = ctx;
	uint64_t told_ns = ends_of_anomaly(&f->ends, row);
	int r = spans_add(&f->spans, row->episode.began_wall_ns, told_ns);

	if (r == 0 && u64_known(row->episode.ended_wall_ns) && told_ns > row->episode.ended_wall_ns)
		r = spans_add(&f->late, row->episode.ended_wall_ns, told_ns);
	for (size_t i = 0; r == 0 && i < row->n_changes; i++)
		if (row->changes[i].change == EPISODE_ESCALATED)
			r = spans_add(&f->worse, row->changes[i].wall_ns, row->changes[i].wall_ns);
	return r;
}

/* Of one that was over before, the end may be told within what is replayed. */
#define END_TOLD_LATE_NS UINT64_C(3600000000000)

int replay_read(struct replay_feed *f, struct err *err)
{
	uint64_t since_ns = f->options->since_wall_ns;
	const struct anomaly_filter anomalies = {
		.job_id = f->options->job_id,
		.until_wall_ns = f->options->until_wall_ns,
		.lasting_wall_ns =
			since_ns > END_TOLD_LATE_NS ? since_ns - END_TOLD_LATE_NS : since_ns,
		.with_changes = true,
	};
	int r = read_attempts(f, err);

	if (r == 0)
		r = read_moments(f, err);
	if (r == 0)
		r = store_read_anomalies(f->options->store, &anomalies, add_span, f, err);
	spans_sort(&f->late); /* each episode has its own order */
	spans_sort(&f->worse);
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}
