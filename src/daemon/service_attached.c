#include "daemon/service_attached.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/process_facts.h"
#include "daemon/signal_process.h"
#include "daemon/service_follow.h"
#include "daemon/service_tell.h"

/*
 * A job that something else started: there is no runner, so the daemon writes
 * down all of it, and ends it when the last of its processes is gone. What must
 * be known of it after a restart is in the database: the process that was attached,
 * those that were seen, and the events so far.
 */

#define MAX_BIRTHS 4096 /* that are looked at between two ticks */
#define CHECK_MS 100
#define LAST_CHECK_MS 10000		   /* what lives then does not die of another SIGKILL */
#define KILL_AFTER_NS UINT64_C(5000000000) /* as "proctor run" has it */

struct attached *attached_find(const struct service *s, int64_t attempt_id)
{
	struct attached *at = s->attached;

	while (at && at->attempt_id != attempt_id)
		at = at->next;
	return at;
}

static void drop(struct service *s, struct attached *gone)
{
	struct attached **at = &s->attached;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	loop_fd_close(gone->watch);
	if (gone->timer)
		loop_timer_close(gone->timer);
	close_fd(&gone->pidfd);
	free(gone->pending);
	service_leave_deaths(s, &gone->deaths);
	deaths_release(&gone->deaths);
	free(gone);
	service_want_accounts(s);
}

size_t service_count_attached(const struct service *s, size_t (*count)(const struct deaths *d))
{
	size_t n = 0;

	for (const struct attached *at = s->attached; at; at = at->next)
		n += count(&at->deaths);
	return n;
}

void service_release_attached(struct service *s)
{
	while (s->attached)
		drop(s, s->attached);
}

/* ---- the root ---- */

/* What the kernel says of it before its parent has waited for it; else its news may tell. */
static void read_status(struct attached *at)
{
	struct process_facts facts;

	if (process_facts_read(at->service->root_fd, at->root.pid, &facts) == 0 &&
	    facts.key.start_ticks == at->root.start_ticks && facts.wait_status >= 0)
		at->status = exit_status_from_wait(facts.wait_status);
}

static void lose_root(struct attached *at)
{
	at->watch = loop_fd_close(at->watch);
	close_fd(&at->pidfd);
	at->pidfd = -1;
}

/* Nothing may be left of the job by now. */
static void on_root_gone(void *ctx)
{
	struct attached *at = ctx;

	read_status(at);
	lose_root(at);
	loop_timer_set(at->timer, CHECK_MS, 0);
}

static void hold_root(struct attached *at)
{
	at->pidfd = open_process(&at->root);
	if (at->pidfd < 0)
		return;
	at->watch = loop_watch_fd(at->service->loop, at->pidfd, on_root_gone, at);
}

static bool root_lives(const struct attached *at)
{
	struct pollfd p = { .fd = at->pidfd, .events = POLLIN };

	return at->pidfd >= 0 && poll(&p, 1, 0) == 0;
}

/* ---- following ---- */

static void on_check(void *ctx);

static int begin(struct service *s, const struct watched *job)
{
	struct attached *at = calloc(1, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct attached){
		.service = s,
		.attempt_id = job->a.id,
		.uid = job->a.uid,
		.root = job->a.runner,
		.pidfd = -1,
		.status = { -1, -1 },
		.has_all_births = s->life.life && s->attached_here == job->a.id,
		.n_lost_before = s->life.n_lost,
		.next = s->attached,
	};
	s->attached = at;
	at->timer = loop_timer_new(s->loop, on_check, at);
	if (!at->timer) {
		drop(s, at);
		return -ENOMEM;
	}
	service_want_accounts(s); /* or times lack a tick each */
	hold_root(at);
	at->was_gone = at->pidfd < 0;
	return 0;
}

void service_follow_attached(struct service *s, const struct watched *job)
{
	if (begin(s, job) < 0)
		log_error("no memory left to follow the job %s", job->job_id);
}

/* Those that were seen and still live, so that no look takes them for new. */
static void recall_process(struct service *s, const struct watched *job,
			   const struct proc_record *p)
{
	const struct member member = {
		.key = p->key,
		.attempt_id = job->a.id,
		.born_wall_ns = p->born_wall_ns,
		.sheet_num = p->sheet_num,
	};

	if (!proc_is_alive(job->a.boot_id, p->key.pid, p->key.start_ticks))
		return;
	membership_add(s->membership, &(struct job_member){ .key = p->key,
							    .attempt_id = job->a.id,
							    .sheet_num = p->sheet_num,
							    .rank = RANK_NONE });
	members_see(s->life.members, &member);
}

/* What was told of the root before we came. */
static void recall_end(struct attached *at, const struct proc_event *ev)
{
	if (ev->type != EVENT_EXIT || ev->key.pid != at->root.pid ||
	    (u64_known(ev->key.start_ticks) && ev->key.start_ticks != at->root.start_ticks))
		return;
	at->status = ev->status;
	at->was_gone = false;
}

static int recall(struct service *s, struct attached *at, const struct watched *job)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	attempt_init(&a);
	r = store_read_attempt(s->store, job->job_id, job->a.attempt_num, &a, NULL);
	for (size_t i = 0; r == 0 && i < a.n_processes; i++)
		recall_process(s, job, &a.processes[i]);
	for (size_t i = 0; r == 0 && i < a.n_events; i++)
		recall_end(at, &a.events[i]);
	return r;
}

void service_recall_attached(struct service *s)
{
	for (struct attached *at = s->attached; at; at = at->next) {
		const struct watched *job = watch_find_attempt(s->watch, at->attempt_id);

		if (job && !at->is_recalled && s->store)
			at->is_recalled = recall(s, at, job) == 0;
		at->n_births = 0;
	}
}

bool service_keep_birth(struct service *s, struct member *born)
{
	struct attached *at = s->attached ? attached_find(s, born->attempt_id) : NULL;
	const struct watched *job = at ? watch_find_attempt(s->watch, at->attempt_id) : NULL;

	if (!job || ++at->n_births > MAX_BIRTHS ||
	    proc_start_ticks(born->key.pid, &born->key.start_ticks) < 0)
		return false;
	membership_add(s->membership, &(struct job_member){ .key = born->key,
							    .attempt_id = job->a.id,
							    .sheet_num = SHEET_NONE,
							    .rank = RANK_NONE });
	return true;
}

/* ---- the end ---- */

/* Of the look that was just taken; one from before it was attached says nothing. */
static bool is_over(const struct service *s, const struct attached *at, const struct watched *job)
{
	return s->has_snap && at->is_recalled && job->point.wall_ns == s->snap.wall_ns &&
	       job->n_living == 0 && !root_lives(at);
}

/* The last look may have been a while ago. */
int service_settle_attached(struct service *s, struct err *err)
{
	struct attached *next;
	bool has_ended = false;
	int r = 0;

	if (s->attached)
		service_drain_life(s); /* the last of its ends may wait there */
	for (struct attached *at = s->attached; at; at = next) {
		const struct watched *job = watch_find_attempt(s->watch, at->attempt_id);
		int ended = 0;

		next = at->next;
		if (job && (!s->store || !is_over(s, at, job)))
			continue;
		if (job)
			ended = attached_write_end(s, at, job, err);
		if (ended < 0) {
			r = ended;
			continue; /* tried again at the next tick */
		}
		drop(s, at);
		has_ended = true;
	}
	if (has_ended)
		service_look(s);
	return r;
}

/* ---- cancelling ---- */

/* What belongs to another user by now is not the owner's to end, nor ours in their name. */
static bool may_signal(const struct watched *job, const struct proc_sample *p)
{
	return job->a.uid == 0 || (u64_known(p->uid) && p->uid == job->a.uid);
}

static void signal_one(struct service *s, const struct watched *job, const struct proc_sample *p,
		       int sig)
{
	const struct proc_event ev = {
		.wall_ns = clock_wall_ns(),
		.key = p->key,
		.type = sig == SIGKILL ? EVENT_KILL : EVENT_SIGNAL,
		.status = { -1, sig },
		.job_id = job->job_id,
		.sheet_num = p->sheet_num,
		.details = "sent by proctor",
	};

	if (signal_process(&p->key, sig, 0) < 0)
		return;
	signal_process(&p->key, SIGCONT, 0); /* one that is stopped hears nothing */
	service_note_attached(s, job, &ev);
	service_tell_process(s, &ev, job->a.attempt_num, job->a.uid);
}

static void signal_all(struct service *s, const struct watched *job, int sig)
{
	for (size_t i = 0; i < s->snap.n_processes; i++) {
		const struct proc_sample *p = &s->snap.processes[i];

		if (p->job_id == job->job_id && p->state != 'Z' && p->key.pid != getpid() &&
		    may_signal(job, p))
			signal_one(s, job, p, sig);
	}
}

/* Looks again, and goes on killing until nothing is left. */
static void on_check(void *ctx)
{
	struct attached *at = ctx;
	struct service *s = at->service;
	int64_t id = at->attempt_id;
	const struct watched *job;
	struct err err = ERR_INIT;

	service_rescan(s);
	job = watch_find_attempt(s->watch, id);
	if (job && at->cancelled_boot_ns &&
	    clock_boot_ns() - at->cancelled_boot_ns >= KILL_AFTER_NS)
		signal_all(s, job, SIGKILL);
	if (service_settle_attached(s, &err) < 0)
		log_warning("the end of a job is not recorded yet: %s", err.text);
	at = attached_find(s, id);
	if (!at || !at->cancelled_boot_ns || at->check_ms >= LAST_CHECK_MS)
		return; /* the ticks will see its end */
	if (clock_boot_ns() - at->cancelled_boot_ns >= KILL_AFTER_NS)
		at->check_ms *= 2;
	loop_timer_set(at->timer, at->check_ms, 0);
}

int service_cancel_attached(struct service *s, struct watched *job, struct err *err)
{
	struct attached *at = attached_find(s, job->a.id);

	if (!at)
		return err_set(err, -EBUSY, "the job %s is not followed yet: try again",
			       job->job_id);
	service_rescan(s);
	if (!at->cancelled_boot_ns)
		at->cancelled_boot_ns = clock_boot_ns();
	signal_all(s, job, SIGTERM);
	at->check_ms = CHECK_MS;
	loop_timer_set(at->timer, at->check_ms, 0);
	return 0;
}
