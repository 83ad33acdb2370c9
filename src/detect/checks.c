#include "detect/checks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "detect/host_past.h"

#define SEES_AFTER(field) .sees_after = offsetof(struct config_anomaly, field)

const struct check checks[] = {
	{ ANOMALY_MEMORY_SPIKE, "MB", .of_process = check_memory_spike },
	{ ANOMALY_MEMORY_LEAK, "MB", .of_process = check_memory_leak },
	{ ANOMALY_RUNAWAY_PROCESS, "percent of a core", .of_process = check_runaway },
	{ ANOMALY_STUCK_PROCESS, "seconds", SEES_AFTER(stuck_duration_seconds),
	  .of_process = check_stuck },
	{ ANOMALY_IO_STALL, "seconds", .of_process = check_io_wait },
	{ ANOMALY_ZOMBIE, "zombies", SEES_AFTER(zombie_duration_seconds),
	  .of_process = check_zombies },
	{ ANOMALY_FD_EXHAUSTION, "open files", SEES_AFTER(fd_exhaustion_horizon_seconds),
	  .of_process = check_fds },
	{ ANOMALY_THREAD_EXPLOSION, "threads", .of_process = check_threads },
	{ ANOMALY_ORPHAN, "seconds", .of_process = check_orphan },
	{ ANOMALY_PROCESS_EXPLOSION, "processes", .of_job = check_processes },
	{ ANOMALY_ZOMBIE, "zombies", SEES_AFTER(zombie_duration_seconds),
	  .of_job = check_job_zombies },
	{ ANOMALY_MEMORY_PRESSURE, ANOMALY_UNIT_AVAILABLE, .lower_is_worse = true,
	  .of_host = check_host_memory },
	{ ANOMALY_IO_STALL, "percent of the time", .of_host = check_host_io },
	{ ANOMALY_SWAP_STORM, "MB per second", .of_host = check_swap },
	{ ANOMALY_OOM_KILL, "kills", .is_moment = true, .of_host = check_host_oom },
	{ ANOMALY_MEMORY_PRESSURE, "percent of its limit", .of_cgroup = check_cgroup_memory },
	{ ANOMALY_OOM_KILL, "kills", .is_moment = true, .of_cgroup = check_cgroup_oom },
	{ ANOMALY_GPU_MEMORY, "percent", .of_gpu = check_gpu_memory },
	{ ANOMALY_GPU_IDLE, "seconds", .of_gpu = check_gpu_idle },
	{ ANOMALY_GPU_HOT, "degrees C", .of_gpu = check_gpu_hot },
	{ ANOMALY_GPU_LOST, "GPUs", .of_gpu = check_gpu_lost },
};
const size_t n_checks = ARRAY_SIZE(checks);

const struct check check_oom_event = { ANOMALY_OOM_KILL, "kills", .is_moment = true };

const struct check *checks_of_type(enum anomaly_type type)
{
	for (size_t k = 0; k < n_checks; k++)
		if (checks[k].type == type)
			return &checks[k];
	return NULL;
}

const char *checks_unit(const char *name)
{
	for (size_t k = 0; name && k < n_checks; k++)
		if (strcmp(checks[k].unit, name) == 0)
			return checks[k].unit;
	return name && strcmp(name, CHECKS_WAITING) == 0 ? CHECKS_WAITING : NULL;
}

/* The cgroup of the process, if it has a limit; NULL. */
static const struct cgroup_sample *find_limited(const struct tick *t, const struct proc_sample *s)
{
	const struct cgroup_past *past =
		s->cgroup ? host_past_find_cgroup(t->past, s->cgroup) : NULL;
	const struct cgroup_sample *c =
		past && past->at < t->snap->n_cgroups ? &t->snap->cgroups[past->at] : NULL;

	if (!c || !u64_known(c->memory_max_bytes) || c->memory_max_bytes == MEMORY_UNLIMITED)
		return NULL;
	return c;
}

double checks_limit_mb(const struct tick *t, const struct proc_sample *s)
{
	double total = u64_to_mb(t->snap->system.memory_total_bytes);
	const struct cgroup_sample *c = find_limited(t, s);

	return c ? fmin(total, u64_to_mb(c->memory_max_bytes)) : total;
}

double checks_room_mb(const struct tick *t, const struct proc_sample *s)
{
	double room = u64_to_mb(t->snap->system.memory_available_bytes);
	const struct cgroup_sample *c = find_limited(t, s);

	if (!c || !u64_known(c->memory_current_bytes))
		return room;
	return fmin(room,
		    fmax(0, u64_to_mb(c->memory_max_bytes) - u64_to_mb(c->memory_current_bytes)));
}

const char *checks_time(double seconds, char text[CHECKS_TIME_BYTES])
{
	if (seconds < 1)
		snprintf(text, CHECKS_TIME_BYTES, "%.2g s", seconds);
	else if (seconds < 120)
		snprintf(text, CHECKS_TIME_BYTES, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(text, CHECKS_TIME_BYTES, "%.0f min", seconds / 60);
	else if (seconds < 172800)
		snprintf(text, CHECKS_TIME_BYTES, "%.1f h", seconds / 3600);
	else
		snprintf(text, CHECKS_TIME_BYTES, "%.0f days", fmin(seconds / 86400, 99999));
	return text;
}
