/*
 * feed_replay - what was recorded, as fast as its user wants.
 *
 * Only the moments of all snapshots are kept; each is read when its turn comes, so a week
 * takes no more memory than a minute. What several recorders saw at about the same time is one
 * moment, and at each of them all that were looking then are shown (merge.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "tui/draw.h"
#include "tui/replay_feed.h"

#define FRAME_MS 100
#define WARM_UP 64 /* moments before the one that is jumped to, for curves */
#define LOOK_BACK_NS UINT64_C(60000000000) /* for who was looking when it begins */

#define FRACTION_NS (MOMENT_NS * 9 / 10) /* a look each second may come a little early */
#define SHOWN_GAP_NS (2 * MOMENT_NS)	 /* more than MOMENTS_LONG_GAP_NS is not sat through */

/* ---- one moment ---- */

static int take_snapshot(void *ctx, const struct snapshot *snap)
{
	struct replay_feed *f = ctx;

	return merge_add(&f->merge, snap);
}

static int take_snapshots(struct replay_feed *f, uint64_t since_ns, uint64_t until_ns,
			  struct err *err)
{
	const struct snapshot_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = since_ns,
		.until_wall_ns = until_ns,
		.with_minutes = true,
		.with_attempts = true,
	};
	int r = store_read_snapshots(f->options->store, &filter, take_snapshot, f, err);

	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

static void tell_gap(struct scene *s, uint64_t wall_ns, uint64_t gap_ns)
{
	struct scene_event event = { .wall_ns = wall_ns, .kind = EVENT_KIND_JOB };
	char room[DRAW_NUMBER_BYTES];

	snprintf(event.text, sizeof(event.text), "gap of %s skipped: nothing was recorded",
		 draw_span(gap_ns, room));
	scene_add_event(s, &event);
}

static void note_place(struct replay_feed *f, size_t i)
{
	struct replay_state *replay = &f->scene->replay;

	replay->gap_ns = i > 0 ? moments_empty_gap(&f->moments, i) : 0;
	replay->has_fractions =
		(i > 0 && moments_gap(&f->moments, i) < MOMENT_NS) ||
		(i + 1 < f->moments.n && moments_gap(&f->moments, i + 1) < FRACTION_NS);
	if (replay->gap_ns)
		tell_gap(f->scene, f->moments.items[i].first_ns, replay->gap_ns);
}

/* With the last moment goes all that happened later: nobody has looked again. */
static uint64_t told_with(const struct replay_feed *f, size_t i)
{
	const struct moment *moment = &f->moments.items[i];

	if (i + 1 < f->moments.n)
		return moment->last_ns;
	return f->options->until_wall_ns ? f->options->until_wall_ns : clock_wall_ns();
}

static int show_at(struct replay_feed *f, size_t i, bool is_first, struct err *err)
{
	const struct moment *moment = &f->moments.items[i];
	uint64_t until_ns = told_with(f, i);
	const struct snapshot *all;
	int r = take_snapshots(f, moment->first_ns, moment->last_ns, err);

	if (r == 0)
		r = changes_tell(&f->changes, f->options->store, f->scene, f->told_ns, until_ns,
				 err);
	if (r < 0)
		return r;
	all = merge_make(&f->merge, moment->first_ns, moment->last_ns);
	if (!all || scene_add_snapshot(f->scene, all) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	note_place(f, i);
	f->scene->n_anomalies = spans_count(&f->spans, moment->last_ns);
	return replay_tell_past(f, until_ns, is_first, err);
}

/* Who was looking before the i-th moment, and where telling begins. */
static int look_back(struct replay_feed *f, size_t i, struct err *err)
{
	uint64_t first_ns = f->moments.items[i].first_ns;

	merge_forget(&f->merge);
	changes_rewind(&f->changes, f->scene);
	f->told_ns = (i > 0 ? first_ns : f->options->since_wall_ns) - 1;
	return take_snapshots(f, first_ns > LOOK_BACK_NS ? first_ns - LOOK_BACK_NS : 1,
			      first_ns - 1, err);
}

/* Curves and events begin anew; those shortly before are shown in passing. */
static int jump(struct replay_feed *f, struct scene *s, size_t i, struct err *err)
{
	size_t from = i > WARM_UP ? i - WARM_UP : 0;
	int r;

	tracks_release(&s->tracks);
	scene_forget_past(s);
	f->scene = s;
	r = look_back(f, from, err);
	for (size_t at = from; r == 0 && at <= i; at++)
		r = show_at(f, at, at == from, err);
	f->scene = NULL;
	f->at = i + 1;
	f->shown_boot_ns = clock_boot_ns();
	return r;
}

static int advance(struct replay_feed *f, struct scene *s, struct err *err)
{
	bool is_first = f->at == 0;
	int r;

	f->scene = s;
	r = is_first ? look_back(f, 0, err) : 0;
	if (r == 0)
		r = show_at(f, f->at++, is_first, err);
	f->scene = NULL;
	f->shown_boot_ns = clock_boot_ns();
	return r < 0 ? r : 1;
}

/* ---- when ---- */

/* How long after the last one the next is due. */
static uint64_t pause_ns(const struct replay_feed *f, const struct scene *s)
{
	uint64_t gap = moments_gap(&f->moments, f->at);

	if (gap > MOMENTS_LONG_GAP_NS) /* in which nothing was recorded, or a minute of averages */
		gap = SHOWN_GAP_NS;
	return (uint64_t)((double)gap / s->replay.speed);
}

static int replay_pump(void *ctx, struct scene *s, struct err *err)
{
	struct replay_feed *f = ctx;
	uint64_t limit = clock_boot_ns() + FRAME_MS * UINT64_C(1000000);
	int r = 0, n_shown = 0;

	s->replay.from_ns = f->moments.items[0].last_ns;
	s->replay.to_ns = f->moments.items[f->moments.n - 1].last_ns;
	s->replay.is_over = f->at >= f->moments.n;
	if (s->is_paused && f->at > 0)
		return 0;
	/* Faster than the screen: several go by between two frames. */
	while (r >= 0 && f->at < f->moments.n && clock_boot_ns() < limit &&
	       clock_boot_ns() - f->shown_boot_ns >= pause_ns(f, s)) {
		r = advance(f, s, err);
		n_shown++;
	}
	s->replay.is_over = f->at >= f->moments.n;
	return r < 0 ? r : n_shown > 0;
}

static int replay_timeout(void *ctx, const struct scene *s)
{
	const struct replay_feed *f = ctx;
	uint64_t due = f->shown_boot_ns + pause_ns(f, s), now = clock_boot_ns();

	if (f->at >= f->moments.n || (s->is_paused && f->at > 0))
		return -1;
	return now >= due ? 0 : (int)((due - now) / 1000000) + 1;
}

/* ---- wishes ---- */

static int step(struct replay_feed *f, struct scene *s, int steps, struct err *err)
{
	size_t shown = f->at > 0 ? f->at - 1 : 0;

	if (steps > 0)
		return f->at < f->moments.n ? advance(f, s, err) : 0;
	return shown > 0 ? jump(f, s, shown - 1, err) : 0;
}

static int grant_step(struct replay_feed *f, struct scene *s, const struct wish *wish,
		      struct err *err)
{
	int r = step(f, s, wish->steps, err);

	s->replay.is_over = f->at >= f->moments.n;
	return r < 0 ? r : 0;
}

/* The first moment at which one is there that began after the moment that is shown. */
static int grant_anomaly(struct replay_feed *f, struct scene *s, struct err *err)
{
	uint64_t shown_ns = f->at > 0 ? f->moments.items[f->at - 1].last_ns : 0;
	size_t i = 0, to = f->at;
	int r;

	while (i < f->spans.n && f->spans.items[i].began_ns <= shown_ns)
		i++;
	while (i < f->spans.n && to < f->moments.n &&
	       f->moments.items[to].last_ns < f->spans.items[i].began_ns)
		to++;
	if (i == f->spans.n || to == f->moments.n)
		return err_set(err, -ENOENT, "no anomaly began later");
	r = jump(f, s, to, err);
	if (r == 0)
		scene_show_anomaly(s, f->spans.items[i].began_ns);
	s->replay.is_over = f->at >= f->moments.n;
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

	moments_release(&f->moments);
	spans_release(&f->spans);
	spans_release(&f->late);
	spans_release(&f->worse);
	changes_release(&f->changes);
	merge_release(&f->merge);
	ends_release(&f->ends);
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
	struct replay_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->options = options;
	f->first_ns = options->since_wall_ns;
	f->last_ns = options->until_wall_ns;
	merge_init(&f->merge);
	r = replay_read(f, err);
	if (r < 0) {
		replay_close(f);
		return r;
	}
	*ret = (struct feed){ &replay_ops, f };
	return 0;
}
