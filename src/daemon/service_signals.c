#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/own.h"
#include "daemon/service_follow.h"
#include "daemon/service_tell.h"
#include "report/report.h"

/*
 * Who has sent which signal to the processes of jobs, and whom the kernel has killed for want of
 * memory: by eBPF only. Unlike births and deaths no runner knows this, so it is written down here,
 * and told when it is in the database, as what runners write is. The same goes for what becomes of
 * who outlives a job.
 */

/* What waits while nothing can be written; some of that room is not for signals. */
#define MAX_WAITING 4096
#define MAX_WAITING_SIGNALS 3584
#define DETAILS_BYTES 320

/* From half of that on one user who is not ours has no more than a quarter. */
#define BUSY_SIGNALS (MAX_WAITING_SIGNALS / 2)
#define USER_MAX_SIGNALS (MAX_WAITING_SIGNALS / 4)

/* So many are written in one go. */
#define MAX_BATCH 256

struct waiting_event {
	int64_t attempt_id;
	uint64_t uid;	      /* whose job it is */
	struct proc_event ev; /* its details are these */
	char details[DETAILS_BYTES];
};

/* ---- whose it is ---- */

/* Deeper than what a job has built before the daemon hears of it. */
#define MAX_ANCESTORS 64

/* Of one that was born before the daemon heard of its job. */
static const struct member *find_ancestor(const struct service *s, pid_t pid)
{
	const struct member *member = NULL;

	for (int i = 0; i < MAX_ANCESTORS && pid > 1 && !member; i++) {
		pid = unowned_parent(&s->signals.unowned, pid);
		member = members_find(s->life.members, pid);
	}
	return member;
}

static struct watched *find_job(struct service *s, pid_t pid, uint64_t tag)
{
	const struct member *member = members_find(s->life.members, pid);
	int64_t marked_id = service_attempt_of_mark(s, tag);

	if (!member && marked_id)
		return watch_find_attempt(s->watch, marked_id);
	if (!member)
		member = find_ancestor(s, pid);
	return member ? watch_find_attempt(s->watch, member->attempt_id) : NULL;
}

/* ---- words ---- */

static void add_comm(struct buf *out, const char comm[LIFE_COMM_BYTES])
{
	size_t n = strnlen(comm, LIFE_COMM_BYTES);

	for (size_t i = 0; i < n;)
		i += utf8_add_shown(out, comm + i, n - i);
}

/* Another user's jobs are nobody's business. One that has only just begun, and may be over by now,
 * its runner has named. */
static void add_job_of_sender(struct service *s, const struct life_sender *sender,
			      const struct watched *to, struct buf *out)
{
	const struct watched *from = find_job(s, sender->pid, sender->tag);
	const char *job_id = NULL;

	if (!from)
		job_id = service_begun_job(s, sender->tag, to->a.uid);
	else if (from->a.uid == to->a.uid)
		job_id = from->job_id;
	if (from == to)
		buf_add_str(out, ", of this job");
	else if (job_id)
		buf_printf(out, ", of job %s", job_id);
}

static void describe_sender(struct service *s, const struct watched *job,
			    const struct life_event *ev, struct buf *out)
{
	const struct life_sender *sender = &ev->sender;

	if (sender->is_kernel) {
		buf_add_str(out, "sent by the kernel");
		return;
	}
	buf_printf(out, "sent by %d (", (int)sender->pid);
	add_comm(out, sender->comm);
	buf_add_char(out, ')');
	add_job_of_sender(s, sender, job, out);
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
	for (size_t i = 0, n = strlen(v->cgroup); i < n;)
		i += utf8_add_shown(out, v->cgroup + i, n - i);
	buf_add_str(out, " held ");
	report_add_bytes(out, v->cgroup_bytes);
	if (u64_known(v->cgroup_limit_bytes)) {
		buf_add_str(out, " of at most ");
		report_add_bytes(out, v->cgroup_limit_bytes);
	}
}

/* ---- what comes ---- */

/* Of those that are not listed the last is, or the last kill, with their number, when the job
 * ends: the rest of a storm, of which one may have ended it. */
struct unlisted {
	struct waiting_event last;
	uint64_t n;
	struct unlisted *next;
};

static struct unlisted **find_unlisted(struct service *s, int64_t attempt_id)
{
	struct unlisted **at = &s->signals.unlisted;

	while (*at && (*at)->last.attempt_id != attempt_id)
		at = &(*at)->next;
	return at;
}

static bool is_kill(const struct waiting_event *ev)
{
	return ev->ev.type != EVENT_SIGNAL;
}

static void count_unlisted(struct service *s, const struct waiting_event *ev)
{
	struct unlisted **at = find_unlisted(s, ev->attempt_id);

	s->signals.n_unlisted++;
	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (!*at)
		return;
	if ((*at)->n == 0 || !is_kill(&(*at)->last) || is_kill(ev))
		(*at)->last = *ev;
	(*at)->n++;
}

static bool is_over_share(const struct signals_state *state, uint64_t uid)
{
	size_t n = 0;

	if (state->n < BUSY_SIGNALS || uid == geteuid())
		return false;
	for (size_t i = 0; i < state->n; i++)
		n += state->items[i].uid == uid;
	return n >= USER_MAX_SIGNALS;
}

/* NULL: there is no room. */
static struct waiting_event *queue(struct service *s, const struct waiting_event *ev)
{
	struct signals_state *state = &s->signals;

	if (state->n >= (is_kill(ev) ? MAX_WAITING : MAX_WAITING_SIGNALS) ||
	    (!is_kill(ev) && is_over_share(state, ev->uid)))
		return NULL;
	if (!state->items)
		state->items = calloc(MAX_WAITING, sizeof(*state->items));
	if (!state->items)
		return NULL;
	state->items[state->n] = *ev;
	return &state->items[state->n++];
}

static void list(struct service *s, const struct watched *job, const struct waiting_event *ev)
{
	struct waiting_event *kept = queue(s, ev);

	if (!kept) {
		count_unlisted(s, ev);
		return;
	}
	if (job->a.is_attached) { /* whose events are not relayed */
		kept->ev.details = kept->details;
		kept->ev.job_id = job->job_id;
		service_tell_process(s, &kept->ev, job->a.attempt_num, job->a.uid);
	}
}

static void set_details(struct waiting_event *kept, const char *text, size_t len)
{
	snprintf(kept->details, sizeof(kept->details), "%.*s",
		 (int)utf8_cut(text, len, sizeof(kept->details) - 1), text);
}

static void keep(struct service *s, const struct watched *job, const struct proc_event *ev,
		 pid_t sender, const struct buf *details)
{
	struct waiting_event kept = { .attempt_id = job->a.id, .uid = job->a.uid, .ev = *ev };

	if (buf_error(details) == 0)
		set_details(&kept, details->data, details->len);
	if (signal_room_take(&s->signals.room, job->a.id, ev, sender))
		list(s, job, &kept);
	else
		count_unlisted(s, &kept);
}

/* To the end of what is known of the last one. */
static void add_number(struct waiting_event *ev, uint64_t n)
{
	char number[64];
	size_t len;

	if (n == 0)
		return;
	snprintf(number, sizeof(number), "; %llu others are not listed", (unsigned long long)n);
	len = utf8_cut(ev->details, strlen(ev->details), sizeof(ev->details) - 1 - strlen(number));
	snprintf(ev->details + len, sizeof(ev->details) - len, "%s", number);
}

/* Whose process it is; NULL: nobody's. */
static struct watched *job_of(struct service *s, const struct life_event *ev,
			      struct proc_event *ret)
{
	struct watched *job = find_job(s, ev->pid, ev->tag);

	if (!job || ev->wall_ns < job->a.started_wall_ns) /* the pid was a stranger's then */
		return NULL;
	*ret = (struct proc_event){
		.wall_ns = ev->wall_ns,
		.key = { ev->pid, ev->start_ticks },
		.sheet_num = watch_sheet_at(s->watch, job, ev->wall_ns),
	};
	return job;
}

/* A runner notes itself whom it has signalled, and why. */
static void keep_signal(struct service *s, const struct watched *job, const struct life_event *ev,
			struct proc_event *event)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;

	if (!job->a.is_attached && ev->sender.pid == job->a.runner.pid)
		return;
	event->type = ev->sender.signal == SIGKILL ? EVENT_KILL : EVENT_SIGNAL;
	event->status = (struct exit_status){ -1, ev->sender.signal };
	if (!job->a.is_attached && ev->pid == job->a.runner.pid)
		buf_add_str(&details, "to the runner; ");
	describe_sender(s, job, ev, &details);
	keep(s, job, event, ev->sender.is_kernel ? 0 : ev->sender.pid, &details);
}

static void keep_oom(struct service *s, const struct watched *job, const struct life_event *ev,
		     struct proc_event *event)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;

	event->type = EVENT_OOM;
	event->status = (struct exit_status){ -1, SIGKILL };
	memcpy(event->comm, ev->comm, sizeof(event->comm));
	event->comm[sizeof(event->comm) - 1] = '\0';
	service_name_killed(s, event);
	describe_victim(&ev->victim, &details);
	keep(s, job, event, 0, &details);
}

/* False: nobody knows whose it is. */
static bool place(void *ctx, const struct life_event *ev)
{
	struct service *s = ctx;
	struct proc_event event;
	struct watched *job = job_of(s, ev, &event);

	if (!job)
		return false;
	if (ev->type == LIFE_OOM)
		keep_oom(s, job, ev, &event);
	else
		keep_signal(s, job, ev, &event);
	return true;
}

void service_note_signal(struct service *s, const struct life_event *ev)
{
	if (!place(s, ev))
		unowned_keep(&s->signals.unowned, ev);
}

bool service_keep_event(struct service *s, const struct proc_event *ev, int64_t attempt_id,
			uint64_t uid)
{
	struct waiting_event kept = { .attempt_id = attempt_id, .uid = uid, .ev = *ev };

	set_details(&kept, ev->details, strlen(ev->details));
	return queue(s, &kept) != NULL;
}

void service_place_signals(struct service *s)
{
	unowned_place(&s->signals.unowned, clock_wall_ns(), place, s);
}

/* ---- writing it down ---- */

/* Those of one attempt that stand together, from this one on: a storm is one record. */
static size_t gather(const struct signals_state *state, size_t from, struct proc_event *ret)
{
	size_t n = 0;

	for (size_t i = from; i < state->n && n < MAX_BATCH; i++, n++) {
		const struct waiting_event *next = &state->items[i];

		if (next->attempt_id != state->items[from].attempt_id)
			break;
		ret[n] = next->ev;
		ret[n].details = next->details;
	}
	return n;
}

bool service_log_signals(struct service *s)
{
	struct signals_state *state = &s->signals;
	struct proc_event events[MAX_BATCH];
	size_t n_all = state->n;

	for (size_t done = 0, n; done < n_all; done += n) {
		n = gather(state, done, events);
		service_log_events(s, state->items[done].attempt_id, events, n);
	}
	state->n = 0;
	return n_all > 0;
}

/* ---- for a runner ---- */

struct listing {
	int64_t attempt_id;
	struct json *j;
};

static int list_signal(void *ctx, const struct event_row *row)
{
	const struct listing *listing = ctx;
	const struct proc_event *ev = &row->event;
	struct json *j = listing->j;

	if (row->attempt_id != listing->attempt_id || !event_type_is_signal(ev->type))
		return 0;
	json_begin_object(j);
	json_key_u64(j, "wall_ns", ev->wall_ns);
	json_key_i64(j, "pid", ev->key.pid);
	json_key_u64(j, "start_ticks", ev->key.start_ticks);
	json_key_string(j, "type", event_type_name(ev->type));
	json_key_i64(j, "signal", ev->status.signal);
	json_key_i64(j, "sheet_num", ev->sheet_num);
	json_key_string(j, "details", ev->details);
	json_end_object(j);
	return 0;
}

void service_list_signals_of(struct service *s, const char *job_id, int64_t attempt_id,
			     struct json *j)
{
	const struct watched *job = watch_find_attempt(s->watch, attempt_id);
	/* Not all that a job of this name ever did: nothing of this attempt is older (job_of()). */
	const struct event_filter filter = {
		.job_id = job_id,
		.since_wall_ns =
			job && u64_known(job->a.started_wall_ns) ? job->a.started_wall_ns : 0,
	};
	struct listing listing = { attempt_id, j };
	struct err err = ERR_INIT;

	service_drain_life(s);
	service_tell_signals(s);
	json_begin_array(j);
	if (s->store && store_read_events(s->store, &filter, list_signal, &listing, &err) < 0)
		log_debug("the signals of job %s are not told: %s", job_id, err.text);
	json_end_array(j);
}

/* ---- the end ---- */

void service_end_signals_of(struct service *s, int64_t attempt_id)
{
	struct unlisted **at = find_unlisted(s, attempt_id), *u = *at;

	signal_room_forget(&s->signals.room, attempt_id);
	if (!u)
		return;
	*at = u->next;
	add_number(&u->last, u->n - 1);
	(void)queue(
		s,
		&u->last); /* or nothing can be written for long, and daemon.status counts them */
	free(u);
}

void service_forget_signals(struct service *s)
{
	s->signals.n = 0;
	while (s->signals.unlisted) {
		struct unlisted *first = s->signals.unlisted;

		s->signals.unlisted = first->next;
		free(first);
	}
	signal_room_release(&s->signals.room);
}

void service_close_signals(struct service *s)
{
	while (s->signals.unlisted)
		service_end_signals_of(s, s->signals.unlisted->last.attempt_id);
	(void)service_log_signals(s);
	free(s->signals.items);
	unowned_release(&s->signals.unowned);
	signal_room_release(&s->signals.room);
}
