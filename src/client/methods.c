#include "client/library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/macros.h"

/* ---- params ---- */

/* An object that is written member by member. */
struct params {
	struct buf text;
	struct json j;
};

static void params_begin(struct params *params)
{
	params->text = (struct buf)BUF_INIT;
	json_init(&params->j, &params->text);
	json_begin_object(&params->j);
}

static void params_release(struct params *params)
{
	buf_release(&params->text);
}

static int call_with(struct proctor *p, const char *method, struct params *params, char **ret_json)
{
	if (ret_json)
		*ret_json = NULL;
	json_end_object(&params->j);
	if (p && buf_error(&params->text) < 0)
		return err_set(&p->err, -ENOMEM, "no memory left to ask");
	return proctor_call(p, method, params->text.data, ret_json);
}

/* A string that must be there: the daemon refuses null. */
static int call_with_string(struct proctor *p, const char *method, const char *key,
			    const char *value, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	json_key_string(&params.j, key, value);
	return call_with(p, method, &params, ret_json);
}

/* ---- the daemon ---- */

int proctor_status(struct proctor *p, char **ret_json)
{
	return proctor_call(p, "daemon.status", NULL, ret_json);
}

int proctor_top(struct proctor *p, char **ret_json)
{
	return proctor_call(p, "daemon.top", NULL, ret_json);
}

int proctor_context(struct proctor *p, pid_t pid, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	if (pid != 0)
		json_key_i64(&params.j, "pid", pid);
	return call_with(p, "resource.context", &params, ret_json);
}

int proctor_admit(struct proctor *p, const char *params, char **ret_json)
{
	return proctor_call(p, "admit", params, ret_json);
}

int proctor_estimate(struct proctor *p, const char *const *argv, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	json_key(&params.j, "command");
	json_begin_array(&params.j);
	for (size_t i = 0; argv && argv[i]; i++)
		json_str(&params.j, argv[i]);
	json_end_array(&params.j);
	return call_with(p, "estimate", &params, ret_json);
}

int proctor_estimate_file(struct proctor *p, const char *job_file, char **ret_json)
{
	return call_with_string(p, "estimate", "file", job_file, ret_json);
}

/* ---- jobs ---- */

int proctor_jobs(struct proctor *p, char **ret_json)
{
	return proctor_call(p, "job.list", NULL, ret_json);
}

int proctor_events(struct proctor *p, const char *job_id, int limit, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	if (limit != 0)
		json_key_i64(&params.j, "limit", limit);
	if (job_id)
		json_key_string(&params.j, "job_id", job_id);
	return call_with(p, "daemon.events", &params, ret_json);
}

int proctor_report(struct proctor *p, const char *job_id, int attempt, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	json_key_string(&params.j, "job_id", job_id);
	if (attempt != 0)
		json_key_i64(&params.j, "attempt", attempt);
	return call_with(p, "job.report", &params, ret_json);
}

int proctor_submit(struct proctor *p, const char *job_file, const char *job_id, char **ret_json)
{
	CLEANUP(params_release) struct params params;
	CLEANUP(free_ptr) char *folder = getcwd(NULL, 0);

	params_begin(&params);
	json_key_string(&params.j, "file", job_file);
	json_key_string(&params.j, "workdir", folder ? folder : "/");
	if (job_id)
		json_key_string(&params.j, "job_id", job_id);
	return call_with(p, "job.submit", &params, ret_json);
}

int proctor_cancel(struct proctor *p, const char *job_id, char **ret_json)
{
	return call_with_string(p, "job.cancel", "job_id", job_id, ret_json);
}

int proctor_wait(struct proctor *p, const char *job_id, int timeout_ms, char **ret_json)
{
	CLEANUP(params_release) struct params params;
	int usual_ms = p ? p->timeout_ms : 0, r;

	params_begin(&params);
	json_key_string(&params.j, "job_id", job_id);
	if (timeout_ms > 0) /* else the daemon would wait on, and count it */
		json_key_f64(&params.j, "timeout_seconds", timeout_ms / 1000.0);
	proctor_set_timeout(p, timeout_ms);
	r = call_with(p, "job.wait", &params, ret_json);
	proctor_set_timeout(p, usual_ms);
	return r;
}

/* ---- phases ---- */

/* A line for the job's runner, which looks for them in a file if there is no daemon. */
static int write_to_box(struct proctor *p, const char *path, const char *what, const char *name)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	CLEANUP(close_fd) int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	struct json j;

	if (fd < 0)
		return err_set(&p->err, -ENOTCONN, "no daemon runs, and no runner of a job");
	json_init(&j, &line);
	json_begin_object(&j);
	json_key_string(&j, "method", "phase");
	json_key(&j, "params");
	json_begin_object(&j);
	json_key_string(&j, what, name);
	json_key_i64(&j, "pid", getpid());
	json_key_f64(&j, "at", (double)clock_wall_ns() / 1e9);
	json_end_object(&j);
	json_end_object(&j);
	buf_add_char(&line, '\n');
	if (buf_error(&line) < 0)
		return err_set(&p->err, -ENOMEM, "out of memory");
	if (write(fd, line.data, line.len) != (ssize_t)line.len)
		return err_set(&p->err, -EIO, "the job's runner cannot be told of the phase");
	return 0;
}

static int mark_phase(struct proctor *p, const char *what, const char *name)
{
	int r = call_with_string(p, "phase", what, name, NULL);
	const char *path = r == -ENOTCONN && name ? getenv("PROCTOR_PHASES") : NULL;

	return path ? write_to_box(p, path, what, name) : r;
}

int proctor_phase_enter(struct proctor *p, const char *name)
{
	return mark_phase(p, "enter", name);
}

int proctor_phase_exit(struct proctor *p, const char *name)
{
	return mark_phase(p, "exit", name);
}
