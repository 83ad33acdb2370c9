/*
 * The feed of the database: what was recorded, as fast as its user wants.
 *
 * When something was recorded is known from the beginning: moments, beginnings and ends of jobs and
 * sheets, anomalies. Each snapshot is read when its turn comes, so a week of them takes no more
 * memory than a minute.
 *
 * Each run records its own job alone. What several recorders saw within a second is one moment, and
 * each moment shows the last snapshot of all that were still recording then. A closer look that a
 * daemon takes at one job stands beside what it sees of all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "tui/draw.h"
#include "tui/feed.h"

#define SECOND_NS UINT64_C(1000000000)
#define FRAME_MS 100
#define WARM_UP 64			 /* moments before the one that is jumped to, for curves */
#define LOOK_BACK_NS (60 * SECOND_NS)	 /* for recorders that ran when it begins */
#define SKIP_BACK_NS (20 * SECOND_NS)	 /* the same where moments are skipped */
#define FRACTION_NS (SECOND_NS * 9 / 10) /* a tick each second may come a little early */
#define LONG_GAP_NS (10 * SECOND_NS)	 /* more than this is not waited for… */
#define SHOWN_GAP_NS (2 * SECOND_NS)	 /* …but so long */
#define GAP_RATIO 3 /* to those before: a recorder that ticks each minute leaves no gap */
#define FIRST_GAP_NS (10 * SECOND_NS) /* of a recorder that was seen once */
#define MISSED 3		      /* ticks, and a recorder is not recording any more */

/* In which each recorder ticked once, or not at all. */
struct moment {
	uint64_t first_ns, last_ns;
};

/* A recorder: its last snapshot. */
struct part {
	uint64_t gap_ns; /* between its last two */
	struct snapshot snap;
};

struct stored_feed {
	const struct tui_options *options;
	uint64_t first_ns, last_ns; /* of what is replayed; last 0: to the end */
	struct moment *moments;
	size_t n_moments, cap_moments;
	struct map recorders;	/* of the last moment, while they are read */
	size_t at;		/* the next moment to be shown */
	uint64_t shown_boot_ns; /* when the last one was */
	struct scene *scene;	/* while it is filled */
	struct records *records;
	struct map ends;     /* of attempts by their id… */
	struct map job_ends; /* …and of the last one by the job */

	struct part *parts;
	size_t n_parts, cap_parts;
	struct snapshot all; /* of all parts */
};

/* ---- opening: what there is ---- */

/* Of one job, what others did before its first beginning and after its last end is left out. An end
 * that is unknown is later than all: it goes on, or it is not known how long it did. */
static int read_attempts(struct stored_feed *f, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = f->options->job_id,
					       .since_wall_ns = f->options->since_wall_ns };
	int r = store_list_attempts(f->options->store, &filter, &list, err);
	uint64_t began_ns = U64_UNKNOWN, ended_ns = 0;

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		const struct attempt *a = &list.items[i];

		if (map_put(&f->ends, (uint64_t)a->id, a->ended_wall_ns) < 0 ||
		    map_put(&f->job_ends, track_key_of_job(a->job_id), a->ended_wall_ns) < 0)
			r = -ENOMEM;
		if (a->started_wall_ns < began_ns)
			began_ns = a->started_wall_ns;
		if (a->ended_wall_ns > ended_ns)
			ended_ns = a->ended_wall_ns;
	}
	if (!f->options->job_id || list.n == 0)
		return r;
	if (u64_known(began_ns) && began_ns > f->first_ns)
		f->first_ns = began_ns;
	if (u64_known(ended_ns) && (f->last_ns == 0 || ended_ns < f->last_ns))
		f->last_ns = ended_ns;
	return r;
}

static int add_moment(void *ctx, const struct snapshot *snap)
{
	struct stored_feed *f = ctx;
	struct moment *last = f->n_moments > 0 ? &f->moments[f->n_moments - 1] : NULL;
	bool is_same = last && (snap->wall_ns == last->last_ns ||
				(snap->wall_ns - last->first_ns <= SECOND_NS &&
				 !map_get(&f->recorders, (uint64_t)snap->recorder, NULL)));

	if (!is_same) {
		if (ARRAY_RESERVE(f->moments, f->cap_moments, f->n_moments + 1) < 0)
			return -ENOMEM;
		last = &f->moments[f->n_moments++];
		last->first_ns = snap->wall_ns;
		map_clear(&f->recorders);
	}
	last->last_ns = snap->wall_ns;
	return map_put(&f->recorders, (uint64_t)snap->recorder, 1);
}

static int read_all(struct stored_feed *f, struct err *err)
{
	const struct records_filter filter = {
		.job_id = f->options->job_id,
		.since_wall_ns = f->options->since_wall_ns,
		.until_wall_ns = f->options->until_wall_ns,
		.with_snapshots = true,
		.keeps_state = true,
	};
	struct snapshot_filter snapshots = { .job_id = f->options->job_id, .with_minutes = true };
	int r = read_attempts(f, err);

	f->records = records_new(f->options->store, &filter);
	if (r == 0)
		r = f->records ? records_load(f->records, err) : -ENOMEM;
	snapshots.since_wall_ns = f->first_ns;
	snapshots.until_wall_ns = f->last_ns;
	if (r == 0)
		r = store_read_snapshots(f->options->store, &snapshots, add_moment, f, err);
	/* runs that were over before their first tick: what happened is shown, at one moment */
	if (r == 0 && f->n_moments == 0 && u64_known(records_last(f->records)))
		r = add_moment(f, &(struct snapshot){ .wall_ns = records_last(f->records) });
	if (r == 0 && f->n_moments == 0 && f->options->job_id)
		return err_set(err, -ENODATA, "nothing was recorded of job %s in that time",
			       f->options->job_id);
	if (r == 0 && f->n_moments == 0)
		return err_set(err, -ENODATA, "nothing was recorded in that time");
	return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
}

/* ---- the snapshots of one moment as one ---- */

static bool is_minute(const struct snapshot *s)
{
	return f64_known(s->resolution_seconds);
}

static int add_part(void *ctx, const struct snapshot *snap)
{
	struct stored_feed *f = ctx;
	struct part *part = NULL;

	for (size_t i = 0; i < f->n_parts && !part; i++)
		if (f->parts[i].snap.recorder == snap->recorder)
			part = &f->parts[i];
	if (part && snap->wall_ns > part->snap.wall_ns)
		part->gap_ns = snap->wall_ns - part->snap.wall_ns;
	if (!part) {
		if (ARRAY_RESERVE(f->parts, f->cap_parts, f->n_parts + 1) < 0)
			return -ENOMEM;
		part = &f->parts[f->n_parts++];
		part->gap_ns = FIRST_GAP_NS;
		snapshot_init(&part->snap);
	}
	if (snapshot_copy(&part->snap, snap, SNAPSHOT_ALL) < 0)
		return -ENOMEM;
	return 0;
}

static bool is_fresh(const struct stored_feed *f, const struct part *part,
		     const struct moment *moment)
{
	const struct snapshot *s = &part->snap;
	uint64_t ended_ns;

	if (s->wall_ns >= moment->first_ns)
		return true;
	if (is_minute(s))
		return moment->last_ns - s->wall_ns < (uint64_t)(s->resolution_seconds * SECOND_NS);
	if (map_get(&f->ends, (uint64_t)s->recorder, &ended_ns) && ended_ns < moment->first_ns)
		return false;
	return moment->last_ns - s->wall_ns <= MISSED * part->gap_ns + SECOND_NS;
}

/* The newest first; minutes, which know nothing of the host, last. */
static int compare_parts(const void *x, const void *y)
{
	const struct snapshot *a = &((const struct part *)x)->snap;
	const struct snapshot *b = &((const struct part *)y)->snap;

	if (is_minute(a) != is_minute(b))
		return is_minute(a) - is_minute(b);
	return (a->wall_ns < b->wall_ns) - (a->wall_ns > b->wall_ns);
}

/* Of an attempt, or where that is not known of a job, that was over before. */
static bool is_past(const struct stored_feed *f, const char *job_id, int64_t attempt_id,
		    uint64_t from_ns)
{
	uint64_t ended_ns;

	if (attempt_id)
		return map_get(&f->ends, (uint64_t)attempt_id, &ended_ns) && ended_ns < from_ns;
	return job_id && map_get(&f->job_ends, track_key_of_job(job_id), &ended_ns) &&
	       ended_ns < from_ns;
}

/* Of this attempt; an unknown one may be any. */
static bool has_progress(const struct snapshot *s, const struct job_progress *p)
{
	for (size_t i = 0; i < s->n_progress; i++) {
		const struct job_progress *other = &s->progress[i];

		if (other->job_id && strcmp(other->job_id, p->job_id) == 0 &&
		    (other->attempt_id == p->attempt_id || !other->attempt_id || !p->attempt_id))
			return true;
	}
	return false;
}

/* What ended before from_ns is left out. Strings stay the part's. Each process keeps the time of
 * its tick, for rates. */
static int join_part(struct stored_feed *f, const struct snapshot *part, uint64_t from_ns,
		     struct map *seen)
{
	struct snapshot *all = &f->all;
	size_t n = all->n_progress + part->n_progress;
	struct job_progress *progress = arena_alloc(&all->arena, (n + 1) * sizeof(*progress));

	if (!progress)
		return -ENOMEM;
	if (all->n_progress > 0)
		memcpy(progress, all->progress, all->n_progress * sizeof(*progress));
	all->progress = progress;
	all->running_jobs += part->running_jobs;
	all->active_sheets += part->active_sheets;
	for (size_t i = 0; i < part->n_progress; i++) {
		const struct job_progress *p = &part->progress[i];

		if (!p->job_id ||
		    (!has_progress(all, p) && !is_past(f, p->job_id, p->attempt_id, from_ns))) {
			progress[all->n_progress++] = *p;
			continue;
		}
		all->running_jobs--;
		all->active_sheets -= p->current_sheet != SHEET_NONE;
	}
	for (size_t i = 0; i < part->n_processes; i++) {
		const struct proc_sample *from = &part->processes[i];
		uint64_t key = track_key_of_process(&from->key);
		struct proc_sample *p;

		if (map_get(seen, key, NULL) || is_past(f, from->job_id, from->attempt_id, from_ns))
			continue;
		p = snapshot_add_process(all);
		if (!p || map_put(seen, key, 1) < 0)
			return -ENOMEM;
		*p = *from;
		if (!u64_known(p->boot_ns))
			p->boot_ns = part->boot_ns;
	}
	return 0;
}

/* Into f->all: the host as the newest recorder saw it that looked at all of it, and all jobs. */
static int join_parts(struct stored_feed *f, const struct moment *moment)
{
	struct snapshot own, *all = &f->all;
	struct map seen = MAP_INIT;
	size_t host = 0;
	int r = 0;

	snapshot_reset(all);
	all->wall_ns = moment->last_ns;
	for (size_t i = f->n_parts; i-- > 0;)
		if (!is_fresh(f, &f->parts[i], moment)) {
			snapshot_release(&f->parts[i].snap);
			f->parts[i] = f->parts[--f->n_parts];
		}
	if (f->n_parts == 0)
		return 0;
	qsort(f->parts, f->n_parts, sizeof(*f->parts), compare_parts);
	while (host < f->n_parts && is_minute(&f->parts[host].snap))
		host++;
	own = *all;
	*all = f->parts[host < f->n_parts ? host : 0].snap;
	all->wall_ns = moment->last_ns;
	all->arena = own.arena;
	all->processes = own.processes;
	all->cap_processes = own.cap_processes;
	all->n_processes = all->n_progress = 0;
	all->progress = NULL;
	all->running_jobs = all->active_sheets = 0;
	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct snapshot *part = &f->parts[i].snap;
		bool is_older = part->wall_ns < moment->first_ns;

		r = join_part(f, part, is_older ? moment->first_ns : 0, &seen);
	}
	map_release(&seen);
	return r;
}

/* ---- one moment ---- */

/* Between the i-th moment and the one before; 0: there is none. */
static uint64_t gap_before(const struct stored_feed *f, size_t i)
{
	return i > 0 && i < f->n_moments ? f->moments[i].last_ns - f->moments[i - 1].last_ns : 0;
}

static int take_item(void *ctx, const struct records_item *item)
{
	struct stored_feed *f = ctx;

	return item->snapshot ? add_part(f, item->snapshot) : feed_add_item(f->scene, item);
}

static int show_at(struct stored_feed *f, size_t i, struct err *err)
{
	const struct moment *moment = &f->moments[i];
	struct replay_state *replay = &f->scene->replay;
	struct scene_event gap = { .wall_ns = moment->first_ns, .kind = EVENT_KIND_JOB };
	char room[DRAW_NUMBER_BYTES];
	uint64_t gap_ns = gap_before(f, i), usual_ns = gap_before(f, i - 1);
	int r = records_read(f->records, moment->last_ns, take_item, f, err);

	if (r == 0 && i + 1 == f->n_moments) { /* with the last goes all that happened later */
		records_skip_snapshots(f->records, UINT64_MAX);
		r = records_read(f->records, UINT64_MAX, take_item, f, err);
	}
	if (r < 0)
		return r;
	if (join_parts(f, moment) < 0 || scene_add_snapshot(f->scene, &f->all) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	f->scene->past.n_anomalies = scene_count_flags(f->scene);
	/* nothing was recorded in it if it is long, and much longer than those before */
	if (i > 2 && gap_before(f, i - 2) < usual_ns)
		usual_ns = gap_before(f, i - 2);
	replay->gap_ns = gap_ns > LONG_GAP_NS && gap_ns > GAP_RATIO * usual_ns ? gap_ns : 0;
	replay->has_fractions = (i > 0 && gap_ns < SECOND_NS) ||
				(i + 1 < f->n_moments && gap_before(f, i + 1) < FRACTION_NS);
	if (replay->gap_ns) {
		snprintf(gap.text, sizeof(gap.text), "gap of %s skipped: nothing was recorded",
			 draw_span(replay->gap_ns, room));
		scene_add_event(f->scene, &gap);
	}
	return 0;
}

/* From one moment to another. is_first: the scene is as it was before that one; the recorders from
 * before are looked for, and telling begins. */
static int show_range(struct stored_feed *f, struct scene *s, size_t from, size_t to, bool is_first,
		      struct err *err)
{
	uint64_t first_ns = f->moments[from].first_ns;
	int r = 0;

	f->scene = s;
	if (is_first) {
		for (size_t i = 0; i < f->n_parts; i++)
			snapshot_release(&f->parts[i].snap);
		f->n_parts = 0;
		map_clear(&s->starts);
		records_seek(f->records, from > 0 ? first_ns : f->options->since_wall_ns,
			     first_ns > LOOK_BACK_NS ? first_ns - LOOK_BACK_NS : 1);
	}
	for (size_t i = from; r == 0 && i <= to; i++)
		r = show_at(f, i, err);
	f->scene = NULL;
	f->at = to + 1;
	f->shown_boot_ns = clock_boot_ns();
	s->replay.is_over = f->at >= f->n_moments;
	return r;
}

/* Curves and events begin anew; those shortly before are shown in passing. */
static int jump(struct stored_feed *f, struct scene *s, size_t to, struct err *err)
{
	tracks_release(&s->tracks);
	scene_forget_past(s);
	return show_range(f, s, to > WARM_UP ? to - WARM_UP : 0, to, true, err);
}

/* ---- when ---- */

/* How long after the last one the next is due. A long gap is one in which nothing was recorded, or
 * a minute of averages. */
static uint64_t pause_ns(const struct stored_feed *f, const struct scene *s)
{
	uint64_t gap_ns = gap_before(f, f->at);

	return (uint64_t)((double)(gap_ns > LONG_GAP_NS ? SHOWN_GAP_NS : gap_ns) / s->replay.speed);
}

static int stored_pump(void *ctx, struct scene *s, struct err *err)
{
	struct stored_feed *f = ctx;
	uint64_t limit = clock_boot_ns() + FRAME_MS * UINT64_C(1000000);
	int r = 0, n_shown = 0;

	s->replay.from_ns = f->moments[0].last_ns;
	s->replay.to_ns = f->moments[f->n_moments - 1].last_ns;
	s->replay.is_over = f->at >= f->n_moments;
	if (s->is_paused && f->at > 0)
		return 0;
	/* Faster than the screen: several go by between two frames. */
	while (r >= 0 && f->at < f->n_moments && clock_boot_ns() < limit &&
	       clock_boot_ns() - f->shown_boot_ns >= pause_ns(f, s)) {
		r = show_range(f, s, f->at, f->at, f->at == 0, err);
		n_shown++;
	}
	return r < 0 ? r : n_shown > 0;
}

static int stored_timeout(void *ctx, const struct scene *s)
{
	const struct stored_feed *f = ctx;
	uint64_t due = f->shown_boot_ns + pause_ns(f, s), now = clock_boot_ns();

	if (f->at >= f->n_moments || (s->is_paused && f->at > 0))
		return -1;
	return now >= due ? 0 : (int)((due - now) / 1000000) + 1;
}

/* The first moment at which an anomaly is there that began after the moment that is shown. */
static int go_to_anomaly(struct stored_feed *f, struct scene *s, struct err *err)
{
	uint64_t began_ns =
		records_next_anomaly(f->records, f->at > 0 ? f->moments[f->at - 1].last_ns : 0);
	size_t to = f->at;
	int r;

	while (to < f->n_moments && f->moments[to].last_ns < began_ns)
		to++;
	if (to == f->n_moments)
		return err_set(err, -ENOENT, "no anomaly began later");
	r = jump(f, s, to, err);
	if (r == 0)
		scene_show_anomaly(s, began_ns);
	return r;
}

static int stored_grant(void *ctx, struct scene *s, const struct wish *wish, struct err *err)
{
	struct stored_feed *f = ctx;
	size_t to = f->at;
	uint64_t since_ns;

	if (wish->kind == WISH_NEXT_ANOMALY)
		return go_to_anomaly(f, s, err);
	if (wish->kind != WISH_STEP)
		return -EOPNOTSUPP;
	s->replay.is_over = f->at >= f->n_moments;
	if (wish->steps < 0)
		return f->at > 1 ? jump(f, s, f->at - 2, err) : 0;
	if (s->replay.is_over)
		return 0;
	while (to + 1 < f->n_moments && f->moments[to].last_ns < wish->until_ns)
		to++;
	if (to > f->at) { /* the last snapshots of recorders that did not tick at that moment */
		since_ns = f->moments[f->at].first_ns;
		if (since_ns + SKIP_BACK_NS < f->moments[to].first_ns)
			since_ns = f->moments[to].first_ns - SKIP_BACK_NS;
		records_skip_snapshots(f->records, since_ns);
	}
	return show_range(f, s, to, to, f->at == 0, err);
}

static void stored_close(void *ctx)
{
	struct stored_feed *f = ctx;

	for (size_t i = 0; i < f->n_parts; i++)
		snapshot_release(&f->parts[i].snap);
	snapshot_release(&f->all);
	records_free(f->records);
	map_release(&f->recorders);
	map_release(&f->ends);
	map_release(&f->job_ends);
	free(f->moments);
	free(f->parts);
	free(f);
}

int feed_open_stored(const struct tui_options *options, struct feed *ret, struct err *err)
{
	static const struct feed_ops ops = {
		.timeout_ms = stored_timeout,
		.pump = stored_pump,
		.grant = stored_grant,
		.close = stored_close,
	};
	struct stored_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->options = options;
	f->first_ns = options->since_wall_ns;
	f->last_ns = options->until_wall_ns;
	snapshot_init(&f->all);
	r = read_all(f, err);
	if (r < 0) {
		stored_close(f);
		return r;
	}
	*ret = (struct feed){ &ops, f };
	return 0;
}
