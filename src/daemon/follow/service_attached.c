/*
 * service_attached - trees of processes that something else started, which the daemon records.
 *
 * There is no runner: the daemon appends what it sees to a log of each (attempt_log.h), and ends it
 * when the last of its processes is gone. A daemon that begins later continues the log.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/process_handle.h"

#define CHECK_MS 100
#define LAST_CHECK_MS 10000		   /* what lives then does not die of another SIGKILL */
#define KILL_AFTER_NS UINT64_C(5000000000) /* as "proctor run" has it */

static void drop(struct service *s, struct attached *gone)
{
	LIST_REMOVE(s->attached, gone, next);
	loop_fd_close(gone->watch);
	if (gone->timer)
		loop_timer_close(gone->timer);
	close_fd(&gone->pidfd);
	attached_flush(gone);
	s->n_records_lost += gone->log ? attempt_log_lost(gone->log) : 0;
	attempt_log_close(gone->log);
	attempt_release(&gone->begin);
	/* The accounts of what has ended just now are in no record. */
	s->life.n_unaccounted += deaths_count_unaccounted(&gone->deaths, UINT64_MAX);
	deaths_release(&gone->deaths);
	free(gone);
}

void service_release_attached(struct service *s)
{
	while (s->attached)
		drop(s, s->attached);
}

/* ---- the root ---- */

/* Nothing may be left of the job by now. */
static void on_root_gone(void *ctx)
{
	struct attached *at = ctx;
	struct process_facts facts;

	/* What the kernel says of it before its parent has waited for it; else its news may tell.
	 */
	if (process_facts_read(at->service->root_fd, at->root.pid, &facts) == 0 &&
	    facts.key.start_ticks == at->root.start_ticks && facts.wait_status >= 0)
		at->status = exit_status_from_wait(facts.wait_status);
	at->watch = loop_fd_close(at->watch);
	close_fd(&at->pidfd);
	at->pidfd = -1;
	loop_timer_set(at->timer, CHECK_MS, 0);
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
	at->pidfd = open_process(root);
	if (at->pidfd >= 0)
		at->watch = loop_watch_fd(s->loop, at->pidfd, on_root_gone, at);
	return at;
}

static void describe_begin(void *ctx, struct buf *out)
{
	const struct attached *at = ctx;

	record_write_begin(out, &at->begin);
	record_write_sheets(out, NULL, 0);
}

/* continues: the log of this id, of a daemon before us or of a folder that was removed. */
static int open_log(struct attached *at, const struct log_id *continues, uint64_t stored_to,
		    struct err *err)
{
	const struct attempt_log_options options = {
		.db_path = at->service->database.path,
		.a = &at->begin,
		.describe = describe_begin,
		.ctx = at,
		.continues = continues,
		.stored_to = stored_to,
	};

	return attempt_log_open(&options, &at->log, err);
}

int attached_begin(struct service *s, struct attempt *a, struct attached **ret, struct err *err)
{
	struct attached *at = add(s, a->uid, &a->runner);
	int r;

	if (!at)
		return err_set(err, -ENOMEM, "no memory left to follow the job %s", a->job_id);
	at->begin = *a;
	attempt_init(a);
	r = open_log(at, NULL, 0, err);
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

/* One that has its end already is not ours any more: the next ingest stores it. */
static int recall(struct service *s, struct attached *at, const struct watched *job)
{
	CLEANUP(attempt_release) struct attempt a;
	struct stored_log stored = { 0 };
	int r;

	service_take_in(s);
	attempt_release(&at->begin);
	attempt_init(&at->begin);
	attempt_init(&a);
	r = s->store ? store_read_progress(s->store, job->job_id, job->a.attempt_num, &at->begin,
					   NULL)
		     : -ENOENT;
	if (r == 0)
		r = store_find_log(s->store, job->log.bytes, &stored, NULL);
	if (r == 0)
		r = open_log(at, &job->log, stored.offset, NULL);
	if (r == 0)
		r = store_read_attempt(s->store, job->job_id, job->a.attempt_num, &a, NULL);
	if (r < 0) {
		at->log = attempt_log_close(at->log);
		return r;
	}
	/* Those that were seen and still live, so that no look takes them for new. */
	for (size_t i = 0; i < a.n_processes; i++) {
		const struct proc_record *p = &a.processes[i];
		const struct job_member member = { .key = p->key,
						   .attempt_id = job->a.id,
						   .sheet_num = p->sheet_num,
						   .rank = RANK_NONE,
						   .born_wall_ns = p->born_wall_ns,
						   .is_told = true };

		if (proc_is_alive(job->a.boot_id, p->key.pid, p->key.start_ticks))
			(void)membership_add(s->scan.membership, &member);
	}
	for (size_t i = 0; i < a.n_events; i++) {
		const struct proc_event *ev = &a.events[i];

		if (ev->type != EVENT_EXIT || ev->key.pid != at->root.pid ||
		    (u64_known(ev->key.start_ticks) && ev->key.start_ticks != at->root.start_ticks))
			continue;
		at->status = ev->status;
		at->was_gone = false;
	}
	return 0;
}

void service_recall_attached(struct service *s)
{
	for (struct attached *at = s->attached; at; at = at->next) {
		const struct watched *job = watch_find_attempt(s->watch, at->attempt_id);

		if (job && !at->is_recalled && s->store)
			at->is_recalled = recall(s, at, job) == 0;
	}
}

/* ---- what is recorded ---- */

/* What somebody has removed goes on under the same id. */
static void leave_removed(struct service *s, struct attached *at)
{
	const struct log_id id = *attempt_log_id(at->log);
	const uint64_t offset = attempt_log_bytes(at->log);
	struct err err = ERR_INIT;

	if (!attempt_log_is_gone(at->log))
		return;
	log_error("the folder %s-logs was removed: job %s is recorded anew from here on",
		  s->database.path, at->begin.job_id);
	at->log = attempt_log_close(at->log);
	if (open_log(at, &id, offset, &err) < 0) {
		log_error("job %s is not recorded for now: %s", at->begin.job_id, err.text);
		at->is_recalled = false; /* it is tried again */
	}
}

/* The processes of the job alone; they are borrowed. */
static int append_tick(struct service *s, struct attached *at, const struct watched *job)
{
	CLEANUP(free_ptr) struct proc_sample *processes = NULL;
	struct snapshot view = s->scan.snap;
	size_t n = 0;

	for (size_t i = 0; i < view.n_processes; i++)
		n += view.processes[i].job_id == job->job_id;
	processes = reallocarray(NULL, n + 1, sizeof(*processes));
	if (!processes)
		return -ENOMEM;
	view.processes = processes;
	view.n_processes = 0;
	for (size_t i = 0; i < s->scan.snap.n_processes; i++)
		if (s->scan.snap.processes[i].job_id == job->job_id)
			processes[view.n_processes++] = s->scan.snap.processes[i];
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
	if (at->n_pending == ATTACHED_PENDING) { /* its log could not be opened yet */
		at->n_events_lost++;
		return;
	}
	at->pending[at->n_pending] = *ev;
	at->pending[at->n_pending++].job_id = job->job_id;
	if (at->n_pending == ATTACHED_PENDING || ev->details)
		attached_flush(at);
}

/* ---- what the kernel reports at an end ---- */

void service_note_death(struct service *s, const struct job_member *member,
			const struct life_event *ev)
{
	struct attached *at = attached_find(s, member->attempt_id);
	size_t n = 0; /* of all that one user has attached */

	if (!at)
		return;
	for (const struct attached *of = s->attached; of && at->uid != geteuid(); of = of->next)
		n += of->uid == at->uid ? of->deaths.n : 0;
	if (!may_see(at->uid, ev->uid, -1, 0)) {
		at->n_withheld++;
	} else if (n < DEATHS_USER_MAX) {
		deaths_note(&at->deaths, member, ev, s->settings.mask);
		if (s->settings.config->capture != 0 && at->deaths.n > 0) /* it is off */
			at->deaths.items[at->deaths.n - 1].record.stderr_tail = NULL;
	} else {
		at->deaths.n_unlisted++;
	}
}

void service_complete_death(struct service *s, const struct life_event *ev)
{
	for (struct attached *at = s->attached; at; at = at->next)
		deaths_complete(&at->deaths, ev);
}

/* ---- the end ---- */

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

static void note_unknowns(struct attempt *a, const struct attached *at, bool has_all_births)
{
	/* The kernel has these in no word on an end. */
	static const char *const untold[] = { "syscr", "syscw", "voluntary_switches",
					      "involuntary_switches" };
	const struct service *s = at->service;
	uint64_t n_lost = s->life.n_lost - at->n_lost_before; /* of which job nobody knows */
	size_t n = 0;
	char why[128];

	attempt_note(
		a, "before it was attached",
		"something else started the job: what had ended until then was not recorded, and is "
		"in none of its numbers");
	/* Each end comes with one more word, of all that it used: of these it did not come. */
	for (size_t i = 0; i < a->n_processes; i++)
		n += a->processes[i].cpu_evidence != EVIDENCE_EXACT;
	snprintf(why, sizeof(why),
		 "what %zu of its %zu processes used after they were last seen was not told", n,
		 a->n_processes);
	if (u64_known(a->usage.user_ns) && (n > 0 || !has_all_births || at->n_withheld > 0))
		attempt_note(a, "total_cpu_seconds",
			     n == 0 ? "some of its processes are not listed" : why);
	attempt_note(a, "io",
		     u64_known(a->usage.rchar)
			     ? "of processes that others of the job did not wait for it is missing"
			     : "nobody waited for its processes who told us");
	for (size_t i = 0; i < ARRAY_SIZE(untold); i++)
		attempt_note(a, untold[i],
			     "how many there were is told only to who waits for a process");
	/* Each process has the most that it held, and each sample what it used. */
	if (s->gpus.reader && gpus_rung(s->gpus.reader))
		attempt_note(a, "gpus",
			     "of an attached job what its processes used is not added up");
	else if (s->gpus.note[0])
		attempt_note(a, "gpus", s->gpus.note);
	else if (!sources_has_gpu(s->root_fd))
		usage_set_no_gpu(&a->usage);
	else if (!s->settings.config->gpu_enabled)
		attempt_note(a, "gpus", "gpu_enabled is false in the configuration");
	snprintf(why, sizeof(why), "up to %llu kernel events were lost: counts are lower bounds",
		 (unsigned long long)n_lost);
	if (n_lost > 0)
		attempt_note(a, "process_spawn_count", why);
	if (at->deaths.n_unlisted > 0)
		attempt_note(a, "processes", "there were too many: some are not listed one by one");
	deaths_note_withheld(a, at->n_withheld);
	if (at->n_withheld > 0 && !at->has_all_births)
		attempt_note(a, "processes",
			     "what ended before this daemon followed the job is not in that count");
	if (at->was_gone)
		attempt_note(a, "ended",
			     "it ended while no daemon looked: when that was seen is told");
	if (attempt_log_lost(at->log) > 0)
		attempt_note(a, "history", "records could not be stored");
	snprintf(why, sizeof(why), "%llu came while its log could not be made, and are missing",
		 (unsigned long long)at->n_events_lost);
	if (at->n_events_lost > 0)
		attempt_note(a, "events", why);
}

/*
 * All of it is gone: appends its sums, and how it ended as far as that is known, and ends the log.
 * The sums are made of what the database has, so all of the log has to be there: -EBUSY, later.
 */
static int write_end(struct service *s, struct attached *at, struct watched *job, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	bool has_all_births = at->has_all_births && s->life.life &&
			      s->life.n_lost == at->n_lost_before &&
			      attempt_log_lost(at->log) == 0 && at->n_events_lost == 0 &&
			      at->deaths.n_unlisted == 0;
	int r;

	attempt_init(&a);
	attached_flush(at);
	r = store_take_in(s->store, err);
	if (r >= 0)
		r = store_read_attempt(s->store, job->job_id, job->a.attempt_num, &a, err);
	if (r < 0)
		return r;
	a.is_running = false;
	a.ended_wall_ns = at->last_death_wall_ns ? at->last_death_wall_ns : clock_wall_ns();
	judge_outcome(&a, at);
	if (attached_sum_up(&at->deaths, &a, has_all_births) < 0)
		return err_set(err, -ENOMEM, "no memory left for the processes of %s", job->job_id);
	service_give_times_of(s, job, &a);
	if (at->was_gone)
		a.usage.wall_ns = U64_UNKNOWN;
	a.details.rungs = s->ladder.rungs;
	a.details.n_rungs = s->ladder.n;
	note_unknowns(&a, at, has_all_births);
	a.details.n_syscalls = 0; /* those that are stored would be added once more */
	record_write_details(&details, &a, NULL);
	attempt_log_append(at->log, RECORD_DETAILS, &details);
	service_sum_calls_of(s, job); /* of the processes that it lists */
	r = attempt_log_end(at->log, &a, clock_boot_ns(), err);
	if (r < 0 && r != -ETIMEDOUT) /* the disk has it later */
		return r;
	s->n_records_lost += attempt_log_lost(at->log);
	at->log = attempt_log_close(at->log);
	return 0;
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
		struct watched *job = watch_find_attempt(s->watch, at->attempt_id);
		struct pollfd root = { .fd = at->pidfd, .events = POLLIN }; /* once it is gone */
		int ended = 0;

		next = at->next;
		/* By the look that was just taken; one from before it was attached says nothing. */
		if (job && (!s->store || !s->scan.has_snap || !at->is_recalled ||
			    job->point.wall_ns != s->scan.snap.wall_ns || job->n_living > 0 ||
			    (at->pidfd >= 0 && poll(&root, 1, 0) == 0)))
			continue;
		if (job)
			ended = write_end(s, at, job, err);
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

static void signal_all(struct service *s, const struct watched *job, int sig)
{
	for (size_t i = 0; i < s->scan.snap.n_processes; i++) {
		const struct proc_sample *p = &s->scan.snap.processes[i];
		const struct proc_event ev = {
			.wall_ns = clock_wall_ns(),
			.key = p->key,
			.type = sig == SIGKILL ? EVENT_KILL : EVENT_SIGNAL,
			.status = { -1, sig },
			.job_id = job->job_id,
			.sheet_num = p->sheet_num,
			.details = EVENT_BY_PROCTOR,
		};

		/* What belongs to another user by now is not the owner's to end, nor ours in their
		 * name. */
		if (p->job_id != job->job_id || p->state == 'Z' || p->key.pid == getpid() ||
		    (job->a.uid != 0 && p->uid != job->a.uid) ||
		    signal_process(&p->key, sig, 0) < 0)
			continue;
		signal_process(&p->key, SIGCONT, 0); /* one that is stopped hears nothing */
		service_note_attached(s, job, &ev);
		service_tell_process(s, &ev, job->a.attempt_num, job->a.uid);
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
