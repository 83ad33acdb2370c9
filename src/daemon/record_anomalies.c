
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/evidence.h"
#include "daemon/record.h"
#include "daemon/run_internal.h"
#include "query/query.h"

#define MAX_KEPT 4096 /* for the report; all are in the log */

/* Who traces for us is our child, and none of the job. */
static void trace(struct run *run, const struct episode *e, struct anomaly_evidence *evidence)
{
	const struct evidence_trace_plan plan = { run->root_fd, run->options->state_dir,
						  run->options->anomaly->evidence_trace_seconds,
						  geteuid() };
	struct err err = ERR_INIT;
	int r;

	if (!(plan.seconds > 0))
		return;
	r = evidence_trace_begin(&run->trace, &plan, e, evidence, &err);
	if (r < 0)
		log_debug("no trace of process %lld: %s", (long long)e->worst.pid, err.text);
	else if (membership_add_stranger(run->members, run->trace.tracer) < 0)
		evidence_trace_stop(&run->trace);
}

static void keep_trace(struct run *run, bool has_ended)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	if (!has_ended)
		return;
	membership_forget_stranger(run->members, run->trace.ended);
	record_write_evidence(&bytes, run->trace.episode, &run->trace.evidence);
	record_append(run, RECORD_EVIDENCE, &bytes);
}

/* And its processes are looked at closer for a while: run_tick.c plans by that. */
static bool find_evidence(struct run *run, const struct detect_change *change,
			  struct anomaly_evidence *ret)
{
	const struct evidence_from from = { run->root_fd, run->options->mask, &run->snap,
					    geteuid() };
	bool has_evidence;

	if (change->change != EPISODE_BEGAN)
		return false;
	has_evidence = evidence_gather(&from, change->episode, ret);
	if (closer_begin(&run->closer, &change->wish, run->attempt->id, clock_boot_ns())) {
		ret->fast_interval_seconds = change->wish.interval_seconds;
		has_evidence = true;
	}
	if (has_evidence)
		trace(run, change->episode, ret);
	return has_evidence;
}

/* For the report: as it is by now, also where it began before. */
static void keep_anomaly(struct attempt *a, const struct episode *e)
{
	for (size_t i = 0; i < a->n_anomalies; i++)
		if (strcmp(a->anomalies[i].name, e->name) == 0) {
			if (episode_keep(&a->anomalies[i], e, &a->arena) < 0)
				log_debug("%s is not in the report as it is now", e->name);
			return;
		}
	if (a->n_anomalies >= MAX_KEPT || episode_append(a, e) < 0)
		log_debug("%s is not in the report", e->name);
}

static void append_anomaly(struct run *run, const struct episode *e, int change)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	record_write_anomaly(&bytes, e, change);
	record_append(run, RECORD_ANOMALY, &bytes);
}

static void record_change(struct run *run, const struct detect_change *change)
{
	struct anomaly_evidence evidence;
	struct episode episode;

	episode_copy(&episode, change->episode);
	if (change->change == EPISODE_BEGAN)
		run_look_around(run, &episode.host);
	if (find_evidence(run, change, &evidence))
		episode.evidence = &evidence;
	append_anomaly(run, &episode, (int)change->change);
	keep_anomaly(run->attempt, &episode);
}

/* A daemon of our own user publishes them when it has looked. */
static void record_changes(struct run *run, const struct detect_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		record_change(run, &changes->items[i]);
	if (changes->n > 0 && link_is_there(run->link))
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

	if (run->has_usual || !attempt_log_is_stored(run->log) || age_ns < USUAL_AFTER_NS)
		return;
	if (!run->has_asked_usual)
		record_store_aside(run);
	run->has_asked_usual = true;
	if (run->storing_pid > 0 && age_ns < USUAL_AFTER_NS + USUAL_WAIT_NS)
		return;
	store = record_open_store(run);
	if (!store)
		return;
	a.sheets = (struct sheet_record *)runner_sheets(run->runner, &a.n_sheets);
	run->has_usual = learning_usual(store, &a, &run->usual, NULL) == 0;
	run->usual.job_id = run->attempt->job_id;
	store_close(store);
}

/* Each once. */
static const struct proc_event *list_own(const struct run *run, size_t *ret_n)
{
	const struct proc_event *all = tally_events(run->tally, ret_n);
	size_t n_judged = run->n_events_judged;

	*ret_n = *ret_n > n_judged ? *ret_n - n_judged : 0;
	return all && *ret_n > 0 ? all + n_judged : NULL;
}

/* What we know ourselves, and what a daemon has written down. NULL: no memory, or there is none. */
static struct proc_event *list_news(struct run *run, size_t *ret_n)
{
	struct told_kills *told = &run->told_kills;
	size_t n;
	const struct proc_event *own = list_own(run, &n);
	struct proc_event *list;

	for (size_t i = 0; i < n; i++)
		if (own[i].type == EVENT_OOM)
			told_kills_know(told, &own[i].key);
	if (told_kills_are_due(told, run->attempt, &run->snap)) {
		struct store *store = record_open_store(run);

		record_store_aside(run); /* what runs beside this one have logged */
		told_kills_look(told, store, run->attempt);
		store_close(store);
	}
	list = reallocarray(NULL, n + told->n, sizeof(*list));
	*ret_n = list ? n + told->n : 0;
	if (list && n > 0)
		memcpy(list, own, n * sizeof(*list));
	if (list && told->n > 0)
		memcpy(list + n, told->items, told->n * sizeof(*list));
	if (list)
		run->n_events_judged += n;
	return list;
}

static void look(struct run *run)
{
	CLEANUP(free_ptr) struct proc_event *events = NULL;
	struct detect_news news = { .snap = &run->snap, .usual = &run->usual };
	const bool is_shared = link_is_shared(run->link);
	struct detect_changes changes;

	/* What is of the host a daemon tells, where one is. */
	detect_set_scope(run->detect, is_shared ? DETECT_JOBS : DETECT_ALL);
	look_up_usual(run);
	news.n_usual = run->has_usual;
	news.events = events = list_news(run, &news.n_events);
	news.n_kills_elsewhere = run->told_kills.n_elsewhere;
	detect_tick(run->detect, &news, &changes); /* what it has found, it has found */
	record_changes(run, &changes);
}

void record_look_for_anomalies(struct run *run)
{
	const struct episode *e;

	keep_trace(run, evidence_trace_has_ended(&run->trace));
	look(run);
	if (!attempt_log_is_renewal_due(&run->renewed_boot_ns))
		return;
	for (size_t i = 0; (e = detect_active(run->detect, i)); i++)
		append_anomaly(run, e, RECORD_RENEWED);
}

static bool has_new_kill(const struct run *run)
{
	size_t n;
	const struct proc_event *events = list_own(run, &n);

	for (size_t i = 0; i < n; i++)
		if (events[i].type == EVENT_OOM)
			return true;
	return false;
}

/*
 * A kill for want of memory mostly ends the job, and then there is no further tick. None of its
 * processes is left to be seen.
 */
static void look_at_last_kill(struct run *run)
{
	struct err err = ERR_INIT;

	if (!run->collector || !(has_new_kill(run) || run->has_told_kill) ||
	    collector_scan_some(run->collector, NULL, 0, &run->snap, &err) < 0)
		return;
	run->snap.wall_ns = run->attempt->ended_wall_ns;
	look(run);
}

void record_end_anomalies(struct run *run)
{
	struct detect_ending ending = { .wall_ns = run->attempt->ended_wall_ns,
					.leaves_processes = runner_has_processes(run->runner) };
	struct detect_changes changes;

	keep_trace(run, evidence_trace_stop(&run->trace));
	ending.events = list_own(run, &ending.n_events);
	look_at_last_kill(run);
	detect_end_job(run->detect, &ending, &changes);
	record_changes(run, &changes);
}
