/*
 * service_anomalies - what is out of the ordinary: looked for at each tick, told on the bus and
 * written down. Of a process that the kernel has killed for want of memory nobody waits for a tick.
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

/* ---- recording ---- */

/* A runner records its job, and judges it: attached trees are judged here. */
static bool has_runner(const struct watched *job)
{
	return job && job->a.is_running && !job->a.is_attached;
}

static const struct watched *find_job(const struct service *s, const struct episode *e)
{
	return e->attempt_id ? watch_find_attempt(s->watch, e->attempt_id) : NULL;
}

bool service_is_judged_by_runner(const struct service *s, const struct episode *e)
{
	const struct watched *job = find_job(s, e);

	return e->attempt_id != 0 && e->worst.type != ANOMALY_ORPHAN &&
	       !(job && job->a.is_attached);
}

static bool is_judged_elsewhere(void *ctx, int64_t attempt_id)
{
	struct service *s = ctx;

	return has_runner(watch_find_attempt(s->watch, attempt_id));
}

/* What else the host was doing, where the tick does not know the memory of all processes. In a
 * copy: the snapshot of the tick is what others show and record. -ENOMEM. */
static int look_at_all(const struct service *s, struct around *ret)
{
	CLEANUP(snapshot_release) struct snapshot all;
	int r;

	snapshot_init(&all);
	r = snapshot_copy(&all, &s->scan.snap, SNAPSHOT_ALL);
	if (r == 0)
		around_look(s->root_fd, &all, s->scan.snap.boot_ns, ret);
	return r;
}

static void look_around(struct service *s, struct anomaly_host *host)
{
	if (host->knows_rss || !s->scan.has_snap)
		return;
	if (s->anomaly.around.boot_ns == s->scan.snap.boot_ns ||
	    look_at_all(s, &s->anomaly.around) == 0)
		around_tell(&s->anomaly.around, host);
}

/* Whose the job is, or was; unknown: the host's. */
static uint64_t find_owner(struct service *s, const struct episode *e)
{
	struct log_id log;
	uint64_t uid;

	return watch_log_of(s->watch, e->attempt_id, &log, &uid) ? uid : U64_UNKNOWN;
}

/* The daemon is their recorder: they are published when they are appended. */
static void record_change(struct service *s, const struct detect_change *c)
{
	const struct watched *job = find_job(s, c->episode); /* or it is over */
	struct anomaly_evidence evidence;
	struct episode episode;

	if (service_is_judged_by_runner(s, c->episode))
		return;
	episode_copy(&episode, c->episode);
	if (c->change == EPISODE_BEGAN && !c->episode->is_adopted)
		look_around(s, &episode.host);
	if (service_find_evidence(s, c, job, &evidence))
		episode.evidence = &evidence;
	service_log_anomaly(s, &episode, (int)c->change);
	service_publish_anomaly(s, &episode, c->change, find_owner(s, &episode));
}

void service_record_changes(struct service *s, const struct detect_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		record_change(s, &changes->items[i]);
}

/* What goes on is recorded as it is, now and then: its peak, its count, and that it lasts. */
static void renew(struct service *s)
{
	const struct episode *e;

	for (size_t i = 0; (e = detect_active(s->detect, i)); i++)
		if (!service_is_judged_by_runner(s, e))
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

static void count_new(void *ctx, struct orphan *orphan)
{
	*(size_t *)ctx += !orphan->is_judged && orphan->attempt_id != 0;
}

static void list_new(void *ctx, struct orphan *orphan)
{
	struct proc_event **next = ctx;

	if (orphan->is_judged || orphan->attempt_id == 0)
		return;
	orphan->is_judged = true;
	*(*next)++ = (struct proc_event){
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

static struct proc_event *add(struct proc_event *to, const struct proc_event *items, size_t n)
{
	memcpy(to, items, n * sizeof(*items));
	return to + n;
}

/* Kills, ends, and all who were found to be left of a job. Without memory the last two wait. */
static struct proc_event *list_news(struct service *s, struct detect_news *news)
{
	struct proc_event *list, *next;
	size_t n = s->anomaly.exits.n;

	orphans_each(s->leftovers.orphans, count_new, &n);
	list = n > 0 ? calloc(s->anomaly.ooms.n + n, sizeof(*list)) : NULL;
	if (!list)
		return NULL;
	next = add(list, s->anomaly.ooms.items, s->anomaly.ooms.n);
	next = add(next, s->anomaly.exits.items, s->anomaly.exits.n);
	s->anomaly.exits.n = 0;
	orphans_each(s->leftovers.orphans, list_new, &next);
	news->events = list;
	news->n_events = (size_t)(next - list);
	return list;
}

/* ---- what lasts by the record when the daemon begins ---- */

#define ADOPT_SECONDS 30
#define ADOPT_TICKS 3 /* a guest that looks as often as the daemon is there again by then */

/* One that lives is gone on with when it is found; who does not is missed, and that ends it. */
static bool is_followed(const struct service *s, const struct anomaly *a)
{
	const pid_t pid = (pid_t)a->pid;
	const struct orphan *orphan = orphans_find(s->leftovers.orphans, pid);

	return (orphan && orphan->key.start_ticks == a->start_ticks) ||
	       !proc_is_alive("", pid, a->start_ticks);
}

/* One of an attempt that is over goes with that, unless its process outlives it. */
static int adopt_one(void *ctx, const struct anomaly_row *row)
{
	struct service *s = ctx;
	struct episode e;
	const struct watched *job;
	bool is_ours;
	int r;

	episode_copy(&e, &row->episode);
	e.attempt_id = service_attempt_of_row(s, e.attempt_id);
	job = find_job(s, &e);
	is_ours = job ? !has_runner(job)
		      : row->episode.attempt_id == 0 ||
				  (e.worst.type == ANOMALY_ORPHAN && is_followed(s, &e.worst));
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

int service_detect(struct service *s, struct err *err)
{
	CLEANUP(free_ptr) struct detect_usual *usual = NULL;
	CLEANUP(free_ptr) struct proc_event *events = NULL;
	struct detect_news news = { .snap = &s->scan.snap,
				    .events = s->anomaly.ooms.items,
				    .n_events = s->anomaly.ooms.n,
				    .is_judged_elsewhere = is_judged_elsewhere,
				    .ctx = s };
	struct detect_changes changes = { 0 };
	int r = 0;

	service_note_trace(s);
	if (!s->scan.has_snap)
		return 0;
	if (list_usual(s, &usual, &news.n_usual) == 0)
		news.usual = usual;
	events = list_news(s, &news);
	adopt(s);
	if (detect_tick(s->detect, &news, &changes) < 0)
		r = err_set(err, -ENOMEM, "no memory left to look for anomalies");
	service_forget_ooms(s);
	service_record_changes(s, &changes);
	if (attempt_log_is_renewal_due(&s->anomaly.renewed_boot_ns))
		renew(s);
	return r;
}

/* ---- kills between two ticks ---- */

/* Those that have come go first, in their order; the others wait for the tick. */
static size_t take_kills(struct oom_news *ooms, struct proc_event kills[SERVICE_MAX_OOMS])
{
	size_t n = 0, n_left = 0;

	for (size_t i = 0; i < ooms->n; i++) {
		if (ooms->items[i].type == EVENT_OOM)
			kills[n++] = ooms->items[i];
		else
			ooms->items[n_left++] = ooms->items[i];
	}
	ooms->n = n_left;
	return n;
}

/* What the host was doing is known from the last tick. */
void service_tell_kills(struct service *s)
{
	struct proc_event kills[SERVICE_MAX_OOMS];
	struct snapshot now = s->scan.snap; /* borrows all but its time */
	struct detect_news news = { .snap = &now, .events = kills };
	struct detect_changes changes = { 0 };

	if (!s->scan.has_snap)
		return; /* the first tick tells them */
	news.n_events = take_kills(&s->anomaly.ooms, kills);
	now.wall_ns = clock_wall_ns();
	now.boot_ns = clock_boot_ns();
	if (detect_note_kills(s->detect, &news, &changes) < 0)
		log_warning("not all that is known of an OOM kill is recorded: no memory left");
	service_record_changes(s, &changes);
	if (s->anomaly.ooms.n == 0)
		service_forget_ooms(s);
}

static void on_kills_timer(void *ctx)
{
	service_tell_kills(ctx);
}

/* A turn of the loop later: whoever has heard of it is in the midst of something else. */
void service_tell_kills_soon(struct service *s)
{
	if (!s->anomaly.kills_timer)
		s->anomaly.kills_timer = loop_timer_new(s->loop, on_kills_timer, s);
	if (s->anomaly.kills_timer) /* else the next tick tells them */
		loop_timer_set(s->anomaly.kills_timer, 0, 0);
}

/* ---- the end ---- */

/* Of a process that lives on after its job: the next daemon goes on with it. */
static bool is_of_living_orphan(const struct episode *e)
{
	return e->worst.type == ANOMALY_ORPHAN && e->worst.has_pid &&
	       u64_known(e->worst.start_ticks) &&
	       proc_is_alive("", (pid_t)e->worst.pid, e->worst.start_ticks);
}

/* What lasts, where somebody goes on to look, who adopts it: kills are moments, and end here. */
static bool is_left_to_others(struct service *s, const struct episode *e)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	bool is_left = false;

	if (!s->store || e->worst.type == ANOMALY_OOM_KILL)
		return false; /* or the record is gone */
	if (is_of_living_orphan(e))
		return true;
	for (size_t i = 0; i < n; i++)
		is_left |=
			has_runner(jobs[i]) && (!e->worst.job_id || jobs[i]->a.id == e->attempt_id);
	return is_left;
}

/* Where nobody goes on, who looks next begins anew. */
void service_end_anomalies(struct service *s)
{
	const struct detect_ending ending = { U64_UNKNOWN, s->anomaly.exits.items,
					      s->anomaly.exits.n, true };
	struct detect_changes changes = { 0 };

	if (!s->detect)
		return;
	renew(s);
	if (detect_end_job(s->detect, &ending, &changes) < 0)
		log_warning("not all anomalies that last are recorded as over: no memory left");
	for (size_t i = 0; i < changes.n; i++)
		if (!is_left_to_others(s, changes.items[i].episode))
			record_change(s, &changes.items[i]);
}

/* ---- ends, as the kernel or runners report them: not when a tick does not show them any more ----
 */

/* A runner knows its child by the pid alone. */
static bool is_same(const struct proc_key *a, const struct proc_key *b)
{
	return a->pid == b->pid && (a->start_ticks == b->start_ticks ||
				    !u64_known(a->start_ticks) || !u64_known(b->start_ticks));
}

static struct proc_event *find_exit(struct exit_news *exits, const struct proc_key *key)
{
	for (size_t i = 0; i < exits->n; i++)
		if (is_same(&exits->items[i].key, key))
			return &exits->items[i];
	return NULL;
}

/* Of those that there is no room for it is seen by looking. What a runner says is what is in the
 * record, and comes after the kernel's news. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns)
{
	struct proc_event *ev;

	if (!detect_follows(s->detect, key->pid))
		return;
	ev = find_exit(&s->anomaly.exits, key);
	if (ev)
		ev->wall_ns = wall_ns;
	else if (s->anomaly.exits.n < SERVICE_MAX_EXITS)
		s->anomaly.exits.items[s->anomaly.exits.n++] = (struct proc_event){
			.wall_ns = wall_ns, .key = *key, .type = EVENT_EXIT, .status = { -1, -1 }
		};
}

/* Where nobody has told when, it was with its job at the latest. */
static void note_gone(struct service *s, const struct episode *e, uint64_t wall_ns)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
	struct proc_event *ev = find_exit(&s->anomaly.exits, &key);

	if (!u64_known(key.start_ticks) || proc_is_alive("", key.pid, key.start_ticks))
		return;
	if (ev && ev->wall_ns >= e->began_wall_ns)
		ev->key = key;
	else
		service_note_exit(s, &key, wall_ns);
}

static void note_all_gone(struct service *s, const struct attempt *a)
{
	const struct episode *e;

	for (size_t i = 0; (e = detect_active(s->detect, i)); i++)
		if (e->attempt_id == a->id && e->worst.has_pid)
			note_gone(s, e, a->ended_wall_ns);
}

/* One that nobody knows the end of goes when the ticks do not show it any more. */
void service_end_anomalies_of(struct service *s, const struct watched *job)
{
	const struct detect_job left = { job->job_id, job->a.id };
	struct detect_ending ending = { .wall_ns = job->a.ended_wall_ns };
	struct detect_changes changes = { 0 };

	if (!u64_known(job->a.ended_wall_ns))
		return;
	note_all_gone(s, &job->a);
	ending.events = s->anomaly.exits.items;
	ending.n_events = s->anomaly.exits.n;
	if (detect_leave_job(s->detect, &left, &ending, &changes) < 0)
		log_warning("not all anomalies of job %s are recorded as over: no memory left",
			    job->job_id);
	s->anomaly.exits.n = 0;
	service_record_changes(s, &changes);
}
