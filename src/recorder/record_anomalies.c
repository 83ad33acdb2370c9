
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/run_internal.h"
#include "query/query.h"

#define MAX_KEPT 4096 /* for the report; all are in the log */

/* ---- what else the host was doing ---- */

static void release_collector(struct collector **c)
{
	collector_free(*c);
}

/* When a job goes wrong, one thing begins after the other: nobody looks at all for each. */
#define AROUND_NS UINT64_C(1000000000)

/*
 * Not by the run's own collector: what that knows of the job's processes is from one tick to the
 * next, and the files that it keeps open are theirs. The look at all knows nothing of jobs.
 */
static int look_at_all(const struct run *run, struct around *ret)
{
	const struct collector_options options = { .root_fd = run->root_fd };
	CLEANUP(release_collector) struct collector *collector = NULL;
	CLEANUP(snapshot_release) struct snapshot all;
	struct err err = ERR_INIT;
	int r;

	snapshot_init(&all);
	r = collector_new(&options, &collector, &err);
	if (r == 0)
		r = collector_scan(collector, &all, &err);
	if (r < 0)
		return r;
	around_look(run->root_fd, &all, run->snap.boot_ns, ret);
	for (size_t i = 0; i < ret->n_top_rss * run->snap.n_processes; i++) {
		struct anomaly_process *p = &ret->top_rss[i / run->snap.n_processes];
		const struct proc_sample *own = &run->snap.processes[i % run->snap.n_processes];

		if (own->job_id && own->key.pid == p->key.pid &&
		    own->key.start_ticks == p->key.start_ticks)
			snprintf(p->job_id, sizeof(p->job_id), "%s", own->job_id);
	}
	return 0;
}

/*
 * Something began at this tick: all processes of the host are looked at, once for all that begins
 * within a second. One look does not show which take the most CPU, nor how many jobs run: these are
 * unknown.
 */
static void look_around(struct run *run, struct anomaly_host *host)
{
	struct around *around = &run->watching.around;
	const bool is_recent =
		around->boot_ns != 0 && run->snap.boot_ns - around->boot_ns < AROUND_NS;

	host->running_jobs = -1;
	host->knows_cpu = host->knows_rss = false;
	host->n_top_cpu = host->n_top_rss = 0;
	if (is_recent || look_at_all(run, around) == 0)
		around_tell(around, host);
}

/* ---- evidence ---- */

static void keep_trace(struct run *run, bool has_ended)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	if (!has_ended)
		return;
	membership_forget_stranger(run->members, run->watching.trace.ended);
	record_write_evidence(&bytes, run->watching.trace.episode, &run->watching.trace.evidence);
	record_append(run, RECORD_EVIDENCE, &bytes);
}

/* And its processes are looked at closer for a while: run.c plans by that. The tracer is our child,
 * and no part of the job. */
static bool find_evidence(struct run *run, const struct detect_change *change,
			  struct anomaly_evidence *ret)
{
	pid_t looker = 0;
	const struct evidence_from from = {
		.root_fd = run->root_fd,
		.mask = run->options->mask,
		.snap = &run->snap,
		.uid = geteuid(),
		.state_dir = run->options->state_dir,
		.trace_seconds = run->options->anomaly->evidence_trace_seconds,
		.looked = &looker,
	};
	struct evidence_trace *trace = &run->watching.trace;
	const struct config_anomaly *config = run->options->anomaly;
	bool has_evidence;

	if (change->change != EPISODE_BEGAN)
		return false;
	has_evidence = evidence_gather(&from, change->episode, ret);
	if (looker > 0)
		(void)membership_add_stranger(run->members, looker);
	if (change->episode->worst.job_id &&
	    closer_begin(&run->watching.closer, config, run->attempt->id, clock_boot_ns())) {
		ret->fast_interval_seconds = config->evidence_interval_seconds;
		has_evidence = true;
	}
	if (has_evidence && evidence_trace_begin(trace, &from, change->episode, ret, NULL) == 0 &&
	    membership_add_stranger(run->members, trace->tracer) < 0)
		evidence_trace_stop(trace);
	return has_evidence;
}

/* For the report: as it is by now, also where it began before. */
static void keep_anomaly(struct attempt *a, const struct episode *e)
{
	for (size_t i = 0; i < a->details.n_anomalies; i++)
		if (strcmp(a->details.anomalies[i].name, e->name) == 0) {
			if (episode_keep(&a->details.anomalies[i], e, &a->arena) < 0)
				log_debug("%s is not in the report as it is now", e->name);
			return;
		}
	if (a->details.n_anomalies >= MAX_KEPT || episode_append(a, e) < 0)
		log_debug("%s is not in the report", e->name);
}

static void append_anomaly(struct run *run, const struct episode *e, int change)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	record_write_anomaly(&bytes, e, change);
	record_append(run, RECORD_ANOMALY, &bytes);
}

/* A daemon of our own user publishes them when it has looked. */
static void record_changes(struct run *run, const struct detect_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		const struct detect_change *change = &changes->items[i];
		struct anomaly_evidence evidence;
		struct episode episode;

		episode_copy(&episode, change->episode);
		if (change->change == EPISODE_BEGAN)
			look_around(run, &episode.host);
		if (find_evidence(run, change, &evidence))
			episode.evidence = &evidence;
		append_anomaly(run, &episode, (int)change->change);
		keep_anomaly(run->attempt, &episode);
	}
	if (changes->n > 0 && link_state(run->link)->is_there)
		record_tell_changed(run);
}

/* ---- a look ---- */

#define USUAL_AFTER_NS UINT64_C(5000000000) /* a short run never pays for it */
#define USUAL_WAIT_NS UINT64_C(5000000000)  /* for who stores the logs of those before it */

/* Once, from what is stored of other runs. */
static void look_up_usual(struct run *run)
{
	uint64_t age_ns = clock_boot_ns() - run->boot_ns;
	struct attempt a = *run->attempt;
	struct store *store = NULL;

	if (run->watching.has_usual || !attempt_log_is_stored(run->job.log) ||
	    age_ns < USUAL_AFTER_NS)
		return;
	if (!run->watching.has_asked_usual)
		record_store_aside(run);
	run->watching.has_asked_usual = true;
	if (run->storing.pid > 0 && age_ns < USUAL_AFTER_NS + USUAL_WAIT_NS)
		return;
	store = record_open_store(run);
	if (!store)
		return;
	a.sheets = (struct sheet_record *)runner_sheets(run->runner, &a.n_sheets);
	run->watching.has_usual = learning_usual(store, &a, &run->watching.usual, NULL) == 0;
	run->watching.usual.job_id = run->attempt->job_id;
	store_close(store);
}

/* Each once. */
static const struct proc_event *list_own(const struct run *run, size_t *ret_n)
{
	const struct proc_event *all = tally_events(run->tally, ret_n);
	size_t n_judged = run->watching.n_events_judged;

	*ret_n = *ret_n > n_judged ? *ret_n - n_judged : 0;
	return all && *ret_n > 0 ? all + n_judged : NULL;
}

/* ---- kills of other jobs ---- */

/* As long as a count waits to be explained; and two ticks more. */
#define KILLS_ASK_NS UINT64_C(3000000000)
/* A kill happened so long before the count was read, at most. */
#define KILLS_EARLIER_NS UINT64_C(10000000000)

static int count_kills(void *ctx, const struct anomaly_row *row)
{
	struct run *run = ctx;
	const struct anomaly *worst = &row->episode.worst;
	const char *name = row->episode.name;
	double n = row->episode.peak_value;
	uint64_t hash = hash_bytes(HASH_INIT, name, strlen(name)), before = 0, now;

	if (worst->type != ANOMALY_OOM_KILL || !worst->job_id || !(n >= 1 && n < 1e9) ||
	    (row->attempt_num == run->attempt->attempt_num &&
	     strcmp(worst->job_id, run->attempt->job_id) == 0))
		return 0;
	now = (uint64_t)n;
	map_get(&run->kills.counted, hash, &before);
	if (now > before && map_put(&run->kills.counted, hash, now) == 0)
		run->kills.n += now - before;
	return 0;
}

/* The record is looked at when the host has counted a kill, and for some seconds after that: runs
 * beside this one record theirs. */
static void look_for_kills(struct run *run)
{
	struct run_kills *k = &run->kills;
	const struct snapshot *snap = &run->snap;
	uint64_t total = snap->system.oom_kills_total, rise = u64_delta(total, k->host_count);
	double ticks = fmin(fmax(run->attempt->interval_seconds, 0), 60);
	struct anomaly_filter filter = { 0 };
	struct err err = ERR_INIT;
	struct store *store;

	k->n = 0;
	if (u64_known(total))
		k->host_count = total;
	if (u64_known(rise) && rise > 0) {
		k->since_wall_ns =
			snap->wall_ns > KILLS_EARLIER_NS ? snap->wall_ns - KILLS_EARLIER_NS : 0;
		k->until_boot_ns = clock_boot_ns() + KILLS_ASK_NS + (uint64_t)(2e9 * ticks);
	}
	if (clock_boot_ns() >= k->until_boot_ns)
		return;
	record_store_aside(run); /* what they have logged */
	store = record_open_store(run);
	filter.since_wall_ns = k->since_wall_ns;
	if (store && store_read_anomalies(store, &filter, count_kills, run, &err) < 0)
		log_debug("kills of other jobs are counted later: %s", err.text);
	store_close(store);
}

static void look(struct run *run)
{
	struct detect_news news = { .snap = &run->snap, .usual = &run->watching.usual };
	const bool is_shared = link_is_shared(run->link);
	struct detect_changes changes;

	/* What is of the host a daemon tells, where one is. */
	detect_set_scope(run->detect, is_shared ? DETECT_JOBS : DETECT_ALL);
	look_up_usual(run);
	news.n_usual = run->watching.has_usual;
	look_for_kills(run);
	news.events = list_own(run, &news.n_events);
	run->watching.n_events_judged += news.n_events;
	news.n_kills_elsewhere = run->kills.n;
	detect_tick(run->detect, &news, &changes); /* what it has found, it has found */
	record_changes(run, &changes);
}

void record_look_for_anomalies(struct run *run)
{
	const struct episode *e;

	keep_trace(run, evidence_trace_has_ended(&run->watching.trace));
	look(run);
	if (!attempt_log_is_renewal_due(&run->recording.renewed_boot_ns))
		return;
	for (size_t i = 0; (e = detect_active(run->detect, i)); i++)
		append_anomaly(run, e, RECORD_RENEWED);
}

void record_end_anomalies(struct run *run)
{
	struct detect_ending ending = { .wall_ns = run->attempt->ended_wall_ns,
					.leaves_processes = runner_has_processes(run->runner) };
	struct detect_changes changes;
	struct err err = ERR_INIT;
	bool has_kill = false;

	keep_trace(run, evidence_trace_stop(&run->watching.trace));
	ending.events = list_own(run, &ending.n_events);
	/*
	 * A kill for want of memory mostly ends the job, and then there is no further tick. None of
	 * its processes is left to be seen.
	 */
	for (size_t i = 0; i < ending.n_events && !has_kill; i++)
		has_kill = ending.events[i].type == EVENT_OOM;
	if (has_kill && run->collector &&
	    collector_scan_some(run->collector, NULL, 0, &run->snap, &err) == 0) {
		run->snap.wall_ns = ending.wall_ns;
		look(run);
	}
	detect_end_job(run->detect, &ending, &changes);
	record_changes(run, &changes);
}
