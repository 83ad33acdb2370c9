#include "daemon/follow/service_attached.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/signal_process.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

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
	attached_flush(gone);
	s->n_records_lost += gone->log ? attempt_log_lost(gone->log) : 0;
	attempt_log_close(gone->log);
	attempt_release(&gone->begin);
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

static struct attached *add(struct service *s, uint64_t uid, const struct proc_key *root)
{
	struct attached *at = calloc(1, sizeof(*at));

	if (!at)
		return NULL;
	*at = (struct attached){
		.service = s,
		.uid = uid,
		.root = *root,
		.pidfd = -1,
		.status = { -1, -1 },
		.n_lost_before = s->life.n_lost,
		.next = s->attached,
	};
	attempt_init(&at->begin);
	s->attached = at;
	at->timer = loop_timer_new(s->loop, on_check, at);
	if (!at->timer) {
		drop(s, at);
		return NULL;
	}
	service_want_accounts(s); /* or times lack a tick each */
	hold_root(at);
	return at;
}

static void describe_begin(void *ctx, struct buf *out)
{
	const struct attached *at = ctx;

	record_write_begin(out, &at->begin);
	record_write_sheets(out, NULL, 0);
}

int attached_begin(struct service *s, struct attempt *a, struct attached **ret, struct err *err)
{
	struct attached *at = add(s, a->uid, &a->runner);
	int r;

	if (!at)
		return err_set(err, -ENOMEM, "no memory left to follow the job %s", a->job_id);
	at->begin = *a;
	attempt_init(a);
	r = attempt_log_open(s->settings.options->paths->db, &at->begin, describe_begin, at,
			     &at->log, err);
	if (r < 0) {
		drop(s, at);
		return r;
	}
	at->attempt_id = watch_id_of(s->watch, attempt_log_id(at->log), at->uid);
	at->is_recalled = true;
	at->has_all_births = s->life.life != NULL;
	*ret = at;
	return 0;
}

/* One that was not attached here is a daemon's before us. */
void service_follow_attached(struct service *s, const struct watched *job)
{
	struct attached *at =
		attached_find(s, job->a.id) ? NULL : add(s, job->a.uid, &job->a.runner);

	if (!at)
		return;
	at->was_gone = at->pidfd < 0;
	at->attempt_id = job->a.id;
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
	membership_add(s->scan.membership, &(struct job_member){ .key = p->key,
								 .attempt_id = job->a.id,
								 .sheet_num = p->sheet_num,
								 .rank = RANK_NONE });
	members_see(s->life.members, &member);
}

/* What is recorded of the root. */
static void recall_end(struct attached *at, const struct proc_event *ev)
{
	if (ev->type != EVENT_EXIT || ev->key.pid != at->root.pid ||
	    (u64_known(ev->key.start_ticks) && ev->key.start_ticks != at->root.start_ticks))
		return;
	at->status = ev->status;
	at->was_gone = false;
}

/* One that has its end already is not ours any more: the next ingest stores it. */
static int continue_log(struct service *s, struct attached *at, const struct watched *job)
{
	struct stored_log stored = { 0 };
	int r = store_read_progress(s->store, job->job_id, job->a.attempt_num, &at->begin, NULL);

	if (r == 0)
		r = store_find_log(s->store, job->log.bytes, &stored, NULL);
	if (r == 0)
		r = attempt_log_continue(s->settings.options->paths->db, &at->begin, &job->log,
					 stored.offset, describe_begin, at, &at->log, NULL);
	return r;
}

static int recall(struct service *s, struct attached *at, const struct watched *job)
{
	CLEANUP(attempt_release) struct attempt a;
	int r;

	service_take_in(s);
	attempt_release(&at->begin);
	attempt_init(&at->begin);
	attempt_init(&a);
	r = s->store ? continue_log(s, at, job) : -ENOENT;
	if (r == 0)
		r = store_read_attempt(s->store, job->job_id, job->a.attempt_num, &a, NULL);
	for (size_t i = 0; r == 0 && i < a.n_processes; i++)
		recall_process(s, job, &a.processes[i]);
	for (size_t i = 0; r == 0 && i < a.n_events; i++)
		recall_end(at, &a.events[i]);
	if (r == 0)
		return 0;
	at->log = attempt_log_close(at->log);
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

/* ---- what is recorded ---- */

void attached_flush(struct attached *at)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	if (at->n_pending == 0 || !at->log)
		return;
	record_write_list(&bytes, RECORD_LIST_EVENTS, at->pending, at->n_pending);
	attempt_log_append(at->log, RECORD_EVENTS, &bytes);
	at->n_pending = 0;
}

/* What somebody has removed goes on under the same id. */
static void leave_removed(struct service *s, struct attached *at)
{
	const struct log_id id = *attempt_log_id(at->log);
	const uint64_t offset = attempt_log_bytes(at->log);
	struct err err = ERR_INIT;

	if (!attempt_log_is_gone(at->log))
		return;
	log_error("the folder %s-logs was removed: job %s is recorded anew from here on",
		  s->settings.options->paths->db, at->begin.job_id);
	at->log = attempt_log_close(at->log);
	if (attempt_log_continue(s->settings.options->paths->db, &at->begin, &id, offset,
				 describe_begin, at, &at->log, &err) < 0) {
		log_error("job %s is not recorded for now: %s", at->begin.job_id, err.text);
		at->is_recalled = false; /* it is tried again */
	}
}

/* The processes of the job alone; they are borrowed. */
static size_t list_processes(const struct service *s, const struct watched *job,
			     struct proc_sample *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < s->scan.snap.n_processes; i++) {
		if (s->scan.snap.processes[i].job_id != job->job_id)
			continue;
		if (ret)
			ret[n] = s->scan.snap.processes[i];
		n++;
	}
	return n;
}

static int append_tick(struct service *s, struct attached *at, const struct watched *job)
{
	CLEANUP(free_ptr) struct proc_sample *processes = NULL;
	struct snapshot view = s->scan.snap;

	view.n_processes = list_processes(s, job, NULL);
	processes = reallocarray(NULL, view.n_processes + 1, sizeof(*processes));
	if (!processes)
		return -ENOMEM;
	view.processes = processes;
	list_processes(s, job, processes);
	attempt_log_append_tick(at->log, &view, &job->point);
	return 0;
}

int service_record_attached(struct service *s, uint64_t *ret_disk_wait_ns, struct err *err)
{
	int r = 0;

	for (struct attached *at = s->attached; at; at = at->next) {
		const struct watched *job = watch_find_attempt(s->watch, at->attempt_id);
		uint64_t wait_ns;

		if (at->log)
			leave_removed(s, at);
		if (!at->log)
			continue;
		attached_flush(at);
		/* A look from before it was attached has none of its processes. */
		if (job && s->scan.has_snap && job->point.wall_ns == s->scan.snap.wall_ns &&
		    append_tick(s, at, job) < 0)
			r = err_set(err, -ENOMEM, "no memory left to record the job %s",
				    job->job_id);
		wait_ns = attempt_log_sync(at->log);
		if (wait_ns > *ret_disk_wait_ns)
			*ret_disk_wait_ns = wait_ns;
	}
	return r;
}

void service_write_recording(struct json *j, const struct service *s)
{
	uint64_t n_waiting = 0, n_lost = s->n_records_lost;

	for (const struct attached *at = s->attached; at; at = at->next)
		if (at->log) {
			n_waiting += attempt_log_is_waiting(at->log);
			n_lost += attempt_log_lost(at->log);
		}
	json_key_u64(j, "ticks_waiting", n_waiting);
	json_key_u64(j, "ticks_lost", n_lost);
}

void service_record_closer(struct service *s, const struct watched *job,
			   const struct snapshot *snap, const struct series_point *point)
{
	struct attached *at = attached_find(s, job->a.id);

	if (at && at->log)
		attempt_log_append_tick(at->log, snap, point);
}

/* Text that is made for one event alone does not outlive the call. */
void service_note_attached(struct service *s, const struct watched *job,
			   const struct proc_event *ev)
{
	struct attached *at = attached_find(s, job->a.id);

	if (!at)
		return;
	if (ev->type == EVENT_EXIT && ev->key.pid == at->root.pid &&
	    exit_status_to_shell(ev->status) >= 0)
		at->status = ev->status;
	if (ev->type == EVENT_EXIT)
		at->last_death_wall_ns = ev->wall_ns;
	if (at->n_pending == ATTACHED_PENDING) /* its log could not be opened yet */
		return;
	at->pending[at->n_pending] = *ev;
	at->pending[at->n_pending++].job_id = job->job_id;
	if (at->n_pending == ATTACHED_PENDING || ev->details)
		attached_flush(at);
}

/* ---- what the kernel reports at an end ---- */

/* Of all that one user has attached; 0: the user is the daemon's. */
static size_t count_deaths(const struct service *s, uint64_t uid)
{
	size_t n = 0;

	for (const struct attached *at = s->attached; at && uid != geteuid(); at = at->next)
		n += at->uid == uid ? at->deaths.n : 0;
	return n;
}

void service_note_death(struct service *s, const struct member *member, const struct life_event *ev)
{
	struct attached *at = attached_find(s, member->attempt_id);

	if (!at || member->is_runner)
		return;
	if (!may_see(at->uid, ev->uid, -1, 0))
		at->n_withheld++;
	else if (count_deaths(s, at->uid) < DEATHS_USER_MAX)
		deaths_note(&at->deaths, member, ev);
	else
		deaths_leave_out(&at->deaths);
}

void service_complete_death(struct service *s, const struct life_event *ev)
{
	for (struct attached *at = s->attached; at; at = at->next)
		deaths_complete(&at->deaths, ev);
}

bool service_keep_birth(struct service *s, struct member *born)
{
	struct attached *at = s->attached ? attached_find(s, born->attempt_id) : NULL;
	const struct watched *job = at ? watch_find_attempt(s->watch, at->attempt_id) : NULL;

	if (!job || ++at->n_births > MAX_BIRTHS ||
	    proc_start_ticks(born->key.pid, &born->key.start_ticks) < 0)
		return false;
	membership_add(s->scan.membership, &(struct job_member){ .key = born->key,
								 .attempt_id = job->a.id,
								 .sheet_num = SHEET_NONE,
								 .rank = RANK_NONE });
	return true;
}

/* ---- the end ---- */

/* Of the look that was just taken; one from before it was attached says nothing. */
static bool is_over(const struct service *s, const struct attached *at, const struct watched *job)
{
	return s->scan.has_snap && at->is_recalled && job->point.wall_ns == s->scan.snap.wall_ns &&
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
	for (size_t i = 0; i < s->scan.snap.n_processes; i++) {
		const struct proc_sample *p = &s->scan.snap.processes[i];

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
