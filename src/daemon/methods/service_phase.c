#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/* A mark costs a commit, and a workload may set thousands: those of this time share one. */
#define GATHER_MS 20
#define GIVE_UP_NS UINT64_C(5000000000) /* on a database that others hold */
#define MAX_WAITING 4096
#define MAX_WAITING_OF_USER (MAX_WAITING / 4)

struct waiting_mark {
	struct rpc_call *call; /* NULL: nobody waits for the answer any more */
	char job_id[JOB_ID_MAX + 1];
	int attempt_num;
	uint64_t uid;
	struct phase_mark mark;
	struct waiting_mark *next;
	char name[];
};

/* ---- what was lost ---- */

/* Without memory for the attempt the sum has it. */
static void count_lost(struct phase_marks *p, int64_t attempt_id, uint64_t n)
{
	uint64_t before = 0;

	if (n == 0)
		return;
	map_get(&p->lost, (uint64_t)attempt_id, &before);
	(void)map_put(&p->lost, (uint64_t)attempt_id, before + n);
	p->n_lost += n;
}

/* ---- writing ---- */

/* The row of an attempt; 0: the database has none yet, or cannot be read now. */
static int64_t find_row(struct service *s, int64_t attempt_id)
{
	struct stored_log stored = { 0 };
	struct log_id log;
	uint64_t uid;

	if (!s->store || !watch_log_of(s->watch, attempt_id, &log, &uid))
		return 0;
	if (store_find_log(s->store, log.bytes, &stored, NULL) < 0) {
		service_take_in(s);
		if (s->store)
			(void)store_find_log(s->store, log.bytes, &stored, NULL);
	}
	return stored.attempt_id;
}

static void log_lost(struct service *s)
{
	struct map *lost = &s->phases->lost;

	for (size_t i = 0; i < lost->cap; i++) {
		CLEANUP(buf_release) struct buf record = BUF_INIT;

		if (!lost->slots[i].used)
			continue;
		record_write_phases(&record, NULL, 0);
		record_write_number(&record, lost->slots[i].value);
		(void)service_log(s, (int64_t)lost->slots[i].key, RECORD_PHASES, &record);
	}
	map_clear(lost);
}

/* It is stored, or refused, or (mark is NULL) r is why not: published and answered. A mark whose
 * sender is not told counts as lost. */
static void finish(struct service *s, struct waiting_mark *waiting, const struct phase_mark *mark,
		   int r, const struct err *why)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const struct phase_record *phase = &waiting->mark.phase;
	struct rpc_call *call = TAKE_PTR(waiting->call);
	bool is_exit = waiting->mark.is_exit;
	enum topic topic = is_exit ? TOPIC_PHASE_EXIT : TOPIC_PHASE_ENTER;
	uint64_t wall_ns = is_exit ? phase->left_wall_ns : phase->entered_wall_ns;
	struct err err = *why;
	struct json j;

	if (mark && mark->result < 0)
		r = phase_refuse(mark, waiting->job_id, waiting->name, &err);
	if (r == 0) {
		json_init(&j, &out);
		json_begin_object(&j);
		json_key_string(&j, "event", topic_name(topic));
		json_key_f64(&j, "timestamp", u64_to_seconds(wall_ns));
		json_key_string(&j, "job_id", waiting->job_id);
		json_key_i64(&j, "attempt", waiting->attempt_num);
		json_key_string(&j, "name", phase->name);
		json_key_i64(&j, "pid", phase->pid);
		json_key_int(&j, "rank", phase->rank);
		json_end_object(&j);
		service_publish(s, topic, wall_ns, waiting->uid, &out);
	}
	if (call && r == 0 && buf_error(&out) == 0) {
		json_raw(rpc_call_result(call), out.data, out.len);
		rpc_call_answer(call);
	} else if (call) {
		rpc_call_fail(call, r < 0 ? r : -ENOMEM, &err);
	}
	free(waiting);
}

static void finish_all(struct service *s, const struct phase_mark *marks, int r,
		       const struct err *why)
{
	struct phase_marks *p = s->phases;
	struct waiting_mark *waiting = p->first, *next;
	size_t i = 0;

	for (const struct waiting_mark *w = waiting; w; w = w->next, i++)
		if (!w->call && (r < 0 || (marks && marks[i].result == -ENOSPC)))
			count_lost(p, w->mark.attempt_id, 1);
	log_lost(s);
	p->first = NULL;
	p->end = &p->first;
	p->n = 0;
	for (i = 0; waiting; waiting = next, i++) {
		next = waiting->next;
		finish(s, waiting, r < 0 ? NULL : &marks[i], r, why);
	}
}

void service_write_marks(void *ctx)
{
	CLEANUP(free_ptr) struct phase_mark *marks = NULL;
	struct service *s = ctx;
	struct phase_marks *p = s->phases;
	struct err err = ERR_INIT;
	size_t n = 0;
	int r;

	log_lost(s);
	if (p->n == 0)
		return;
	r = s->store ? 0 : service_need_store(s, &err);
	marks = reallocarray(NULL, p->n + 1, sizeof(*marks));
	if (!marks)
		r = err_set(&err, -ENOMEM, "no memory left for phases");
	for (const struct waiting_mark *w = p->first; marks && w; w = w->next) {
		marks[n] = w->mark;
		marks[n].attempt_id = find_row(s, w->mark.attempt_id);
		if (r == 0 && marks[n++].attempt_id == 0)
			r = err_set(&err, -EBUSY, "the job is not in the database yet");
	}
	if (r == 0)
		r = store_mark_phases(s->store, marks, n, &err);
	if (r == -EBUSY && clock_boot_ns() - p->since_boot_ns < GIVE_UP_NS)
		loop_timer_set(p->timer, GATHER_MS, 0);
	else
		finish_all(s, marks, r, &err);
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

/* ---- the method ---- */

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
	else
		params->is_for_another = true;
	if (params->is_for_another)
		params->pid = (uint64_t)phase_owner_find(s->root_fd, (pid_t)params->pid,
							 job->a.runner.pid);
	*ret = job;
	return 0;
}

static void write_soon(struct phase_marks *p)
{
	p->since_boot_ns = clock_boot_ns();
	loop_timer_set(p->timer, GATHER_MS, 0);
}

static void forget_call(void *ctx)
{
	((struct waiting_mark *)ctx)->call = NULL;
}

static int add_mark(struct service *s, struct rpc_call *call, const struct watched *job,
		    const struct phase_params *params, struct err *err)
{
	const char *name = params->enter ? params->enter : params->exit;
	struct waiting_mark *waiting = calloc(1, sizeof(*waiting) + strlen(name) + 1);
	pid_t pid = (pid_t)params->pid;
	uint64_t wall_ns = phase_params_wall_ns(params);

	if (!waiting)
		return err_set(err, -ENOMEM, "no memory left for the phase");
	memcpy(waiting->name, name, strlen(name) + 1);
	snprintf(waiting->job_id, sizeof(waiting->job_id), "%s", job->job_id);
	waiting->attempt_num = job->a.attempt_num;
	waiting->uid = job->a.uid;
	waiting->mark = (struct phase_mark){
		.attempt_id = job->a.id,
		.is_exit = !params->enter,
		.phase = { .name = waiting->name,
			   .pid = pid,
			   .rank = sources_read_rank(s->root_fd, pid),
			   .entered_wall_ns = params->enter ? wall_ns : U64_UNKNOWN,
			   .left_wall_ns = params->enter ? U64_UNKNOWN : wall_ns },
		.are_kin = params->is_for_another ? phase_are_kin : NULL,
		.ctx = &s->root_fd,
	};
	if (rpc_call_wants_answer(call)) {
		waiting->call = call;
		rpc_call_defer(call, forget_call, waiting);
	}
	*s->phases->end = waiting;
	s->phases->end = &waiting->next;
	if (s->phases->n++ == 0)
		write_soon(s->phases);
	return 0;
}

int service_open_phases(struct service *s, struct err *err)
{
	s->phases = calloc(1, sizeof(*s->phases));
	if (s->phases)
		s->phases->timer = loop_timer_new(s->loop, service_write_marks, s);
	if (!s->phases || !s->phases->timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	s->phases->end = &s->phases->first;
	return 0;
}

/* What waits is written, whatever the daemon ends for. */
void service_close_phases(struct service *s)
{
	const struct err ending = { .code = -ESHUTDOWN, .text = "the daemon is ending" };

	if (!s->phases)
		return;
	if (s->phases->timer) {
		service_write_marks(s);
		finish_all(s, NULL, -ESHUTDOWN, &ending);
	}
	map_release(&s->phases->lost);
	free(s->phases);
	s->phases = NULL;
}

int method_mark_phase(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct phase_params params;
	struct watched *job = NULL;
	struct json *j;
	int r;

	phase_params_init(&params);
	r = rpc_call_read(call, phase_fields, N_PHASE_FIELDS, &params, err);
	if (r == 0)
		r = phase_params_check(&params, err);
	if (r < 0)
		return r;
	r = find_job(s, rpc_call_peer(call), &params, &job, err);
	if (r < 0) {
		if (!rpc_call_wants_answer(call)) /* who is answered knows that it was not taken */
			s->phases->n_unplaced += params.lost + (params.enter || params.exit);
		return r;
	}
	if (params.lost > 0 && s->phases->n == 0)
		write_soon(s->phases);
	count_lost(s->phases, job->a.id, params.lost);
	if (!params.enter && !params.exit) { /* only that some were lost: no later one says so */
		j = rpc_call_result(call);
		json_begin_object(j);
		json_key_u64(j, "lost", params.lost);
		json_end_object(j);
		return 0;
	}
	/* What waits is written at once before a mark is refused: that of an end would leave a
	 * phase open. */
	if (check_share(s->phases, job->a.uid, NULL) < 0)
		service_write_marks(s);
	r = check_share(s->phases, job->a.uid, err);
	if (r == 0)
		return add_mark(s, call, job, &params, err);
	if (!rpc_call_wants_answer(call))
		count_lost(s->phases, job->a.id, 1);
	return r;
}
