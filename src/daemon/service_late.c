#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/guest.h"
#include "daemon/service_guest.h"
#include "daemon/service_tell.h"
#include "daemon/service_work.h"

/* A messenger asks for us every second (late_word.h). */
#define WORD_COMES_NS UINT64_C(10000000000)

/* Of one user's attempts of one name that have no end, the newest so many. */
#define MAX_CANDIDATES 256

bool service_expects_word(const struct service *s, const struct attempt *a)
{
	if (store_has_kept(s->options->paths->db))
		return true;
	return geteuid() == 0 && u64_known(a->uid) && a->uid != 0 &&
	       strcmp(a->boot_id, s->record.boot_id) == 0 &&
	       clock_boot_ns() - s->started_boot_ns < WORD_COMES_NS;
}

struct ended_params {
	uint64_t pid, start_ticks; /* of the runner */
	const struct rpc_value *job;
};

static const struct rpc_field ended_fields[] = {
	{ "pid", RPC_U64, offsetof(struct ended_params, pid), .is_required = true,
	  .max = INT32_MAX },
	{ "start_ticks", RPC_U64, offsetof(struct ended_params, start_ticks), .is_required = true },
	{ "job", RPC_OBJECT, offsetof(struct ended_params, job), .is_required = true },
};

static bool is_of_runner(const struct service *s, const struct attempt *a,
			 const struct proc_key *runner)
{
	return a->runner.pid == runner->pid && a->runner.start_ticks == runner->start_ticks &&
	       strcmp(a->boot_id, s->record.boot_id) == 0;
}

int guest_find_attempt(struct service *s, uint64_t uid, const struct proc_key *runner,
		       struct attempt *a, bool *ret_is_over, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = a->job_id,
					       .uid = &uid,
					       .limit = MAX_CANDIDATES };
	int r = store_list_attempts(s->store, &filter, &list, err);

	for (size_t i = 0; r == 0 && i < list.n; i++) {
		const struct attempt *found = &list.items[i];

		if (!is_of_runner(s, found, runner))
			continue;
		a->id = found->id;
		a->attempt_num = found->attempt_num;
		*ret_is_over = u64_known(found->ended_wall_ns);
		return 0;
	}
	return r < 0 ? r : err_set(err, -ENOENT, "no job %s of that runner is known", a->job_id);
}

/* One that we have started, and whose runner found nobody to greet. */
static int begin_awaited(struct service *s, const struct rpc_peer *peer,
			 const struct proc_key *runner, struct attempt *a, struct err *err)
{
	const struct queued *queued = queue_find(s->queue, a->job_id, peer->uid);

	if (!queued || !queued->is_started || service_has_run(s, queued))
		return -ENOENT; /* err says so */
	guest_identify(s, peer, runner, a);
	return store_begin_attempt(s->store, a, err);
}

/* Of one that is not watched, as its runner was gone when we began, no look will tell. */
static void tell_end(struct service *s, const struct attempt *a)
{
	struct watched job = { .runner_fd = -1 };
	struct err err = ERR_INIT;
	int r = store_read_progress(s->store, a->job_id, a->attempt_num, &job.a, &err);

	log_info("the end of job %s was told late", a->job_id);
	if (r < 0)
		return;
	job.job_id = (char *)job.a.job_id;
	estimate_init(&job.estimate);
	service_tell_change(s, CHANGE_JOB_ENDED, &job, NULL);
	attempt_release(&job.a);
}

static int take_end(struct service *s, const struct rpc_peer *peer, const struct proc_key *runner,
		    struct attempt *a, struct err *err)
{
	bool is_over = false, is_new = false;
	int r = guest_find_attempt(s, peer->uid, runner, a, &is_over, err);

	if (r == -ENOENT) {
		is_new = true;
		r = begin_awaited(s, peer, runner, a, err);
	}
	if (r < 0 || is_over)
		return r;
	guest_bound_lives(s, peer->uid, a);
	r = store_finish_attempt(s->store, a, a->events, a->n_events, err);
	if (r == 0 && !is_new && !watch_find_attempt(s->watch, a->id))
		tell_end(s, a);
	return r;
}

/*
 * Without a database: who waits for the job is told, and nobody waits for its place. The caller
 * tells it again, as it is not written down.
 */
static int hear_end(struct service *s, const struct rpc_peer *peer, struct attempt *a,
		    struct err *err)
{
	struct queued *queued = queue_find(s->queue, a->job_id, peer->uid);

	if (queued && service_is_unfollowed(s, queued) && !queued->is_over &&
	    a->submission == queued->submission) { /* and not another run of that name */
		queued->is_over = true;
		service_answer_unrecorded(s, queued, a);
	}
	return service_need_store(s, err);
}

/*
 * A job of the caller's has ended while there was no daemon. The caller is not its runner, which
 * is gone: what it says is believed as far as it concerns a job of its own user that has no end.
 */
static int runner_ended(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct service *s = ctx;
	struct ended_params params = { 0 };
	struct proc_key runner;
	int r = rpc_call_read(call, ended_fields, ARRAY_SIZE(ended_fields), &params, err);

	attempt_init(&a);
	if (r == 0)
		r = guest_read(params.job, clock_wall_ns(), &a, err);
	if (r < 0)
		return r;
	if (a.is_running)
		return err_set(err, -EINVAL, "'job' has no 'outcome'");
	runner = (struct proc_key){ (pid_t)params.pid, params.start_ticks };
	service_look(s);
	if (!s->store)
		return hear_end(s, rpc_call_peer(call), &a, err);
	r = take_end(s, rpc_call_peer(call), &runner, &a, err);
	service_look(s);
	service_run_queue(s);
	return r;
}

const struct rpc_method service_late_methods[] = {
	{ "runner.ended", runner_ended, RPC_FOR_ALL },
	{ 0 },
};
