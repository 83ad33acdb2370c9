#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/attached_sum.h"
#include "daemon/deaths.h"
#include "daemon/process_facts.h"
#include "daemon/service_internal.h"
#include "daemon/signal_process.h"

/*
 * A job that something else started: there is no runner, so the daemon writes
 * down all of it, and ends it when the last of its processes is gone. What must
 * be known of it after a restart is in the database: the process that was attached,
 * those that were seen, and the events so far.
 */

#define MAX_PENDING 16384      /* events that wait for the next tick */
#define USER_MAX_PENDING 32768 /* of all jobs of one user who is not ours */
#define MAX_BIRTHS 4096	       /* that are looked at between two ticks */
#define CHECK_MS 100
#define LAST_CHECK_MS 10000		   /* what lives then does not die of another SIGKILL */
#define KILL_AFTER_NS UINT64_C(5000000000) /* as "proctor run" has it */

struct attached {
	struct service *service;
	int64_t attempt_id;
	uint64_t uid;
	struct proc_key root;
	int pidfd; /* of the root; -1: it is gone */
	struct loop_fd *watch;
	struct loop_timer *timer;
	bool is_recalled;	     /* who was noted down is remembered */
	bool has_all_births;	     /* since it was attached */
	bool was_gone;		     /* when we came back */
	uint64_t n_lost_before;	     /* of the kernel's news */
	struct exit_status status;   /* of the root; { -1, -1 }: nobody told (yet) */
	uint64_t last_death_wall_ns; /* 0: none was told */
	uint64_t cancelled_boot_ns;  /* 0: it was not */
	uint64_t check_ms;	     /* until the next look, from then on */
	struct deaths deaths;
	struct proc_event *pending;
	size_t n_pending, cap_pending, n_gathered;
	uint64_t n_unlisted;
	unsigned n_births;
	struct attached *next;
};

static struct attached *find_attached(const struct service *s, int64_t attempt_id)
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
	assign_remember(s->assigner, &p->key, job->job_id, p->sheet_num);
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
	struct attached *at = s->attached ? find_attached(s, born->attempt_id) : NULL;
	const struct watched *job = at ? watch_find_attempt(s->watch, at->attempt_id) : NULL;

	if (!job || ++at->n_births > MAX_BIRTHS ||
	    proc_start_ticks(born->key.pid, &born->key.start_ticks) < 0)
		return false;
	assign_remember(s->assigner, &born->key, job->job_id, SHEET_NONE);
	return true;
}

/* ---- events ---- */

/* What all that one user has attached takes. */
struct taken {
	size_t n_deaths, n_pending;
};

static struct taken count_taken(const struct service *s, uint64_t uid)
{
	struct taken taken = { 0 };

	if (uid == geteuid())
		return taken;
	for (const struct attached *at = s->attached; at; at = at->next) {
		taken.n_deaths += at->uid == uid ? at->deaths.n : 0;
		taken.n_pending += at->uid == uid ? at->n_pending : 0;
	}
	return taken;
}

static bool make_room(struct attached *at)
{
	size_t cap = at->cap_pending ? at->cap_pending * 2 : 64;
	struct proc_event *grown;

	if (count_taken(at->service, at->uid).n_pending >= USER_MAX_PENDING)
		return false;
	if (at->n_pending < at->cap_pending)
		return true;
	grown = cap <= MAX_PENDING ? reallocarray(at->pending, cap, sizeof(*grown)) : NULL;
	if (!grown)
		return false;
	at->pending = grown;
	at->cap_pending = cap;
	return true;
}

void service_note_attached(struct service *s, const struct watched *job,
			   const struct proc_event *ev)
{
	struct attached *at = find_attached(s, job->a.id);

	if (!at)
		return;
	if (ev->type == EVENT_EXIT && ev->key.pid == at->root.pid &&
	    exit_status_to_shell(ev->status) >= 0)
		at->status = ev->status;
	if (ev->type == EVENT_EXIT)
		at->last_death_wall_ns = ev->wall_ns;
	if (!make_room(at)) {
		at->n_unlisted++;
		return;
	}
	at->pending[at->n_pending] = *ev;
	at->pending[at->n_pending++].job_id = job->job_id;
}

void service_note_death(struct service *s, const struct member *member, const struct life_event *ev)
{
	struct attached *at = find_attached(s, member->attempt_id);

	if (!at || member->is_runner)
		return;
	if (count_taken(s, at->uid).n_deaths < DEATHS_USER_MAX)
		deaths_note(&at->deaths, member, ev);
	else
		deaths_leave_out(&at->deaths);
}

void service_complete_death(struct service *s, const struct life_event *ev)
{
	for (struct attached *at = s->attached; at; at = at->next)
		deaths_complete(&at->deaths, ev);
}

int service_gather_events(struct service *s, struct proc_event **ret, size_t *ret_n)
{
	struct proc_event *all = NULL;
	size_t n = 0;

	for (struct attached *at = s->attached; at; at = at->next)
		n += at->n_pending;
	if (n > 0)
		all = reallocarray(NULL, n, sizeof(*all));
	if (n > 0 && !all)
		return -ENOMEM;
	n = 0;
	for (struct attached *at = s->attached; at; at = at->next) {
		if (at->n_pending > 0)
			memcpy(all + n, at->pending, at->n_pending * sizeof(*all));
		n += at->n_gathered = at->n_pending;
	}
	*ret = all;
	*ret_n = n;
	return 0;
}

void service_events_stored(struct service *s)
{
	for (struct attached *at = s->attached; at; at = at->next) {
		if (at->n_gathered == 0)
			continue;
		memmove(at->pending, at->pending + at->n_gathered,
			(at->n_pending - at->n_gathered) * sizeof(*at->pending));
		at->n_pending -= at->n_gathered;
		at->n_gathered = 0;
	}
}

/* ---- the end ---- */

static void add_note(struct attempt *a, const char *what, const char *why)
{
	struct unknown_note *notes = arena_alloc(&a->arena, (a->n_unknowns + 1) * sizeof(*notes));

	if (!notes)
		return;
	if (a->n_unknowns > 0)
		memcpy(notes, a->unknowns, a->n_unknowns * sizeof(*notes));
	notes[a->n_unknowns] = (struct unknown_note){ what, why };
	a->unknowns = notes;
	a->n_unknowns++;
}

/* Of which job they were nobody knows. */
static void note_losses(struct attempt *a, const struct attached *at)
{
	uint64_t n = at->service->life.n_lost - at->n_lost_before;
	char why[128];

	if (n == 0)
		return;
	snprintf(why, sizeof(why), "up to %llu kernel events were lost: counts are lower bounds",
		 (unsigned long long)n);
	add_note(a, "process_spawn_count", arena_strdup(&a->arena, why));
}

/* Each end comes with one more word, of all that it used: of these it did not come. */
static void note_unfinished(struct attempt *a)
{
	size_t n = 0;
	char why[128];

	for (size_t i = 0; i < a->n_processes; i++)
		n += a->processes[i].cpu_evidence != EVIDENCE_EXACT;
	if (n == 0)
		snprintf(why, sizeof(why), "some of its processes are not listed");
	else
		snprintf(
			why, sizeof(why),
			"what %zu of its %zu processes used after they were last seen was not told",
			n, a->n_processes);
	add_note(a, "total_cpu_seconds", arena_strdup(&a->arena, why));
}

/* The kernel has these in no word on an end. */
static void note_untold(struct attempt *a)
{
	static const char *const what[] = { "syscr", "syscw", "voluntary_switches",
					    "involuntary_switches" };

	for (size_t i = 0; i < ARRAY_SIZE(what); i++)
		add_note(a, what[i], "how many there were is told only to who waits for a process");
}

static void note_unknowns(struct attempt *a, const struct attached *at, bool has_all_ends)
{
	add_note(
		a, "before it was attached",
		"something else started the job: what had ended until then was not recorded, and is "
		"in none of its numbers");
	if (u64_known(a->usage.user_ns) && !has_all_ends)
		note_unfinished(a);
	add_note(a, "io",
		 u64_known(a->usage.rchar)
			 ? "of processes that others of the job did not wait for it is missing"
			 : "nobody waited for its processes who told us");
	note_untold(a);
	note_losses(a, at);
	if (at->deaths.n_unlisted > 0)
		add_note(a, "processes", "there were too many: some are not listed one by one");
	if (at->was_gone)
		add_note(a, "ended", "it ended while no daemon looked: when that was seen is told");
	if (at->n_unlisted > 0)
		add_note(a, "events", "there were too many between two ticks: some are not listed");
}

static void judge_outcome(struct attempt *a, const struct attached *at)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	bool is_known = exit_status_to_shell(at->status) >= 0;

	a->status = at->status;
	if (at->cancelled_boot_ns) {
		a->outcome = OUTCOME_CANCELLED;
		a->reason = "cancelled";
		return;
	}
	a->outcome = !is_known			 ? OUTCOME_NONE
		     : at->status.exit_code == 0 ? OUTCOME_SUCCESS
						 : OUTCOME_FAILURE;
	if (at->status.signal >= 0)
		buf_printf(&why, "signal %d", at->status.signal);
	else if (is_known)
		buf_printf(&why, "exit code %d", at->status.exit_code);
	else
		buf_add_str(&why,
			    at->was_gone ? "exit status unknown: it ended while no daemon looked"
					 : "exit status unknown: nobody waited for it who told us");
	a->reason = arena_strdup(&a->arena, why.data);
}

static bool births_are_told(const struct service *s, const struct attached *at)
{
	return at->has_all_births && s->life.life && s->life.n_lost == at->n_lost_before &&
	       at->n_unlisted == 0 && at->deaths.n_unlisted == 0;
}

static int end(struct service *s, struct attached *at, const struct watched *job, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	bool is_told = births_are_told(s, at);
	int r;

	attempt_init(&a);
	if (s->backlog.first) /* its last ticks may be there, and its sums are made of them */
		return err_set(err, -EBUSY, "ticks wait to be stored before it");
	r = store_read_attempt(s->store, job->job_id, job->a.attempt_num, &a, err);
	if (r < 0)
		return r;
	a.ended_wall_ns = at->last_death_wall_ns ? at->last_death_wall_ns : clock_wall_ns();
	judge_outcome(&a, at);
	if (deaths_merge(&at->deaths, &a) < 0)
		return err_set(err, -ENOMEM, "no memory left for the processes of %s", job->job_id);
	attached_sum_up(&a, at->pending, at->n_pending, is_told);
	a.usage.minor_faults = deaths_minor_faults(&at->deaths);
	if (at->was_gone)
		a.usage.wall_ns = U64_UNKNOWN;
	a.rungs = s->rungs;
	a.n_rungs = s->n_rungs;
	note_unknowns(&a, at, attached_has_all_ends(&a, is_told));
	return store_finish_attempt(s->store, &a, at->pending, at->n_pending, err);
}

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
			ended = end(s, at, job, err);
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
	at = find_attached(s, id);
	if (!at || !at->cancelled_boot_ns || at->check_ms >= LAST_CHECK_MS)
		return; /* the ticks will see its end */
	if (clock_boot_ns() - at->cancelled_boot_ns >= KILL_AFTER_NS)
		at->check_ms *= 2;
	loop_timer_set(at->timer, at->check_ms, 0);
}

int service_cancel_attached(struct service *s, struct watched *job, struct err *err)
{
	struct attached *at = find_attached(s, job->a.id);

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
