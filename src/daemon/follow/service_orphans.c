#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/process_handle.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/* ---- when a job ends ---- */

struct ending {
	struct service *service;
	const struct watched *job;
};

/* A runner of another user may have recorded anything. */
static bool is_believed(uint64_t uid, pid_t pid)
{
	return uid == geteuid() || caller_is_process_of(pid, (uid_t)uid);
}

static void suspect(void *ctx, const struct job_member *member)
{
	const struct ending *ending = ctx;
	const struct watched *job = ending->job;
	struct orphan orphan = {
		.key = member->key,
		.attempt_id = job->a.id,
		.uid = job->a.uid,
		.attempt_num = job->a.attempt_num,
		.sheet_num =
			watch_sheet_at(ending->service->watch, ending->job, member->born_wall_ns),
		.job_id = job->job_id,
		.is_attached = job->a.is_attached,
		.left_wall_ns =
			u64_known(job->a.ended_wall_ns) ? job->a.ended_wall_ns : clock_wall_ns(),
	};

	if (!u64_known(orphan.key.start_ticks) &&
	    proc_start_ticks(orphan.key.pid, &orphan.key.start_ticks) < 0)
		return; /* gone */
	if (!is_believed(orphan.uid, orphan.key.pid))
		return;
	if (orphans_suspect(ending->service->leftovers.orphans, &orphan) < 0)
		ending->service->leftovers.n_unlisted++;
}

#define BIRTH_SLACK_NS UINT64_C(1000000000)

/*
 * One that was over before a look has shown its processes: whom its runner has seen and not seen
 * die may live on. Of a guest only its own record knows them.
 */
static void suspect_recorded(struct ending *ending)
{
	CLEANUP(attempt_release) struct attempt a;
	const uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	const struct attempt *job = &ending->job->a;
	struct service *s = ending->service;

	attempt_init(&a);
	if (!s->store || store_read_attempt(s->store, job->job_id, job->attempt_num, &a, NULL) < 0)
		return;
	for (size_t i = 0; i < a.n_processes; i++) {
		const struct proc_record *p = &a.processes[i];
		const struct job_member member = { .key = p->key, .born_wall_ns = p->born_wall_ns };
		uint64_t ticks, born_ns;

		if (u64_known(p->died_wall_ns))
			continue;
		/* The kernel's news name pids alone: then its birth tells it from a stranger. */
		if (!u64_known(p->key.start_ticks)) {
			if (!u64_known(p->born_wall_ns) || proc_start_ticks(p->key.pid, &ticks) < 0)
				continue;
			born_ns = clock_wall_ns() - clock_boot_ns() + ticks * tick_ns;
			if (born_ns + BIRTH_SLACK_NS <= p->born_wall_ns ||
			    p->born_wall_ns + BIRTH_SLACK_NS <= born_ns)
				continue;
		} else if (!proc_is_alive("", p->key.pid, p->key.start_ticks)) {
			continue;
		}
		suspect(ending, &member);
	}
}

/*
 * Of one that a run, or a daemon before us, has told of, in this boot. It was found; nobody follows
 * it yet.
 */
static void follow_recorded(struct service *s, const struct orphan *recorded)
{
	struct orphan orphan = *recorded;

	orphan.is_found = true;
	if (!u64_known(orphan.key.start_ticks) ||
	    !proc_is_alive("", orphan.key.pid, orphan.key.start_ticks) ||
	    orphans_find(s->leftovers.orphans, orphan.key.pid) ||
	    !is_believed(orphan.uid, orphan.key.pid))
		return;
	if (orphans_suspect(s->leftovers.orphans, &orphan) < 0)
		s->leftovers.n_unlisted++;
	else
		s->leftovers.n_found++;
}

void service_follow_orphan(struct service *s, const struct watched *job,
			   const struct proc_event *ev)
{
	follow_recorded(s, &(struct orphan){ .key = ev->key,
					     .attempt_id = job->a.id,
					     .uid = job->a.uid,
					     .attempt_num = job->a.attempt_num,
					     .sheet_num = ev->sheet_num,
					     .job_id = job->job_id,
					     .left_wall_ns = ev->wall_ns });
}

void service_leave_job(struct service *s, const struct watched *job)
{
	struct ending ending = { s, job };

	service_drain_life(s);
	membership_each(s->scan.membership, MEMBERSHIP_LIVING, job->a.id, suspect, &ending);
	if (job->a.is_lost && job->n_processes == 0 && !job->a.is_attached) {
		service_take_in(s);
		suspect_recorded(&ending);
	}
	membership_forget_job(s->scan.membership, job->a.id);
}

/* ---- of those that were lost before we began ---- */

/* The past of one may take a while to read: when so much of a tick is gone, the rest waits. */
#define RECALL_NS UINT64_C(5000000)

static void release_lost(struct service *s)
{
	attempt_list_release(&s->leftovers.lost);
	s->leftovers.lost = (struct attempt_list){ 0 };
	s->leftovers.n_lost_left = 0;
}

static int list_told(void *ctx, const struct event_row *row)
{
	struct service *s = ctx;

	follow_recorded(s,
			&(struct orphan){ .key = row->event.key,
					  .attempt_id = service_attempt_of_row(s, row->attempt_id),
					  .uid = row->uid,
					  .attempt_num = row->attempt_num,
					  .sheet_num = row->event.sheet_num,
					  .job_id = row->event.job_id,
					  .is_attached = row->is_attached,
					  .left_wall_ns = row->event.wall_ns });
	return 0;
}

/* A database was opened: jobs of which the runners were gone by then could not be watched. */
static void recall(struct service *s)
{
	const struct orphan_filter recorded = { s->record.boot_id, 0, ORPHANS_MAX };
	const struct attempt_filter filter = { .running_only = true };
	uint64_t until_ns = clock_boot_ns() + RECALL_NS;
	struct err err = ERR_INIT;

	if (s->store && s->leftovers.n_recalled != s->database.n_opened) {
		s->leftovers.n_recalled = s->database.n_opened;
		if (store_read_orphans(s->store, &recorded, list_told, s, &err) < 0)
			log_warning("not all that lives on of jobs that are over is followed: %s",
				    err.text);
		release_lost(s);
		if (store_list_attempts(s->store, &filter, &s->leftovers.lost, &err) == 0)
			s->leftovers.n_lost_left = s->leftovers.lost.n;
		else
			log_warning("what lives on of lost jobs is not looked for: %s", err.text);
	}
	while (s->leftovers.n_lost_left > 0 && clock_boot_ns() < until_ns) {
		const struct attempt *a = &s->leftovers.lost.items[--s->leftovers.n_lost_left];
		struct watched job = { .job_id = (char *)a->job_id, .a = *a, .runner_fd = -1 };
		struct ending ending = { s, &job };

		job.a.id = service_attempt_of_row(s, a->id);
		if (a->is_lost && !a->is_attached && strcmp(a->boot_id, s->record.boot_id) == 0 &&
		    !watch_find_attempt(s->watch, job.a.id))
			suspect_recorded(&ending);
	}
	if (s->leftovers.n_lost_left == 0)
		release_lost(s);
}

/* ---- at each tick ---- */

/* Recorded, which nobody else does any more, and published. */
static void note_at(struct service *s, const struct orphan *orphan, const struct proc_event *what)
{
	struct proc_event ev = *what;

	ev.key = orphan->key;
	ev.job_id = orphan->job_id;
	ev.sheet_num = orphan->sheet_num;
	if (orphan->attempt_id != 0)
		service_log_event(s, orphan->attempt_id, &ev);
	if (ev.type == EVENT_EXIT)
		service_note_exit(s, &ev.key, ev.wall_ns);
	service_tell_process(s, &ev, orphan->attempt_num, orphan->uid);
}

static void note(struct service *s, const struct orphan *orphan, enum event_type type,
		 struct exit_status status, const char *details)
{
	const struct proc_event ev = {
		.wall_ns = clock_wall_ns(),
		.type = type,
		.status = status,
		.details = details,
	};

	note_at(s, orphan, &ev);
}

static const struct exit_status no_status = { -1, -1 };

static void on_found(void *ctx, const struct orphan *orphan, const struct proc_sample *p)
{
	struct service *s = ctx;

	s->leftovers.n_found++;
	if (!is_believed(orphan->uid, p->key.pid)) /* a set-user-ID program below it */
		return;
	note(s, orphan, EVENT_ORPHAN, no_status, EVENT_ORPHAN_WORDS);
}

static void on_gone(void *ctx, const struct orphan *orphan)
{
	note(ctx, orphan, EVENT_EXIT, no_status, "nobody told how it ended");
}

void service_note_orphan_death(struct service *s, const struct life_event *ev)
{
	struct orphan *orphan = orphans_find(s->leftovers.orphans, ev->pid);
	const struct proc_event death = {
		.wall_ns = ev->wall_ns,
		.type = EVENT_EXIT,
		.status = exit_status_from_wait(ev->wait_status),
		.details = "",
	};

	if (!orphan || orphan->is_dead ||
	    (u64_known(ev->start_ticks) && ev->start_ticks != orphan->key.start_ticks))
		return;
	orphan->is_dead = true;
	if (orphan->uid == geteuid() || may_see(orphan->uid, ev->uid, -1, 0))
		note_at(s, orphan, &death);
}

int service_look_for_orphans(struct service *s, struct err *err)
{
	static const struct orphans_ops ops = { .found = on_found, .gone = on_gone };

	/* Helpers that were started and not waited for. Nothing else is a child of the daemon. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		s->leftovers.n_reaped++;
	if (!s->scan.has_snap)
		return 0;
	recall(s);
	if (orphans_look(s->leftovers.orphans, &s->scan.snap, &ops, s) < 0)
		return err_set(err, -ENOMEM, "no memory left to follow orphans");
	return 0;
}

/* ---- cancelling ---- */

#define KILL_AFTER_NS UINT64_C(5000000000) /* as "proctor run" has it */
#define CHECK_MS 500

static bool is_meant(const struct job_params *params, const struct rpc_peer *peer,
		     const struct orphan *orphan)
{
	return strcmp(orphan->job_id, params->job_id) == 0 &&
	       (params->attempt == 0 || params->attempt == (uint64_t)orphan->attempt_num) &&
	       (!u64_known(params->uid) || params->uid == orphan->uid) &&
	       service_may_control(peer, orphan->uid);
}

/* What is another user's by now is not the owner's to end, nor ours in their name. */
static void signal_one(struct service *s, const struct orphan *orphan, int sig)
{
	if (orphan->uid != 0 && !caller_is_process_of(orphan->key.pid, (uid_t)orphan->uid))
		return;
	if (orphan->is_dead || signal_process(&orphan->key, sig, 0) < 0)
		return;
	signal_process(&orphan->key, SIGCONT, 0); /* one that is stopped hears nothing */
	note(s, orphan, sig == SIGKILL ? EVENT_KILL : EVENT_SIGNAL, (struct exit_status){ -1, sig },
	     EVENT_BY_PROCTOR);
}

/* What has been told to end is looked at until it is gone, with what it has started since. */
static void on_check(void *ctx)
{
	struct service *s = ctx;
	struct orphan *orphan = NULL;
	struct err err = ERR_INIT;

	service_rescan(s);
	if (service_look_for_orphans(s, &err) < 0)
		log_warning("cannot look for orphans now: %s", err.text);
	while ((orphan = orphans_next(s->leftovers.orphans, orphan))) {
		if (!orphan->cancelled_boot_ns)
			continue;
		if (clock_boot_ns() - orphan->cancelled_boot_ns >= KILL_AFTER_NS)
			signal_one(s, orphan, SIGKILL);
		loop_timer_set(s->leftovers.timer, CHECK_MS, 0);
	}
}

int service_cancel_orphans(struct service *s, const struct rpc_peer *peer,
			   const struct job_params *params)
{
	struct orphan *orphan = NULL;
	size_t n_own = 0,
	       n_any = 0; /* of the caller's own jobs, of any that the caller may control */

	service_drain_life(s);
	while ((orphan = orphans_next(s->leftovers.orphans, orphan))) {
		n_any += is_meant(params, peer, orphan);
		n_own += is_meant(params, peer, orphan) && orphan->uid == peer->uid;
	}
	if (n_any == 0)
		return -ENOENT;
	if (!s->leftovers.timer)
		s->leftovers.timer = loop_timer_new(s->loop, on_check, s);
	if (!s->leftovers.timer)
		return -ENOMEM;
	while ((orphan = orphans_next(s->leftovers.orphans, orphan))) {
		if (!is_meant(params, peer, orphan) || (n_own > 0 && orphan->uid != peer->uid))
			continue;
		if (!orphan->cancelled_boot_ns)
			orphan->cancelled_boot_ns = clock_boot_ns();
		signal_one(s, orphan, SIGTERM);
	}
	loop_timer_set(s->leftovers.timer, CHECK_MS, 0);
	return 0;
}
