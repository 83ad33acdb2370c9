#include "model/anomaly.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/columns.h"

static const char *const type_names[] = {
	[ANOMALY_MEMORY_SPIKE] = "memory_spike",
	[ANOMALY_MEMORY_LEAK] = "memory_leak",
	[ANOMALY_MEMORY_PRESSURE] = "memory_pressure",
	[ANOMALY_RUNAWAY_PROCESS] = "runaway_process",
	[ANOMALY_STUCK_PROCESS] = "stuck_process",
	[ANOMALY_ZOMBIE] = "zombie",
	[ANOMALY_FD_EXHAUSTION] = "fd_exhaustion",
	[ANOMALY_THREAD_EXPLOSION] = "thread_explosion",
	[ANOMALY_PROCESS_EXPLOSION] = "process_explosion",
	[ANOMALY_IO_STALL] = "io_stall",
	[ANOMALY_SWAP_STORM] = "swap_storm",
	[ANOMALY_OOM_KILL] = "oom_kill",
	[ANOMALY_GPU_MEMORY] = "gpu_memory",
	[ANOMALY_GPU_IDLE] = "gpu_idle",
	[ANOMALY_GPU_HOT] = "gpu_hot",
	[ANOMALY_ORPHAN] = "orphan",
	[ANOMALY_GPU_LOST] = "gpu_lost",
	[ANOMALY_RANK_DIVERGED] = "rank_diverged",
};
_Static_assert(ARRAY_SIZE(type_names) == N_ANOMALY_TYPES, "each type has its name");

static const char *const severity_names[] = {
	[SEVERITY_LOW] = "low",
	[SEVERITY_MEDIUM] = "medium",
	[SEVERITY_HIGH] = "high",
	[SEVERITY_CRITICAL] = "critical",
};

static const char *const change_names[] = {
	[EPISODE_BEGAN] = "began",
	[EPISODE_ESCALATED] = "escalated",
	[EPISODE_CLEARED] = "cleared",
};

const char *anomaly_type_name(enum anomaly_type type)
{
	return type_names[type];
}

int anomaly_type_from_name(const char *name, enum anomaly_type *ret)
{
	return enum_from_name(type_names, ARRAY_SIZE(type_names), name, ret);
}

const char *severity_name(enum severity severity)
{
	return severity_names[severity];
}

int severity_from_name(const char *name, enum severity *ret)
{
	return enum_from_name(severity_names, ARRAY_SIZE(severity_names), name, ret);
}

const char *episode_change_name(enum episode_change change)
{
	return change_names[change];
}

int episode_change_from_name(const char *name, enum episode_change *ret)
{
	return enum_from_name(change_names, ARRAY_SIZE(change_names), name, ret);
}

/* ---- nothing known yet ---- */

void anomaly_init(struct anomaly *a)
{
	*a = (struct anomaly){
		.start_ticks = U64_UNKNOWN,
		.sheet_num = SHEET_NONE,
		.metric_value = F64_UNKNOWN,
		.threshold = F64_UNKNOWN,
	};
}

void anomaly_host_init(struct anomaly_host *host)
{
	*host = (struct anomaly_host){
		.memory_total_bytes = U64_UNKNOWN,
		.memory_available_bytes = U64_UNKNOWN,
		.swap_free_bytes = U64_UNKNOWN,
		.load1 = F64_UNKNOWN,
		.cpu_some = F64_UNKNOWN,
		.memory_some = F64_UNKNOWN,
		.memory_full = F64_UNKNOWN,
		.io_some = F64_UNKNOWN,
		.io_full = F64_UNKNOWN,
		.n_processes = U64_UNKNOWN,
		.running_jobs = -1,
	};
}

void anomaly_evidence_init(struct anomaly_evidence *e)
{
	*e = (struct anomaly_evidence){
		.fast_interval_seconds = F64_UNKNOWN,
		.n_files_open = U64_UNKNOWN,
	};
}

bool episode_is_worse(const struct episode *e, const struct episode *than)
{
	if (e->worst.severity != than->worst.severity)
		return e->worst.severity > than->worst.severity;
	if (!e->unit || !than->unit || strcmp(e->unit, than->unit) != 0)
		return false;
	return strcmp(e->unit, ANOMALY_UNIT_AVAILABLE) == 0 ? e->peak_value < than->peak_value
							    : e->peak_value > than->peak_value;
}

uint64_t episode_last_seen(const struct episode *e)
{
	return u64_max_known(u64_max_known(e->seen_wall_ns, e->peak_wall_ns), e->began_wall_ns);
}

bool episode_end_is_unseen(const struct episode *e)
{
	static const char *const reasons[] = { EPISODE_UNWATCHED, EPISODE_UNSEEN,
					       EPISODE_ENDED_UNSEEN, EPISODE_UNMEASURED,
					       EPISODE_BOOTED };

	for (size_t i = 0; e->why_cleared && i < ARRAY_SIZE(reasons); i++)
		if (strcmp(e->why_cleared, reasons[i]) == 0)
			return u64_known(e->ended_wall_ns);
	return false;
}

void episode_recall(struct episode *e, const struct episode_moment *m)
{
	e->worst.severity = m->severity;
	snprintf(e->worst.text, sizeof(e->worst.text), "%s", m->text);
	if (m->change == EPISODE_CLEARED) {
		e->cleared_wall_ns = m->wall_ns;
		return;
	}
	if (m->change == EPISODE_BEGAN)
		e->count = 1;
	e->seen_wall_ns = m->wall_ns;
	e->worst.metric_value = m->value;
	e->peak_value = m->value;
	e->peak_wall_ns = m->wall_ns;
	e->ended_wall_ns = U64_UNKNOWN;
	e->after_value = e->seconds_to_limit = F64_UNKNOWN;
	e->why_cleared = NULL;
}

uint64_t episode_change_time(const struct episode *e, enum episode_change change)
{
	return change == EPISODE_BEGAN	       ? e->began_wall_ns
	       : change == EPISODE_ESCALATED   ? e->peak_wall_ns
	       : u64_known(e->cleared_wall_ns) ? e->cleared_wall_ns
					       : e->ended_wall_ns;
}

void episode_init(struct episode *e)
{
	*e = (struct episode){ 0 };
	columns_clear(&episode_columns, e);
	anomaly_init(&e->worst);
	anomaly_host_init(&e->host);
}

void episode_set_job(struct episode *e, const char *job_id)
{
	snprintf(e->job_id, sizeof(e->job_id), "%s", job_id ? job_id : "");
	e->worst.job_id = job_id ? e->job_id : NULL;
}

void episode_copy(struct episode *to, const struct episode *from)
{
	*to = *from;
	if (to->worst.job_id)
		to->worst.job_id = to->job_id;
}

int episode_keep(struct episode *to, const struct episode *from, struct arena *arena)
{
	episode_copy(to, from);
	to->evidence = NULL;
	if (!arena_keep(arena, &to->unit) || !arena_keep(arena, &to->why_cleared) ||
	    !arena_keep(arena, &to->host_json) || !arena_keep(arena, &to->evidence_json))
		return -ENOMEM;
	return 0;
}

int episode_append(struct attempt *a, const struct episode *e)
{
	size_t n = a->details.n_anomalies;
	int r;

	/* Twice the room whenever n is a power of two: an arena takes nothing back. */
	if ((n & (n - 1)) == 0) {
		struct episode *grown = arena_alloc(&a->arena, (n ? 2 * n : 1) * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		for (size_t i = 0; i < n; i++)
			episode_copy(&grown[i], &a->details.anomalies[i]);
		a->details.anomalies = grown;
	}
	r = episode_keep(&a->details.anomalies[n], e, &a->arena);
	if (r == 0)
		a->details.n_anomalies++;
	return r;
}
