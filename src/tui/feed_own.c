/*
 * feed_own - where no daemon runs: top looks by itself, at all processes.
 *
 * Which jobs run, the record says; where there is none, all processes are of no job.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/jobs.h"
#include "sources/sources.h"
#include "tui/changes.h"
#include "tui/feed.h"
#include "tui/recall.h"

#define LOOK_SECONDS 2.0
#define EVENTS_BEFORE_NS UINT64_C(60000000000) /* told when it begins */
#define RECORDED_GAP_NS UINT64_C(5000000000)   /* between two ticks, as runs have it */
#define LATE_NS UINT64_C(600000000000)	       /* after its end something may still be written */

struct own_feed {
	const struct tui_options *options;
	double interval_seconds;
	struct store *store; /* NULL: not there (yet) */
	int root_fd;
	struct gpus *gpus;
	struct collector *collector;
	struct snapshot snap;
	struct attempt_list running;
	uint64_t next_boot_ns;
	uint64_t events_since_ns;  /* those before it are not told */
	int64_t told_id;	   /* the last event that was; 0: none yet */
	struct change_news news;   /* of jobs and sheets */
	struct map told_anomalies; /* by their episode: whether the end was told too */
	uint64_t n_active;	   /* anomalies, while they are counted */
	struct scene *scene;	   /* while it is filled */
};

/* ---- jobs ---- */

static int read_jobs(struct own_feed *f, struct attempt_list *ret, struct err *err)
{
	const struct attempt_filter filter = { .running_only = true };
	int r = f->store ? 0 : f->options->helpers->open_store(&f->store, err);

	return r == 0 && f->store ? store_list_attempts(f->store, &filter, ret, err) : r;
}

static void tell_progress(struct own_feed *f, const struct attempt_list *list)
{
	struct snapshot *s = &f->snap;

	s->progress = arena_alloc(&s->arena, (list->n + 1) * sizeof(*s->progress));
	for (size_t i = 0; s->progress && i < list->n; i++) {
		const struct attempt *a = &list->items[i];

		if (!a->is_running)
			continue; /* lost: its runner is gone, and wrote no end */
		s->active_sheets += a->current_sheet != SHEET_NONE;
		s->progress[s->n_progress++] = (struct job_progress){
			.job_id = a->job_id,
			.attempt_id = a->id,
			.total_sheets = a->total_sheets,
			.last_completed_sheet = a->last_completed_sheet,
			.current_sheet = a->current_sheet,
			.status = attempt_status_name(a),
			.attempt_num = a->attempt_num,
			.uid = a->uid,
		};
	}
	s->running_jobs = (int)s->n_progress;
}

/*
 * With a tracker of its own each time: the record may be late with the sheet that runs, and what
 * was marked by it then must not stay.
 */
static int assign_jobs(struct own_feed *f, const struct attempt_list *list)
{
	CLEANUP(free_ptr) struct membership_job *jobs = calloc(list->n + 1, sizeof(*jobs));
	struct membership *membership = membership_new();
	size_t n = 0;
	int r = jobs && membership ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < list->n; i++)
		if (list->items[i].is_running)
			jobs[n++] = (struct membership_job){
				.kind = MEMBERSHIP_RUNNER,
				.root = list->items[i].runner,
				.job_id = list->items[i].job_id,
				.attempt_id = list->items[i].id,
				.sheet_num = list->items[i].current_sheet,
			};
	if (r == 0)
		r = membership_set_jobs(membership, jobs, n);
	if (r == 0)
		r = membership_scan(membership, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL);
	membership_free(membership);
	return r;
}

/* ---- what happened, as runs record it ---- */

static int tell_event(void *ctx, const struct event_row *row)
{
	struct own_feed *f = ctx;

	feed_tell_process_event(f->scene, &row->event);
	if (row->id > f->told_id)
		f->told_id = row->id;
	return 0;
}

/* The first time by when it was; then by what was written since, whatever its time. */
static int tell_events(struct own_feed *f, struct scene *s, struct err *err)
{
	const struct event_filter filter = { .job_id = f->options->job_id,
					     .since_wall_ns = f->events_since_ns };
	int64_t after = f->told_id;

	if (!f->store)
		return 0;
	f->scene = s;
	if (after == 0)
		return store_read_events(f->store, &filter, tell_event, f, err);
	return store_follow_events(f->store, filter.job_id, &after, tell_event, f, err);
}

/* One that nobody has closed goes on while the run lasts that saw it begin. */
static bool lasts(const struct own_feed *f, const struct anomaly_row *row)
{
	const struct episode *e = &row->episode;

	for (size_t i = 0; e->worst.job_id && i < f->running.n; i++)
		if (f->running.items[i].is_running &&
		    f->running.items[i].attempt_num == row->attempt_num &&
		    strcmp(f->running.items[i].job_id, e->worst.job_id) == 0)
			return !u64_known(e->ended_wall_ns);
	return false;
}

/* Each is known by its episode, whenever it is that it is written: its beginning is told once, and
 * so is its end. */
static int tell_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct own_feed *f = ctx;
	uint64_t id = scene_flag_id(row->episode.name), end_was_told = false;
	bool was_told = map_get(&f->told_anomalies, id, &end_was_told);
	bool is_going_on = lasts(f, row);
	struct episode e;

	f->n_active += is_going_on;
	if (!was_told && row->episode.began_wall_ns >= f->events_since_ns) {
		feed_recall_episode(row, row->episode.began_wall_ns, &e);
		feed_tell_anomaly(f->scene, &e, EPISODE_BEGAN);
	}
	feed_recall_end(row, &e);
	if (!is_going_on && !u64_known(e.ended_wall_ns))
		e.ended_wall_ns = f->snap.wall_ns; /* found out now */
	if (is_going_on)
		feed_flag_anomaly(f->scene, &e);
	if (!is_going_on && !end_was_told &&
	    episode_change_time(&e, EPISODE_CLEARED) >= f->events_since_ns &&
	    (was_told || u64_known(row->episode.ended_wall_ns)))
		feed_tell_anomaly(f->scene, &e, EPISODE_CLEARED);
	return map_put(&f->told_anomalies, id, !is_going_on);
}

/* From when on something may have happened that was not told. */
static uint64_t window_start(const struct own_feed *f)
{
	uint64_t late_ns = clock_wall_ns() - LATE_NS;

	return late_ns < f->events_since_ns ? f->events_since_ns : late_ns;
}

static int tell_anomalies(struct own_feed *f, struct scene *s, struct err *err)
{
	const struct anomaly_filter filter = {
		.job_id = f->options->job_id,
		.lasting_wall_ns = window_start(f),
		.with_changes = true,
	};
	int r;

	if (!f->store)
		return 0;
	f->scene = s;
	f->n_active = 0;
	r = store_read_anomalies(f->store, &filter, tell_anomaly, f, err);
	s->n_anomalies = r == 0 ? f->n_active : U64_UNKNOWN;
	return r;
}

/* ---- looking ---- */

static int look(struct own_feed *f, struct scene *s, struct err *err)
{
	struct attempt_list list = { 0 };
	struct err trouble = ERR_INIT;
	int r = collector_scan(f->collector, &f->snap, err);

	if (r < 0)
		return r;
	if (read_jobs(f, &list, &trouble) < 0) {
		scene_say(s, trouble.text); /* the host is there, and the jobs of last time */
		attempt_list_release(&list);
		list = f->running;
		f->running = (struct attempt_list){ 0 };
	}
	r = assign_jobs(f, &list);
	if (r == 0) {
		tell_progress(f, &list);
		collector_fill(f->collector, &f->snap, SNAPSHOT_ALL);
	}
	attempt_list_release(&f->running);
	f->running = list; /* the snapshot's job ids are theirs */
	return r;
}

/* Before the snapshot is shown: since when its jobs and sheets run is known then. */
static void tell_changes(struct own_feed *f, struct scene *s)
{
	struct err trouble = ERR_INIT;

	if (f->store && change_news_tell(&f->news, f->store, s, f->options->job_id, window_start(f),
					 &trouble) < 0)
		scene_say(s, trouble.text);
}

/* A record that cannot be read now does not keep the host back; what it has is told later. */
static void tell_past(struct own_feed *f, struct scene *s)
{
	struct err trouble = ERR_INIT;
	int r = tell_events(f, s, &trouble);

	if (r == 0)
		r = tell_anomalies(f, s, &trouble);
	if (r < 0)
		scene_say(s, trouble.text);
}

/* What it does comes first: there may be no room for why. */
static void say_source(const struct own_feed *f, struct scene *s)
{
	if (s->no_daemon[0])
		snprintf(s->source_note, sizeof(s->source_note), "looking every %g s by itself: %s",
			 f->interval_seconds, s->no_daemon);
	else
		snprintf(s->source_note, sizeof(s->source_note),
			 "no daemon runs: looking every %g s by itself", f->interval_seconds);
}

static int own_pump(void *ctx, struct scene *s, struct err *err)
{
	struct own_feed *f = ctx;
	uint64_t now = clock_boot_ns();
	int r;

	if (now < f->next_boot_ns)
		return 0;
	f->next_boot_ns = now + (uint64_t)(f->interval_seconds * 1e9);
	say_source(f, s);
	s->is_late = false;
	if (s->is_paused)
		return 0;
	r = look(f, s, err);
	if (r < 0)
		return r;
	tell_changes(f, s);
	if (scene_add_snapshot(s, &f->snap) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	tell_past(f, s);
	return 1;
}

static int own_timeout(void *ctx, const struct scene *s)
{
	struct own_feed *f = ctx;
	uint64_t now = clock_boot_ns();

	(void)s;
	return now >= f->next_boot_ns ? 0 : (int)((f->next_boot_ns - now) / 1000000) + 1;
}

static int own_grant(void *ctx, struct scene *s, const struct wish *wish, struct err *err)
{
	struct own_feed *f = ctx;

	(void)s;
	if (wish->kind != WISH_CANCEL_JOB)
		return -EOPNOTSUPP;
	return f->options->helpers->cancel(wish->job_id, wish->attempt_num, err);
}

static int take_sample(void *ctx, const struct history_row *row)
{
	if (recall_is_full(ctx, row->wall_ns))
		return 1; /* who presses keys waits meanwhile */
	recall_add(ctx, row->wall_ns, row->attempt_num, &row->sample);
	return 0;
}

static bool own_recall(void *ctx, struct scene *s, const struct node *node)
{
	struct own_feed *f = ctx;
	struct recall recall;
	struct history_filter filter = { 0 };

	if (!f->store)
		return false;
	if (!recall_begin(&recall, s, node, RECORDED_GAP_NS))
		return true;
	filter.job_id = recall.job_id;
	filter.pid = recall.key.pid;
	filter.since_wall_ns = recall.since_wall_ns;
	filter.until_wall_ns = recall.until_wall_ns;
	if (store_read_history(f->store, &filter, take_sample, &recall, NULL) >= 0)
		recall_end(&recall, s); /* else the curve begins where top did */
	return true;
}

static void own_close(void *ctx)
{
	struct own_feed *f = ctx;

	store_close(f->store);
	collector_free(f->collector);
	gpus_close(f->gpus);
	snapshot_release(&f->snap);
	attempt_list_release(&f->running);
	change_news_release(&f->news);
	map_release(&f->told_anomalies);
	close_fd(&f->root_fd);
	free(f);
}

static const struct feed_ops own_ops = {
	.timeout_ms = own_timeout,
	.pump = own_pump,
	.grant = own_grant,
	.recall = own_recall,
	.close = own_close,
};

static int open_sources(struct own_feed *f, struct err *err)
{
	struct gpus_options gpus = { .interval_seconds = f->interval_seconds, .at_once = true };
	struct collector_options options = { .mask = f->options->mask, .want_ebpf = true };

	f->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->root_fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	gpus.root_fd = options.root_fd = f->root_fd;
	if (f->options->reads_gpus)
		gpus_open(&gpus, &f->gpus, NULL); /* without, there are none to be seen */
	options.gpus = f->gpus;
	return collector_new(&options, &f->collector, err);
}

int feed_open_own(const struct tui_options *options, struct feed *ret, struct err *err)
{
	struct own_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->options = options;
	f->interval_seconds =
		options->interval_seconds > 0 ? options->interval_seconds : LOOK_SECONDS;
	f->root_fd = -1;
	f->events_since_ns = clock_wall_ns() - EVENTS_BEFORE_NS;
	snapshot_init(&f->snap);
	file_limit_raise(NULL); /* for files of /proc that stay open */
	r = open_sources(f, err);
	if (r < 0) {
		own_close(f);
		return r;
	}
	*ret = (struct feed){ &own_ops, f };
	return 0;
}
