#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/call_sums.h"
#include "daemon/service_internal.h"

/*
 * The system calls of the jobs' processes, by eBPF. It is loaded with the first job, counts
 * while there is one, and is not tried again where it cannot be.
 */

/* What the processes of a job that have ended have called, all together. */
struct job_calls {
	int64_t attempt_id;
	pid_t runner; /* its own calls are not the job's */
	struct call_sums sums;
	uint64_t n_lost_before; /* of all jobs' calls, when this one began */
	uint64_t n_lost;	/* until it ended: of which job they were nobody knows */
	bool is_over;		/* to be written down */
	struct job_calls *next;
};

/* ---- sums ---- */

static struct job_calls **find_job(struct service *s, int64_t attempt_id)
{
	struct job_calls **at = &s->syscalls.jobs;

	while (*at && (*at)->attempt_id != attempt_id)
		at = &(*at)->next;
	return at;
}

static void drop_job(struct job_calls **at)
{
	struct job_calls *job = *at;

	*at = job->next;
	call_sums_release(&job->sums);
	free(job);
}

/* Who has ended is told once; who has not counts when its job ends. */
struct summing {
	struct service *service;
	uint64_t ending; /* the job that does; 0: none */
};

static void sum_process(void *ctx, const struct syscall_process *p)
{
	const struct summing *summing = ctx;
	struct job_calls *job = *find_job(summing->service, (int64_t)p->tag);

	if (!job || p->pid == job->runner)
		return;
	if (p->is_ended || p->tag == summing->ending)
		call_sums_add(&job->sums, p->uses, p->n_uses);
}

/* ---- which jobs ---- */

static bool open_syscalls(struct service *s)
{
	struct syscalls_state *state = &s->syscalls;
	struct err err = ERR_INIT;

	if (state->syscalls || state->is_refused)
		return state->syscalls != NULL;
	if (syscalls_open(NULL, &state->syscalls, &err) < 0) {
		state->is_refused = true;
		service_set_rung(s, (struct rung){ SOURCES_RUNG_SYSCALLS, "unknown", err.text });
		return false;
	}
	service_set_rung(s, (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" });
	return true;
}

void service_count_calls_of(struct service *s, const struct watched *job)
{
	struct job_calls *calls;
	int r;

	if (!s->config->syscalls_enabled || !s->options->config->ebpf_enabled || !open_syscalls(s))
		return;
	calls = calloc(1, sizeof(*calls));
	r = calls ? syscalls_track(s->syscalls.syscalls, job->a.runner.pid, (uint64_t)job->a.id)
		  : -ENOMEM;
	if (r < 0) {
		free(calls);
		if (r != -ESRCH)
			log_warning("the system calls of job %s are not counted: %s", job->job_id,
				    strerror(-r));
		return;
	}
	calls->attempt_id = job->a.id;
	calls->runner = job->a.is_attached ? 0 : job->a.runner.pid;
	calls->n_lost_before = s->syscalls.n_lost;
	calls->next = s->syscalls.jobs;
	s->syscalls.jobs = calls;
}

/* What the kernel side had no room for is missed in the sums of whoever is counted. */
static int take_in(struct service *s)
{
	int64_t lost = syscalls_read(s->syscalls.syscalls);

	if (lost < 0)
		return (int)lost;
	s->syscalls.n_lost += (uint64_t)lost;
	return 0;
}

/* Also of a job that goes on without us: whoever counts it later adds to that. */
static void end_job(struct service *s, struct job_calls *job)
{
	struct summing summing = { s, (uint64_t)job->attempt_id };

	if (job->is_over)
		return;
	if (take_in(s) == 0)
		syscalls_each(s->syscalls.syscalls, sum_process, &summing);
	syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->attempt_id);
	job->n_lost = s->syscalls.n_lost - job->n_lost_before;
	job->is_over = true;
}

void service_sum_calls_of(struct service *s, const struct watched *job)
{
	struct job_calls **at = find_job(s, job->a.id);

	if (!*at)
		return;
	end_job(s, *at);
	if (job->is_guest) /* whose database it is in tells, if anybody */
		drop_job(at);
}

void service_leave_calls_of(struct service *s, const struct watched *job)
{
	struct job_calls **at = find_job(s, job->a.id);

	if (!*at)
		return;
	syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->a.id);
	drop_job(at);
}

/* -EBUSY: it is tried again at the next tick. */
static int write_totals(struct service *s, struct job_calls **at, struct err *err)
{
	const struct attempt a = { .id = (*at)->attempt_id };
	const struct call_sums *sums = &(*at)->sums;
	uint64_t n_lost = u64_add((*at)->n_lost, sums->n_left_out);
	char why[128];
	int r = 0;

	snprintf(why, sizeof(why), "up to %llu calls found no room to be counted in",
		 (unsigned long long)n_lost);
	if (s->store)
		r = store_add_syscalls(s->store, &a, sums->uses, sums->n, n_lost ? why : NULL, err);
	if (r != -EBUSY)
		drop_job(at);
	return r;
}

int service_record_calls(struct service *s, struct err *err)
{
	struct job_calls **at = &s->syscalls.jobs;
	int r = 0;

	while (*at && r == 0)
		if ((*at)->is_over)
			r = write_totals(s, at, err);
		else
			at = &(*at)->next;
	return r;
}

/* ---- at each tick ---- */

int service_count_calls(struct service *s, struct err *err)
{
	struct summing summing = { s, 0 };
	int r;

	if (!s->has_snap || !s->syscalls.jobs)
		return 0;
	r = take_in(s);
	if (r < 0)
		return err_set(err, r, "cannot read what was counted: %s", strerror(-r));
	syscalls_fill(s->syscalls.syscalls, &s->snap);
	syscalls_each_ended(s->syscalls.syscalls, sum_process, &summing);
	return 0;
}

void service_close_syscalls(struct service *s)
{
	struct err err = ERR_INIT;

	for (struct job_calls *job = s->syscalls.jobs; job; job = job->next)
		end_job(s, job);
	if (service_record_calls(s, &err) < 0)
		log_warning("the system calls of jobs are not recorded: %s", err.text);
	while (s->syscalls.jobs)
		drop_job(&s->syscalls.jobs);
	s->syscalls.syscalls = syscalls_close(s->syscalls.syscalls);
}
