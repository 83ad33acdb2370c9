#include "daemon/service_guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/guest.h"
#include "daemon/own.h"
#include "daemon/service_follow.h"
#include "daemon/service_tell.h"
#include "daemon/service_work.h"

/* So many of its messages wait while the database is locked; then the oldest go. */
#define MAX_WAITING 64
#define MAX_WAITING_SHEETS 4096 /* in them, of one user */
#define MAX_WAITING_LIVES 16384 /* the same of processes and their events */

/* What a guest has told and is not in the database yet. */
struct news {
	struct attempt a;
	struct news *next;
};

/*
 * A runner that holds the line. If it shares our database, the job's ticks are ours for
 * as long as it does. Else (a guest) they are in any case, and what becomes of the
 * job is told on this line.
 */
struct guest {
	struct service *service;
	struct rpc_subscriber *line; /* NULL: it has hung up, and there is news to be written */
	int64_t attempt_id;
	uid_t uid;
	bool is_foreign; /* does not share our database */
	bool is_over;	 /* it has told its end */
	struct news *news;
	size_t n_news;
	struct guest *next;
};

/* ---- the list of them ---- */

static void drop_first_news(struct guest *guest)
{
	struct news *news = guest->news;

	guest->news = news->next;
	guest->n_news--;
	attempt_release(&news->a);
	free(news);
}

static void forget(struct guest *guest)
{
	struct guest **at = &guest->service->guests;

	while (*at != guest)
		at = &(*at)->next;
	*at = guest->next;
	while (guest->news)
		drop_first_news(guest);
	free(guest);
}

void service_drop_guests(struct service *s)
{
	while (s->guests)
		forget(s->guests);
	map_release(&s->guest_due_ns);
	map_release(&s->sheet_due_ns);
	map_release(&s->life_due_ns);
}

void service_hang_up_guests(struct service *s)
{
	while (s->guests) {
		rpc_subscriber_hang_up(s->guests->line);
		forget(s->guests);
	}
}

/* By the connection that a call came on. */
struct guest *guest_find_by_line(const struct service *s, const struct rpc_peer *peer)
{
	for (struct guest *guest = s->guests; guest; guest = guest->next)
		if (guest->line && rpc_subscriber_peer(guest->line) == peer)
			return guest;
	return NULL;
}

/* Whether its runner has another line, as it has said hello again before this one was closed. */
static bool has_line(const struct service *s, int64_t attempt_id)
{
	for (const struct guest *guest = s->guests; guest; guest = guest->next)
		if (guest->line && guest->attempt_id == attempt_id)
			return true;
	return false;
}

static void on_hung_up(void *ctx)
{
	struct guest *guest = ctx;
	struct watched *job = watch_find_attempt(guest->service->watch, guest->attempt_id);

	guest->line = NULL;
	if (job && !guest->is_foreign && !has_line(guest->service, guest->attempt_id))
		job->is_ours = false;
	if (!guest->news)
		forget(guest);
}

int guest_hold_line(struct service *s, struct rpc_call *call, struct watched *job, bool is_foreign,
		    struct err *err)
{
	struct guest *guest = calloc(1, sizeof(*guest));
	int r;

	if (!guest)
		return err_set(err, -ENOMEM, "no memory left to record the job");
	*guest = (struct guest){ .service = s,
				 .attempt_id = job->a.id,
				 .uid = (uid_t)job->a.uid,
				 .is_foreign = is_foreign,
				 .next = s->guests };
	r = rpc_call_subscribe(call, on_hung_up, guest, &guest->line, err);
	if (r < 0) {
		free(guest);
		return r;
	}
	s->guests = guest;
	job->is_ours = true;
	job->is_guest = is_foreign;
	if (is_foreign)
		service_keep_deaths_of(s, job);
	return 0;
}

/* ---- what it tells ---- */

/* Returns 0 if it is done with, written or not. */
static int write_news(struct guest *guest, struct news *news)
{
	struct store *store = guest->service->store;
	struct err err = ERR_INIT;
	struct attempt *a = &news->a;
	int r;

	if (!store)
		return -EBUSY;
	a->id = guest->attempt_id;
	r = a->is_running ? store_write_sheets(store, a, a->sheets, a->n_sheets, &err)
			  : store_finish_attempt(store, a, a->events, a->n_events, &err);
	if (trouble_may_pass(r))
		return r;
	if (r < 0)
		log_warning("what the runner of %s told is not recorded: %s", a->job_id, err.text);
	return 0;
}

/* In the order in which it came. */
static void write_all_news(struct guest *guest)
{
	while (guest->news && write_news(guest, guest->news) == 0)
		drop_first_news(guest);
}

void service_tend_guests(struct service *s)
{
	struct guest *next;

	for (struct guest *guest = s->guests; guest; guest = next) {
		next = guest->next;
		write_all_news(guest);
		if (!guest->line && !guest->news)
			forget(guest);
	}
}

static size_t count_lives(const struct attempt *a)
{
	return a->n_processes + a->n_events;
}

/* What waits of all jobs of one user. */
struct waiting {
	size_t n_sheets, n_lives;
};

static struct waiting count_waiting(const struct service *s, uid_t uid)
{
	struct waiting waiting = { 0 };

	for (const struct guest *guest = s->guests; guest; guest = guest->next)
		for (const struct news *news = guest->uid == uid ? guest->news : NULL; news;
		     news = news->next) {
			waiting.n_sheets += news->a.n_sheets;
			waiting.n_lives += count_lives(&news->a);
		}
	return waiting;
}

/* How far the job is, and its end, are told whatever becomes of its sheets and processes. */
static void bound_news(struct guest *guest, const struct watched *job, struct attempt *a)
{
	const struct waiting waiting = count_waiting(guest->service, guest->uid);

	guest_bound_sheets(guest->service, guest->uid, job ? &job->a : NULL, a);
	guest_bound_lives(guest->service, guest->uid, a);
	if (waiting.n_sheets + a->n_sheets > MAX_WAITING_SHEETS)
		a->n_sheets = 0;
	if (waiting.n_lives + count_lives(a) > MAX_WAITING_LIVES)
		a->n_processes = a->n_events = 0;
}

/* a is taken over. The last one is never dropped for want of room: it may be the end. */
static int add_news(struct guest *guest, struct attempt *a, struct err *err)
{
	struct news *news = calloc(1, sizeof(*news)), **at = &guest->news;

	if (!news) {
		attempt_release(a);
		return err_set(err, -ENOMEM, "no memory left for what the job has become");
	}
	news->a = *a;
	guest->is_over = guest->is_over || !a->is_running;
	if (guest->n_news == MAX_WAITING)
		drop_first_news(guest);
	while (*at)
		at = &(*at)->next;
	*at = news;
	guest->n_news++;
	return 0;
}

static int hear(struct guest *guest, const struct rpc_value *told, struct err *err)
{
	const struct watched *job = watch_find_attempt(guest->service->watch, guest->attempt_id);
	struct attempt a;
	int r;

	if (guest->is_over)
		return err_set(err, -EINVAL, "the job is over already");
	r = guest_read(told, clock_wall_ns(), &a, err);
	if (r < 0)
		return r;
	if (job && strcmp(job->job_id, a.job_id) != 0) {
		attempt_release(&a);
		return err_set(err, -EINVAL, "that is another job");
	}
	bound_news(guest, job, &a);
	return add_news(guest, &a, err);
}

/* That and nothing else was written since the last look: so only this job is looked at. */
static void look_at_guest(struct service *s, struct guest *guest)
{
	struct err err = ERR_INIT;

	write_all_news(guest);
	if (s->store && watch_look_at(s->watch, s->store, guest->attempt_id, &err) < 0)
		log_debug("what has become of a job is seen with the next tick: %s", err.text);
}

struct changed_params {
	const struct rpc_value *job;
};

static const struct rpc_field changed_fields[] = {
	{ "job", RPC_OBJECT, offsetof(struct changed_params, job), .is_required = false },
};

/* Who has no job here has nothing to tell; a runner of our own user may tell before it has a line.
 */
static int check_teller(const struct service *s, const struct rpc_peer *peer, struct err *err)
{
	if (service_is_owner(peer) || guest_find_by_line(s, peer))
		return 0;
	return err_set(err, -EINVAL, "this connection is no runner's");
}

/* Something about a job has changed: in our database, or (of a guest) as it says. */
static int runner_changed(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct changed_params params = { 0 };
	struct guest *guest;
	int r = rpc_call_read(call, changed_fields, ARRAY_SIZE(changed_fields), &params, err);

	if (r == 0)
		r = check_teller(s, rpc_call_peer(call), err);
	if (r < 0)
		return r;
	service_drain_life(s);
	service_look(s);
	service_write_marks(s);
	guest = guest_find_by_line(s, rpc_call_peer(call)); /* the look may have hung up on it */
	service_tell_signals(s); /* of a job that was killed before we heard of it */
	if (params.job && guest && guest->is_foreign)
		r = hear(guest, params.job, err);
	if (r < 0)
		return r;
	if (params.job && guest && guest->is_foreign)
		look_at_guest(s, guest);
	service_run_queue(s); /* where one has ended, another may begin */
	if (params.job && guest && guest->is_over && guest->news)
		return err_set(err, -EBUSY, "the end of the job is not written down yet");
	return 0;
}

/* What the caller runs: by its line, or by its process if it holds none yet. */
struct callers {
	int64_t attempt_id; /* 0: nothing */
	bool is_foreign;
};

static struct callers find_callers(struct service *s, const struct rpc_peer *peer)
{
	const struct guest *guest = guest_find_by_line(s, peer);
	const struct watched *job = guest ? NULL : service_find_own_job(s, peer, NULL);

	if (guest)
		return (struct callers){ guest->attempt_id, guest->is_foreign };
	return job ? (struct callers){ job->a.id, job->is_guest } : (struct callers){ 0 };
}

typedef void tell_fn(struct service *s, const struct callers *callers, struct json *j);

/* An object for the runner that asks, of its own job. */
static int answer_runner(struct service *s, struct rpc_call *call, tell_fn *tell, struct err *err)
{
	const struct callers callers = find_callers(s, rpc_call_peer(call));
	struct json *j;

	if (callers.attempt_id == 0)
		return err_set(err, -EINVAL, "this connection is no runner's");
	j = rpc_call_result(call);
	json_begin_object(j);
	tell(s, &callers, j);
	json_end_object(j);
	return 0;
}

static void tell_calls(struct service *s, const struct callers *callers, struct json *j)
{
	service_tell_calls_of(s, callers->attempt_id, callers->is_foreign, j);
}

static void tell_counts(struct service *s, const struct callers *callers, struct json *j)
{
	service_tell_counts_of(s, callers->attempt_id, j);
}

/* The job is over: what was counted of it, for its record. */
static int runner_calls(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer_runner(ctx, call, tell_calls, err);
}

/* What was counted so far of each of its processes, for their samples. */
static int runner_counts(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer_runner(ctx, call, tell_counts, err);
}

struct deaths_params {
	uint64_t patience_ms;
};

static const struct rpc_field deaths_fields[] = {
	{ "patience_ms", RPC_U64, offsetof(struct deaths_params, patience_ms), .max = 60000 },
};

/* What each of its processes had used when it ended, for its own record. */
static int runner_deaths(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct deaths_params params = { .patience_ms = UINT64_MAX };
	int64_t id = find_callers(s, peer).attempt_id;
	int r = rpc_call_read(call, deaths_fields, ARRAY_SIZE(deaths_fields), &params, err);

	if (r < 0)
		return r;
	if (id == 0)
		id = service_find_begun(s, peer);
	if (id == 0)
		return err_set(err, -EINVAL, "this connection is no runner's");
	service_tell_deaths_of(s, id, params.patience_ms, call);
	return 0;
}

static void tell_signals(struct service *s, const struct callers *callers, struct json *j)
{
	const struct watched *job = watch_find_attempt(s->watch, callers->attempt_id);

	json_key(j, "signals");
	if (job) {
		service_list_signals_of(s, job->job_id, callers->attempt_id, j);
	} else {
		json_begin_array(j);
		json_end_array(j);
	}
}

/* What was seen of its processes and only we have written down. */
static int runner_signals(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer_runner(ctx, call, tell_signals, err);
}

const struct rpc_method service_guest_methods[] = {
	{ "runner.calls", runner_calls, RPC_FOR_ALL },
	{ "runner.counts", runner_counts, RPC_FOR_ALL },
	{ "runner.changed", runner_changed, RPC_FOR_ALL },
	{ "runner.deaths", runner_deaths, RPC_FOR_ALL },
	{ "runner.signals", runner_signals, RPC_FOR_ALL },
	{ 0 },
};
