/*
 * made_up - samples as a busy host has them: of the processes 30 % are active, in bursts.
 */
#ifndef PROCTOR_BENCH_MADE_UP_H
#define PROCTOR_BENCH_MADE_UP_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/unknown.h"
#include "model/snapshot.h"

#define JOB "bench"
#define INTERVAL_NS UINT64_C(5000000000)

static inline unsigned below(unsigned n, unsigned *seed)
{
	return (unsigned)rand_r(seed) % n;
}

/* A page of them for each 2 MB, which stays, and those above. */
static inline uint64_t page_tables(uint64_t hwm_bytes)
{
	return (8 + hwm_bytes / (UINT64_C(2) << 20)) * 4096;
}

static inline void begin_process(struct proc_sample *p, unsigned i)
{
	p->key = (struct proc_key){ (pid_t)(20000 + i), 1000000 + i };
	p->ppid = 20000;
	p->state = 'S';
	snprintf(p->comm, sizeof(p->comm), "worker-%u", i);
	p->command = "python3 /srv/pipeline/worker.py --queue default --concurrency 4";
	p->cgroup = "/user.slice/user-1000.slice/session-3.scope";
	p->job_id = JOB;
	p->sheet_num = 1;
	p->start_wall_ns = UINT64_C(1700000000000000000) + i;
	p->uid = 1000;
	p->ns_pid = 20000 + i;
	p->vms_bytes = UINT64_C(512) << 20;
	p->rss_bytes = p->hwm_bytes = (UINT64_C(20) << 20) + i * 4096;
	p->rss_anon_bytes = p->rss_bytes / 2;
	p->rss_file_bytes = p->rss_bytes / 2;
	p->page_table_bytes = page_tables(p->hwm_bytes);
	p->rss_shmem_bytes = p->swap_bytes = p->major_faults = 0;
	p->cpu_ns = p->user_ns = p->system_ns = p->child_user_ns = p->child_system_ns = 0;
	p->rchar = p->wchar = p->syscr = p->syscw = p->read_bytes = p->write_bytes = 0;
	p->minor_faults = p->voluntary_switches = p->involuntary_switches = 0;
	p->threads = 4;
	p->open_fds = 32;
	p->fd_limit = 1024;
}

/* Five ticks long, and 30 % of the time. */
static inline bool go_active(bool is_active, unsigned *seed)
{
	return is_active ? below(1000, seed) >= 200 : below(1000, seed) < 86;
}

static inline uint64_t whole_ticks(double ns)
{
	return (uint64_t)(ns / 1e7) * UINT64_C(10000000);
}

static inline void use_cpu(struct proc_sample *p, uint64_t elapsed_ns, unsigned *seed)
{
	uint64_t used = elapsed_ns / 1000000 * below(1000000, seed) + below(1000, seed);
	/* The clock is looked at once more when the scheduler's count is read. */
	double between_ns = (double)(elapsed_ns + below(4000, seed)) - 2000;

	p->cpu_ns += used;
	p->user_ns = whole_ticks((double)p->cpu_ns * 0.85);
	p->system_ns = whole_ticks((double)p->cpu_ns * 0.15);
	p->cpu_percent = round(10000.0 * (double)used / between_ns) / 100.0;
	p->minor_faults += below(500, seed);
	p->voluntary_switches += below(300, seed);
	p->involuntary_switches += below(20, seed);
}

static inline void use_memory(struct proc_sample *p, unsigned *seed)
{
	if (below(2, seed))
		p->rss_anon_bytes += (uint64_t)4096 * below(128, seed);
	else if (p->rss_anon_bytes > UINT64_C(1) << 20)
		p->rss_anon_bytes -= (uint64_t)4096 * below(126, seed);
	p->rss_bytes = p->rss_anon_bytes + p->rss_file_bytes;
	p->hwm_bytes = u64_max_known(p->hwm_bytes, p->rss_bytes);
	p->page_table_bytes = page_tables(p->hwm_bytes);
	if (below(20, seed) == 0)
		p->open_fds = 30 + below(6, seed);
}

static inline void use_files(struct proc_sample *p, unsigned *seed)
{
	p->rchar += below(100000, seed);
	p->wchar += below(50000, seed);
	p->syscr += below(100, seed);
	p->syscw += below(50, seed);
	p->write_bytes += (uint64_t)4096 * below(16, seed);
	if (below(8, seed) == 0)
		p->read_bytes += (uint64_t)4096 * below(64, seed);
}

/* boot_ns: when it is read. state tells whether it was active at the tick before. */
static inline void go_on(struct proc_sample *p, uint64_t boot_ns, unsigned *seed)
{
	uint64_t elapsed_ns = boot_ns - (u64_known(p->boot_ns) ? p->boot_ns : 0);
	bool is_active = go_active(p->state == 'R', seed);

	p->boot_ns = boot_ns;
	p->state = is_active ? 'R' : 'S';
	p->cpu_percent = 0;
	if (!is_active)
		return;
	use_cpu(p, elapsed_ns, seed);
	use_memory(p, seed);
	use_files(p, seed);
}

static inline void go_on_host(struct snapshot *s, unsigned *seed)
{
	struct system_sample *y = &s->system;

	y->memory_total_bytes = UINT64_C(16) << 30;
	y->memory_available_bytes = (UINT64_C(8) << 30) + (uint64_t)4096 * below(100000, seed);
	y->memory_used_bytes = y->memory_total_bytes - y->memory_available_bytes;
	y->load1 = below(800, seed) / 100.0;
	y->load5 = below(400, seed) / 100.0;
	y->load15 = below(200, seed) / 100.0;
	y->cpu_user_ns = (uint64_t)10000000 * below(1000, seed) + s->boot_ns / 2;
	y->cpu_system_ns = (uint64_t)10000000 * below(100, seed) + s->boot_ns / 8;
	y->cpu_idle_ns = (uint64_t)10000000 * below(1000, seed) + s->boot_ns;
	y->cpu_count = 8;
	y->process_count = 300 + below(20, seed);
	y->forks_total = s->boot_ns / 10000000 + below(50, seed);
	y->uptime_seconds = (double)(s->boot_ns / 10000000) / 100.0;
	y->psi_cpu.some.avg10 = below(1000, seed) / 100.0;
	y->psi_cpu.some.total_us = s->boot_ns / 9000 + below(10000, seed);
}

/* Tick k: processes are read one after the other, 8 to 16 us each. */
static inline void go_on_all(struct snapshot *s, uint64_t start_wall_ns, unsigned k, unsigned *seed)
{
	uint64_t boot_ns;

	s->boot_ns = boot_ns = UINT64_C(86400000000000) + k * INTERVAL_NS + below(300000, seed);
	s->wall_ns = start_wall_ns + s->boot_ns;
	go_on_host(s, seed);
	for (size_t i = 0; i < s->n_processes; i++) {
		boot_ns += 8000 + below(8000, seed);
		go_on(&s->processes[i], boot_ns, seed);
		s->processes[i].age_seconds = (double)(s->boot_ns - i * 10000000) / 1e9;
	}
}

#endif
