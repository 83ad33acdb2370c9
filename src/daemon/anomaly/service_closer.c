/*
 * service_closer - a closer look at a job in which something began: its processes alone, by a
 * collector of its own, between two ticks.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
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

static void look(struct service *s, const struct watched *job)
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
	/* Both stand by pid, ascending. Who has taken a pid since is nobody's. */
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

static void stop(struct fast_look *fast)
{
	loop_timer_stop(fast->timer);
	fast->collector = collector_free(fast->collector);
	snapshot_reset(&fast->snap);
}

static void on_timer(void *ctx)
{
	struct service *s = ctx;
	struct fast_look *fast = s->anomaly.fast;
	const struct watched *job = watch_find_attempt(s->watch, fast->closer.attempt_id);
	uint64_t now = clock_boot_ns(), cpu_before = clock_cpu_ns();
	uint64_t tick_ns = s->ticking.cadence.due_boot_ns;

	if (!job || !s->store || !closer_is_on(&fast->closer, now)) {
		stop(fast);
		return;
	}
	if (tick_ns == 0 || now + TICK_ROOM_NS + fast->cost_ns < tick_ns) {
		look(s, job);
		fast->cost_ns = clock_cpu_ns() - cpu_before;
	}
	loop_timer_set(fast->timer, closer_wait_ms(&fast->closer, fast->cost_ns), 0);
}

/* ---- when ---- */

/* Of jobs that are recorded by us, as nobody else would know of the looks. */
static bool look_closer(struct service *s, const struct detect_wish *wish,
			const struct watched *job)
{
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
		fast->timer = loop_timer_new(s->loop, on_timer, s);
	if (!fast->timer || !closer_begin(&fast->closer, wish, job->a.id, clock_boot_ns()) ||
	    (!fast->collector && collector_new(&options, &fast->collector, NULL) < 0))
		return false;
	loop_timer_set(fast->timer, closer_wait_ms(&fast->closer, fast->cost_ns), 0);
	return true;
}

bool service_find_evidence(struct service *s, const struct detect_change *change,
			   const struct watched *job, struct anomaly_evidence *ret)
{
	const struct episode *e = change->episode;
	struct evidence_from from = { s->root_fd, s->settings.mask, &s->scan.snap, 0 };
	struct evidence_trace_plan plan = { s->root_fd, s->settings.paths->state_dir,
					    s->settings.config->anomaly.evidence_trace_seconds, 0 };
	const struct orphan *orphan;
	struct err err = ERR_INIT;
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
	plan.uid = from.uid;
	has_evidence = evidence_gather(&from, e, ret);
	if (look_closer(s, &change->wish, job)) {
		ret->fast_interval_seconds = change->wish.interval_seconds;
		has_evidence = true;
	}
	if (!has_evidence || plan.seconds <= 0)
		return has_evidence;
	if (evidence_trace_begin(&s->anomaly.trace, &plan, e, ret, &err) == 0)
		s->anomaly.traced_attempt = e->attempt_id;
	else /* who wants none, or cannot have one, has the rest */
		log_debug("no trace of process %lld: %s", (long long)e->worst.pid, err.text);
	return true;
}

/* ---- a trace ---- */

void service_note_trace(struct service *s, bool is_leaving)
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
