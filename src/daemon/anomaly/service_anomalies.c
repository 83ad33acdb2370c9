/*
 * service_anomalies - what is out of the ordinary with the host, attached trees and orphans: looked
 * for at each tick, published and recorded. An OOM kill does not wait for a tick. Runners judge
 * their own jobs.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/*
 * ---- a closer look at a job in which something began: its processes alone, by a collector of its
 * own, between two ticks ----
 */

#define MAX_PROCESSES 4096		/* a job with more is not looked at closer */
#define TICK_ROOM_NS UINT64_C(20000000) /* so near to a tick, the tick goes first */

struct fast_look {
	struct closer closer;
	struct loop_timer *timer;
	struct collector *collector; /* NULL: no job is looked at closer */
	struct snapshot snap;
	uint64_t cost_ns; /* of the last look */
	pid_t pids[MAX_PROCESSES];
};

/* ---- one look ---- */

static void look_closer_now(struct service *s, const struct watched *job)
{
	struct fast_look *fast = s->anomaly.fast;
	struct snapshot *snap = &fast->snap;
	const struct snapshot *last = &s->scan.snap;
	struct series_point point = { .sheet_num = job->a.current_sheet,
				      .rss_bytes = U64_UNKNOWN,
				      .cpu_percent = F64_UNKNOWN };
	struct err err = ERR_INIT;
	size_t n = 0, at = 0;

	/* As the last tick has seen them. */
	for (size_t i = 0; s->scan.has_snap && i < last->n_processes; i++) {
		if (last->processes[i].job_id != job->job_id)
			continue;
		if (n == MAX_PROCESSES)
			return;
		fast->pids[n++] = last->processes[i].key.pid;
	}
	if (n == 0 || collector_scan_some(fast->collector, fast->pids, n, snap, &err) < 0)
		return;
	point.wall_ns = snap->wall_ns;
	/* Both stand by pid, ascending. A process that took a pid since is of no job. */
	for (size_t i = 0; i < snap->n_processes; i++) {
		struct proc_sample *p = &snap->processes[i];
		const struct proc_sample *was;

		while (at < last->n_processes && last->processes[at].key.pid < p->key.pid)
			at++;
		was = at < last->n_processes ? &last->processes[at] : NULL;
		if (!was || was->key.pid != p->key.pid ||
		    was->key.start_ticks != p->key.start_ticks || was->job_id != job->job_id)
			continue;
		p->job_id = was->job_id;
		p->sheet_num = was->sheet_num;
		p->rank = was->rank;
	}
	collector_fill(fast->collector, snap, SNAPSHOT_JOBS);
	for (size_t i = 0; i < snap->n_processes; i++)
		if (snap->processes[i].job_id)
			service_add_to_point(&point, &snap->processes[i]);
	service_record_closer(s, job, snap, &point);
}

static void stop_closer(struct fast_look *fast)
{
	loop_timer_stop(fast->timer);
	fast->collector = collector_free(fast->collector);
	snapshot_reset(&fast->snap);
}

static void on_closer_timer(void *ctx)
{
	struct service *s = ctx;
	struct fast_look *fast = s->anomaly.fast;
	const struct watched *job = watch_find_attempt(s->watch, fast->closer.attempt_id);
	uint64_t now = clock_boot_ns(), cpu_before = clock_cpu_ns();
	uint64_t tick_ns = s->ticking.cadence.due_boot_ns;

	if (!job || !s->store || !closer_is_on(&fast->closer, now)) {
		stop_closer(fast);
		return;
	}
	if (tick_ns == 0 || now + TICK_ROOM_NS + fast->cost_ns < tick_ns) {
		look_closer_now(s, job);
		fast->cost_ns = clock_cpu_ns() - cpu_before;
	}
	loop_timer_set(fast->timer, closer_wait_ms(&fast->closer, fast->cost_ns), 0);
}

/* ---- when ---- */

/* Of jobs that the daemon records: no other recorder would know of the looks. */
static bool look_closer(struct service *s, const struct watched *job)
{
	const struct config_anomaly *config = &s->settings.config->anomaly;
	const struct collector_options options = { .root_fd = s->root_fd,
						   .mask = s->settings.mask };
	struct fast_look *fast = s->anomaly.fast;

	if (!job || !s->store || !job->a.is_attached)
		return false;
	if (!fast) {
		fast = s->anomaly.fast = calloc(1, sizeof(*fast));
		if (!fast)
			return false;
		snapshot_init(&fast->snap);
	}
	if (!fast->timer)
		fast->timer = loop_timer_new(s->loop, on_closer_timer, s);
	if (!fast->timer || !closer_begin(&fast->closer, config, job->a.id, clock_boot_ns()) ||
	    (!fast->collector && collector_new(&options, &fast->collector, NULL) < 0))
		return false;
	loop_timer_set(fast->timer, closer_wait_ms(&fast->closer, fast->cost_ns), 0);
	return true;
}

/*
 * For one that began: what is found out about its culprit; and its job, if there is one, is looked
 * at closer for a while. False: nothing was found out, and nothing is looked at.
 */
static bool find_evidence(struct service *s, const struct detect_change *change,
			  const struct watched *job, struct anomaly_evidence *ret)
{
	const struct episode *e = change->episode;
	struct evidence_from from = {
		.root_fd = s->root_fd,
		.mask = s->settings.mask,
		.snap = &s->scan.snap,
		.state_dir = s->settings.paths->state_dir,
		.trace_seconds = s->settings.config->anomaly.evidence_trace_seconds,
	};
	const struct orphan *orphan;
	bool has_evidence;

	if (change->change != EPISODE_BEGAN)
		return false;
	/* Who will be told: of what is no job's, who reads all. */
	if (job) {
		from.uid = job->a.uid;
	} else if (e->worst.job_id) {
		orphan = e->worst.has_pid ? orphans_find(s->leftovers.orphans, (pid_t)e->worst.pid)
					  : NULL;
		from.uid =
			orphan && orphan->attempt_id == e->attempt_id ? orphan->uid : U64_UNKNOWN;
	}
	has_evidence = evidence_gather(&from, e, ret);
	if (look_closer(s, job)) {
		ret->fast_interval_seconds = s->settings.config->anomaly.evidence_interval_seconds;
		has_evidence = true;
	}
	if (has_evidence && evidence_trace_begin(&s->anomaly.trace, &from, e, ret, NULL) == 0)
		s->anomaly.traced_attempt = e->attempt_id;
	return has_evidence;
}

/* ---- a trace ---- */

/* At each tick, and when the daemon leaves: records a trace that has ended, or ends it. */
static void note_trace(struct service *s, bool is_leaving)
{
	struct evidence_trace *trace = &s->anomaly.trace;
	CLEANUP(buf_release) struct buf record = BUF_INIT;

	if (!(is_leaving ? evidence_trace_stop(trace) : evidence_trace_has_ended(trace)))
		return;
	record_write_evidence(&record, trace->episode, &trace->evidence);
	(void)service_log(s, s->anomaly.traced_attempt, RECORD_EVIDENCE, &record);
}

void service_stop_closer(struct service *s)
{
	if (!s->anomaly.fast)
		return;
	stop_closer(s->anomaly.fast);
	s->anomaly.fast->closer.until_boot_ns = 0;
}

/* ---- recording ---- */

/* A runner records its job, and judges it: attached trees are judged here. */
static bool has_runner(const struct watched *job)
{
	return job && job->a.is_running && !job->a.is_attached;
}

static bool is_judged_elsewhere(void *ctx, int64_t attempt_id)
{
	struct service *s = ctx;

	return has_runner(watch_find_attempt(s->watch, attempt_id));
}

/* What else the host was doing, where the tick does not know the memory of all processes. In a
 * copy: the snapshot of the tick is what others show and record. */
static void look_around(struct service *s, struct anomaly_host *host)
{
	CLEANUP(snapshot_release) struct snapshot all;

	snapshot_init(&all);
	if (host->knows_rss || !s->scan.has_snap)
		return;
	if (s->anomaly.around.boot_ns != s->scan.snap.boot_ns) {
		if (snapshot_copy(&all, &s->scan.snap, SNAPSHOT_ALL) < 0)
			return;
		around_look(s->root_fd, &all, s->scan.snap.boot_ns, &s->anomaly.around);
	}
	around_tell(&s->anomaly.around, host);
}

/* The daemon is their recorder: they are published when they are appended. */
static void record_change(struct service *s, const struct detect_change *c)
{
	const struct watched *job = watch_find_attempt(s->watch, c->episode->attempt_id);
	struct anomaly_evidence evidence;
	struct episode episode;
	struct log_id log;
	uint64_t uid;

	episode_copy(&episode, c->episode);
	if (c->change == EPISODE_BEGAN && !c->episode->is_adopted)
		look_around(s, &episode.host);
	if (find_evidence(s, c, job, &evidence))
		episode.evidence = &evidence;
	service_log_anomaly(s, &episode, (int)c->change);
	if (!watch_log_of(s->watch, episode.attempt_id, &log, &uid))
		uid = U64_UNKNOWN; /* the host's, or nobody knows whose it was */
	service_publish_anomaly(s, &episode, c->change, uid);
}

static void record_changes(struct service *s, const struct detect_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		record_change(s, &changes->items[i]);
}

/* What goes on is recorded as it is, now and then: its peak, its count, and that it lasts. */
static void renew(struct service *s)
{
	const struct episode *e;

	for (size_t i = 0; (e = detect_active(s->detect, i)); i++)
		service_log_anomaly(s, e, RECORD_RENEWED);
}

/* ---- a stage of a tick ---- */

#define USUAL_PER_TICK 4		    /* jobs whose past is looked up */
#define USUAL_AFTER_NS UINT64_C(2000000000) /* what is shorter needs no judgement */

/* What the jobs that run usually do, as far as it was looked up. -ENOMEM. */
static int list_usual(struct service *s, struct detect_usual **ret, size_t *ret_n)
{
	size_t n, n_looked_up = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);
	struct detect_usual *list = calloc(n ? n : 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	*ret_n = 0;
	for (size_t i = 0; i < n; i++) {
		struct watched *job = jobs[i];
		uint64_t age_ns = u64_delta(s->scan.snap.wall_ns, job->a.started_wall_ns);

		if (has_runner(job))
			continue;
		if (!job->has_usual && s->store && u64_known(age_ns) && age_ns >= USUAL_AFTER_NS &&
		    n_looked_up++ < USUAL_PER_TICK) {
			struct attempt asked = job->a;

			asked.id = 0; /* that is no row's */
			learning_usual(s->store, &asked, &job->usual, NULL);
			job->has_usual = true;
		}
		if (!job->has_usual)
			continue;
		list[*ret_n] = job->usual;
		list[(*ret_n)++].attempt_id = job->a.id;
	}
	*ret = list;
	return 0;
}

/* Ends, and all who were found to be left of a job. Without memory they wait. */
static struct proc_event *list_news(struct service *s, struct detect_news *news)
{
	size_t n = s->anomaly.n_exits;
	struct proc_event *list =
		calloc(n + orphans_count(s->leftovers.orphans) + 1, sizeof(*list));
	struct orphan *orphan = NULL;

	if (!list)
		return NULL;
	memcpy(list, s->anomaly.exits, n * sizeof(*list));
	s->anomaly.n_exits = 0;
	while ((orphan = orphans_next(s->leftovers.orphans, orphan))) {
		if (orphan->is_judged || orphan->attempt_id == 0)
			continue;
		orphan->is_judged = true;
		list[n++] = (struct proc_event){
			.wall_ns = orphan->left_wall_ns,
			.key = orphan->key,
			.type = EVENT_ORPHAN,
			.status = { -1, -1 },
			.job_id = orphan->job_id,
			.attempt_id = orphan->attempt_id,
			.sheet_num = orphan->sheet_num,
			.details = EVENT_ORPHAN_WORDS,
		};
	}
	news->events = list;
	news->n_events = n;
	return list;
}

/* ---- what lasts by the record when the daemon begins ---- */

#define ADOPT_SECONDS 30
#define ADOPT_TICKS 3 /* a guest that looks as often as the daemon is there again by then */

/* One of an attempt that is over goes with that, unless its process outlives it: one that lives is
 * gone on with when it is found; who does not is missed, and that ends it. */
static int adopt_one(void *ctx, const struct anomaly_row *row)
{
	struct service *s = ctx;
	struct episode e;
	const struct watched *job;
	const struct orphan *orphan;
	bool is_ours;
	int r;

	episode_copy(&e, &row->episode);
	e.attempt_id = service_attempt_of_row(s, e.attempt_id);
	job = watch_find_attempt(s->watch, e.attempt_id);
	orphan = orphans_find(s->leftovers.orphans, (pid_t)e.worst.pid);
	if (job)
		is_ours = !has_runner(job);
	else if (e.worst.type == ANOMALY_ORPHAN)
		is_ours = (orphan && orphan->key.start_ticks == e.worst.start_ticks) ||
			  !proc_is_alive("", (pid_t)e.worst.pid, e.worst.start_ticks);
	else
		is_ours = row->episode.attempt_id == 0;
	r = is_ours ? detect_adopt(s->detect, &e) : 0;
	if (r < 0)
		log_debug("%s is not followed any more: %d", e.name, r);
	return 0;
}

/* What is not ingested yet may be the end of what the database still has as active. */
static void adopt(struct service *s)
{
	const struct anomaly_filter lasting = { .lasting_wall_ns = INT64_MAX };
	const double seconds = fmax(ADOPT_SECONDS, ADOPT_TICKS * s->interval_seconds);
	struct err err = ERR_INIT;

	if (s->anomaly.adopt_until_ns == 0)
		s->anomaly.adopt_until_ns = clock_boot_ns() + (uint64_t)(seconds * 1e9);
	if (!s->store || s->database.ingest_err.code != 0 ||
	    clock_boot_ns() >= s->anomaly.adopt_until_ns)
		return;
	if (store_read_anomalies(s->store, &lasting, adopt_one, s, &err) < 0)
		log_debug("what lasts is not known: %s", err.text);
}

/* ---- a look ---- */

static void tell_kills(void *ctx)
{
	struct service *s = ctx;
	struct snapshot now = s->scan.snap; /* borrows all but its time */
	struct detect_news news = { .snap = &now,
				    .events = s->anomaly.kills,
				    .n_events = s->anomaly.n_kills };
	struct detect_changes changes = { 0 };

	if (!s->scan.has_snap || s->anomaly.n_kills == 0)
		return; /* the first tick tells them */
	now.wall_ns = clock_wall_ns();
	now.boot_ns = clock_boot_ns();
	if (detect_note_kills(s->detect, &news, &changes) < 0)
		log_warning("not all that is known of an OOM kill is recorded: no memory left");
	record_changes(s, &changes);
	s->anomaly.n_kills = 0;
	arena_reset(&s->anomaly.kill_texts);
}

int service_detect(struct service *s, struct err *err)
{
	CLEANUP(free_ptr) struct detect_usual *usual = NULL;
	CLEANUP(free_ptr) struct proc_event *events = NULL;
	struct detect_news news = { .snap = &s->scan.snap,
				    .is_judged_elsewhere = is_judged_elsewhere,
				    .ctx = s };
	struct detect_changes changes = { 0 };
	int r = 0;

	note_trace(s, false);
	if (!s->scan.has_snap)
		return 0;
	if (list_usual(s, &usual, &news.n_usual) == 0)
		news.usual = usual;
	events = list_news(s, &news);
	adopt(s);
	if (detect_tick(s->detect, &news, &changes) < 0)
		r = err_set(err, -ENOMEM, "no memory left to look for anomalies");
	record_changes(s, &changes);
	tell_kills(s);
	if (attempt_log_is_renewal_due(&s->anomaly.renewed_boot_ns))
		renew(s);
	return r;
}

/* ---- kills between two ticks ---- */

/* What the host was doing is known from the last tick. Told a turn of the loop later: whoever has
 * heard of it is in the midst of something else. */
void service_keep_kill(struct service *s, const struct proc_event *ev, int64_t attempt_id)
{
	struct proc_event *kept;

	if (s->anomaly.n_kills == SERVICE_MAX_KILLS)
		tell_kills(s);
	if (s->anomaly.n_kills == SERVICE_MAX_KILLS)
		return;
	kept = &s->anomaly.kills[s->anomaly.n_kills];
	*kept = *ev;
	kept->attempt_id = attempt_id;
	kept->job_id = arena_strdup(&s->anomaly.kill_texts, ev->job_id);
	kept->details = arena_strdup(&s->anomaly.kill_texts, ev->details);
	if (!kept->job_id || !kept->details)
		return;
	s->anomaly.n_kills++;
	if (!s->anomaly.kills_timer)
		s->anomaly.kills_timer = loop_timer_new(s->loop, tell_kills, s);
	if (s->anomaly.kills_timer) /* else the next tick tells them */
		loop_timer_set(s->anomaly.kills_timer, 0, 0);
}

/* ---- the end ---- */

/* What lasts, where somebody goes on to look, who adopts it: kills are moments, and end here. The
 * next daemon goes on with a process that outlives its job. */
static bool is_left_to_others(struct service *s, const struct episode *e)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	bool is_left = false;

	if (!s->store || e->worst.type == ANOMALY_OOM_KILL)
		return false; /* or the record is gone */
	if (e->worst.type == ANOMALY_ORPHAN && e->worst.has_pid &&
	    u64_known(e->worst.start_ticks) &&
	    proc_is_alive("", (pid_t)e->worst.pid, e->worst.start_ticks))
		return true;
	for (size_t i = 0; i < n; i++)
		is_left |=
			has_runner(jobs[i]) && (!e->worst.job_id || jobs[i]->a.id == e->attempt_id);
	return is_left;
}

/* Where nobody goes on, who looks next begins anew. */
void service_end_anomalies(struct service *s)
{
	const struct detect_ending ending = { U64_UNKNOWN, s->anomaly.exits, s->anomaly.n_exits,
					      true };
	struct detect_changes changes = { 0 };

	if (!s->detect)
		return;
	note_trace(s, true);
	renew(s);
	if (detect_end_job(s->detect, &ending, &changes) < 0)
		log_warning("not all anomalies that last are recorded as over: no memory left");
	for (size_t i = 0; i < changes.n; i++)
		if (!is_left_to_others(s, changes.items[i].episode))
			record_change(s, &changes.items[i]);
	if (s->anomaly.fast) {
		collector_free(s->anomaly.fast->collector);
		snapshot_release(&s->anomaly.fast->snap);
	}
	free(s->anomaly.fast);
	s->anomaly.fast = NULL;
	arena_release(&s->anomaly.kill_texts);
}

/* The kernel may know its process by the pid alone. Of those that there is no room for it is seen
 * by looking. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns)
{
	for (size_t i = 0; i < s->anomaly.n_exits; i++) {
		struct proc_key *known = &s->anomaly.exits[i].key;

		if (known->pid != key->pid ||
		    (known->start_ticks != key->start_ticks && u64_known(known->start_ticks) &&
		     u64_known(key->start_ticks)))
			continue;
		if (u64_known(key->start_ticks))
			*known = *key;
		return;
	}
	if (detect_follows(s->detect, key->pid) && s->anomaly.n_exits < SERVICE_MAX_EXITS)
		s->anomaly.exits[s->anomaly.n_exits++] = (struct proc_event){
			.wall_ns = wall_ns, .key = *key, .type = EVENT_EXIT, .status = { -1, -1 }
		};
}

/* One that nobody knows the end of goes when the ticks do not show it any more. */
void service_end_anomalies_of(struct service *s, const struct watched *job)
{
	const struct detect_job left = { job->job_id, job->a.id };
	struct detect_ending ending = { .wall_ns = job->a.ended_wall_ns };
	struct detect_changes changes = { 0 };
	const struct episode *e;

	if (!u64_known(job->a.ended_wall_ns))
		return;
	for (size_t i = 0; (e = detect_active(s->detect, i)); i++) {
		const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };

		/* Where nobody has told when, it was with its job at the latest. */
		if (e->attempt_id == job->a.id && e->worst.has_pid && u64_known(key.start_ticks) &&
		    !proc_is_alive("", key.pid, key.start_ticks))
			service_note_exit(s, &key, job->a.ended_wall_ns);
	}
	ending.events = s->anomaly.exits;
	ending.n_events = s->anomaly.n_exits;
	if (detect_leave_job(s->detect, &left, &ending, &changes) < 0)
		log_warning("not all anomalies of job %s are recorded as over: no memory left",
			    job->job_id);
	s->anomaly.n_exits = 0;
	record_changes(s, &changes);
}
