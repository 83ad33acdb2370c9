#include "detect/compat.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/map.h"

#define MAX_FDS 1000
#define MIN_AVAILABLE 0.10

struct judge {
	const struct config_anomaly *config;
	const struct compat_snapshot *history;
	size_t n_history;
	const struct compat_snapshot *current;
	compat_fn *fn;
	void *ctx;
};

/* p: the process that it is about, or NULL. No check of these fills in the sheet. */
__attribute__((format(printf, 7, 8))) static void call(const struct judge *g,
						       enum anomaly_type type,
						       enum severity severity,
						       const struct compat_process *p, double value,
						       double threshold, const char *format, ...)
{
	struct anomaly a;
	va_list args;

	anomaly_init(&a);
	a.timestamp = g->current->timestamp;
	a.type = type;
	a.severity = severity;
	a.metric_value = value;
	a.threshold = threshold;
	a.has_pid = p != NULL;
	a.pid = p ? p->pid : 0;
	a.job_id = p ? p->job_id : NULL;
	va_start(args, format);
	vsnprintf(a.text, sizeof(a.text), format, args);
	va_end(args);
	g->fn(g->ctx, &a);
}

/* ---- memory spike ---- */

/* Of a pid that stands there twice the last counts. */
static int check_spikes(const struct judge *g)
{
	CLEANUP(map_release) struct map by_pid = MAP_INIT;
	double since = g->current->timestamp - g->config->memory_spike_window_seconds;
	double limit = g->config->memory_spike_threshold;
	const struct compat_snapshot *base = NULL;
	uint64_t i;

	for (size_t k = 0; k < g->n_history; k++) {
		base = &g->history[k];
		if (base->timestamp >= since)
			break;
	}
	if (!base)
		return 0;
	for (i = 0; i < base->n_processes; i++)
		if (map_put(&by_pid, (uint64_t)base->processes[i].pid, i) < 0)
			return -ENOMEM;
	for (size_t k = 0; k < g->current->n_processes; k++) {
		const struct compat_process *p = &g->current->processes[k];
		double before_mb, ratio;

		if (!map_get(&by_pid, (uint64_t)p->pid, &i))
			continue;
		before_mb = base->processes[i].rss_mb;
		ratio = p->rss_mb / before_mb;
		if (!(before_mb > 0) || !(ratio >= limit))
			continue;
		call(g, ANOMALY_MEMORY_SPIKE,
		     ratio >= 2 * limit ? SEVERITY_CRITICAL : SEVERITY_HIGH, p, p->rss_mb,
		     before_mb * limit,
		     "the memory of process %lld went from %.1f MB to %.1f MB, which is %.2f times as much",
		     (long long)p->pid, before_mb, p->rss_mb, ratio);
	}
	return 0;
}

/* ---- runaway process ---- */

/* Of a pid that stands there twice the first counts. */
static const struct compat_process *find_pid(const struct compat_snapshot *s, int64_t pid)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

/* When the last row of busy snapshots began. */
static double busy_since(const struct judge *g, int64_t pid)
{
	double since = g->current->timestamp;

	for (size_t i = g->n_history; i > 0; i--) {
		const struct compat_process *p = find_pid(&g->history[i - 1], pid);

		if (!p || p->cpu_percent < g->config->runaway_cpu_threshold)
			break;
		since = g->history[i - 1].timestamp;
	}
	return since;
}

static int check_runaways(const struct judge *g)
{
	double limit = g->config->runaway_cpu_threshold;

	for (size_t i = 0; g->n_history > 0 && i < g->current->n_processes; i++) {
		const struct compat_process *p = &g->current->processes[i];
		double seconds;

		if (!(p->cpu_percent >= limit))
			continue;
		seconds = g->current->timestamp - busy_since(g, p->pid);
		if (!(seconds >= g->config->runaway_duration_seconds))
			continue;
		call(g, ANOMALY_RUNAWAY_PROCESS, SEVERITY_CRITICAL, p, p->cpu_percent, limit,
		     "process %lld has used %.0f %% of a core or more for %.0f s",
		     (long long)p->pid, limit, seconds);
	}
	return 0;
}

/* ---- zombies ---- */

static int check_zombies(const struct judge *g)
{
	const struct compat_snapshot *s = g->current;
	struct compat_process zombie = { 0 };
	bool has_pid = s->n_zombie_pids > 0;

	if (s->zombie_count <= 0)
		return 0;
	if (has_pid)
		zombie.pid = s->zombie_pids[0];
	for (size_t i = 0; i < s->n_processes && !has_pid; i++) {
		has_pid = s->processes[i].state == 'Z';
		zombie.pid = s->processes[i].pid;
	}
	call(g, ANOMALY_ZOMBIE, SEVERITY_HIGH, has_pid ? &zombie : NULL, (double)s->zombie_count, 0,
	     "there are %lld zombies", (long long)s->zombie_count);
	return 0;
}

/* ---- open files ---- */

static int check_fds(const struct judge *g)
{
	for (size_t i = 0; i < g->current->n_processes; i++) {
		const struct compat_process *p = &g->current->processes[i];

		if (p->open_fds >= MAX_FDS)
			call(g, ANOMALY_FD_EXHAUSTION, SEVERITY_HIGH, p, (double)p->open_fds,
			     MAX_FDS, "process %lld has %lld files open", (long long)p->pid,
			     (long long)p->open_fds);
	}
	return 0;
}

/* ---- memory pressure ---- */

static int check_pressure(const struct judge *g)
{
	double total = g->current->memory_total_mb, available = g->current->memory_available_mb;

	if (total > 0 && available / total < MIN_AVAILABLE)
		call(g, ANOMALY_MEMORY_SPIKE, SEVERITY_CRITICAL, NULL, available,
		     total * MIN_AVAILABLE, "%.0f MB of the host's %.0f MB are available",
		     available, total);
	return 0;
}

int compat_detect(const struct config_anomaly *config, const struct compat_snapshot *history,
		  size_t n_history, const struct compat_snapshot *current, compat_fn *fn, void *ctx)
{
	static int (*const checks[])(const struct judge *g) = {
		check_spikes, check_runaways, check_zombies, check_fds, check_pressure,
	};
	const struct judge g = { config, history, n_history, current, fn, ctx };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(checks); i++)
		r = checks[i](&g);
	return r;
}
