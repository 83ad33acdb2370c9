
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/process_handle.h"
#include "model/record.h"

/* No attempt has such a number. */
#define FIRST_MARK (INT64_C(1) << 62)

/* Runs inside runs: an end is sent to so many of them. */
#define MAX_NESTED 8

/* Of one user. */
#define MAX_STREAMS 256

/* Facts in one message. */
#define MAX_BATCH 512

/* Ends whose accounts are awaited, of one runner: beyond this the oldest are given up. */
#define MAX_AWAITED 1024

#define REAPED_NS UINT64_C(50000000) /* a parent that waits for its children has done so */

#define NS_PER_MS UINT64_C(1000000)

/* ---- which ---- */

struct stream *stream_find(const struct service *s, int64_t id)
{
	struct stream *st = s->facts.first;

	while (st && (id == 0 || (st->attempt_id != id && st->mark != id)))
		st = st->next;
	return st;
}

struct stream *stream_of_runner(const struct service *s, pid_t pid)
{
	struct stream *st = s->facts.first;

	while (st && st->runner.pid != pid)
		st = st->next;
	return st;
}

bool stream_is_read(const struct stream *st)
{
	return proc_is_alive("", st->runner.pid, st->runner.start_ticks);
}

int64_t service_attempt_of_mark(struct service *s, uint64_t mark)
{
	for (int i = 0; i < MAX_NESTED && mark >= (uint64_t)FIRST_MARK; i++) {
		const struct stream *st = stream_find(s, (int64_t)mark);

		if (!st)
			return 0;
		mark = st->attempt_id ? (uint64_t)st->attempt_id : st->outer_mark;
	}
	return mark < (uint64_t)FIRST_MARK ? (int64_t)mark : 0;
}

bool service_is_inside(struct service *s, uint64_t mark, const struct proc_key *runner,
		       uint64_t runner_mark)
{
	const struct stream *st = stream_find(s, (int64_t)mark);
	const struct stream *around = stream_find(s, (int64_t)runner_mark);

	if (around && around->runner.pid == runner->pid)
		around = stream_find(s, (int64_t)around->outer_mark);
	return st && st != around && st->runner.pid != runner->pid;
}

/* ---- sending ---- */

/* Of another user so much may wait unread; beyond it each stream has no more than the
 * second. */
#define USER_UNREAD_BYTES ((size_t)8 << 20)
#define UNREAD_BYTES ((size_t)64 << 10)

static void write_list(struct json *j, const char *key, enum record_list list, const void *items,
		       size_t n)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT, text = BUF_INIT;

	if (n == 0)
		return;
	record_write_list(&bytes, list, items, n);
	buf_add_base64(&text, bytes.data, bytes.len);
	if (buf_error(&bytes) == 0 && buf_error(&text) == 0)
		json_key_string(j, key, text.data);
}

/* Of another user's streams together, where this one has more than a little. */
static bool has_room(const struct stream *st)
{
	size_t n_unread = 0;

	if (st->uid == geteuid() || rpc_subscriber_waiting(st->line) < UNREAD_BYTES)
		return true;
	for (const struct stream *at = st->service->facts.first; at; at = at->next)
		n_unread += at->uid == st->uid && at->line ? rpc_subscriber_waiting(at->line) : 0;
	return n_unread < USER_UNREAD_BYTES;
}

static void push(struct stream *st, const char *topic, const struct buf *data)
{
	struct message *message = message_new_event(topic, clock_wall_ns(), data->data, data->len);

	if (message)
		rpc_push(st->line, message);
	message_unref(message);
}

/* Where there is no room, or no memory, the next message shows how many were lost. */
static void send_facts(struct stream *st)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	if (st->n_ends + st->n_events == 0 || !st->line)
		return;
	json_init_object(&j, &out);
	json_key_u64(&j, "before", st->n_facts);
	json_key_u64(&j, "n", st->n_ends + st->n_events);
	write_list(&j, "processes", RECORD_LIST_PROCESSES, st->ends, st->n_ends);
	write_list(&j, "events", RECORD_LIST_EVENTS, st->events, st->n_events);
	json_end_object(&j);
	st->n_facts += st->n_ends + st->n_events;
	st->n_ends = st->n_events = 0;
	arena_reset(&st->arena);
	if (buf_error(&out) == 0 && has_room(st))
		push(st, "runner.facts", &out);
}

void service_send_facts(struct service *s)
{
	for (struct stream *st = s->facts.first; st; st = st->next)
		send_facts(st);
}

static void send_if_full(struct stream *st)
{
	if (st->n_ends + st->n_events >= MAX_BATCH)
		send_facts(st);
}

/* A fact that finds no memory counts as sent, so that the runner misses it. */
void stream_add_event(struct stream *st, const struct proc_event *ev)
{
	send_if_full(st);
	if (ARRAY_RESERVE(st->events, st->cap_events, st->n_events + 1) < 0) {
		st->n_facts++;
		return;
	}
	st->events[st->n_events] = *ev;
	st->events[st->n_events++].details = arena_strdup(&st->arena, ev->details);
}

/* The last of those that are not sent yet, or a new one; NULL: no memory. */
static struct proc_record *place_end(struct stream *st, const struct proc_key *key)
{
	struct proc_record *p;

	for (size_t i = st->n_ends; i > 0; i--) {
		p = &st->ends[i - 1];
		if (p->key.pid == key->pid && p->key.start_ticks == key->start_ticks)
			return p;
	}
	send_if_full(st);
	if (ARRAY_RESERVE(st->ends, st->cap_ends, st->n_ends + 1) < 0) {
		st->n_facts++;
		return NULL;
	}
	p = &st->ends[st->n_ends++];
	proc_record_init(p);
	p->key = *key;
	return p;
}

/* ---- accounts that are to come ---- */

/* Another may have the pid by now: that counts too few at worst, and costs no file. */
static size_t count_gone(const struct stream *st, uint64_t before_wall_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < st->n_awaited && st->awaited[i].died_wall_ns < before_wall_ns; i++)
		n += kill(st->awaited[i].key.pid, 0) < 0 && errno == ESRCH;
	return n;
}

uint64_t stream_count_unaccounted(const struct service *s, uint64_t before_wall_ns)
{
	uint64_t n = 0;

	for (const struct stream *st = s->facts.first; st; st = st->next)
		n += count_gone(st, before_wall_ns);
	return n;
}

static void give_up(struct stream *st, size_t i)
{
	st->n_awaited--;
	memmove(&st->awaited[i], &st->awaited[i + 1], (st->n_awaited - i) * sizeof(*st->awaited));
}

/* It is asked every few milliseconds: so many files are read for it. */
#define MAX_ZOMBIES 64

/* Whether all accounts have come that will come soon. */
static bool is_settled(struct stream *st)
{
	const uint64_t now = clock_wall_ns();
	size_t n_zombies = 0;

	service_drain_life(st->service); /* the last of them may wait there */
	for (size_t i = st->service->life.life ? st->n_awaited : 0; i > 0; i--) {
		const struct awaited_account *end = &st->awaited[i - 1];
		struct process_facts facts;

		if (end->died_wall_ns + ACCOUNT_COMES_NS < now)
			break;
		if (end->died_wall_ns + REAPED_NS >= now || n_zombies++ == MAX_ZOMBIES)
			return false;
		/* The kernel has not done with it before its parent waits for it, which may be
		 * never. */
		if (process_facts_read(st->service->root_fd, end->key.pid, &facts) < 0 ||
		    facts.state != 'Z' ||
		    (u64_known(end->key.start_ticks) &&
		     facts.key.start_ticks != end->key.start_ticks))
			return false;
	}
	return true;
}

/* ---- ends ---- */

static void note_end(struct stream *st, const struct job_member *member,
		     const struct life_event *ev)
{
	const struct proc_key told = { ev->pid, ev->start_ticks };
	const struct proc_key key = { ev->pid, u64_known(ev->start_ticks) || !member
						       ? ev->start_ticks
						       : member->key.start_ticks };
	struct proc_record *p;

	if (ev->pid == st->runner.pid)
		return;
	if (!may_see(st->uid, ev->uid, -1, 0)) {
		st->n_withheld++;
		return;
	}
	if (st->n_awaited == MAX_AWAITED) {
		st->service->life.n_unaccounted++;
		give_up(st, 0);
	}
	if (life_sees_signals(st->service->life.life) && /* else this rung has no accounts */
	    ARRAY_RESERVE(st->awaited, st->cap_awaited, st->n_awaited + 1) == 0)
		st->awaited[st->n_awaited++] = (struct awaited_account){ told, ev->wall_ns };
	p = place_end(st, &key);
	if (!p)
		return;
	death_read(ev, st->service->settings.mask, &st->arena, p);
	if (st->service->settings.config->capture != 0) /* it is off */
		p->stderr_tail = NULL;
	p->key = key;
	p->born_wall_ns = member ? member->born_wall_ns : U64_UNKNOWN;
}

/* The first processes of a run start before its attempt is known: their marks name the run, and
 * those of a run inside another belong to both. */
void service_note_job_death(struct service *s, const struct job_member *member,
			    const struct life_event *ev)
{
	struct stream *known = member ? stream_find(s, member->attempt_id) : NULL, *st;
	uint64_t mark = ev->tag;

	if (known)
		note_end(known, member, ev);
	for (int i = 0; i < MAX_NESTED && mark != 0; i++) {
		st = stream_find(s, (int64_t)mark);
		if (st && st != known)
			note_end(st, member, ev);
		mark = st ? st->outer_mark : 0;
	}
}

void service_complete_job_death(struct service *s, const struct life_event *ev)
{
	const struct proc_key key = { ev->pid, ev->start_ticks };

	for (struct stream *st = s->facts.first; st; st = st->next) {
		struct proc_record *p;
		size_t i = 0;

		while (i < st->n_awaited && (st->awaited[i].key.pid != key.pid ||
					     st->awaited[i].key.start_ticks != key.start_ticks))
			i++;
		if (i == st->n_awaited)
			continue;
		give_up(st, i);
		p = u64_known(ev->account.cpu_ns) ? place_end(st, &key) : NULL;
		if (p)
			death_complete(p, ev);
	}
}

/* ---- the barrier ---- */

#define LOOK_MS 5 /* so often is looked whether the last account has come */

struct barrier {
	struct stream *stream;
	struct rpc_call *call;
	bool is_final;
	uint64_t until_boot_ns; /* the clock may be set back */
	struct loop_timer *timer;
};

/* The rest of a storm of signals. */
static void end_signals(struct stream *st)
{
	const struct proc_event *last = signal_list_end(&st->signals);

	if (last && stream_is_read(st))
		stream_add_event(st, last);
	else if (last && st->attempt_id != 0)
		service_log_event(st->service, st->attempt_id, last);
	signal_list_release(&st->signals);
}

/* All that is sent by now is on its way before the answer, or counted as lost. */
static void answer_barrier(struct stream *st, bool is_final, struct rpc_call *call)
{
	struct service *s = st->service;
	struct json *j = rpc_call_result(call);

	if (is_final) { /* what comes from now on is in no record */
		end_signals(st);
		s->life.n_unaccounted += count_gone(st, UINT64_MAX);
		st->n_awaited = 0;
	}
	send_facts(st);
	json_begin_object(j);
	json_key_u64(j, "facts", st->n_facts);
	json_key_u64(j, "withheld", st->n_withheld);
	json_key_u64(j, "lost", s->life.n_lost - st->n_lost_before);
	json_end_object(j);
}

static void forget_barrier(void *ctx)
{
	struct barrier *barrier = ctx;

	if (barrier->stream)
		barrier->stream->barrier = NULL;
	loop_timer_close(barrier->timer);
	free(barrier);
}

static void look_again(void *ctx)
{
	struct barrier *barrier = ctx;
	struct rpc_call *call = barrier->call;

	if (!barrier->stream) /* the connection is about to end */
		return;
	if (clock_boot_ns() < barrier->until_boot_ns && !is_settled(barrier->stream))
		return;
	answer_barrier(barrier->stream, barrier->is_final, call);
	forget_barrier(barrier);
	rpc_call_answer(call);
}

struct barrier_params {
	uint64_t patience_ms;
	bool is_final;
};

static const struct rpc_field barrier_fields[] = {
	{ "patience_ms", RPC_U64, offsetof(struct barrier_params, patience_ms), .max = 60000 },
	{ "final", RPC_BOOL, offsetof(struct barrier_params, is_final), .is_required = false },
};

static void on_hung_up(void *ctx);

/* The runner waits until all that has happened so far was sent, for patience_ms at most. */
int method_runner_barrier(void *ctx, struct rpc_call *call, struct err *err)
{
	struct barrier_params params = { 0 };
	struct stream *st = rpc_call_subscription(call, on_hung_up);
	int r = rpc_call_read(call, barrier_fields, ARRAY_SIZE(barrier_fields), &params, err);
	struct service *s = ctx;
	struct barrier *barrier;

	if (r < 0)
		return r;
	if (!st)
		return err_set(err, -EINVAL, "this connection has no stream");
	params.patience_ms = params.patience_ms < ACCOUNT_COMES_NS / NS_PER_MS
				     ? params.patience_ms
				     : ACCOUNT_COMES_NS / NS_PER_MS;
	barrier = is_settled(st) || params.patience_ms == 0 || st->barrier
			  ? NULL
			  : calloc(1, sizeof(*barrier));
	if (barrier)
		barrier->timer = loop_timer_new(s->loop, look_again, barrier);
	if (!barrier || !barrier->timer) {
		free(barrier);
		answer_barrier(st, params.is_final, call);
		return 0;
	}
	barrier->stream = st;
	barrier->call = call;
	barrier->is_final = params.is_final;
	barrier->until_boot_ns = clock_boot_ns() + params.patience_ms * NS_PER_MS;
	st->barrier = barrier;
	loop_timer_set(barrier->timer, LOOK_MS, LOOK_MS);
	rpc_call_defer(call, forget_barrier, barrier);
	return 0;
}

/* ---- samples ---- */

/* What is behind the next look as well is not worth reading: one message waits at most. */
static bool is_due(const struct stream *st)
{
	const struct service *s = st->service;
	uint64_t tick_ns = (uint64_t)(s->interval_seconds * 1e9);

	return st->samples_every_ns > 0 && st->samples_every_ns + tick_ns / 8 >= tick_ns &&
	       st->line && st->attempt_id != 0 && rpc_subscriber_waiting(st->line) == 0 &&
	       s->scan.snap.boot_ns + tick_ns / 2 >= st->sampled_boot_ns + st->samples_every_ns;
}

static void send_samples(struct stream *st)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT, bytes = BUF_INIT, text = BUF_INIT;
	struct json j;

	if (!collector_write_feed(st->service->scan.collector, &st->samples, st->pids, st->n_pids,
				  &bytes))
		return;
	buf_add_base64(&text, bytes.data, bytes.len);
	json_init_object(&j, &out);
	if (buf_error(&text) == 0)
		json_key_string(&j, "samples", text.data);
	json_end_object(&j);
	if (buf_error(&out) == 0)
		push(st, "runner.samples", &out); /* one that is lost is missed by its number */
	st->sampled_boot_ns = st->service->scan.snap.boot_ns;
}

int service_send_samples(struct service *s, struct err *err)
{
	const struct snapshot *snap = &s->scan.snap;
	struct stream *last = NULL;
	size_t n_due = 0;

	for (struct stream *st = s->facts.first; st; st = st->next) {
		st->n_pids = 0;
		n_due += s->scan.has_snap && is_due(st);
	}
	for (size_t i = 0; n_due > 0 && i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];

		if (p->attempt_id == 0)
			continue;
		if (!last || last->attempt_id != p->attempt_id)
			last = stream_find(s, p->attempt_id);
		if (!last || !is_due(last) || !may_see(last->uid, p->owner, -1, 0))
			continue;
		if (ARRAY_RESERVE(last->pids, last->cap_pids, last->n_pids + 1) < 0)
			return err_set(err, -ENOMEM, "no memory left");
		last->pids[last->n_pids++] = p->key.pid;
	}
	for (struct stream *st = n_due > 0 ? s->facts.first : NULL; st; st = st->next)
		if (is_due(st))
			send_samples(st);
	return 0;
}

struct samples_params {
	double interval_seconds;
	uint64_t layout, pid, start_ticks;
};

static const struct rpc_field samples_fields[] = {
	{ "interval_seconds", RPC_F64, offsetof(struct samples_params, interval_seconds), true,
	  0.001, 1e6 },
	{ "layout", RPC_U64, offsetof(struct samples_params, layout), true, 0, 0 },
	{ "pid", RPC_U64, offsetof(struct samples_params, pid), true, 0, 0 },
	{ "start_ticks", RPC_U64, offsetof(struct samples_params, start_ticks), true, 0, 0 },
};

/* A runner in another pid or time namespace has other numbers than ours: it gets none. */
int method_runner_samples(void *ctx, struct rpc_call *call, struct err *err)
{
	struct samples_params params = { 0 };
	struct stream *st = rpc_call_subscription(call, on_hung_up);
	int r = rpc_call_read(call, samples_fields, ARRAY_SIZE(samples_fields), &params, err);

	(void)ctx;
	if (r < 0)
		return r;
	if (!st)
		return err_set(err, -EINVAL, "this connection has no stream");
	feed_sender_release(&st->samples);
	st->samples_every_ns = 0;
	if (params.layout == FEED_LAYOUT && params.pid == (uint64_t)st->runner.pid &&
	    params.start_ticks == st->runner.start_ticks)
		st->samples_every_ns = (uint64_t)(params.interval_seconds * 1e9);
	return 0;
}

/* ---- from its beginning to its end ---- */

static void drop(struct stream *st)
{
	LIST_REMOVE(st->service->facts.first, st, next);
	if (st->barrier)
		st->barrier->stream = NULL;
	st->service->life.n_unaccounted += count_gone(st, UINT64_MAX);
	end_signals(st);
	free(st->ends);
	free(st->events);
	free(st->awaited);
	free(st->pids);
	feed_sender_release(&st->samples);
	arena_release(&st->arena);
	free(st->job_id);
	free(st);
}

/* What the runner has done until then is to be known as its own: the kernel's events come first. */
static void on_hung_up(void *ctx)
{
	struct stream *st = ctx;

	st->line = NULL;
	service_drain_life(st->service);
	drop(st);
}

void service_forget_streams(struct service *s)
{
	while (s->facts.first) {
		rpc_subscriber_hang_up(s->facts.first->line);
		s->facts.first->line = NULL;
		drop(s->facts.first);
	}
}

void service_bind_stream(struct service *s, const struct watched *job)
{
	struct stream *st = stream_of_runner(s, job->a.runner.pid);

	if (st && st->attempt_id == 0 && st->uid == job->a.uid &&
	    st->runner.start_ticks == job->a.runner.start_ticks)
		st->attempt_id = job->a.id;
}

bool service_open_stream(struct service *s, struct rpc_call *call, const char *job_id)
{
	uint64_t uid = rpc_call_peer(call)->uid;
	const struct watched *job;
	struct proc_key runner;
	struct stream *st;
	size_t n = 0;

	if (rpc_call_subscription(call, on_hung_up))
		return true;
	/* The kernel reports the same to a runner of our own user, but for eBPF. */
	if (!s->life.life || (!life_sees_signals(s->life.life) && uid == geteuid()) ||
	    caller_find_process(rpc_call_peer(call), &runner, NULL) < 0)
		return false;
	for (st = s->facts.first; st; st = st->next)
		n += st->uid == uid;
	if (n >= MAX_STREAMS)
		return false;
	job = watch_find_runner(s->watch, &runner);
	if (!job && !life_sees_signals(s->life.life)) /* it cannot be marked */
		return false;
	st = stream_of_runner(s, runner.pid); /* by a line that is gone, or about to */
	if (st) {
		rpc_subscriber_hang_up(st->line);
		st->line = NULL;
		drop(st);
	}
	st = calloc(1, sizeof(*st));
	if (!st)
		return false;
	*st = (struct stream){ .service = s,
			       .mark = FIRST_MARK + s->facts.n_opened++,
			       .outer_mark = job ? 0 : life_tag_of(s->life.life, runner.pid),
			       .runner = runner,
			       .uid = uid,
			       .attempt_id = job ? job->a.id : 0,
			       .job_id = job_id ? strdup(job_id) : NULL,
			       .n_lost_before = s->life.n_lost,
			       .next = s->facts.first };
	/* The runner alone is marked: what it starts later inherits that, and what was there before
	 * may belong to another run. */
	if (rpc_call_subscribe(call, on_hung_up, st, &st->line, NULL) < 0 ||
	    (!job && life_track(s->life.life, runner.pid, (uint64_t)st->mark) < 0)) {
		rpc_subscriber_free(st->line);
		free(st->job_id);
		free(st);
		return false;
	}
	s->facts.first = st;
	s->signals.has_new_owners = true;
	service_want_accounts(s);
	return true;
}

struct stream_params {
	const char *job_id;
};

static const struct rpc_field stream_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct stream_params, job_id), .is_required = false },
};

void service_write_stream(const struct service *s, struct json *j, bool follows)
{
	json_key_bool(j, "follows", follows);
	if (!follows)
		return;
	json_key_bool(j, "accounts", life_sees_signals(s->life.life));
	json_key_bool(j, "failed_calls", life_sees_calls(s->life.life));
	json_key(j, "rungs");
	json_begin_object(j);
	for (size_t i = 0; i < s->ladder.n; i++)
		if (strcmp(s->ladder.rungs[i].measurement, SOURCES_RUNG_SAMPLES) == 0 ||
		    strcmp(s->ladder.rungs[i].measurement, SOURCES_RUNG_BIRTHS) == 0 ||
		    strcmp(s->ladder.rungs[i].measurement, SOURCES_RUNG_OOM) == 0)
			json_key_string(j, s->ladder.rungs[i].measurement, s->ladder.rungs[i].rung);
	json_end_object(j);
}

/* Its first command waits for the answer, for some milliseconds: nothing is looked at here. */
int method_runner_stream(void *ctx, struct rpc_call *call, struct err *err)
{
	struct stream_params params = { 0 };
	struct json *j;
	int r = rpc_call_read(call, stream_fields, ARRAY_SIZE(stream_fields), &params, err);

	if (r == 0 && params.job_id && !job_id_is_valid(params.job_id))
		r = err_set(err, -EINVAL, "'%s' cannot be the id of a job", params.job_id);
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	service_write_stream(ctx, j, service_open_stream(ctx, call, params.job_id));
	json_end_object(j);
	return 0;
}
