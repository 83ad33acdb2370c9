#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"

static void folder_of(const struct service *s, const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%s", s->options->paths->state_dir, name);
}

/* A runner tells that its job is over shortly before it is over itself. */
#define RUNNER_ENDS_MS 200

static void on_queue_timer(void *ctx);

int service_open_queue(struct service *s, struct err *err)
{
	char folder[PATH_BYTES + 16];

	s->queue_timer = loop_timer_new(s->loop, on_queue_timer, s);
	if (!s->queue_timer)
		return err_set(err, -ENOMEM, "no memory left to begin");
	folder_of(s, "queue", folder, sizeof(folder));
	return queue_open(folder, &s->queue, err);
}

/* ---- those that a runner has, or had ---- */

/* Whether an attempt of it is in the database that began since it was submitted. */
static int was_run(struct service *s, const struct queued *job, bool *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = job->job_id, .limit = 1 };
	int r = store_list_attempts(s->store, &filter, &list, err);

	*ret = r == 0 && list.n > 0 && u64_known(list.items[0].started_wall_ns) &&
	       list.items[0].started_wall_ns >= job->submitted_wall_ns;
	return r;
}

/* How long a runner may take until it is in the database. */
#define START_NS UINT64_C(30000000000)

/* True if it is gone from the queue. */
static bool settle_started(struct service *s, struct queued *job)
{
	bool is_run = false;

	if (queue_is_held(job) || watch_find(s->watch, job->job_id) || !s->store ||
	    was_run(s, job, &is_run, NULL) < 0)
		return false;
	if (!is_run && clock_boot_ns() - job->started_boot_ns < START_NS)
		return false;
	if (is_run) {
		queue_drop(s->queue, job);
		return true;
	}
	log_warning("job %s was started and never ran: it waits again", job->job_id);
	queue_put_back(job, NULL);
	return false;
}

static void settle_all(struct service *s)
{
	struct queued *job;
	size_t i = 0;

	while ((job = queue_at(s->queue, i)))
		if (!job->is_started || !settle_started(s, job))
			i++;
}

bool service_has_run(struct service *s, const struct queued *job)
{
	bool is_run = false;

	return job->is_started && s->store && was_run(s, job, &is_run, NULL) == 0 && is_run;
}

/* ---- those that wait ---- */

static size_t count_started(struct service *s)
{
	const struct queued *job;
	size_t n = 0;

	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		n += job->is_started;
	return n;
}

/* The pressure holds it up: from high on for as long as it lasts, below for some seconds once. */
static bool is_held_up(struct service *s, struct queued *job)
{
	unsigned delay = pressure_delay_seconds(s->pressure.level);
	uint64_t now = clock_boot_ns();

	if (delay == 0)
		job->not_before_ns = 0;
	if (delay == 0)
		return false;
	snprintf(job->reason, sizeof(job->reason), "pressure is %s: %s",
		 pressure_name(s->pressure.level), s->pressure.reason);
	if (pressure_refuses_jobs(s->pressure.level))
		return true;
	if (job->not_before_ns == 0)
		job->not_before_ns = now + delay * UINT64_C(1000000000);
	return now < job->not_before_ns;
}

static void start_job(struct service *s, struct queued *job)
{
	char folder[PATH_BYTES + 16];
	struct err err = ERR_INIT;

	folder_of(s, "logs", folder, sizeof(folder));
	job->reason[0] = '\0';
	if (queue_start(s->queue, job, folder, &err) == 0)
		return;
	log_error("job %s cannot be started now: %s", job->job_id, err.text);
	snprintf(job->reason, sizeof(job->reason), "%.150s", err.text);
}

static size_t max_jobs(const struct service *s)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (s->config->limits.max_concurrent_jobs)
		return s->config->limits.max_concurrent_jobs;
	return n > 0 ? (size_t)n : 1;
}

void service_run_queue(struct service *s)
{
	struct queued *job;

	settle_all(s);
	for (size_t i = 0; (job = queue_at(s->queue, i)); i++) {
		if (job->is_started)
			continue;
		if (count_started(s) >= max_jobs(s)) {
			snprintf(job->reason, sizeof(job->reason), "%zu jobs run already",
				 max_jobs(s));
			continue;
		}
		if (!is_held_up(s, job))
			start_job(s, job);
	}
}

void service_run_queue_soon(struct service *s)
{
	loop_timer_set(s->queue_timer, RUNNER_ENDS_MS, 0);
}

/* Whether the runner of one is about to end, or has just begun. */
static bool is_any_between(struct service *s)
{
	const struct queued *job;

	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		if (job->is_started && !watch_find(s->watch, job->job_id))
			return true;
	return false;
}

static void on_queue_timer(void *ctx)
{
	struct service *s = ctx;

	service_run_queue(s);
	if (is_any_between(s))
		service_run_queue_soon(s);
}
