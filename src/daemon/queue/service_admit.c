#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

/* Its runner asks every second while a sheet waits: who has not asked for so long does not wait. */
#define HELD_NS UINT64_C(3000000000)

struct admit_params {
	const char *what, *job_id;
	struct estimate_params job; /* to be estimated */
	double peak_mb;		    /* NaN: not given */
};

static const struct rpc_field admit_fields[] = {
	{ "for", RPC_STRING, offsetof(struct admit_params, what), .is_required = false },
	{ "job_id", RPC_STRING, offsetof(struct admit_params, job_id), .is_required = false },
	{ "file", RPC_STRING, offsetof(struct admit_params, job.file), .is_required = false },
	{ "command", RPC_STRINGS, offsetof(struct admit_params, job.command),
	  .is_required = false },
	{ "sheet", RPC_U64, offsetof(struct admit_params, job.sheet), .min = 1, .max = 1000000 },
	{ "input_bytes", RPC_U64, offsetof(struct admit_params, job.input_bytes),
	  .is_required = false },
	{ "estimated_peak_memory_mb", RPC_F64, offsetof(struct admit_params, peak_mb), .min = 0,
	  .max = 1e12 },
};

/* ---- the runner's own job, of which a sheet waits ---- */

/* Only what its own runner says about a job is believed. */
static void note_held(struct service *s, const struct rpc_peer *peer, const char *job_id,
		      bool is_held)
{
	struct watched *job = is_held ? NULL : service_find_own_job(s, peer, job_id);

	if (!job) {
		service_look(s);
		job = service_find_own_job(s, peer, job_id);
	}
	if (!job)
		return;
	job->held_boot_ns = is_held ? clock_boot_ns() : 0;
	snprintf(job->why_held, sizeof(job->why_held), "pressure is %s: %s",
		 pressure_name(s->pressure.level), s->pressure.reason);
	/* Once for each try that waits. How many there were was written before its runner asked. */
	if (is_held && job->n_held_told != job->a.n_sheets + 1) {
		job->n_held_told = job->a.n_sheets + 1;
		service_tell_held(s, job->job_id, job->a.attempt_num, job->a.uid, job->why_held);
	}
}

const char *service_why_held(const struct watched *job)
{
	bool is_held = job->held_boot_ns && job->a.current_sheet == SHEET_NONE &&
		       clock_boot_ns() - job->held_boot_ns < HELD_NS;

	return is_held ? job->why_held : NULL;
}

size_t service_count_held(struct service *s)
{
	size_t n, n_held = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		n_held += service_why_held(jobs[i]) != NULL;
	return n_held;
}

/* ---- the answer ---- */

/* ---- with what the job is expected to need ---- */

/* Who is let in waits as the pressure says, and hears of that. */
static void write_room(struct json *j, const struct pressure *pressure, const struct estimate *e,
		       const struct admit_answer *a)
{
	bool is_held = a->decision == ADMIT && a->delay_seconds > 0;

	json_begin_object(j);
	json_key_string(j, "answer", admit_name(is_held ? ADMIT_DELAY : a->decision));
	json_key_u64(j, "delay_seconds", a->is_for_good ? U64_UNKNOWN : a->delay_seconds);
	json_key_string(j, "pressure_level", pressure_name(pressure->level));
	json_key_string(j, "reason", is_held ? pressure->reason : a->reason);
	json_key_f64(j, "estimated_peak_memory_mb", e->peak_rss_mb);
	json_key_f64(j, "headroom_mb", a->headroom_mb);
	json_end_object(j);
}

static int judge(struct service *s, struct rpc_call *call, const struct estimate *e,
		 struct err *err)
{
	struct admit_answer answer;

	if (service_judge_room(s, e, &answer) < 0)
		return err_set(err, -ENOMEM, "no memory left to tell");
	write_room(rpc_call_result(call), &s->pressure, e, &answer);
	return 0;
}

static int judge_estimate(void *ctx, struct service *s, struct rpc_call *call, struct err *err)
{
	const struct estimate_task *task = ctx;

	return judge(s, call, &task->answer.estimate, err);
}

static const struct aside_answer answer_admission = { estimate_task_work, judge_estimate,
						      estimate_task_free };

/* Whether a job, or the next sheet of one, may start: for runners, and for other schedulers. */
int method_admit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct admit_params params = {
		.what = "job",
		.job.input_bytes = U64_UNKNOWN,
		.peak_mb = F64_UNKNOWN,
	};
	const struct estimate_params *of = &params.job;
	unsigned delay = pressure_delay_seconds(s->pressure.level);
	struct estimate_task *task = NULL;
	struct estimate told;
	struct json *j;
	bool is_job, is_refused;
	int r = rpc_call_read(call, admit_fields, ARRAY_SIZE(admit_fields), &params, err);

	if (r < 0)
		return r;
	is_job = strcmp(params.what, "job") == 0;
	if (!is_job && strcmp(params.what, "sheet") != 0)
		return err_set(err, -EINVAL, "'for' is \"job\" or \"sheet\"");

	/* With what the job is expected to need: either the caller knows that, or it is known here.
	 */
	if (of->file || of->command || of->sheet || u64_known(of->input_bytes) ||
	    f64_known(params.peak_mb)) {
		if (!is_job)
			return err_set(err, -EINVAL,
				       "what is expected of a job goes with 'for' \"job\"");
		if (f64_known(params.peak_mb) && (of->file || of->command))
			return err_set(err, -EINVAL,
				       "either a job or 'estimated_peak_memory_mb', not both");
		if (f64_known(params.peak_mb)) {
			estimate_init(&told);
			told.peak_rss_mb = params.peak_mb;
			told.n_runs = 1;
			return judge(s, call, &told, err);
		}
		r = service_estimate_task(s, rpc_call_peer(call), of, &task, err);
		return r < 0 ? r : service_answer_aside(s, call, &answer_admission, task, err);
	}

	/* From which level on it is turned away. Below it only waits. */
	is_refused = is_job ? pressure_refuses_jobs(s->pressure.level)
			    : pressure_holds_sheets(s->pressure.level);
	if (params.job_id && !is_job)
		note_held(s, rpc_call_peer(call), params.job_id, is_refused || delay > 0);
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "answer", is_refused ? "reject" : delay ? "delay" : "admit");
	json_key_u64(j, "delay_seconds", delay);
	json_key_string(j, "pressure_level", pressure_name(s->pressure.level));
	json_key_string(j, "reason", s->pressure.reason);
	json_end_object(j);
	return 0;
}

static struct admit_running describe(double rss_mb, const struct estimate *e, double age_seconds)
{
	return (struct admit_running){
		.rss_mb = rss_mb,
		.estimated_peak_mb = e->peak_rss_mb,
		.estimated_wall_seconds = e->wall_seconds,
		.age_seconds = age_seconds,
	};
}

int service_judge_room(struct service *s, const struct estimate *e, struct admit_answer *ret)
{
	CLEANUP(free_ptr) struct admit_running *running = NULL;
	uint64_t limit = s->settings.config->limits.max_memory_mb, now = clock_wall_ns();
	const struct system_sample *host = &s->scan.snap.system;
	struct admit_question question = {
		.job = e, .pressure = &s->pressure, .limit_mb = F64_UNKNOWN, .used_mb = F64_UNKNOWN
	};
	struct estimate nothing;
	const struct queued *job;
	size_t n, n_queued = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	while (queue_at(s->queue, n_queued))
		n_queued++;
	question.running = running = calloc(n + n_queued + 1, sizeof(*running));
	if (!running)
		return -ENOMEM;
	if (s->scan.has_snap) {
		question.limit_mb = limit ? (double)limit : u64_to_mb(host->memory_total_bytes);
		question.used_mb = u64_to_mb(host->memory_used_bytes);
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t began_ns = jobs[i]->a.started_wall_ns;

		running[question.n_running++] = describe(
			u64_to_mb(jobs[i]->point.rss_bytes), &jobs[i]->estimate,
			u64_known(began_ns) && now >= began_ns ? clock_ns_to_seconds(now - began_ns)
							       : F64_UNKNOWN);
	}
	/* Those whose runners are not known yet. */
	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		if (job->is_started && job->estimated_boot_ns &&
		    !watch_find_of(s->watch, job->job_id, job->uid))
			running[question.n_running++] = describe(F64_UNKNOWN, &job->estimate, 0);
	admit_decide(&question, ret);
	/* What a program needed with other arguments says little of what this job needs: it may put
	 * a job off while others run, not for good. */
	if (e->rung == RUNG_PROGRAM && ret->decision != ADMIT &&
	    (ret->is_for_good || question.n_running == 0)) {
		estimate_init(&nothing);
		question.job = &nothing;
		admit_decide(&question, ret);
	}
	return 0;
}
