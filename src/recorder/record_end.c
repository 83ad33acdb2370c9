#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/run_internal.h"
#include "model/job.h"
#include "report/report.h"

/* ---- what is known in the end ---- */

static void note_count(struct attempt *a, uint64_t n, const char *what, const char *why)
{
	char text[200];

	if (n == 0)
		return;
	snprintf(text, sizeof(text), "%llu %s", (unsigned long long)n, why);
	attempt_note(a, what, text);
}

/* Of GPU time: that it is a part, or why there is none. */
static void note_gpu_times(struct run *run, bool has_reason)
{
	const struct {
		const char *note, *what;
		uint64_t untold_ns;
		bool is_known, is_said; /* is_said: why there is none */
	} rows[] = {
		{ NOTE_GPU_TIME, "the share of a process", tally_gaps(run->tally).gpu_ns,
		  u64_known(run->attempt->usage.gpu_busy_ns), has_reason },
		{ NOTE_GPU_IDLE_TIME, "whether a process held memory",
		  tally_gaps(run->tally).gpu_idle_ns, u64_known(run->attempt->usage.gpu_idle_ns),
		  false },
	};
	char why[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].untold_ns == 0 || (rows[i].is_said && !rows[i].is_known))
			continue;
		snprintf(why, sizeof(why), "the drivers did not tell %s for %.1f s%s", rows[i].what,
			 (double)rows[i].untold_ns / 1e9,
			 rows[i].is_known ? ": it is at least that" : "");
		attempt_note(run->attempt, rows[i].note, why);
	}
}

static void note_gpus(struct run *run)
{
	struct attempt *a = run->attempt;
	char why[512];
	bool has_reason = run->gpus && gpus_tell_trouble(run->gpus, why, sizeof(why));

	if (run->gpus)
		note_gpu_times(run, has_reason);
	if (has_reason) {
		attempt_note(a, "gpus", why);
	} else if (run->gpus && gpus_rung(run->gpus) && !u64_known(a->usage.peak_gpu_bytes)) {
		attempt_note(a, "gpus", "no sample of its processes met a reading of them");
	} else if (!run->gpus && sources_has_gpu(run->root_fd)) {
		attempt_note(a, "gpus", "gpu_enabled is false in the configuration");
	} else if (!run->gpus) {
		usage_set_no_gpu(&a->usage);
		for (size_t i = 0; i < a->n_sheets; i++)
			usage_set_no_gpu(&a->sheets[i].usage);
	}
}

/* By taskstats, of which CPU time is a lower bound too. */
static bool has_rough_io(const struct attempt *a)
{
	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].cpu_evidence == EVIDENCE_LOWER_BOUND &&
		    u64_known(a->processes[i].died_wall_ns))
			return true;
	return false;
}

/* The first of its commands and processes that only asks others to work; proctor measures there. */
static void note_elsewhere(struct run *run)
{
	struct attempt *a = run->attempt;
	const char *why = NULL;
	size_t n;
	const struct proc_record *processes = tally_processes(run->tally, &n);

	for (size_t i = 0; !why && i < a->n_sheets; i++) /* not of one that could not be started */
		why = a->sheets[i].status.exit_code == 126 || a->sheets[i].status.exit_code == 127
			      ? NULL
			      : sources_work_elsewhere(a->sheets[i].command);
	for (size_t i = 0; !why && processes && i < n; i++)
		why = sources_work_elsewhere(processes[i].command);
	if (why)
		attempt_note(a, REPORT_NOTE_ELSEWHERE, why);
}

/* Limits that samples watch instead of the kernel. */
static void note_limits(struct run *run)
{
	const struct job_limits *l = &run->containing.watched;
	char why[800];

	if (!u64_known(l->memory_bytes) && !u64_known(l->max_processes) && isnan(l->cpus))
		return;
	snprintf(why, sizeof(why),
		 "not enforced by the kernel: %s%s%s. Samples watched memory and processes, about "
		 "%d ms apart. The job had no cgroup for them%s%s",
		 u64_known(l->memory_bytes) ? "memory " : "",
		 u64_known(l->max_processes) ? "processes " : "", isnan(l->cpus) ? "" : "CPU time",
		 WATCH_MS, run->containing.err.code ? ": " : "", run->containing.err.text);
	attempt_note(run->attempt, "limits", why);
}

static void note_unknowns(struct run *run)
{
	struct attempt *a = run->attempt;

	note_elsewhere(run);
	note_limits(run);
	if (!run->counting.is_own && a->details.n_syscalls == 0)
		attempt_note(a, "syscall_hotspots", run->counting.err.text);
	note_gpus(run);
	if (run->options->why_no_output)
		attempt_note(a, "output", run->options->why_no_output);
	/* By what it was judged instead is not to be guessed afterwards. */
	for (const char *line = run->options->slips, *end; line && (end = strchr(line, '\n'));
	     line = end + 1) {
		char text[300];

		snprintf(text, sizeof(text), "%.*s", (int)(end - line), line);
		attempt_note(a, "configuration", text);
	}
	if (!run->collector)
		attempt_note(a, "samples",
			     run->root_fd == -EXDEV ? PROC_IS_FOREIGN : "/proc cannot be read");
	if (!run->births.life)
		attempt_note(
			a, "process_spawn_count",
			"the kernel does not tell this user of births and deaths: processes that "
			"lived between two samples are missing");
	if (run->births.life && has_rough_io(a))
		attempt_note(
			a, "I/O of single processes",
			"of those that others waited for, the kernel tells whole KiB, and without "
			"what their children did: each is the least that it was");
	note_count(a, tally_gaps(run->tally).n_lost, "process_spawn_count",
		   "kernel events were lost: counts are lower bounds");
	note_count(a, tally_gaps(run->tally).n_processes, "processes",
		   "more processes were counted and are not listed one by one");
	note_count(a, tally_gaps(run->tally).n_events, "events",
		   "more process events were counted and are not listed");
	if (a->usage.cpu_evidence == EVIDENCE_LOWER_BOUND)
		attempt_note(
			a, "total_cpu_seconds",
			"some processes still run, or were waited for by nobody, as their parent "
			"ignores SIGCHLD: what they used is not all counted in");
	if (a->usage.io_evidence == EVIDENCE_LOWER_BOUND)
		attempt_note(
			a, "io",
			"some of it could not be read, or is of processes that still run or that "
			"nobody waited for");
}

/* A copy in the attempt's memory; NULL and 0: of none, or there is no memory. */
static void *keep(struct attempt *a, const void *items, size_t n, size_t bytes, size_t *ret_n)
{
	void *kept = n > 0 && items ? arena_memdup(&a->arena, items, n * bytes) : NULL;

	*ret_n = kept ? n : 0;
	return kept;
}

static void keep_sheets(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);

	a->sheets = keep(a, sheets, n, sizeof(*sheets), &a->n_sheets);
	for (size_t i = 0; i < a->n_sheets; i++) {
		struct sheet_record *s = &a->sheets[i];

		s->name = arena_strdup(&a->arena, s->name);
		s->command = arena_strdup(&a->arena, s->command);
		s->reason = arena_strdup(&a->arena, s->reason);
		s->ranks = keep(a, s->ranks, s->n_ranks, sizeof(*s->ranks), &s->n_ranks);
	}
}

static void keep_processes(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct proc_record *records = tally_processes(run->tally, &n);

	a->processes = keep(a, records, n, sizeof(*records), &a->n_processes);
	for (size_t i = 0; i < a->n_processes; i++) {
		struct proc_record *p = &a->processes[i];

		p->command = arena_strdup(&a->arena, p->command);
		p->failed_calls = arena_strdup(&a->arena, p->failed_calls);
		p->stderr_tail = arena_strdup(&a->arena, p->stderr_tail);
	}
}

/* The record has these already. */
static void keep_events_and_series(struct run *run)
{
	const struct run_curve *curve = &run->curve;
	struct attempt *a = run->attempt;
	size_t n;
	const struct proc_event *events = tally_events(run->tally, &n);

	a->details.series =
		keep(a, curve->points, curve->n, sizeof(*curve->points), &a->details.n_series);
	a->events = keep(a, events, n, sizeof(*events), &a->n_events);
	for (size_t i = 0; i < a->n_events; i++) {
		a->events[i].job_id = a->job_id;
		a->events[i].details = arena_strdup(&a->arena, a->events[i].details);
	}
}

void record_probe(struct run *run)
{
	struct attempt *a = run->attempt;

	if (a->details.rungs)
		return;
	a->details.rungs =
		arena_alloc(&a->arena, (SOURCES_MAX_RUNGS + 2) * sizeof(*a->details.rungs));
	if (a->details.rungs)
		a->details.n_rungs = sources_probe_rungs(run->root_fd, run->births.life, &a->arena,
							 a->details.rungs);
}

/* What measured, which may be less than what a probe finds. */
static void note_rungs(struct run *run)
{
	struct rung taken[] = {
		{ 0 }, { SOURCES_RUNG_BIRTHS, SOURCES_RUNG_BIRTHS_POLLING, run->births.err.text }
	};
	struct attempt *a = run->attempt;
	size_t n_taken;
	char pace[64];

	record_probe(run);
	if (!a->details.rungs)
		return;
	if (run->gpus)
		gpus_tell_rung(run->gpus, &a->arena, a->details.rungs, a->details.n_rungs);
	/* That samples are closer together says nothing of drivers that are asked more rarely. */
	if (run->gpus && gpus_tell_pace(run->gpus, pace, sizeof(pace)))
		a->details.rungs[a->details.n_rungs++] =
			(struct rung){ RUNG_GPU_READINGS, arena_strdup(&a->arena, pace), "" };
	a->details.rungs[a->details.n_rungs++] = (struct rung){
		RUNG_CGROUP, run->containing.cgroup ? RUNG_CGROUP_OWN : "none",
		arena_strdup(&a->arena, run->containing.cgroup ? "" : run->containing.err.text)
	};
	taken[0] = run_counting_rung(run);
	n_taken = run->births.life ? 1 : 2;
	for (size_t i = 0; i < a->details.n_rungs * n_taken; i++) {
		struct rung *rung = &a->details.rungs[i / n_taken];
		const struct rung *by = &taken[i % n_taken];

		if (strcmp(rung->measurement, by->measurement) != 0)
			continue;
		rung->rung = by->rung;
		rung->reason = arena_strdup(&a->arena, by->reason);
	}
	link_name_rungs(run->link, a);
}

/* ---- the end ---- */

/* The end waits for the disk for as long as the run took, within these: nobody is held up for
 * seconds after a short command. */
#define END_PATIENCE_LEAST_MS 1000
#define END_PATIENCE_MOST_MS 5000

static uint64_t end_deadline_ns(const struct run *run)
{
	uint64_t now = clock_boot_ns();
	uint64_t ms = (now - run->boot_ns) / 1000000;

	ms = ms < END_PATIENCE_LEAST_MS ? END_PATIENCE_LEAST_MS : ms;
	ms = ms > END_PATIENCE_MOST_MS ? END_PATIENCE_MOST_MS : ms;
	return now + ms * 1000000;
}

static void note_losses(struct run *run)
{
	struct attempt *a = run->attempt;

	if (run->recording.err.code != 0)
		attempt_note(a, REPORT_NOTE_RECORDING, run->recording.err.text);
	if (!attempt_log_is_stored(run->job.log))
		attempt_note(a, "anomalies", "they could not be recorded");
	else
		note_count(a, attempt_log_lost(run->job.log), "history",
			   "records could not be stored");
	note_count(a, detect_count_left_out(run->detect), "anomalies",
		   "processes or anomalies were more than there was room for");
	note_count(a, run->n_lines_missing, "log of snapshots",
		   "snapshots could not be written to it");
	if (run->n_lines_missing > 0)
		log_warning("the log lacks %llu snapshots",
			    (unsigned long long)run->n_lines_missing);
}

/* One run in so many has what was logged stored: else nobody may ever open the database. */
#define STORE_EVERY_RUN 64

static void append_end(struct run *run)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct err err = ERR_INIT;
	int r;

	record_events(run);
	note_losses(run);
	if (!run->job.log)
		return;
	record_write_details(&bytes, run->attempt, NULL);
	record_append(run, RECORD_DETAILS, &bytes);
	record_prepare_end(run);
	r = attempt_log_end(run->job.log, run->attempt, end_deadline_ns(run), &err);
	if (r == -ETIMEDOUT)
		log_warning("the disk has not taken the last of what was recorded yet: it will, "
			    "unless there is a power cut before");
	else if (r < 0)
		log_error("how this run ended is lost: %s", err.text);
	if (attempt_log_is_stored(run->job.log) && run->storing.pid == 0 &&
	    attempt_log_id(run->job.log)->bytes[0] % STORE_EVERY_RUN == 0) /* which is random */
		record_store_aside(run);
}

/* ---- what the daemon knows of the ends ---- */

static bool was_killed(struct run *run)
{
	size_t n;
	const struct proc_record *list = tally_processes(run->tally, &n);

	for (size_t i = 0; i < n; i++)
		if (list[i].status.signal > 0)
			return true;
	return false;
}

/* Why some ends are not exact, as far as the daemon is the reason. */
static void note_ends(struct run *run, int r)
{
	const bool is_late = r == -ETIMEDOUT, is_gone = r < 0 && !is_late;
	const struct link_state *link = link_state(run->link);
	struct attempt *a = run->attempt;

	deaths_note_withheld(a, link->n_withheld);
	if (is_late)
		attempt_note(a, "signals",
			     "the daemon had no time to say who has sent any, and the run did not "
			     "wait for it any longer");
	if (tally_count_inexact(run->tally, false) == 0)
		return;
	if ((is_gone || link->was_broken) && link->was_followed)
		attempt_note(
			a, "processes",
			"the daemon that followed them was gone for a while, or is: not all ends "
			"are exact");
	if (is_late)
		attempt_note(
			a, "processes",
			"the daemon had no time to say what each had used, and the run did not "
			"wait for it: not all ends are exact");
	note_count(a, tally_count_inexact(run->tally, true), "processes",
		   link->is_rough
			   ? "of them are known by what the kernel tells the daemon without "
			     "eBPF, which lacks the last of what they used: each is the "
			     "least that it was"
			   : "of them the kernel had not done with when the run was over, as on "
			     "a busy host, or if nobody has waited for them: they lack the "
			     "last of what they used, and are not exact");
	note_count(a, link->n_lost, "processes",
		   "of the kernel's news of births and ends on this host were lost "
		   "before the daemon could read them: not all ends are exact");
	if (link->began_late)
		attempt_note(
			a, "processes",
			"the daemon had not answered when the run began, or told it of itself, "
			"and the run did not wait for it: ends of the first of them, or of all, "
			"may not be exact");
}

/* Also for a daemon that looks at the job as well: it may stop before it looks again. */
static void note_left(struct run *run)
{
	size_t n = 0;
	const pid_t *pids =
		runner_has_processes(run->runner) ? membership_pids(run->members, &n) : NULL;

	for (size_t i = 0; pids && i < n; i++) {
		const struct job_member *m = membership_find(run->members, pids[i]);
		struct proc_key key = m ? m->key : (struct proc_key){ 0 };

		if (!m) /* it has ended, and another may have its pid */
			continue;
		if (!u64_known(key.start_ticks) && proc_start_ticks(key.pid, &key.start_ticks) < 0)
			continue;
		if (proc_is_alive("", key.pid, key.start_ticks))
			tally_orphan(run->tally, &key, run->attempt->ended_wall_ns);
	}
}

/* With its last sheet, whose processes may have ended after its commands. */
static uint64_t when_ended(const struct run *run)
{
	uint64_t ended_ns = run->attempt->started_wall_ns + (run->ended_boot_ns - run->boot_ns);
	size_t n;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);

	for (size_t i = 0; i < n; i++)
		ended_ns = u64_max_known(ended_ns, sheets[i].ended_wall_ns);
	return ended_ns;
}

/* What the cgroup has counted is exact, also of processes that were not waited for. */
static void take_cgroup(struct run *run)
{
	struct containment *c = &run->attempt->contained;
	struct usage *u = &run->attempt->usage;

	c->limits = run->options->spec->limits;
	if (run->containing.cgroup)
		job_cgroup_read(run->containing.cgroup, &c->use);
	if (u->cpu_evidence != EVIDENCE_EXACT && u64_known(c->use.user_ns) &&
	    u64_known(c->use.system_ns)) {
		u->user_ns = c->use.user_ns;
		u->system_ns = c->use.system_ns;
		u->cpu_evidence = EVIDENCE_EXACT;
	}
}

void record_end(struct run *run, const struct runner_result *result)
{
	struct attempt *a = run->attempt;

	link_begin_end(run->link, run->ended_boot_ns - run->boot_ns);
	/* The last facts of the stream: how processes ended, and which signals they got. */
	run_life_drain(run);
	note_ends(run, link_end_facts(run->link, tally_count_inexact(run->tally, false) > 0,
				      was_killed(run)));
	keep_processes(run);
	run_counting_end(run);
	a->is_running = false;
	a->ended_wall_ns = when_ended(run);
	a->outcome = result->outcome;
	a->reason = arena_strdup(&a->arena, result->reason);
	a->cause = result->cause;
	a->status = result->status;
	a->last_completed_sheet = result->last_completed_sheet;
	tally_total(run->tally, run->ended_boot_ns, !runner_has_processes(run->runner), &a->usage);
	take_cgroup(run);
	keep_sheets(run);
	time_sampler_keep(&run->times, run->boot_ns, &run->counting.calls.time, a);
	note_rungs(run);
	note_unknowns(run);
	record_end_anomalies(run);
	if (a->outcome == OUTCOME_FAILURE && !link_state(run->link)->sees_calls)
		attempt_note(a, NOTE_FAILED_CALLS,
			     "only a daemon of root with eBPF can observe them");
	note_left(run);
	append_end(run);
	record_tell_end(run);
	/* A daemon of our own user writes what it knows of the job into the same database. */
	if (attempt_log_is_stored(run->job.log) && run->options->is_read_back &&
	    link_await_record(run->link) == -ETIMEDOUT)
		attempt_note(a, NOTE_UNWRITTEN,
			     "the daemon had no time to write down what it knew last, such as "
			     "phases and who has sent signals, and the run did not wait for it any "
			     "longer: a later report may have more");
	keep_events_and_series(run);
}
