/*
 * service_estimate - what a job will need, and whether it fits beside those that run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

/* What is asked about a job that is not there yet. All is borrowed. */
static struct learning_question ask_about(const struct service *s, const struct job_spec *spec,
					  uid_t uid, uint64_t input_bytes)
{
	return (struct learning_question){
		.spec = spec,
		.mask = s->settings.mask,
		.uid = uid,
		.input_bytes = input_bytes,
		.only_own = u64_known(learning_scope(uid)),
	};
}

/* ---- of what somebody asks about ---- */

/* Copies them: the answer is worked out when the request is gone. */
static int spec_of_command(const struct rpc_value *words, uint64_t sheet, struct job_spec *spec,
			   struct err *err)
{
	size_t n = rpc_value_len(words);
	const char **argv = arena_alloc(&spec->arena, (n + 1) * sizeof(*argv));

	if (n == 0)
		return err_set(err, -EINVAL, "'command' is empty");
	if (!argv)
		return err_set(err, -ENOMEM, "no memory left for the command");
	for (size_t i = 0; i < n; i++) {
		argv[i] = arena_strdup(&spec->arena, rpc_value_string(rpc_value_at(words, i)));
		if (!argv[i])
			return err_set(err, -ENOMEM, "no memory left for the command");
	}
	argv[n] = NULL;
	if (job_spec_set_command(spec, argv, (int)sheet, F64_UNKNOWN) < 0)
		return err_set(err, -ENOMEM, "no memory left for the command");
	return 0;
}

/* Whoever may do everything has their jobs run as us. */
int service_estimate_task(struct service *s, const struct rpc_peer *peer,
			  const struct estimate_params *params, struct estimate_task **ret,
			  struct err *err)
{
	uid_t uid = service_is_owner(peer) ? geteuid() : peer->uid;
	struct estimate_task *task;
	int r = 0;

	if (!params->file == !params->command)
		return err_set(err, -EINVAL, "of what? either 'file' or 'command' is wanted");
	if (params->file && params->sheet)
		return err_set(err, -EINVAL,
			       "'sheet' goes with a command; a job file numbers its sheets itself");
	task = calloc(1, sizeof(*task));
	if (!task)
		return err_set(err, -ENOMEM, "no memory left for an estimate");
	job_spec_init(&task->spec);
	learning_answer_init(&task->answer);
	task->mask = mask_ref(s->settings.mask);
	task->question = ask_about(s, &task->spec, uid, params->input_bytes);
	task->file = params->file ? strdup(params->file) : NULL; /* takes its time to be parsed */
	if (!params->file)
		r = spec_of_command(params->command, params->sheet ? params->sheet : 1, &task->spec,
				    err);
	else if (!task->file)
		r = err_set(err, -ENOMEM, "no memory left for the job file");
	if (r < 0)
		estimate_task_free(task);
	else
		*ret = task;
	return r;
}

int estimate_task_parse(struct estimate_task *task, const char *name, struct err *err)
{
	int r = task->file ? job_file_parse(task->file, strlen(task->file), name, false,
					    &task->spec, err)
			   : 0;

	if (r < 0)
		job_spec_init(&task->spec); /* the parser has released it */
	return r;
}

static int work_out(void *ctx, struct store *store, struct buf *ret_json, struct err *err)
{
	struct estimate_task *task = ctx;
	int r = estimate_task_parse(task, "the job file", err);
	struct json j;

	if (r == 0)
		r = learning_estimate(store, &task->question, &task->answer, err);
	if (r < 0)
		return r;
	json_init(&j, ret_json);
	learning_write_answer(&j, &task->answer);
	return 0;
}

void estimate_task_free(struct estimate_task *task)
{
	if (!task)
		return;
	job_spec_release(&task->spec);
	mask_free(task->mask);
	free(task->file);
	free(task);
}

static const struct rpc_field estimate_fields[] = {
	{ "file", RPC_STRING, offsetof(struct estimate_params, file), .is_required = false },
	{ "command", RPC_STRINGS, offsetof(struct estimate_params, command), .is_required = false },
	{ "sheet", RPC_U64, offsetof(struct estimate_params, sheet), .min = 1, .max = 1000000 },
	{ "input_bytes", RPC_U64, offsetof(struct estimate_params, input_bytes),
	  .is_required = false },
};

static void release_task(void *ctx)
{
	estimate_task_free(ctx);
}

static const struct aside_answer answer_estimate = { .work = work_out, .release = release_task };

int method_estimate(void *ctx, struct rpc_call *call, struct err *err)
{
	struct estimate_params params = { .input_bytes = U64_UNKNOWN };
	struct estimate_task *task = NULL;
	int r = rpc_call_read(call, estimate_fields, ARRAY_SIZE(estimate_fields), &params, err);

	if (r == 0)
		r = service_estimate_task(ctx, rpc_call_peer(call), &params, &task, err);
	return r < 0 ? r : service_answer_aside(ctx, call, &answer_estimate, task, err);
}

/* ---- of what waits ---- */

/* Of a job that is put together from its sheets: everybody waits meanwhile. */
#define MAX_SHEETS 32

/* Of one that cannot be had nothing is known: its runner will say what is wrong. Files that the job
 * names are not looked at: that is for who may read them. */
void service_estimate_queued(struct service *s, struct queued *job)
{
	CLEANUP(job_spec_release) struct job_spec spec;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct learning_question question;
	struct learning_answer answer;
	char path[QUEUE_PATH_BYTES];

	queued_path(job, path);
	job_spec_init(&spec);
	learning_answer_init(&answer);
	question = ask_about(s, &spec, job->uid, job->input_bytes);
	question.max_sheets = MAX_SHEETS;
	if (s->store && io_read_at(AT_FDCWD, path, QUEUE_FILE_MAX_BYTES + 65536, &text) >= 0 &&
	    job_file_parse(text.data, text.len, job->name, false, &spec, NULL) == 0)
		(void)learning_estimate(s->store, &question, &answer, NULL);
	service_keep_estimate(job, &answer.estimate);
}

void service_keep_estimate(struct queued *job, const struct estimate *e)
{
	job->estimate = *e;
	job->estimated_boot_ns = clock_boot_ns();
}

/* ---- of what runs ---- */

size_t service_estimate_running(struct service *s, size_t max)
{
	size_t n, n_read = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++) {
		struct watched *job = jobs[i];
		const struct queued *queued =
			job->is_estimated ? NULL
					  : queue_find(s->queue, job->job_id, (uid_t)job->a.uid);
		struct attempt asked = job->a;
		struct learning_answer answer;

		if (job->is_estimated)
			continue;
		/* One that came from the queue goes on with what was expected when it was let in.
		 */
		if (queued && queued->estimated_boot_ns) {
			job->estimate = queued->estimate;
		} else if (n_read < max) {
			asked.id = 0; /* that is no row's */
			learning_answer_init(&answer);
			if (s->store)
				learning_estimate_attempt(s->store, &asked,
							  u64_known(learning_scope(job->a.uid)),
							  &answer, NULL);
			job->estimate = answer.estimate;
			n_read++;
		} else {
			continue;
		}
		job->is_estimated = true;
	}
	return n_read;
}

/* ---- whether there is room ---- */

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

/* ---- with what the job is expected to need ---- */

/* Who is let in waits as the pressure says, and hears of that. */
static int judge(struct service *s, struct rpc_call *call, const struct estimate *e,
		 struct err *err)
{
	struct json *j = rpc_call_result(call);
	struct admit_answer a;
	bool is_held;

	if (service_judge_room(s, e, &a) < 0)
		return err_set(err, -ENOMEM, "no memory left to answer");
	is_held = a.decision == ADMIT && a.delay_seconds > 0;
	json_begin_object(j);
	json_key_string(j, "answer", admit_name(is_held ? ADMIT_DELAY : a.decision));
	json_key_u64(j, "delay_seconds", a.is_for_good ? U64_UNKNOWN : a.delay_seconds);
	json_key_string(j, "pressure_level", pressure_name(s->pressure.level));
	json_key_string(j, "reason", is_held ? s->pressure.reason : a.reason);
	json_key_f64(j, "estimated_peak_memory_mb", e->peak_rss_mb);
	json_key_f64(j, "headroom_mb", a.headroom_mb);
	json_end_object(j);
	return 0;
}

static int judge_estimate(void *ctx, struct service *s, struct rpc_call *call, struct err *err)
{
	const struct estimate_task *task = ctx;

	return judge(s, call, &task->answer.estimate, err);
}

static const struct aside_answer answer_admission = { work_out, judge_estimate, release_task };

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
	return (struct admit_running){ .rss_mb = rss_mb,
				       .estimated_peak_mb = e->peak_rss_mb,
				       .estimated_wall_seconds = e->wall_seconds,
				       .age_seconds = age_seconds };
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
