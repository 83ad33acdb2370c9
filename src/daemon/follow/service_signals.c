#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "report/report.h"

/*
 * Signals that were sent to the processes of jobs, and kills for want of memory: by eBPF only. A
 * runner hears of those of its job by its stream and records them. The daemon records those of
 * attached trees and of runners that are gone (service_host_log.c).
 */

/* ---- whose it is ---- */

/* Deeper than what a job has built before the daemon knows it. */
#define MAX_ANCESTORS 64

/* The run or the attached tree that a process is of: all NULL where none is known. */
struct owner {
	struct watched *job;   /* NULL: its attempt is not known yet */
	struct stream *stream; /* NULL: it has none */
};

static struct owner owner_of_attempt(struct service *s, int64_t attempt_id)
{
	return (struct owner){ watch_find_attempt(s->watch, attempt_id),
			       stream_find(s, attempt_id) };
}

static bool is_known(const struct owner *o)
{
	return o->job || o->stream;
}

/* A process may have started before the daemon knew its job: then its ancestors show it. */
static struct owner find_owner(struct service *s, pid_t pid, uint64_t tag)
{
	int64_t attempt = membership_attempt_of(s->scan.membership, pid);
	struct owner o = { 0 };

	if (attempt)
		return owner_of_attempt(s, attempt);
	o.stream = stream_find(s, (int64_t)tag);
	o.job = watch_find_attempt(s->watch, service_attempt_of_mark(s, tag));
	for (int i = 0; i < MAX_ANCESTORS && pid > 1 && !is_known(&o); i++) {
		o.stream = stream_of_runner(s, pid);
		pid = unowned_parent(&s->signals.unowned, pid);
		attempt = o.stream ? 0 : membership_attempt_of(s->scan.membership, pid);
		if (attempt)
			o = owner_of_attempt(s, attempt);
	}
	return o;
}

static uint64_t uid_of(const struct owner *o)
{
	return o->stream ? o->stream->uid : o->job->a.uid;
}

/* 0: an attached tree has none. */
static pid_t runner_of(const struct owner *o)
{
	if (o->stream)
		return o->stream->runner.pid;
	return o->job->a.is_attached ? 0 : o->job->a.runner.pid;
}

/* ---- words ---- */

/* Jobs of other users are not named. */
static void describe_sender(struct service *s, const struct owner *to, const struct life_event *ev,
			    struct buf *out)
{
	const struct life_sender *sender = &ev->sender;
	struct owner from;

	if (sender->is_kernel) {
		buf_add_str(out, "sent by the kernel");
		return;
	}
	buf_printf(out, "sent by %d (", (int)sender->pid);
	utf8_add_text(out, sender->comm, strnlen(sender->comm, sizeof(sender->comm)));
	buf_add_char(out, ')');
	from = find_owner(s, sender->pid, sender->tag);
	if (!is_known(&from) || uid_of(&from) != uid_of(to))
		return;
	if (from.job ? from.job == to->job : from.stream == to->stream)
		buf_add_str(out, EVENT_OF_THIS_JOB);
	else if (from.job || from.stream->job_id)
		buf_printf(out, ", of job %s", from.job ? from.job->job_id : from.stream->job_id);
}

static void describe_victim(const struct life_victim *v, struct buf *out)
{
	buf_add_str(out, EVENT_OOM_WORDS);
	if (u64_known(v->rss_bytes)) {
		buf_add_str(out, ": it held ");
		report_add_bytes(out, v->rss_bytes);
	}
	if (!u64_known(v->cgroup_bytes))
		return;
	buf_add_str(out, u64_known(v->rss_bytes) ? "; " : ": ");
	buf_add_str(out, v->cgroup[0] ? "its cgroup " : "the root of cgroups");
	utf8_add_text(out, v->cgroup, strlen(v->cgroup));
	buf_add_str(out, " held ");
	report_add_bytes(out, v->cgroup_bytes);
	if (u64_known(v->cgroup_limit_bytes)) {
		buf_add_str(out, " of at most ");
		report_add_bytes(out, v->cgroup_limit_bytes);
	}
}

/* ---- what comes ---- */

#define DETAILS_BYTES 320

/* To the runner, where that is there to record it. */
static void keep(struct service *s, const struct owner *o, struct proc_event *ev, pid_t sender,
		 const struct buf *details)
{
	struct signal_list *list = o->stream ? &o->stream->signals : &o->job->signals;
	char text[DETAILS_BYTES] = "";

	if (buf_error(details) == 0)
		snprintf(text, sizeof(text), "%.*s",
			 (int)utf8_cut(details->data, details->len, sizeof(text) - 1),
			 details->data);
	ev->details = text;
	if (!signal_list_take(list, ev, sender)) {
		s->signals.n_unlisted++;
		return;
	}
	if (o->stream) {
		stream_add_event(o->stream, ev);
		return;
	}
	service_log_event(s, o->job->a.id, ev);
	ev->job_id = o->job->job_id;
	if (ev->type == EVENT_OOM)
		service_keep_kill(s, ev, o->job->a.id);
	service_tell_process(s, ev, o->job->a.attempt_num, o->job->a.uid);
}

/* A kill of the runner: it cannot record that any more. */
static bool ends_runner(const struct owner *o, const struct life_event *ev)
{
	return ev->pid == runner_of(o) && (ev->type == LIFE_OOM || ev->sender.signal == SIGKILL);
}

/*
 * False: it is not known whose it is. One whose runner lives, and has no stream yet, is about to
 * have one.
 */
static bool place(void *ctx, const struct life_event *ev)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	struct service *s = ctx;
	struct owner o = find_owner(s, ev->pid, ev->tag);
	struct proc_event event = { .wall_ns = ev->wall_ns,
				    .key = { ev->pid, ev->start_ticks },
				    .sheet_num = SHEET_NONE };

	if (!is_known(&o))
		return false;
	/* Of a set-user-ID program: for root. An old kernel does not report whose it is, and
	 * nothing else of it. */
	if (u64_known(ev->uid) && !may_see(uid_of(&o), ev->uid, -1, 0))
		return true;
	if (o.stream && (ends_runner(&o, ev) || !stream_is_read(o.stream)))
		o.stream = NULL;
	if (!o.stream) {
		if (!o.job || ev->wall_ns < o.job->a.started_wall_ns)
			return false; /* the pid was another's then */
		if (!o.job->a.is_attached && !ends_runner(&o, ev) &&
		    proc_is_alive("", o.job->a.runner.pid, o.job->a.runner.start_ticks))
			return false;
		event.sheet_num = watch_sheet_at(s->watch, o.job, ev->wall_ns);
	}
	if (ev->type == LIFE_OOM) {
		event.type = EVENT_OOM;
		event.status = (struct exit_status){ -1, SIGKILL };
		memcpy(event.comm, ev->comm, sizeof(event.comm));
		event.comm[sizeof(event.comm) - 1] = '\0';
		describe_victim(&ev->victim, &details);
		keep(s, &o, &event, 0, &details);
		return true;
	}
	if (runner_of(&o) && ev->sender.pid == runner_of(&o))
		return true; /* a runner notes itself whom it has signalled, and why */
	event.type = ev->sender.signal == SIGKILL ? EVENT_KILL : EVENT_SIGNAL;
	event.status = (struct exit_status){ -1, ev->sender.signal };
	if (ev->pid == runner_of(&o))
		buf_add_str(&details, "to the runner; ");
	describe_sender(s, &o, ev, &details);
	keep(s, &o, &event, ev->sender.is_kernel ? 0 : ev->sender.pid, &details);
	return true;
}

void service_note_signal(struct service *s, const struct life_event *ev)
{
	if (!place(s, ev))
		unowned_keep(&s->signals.unowned, ev);
}

void service_place_signals(struct service *s)
{
	s->signals.has_new_owners = false;
	unowned_place(&s->signals.unowned, clock_wall_ns(), place, s);
}

void service_end_signals_of(struct service *s, struct watched *job)
{
	const struct proc_event *last = signal_list_end(&job->signals);

	if (last)
		service_log_event(s, job->a.id, last);
	signal_list_release(&job->signals);
}
