/*
 * store_host - a day in the life of a host: snapshots with all that one can hold.
 */
#ifndef PROCTOR_TESTS_STORE_HOST_H
#define PROCTOR_TESTS_STORE_HOST_H

#include "store_fixture.h"

static inline void add_gpus(struct snapshot *s, unsigned k)
{
	size_t n = k % 50 == 7 ? 1 : 2; /* one falls off the bus now and then */

	if (k % 90 == 5)
		return; /* nobody could look */
	s->gpus = arena_alloc(&s->arena, 2 * sizeof(*s->gpus));
	for (size_t i = 0; i < n; i++)
		s->gpus[i] =
			(struct gpu_sample){ .index = (int)i,
					     .utilization_pct = k % 101,
					     .memory_used_mb = 1000.5 + k,
					     .memory_total_mb = 81559.0,
					     .temperature_c = k % 3 ? 45 : F64_UNKNOWN,
					     .power_watts = 112.345 + k,
					     .energy_joules = 1e9 + k / 1000.0,
					     .sm_clock_mhz = 1980,
					     .throttle = k % 5 ? UINT64_C(1) << k % 9 : U64_UNKNOWN,
					     .ecc_errors = k % 7 ? 0 : U64_UNKNOWN,
					     .last_xid = k % 8 ? U64_UNKNOWN : 79 };
	s->n_gpus = k % 60 == 9 ? 0 : n; /* looked, and found none */
}

static inline void add_cgroups(struct snapshot *s, unsigned k)
{
	static const char *const paths[] = { "/user.slice", "/system.slice/\"é\".scope" };

	if (k % 80 == 3)
		return;					   /* nobody could look */
	s->n_cgroups = k % 70 == 11 ? 0 : 1 + k / 100 % 2; /* looked, and found none */
	s->cgroups = arena_alloc(&s->arena, 2 * sizeof(*s->cgroups));
	for (size_t i = 0; i < s->n_cgroups; i++) {
		struct cgroup_sample *c = &s->cgroups[i];

		cgroup_sample_init(c);
		c->path = paths[(i + k / 150) % 2];
		c->memory_current_bytes = k % 17 ? k * UINT64_C(40961) : U64_UNKNOWN;
		c->memory_high_bytes = MEMORY_UNLIMITED;
		c->memory_max_bytes = i ? UINT64_C(1) << 40 : MEMORY_UNLIMITED;
		c->oom_kills = k / 120;
		if (i == 0)
			c->psi_memory.some = (struct psi_line){ 0.25, k / 100.0, 99.99, k * k };
	}
}

static inline void add_progress(struct snapshot *s, unsigned k)
{
	static const char *const states[] = { "running", "queued", "done \"é\"" };

	s->n_progress = k % 4;
	s->progress = arena_alloc(&s->arena, 4 * sizeof(*s->progress));
	for (size_t i = 0; i < s->n_progress; i++)
		s->progress[i] = (struct job_progress){
			.job_id = i ? "other" : "j",
			.total_sheets = 9,
			.last_completed_sheet = (int)k / 40,
			.current_sheet = k % 5 ? (int)k / 40 + 1 : SHEET_NONE,
			.status = states[(k / 30 + i) % 3],
		};
}

static inline void set_process(struct proc_sample *p, int i, unsigned k)
{
	p->state = i == 2 && k % 7 == 0 ? 'Z' : i == 1 ? 'R' : 'S';
	p->age_seconds = 1 + (double)k * 0.25;
	p->cpu_ns = k * UINT64_C(1000003);
	p->cpu_percent = (double)(k * 37 % 10000) / 100;
	p->rss_bytes = 4096 * (k * 31 % 1000);
	p->open_fds = k % 11 ? k : U64_UNKNOWN;
	p->sheet_num = 1;
	p->command = k < 130 ? "sh -c ./train" : k < 200 ? "python train.py" : "python: epoch 3";
	snprintf(p->comm, sizeof(p->comm), "%s", k < 130 ? "sh" : "python");
	p->cgroup = "/user.slice";
}

/* Tick number k, with three processes of the job. */
static inline void make_snapshot(struct snapshot *s, const char *job_id, unsigned k)
{
	static const char *const levels[] = { "none", "low", NULL, "", "critical" };

	fill_snapshot(s, job_id, 3, k);
	snprintf(s->boot_id, sizeof(s->boot_id), "6b8a4f1e-0000-4000-8000-123456789abc");
	s->daemon_pid = 77;
	s->daemon_rss_bytes = 5000000 + k;
	s->daemon_uptime_seconds = 1.25 * k;
	s->system.memory_total_bytes = UINT64_C(16) << 30;
	s->system.memory_available_bytes = k % 13 ? k * UINT64_C(4096) : U64_UNKNOWN;
	s->system.load1 = (double)(k % 700) / 100;
	s->system.psi_io.full.total_us = k * k;
	s->system.cpu_count = 8;
	s->running_jobs = (int)k % 3;
	s->active_sheets = 1;
	s->pressure_level = levels[k / 10 % 5];
	add_gpus(s, k);
	add_progress(s, k);
	add_cgroups(s, k);
	for (int i = 0; i < 3; i++)
		set_process(&s->processes[i], i, k);
}

#endif
