/*
 * The feed where no daemon runs: top collects all processes by itself.
 *
 * The database says which jobs run and what happened to them; without one, all processes are of no
 * job. What runs have recorded since the last look is ingested first.
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
#include "tui/feed.h"

#define LOOK_SECONDS 2.0
#define PAST_NS UINT64_C(60000000000)	     /* told when it begins */
#define LATE_NS UINT64_C(60000000000)	     /* after which something may still be recorded */
#define RECORDED_GAP_NS UINT64_C(5000000000) /* between two ticks, as runs have it */

struct own_feed {
	const struct tui_options *options;
	double interval_seconds;
	struct store *store; /* NULL: not there (yet) */
	int root_fd;
	struct gpus *gpus;
	struct collector *collector;
	struct snapshot snap;
	struct attempt_list attempts; /* those that run, and that ended lately */
	uint64_t next_boot_ns;
	uint64_t since_ns;     /* what happened before it is not told */
	uint64_t looked_ns;    /* on the wall clock; 0: not yet */
	int64_t last_event_id; /* of processes, that was told; 0: none yet */
	struct scene *scene;   /* while it is filled */
};

/* ---- collecting ---- */

/*
 * With a tracker of its own each time: the record may be late with the sheet that runs, and what
 * was marked by it then must not stay.
 */
int tui_assign_jobs(struct snapshot *snap, const struct attempt_list *attempts)
{
	struct membership_job *jobs = arena_alloc(&snap->arena, (attempts->n + 1) * sizeof(*jobs));
	struct membership *membership = membership_new();
	int r = jobs && membership ? 0 : -ENOMEM;

	snap->progress = arena_alloc(&snap->arena, (attempts->n + 1) * sizeof(*snap->progress));
	if (!snap->progress)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < attempts->n; i++) {
		const struct attempt *a = &attempts->items[i];
		const char *job_id;

		if (!a->is_running)
			continue; /* it has ended, or is lost */
		job_id = arena_strdup(&snap->arena, a->job_id);
		if (!job_id)
			r = -ENOMEM;
		jobs[snap->n_progress] = (struct membership_job){
			.kind = a->is_attached ? MEMBERSHIP_ATTACHED : MEMBERSHIP_RUNNER,
			.root = a->runner,
			.job_id = job_id,
			.attempt_id = a->id,
			.sheet_num = a->current_sheet,
		};
		snap->active_sheets += a->current_sheet != SHEET_NONE;
		snap->progress[snap->n_progress++] = (struct job_progress){
			.job_id = job_id,
			.attempt_id = a->id,
			.total_sheets = a->total_sheets,
			.last_completed_sheet = a->last_completed_sheet,
			.current_sheet = a->current_sheet,
			.status = attempt_status_name(a),
			.attempt_num = a->attempt_num,
			.uid = a->uid,
		};
	}
	snap->running_jobs = (int)snap->n_progress;
	if (r == 0)
		r = membership_set_jobs(membership, jobs, snap->n_progress);
	if (r == 0)
		r = membership_scan(membership, snap, MEMBERSHIP_FORGET_MISSING, NULL);
	membership_free(membership);
	return r;
}

/* From when on something may have happened that was not told. */
static uint64_t window_start(const struct own_feed *f)
{
	uint64_t late_ns = f->looked_ns > LATE_NS ? f->looked_ns - LATE_NS : 0;

	return late_ns < f->since_ns ? f->since_ns : late_ns;
}

static int look(struct own_feed *f, struct scene *s, struct err *err)
{
	const struct attempt_filter filter = { .since_wall_ns = window_start(f) };
	struct attempt_list list = { 0 };
	struct err trouble = ERR_INIT;
	int r = collector_scan(f->collector, &f->snap, err), read;

	if (r < 0)
		return r;
	read = f->store ? 0 : f->options->helpers->open_store(&f->store, &trouble);
	if (f->store) {
		store_take_in(f->store, NULL);
		read = store_list_attempts(f->store, &filter, &list, &trouble);
	}
	if (read < 0) {
		scene_set_message(s, "%s",
				  trouble.text); /* the host is there, and the jobs of last time */
		attempt_list_release(&list);
	} else {
		attempt_list_release(&f->attempts);
		f->attempts = list;
	}
	r = tui_assign_jobs(&f->snap, &f->attempts);
	if (r < 0)
		return err_set(err, r, "out of memory");
	collector_fill(f->collector, &f->snap, SNAPSHOT_ALL);
	return 0;
}

/* ---- what happened, as runs record it ---- */

static int tell_change(void *ctx, enum change change, const struct attempt *a,
		       const struct sheet_record *sheet)
{
	struct own_feed *f = ctx;
	uint64_t wall_ns = change_time(change, a, sheet);

	feed_note_start(f->scene, change, a, sheet, a->attempt_num);
	if (u64_known(wall_ns) && wall_ns >= window_start(f))
		feed_add_change(f->scene, change, a, sheet, true);
	return 0;
}

/* Before the snapshot is shown: since when its jobs and sheets run is known then. */
static int tell_changes(struct own_feed *f, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->attempts.n; i++) {
		const struct attempt *listed = &f->attempts.items[i];
		CLEANUP(attempt_release) struct attempt a;

		attempt_init(&a);
		if (f->options->job_id && strcmp(listed->job_id, f->options->job_id) != 0)
			continue;
		r = store_read_progress(f->store, listed->job_id, listed->attempt_num, &a, err);
		if (r == 0)
			feed_each_change(&a, tell_change, f);
		else if (r == -ENOENT)
			r = 0; /* gone meanwhile */
	}
	return r;
}

static int tell_event(void *ctx, const struct event_row *row)
{
	struct own_feed *f = ctx;

	feed_add_process_event(f->scene, &row->event);
	if (row->id > f->last_event_id)
		f->last_event_id = row->id;
	return 0;
}

/* One whose end is not recorded goes on while the run lasts that saw it begin; of a run that is
 * lost it is over with when it was last seen. */
static int tell_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct own_feed *f = ctx;
	const char *job_id = row->episode.worst.job_id;
	uint64_t ended_ns = episode_last_seen(&row->episode);

	for (size_t i = 0; job_id && i < f->attempts.n; i++) {
		const struct attempt *a = &f->attempts.items[i];

		if (a->attempt_num == row->attempt_num && strcmp(a->job_id, job_id) == 0 &&
		    (a->is_running || u64_known(a->ended_wall_ns)))
			ended_ns = a->ended_wall_ns;
	}
	ended_ns = feed_anomaly_end(row, ended_ns);
	feed_add_anomaly(f->scene, row, ended_ns, f->since_ns - 1, f->snap.wall_ns, true);
	return 0;
}

/* Events of processes the first time by when they were; then by what was recorded since, whatever
 * its time. */
static int tell_past(struct own_feed *f, struct err *err)
{
	const struct event_filter events = { .job_id = f->options->job_id,
					     .since_wall_ns = f->since_ns };
	const struct anomaly_filter anomalies = {
		.job_id = f->options->job_id,
		.lasting_wall_ns = window_start(f),
		.with_changes = true,
	};
	int64_t after = f->last_event_id;
	int r = after == 0
			? store_read_events(f->store, &events, tell_event, f, err)
			: store_follow_events(f->store, events.job_id, &after, tell_event, f, err);

	if (r == 0)
		r = store_read_anomalies(f->store, &anomalies, tell_anomaly, f, err);
	f->scene->n_anomalies = r == 0 ? scene_count_flags(f->scene) : U64_UNKNOWN;
	return r;
}

static int own_pump(void *ctx, struct scene *s, struct err *err)
{
	struct own_feed *f = ctx;
	uint64_t now = clock_boot_ns();
	struct err trouble = ERR_INIT;
	int r, read = 0;

	if (now < f->next_boot_ns)
		return 0;
	f->next_boot_ns = now + (uint64_t)(f->interval_seconds * 1e9);
	/* what it does comes first: there may be no room for the reason */
	if (s->is_text)
		snprintf(s->source_note, sizeof(s->source_note), "looking by itself: %s",
			 s->no_daemon[0] ? s->no_daemon : "no daemon runs");
	else if (s->no_daemon[0])
		snprintf(s->source_note, sizeof(s->source_note), "looking every %g s by itself: %s",
			 f->interval_seconds, s->no_daemon);
	else
		snprintf(s->source_note, sizeof(s->source_note),
			 "no daemon runs: looking every %g s by itself", f->interval_seconds);
	s->is_late = false;
	if (s->is_paused)
		return 0;
	r = look(f, s, err);
	if (r < 0)
		return r;
	f->scene = s;
	if (f->store)
		read = tell_changes(f, &trouble);
	if (scene_add_snapshot(s, &f->snap) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	if (f->store && read == 0)
		read = tell_past(f, &trouble);
	if (read < 0)
		scene_set_message(
			s, "%s",
			trouble.text); /* the host is shown; what the record has comes later */
	else
		f->looked_ns = f->snap.wall_ns;
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
		return 1; /* the keys wait meanwhile */
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
	attempt_list_release(&f->attempts);
	close_fd(&f->root_fd);
	free(f);
}

int feed_open_own(const struct tui_options *options, struct feed *ret, struct err *err)
{
	static const struct feed_ops ops = {
		.timeout_ms = own_timeout,
		.pump = own_pump,
		.grant = own_grant,
		.recall = own_recall,
		.close = own_close,
	};
	struct own_feed *f = calloc(1, sizeof(*f));
	struct gpus_options gpus = { .at_once = true };
	struct collector_options sources = { .mask = options->mask, .want_ebpf = true };
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->options = options;
	f->interval_seconds =
		options->interval_seconds > 0 ? options->interval_seconds : LOOK_SECONDS;
	f->since_ns = clock_wall_ns() - PAST_NS;
	snapshot_init(&f->snap);
	file_limit_raise(NULL); /* for files of /proc that stay open */
	f->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = f->root_fd < 0 ? err_set(err, -errno, "cannot open /: %s", strerror(errno)) : 0;
	gpus.interval_seconds = f->interval_seconds;
	gpus.root_fd = sources.root_fd = f->root_fd;
	if (r == 0 && options->reads_gpus)
		gpus_open(&gpus, &f->gpus, NULL); /* without, none are seen */
	sources.gpus = f->gpus;
	if (r == 0)
		r = collector_new(&sources, &f->collector, err);
	if (r < 0) {
		own_close(f);
		return r;
	}
	*ret = (struct feed){ &ops, f };
	return 0;
}
