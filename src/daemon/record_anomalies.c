#include "daemon/record_anomalies.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/evidence.h"
#include "daemon/run_around.h"
#include "daemon/run_internal.h"

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
	struct err err = ERR_INIT;

	if (!has_ended)
		return;
	membership_forget_stranger(run->members, run->trace.ended);
	if (unsaved_set_evidence(&run->unsaved, run->store, run->trace.episode,
				 &run->trace.evidence, &err) < 0)
		log_warning("the trace of %s is not recorded%s: %s", run->trace.episode,
			    run->unsaved.late ? " yet" : "", err.text);
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

/* One that cannot be stored now is stored later, or at the end. What is of the host is nobody's. */
static void store_anomaly(struct run *run, const struct detect_change *change)
{
	struct anomaly_evidence evidence;
	struct episode episode;
	const struct anomaly_news news = {
		.attempt_id = change->episode->worst.job_id ? run->attempt->id : 0,
		.episode = &episode,
		.change = change->change,
		.takes_over = !link_is_shared(run->link), /* what a daemon began that is gone */
	};
	struct err err = ERR_INIT;

	episode_copy(&episode, change->episode);
	if (change->change == EPISODE_BEGAN && !change->episode->is_adopted)
		run_look_around(run, &episode.host);
	if (find_evidence(run, change, &evidence))
		episode.evidence = &evidence;
	unsaved_write(&run->unsaved, run->store, &news, NULL, &err);
}

/* ---- a daemon is gone ---- */

/* Of this attempt, or of the host. */
static int adopt_one(void *ctx, const struct anomaly_row *row)
{
	struct run *run = ctx;
	struct episode e;

	if (row->episode.attempt_id != 0 && row->episode.attempt_id != run->attempt->id)
		return 0;
	episode_copy(&e, &row->episode);
	e.attempt_id = 0; /* as our samples have it */
	if (detect_adopt(run->detect, &e) < 0)
		log_debug("%s is not followed any more", e.name);
	return 0;
}

/* What waits to be written may be the end of what the record still has as lasting. */
static void adopt(struct run *run, bool is_shared)
{
	const struct anomaly_filter lasting = { .lasting_wall_ns = INT64_MAX };
	struct err err = ERR_INIT;

	if (is_shared || !run->adopts || !run->store || run->unsaved.n > 0) {
		run->adopts |= is_shared;
		return;
	}
	if (store_read_anomalies(run->store, &lasting, adopt_one, run, &err) < 0)
		log_debug("what lasts is not known: %s", err.text);
	else
		run->adopts = false;
}

/* ---- a look ---- */

static void store_anomalies(struct run *run, const struct detect_changes *changes)
{
	for (size_t i = 0; !run->store_is_off && i < changes->n; i++)
		store_anomaly(run, &changes->items[i]);
	if (changes->n == 0)
		unsaved_retry(&run->unsaved, run->store, 0, NULL);
}

#define USUAL_AFTER_NS UINT64_C(5000000000) /* a short run never pays for it */

/* Once, from the record, which has its sheets as those of others. */
static void look_up_usual(struct run *run)
{
	CLEANUP(attempt_release) struct attempt a;

	attempt_init(&a);
	if (run->has_usual || !run->store || clock_boot_ns() - run->boot_ns < USUAL_AFTER_NS)
		return;
	if (store_read_progress(run->store, run->attempt->job_id, run->attempt->attempt_num, &a,
				NULL) < 0 ||
	    learning_usual(run->store, &a, &run->usual, NULL) < 0)
		return;
	run->usual.job_id = run->attempt->job_id;
	run->has_usual = true;
}

/* Each once, however long it waits to be stored. */
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
	told_kills_look(told, run->store, run->attempt, &run->snap);
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
	adopt(run, is_shared);
	look_up_usual(run);
	news.n_usual = run->has_usual;
	news.events = events = list_news(run, &news.n_events);
	news.n_kills_elsewhere = run->told_kills.n_elsewhere;
	detect_tick(run->detect, &news, &changes); /* what it has found, it has found */
	store_anomalies(run, &changes);
}

/* What waits to be written may be the beginning of one. */
static struct lasting_of of_run(const struct run *run)
{
	const bool is_writable = run->attempt->id > 0 && run->unsaved.n == 0 && !run->store_is_off;

	return (struct lasting_of){ is_writable ? run->store : NULL, run->detect,
				    run->attempt->id };
}

void record_look_for_anomalies(struct run *run)
{
	struct lasting_of of;

	run->is_handed_over = false;
	keep_trace(run, evidence_trace_has_ended(&run->trace));
	look(run);
	of = of_run(run);
	lasting_look(&run->lasting, &of);
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

	if (!run->collector || !has_new_kill(run) || link_records(run->link) ||
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
	store_anomalies(run, &changes);
}

/*
 * From now on a daemon looks. What lasts is left open in the record, as it is by now, and the
 * daemon goes on with it when it sees the same; kills are moments, and told here.
 */
void record_hand_over_anomalies(struct run *run)
{
	struct detect_changes changes;
	struct lasting_of of;

	unsaved_retry(&run->unsaved, run->store, 0, NULL);
	tally_events(run->tally, &run->n_events_judged); /* the daemon tells what happens now */
	if (run->is_handed_over)
		return;
	run->is_handed_over = run->adopts = true;
	keep_trace(run, evidence_trace_stop(&run->trace));
	of = of_run(run);
	lasting_write_all(&run->lasting, &of);
	detect_end(run->detect, &changes);
	for (size_t i = 0; i < changes.n; i++)
		if (changes.items[i].episode->worst.type == ANOMALY_OOM_KILL)
			store_anomaly(run, &changes.items[i]);
}
