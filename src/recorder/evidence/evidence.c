#include "recorder/evidence/evidence.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/may_see.h"
#include "sources/sources.h"

static const struct proc_sample *find_sample(const struct snapshot *s, struct proc_key key)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].key.pid == key.pid &&
		    s->processes[i].key.start_ticks == key.start_ticks)
			return &s->processes[i];
	return NULL;
}

/* ---- system calls ---- */

static uint64_t total_cpu_ns(const struct proc_sample *p)
{
	uint64_t total = 0;

	for (size_t i = 0; i < p->n_syscalls; i++)
		total = u64_add_known(total, p->syscalls[i].cpu_ns);
	return total;
}

static bool is_more(const struct anomaly_syscall *a, const struct anomaly_syscall *b)
{
	if (f64_known(a->time_pct) && f64_known(b->time_pct) && a->time_pct != b->time_pct)
		return a->time_pct > b->time_pct;
	return a->count > b->count;
}

/* Into its place among the largest; the last of a full list makes room. */
static void insert_call(struct anomaly_evidence *e, const struct anomaly_syscall *call)
{
	size_t at = e->n_syscalls;

	if (at == ARRAY_SIZE(e->syscalls) && !is_more(call, &e->syscalls[--at]))
		return;
	for (; at > 0 && is_more(call, &e->syscalls[at - 1]); at--)
		e->syscalls[at] = e->syscalls[at - 1];
	e->syscalls[at] = *call;
	if (e->n_syscalls < ARRAY_SIZE(e->syscalls))
		e->n_syscalls++;
}

static void take_calls(const struct proc_sample *p, struct anomaly_evidence *e)
{
	uint64_t total = total_cpu_ns(p);

	e->has_syscalls = true;
	for (size_t i = 0; i < p->n_syscalls; i++) {
		const struct syscall_use *use = &p->syscalls[i];
		struct anomaly_syscall call = { .count = use->count, .time_pct = F64_UNKNOWN };

		snprintf(call.name, sizeof(call.name), "%s", use->name);
		if (u64_known(use->cpu_ns) && total > 0)
			call.time_pct = 100.0 * (double)use->cpu_ns / (double)total;
		insert_call(e, &call);
	}
}

/* ---- all of it ---- */

static void gather(const struct evidence_from *from, struct proc_key key,
		   struct anomaly_evidence *ret)
{
	const struct proc_sample *p = find_sample(from->snap, key);

	if (sources_read_open_files(from->root_fd, key, from->mask, ret) == 0 &&
	    !u64_known(ret->n_files_open) && p)
		ret->n_files_open = p->open_fds; /* more than are worth counting again */
	if (p && p->syscalls)
		take_calls(p, ret);
}

/* Asked before and after: it may run another program at any time. */
bool evidence_gather(const struct evidence_from *from, const struct episode *e,
		     struct anomaly_evidence *ret)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };

	anomaly_evidence_init(ret);
	if (!e->worst.has_pid || !u64_known(key.start_ticks) ||
	    !may_see(from->uid, U64_UNKNOWN, from->root_fd, key.pid))
		return false;
	gather(from, key, ret);
	if (!may_see(from->uid, U64_UNKNOWN, from->root_fd, key.pid))
		anomaly_evidence_init(ret);
	return ret->n_files > 0 || u64_known(ret->n_files_open) || ret->has_syscalls;
}
