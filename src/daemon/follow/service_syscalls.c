#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/follow/follow.h"

/*
 * The system calls of the jobs' processes, by eBPF. It is loaded with the first job, counts
 * while there is one, and is not tried again where it cannot be.
 */

/* What each process has called, as text: of one job, and of all together. */
#define MAX_JOB_TEXT_BYTES (1 << 20)
#define MAX_TEXT_BYTES (8 << 20)

/* What the processes of a job that have ended have called. */
struct job_calls {
	int64_t attempt_id;
	uint64_t uid; /* whose it is */
	struct counted_calls calls;
	struct syscalls_lost lost_before; /* of all jobs, when this one began: of which job those
					   * are that come later nobody knows
					   */
	bool is_over;			  /* to be written down */
	struct job_calls *next, **at;	  /* where it is in the list */
};

/* ---- sums ---- */

/* Where it is in the list; *it is NULL: nowhere. */
static struct job_calls **find_job(struct service *s, int64_t attempt_id)
{
	uint64_t found;

	s->syscalls.no_job = NULL;
	return map_get(&s->syscalls.by_attempt, (uint64_t)attempt_id, &found)
		       ? ((struct job_calls *)(uintptr_t)found)->at
		       : &s->syscalls.no_job;
}

static int add_job(struct service *s, struct job_calls *job)
{
	struct job_calls **first = &s->syscalls.jobs;

	if (map_put(&s->syscalls.by_attempt, (uint64_t)job->attempt_id, (uintptr_t)job) < 0)
		return -ENOMEM;
	job->next = *first;
	job->at = first;
	if (job->next)
		job->next->at = &job->next;
	*first = job;
	return 0;
}

static void drop_job(struct service *s, struct job_calls **at)
{
	struct job_calls *job = *at;

	*at = job->next;
	if (job->next)
		job->next->at = at;
	map_remove(&s->syscalls.by_attempt, (uint64_t)job->attempt_id);
	s->syscalls.n_text_bytes -= job->calls.processes.n_bytes;
	counted_calls_release(&job->calls);
	free(job);
}

static void keep_process(struct service *s, struct job_calls *job, const struct syscall_process *p)
{
	struct process_calls *processes = &job->calls.processes;
	size_t before = processes->n_bytes, room = MAX_TEXT_BYTES - s->syscalls.n_text_bytes;

	processes->max_bytes =
		before + room < MAX_JOB_TEXT_BYTES ? before + room : MAX_JOB_TEXT_BYTES;
	counted_calls_add(&job->calls, p);
	s->syscalls.n_text_bytes += processes->n_bytes - before;
}

/* Who has ended is told once; who has not counts when its job ends. */
struct summing {
	struct service *service;
	uint64_t ending; /* the job that does; 0: none */
	bool is_last;	 /* all do */
};

static void sum_process(void *ctx, const struct syscall_process *p)
{
	const struct summing *summing = ctx;
	struct job_calls *job = *find_job(summing->service, (int64_t)p->tag);

	if (!job || !(p->is_ended || summing->is_last || p->tag == summing->ending))
		return;
	if (may_see(job->uid, p->uid, summing->service->root_fd, p->pid))
		keep_process(summing->service, job, p);
	else
		counted_calls_withhold(&job->calls, p);
}

/* ---- which jobs ---- */

static bool open_syscalls(struct service *s)
{
	const struct syscalls_options options = {
		.time_every = (unsigned)s->settings.config->syscalls_time_every
	};
	struct syscalls_state *state = &s->syscalls;
	struct err err = ERR_INIT;

	if (state->syscalls || state->is_refused)
		return state->syscalls != NULL;
	state->time_every = options.time_every;
	if (syscalls_open(&options, &state->syscalls, &err) < 0) {
		state->is_refused = true;
		service_set_rung(s, (struct rung){ SOURCES_RUNG_SYSCALLS, "unknown", err.text });
		return false;
	}
	service_set_rung(s, (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" });
	return true;
}

/* Nothing is loaded before there is a job. Where other programs are, these are likely to load too.
 */
void service_describe_calls(struct service *s)
{
	struct rung taken = { SOURCES_RUNG_SYSCALLS, RUNG_UNKNOWN,
			      "eBPF programs for it are tried with the first job" };

	if (!s->settings.options->config->ebpf_enabled)
		taken.reason = SOURCES_EBPF_FORBIDDEN;
	else if (!s->settings.config->syscalls_enabled)
		taken.reason = SOURCES_SYSCALLS_FORBIDDEN;
	else if (s->life.life && life_sees_signals(s->life.life))
		taken = (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF,
				       "loaded with the first job" };
	service_set_rung(s, taken);
}

/* And is not counted yet. One that was cancelled before it began has nobody to be counted. */
static bool is_wanted(struct service *s, const struct watched *job)
{
	return s->settings.config->syscalls_enabled && s->settings.options->config->ebpf_enabled &&
	       !job->is_uncounted && job->a.runner.pid > 0 && !*find_job(s, job->a.id);
}

/* Of an attached job that is its first process; else its own calls are not the job's. */
static int track(struct syscalls *syscalls, const struct watched *job)
{
	return (job->a.is_attached ? syscalls_track : syscalls_track_runner)(
		syscalls, job->a.runner.pid, (uint64_t)job->a.id);
}

static int begin_job(struct service *s, const struct watched *job)
{
	struct job_calls *calls = calloc(1, sizeof(*calls));
	int r = calls ? track(s->syscalls.syscalls, job) : -ENOMEM;

	if (r < 0) {
		free(calls);
		return r;
	}
	calls->attempt_id = job->a.id;
	calls->uid = job->a.uid;
	calls->calls.time_every = s->syscalls.time_every;
	calls->lost_before = s->syscalls.lost;
	r = add_job(s, calls);
	if (r < 0) {
		syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->a.id);
		free(calls);
	}
	return r;
}

/* A kernel may let it be loaded, and not be armed. */
static void say_unarmed(struct service *s)
{
	struct err err = ERR_INIT;

	if (!syscalls_is_armed(s->syscalls.syscalls) &&
	    syscalls_check(s->syscalls.syscalls, &err) < 0)
		service_set_rung(s, (struct rung){ SOURCES_RUNG_SYSCALLS, "unknown", err.text });
}

/* What was short when another job began may be there again. */
static void say_armed(struct service *s)
{
	if (syscalls_is_armed(s->syscalls.syscalls))
		service_set_rung(
			s, (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" });
}

static void count_job(struct service *s, const struct watched *job)
{
	int r = is_wanted(s, job) ? begin_job(s, job) : -ESRCH;

	if (r == 0)
		say_armed(s);
	if (r == 0 || r == -ESRCH)
		return;
	log_warning("the system calls of job %s are not counted: %s", job->job_id, strerror(-r));
	say_unarmed(s);
}

static void on_timer(void *ctx)
{
	struct service *s = ctx;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	int r;

	if (n == 0 || !open_syscalls(s))
		return;
	syscalls_begin_many(s->syscalls.syscalls);
	for (size_t i = 0; i < n; i++)
		count_job(s, jobs[i]);
	r = syscalls_end_many(s->syscalls.syscalls);
	if (r < 0)
		log_warning("the system calls of what runs already are not all counted: %s",
			    strerror(-r));
}

static void open_soon(struct service *s)
{
	struct syscalls_state *state = &s->syscalls;

	if (!state->timer)
		state->timer = loop_timer_new(s->loop, on_timer, s);
	if (state->timer)
		loop_timer_set(state->timer, 1, 0);
}

void service_count_calls_of(struct service *s, const struct watched *job)
{
	if (s->syscalls.syscalls)
		count_job(s, job);
	else if (is_wanted(s, job) && !s->syscalls.is_refused)
		open_soon(s);
}

bool service_count_calls_now(struct service *s, const struct watched *job)
{
	if (is_wanted(s, job) && open_syscalls(s))
		count_job(s, job);
	return *find_job(s, job->a.id) != NULL;
}

/* What the kernel side had no room for is missed in the sums of whoever is counted. */
static int read_calls(struct service *s)
{
	struct syscalls_lost lost;
	int r = syscalls_read(s->syscalls.syscalls, &lost);

	if (r < 0)
		return r;
	s->syscalls.lost.calls += lost.calls;
	s->syscalls.lost.threads += lost.threads;
	return 0;
}

static void leave_job(const struct service *s, struct job_calls *job)
{
	job->calls.lost.calls = s->syscalls.lost.calls - job->lost_before.calls;
	job->calls.lost.threads = s->syscalls.lost.threads - job->lost_before.threads;
	job->is_over = true;
}

/* Also of a job that goes on without us: whoever counts it later adds to that. */
static void end_job(struct service *s, struct job_calls *job)
{
	struct summing summing = { s, (uint64_t)job->attempt_id, false };

	if (job->is_over)
		return;
	if (read_calls(s) == 0)
		syscalls_each(s->syscalls.syscalls, sum_process, &summing);
	syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->attempt_id);
	leave_job(s, job);
}

/* In one go, however many: nothing is to be untracked, as what counts them ends as well. */
static void end_all(struct service *s)
{
	struct summing summing = { s, 0, true };

	if (!s->syscalls.jobs)
		return;
	if (read_calls(s) == 0)
		syscalls_each(s->syscalls.syscalls, sum_process, &summing);
	for (struct job_calls *job = s->syscalls.jobs; job; job = job->next)
		if (!job->is_over)
			leave_job(s, job);
}

void service_sum_calls_of(struct service *s, const struct watched *job)
{
	struct job_calls **at = find_job(s, job->a.id);

	if (*at)
		end_job(s, *at);
}

/* Of each process no more than whose they are. */
static void log_totals(struct service *s, struct job_calls *job)
{
	const struct process_calls *calls = &job->calls.processes;
	const struct call_sums *sums = &job->calls.sums;
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct attempt a = { .id = job->attempt_id };

	call_sums_settle(&job->calls.sums);
	counted_calls_say_missing(&job->calls, &why);
	counted_calls_say_error(&job->calls, &why);
	a.syscalls = sums->uses;
	a.n_syscalls = sums->n;
	a.processes = calls->n ? calloc(calls->n, sizeof(*a.processes)) : NULL;
	a.n_processes = a.processes ? calls->n : 0;
	for (size_t i = 0; i < a.n_processes; i++) {
		proc_record_init(&a.processes[i]);
		a.processes[i].key = calls->items[i].key;
		a.processes[i].syscalls = calls->items[i].text;
	}
	s->syscalls.n_totals_lost += !service_log_calls(s, &a, why.len > 0 ? why.data : NULL);
	free(a.processes);
}

void service_record_calls(struct service *s)
{
	struct job_calls **at = &s->syscalls.jobs;

	while (*at)
		if ((*at)->is_over) {
			log_totals(s, *at);
			drop_job(s, at);
		} else {
			at = &(*at)->next;
		}
}

/* ---- for its runner ---- */

#define MAX_ANSWER_BYTES (1 << 20) /* of texts */

/* Runners ask as often as they like: reading takes no more than one part in so many of our time. */
#define READ_COST_LIMIT 50

static void read_if_due(struct service *s)
{
	uint64_t now = clock_boot_ns();

	if (now < s->syscalls.read_due_boot_ns)
		return;
	(void)read_calls(s); /* or it is what was read last */
	s->syscalls.read_due_boot_ns = now + READ_COST_LIMIT * (clock_boot_ns() - now);
}

struct living {
	const struct service *service;
	uint64_t uid;
	struct process_calls calls;
};

static void add_living(void *ctx, const struct syscall_process *p)
{
	const struct proc_key key = { p->pid, p->start_ticks };
	struct living *living = ctx;

	if (p->pid > 0 && may_see(living->uid, p->uid, living->service->root_fd, p->pid))
		process_calls_add(&living->calls, &key, p->uses, p->n_uses);
}

void service_write_calls_of(struct service *s, int64_t attempt_id, bool is_final, struct json *j)
{
	struct job_calls **at = find_job(s, attempt_id);
	bool is_counted = *at && (is_final || !(*at)->is_over);

	json_key_bool(j, "counted", is_counted);
	if (!is_counted)
		return;
	if (is_final) {
		end_job(s, *at);
		counted_calls_write(j, &(*at)->calls);
		drop_job(s, at);
	} else {
		struct living living = { s, (*at)->uid, { .max_bytes = MAX_ANSWER_BYTES } };

		read_if_due(s);
		syscalls_each_living(s->syscalls.syscalls, (uint64_t)attempt_id, add_living,
				     &living);
		json_key(j, "processes");
		counted_calls_write_processes(j, &living.calls);
		json_key_u64(j, "untold_processes", living.calls.n_untold);
		process_calls_release(&living.calls);
	}
}

void service_leave_calls_of(struct service *s, struct watched *job)
{
	struct job_calls **at = find_job(s, job->a.id);

	job->is_uncounted = true;
	if (!*at)
		return;
	syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->a.id);
	drop_job(s, at);
}

/* ---- at each tick ---- */

static bool has_job_of_others(const struct service *s)
{
	const struct job_calls *job = s->syscalls.jobs;

	while (job && job->uid == 0)
		job = job->next;
	return job != NULL;
}

/* Samples of a job are for its user, whom they are not to tell that nothing was called either. */
static void withhold_samples(struct service *s)
{
	if (!has_job_of_others(s)) /* or all samples of the host are looked at */
		return;
	for (size_t i = 0; i < s->scan.snap.n_processes; i++) {
		struct proc_sample *p = &s->scan.snap.processes[i];
		const struct job_calls *job = p->syscalls ? *find_job(s, p->attempt_id) : NULL;

		if (!job || may_see(job->uid, p->owner, -1, 0))
			continue;
		p->syscalls = NULL;
		p->n_syscalls = 0;
	}
}

static int compare_pids(const void *left, const void *right)
{
	const struct proc_sample *l = left, *r = right;

	return COMPARE(l->key.pid, r->key.pid);
}

/* What a runner has counted of a process, which its samples have. Later ones come later. */
static int take_recorded(void *ctx, const struct history_row *row)
{
	const struct proc_sample *from = &row->sample;
	struct snapshot *snap = ctx;
	struct proc_sample *p = snap->n_processes > 0 && from->syscalls
					? bsearch(from, snap->processes, snap->n_processes,
						  sizeof(*p), compare_pids)
					: NULL;
	struct syscall_use *uses;

	if (!p || p->key.start_ticks != from->key.start_ticks)
		return 0;
	uses = arena_alloc(&snap->arena, (from->n_syscalls + 1) * sizeof(*uses));
	for (size_t i = 0; uses && i < from->n_syscalls; i++) {
		uses[i] = from->syscalls[i];
		uses[i].name = arena_strdup(&snap->arena, uses[i].name);
		uses = uses[i].name ? uses : NULL;
	}
	p->syscalls = uses; /* without memory they are unknown */
	p->n_syscalls = uses ? from->n_syscalls : 0;
	return 0;
}

/* So old the samples of a runner may be that say what was called. */
#define RECORDED_TICKS 2.5
#define RECORDED_SECONDS 5.0

/* Jobs whose runners count for themselves. */
static void fill_from_record(struct service *s)
{
	uint64_t now = clock_wall_ns();
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; s->store && i < n; i++) {
		const double seconds =
			fmax(RECORDED_TICKS * jobs[i]->a.interval_seconds, RECORDED_SECONDS);
		const struct history_filter filter = {
			.job_id = jobs[i]->job_id,
			.since_wall_ns = now - (uint64_t)(seconds * 1e9),
		};

		if (jobs[i]->is_uncounted && jobs[i]->n_processes > 0)
			store_read_history(s->store, &filter, take_recorded, &s->scan.snap, NULL);
	}
}

int service_count_calls(struct service *s, struct err *err)
{
	struct summing summing = { s, 0, false };
	int r;

	if (s->scan.has_snap)
		fill_from_record(s);
	if (!s->scan.has_snap || !s->syscalls.jobs)
		return 0;
	r = read_calls(s);
	if (r < 0)
		return err_set(err, r, "cannot read what was counted: %s", strerror(-r));
	syscalls_fill(s->syscalls.syscalls, &s->scan.snap);
	withhold_samples(s);
	syscalls_each_ended(s->syscalls.syscalls, sum_process, &summing);
	return 0;
}

void service_close_syscalls(struct service *s)
{
	end_all(s);
	service_record_calls(s);
	while (s->syscalls.jobs)
		drop_job(s, &s->syscalls.jobs);
	if (s->syscalls.timer)
		loop_timer_close(s->syscalls.timer);
	s->syscalls.timer = NULL;
	map_release(&s->syscalls.by_attempt);
	s->syscalls.syscalls = syscalls_close(s->syscalls.syscalls);
}
