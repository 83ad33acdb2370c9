#include "daemon/service_deaths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/caller.h"
#include "daemon/may_hear.h"
#include "daemon/service_follow.h"

/*
 * What the processes of a job had used by their ends, for the record of its runner: the kernel
 * tells it to us and not to an ordinary user, and through eBPF more exactly than to a runner of
 * root's.
 *
 * A runner says that it begins before its first command does, and before anybody has heard of its
 * attempt: until that has a number, what it starts is marked with a number of its own.
 */

/* No attempt has such a number. */
#define FIRST_BEGUN_ID (INT64_C(1) << 62)

/* Of runs inside runs, so many that have begun are told of one end. */
#define MAX_NESTED 8

static bool has_id(const struct job_deaths *at, int64_t id)
{
	return id != 0 && (at->attempt_id == id || at->begun_id == id);
}

struct job_deaths **job_deaths_find(struct service *s, int64_t id)
{
	struct job_deaths **at = &s->job_deaths;

	while (*at && !has_id(*at, id))
		at = &(*at)->next;
	return at;
}

void service_want_accounts(struct service *s)
{
	if (s->life.life)
		(void)life_want_accounts(s->life.life, s->attached || s->job_deaths);
}

static struct job_deaths *add(struct service *s, const struct proc_key *runner, uint64_t uid)
{
	struct job_deaths *added = calloc(1, sizeof(*added));

	if (!added)
		return NULL;
	added->service = s;
	added->runner = *runner;
	added->uid = uid;
	added->n_lost_before = s->life.n_lost;
	added->next = s->job_deaths;
	s->job_deaths = added;
	service_want_accounts(s);
	return added;
}

/* What this process has said that it begins, if nobody has heard of the attempt since. */
static struct job_deaths *find_begun(const struct service *s, const struct proc_key *runner,
				     uint64_t uid)
{
	struct job_deaths *at = s->job_deaths;

	while (at && (at->attempt_id != 0 || at->uid != uid || at->runner.pid != runner->pid ||
		      at->runner.start_ticks != runner->start_ticks))
		at = at->next;
	return at;
}

void service_keep_deaths_of(struct service *s, const struct watched *job)
{
	struct job_deaths *at;

	if (*job_deaths_find(s, job->a.id) || !s->life.life || job->a.is_attached)
		return;
	if (job->a.uid == geteuid() && !life_sees_signals(s->life.life)) /* it hears the same */
		return;
	at = find_begun(s, &job->a.runner, job->a.uid);
	if (!at)
		at = add(s, &job->a.runner, job->a.uid);
	if (!at) {
		log_warning("no memory left for the processes of %s", job->job_id);
		return;
	}
	at->attempt_id = job->a.id;
	at->line = rpc_subscriber_free(at->line);
}

static size_t count_unaccounted(const struct deaths *deaths)
{
	return deaths_count_unaccounted(deaths, clock_wall_ns() - DEATHS_LAST_WORD_NS);
}

/* The last word on who has ended just now would come to nobody. */
void service_leave_deaths(struct service *s, const struct deaths *deaths)
{
	s->life.n_unaccounted += deaths_count_unaccounted(deaths, UINT64_MAX);
}

/* What comes after its runner was told is in no record. */
static void leave(struct service *s, const struct job_deaths *gone)
{
	if (gone->was_told)
		s->life.n_unaccounted += gone->n_short;
	else if (gone->attempt_id != 0)
		service_leave_deaths(s, &gone->deaths);
}

static uint64_t count_of_job(const struct job_deaths *at)
{
	if (at->was_told)
		return at->n_short;
	return at->attempt_id ? count_unaccounted(&at->deaths) : 0;
}

uint64_t service_count_unaccounted(const struct service *s)
{
	uint64_t n = s->life.n_unaccounted;

	if (!s->life.life || !life_sees_signals(s->life.life))
		return U64_UNKNOWN;
	for (const struct job_deaths *at = s->job_deaths; at; at = at->next)
		n += count_of_job(at);
	return n + service_count_attached(s, count_unaccounted);
}

/* A job of so many leaves megabytes behind: these, and what was counted of each. */
#define LARGE_JOB 1000

static void drop(struct service *s, struct job_deaths **at)
{
	struct job_deaths *gone = *at;

	*at = gone->next;
	if (gone->deaths.n >= LARGE_JOB)
		service_give_back_soon(s);
	rpc_subscriber_free(gone->line);
	leave(s, gone);
	deaths_release(&gone->deaths);
	free(gone->job_id);
	free(gone);
	service_want_accounts(s);
}

void service_drop_deaths_of(struct service *s, int64_t attempt_id)
{
	struct job_deaths **at = job_deaths_find(s, attempt_id);

	if (*at)
		drop(s, at);
}

void service_forget_deaths(struct service *s)
{
	while (s->job_deaths)
		drop(s, &s->job_deaths);
}

int64_t service_attempt_of_mark(struct service *s, uint64_t mark)
{
	for (int i = 0; i < MAX_NESTED && mark >= (uint64_t)FIRST_BEGUN_ID; i++) {
		const struct job_deaths *at = *job_deaths_find(s, (int64_t)mark);

		if (!at)
			return 0;
		mark = at->attempt_id ? (uint64_t)at->attempt_id : at->outer_mark;
	}
	return mark < (uint64_t)FIRST_BEGUN_ID ? (int64_t)mark : 0;
}

const char *service_begun_job(struct service *s, uint64_t mark, uint64_t uid)
{
	const struct job_deaths *at = *job_deaths_find(s, (int64_t)mark);

	return at && at->uid == uid ? at->job_id : NULL;
}

static size_t count_of_user(const struct service *s, uint64_t uid)
{
	size_t n = 0;

	for (const struct job_deaths *at = s->job_deaths; at; at = at->next)
		n += at->uid == uid ? at->deaths.n : 0;
	return n;
}

static void drop_begun(struct job_deaths *begun)
{
	struct job_deaths **at = &begun->service->job_deaths;

	while (*at != begun)
		at = &(*at)->next;
	drop(begun->service, at);
}

/* A runner has ended before anybody had heard of its attempt: nobody will ask. */
static void drop_begun_by(struct service *s, const struct life_event *dead)
{
	struct job_deaths *at = *job_deaths_find(s, (int64_t)dead->tag);

	if (at && at->attempt_id == 0 && at->runner.pid == dead->pid)
		drop_begun(at);
}

static void note(struct service *s, struct job_deaths *at, const struct member *dead,
		 const struct life_event *ev)
{
	if (dead->key.pid == at->runner.pid)
		return;
	if (!may_hear(at->uid, ev->uid))
		at->n_withheld++;
	else if (count_of_user(s, at->uid) < DEATHS_USER_MAX)
		deaths_note(&at->deaths, dead, ev);
	else
		deaths_leave_out(&at->deaths);
}

/* The first processes of a run are born before anybody knows of it: their mark says whose they are,
 * and those of a run inside another are both's. */
void service_note_job_death(struct service *s, const struct member *member,
			    const struct life_event *ev)
{
	const struct member unseen = {
		.key = { ev->pid, ev->start_ticks },
		.born_wall_ns = U64_UNKNOWN,
		.sheet_num = SHEET_NONE,
	};
	const struct member *dead = member ? member : &unseen;
	struct job_deaths *known = *job_deaths_find(s, dead->attempt_id), *at;
	uint64_t mark = ev->tag;

	if (known)
		note(s, known, dead, ev);
	for (int i = 0; i < MAX_NESTED && mark != 0; i++) {
		at = *job_deaths_find(s, (int64_t)mark);
		if (at && at != known)
			note(s, at, dead, ev);
		mark = at ? at->outer_mark : 0;
	}
	drop_begun_by(s, ev);
}

void service_complete_job_death(struct service *s, const struct life_event *ev)
{
	for (struct job_deaths *at = s->job_deaths; at; at = at->next)
		deaths_complete(&at->deaths, ev);
}

/* ---- a runner begins ---- */

/* Of one user: who starts more at once is told of their ends from when they are known. */
#define MAX_BEGUN 64

static size_t count_begun(const struct service *s, uint64_t uid)
{
	size_t n = 0;

	for (const struct job_deaths *at = s->job_deaths; at; at = at->next)
		n += at->attempt_id == 0 && at->uid == uid;
	return n;
}

/* Itself and nobody else: what it starts later bears the mark as well, and who was there before may
 * be of another run. */
static bool mark_runner(struct service *s, struct job_deaths *begun)
{
	begun->outer_mark = life_tag_of(s->life.life, begun->runner.pid);
	return life_track(s->life.life, begun->runner.pid, (uint64_t)begun->begun_id) == 0;
}

/* What it has done until then is to be known as its own: the kernel's news of that come first.
 * Among them may be its death. */
static void on_hung_up(void *ctx)
{
	struct job_deaths *begun = ctx;
	struct service *s = begun->service;
	int64_t id = begun->begun_id;

	begun->line = NULL;
	service_drain_life(s);
	begun = *job_deaths_find(s, id);
	if (begun && begun->attempt_id == 0)
		drop_begun(begun);
}

/* False: its processes are followed from when its attempt is known, or not at all. */
static bool begin(struct service *s, struct rpc_call *call, const struct proc_key *runner,
		  const char *job_id)
{
	uint64_t uid = rpc_call_peer(call)->uid;
	struct job_deaths *begun;

	if (!s->life.life || !life_sees_signals(s->life.life) ||
	    watch_find_runner(s->watch, runner) || count_begun(s, uid) >= MAX_BEGUN)
		return false;
	if (find_begun(s, runner, uid))
		return true;
	begun = add(s, runner, uid);
	if (!begun)
		return false;
	begun->begun_id = FIRST_BEGUN_ID + s->n_begun++;
	begun->job_id = job_id ? strdup(job_id) : NULL;
	if (rpc_call_subscribe(call, on_hung_up, begun, &begun->line, NULL) == 0 &&
	    mark_runner(s, begun))
		return true;
	drop_begun(begun);
	return false;
}

struct begin_params {
	const char *job_id;
};

static const struct rpc_field begin_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct begin_params, job_id), .is_required = false },
};

static int read_begin(const struct rpc_call *call, struct begin_params *ret, struct err *err)
{
	int r = rpc_call_read(call, begin_fields, ARRAY_SIZE(begin_fields), ret, err);

	if (r == 0 && ret->job_id && !job_id_is_valid(ret->job_id))
		r = err_set(err, -EINVAL, "'%s' cannot be the id of a job", ret->job_id);
	return r;
}

/* Its first command waits for the answer, for some milliseconds: nothing is looked at here. */
static int runner_begins(void *ctx, struct rpc_call *call, struct err *err)
{
	struct begin_params params = { 0 };
	struct proc_key runner;
	struct json *j;
	int r = read_begin(call, &params, err);

	if (r == 0)
		r = caller_find_process(rpc_call_peer(call), &runner, err);
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_bool(j, "follows", begin(ctx, call, &runner, params.job_id));
	json_end_object(j);
	return 0;
}

const struct rpc_method service_deaths_methods[] = {
	{ "runner.begins", runner_begins, RPC_FOR_ALL },
	{ 0 },
};

bool service_is_inside(struct service *s, uint64_t mark, const struct proc_key *runner,
		       uint64_t runner_mark)
{
	const struct job_deaths *at = *job_deaths_find(s, (int64_t)mark);
	const struct job_deaths *around = *job_deaths_find(s, (int64_t)runner_mark);

	if (around && around->runner.pid == runner->pid)
		around = *job_deaths_find(s, (int64_t)around->outer_mark);
	return at && at != around && at->runner.pid != runner->pid;
}

int64_t service_find_begun(const struct service *s, const struct rpc_peer *peer)
{
	const struct job_deaths *begun = NULL;
	struct proc_key runner;

	if (caller_find_process(peer, &runner, NULL) == 0)
		begun = find_begun(s, &runner, peer->uid);
	return begun ? begun->begun_id : 0;
}

/* Where the kernel's word of its end was lost, and another has its line. */
void service_tend_deaths(struct service *s)
{
	struct job_deaths **at = &s->job_deaths;

	while (*at)
		if ((*at)->attempt_id == 0 &&
		    !proc_is_alive("", (*at)->runner.pid, (*at)->runner.start_ticks))
			drop(s, at);
		else
			at = &(*at)->next;
}
