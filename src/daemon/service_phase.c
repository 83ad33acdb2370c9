#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/service_internal.h"

struct phase_params {
	const char *enter, *exit;
	uint64_t pid;
};

static const struct rpc_field phase_fields[] = {
	{ "enter", RPC_STRING, offsetof(struct phase_params, enter), .is_required = false },
	{ "exit", RPC_STRING, offsetof(struct phase_params, exit), .is_required = false },
	{ "pid", RPC_U64, offsetof(struct phase_params, pid), .min = 1, .max = INT_MAX },
};

static int check_name(const char *name, struct err *err)
{
	char quoted[UTF8_QUOTED_BYTES];

	if (phase_name_is_valid(name))
		return 0;
	utf8_quote(name, quoted);
	return err_set(
		err, -EINVAL,
		"%s cannot be the name of a phase: up to %d characters, and none that controls "
		"a terminal",
		quoted, PHASE_NAME_MAX);
}

static int read_params(const struct rpc_call *call, struct phase_params *ret, struct err *err)
{
	int r;

	*ret = (struct phase_params){ .pid = U64_UNKNOWN };
	r = rpc_call_read(call, phase_fields, ARRAY_SIZE(phase_fields), ret, err);
	if (r < 0)
		return r;
	if (!ret->enter == !ret->exit)
		return err_set(err, -EINVAL, "either 'enter' or 'exit' names a phase");
	return check_name(ret->enter ? ret->enter : ret->exit, err);
}

/*
 * That of who asks, by the kernel's word. Another process may be named for which it is done (a
 * shell, whose "proctor phase" is gone at once): one of the same job.
 */
static int find_job(struct service *s, const struct rpc_peer *peer, struct phase_params *params,
		    struct watched **ret, struct err *err)
{
	struct watched *job;

	if (peer->pid <= 0)
		return err_set(err, -ENOENT,
			       "the process is in a pid namespace that cannot be seen");
	job = service_job_of(s, peer->pid);
	if (!job) {
		service_look(s); /* it may have begun just now */
		job = service_job_of(s, peer->pid);
	}
	if (!job || !service_may_control(peer, job->a.uid))
		return err_set(err, -ENOENT, "pid %d is of no job that runs", (int)peer->pid);
	if (!u64_known(params->pid))
		params->pid = (uint64_t)peer->pid;
	else if (service_job_of(s, (pid_t)params->pid) != job)
		return err_set(err, -EINVAL, "pid %llu is not of the job %s",
			       (unsigned long long)params->pid, job->job_id);
	*ret = job;
	return 0;
}

/* ---- writing them down, many at a time ---- */

/* A mark costs a commit, and a workload may set thousands: those of this time share one. */
#define GATHER_MS 20
#define GIVE_UP_NS UINT64_C(5000000000) /* on a database that others hold */
#define MAX_WAITING 4096
#define MAX_WAITING_OF_USER (MAX_WAITING / 4)

struct waiting_mark {
	struct service *service;
	struct rpc_call *call; /* NULL: nobody waits for the answer any more */
	char *job_id, *name;
	int attempt_num;
	uint64_t uid;
	struct phase_mark mark;
	struct waiting_mark *next;
};

struct phase_marks {
	struct loop_timer *timer;
	struct waiting_mark *first, **end;
	size_t n;
	uint64_t since_boot_ns; /* the first one waits */
};

static void waiting_free(struct waiting_mark *waiting)
{
	free(waiting->job_id);
	free(waiting->name);
	free(waiting);
}

static void write_mark(struct json *j, const struct waiting_mark *waiting)
{
	const struct phase_record *phase = &waiting->mark.phase;
	enum topic topic = waiting->mark.is_exit ? TOPIC_PHASE_EXIT : TOPIC_PHASE_ENTER;

	json_begin_object(j);
	json_key_string(j, "event", topic_name(topic));
	json_key_f64(j, "timestamp",
		     u64_to_seconds(waiting->mark.is_exit ? phase->left_wall_ns
							  : phase->entered_wall_ns));
	json_key_string(j, "job_id", waiting->job_id);
	json_key_i64(j, "attempt", waiting->attempt_num);
	json_key_string(j, "name", phase->name);
	json_key_i64(j, "pid", phase->pid);
	json_end_object(j);
}

static void tell_mark(struct service *s, const struct waiting_mark *waiting)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const struct phase_mark *mark = &waiting->mark;
	enum topic topic = mark->is_exit ? TOPIC_PHASE_EXIT : TOPIC_PHASE_ENTER;
	struct json j;

	if (!bus_is_wanted(s->bus, topic))
		return;
	json_init(&j, &out);
	write_mark(&j, waiting);
	service_publish(s, topic,
			mark->is_exit ? mark->phase.left_wall_ns : mark->phase.entered_wall_ns,
			waiting->uid, &out);
}

static void answer(struct waiting_mark *waiting, int r, struct err *err)
{
	struct rpc_call *call = TAKE_PTR(waiting->call);

	if (r == -ENOENT)
		err_set(err, r, "the job %s is in no phase '%s'", waiting->job_id, waiting->name);
	if (r == -ENOSPC)
		err_set(err, r, "the job %s has entered too many phases", waiting->job_id);
	if (r == 0)
		tell_mark(waiting->service, waiting);
	if (call && r == 0) {
		write_mark(rpc_call_result(call), waiting);
		rpc_call_answer(call);
	} else if (call) {
		rpc_call_fail(call, r, err);
	}
}

/* r: what became of all; else each has its own result. */
static void answer_all(struct service *s, const struct phase_mark *marks, int r,
		       const struct err *why)
{
	struct waiting_mark *waiting = s->phases->first, *next;

	s->phases->first = NULL;
	s->phases->end = &s->phases->first;
	s->phases->n = 0;
	for (size_t i = 0; waiting; waiting = next, i++) {
		struct err err = *why;

		next = waiting->next;
		answer(waiting, r < 0 ? r : marks[i].result, &err);
		waiting_free(waiting);
	}
}

static void write_down(void *ctx)
{
	CLEANUP(free_ptr) struct phase_mark *marks = NULL;
	struct service *s = ctx;
	struct phase_marks *p = s->phases;
	struct err err = ERR_INIT;
	size_t n = 0;
	int r = service_need_store(s, &err);

	if (p->n == 0)
		return;
	marks = reallocarray(NULL, p->n, sizeof(*marks));
	if (!marks)
		r = err_set(&err, -ENOMEM, "no memory left for phases");
	for (const struct waiting_mark *w = p->first; marks && w; w = w->next)
		marks[n++] = w->mark;
	if (r == 0)
		r = store_mark_phases(s->store, marks, n, &err);
	if (r == -EBUSY && clock_boot_ns() - p->since_boot_ns < GIVE_UP_NS)
		loop_timer_set(p->timer, GATHER_MS, 0);
	else
		answer_all(s, marks, r, &err);
}

static void forget_call(void *ctx)
{
	((struct waiting_mark *)ctx)->call = NULL;
}

static struct waiting_mark *waiting_new(struct service *s, const struct watched *job,
					const struct phase_params *params)
{
	const char *name = params->enter ? params->enter : params->exit;
	struct waiting_mark *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->service = s;
	waiting->job_id = strdup(job->job_id);
	waiting->name = strdup(name);
	waiting->attempt_num = job->a.attempt_num;
	waiting->uid = job->a.uid;
	if (!waiting->job_id || !waiting->name) {
		waiting_free(waiting);
		return NULL;
	}
	waiting->mark = (struct phase_mark){
		.attempt_id = job->a.id,
		.is_exit = !params->enter,
		.phase = { .name = waiting->name,
			   .pid = (pid_t)params->pid,
			   .rank = RANK_NONE,
			   .entered_wall_ns = params->enter ? clock_wall_ns() : U64_UNKNOWN,
			   .left_wall_ns = params->enter ? U64_UNKNOWN : clock_wall_ns() },
	};
	return waiting;
}

static int check_share(const struct phase_marks *p, uint64_t uid, struct err *err)
{
	size_t n = 0;

	for (const struct waiting_mark *w = p->first; w; w = w->next)
		n += w->uid == uid;
	if (p->n < MAX_WAITING && n < MAX_WAITING_OF_USER)
		return 0;
	return err_set(err, -EBUSY, "too many phases at once: try again");
}

static int mark_phase(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct waiting_mark *waiting;
	struct phase_params params;
	struct watched *job = NULL;
	int r = read_params(call, &params, err);

	if (r == 0)
		r = find_job(s, rpc_call_peer(call), &params, &job, err);
	if (r == 0)
		r = check_share(s->phases, job->a.uid, err);
	if (r < 0)
		return r;
	waiting = waiting_new(s, job, &params);
	if (!waiting)
		return err_set(err, -ENOMEM, "no memory left for the phase");
	if (rpc_call_wants_answer(call)) {
		waiting->call = call;
		rpc_call_defer(call, forget_call, waiting);
	}
	*s->phases->end = waiting;
	s->phases->end = &waiting->next;
	if (s->phases->n++ > 0)
		return 0;
	s->phases->since_boot_ns = clock_boot_ns();
	loop_timer_set(s->phases->timer, GATHER_MS, 0);
	return 0;
}

int service_open_phases(struct service *s, struct err *err)
{
	s->phases = calloc(1, sizeof(*s->phases));
	if (s->phases)
		s->phases->timer = loop_timer_new(s->loop, write_down, s);
	if (!s->phases || !s->phases->timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	s->phases->end = &s->phases->first;
	return 0;
}

/* What waits is written, whatever the daemon ends for. */
void service_close_phases(struct service *s)
{
	const struct err ending = { .code = -ESHUTDOWN, .text = "the daemon is ending" };

	if (s->phases && s->phases->timer)
		write_down(s);
	if (s->phases && s->phases->timer)
		answer_all(s, NULL, -ESHUTDOWN, &ending);
	free(s->phases);
	s->phases = NULL;
}

const struct rpc_method service_phase_methods[] = {
	{ "phase", mark_phase, RPC_FOR_ALL },
	{ 0 },
};
