/*
 * service_closer - a closer look at a job in which something began: its processes alone, by a
 * collector of its own, between two ticks.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"

#define MAX_PROCESSES 4096		/* a job with more is not looked at closer */
#define TICK_ROOM_NS UINT64_C(20000000) /* so near to a tick, the tick goes first */

struct fast_look {
	struct closer closer;
	struct loop_timer *timer;
	struct collector *collector; /* NULL: nobody is looked at */
	struct snapshot snap;
	uint64_t cost_ns; /* of the last look */
	pid_t pids[MAX_PROCESSES];
};

/* ---- one look ---- */

/* As the last tick has seen them. */
static size_t list_pids(struct service *s, const struct watched *job)
{
	size_t n = 0;

	for (size_t i = 0; s->scan.has_snap && i < s->scan.snap.n_processes; i++) {
		if (s->scan.snap.processes[i].job_id != job->job_id)
			continue;
		if (n == MAX_PROCESSES)
			return 0;
		s->anomaly.fast->pids[n++] = s->scan.snap.processes[i].key.pid;
	}
	return n;
}

/* Both stand by pid, ascending. Who has taken a pid since is nobody's. */
static void tell_whose(const struct service *s, const struct watched *job,
		       struct series_point *point)
{
	struct snapshot *snap = &s->anomaly.fast->snap;
	size_t at = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		struct proc_sample *p = &snap->processes[i];
		const struct proc_sample *was;

		while (at < s->scan.snap.n_processes &&
		       s->scan.snap.processes[at].key.pid < p->key.pid)
			at++;
		was = at < s->scan.snap.n_processes ? &s->scan.snap.processes[at] : NULL;
		if (!was || was->key.pid != p->key.pid ||
		    was->key.start_ticks != p->key.start_ticks || was->job_id != job->job_id)
			continue;
		p->job_id = was->job_id;
		p->sheet_num = was->sheet_num;
		p->rank = was->rank;
	}
	collector_fill(s->anomaly.fast->collector, snap, SNAPSHOT_JOBS);
	for (size_t i = 0; i < snap->n_processes; i++)
		if (snap->processes[i].job_id)
			service_add_to_point(point, &snap->processes[i]);
}

static void look(struct service *s, const struct watched *job)
{
	struct fast_look *fast = s->anomaly.fast;
	struct series_point point = { .sheet_num = job->a.current_sheet,
				      .rss_bytes = U64_UNKNOWN,
				      .cpu_percent = F64_UNKNOWN };
	struct err err = ERR_INIT;
	size_t n = list_pids(s, job);

	if (n == 0 || collector_scan_some(fast->collector, fast->pids, n, &fast->snap, &err) < 0)
		return;
	point.wall_ns = fast->snap.wall_ns;
	tell_whose(s, job, &point);
	service_record_closer(s, job, &fast->snap, &point);
}

static void stop(struct fast_look *fast)
{
	loop_timer_stop(fast->timer);
	fast->collector = collector_free(fast->collector);
	snapshot_reset(&fast->snap);
}

static bool is_tick_near(const struct service *s, uint64_t now)
{
	return s->ticking.cadence.due_boot_ns != 0 &&
	       now + TICK_ROOM_NS + s->anomaly.fast->cost_ns >= s->ticking.cadence.due_boot_ns;
}

static void on_timer(void *ctx)
{
	struct service *s = ctx;
	struct fast_look *fast = s->anomaly.fast;
	const struct watched *job = watch_find_attempt(s->watch, fast->closer.attempt_id);
	uint64_t now = clock_boot_ns(), cpu_before = clock_cpu_ns();

	if (!job || !s->store || !closer_is_on(&fast->closer, now)) {
		stop(fast);
		return;
	}
	if (!is_tick_near(s, now)) {
		look(s, job);
		fast->cost_ns = clock_cpu_ns() - cpu_before;
	}
	loop_timer_set(fast->timer, closer_wait_ms(&fast->closer, fast->cost_ns), 0);
}

/* ---- when ---- */

static int open_fast(struct service *s)
{
	s->anomaly.fast = calloc(1, sizeof(*s->anomaly.fast));
	if (!s->anomaly.fast)
		return -ENOMEM;
	snapshot_init(&s->anomaly.fast->snap);
	s->anomaly.fast->timer = loop_timer_new(s->loop, on_timer, s);
	if (s->anomaly.fast->timer)
		return 0;
	service_release_closer(s);
	return -ENOMEM;
}

static int begin(struct service *s)
{
	const struct collector_options options = { .root_fd = s->root_fd, .mask = service_mask(s) };
	struct fast_look *fast = s->anomaly.fast;
	struct err err = ERR_INIT;
	int r = fast->collector ? 0 : collector_new(&options, &fast->collector, &err);

	if (r == 0)
		loop_timer_set(fast->timer, closer_wait_ms(&fast->closer, fast->cost_ns), 0);
	return r;
}

/* Of jobs that are recorded by us, as nobody else would know of the looks. */
static bool look_closer(struct service *s, const struct detect_wish *wish,
			const struct watched *job)
{
	if (!job || !s->store || !job->a.is_attached)
		return false;
	if (!s->anomaly.fast && open_fast(s) < 0)
		return false;
	return closer_begin(&s->anomaly.fast->closer, wish, job->a.id, clock_boot_ns()) &&
	       begin(s) == 0;
}

/* Who wants none, or cannot have one, has the rest. */
static void trace(struct service *s, const struct episode *e, uint64_t uid,
		  struct anomaly_evidence *evidence)
{
	const struct evidence_trace_plan plan = {
		s->root_fd, s->settings.paths->state_dir,
		s->settings.config->anomaly.evidence_trace_seconds, uid
	};
	struct err err = ERR_INIT;
	int r = plan.seconds > 0 ? evidence_trace_begin(&s->anomaly.trace, &plan, e, evidence, &err)
				 : 0;

	if (plan.seconds > 0 && r == 0)
		s->anomaly.traced_attempt = e->attempt_id;
	if (r < 0)
		log_debug("no trace of process %lld: %s", (long long)e->worst.pid, err.text);
}

/* Who will be told: of what is no job's, who reads all. */
static uint64_t find_owner(struct service *s, const struct episode *e, const struct watched *job)
{
	const struct orphan *orphan;

	if (job || !e->worst.job_id)
		return job ? job->a.uid : 0;
	orphan = e->worst.has_pid ? orphans_find(s->leftovers.orphans, (pid_t)e->worst.pid) : NULL;
	return orphan && orphan->attempt_id == e->attempt_id ? orphan->uid : U64_UNKNOWN;
}

bool service_find_evidence(struct service *s, const struct detect_change *change,
			   const struct watched *job, struct anomaly_evidence *ret)
{
	const uint64_t uid = find_owner(s, change->episode, job);
	const struct evidence_from from = { s->root_fd, service_mask(s), &s->scan.snap, uid };
	bool has_evidence = false;

	if (change->change != EPISODE_BEGAN)
		return false;
	has_evidence = evidence_gather(&from, change->episode, ret);
	if (look_closer(s, &change->wish, job)) {
		ret->fast_interval_seconds = change->wish.interval_seconds;
		has_evidence = true;
	}
	if (has_evidence)
		trace(s, change->episode, uid, ret);
	return has_evidence;
}

/* ---- a trace ---- */

static void keep_trace(struct service *s)
{
	service_log_evidence(s, s->anomaly.traced_attempt, s->anomaly.trace.episode,
			     &s->anomaly.trace.evidence);
}

void service_note_trace(struct service *s)
{
	if (evidence_trace_has_ended(&s->anomaly.trace))
		keep_trace(s);
}

void service_end_trace(struct service *s)
{
	if (evidence_trace_stop(&s->anomaly.trace))
		keep_trace(s);
}

void service_stop_closer(struct service *s)
{
	if (!s->anomaly.fast)
		return;
	stop(s->anomaly.fast);
	s->anomaly.fast->closer.until_boot_ns = 0;
}

void service_release_closer(struct service *s)
{
	if (!s->anomaly.fast)
		return;
	s->anomaly.fast->collector = collector_free(s->anomaly.fast->collector);
	snapshot_release(&s->anomaly.fast->snap);
	free(s->anomaly.fast);
	s->anomaly.fast = NULL;
}
