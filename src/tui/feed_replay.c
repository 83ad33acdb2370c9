/*
 * feed_replay - what was recorded, as fast as its user wants.
 *
 * Only the moments of all snapshots are kept; each is read when its turn comes, so a week
 * takes no more memory than a minute.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "tui/feed.h"

#define FRAME_MS 100
#define WARM_UP 64 /* snapshots before the one that is jumped to, for its curves */

#define MAX_SPANS 65536

/* An anomaly, from when to when; U64_UNKNOWN: nobody saw its end. */
struct span {
	uint64_t began_ns, ended_ns;
};

struct replay_feed {
	const struct tui_options *options;
	uint64_t *moments;
	size_t n, cap, at;	/* at: the next one to be shown */
	uint64_t shown_boot_ns; /* when the last one was */
	struct scene *scene;	/* while it is filled */
	uint64_t events_until_ns;
	struct span *spans; /* by when they began */
	size_t n_spans, cap_spans;
};

/* ---- moments ---- */

static int add_moment(void *ctx, const struct snapshot *snap)
{
	struct replay_feed *f = ctx;

	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 1024;
		uint64_t *moments = reallocarray(f->moments, cap, sizeof(*moments));

		if (!moments)
			return -ENOMEM;
		f->moments = moments;
		f->cap = cap;
	}
	if (f->n == 0 || f->moments[f->n - 1] != snap->wall_ns)
		f->moments[f->n++] = snap->wall_ns;
	return 0;
}

/* ---- anomalies ---- */

static int add_span(void *ctx, const struct anomaly_row *row)
{
	struct replay_feed *f = ctx;

	if (f->n_spans == MAX_SPANS)
		return 0;
	if (f->n_spans == f->cap_spans) {
		size_t cap = f->cap_spans ? f->cap_spans * 2 : 64;
		struct span *spans = reallocarray(f->spans, cap, sizeof(*spans));

		if (!spans)
			return -ENOMEM;
		f->spans = spans;
		f->cap_spans = cap;
	}
	f->spans[f->n_spans++] =
		(struct span){ row->episode.began_wall_ns, row->episode.ended_wall_ns };
	return 0;
}

/* That were going on at that moment. */
static uint64_t count_spans(const struct replay_feed *f, uint64_t at_ns)
{
	uint64_t n = 0;

	for (size_t i = 0; i < f->n_spans && f->spans[i].began_ns <= at_ns; i++)
		n += !u64_known(f->spans[i].ended_ns) || f->spans[i].ended_ns > at_ns;
	return n;
}

static int tell_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct replay_feed *f = ctx;

	feed_tell_anomaly(f->scene, &row->episode);
	return 0;
}

static int tell_anomalies(struct replay_feed *f, uint64_t until_ns, struct err *err)
{
	const struct anomaly_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = f->events_until_ns + 1,
		.until_wall_ns = until_ns,
	};

	f->scene->n_anomalies = count_spans(f, until_ns);
	if (f->n_spans == 0 || until_ns <= f->events_until_ns)
		return 0;
	return store_read_anomalies(f->options->store, &filter, tell_anomaly, f, err);
}

/* ---- one of them ---- */

static int show(void *ctx, const struct snapshot *snap)
{
	struct replay_feed *f = ctx;

	return scene_add_snapshot(f->scene, snap) < 0 ? -ENOMEM : 1;
}

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
		.since_wall_ns = f->events_until_ns + 1,
		.until_wall_ns = until_ns,
	};
	int r;

	if (until_ns <= f->events_until_ns)
		return 0;
	r = store_read_events(f->options->store, &filter, tell_event, f, err);
	f->events_until_ns = until_ns;
	return r;
}

static int show_at(struct replay_feed *f, size_t i, struct err *err)
{
	const struct snapshot_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = f->moments[i],
		.until_wall_ns = f->moments[i],
		.with_minutes = true,
	};
	int r = store_read_snapshots(f->options->store, &filter, show, f, err);

	if (r >= 0)
		r = tell_anomalies(f, f->moments[i], err);
	if (r >= 0)
		r = tell_events(f, f->moments[i], err);
	return r < 0 ? r : 0;
}

/* Curves and events begin anew; those shortly before are shown in passing. */
static int jump(struct replay_feed *f, struct scene *s, size_t i, struct err *err)
{
	size_t from = i > WARM_UP ? i - WARM_UP : 0;
	int r = 0;

	tracks_release(&s->tracks);
	scene_forget_events(s);
	f->events_until_ns = f->moments[from] > 0 ? f->moments[from] - 1 : 0;
	f->scene = s;
	for (; r == 0 && from <= i; from++)
		r = show_at(f, from, err);
	f->scene = NULL;
	f->at = i + 1;
	f->shown_boot_ns = clock_boot_ns();
	return r;
}

static int advance(struct replay_feed *f, struct scene *s, struct err *err)
{
	int r;

	f->scene = s;
	r = show_at(f, f->at++, err);
	f->scene = NULL;
	f->shown_boot_ns = clock_boot_ns();
	return r < 0 ? r : 1;
}

/* ---- when ---- */

/* How long after the last one the next is due. */
static uint64_t pause_ns(const struct replay_feed *f, const struct scene *s)
{
	uint64_t gap = f->at > 0 && f->at < f->n ? f->moments[f->at] - f->moments[f->at - 1] : 0;

	return (uint64_t)((double)gap / s->replay.speed);
}

static int replay_pump(void *ctx, struct scene *s, struct err *err)
{
	struct replay_feed *f = ctx;
	uint64_t limit = clock_boot_ns() + FRAME_MS * UINT64_C(1000000);
	int r = 0, n_shown = 0;

	s->replay.is_over = f->at >= f->n;
	if (s->is_paused && f->at > 0)
		return 0;
	/* Faster than the screen: several go by between two frames. */
	while (r >= 0 && f->at < f->n && clock_boot_ns() < limit &&
	       clock_boot_ns() - f->shown_boot_ns >= pause_ns(f, s)) {
		r = advance(f, s, err);
		n_shown++;
	}
	s->replay.is_over = f->at >= f->n;
	return r < 0 ? r : n_shown > 0;
}

static int replay_timeout(void *ctx, const struct scene *s)
{
	const struct replay_feed *f = ctx;
	uint64_t due = f->shown_boot_ns + pause_ns(f, s), now = clock_boot_ns();

	if (f->at >= f->n || (s->is_paused && f->at > 0))
		return -1;
	return now >= due ? 0 : (int)((due - now) / 1000000) + 1;
}

/* ---- wishes ---- */

static int step(struct replay_feed *f, struct scene *s, int steps, struct err *err)
{
	size_t shown = f->at > 0 ? f->at - 1 : 0;

	if (steps > 0)
		return f->at < f->n ? advance(f, s, err) : 0;
	return shown > 0 ? jump(f, s, shown - 1, err) : 0;
}

static int grant_step(struct replay_feed *f, struct scene *s, const struct wish *wish,
		      struct err *err)
{
	int r = step(f, s, wish->steps, err);

	s->replay.is_over = f->at >= f->n;
	return r < 0 ? r : 0;
}

/* The first moment at which one is there that began after the moment that is shown. */
static int grant_anomaly(struct replay_feed *f, struct scene *s, struct err *err)
{
	uint64_t shown_ns = f->at > 0 ? f->moments[f->at - 1] : 0;
	size_t i = 0, to = f->at;
	int r;

	while (i < f->n_spans && f->spans[i].began_ns <= shown_ns)
		i++;
	while (i < f->n_spans && to < f->n && f->moments[to] < f->spans[i].began_ns)
		to++;
	if (i == f->n_spans || to == f->n)
		return err_set(err, -ENOENT, "no anomaly began later");
	r = jump(f, s, to, err);
	s->replay.is_over = f->at >= f->n;
	return r;
}

static int replay_grant(void *ctx, struct scene *s, const struct wish *wish, struct err *err)
{
	struct replay_feed *f = ctx;

	switch (wish->kind) {
	case WISH_STEP:
		return grant_step(f, s, wish, err);
	case WISH_NEXT_ANOMALY:
		return grant_anomaly(f, s, err);
	default:
		return -EOPNOTSUPP;
	}
}

static void replay_close(void *ctx)
{
	struct replay_feed *f = ctx;

	free(f->moments);
	free(f->spans);
	free(f);
}

static const struct feed_ops replay_ops = {
	.timeout_ms = replay_timeout,
	.pump = replay_pump,
	.grant = replay_grant,
	.close = replay_close,
};

int feed_open_replay(const struct tui_options *options, struct feed *ret, struct err *err)
{
	const struct snapshot_filter filter = {
		.job_id = options->job_id,
		.since_wall_ns = options->since_wall_ns,
		.until_wall_ns = options->until_wall_ns,
		.with_minutes = true,
	};
	const struct anomaly_filter anomalies = {
		.job_id = options->job_id,
		.until_wall_ns = options->until_wall_ns,
	};
	struct replay_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->options = options;
	r = store_read_snapshots(options->store, &filter, add_moment, f, err);
	if (r == 0)
		r = store_read_anomalies(options->store, &anomalies, add_span, f, err);
	if (r == 0 && f->n == 0)
		r = err_set(err, -ENODATA, "nothing was recorded in that time");
	if (r < 0) {
		replay_close(f);
		return r;
	}
	f->events_until_ns = f->moments[0] > 0 ? f->moments[0] - 1 : 0;
	*ret = (struct feed){ &replay_ops, f };
	return 0;
}
