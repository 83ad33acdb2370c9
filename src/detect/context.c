#include "detect/context.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

static double cpu_of(const struct proc_sample *p)
{
	return f64_known(p->cpu_percent) ? p->cpu_percent : 0;
}

static double memory_of(const struct proc_sample *p)
{
	return u64_known(p->rss_bytes) ? (double)p->rss_bytes : 0;
}

typedef double rank_fn(const struct proc_sample *p);

/* Keeps the largest so many, in order; what has nothing is not among them. */
static void offer(const struct proc_sample **top, size_t *n, const struct proc_sample *p,
		  rank_fn *rank)
{
	size_t i = *n;

	if (!(rank(p) > 0) || (*n == ANOMALY_TOP && rank(p) <= rank(top[*n - 1])))
		return;
	if (*n < ANOMALY_TOP)
		(*n)++;
	else
		i--;
	for (; i > 0 && rank(p) > rank(top[i - 1]); i--)
		top[i] = top[i - 1];
	top[i] = p;
}

static struct anomaly_process describe_process(const struct proc_sample *p)
{
	struct anomaly_process ret = {
		.key = p->key,
		.cpu_percent = p->cpu_percent,
		.rss_bytes = p->rss_bytes,
	};

	memcpy(ret.comm, p->comm, sizeof(ret.comm));
	snprintf(ret.job_id, sizeof(ret.job_id), "%s", p->job_id ? p->job_id : "");
	return ret;
}

static size_t find_top(const struct snapshot *s, rank_fn *rank, struct anomaly_process *ret)
{
	const struct proc_sample *top[ANOMALY_TOP];
	size_t n = 0;

	for (size_t i = 0; i < s->n_processes; i++)
		offer(top, &n, &s->processes[i], rank);
	for (size_t i = 0; i < n; i++)
		ret[i] = describe_process(top[i]);
	return n;
}

/* Of those that are of no job it may be unknown, which is not little. What has ended has none. */
static bool knows_memory(const struct snapshot *s)
{
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct proc_sample *p = &s->processes[i];

		if (!u64_known(p->rss_bytes) && p->state != 'Z' && p->state != 'X')
			return false;
	}
	return true;
}

void context_describe(const struct snapshot *s, struct anomaly_host *ret)
{
	const struct system_sample *sys = &s->system;

	*ret = (struct anomaly_host){
		.memory_total_bytes = sys->memory_total_bytes,
		.memory_available_bytes = sys->memory_available_bytes,
		.swap_free_bytes = sys->swap_free_bytes,
		.load1 = sys->load1,
		.cpu_some = sys->psi_cpu.some.avg10,
		.memory_some = sys->psi_memory.some.avg10,
		.memory_full = sys->psi_memory.full.avg10,
		.io_some = sys->psi_io.some.avg10,
		.io_full = sys->psi_io.full.avg10,
		.n_processes = sys->process_count,
		.running_jobs = s->covers == COVERS_HOST ? s->running_jobs : -1,
		.knows_cpu = s->covers == COVERS_HOST,
		.knows_rss = s->covers == COVERS_HOST && knows_memory(s),
	};
	if (s->covers != COVERS_HOST)
		return; /* the job itself is not what else there was */
	ret->n_top_cpu = find_top(s, cpu_of, ret->top_cpu);
	ret->n_top_rss = find_top(s, memory_of, ret->top_rss);
}
