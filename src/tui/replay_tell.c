/*
 * What happened in a replay, as each moment is reached: events of processes, and anomalies in the
 * words of then.
 */
#include "tui/replay_feed.h"

/* ---- anomalies ---- */

static bool is_new(const struct replay_feed *f, uint64_t wall_ns, uint64_t until_ns)
{
	return wall_ns > f->told_ns && wall_ns <= until_ns;
}

struct telling {
	struct replay_feed *feed;
	uint64_t until_ns;
};

/* As it was then: what it came to later nobody knew. */
static void recall(const struct telling *t, const struct anomaly_row *row, uint64_t until_ns,
		   struct episode *ret)
{
	feed_recall_episode(row, until_ns, ret);
	ret->ended_wall_ns = ends_of_anomaly(&t->feed->ends, row);
}

static void tell_worse(const struct telling *t, const struct anomaly_row *row)
{
	struct episode e;

	for (size_t i = 0; i < row->n_changes; i++) {
		uint64_t wall_ns = row->changes[i].wall_ns;

		if (row->changes[i].change != EPISODE_ESCALATED ||
		    !is_new(t->feed, wall_ns, t->until_ns))
			continue;
		recall(t, row, wall_ns, &e);
		feed_tell_anomaly(t->feed->scene, &e, EPISODE_ESCALATED);
	}
}

/* It may have been over for a while when that was told. */
static void tell_end(const struct telling *t, const struct anomaly_row *row, uint64_t told_ns)
{
	struct episode e;

	feed_recall_end(row, &e);
	if (!u64_known(e.ended_wall_ns))
		e.ended_wall_ns = told_ns;
	feed_tell_anomaly(t->feed->scene, &e, EPISODE_CLEARED);
}

static int tell_anomaly(void *ctx, const struct anomaly_row *row)
{
	const struct telling *t = ctx;
	struct scene *s = t->feed->scene;
	struct episode e;

	if (ends_of_anomaly(&t->feed->ends, row) <= t->feed->told_ns)
		return 0; /* it was over by then */
	recall(t, row, row->episode.began_wall_ns, &e);
	if (is_new(t->feed, e.began_wall_ns, t->until_ns))
		feed_tell_anomaly(s, &e, EPISODE_BEGAN);
	tell_worse(t, row);
	recall(t, row, t->until_ns, &e);
	feed_flag_anomaly(s, &e);
	if (is_new(t->feed, e.ended_wall_ns, t->until_ns))
		tell_end(t, row, e.ended_wall_ns);
	return 0;
}

/*
 * Since when the rows are read: one whose end was told late was over before. Each is asked for at
 * the moment at which it is told, and at the first: one that was told a day late makes one long
 * look, and not each of them.
 */
static uint64_t lasting_since(const struct replay_feed *f, uint64_t until_ns, bool is_first)
{
	uint64_t over_ns = spans_first(&f->late, f->told_ns, is_first ? UINT64_MAX : until_ns);

	return over_ns <= f->told_ns ? over_ns : f->told_ns + 1;
}

/* Of those that began before as well, if they were not over by then. */
static int tell_anomalies(struct replay_feed *f, uint64_t until_ns, bool is_first, struct err *err)
{
	const struct anomaly_filter filter = {
		.job_id = f->options->job_id,
		.until_wall_ns = until_ns,
		.lasting_wall_ns = lasting_since(f, until_ns, is_first),
		.with_changes = true,
	};
	struct telling telling = { f, until_ns };

	if (f->spans.n == 0 || (!is_first && !spans_change(&f->spans, f->told_ns, until_ns) &&
				!spans_change(&f->worse, f->told_ns, until_ns)))
		return 0;
	return store_read_anomalies(f->options->store, &filter, tell_anomaly, &telling, err);
}

/* ---- processes ---- */

static int tell_event(void *ctx, const struct event_row *row)
{
	struct replay_feed *f = ctx;

	feed_tell_process_event(f->scene, &row->event);
	return 0;
}

static int tell_events(struct replay_feed *f, uint64_t until_ns, struct err *err)
{
	const struct event_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = f->told_ns + 1,
		.until_wall_ns = until_ns,
	};

	return store_read_events(f->options->store, &filter, tell_event, f, err);
}

int replay_tell_past(struct replay_feed *f, uint64_t until_ns, bool is_first, struct err *err)
{
	int r = tell_anomalies(f, until_ns, is_first, err);

	if (r < 0 || until_ns <= f->told_ns)
		return r;
	r = tell_events(f, until_ns, err);
	f->told_ns = until_ns;
	return r;
}
