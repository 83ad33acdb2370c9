#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/follow/follow.h"

/*
 * The system calls of the jobs' processes, by eBPF. It is loaded on another thread when the daemon
 * begins, as that takes the kernel some 80 ms. It counts while there is a job, and is not tried
 * again where it cannot be.
 */

/* What each process has called, as text: of one job, and of all together. */
#define MAX_JOB_TEXT_BYTES (1 << 20)
#define MAX_TEXT_BYTES (8 << 20)

/* What the processes of a job that have ended have called. */
struct job_calls {
	struct counted_calls calls;
	struct syscalls_lost lost_before; /* of all jobs, when this one began: of which job those
					   * are that come later nobody knows */
	struct map told; /* to its runner of each process: by pid, a hash of who and how many */
	size_t n_kept;	 /* of those that lived then, not for its runner */
};

/* ---- sums ---- */

static void drop_job(struct service *s, struct watched *job)
{
	s->syscalls.n_text_bytes -= job->calls->calls.processes.n_bytes;
	s->syscalls.n_jobs--;
	counted_calls_release(&job->calls->calls);
	map_release(&job->calls->told);
	free(job->calls);
	job->calls = NULL;
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
	struct service *s = summing->service;
	struct watched *job = watch_find_attempt(s->watch, (int64_t)p->tag);
	struct process_calls *processes;
	size_t before, room = MAX_TEXT_BYTES - s->syscalls.n_text_bytes;

	if (!job || !job->calls || !(p->is_ended || summing->is_last || p->tag == summing->ending))
		return;
	if (!may_see(job->a.uid, p->uid, s->root_fd, p->pid)) {
		counted_calls_withhold(&job->calls->calls, p);
		return;
	}
	processes = &job->calls->calls.processes;
	before = processes->n_bytes;
	processes->max_bytes =
		before + room < MAX_JOB_TEXT_BYTES ? before + room : MAX_JOB_TEXT_BYTES;
	counted_calls_add(&job->calls->calls, p);
	s->syscalls.n_text_bytes += processes->n_bytes - before;
}

/* ---- which jobs ---- */

/* On any thread. */
static void load(void *ctx)
{
	struct syscalls_state *state = &((struct service *)ctx)->syscalls;
	const struct syscalls_options options = { .time_every = state->time_every };

	pthread_mutex_lock(&state->loading);
	if (!state->is_loaded)
		(void)syscalls_open(&options, &state->loaded, &state->err);
	state->is_loaded = true;
	pthread_mutex_unlock(&state->loading);
}

/* What another thread is loading is waited for. */
static bool open_syscalls(struct service *s)
{
	struct syscalls_state *state = &s->syscalls;

	if (state->is_taken)
		return state->syscalls != NULL;
	if (!state->is_begun)
		state->time_every = (unsigned)s->settings.config->syscalls_time_every;
	state->is_begun = state->is_taken = true;
	load(s);
	state->syscalls = TAKE_PTR(state->loaded);
	service_set_rung(
		s, state->syscalls
			   ? (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" }
			   : (struct rung){ SOURCES_RUNG_SYSCALLS, "unknown", state->err.text });
	return state->syscalls != NULL;
}

/* And is not counted yet. One that was cancelled before it began has nobody to be counted. */
static bool is_wanted(const struct service *s, const struct watched *job)
{
	return s->settings.config->syscalls_enabled && s->settings.options->config->ebpf_enabled &&
	       !job->is_uncounted && job->a.runner.pid > 0 && !job->calls;
}

static void count_job(struct service *s, struct watched *job)
{
	struct syscalls *syscalls = s->syscalls.syscalls;
	struct err err = ERR_INIT;
	int r;

	if (!is_wanted(s, job))
		return;
	/* Of an attached job that is its first process; else its own calls are not the job's. */
	r = (job->a.is_attached ? syscalls_track : syscalls_track_runner)(
		syscalls, job->a.runner.pid, (uint64_t)job->a.id);
	if (r == 0) {
		job->calls = calloc(1, sizeof(*job->calls));
		if (!job->calls) {
			syscalls_untrack(syscalls, (uint64_t)job->a.id);
			r = -ENOMEM;
		}
	}
	if (r == 0) {
		job->calls->calls.time_every = s->syscalls.time_every;
		job->calls->lost_before = s->syscalls.lost;
		s->syscalls.n_jobs++;
	}
	/* What was short when another job began may be there again. */
	if (r == 0 && syscalls_is_armed(syscalls))
		service_set_rung(
			s, (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" });
	if (r == 0 || r == -ESRCH)
		return;
	log_warning("the system calls of job %s are not counted: %s", job->job_id, strerror(-r));
	/* A kernel may let it be loaded, and not be armed. */
	if (!syscalls_is_armed(syscalls) && syscalls_check(syscalls, &err) < 0)
		service_set_rung(s, (struct rung){ SOURCES_RUNG_SYSCALLS, "unknown", err.text });
}

static void on_loaded(void *ctx)
{
	struct service *s = ctx;
	struct watched **jobs;
	size_t n;
	int r;

	if (!open_syscalls(s)) /* also when the daemon ends */
		return;
	jobs = watch_jobs(s->watch, &n);
	syscalls_begin_many(s->syscalls.syscalls);
	for (size_t i = 0; i < n; i++)
		count_job(s, jobs[i]);
	r = syscalls_end_many(s->syscalls.syscalls);
	if (r < 0)
		log_warning("the system calls of what runs already are not all counted: %s",
			    strerror(-r));
}

static void begin_loading(struct service *s)
{
	if (s->syscalls.is_begun)
		return;
	s->syscalls.time_every = (unsigned)s->settings.config->syscalls_time_every;
	s->syscalls.is_begun = loop_queue_work(s->loop, load, on_loaded, s) == 0;
}

/* Where other programs are, these are likely to load too. */
void service_begin_calls(struct service *s)
{
	struct rung taken = { SOURCES_RUNG_SYSCALLS, RUNG_UNKNOWN,
			      "eBPF programs for it are being loaded" };

	if (!s->settings.options->config->ebpf_enabled)
		taken.reason = SOURCES_EBPF_FORBIDDEN;
	else if (!s->settings.config->syscalls_enabled)
		taken.reason = SOURCES_SYSCALLS_FORBIDDEN;
	else if (s->life.life && life_sees_signals(s->life.life))
		taken = (struct rung){ SOURCES_RUNG_SYSCALLS, SOURCES_RUNG_SYSCALLS_EBPF, "" };
	service_set_rung(s, taken);
	if (s->settings.options->config->ebpf_enabled && s->settings.config->syscalls_enabled)
		begin_loading(s);
}

void service_count_calls_of(struct service *s, struct watched *job)
{
	if (s->syscalls.syscalls)
		count_job(s, job);
	else if (is_wanted(s, job))
		begin_loading(s);
}

bool service_count_calls_now(struct service *s, struct watched *job)
{
	if (is_wanted(s, job) && open_syscalls(s))
		count_job(s, job);
	return job->calls != NULL;
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

/* Also of a job that goes on without us: whoever counts it later adds to that. */
static void end_job(struct service *s, struct watched *job)
{
	struct summing summing = { s, (uint64_t)job->a.id, false };
	struct job_calls *c = job->calls;

	if (s->syscalls.syscalls && read_calls(s) == 0)
		syscalls_each(s->syscalls.syscalls, sum_process, &summing);
	if (s->syscalls.syscalls)
		syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->a.id);
	c->calls.lost.calls = s->syscalls.lost.calls - c->lost_before.calls;
	c->calls.lost.threads = s->syscalls.lost.threads - c->lost_before.threads;
}

/* Into an attached attempt that ends: nothing more is counted for it. */
void service_give_times_of(struct service *s, struct watched *job, struct attempt *a)
{
	const struct time_sampler no_samples = { 0 };

	if (!job->calls)
		return;
	end_job(s, job);
	process_calls_give(&job->calls->calls.processes, a);
	time_sampler_keep(&no_samples, 0, &job->calls->calls.time, a);
}

/* Of each process no more than whose they are. */
void service_sum_calls_of(struct service *s, struct watched *job)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT, record = BUF_INIT;
	struct attempt a = { .id = job->a.id };
	const struct process_calls *calls;

	if (!job->calls)
		return;
	end_job(s, job);
	call_sums_settle(&job->calls->calls.sums);
	counted_calls_say_missing(&job->calls->calls, &why);
	counted_calls_say_error(&job->calls->calls, &why);
	calls = &job->calls->calls.processes;
	a.details.syscalls = job->calls->calls.sums.uses;
	a.details.n_syscalls = job->calls->calls.sums.n;
	a.processes = calls->n ? calloc(calls->n, sizeof(*a.processes)) : NULL;
	a.n_processes = a.processes ? calls->n : 0;
	for (size_t i = 0; i < a.n_processes; i++) {
		proc_record_init(&a.processes[i]);
		a.processes[i].key = calls->items[i].key;
		a.processes[i].syscalls = calls->items[i].text;
		a.processes[i].time = calls->items[i].time;
	}
	record_write_details(&record, &a, why.len > 0 ? why.data : NULL);
	s->syscalls.n_totals_lost += !service_log(s, a.id, RECORD_CALLS, &record);
	free(a.processes);
	drop_job(s, job);
}

/* ---- for its runner ---- */

#define MAX_ANSWER_BYTES (1 << 20) /* of texts */

/* Runners ask as often as they like: reading takes no more than one part in so many of our time. */
#define READ_COST_LIMIT 50

struct living {
	const struct service *service;
	const struct watched *job;
	bool is_all; /* and not only those that have called something since they were told */
	size_t n_kept;
	struct process_calls calls;
};

static void add_living(void *ctx, const struct syscall_process *p)
{
	const struct proc_key key = { p->pid, p->start_ticks };
	struct living *living = ctx;
	struct map *told = &living->job->calls->told;
	uint64_t now = p->start_ticks, before = 0;

	if (p->pid <= 0)
		return;
	if (!may_see(living->job->a.uid, p->uid, living->service->root_fd, p->pid)) {
		living->n_kept++;
		return;
	}
	for (size_t i = 0; i < p->n_uses; i++) {
		const struct syscall_use *use = &p->uses[i];
		const uint64_t parts[] = { use->count, use->errors, use->cpu_ns, use->wait_ns };

		now = hash_bytes(now, parts, sizeof(parts));
	}
	if (!living->is_all && map_get(told, (uint64_t)p->pid, &before) && before == now)
		return;
	process_calls_add(&living->calls, &key, p->uses, p->n_uses);
	(void)map_put(told, (uint64_t)p->pid, now); /* without memory it is told again */
}

void service_write_calls_of(struct service *s, struct watched *job, bool is_final, bool wants_all,
			    struct json *j)
{
	struct living living = { s, job, wants_all, 0, { .max_bytes = MAX_ANSWER_BYTES } };
	uint64_t now = clock_boot_ns();

	json_key_bool(j, "counted", job->calls != NULL);
	if (!job->calls)
		return;
	if (is_final) {
		end_job(s, job);
		counted_calls_write(j, &job->calls->calls);
		drop_job(s, job);
		job->is_uncounted = true; /* its runner has all of it */
		return;
	}
	if (now >= s->syscalls.read_due_boot_ns) {
		(void)read_calls(s); /* or it is what was read last */
		s->syscalls.read_due_boot_ns = now + READ_COST_LIMIT * (clock_boot_ns() - now);
	}
	syscalls_each_living(s->syscalls.syscalls, (uint64_t)job->a.id, add_living, &living);
	/* One that was told may not be the runner's any more, or there is no room for all. */
	if (!living.is_all && (living.n_kept != job->calls->n_kept || living.calls.n_untold > 0)) {
		process_calls_release(&living.calls);
		living = (struct living){ s, job, true, 0, { .max_bytes = MAX_ANSWER_BYTES } };
		syscalls_each_living(s->syscalls.syscalls, (uint64_t)job->a.id, add_living,
				     &living);
	}
	job->calls->n_kept = living.n_kept;
	json_key_bool(j, "all", living.is_all);
	json_key(j, "processes");
	counted_calls_write_processes(j, &living.calls);
	json_key_u64(j, "untold_processes", living.calls.n_untold);
	process_calls_release(&living.calls);
}

void service_leave_calls_of(struct service *s, struct watched *job)
{
	job->is_uncounted = true;
	if (!job->calls)
		return;
	syscalls_untrack(s->syscalls.syscalls, (uint64_t)job->a.id);
	drop_job(s, job);
}

/* ---- at each tick ---- */

/* Samples of a job are for its user, whom they are not to tell that nothing was called either. */
static void withhold_samples(struct service *s)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	bool has_others = false;

	for (size_t i = 0; i < n; i++)
		has_others |= jobs[i]->calls && jobs[i]->a.uid != 0;
	for (size_t i = 0; has_others && i < s->scan.snap.n_processes; i++) {
		struct proc_sample *p = &s->scan.snap.processes[i];
		const struct watched *job =
			p->syscalls ? watch_find_attempt(s->watch, p->attempt_id) : NULL;

		if (!job || !job->calls || may_see(job->a.uid, p->owner, -1, 0))
			continue;
		p->syscalls = NULL;
		p->n_syscalls = 0;
	}
}

int service_count_calls(struct service *s, struct err *err)
{
	struct summing summing = { s, 0, false };
	int r;

	if (!s->scan.has_snap || s->syscalls.n_jobs == 0)
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
	struct summing summing = { s, 0, true };
	size_t n = 0;
	struct watched **jobs = s->watch ? watch_jobs(s->watch, &n) : NULL;

	/* In one go, however many: nothing is to be untracked, as what counts them ends as well. */
	if (s->syscalls.n_jobs > 0 && read_calls(s) == 0)
		syscalls_each(s->syscalls.syscalls, sum_process, &summing);
	if (s->syscalls.is_begun)
		(void)open_syscalls(s);
	s->syscalls.syscalls = syscalls_close(s->syscalls.syscalls);
	for (size_t i = 0; i < n; i++)
		service_sum_calls_of(s, jobs[i]);
}
