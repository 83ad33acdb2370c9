#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/deaths.h"
#include "daemon/guest.h"
#include "daemon/service_internal.h"

/*
 * What the processes of a job had used by their ends, for the record of its runner: the kernel
 * tells it to us and not to an ordinary user, and through eBPF more exactly than to a runner of
 * root's.
 */

struct job_deaths {
	int64_t attempt_id;
	uint64_t uid;
	struct deaths deaths;
	struct job_deaths *next;
};

/* Where it is in the list; *it is NULL: nowhere. */
static struct job_deaths **find(struct service *s, int64_t attempt_id)
{
	struct job_deaths **at = &s->job_deaths;

	while (*at && (*at)->attempt_id != attempt_id)
		at = &(*at)->next;
	return at;
}

void service_want_accounts(struct service *s)
{
	if (s->life.life)
		(void)life_want_accounts(s->life.life, s->attached || s->job_deaths);
}

void service_keep_deaths_of(struct service *s, const struct watched *job)
{
	struct job_deaths **at = find(s, job->a.id);

	if (*at || !s->life.life || job->a.is_attached)
		return;
	if (!job->is_guest && !life_sees_signals(s->life.life)) /* no eBPF: it hears the same */
		return;
	*at = calloc(1, sizeof(**at));
	if (!*at) {
		log_warning("no memory left for the processes of %s", job->job_id);
		return;
	}
	(*at)->attempt_id = job->a.id;
	(*at)->uid = job->a.uid;
	service_want_accounts(s);
}

/* A job of so many leaves megabytes behind: these, and what was counted of each. */
#define LARGE_JOB 1000

static void drop(struct service *s, struct job_deaths **at)
{
	struct job_deaths *gone = *at;

	*at = gone->next;
	if (gone->deaths.n >= LARGE_JOB)
		service_give_back_soon(s);
	deaths_release(&gone->deaths);
	free(gone);
	service_want_accounts(s);
}

void service_drop_deaths_of(struct service *s, int64_t attempt_id)
{
	struct job_deaths **at = find(s, attempt_id);

	if (*at)
		drop(s, at);
}

void service_forget_deaths(struct service *s)
{
	while (s->job_deaths)
		drop(s, &s->job_deaths);
}

static size_t count_of_user(const struct service *s, uint64_t uid)
{
	size_t n = 0;

	for (const struct job_deaths *at = s->job_deaths; at; at = at->next)
		n += at->uid == uid ? at->deaths.n : 0;
	return n;
}

void service_note_job_death(struct service *s, const struct member *member,
			    const struct life_event *ev)
{
	struct job_deaths *at = *find(s, member->attempt_id);

	if (!at || member->is_runner)
		return;
	if (count_of_user(s, at->uid) < DEATHS_USER_MAX)
		deaths_note(&at->deaths, member, ev);
	else
		deaths_leave_out(&at->deaths);
}

void service_complete_job_death(struct service *s, const struct life_event *ev)
{
	for (struct job_deaths *at = s->job_deaths; at; at = at->next)
		deaths_complete(&at->deaths, ev);
}

/* ---- their runner asks ---- */

/*
 * The kernel has the last word on who has ended when all CPUs have been somewhere else since: for
 * who ended longer ago it is lost. So often is looked whether it has come.
 */
#define LAST_WORD_NS UINT64_C(300000000)
#define REAPED_NS UINT64_C(50000000) /* a parent that waits for children has done so */
#define LOOK_MS 5

struct asker {
	struct service *service;
	struct rpc_call *call;
	int64_t attempt_id;
	uint64_t until_boot_ns; /* the clock may be set back */
	struct loop_timer *timer;
};

static bool are_complete(struct service *s, int64_t attempt_id)
{
	const uint64_t now = clock_wall_ns();
	const struct job_deaths *at;

	service_drain_life(s); /* the last of them may wait there */
	at = *find(s, attempt_id);
	return !at || !s->life.life || !life_sees_signals(s->life.life) ||
	       deaths_are_complete(&at->deaths, s->root_fd, now - LAST_WORD_NS, now - REAPED_NS);
}

static void write_answer(struct service *s, int64_t attempt_id, struct rpc_call *call)
{
	const struct job_deaths *at = *find(s, attempt_id);
	struct json *j = rpc_call_result(call);

	json_begin_object(j);
	json_key(j, "processes");
	guest_write_deaths(j, at ? at->deaths.items : NULL, at ? at->deaths.n : 0);
	json_key_u64(j, "unlisted", at ? at->deaths.n_unlisted : 0);
	json_end_object(j);
}

static void forget_asker(void *ctx)
{
	struct asker *asker = ctx;

	loop_timer_close(asker->timer);
	free(asker);
}

static void look_again(void *ctx)
{
	struct asker *asker = ctx;
	struct rpc_call *call = asker->call;

	if (clock_boot_ns() < asker->until_boot_ns &&
	    !are_complete(asker->service, asker->attempt_id))
		return;
	write_answer(asker->service, asker->attempt_id, call);
	forget_asker(asker);
	rpc_call_answer(call);
}

static struct asker *asker_new(struct service *s, struct rpc_call *call, int64_t attempt_id)
{
	struct asker *asker = calloc(1, sizeof(*asker));

	if (!asker)
		return NULL;
	*asker = (struct asker){ .service = s,
				 .call = call,
				 .attempt_id = attempt_id,
				 .until_boot_ns = clock_boot_ns() + LAST_WORD_NS,
				 .timer = loop_timer_new(s->loop, look_again, asker) };
	if (!asker->timer) {
		free(asker);
		return NULL;
	}
	loop_timer_set(asker->timer, LOOK_MS, LOOK_MS);
	return asker;
}

void service_tell_deaths_of(struct service *s, int64_t attempt_id, struct rpc_call *call)
{
	struct asker *asker = are_complete(s, attempt_id) ? NULL : asker_new(s, call, attempt_id);

	if (asker)
		rpc_call_defer(call, forget_asker, asker);
	else
		write_answer(s, attempt_id, call);
}
