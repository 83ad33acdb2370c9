#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "daemon/service_internal.h"

/* Its runner asks every second while a sheet waits: who has not asked for so long does not wait. */
#define HELD_NS UINT64_C(3000000000)

struct admit_params {
	const char *what, *job_id;
};

static const struct rpc_field admit_fields[] = {
	{ "for", RPC_STRING, offsetof(struct admit_params, what), .is_required = false },
	{ "job_id", RPC_STRING, offsetof(struct admit_params, job_id), .is_required = false },
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

static struct watched *find_by_runner(struct service *s, const char *job_id, pid_t pid)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		if (jobs[i]->a.runner.pid == pid && strcmp(jobs[i]->job_id, job_id) == 0)
			return jobs[i];
	return NULL;
}

/* Only what its own runner says about a job is believed. */
static void note_held(struct service *s, const struct rpc_peer *peer, const char *job_id,
		      bool is_held)
{
	struct watched *job = find_by_runner(s, job_id, peer->pid);

	if (!job) {
		service_look(s);
		job = find_by_runner(s, job_id, peer->pid);
	}
	if (!job)
		return;
	job->held_boot_ns = is_held ? clock_boot_ns() : 0;
	snprintf(job->why_held, sizeof(job->why_held), "pressure is %s: %s",
		 pressure_name(s->pressure.level), s->pressure.reason);
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

/* Whether a job, or the next sheet of one, may start: for runners, and for other schedulers. */
static int admit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct admit_params params = { .what = "job" };
	const struct admission *admission;
	bool is_refused;
	int r = rpc_call_read(call, admit_fields, ARRAY_SIZE(admit_fields), &params, err);

	if (r < 0)
		return r;
	admission = find_admission(params.what);
	if (!admission)
		return err_set(err, -EINVAL, "'for' is \"job\" or \"sheet\"");
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
