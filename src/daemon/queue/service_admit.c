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

/* What can be asked for: from which level on it is turned away. Below it only waits. */
static const struct admission {
	const char *what;
	bool (*is_refused)(enum pressure_level level);
} admissions[] = {
	{ "job", pressure_refuses_jobs },
	{ "sheet", pressure_holds_sheets },
};

static const struct admission *find_admission(const char *what)
{
	for (size_t i = 0; i < ARRAY_SIZE(admissions); i++)
		if (strcmp(admissions[i].what, what) == 0)
			return &admissions[i];
	return NULL;
}

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

static void write_answer(struct json *j, const struct pressure *pressure, bool is_refused)
{
	unsigned delay = pressure_delay_seconds(pressure->level);

	json_begin_object(j);
	json_key_string(j, "answer", is_refused ? "reject" : delay ? "delay" : "admit");
	json_key_u64(j, "delay_seconds", delay);
	json_key_string(j, "pressure_level", pressure_name(pressure->level));
	json_key_string(j, "reason", pressure->reason);
	json_end_object(j);
}

/* ---- with what the job is expected to need ---- */

static bool has_job(const struct admit_params *params)
{
	return params->job.file || params->job.command || params->job.sheet ||
	       u64_known(params->job.input_bytes) || f64_known(params->peak_mb);
}

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

static int judge_told(struct service *s, struct rpc_call *call, double peak_mb, struct err *err)
{
	struct estimate e;

	estimate_init(&e);
	e.peak_rss_mb = peak_mb;
	e.n_runs = 1;
	return judge(s, call, &e, err);
}

/* Either what the caller knows, or what is known here. */
static int admit_known(struct service *s, struct rpc_call *call, const struct admit_params *params,
		       struct err *err)
{
	struct estimate_task *task = NULL;
	int r;

	if (strcmp(params->what, "job") != 0)
		return err_set(err, -EINVAL, "what is expected of a job goes with 'for' \"job\"");
	if (f64_known(params->peak_mb) && (params->job.file || params->job.command))
		return err_set(err, -EINVAL,
			       "either a job or 'estimated_peak_memory_mb', not both");
	if (f64_known(params->peak_mb))
		return judge_told(s, call, params->peak_mb, err);
	r = service_estimate_task(s, rpc_call_peer(call), &params->job, &task, err);
	return r < 0 ? r : service_answer_aside(s, call, &answer_admission, task, err);
}

/* Whether a job, or the next sheet of one, may start: for runners, and for other schedulers. */
static int admit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct admit_params params = {
		.what = "job",
		.job.input_bytes = U64_UNKNOWN,
		.peak_mb = F64_UNKNOWN,
	};
	const struct admission *admission;
	bool is_refused;
	int r = rpc_call_read(call, admit_fields, ARRAY_SIZE(admit_fields), &params, err);

	if (r < 0)
		return r;
	admission = find_admission(params.what);
	if (!admission)
		return err_set(err, -EINVAL, "'for' is \"job\" or \"sheet\"");
	if (has_job(&params))
		return admit_known(s, call, &params, err);
	is_refused = admission->is_refused(s->pressure.level);
	if (params.job_id && admission->is_refused == pressure_holds_sheets)
		note_held(s, rpc_call_peer(call), params.job_id,
			  is_refused || pressure_delay_seconds(s->pressure.level) > 0);
	write_answer(rpc_call_result(call), &s->pressure, is_refused);
	return 0;
}

const struct rpc_method service_admit_methods[] = {
	{ "admit", admit, RPC_FOR_ALL },
	{ 0 },
};

static struct admit_running describe(double rss_mb, const struct estimate *e, double age_seconds)
{
	return (struct admit_running){
		.rss_mb = rss_mb,
		.estimated_peak_mb = e->peak_rss_mb,
		.estimated_wall_seconds = e->wall_seconds,
		.age_seconds = age_seconds,
	};
}

static double age_of(const struct attempt *a)
{
	uint64_t now = clock_wall_ns();

	if (!u64_known(a->started_wall_ns) || now < a->started_wall_ns)
		return F64_UNKNOWN;
	return clock_ns_to_seconds(now - a->started_wall_ns);
}

static size_t list_watched(struct service *s, struct admit_running *running)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		running[i] = describe(u64_to_mb(jobs[i]->point.rss_bytes), &jobs[i]->estimate,
				      age_of(&jobs[i]->a));
	return n;
}

/* Those whose runners are not in the database yet. */
static size_t list_starting(struct service *s, struct admit_running *running)
{
	const struct queued *job;
	size_t n = 0;

	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		if (job->is_started && job->estimated_boot_ns &&
		    !watch_find_of(s->watch, job->job_id, job->uid))
			running[n++] = describe(F64_UNKNOWN, &job->estimate, 0);
	return n;
}

static size_t count_all(struct service *s)
{
	size_t n, n_queued = 0;

	watch_jobs(s->watch, &n);
	while (queue_at(s->queue, n_queued))
		n_queued++;
	return n + n_queued;
}

static double limit_mb(const struct service *s)
{
	uint64_t limit = s->settings.config->limits.max_memory_mb;

	return limit ? (double)limit : u64_to_mb(s->scan.snap.system.memory_total_bytes);
}

/*
 * What a program needed with other arguments says little of what this job needs: it
 * may put a job off while others run, not for good.
 */
static bool is_too_coarse(const struct admit_question *q, const struct admit_answer *answer)
{
	return q->job->rung == RUNG_PROGRAM && answer->decision != ADMIT &&
	       (answer->is_for_good || q->n_running == 0);
}

static void decide(const struct admit_question *q, struct admit_answer *ret)
{
	struct admit_question without = *q;
	struct estimate nothing;

	admit_decide(q, ret);
	if (!is_too_coarse(q, ret))
		return;
	estimate_init(&nothing);
	without.job = &nothing;
	admit_decide(&without, ret);
}

int service_judge_room(struct service *s, const struct estimate *e, struct admit_answer *ret)
{
	CLEANUP(free_ptr)
	struct admit_running *running = calloc(count_all(s) + 1, sizeof(*running));
	struct admit_question question = {
		.job = e,
		.running = running,
		.pressure = &s->pressure,
		.limit_mb = s->scan.has_snap ? limit_mb(s) : F64_UNKNOWN,
		.used_mb = s->scan.has_snap ? u64_to_mb(s->scan.snap.system.memory_used_bytes)
					    : F64_UNKNOWN,
	};

	if (!running)
		return -ENOMEM;
	question.n_running = list_watched(s, running);
	question.n_running += list_starting(s, running + question.n_running);
	decide(&question, ret);
	return 0;
}
