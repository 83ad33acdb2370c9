#include "daemon/record_end.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "daemon/deaths.h"
#include "daemon/own.h"
#include "daemon/record.h"
#include "daemon/record_anomalies.h"
#include "daemon/record_greet.h"
#include "daemon/record_keep.h"
#include "daemon/record_tick.h"
#include "daemon/run_internal.h"
#include "report/report.h"

/* All that is stored when all is over waits for another writer, together, for as long as the run
 * took, within these: nobody is held up for seconds after a short command. */
#define END_PATIENCE_LEAST_MS 1000
#define END_PATIENCE_MOST_MS 5000

static void set_end_patience(struct run *run)
{
	uint64_t now = clock_boot_ns();
	uint64_t ms = (now - run->boot_ns) / 1000000;

	ms = ms < END_PATIENCE_LEAST_MS ? END_PATIENCE_LEAST_MS : ms;
	ms = ms > END_PATIENCE_MOST_MS ? END_PATIENCE_MOST_MS : ms;
	run->end_boot_ns = now + ms * 1000000;
}

/*
 * How it ended is known, whatever has become of the database: it waits beside that, and
 * whoever opens it next takes it in.
 */
static void keep_end(struct run *run, const struct err *why)
{
	struct attempt kept = *run->attempt; /* with what is not written yet */
	struct err err = ERR_INIT;

	kept.events = (struct proc_event *)tally_pending_events(run->tally, &kept.n_events);
	if (!run->options->db_path || why->code == -EMEDIUMTYPE) /* nothing of ours is there */
		return;
	if (store_keep_end(run->options->db_path, &kept, &err) == 0)
		log_warning("how this run ended is kept beside the database until that can be "
			    "written: %s",
			    why->text);
	else
		log_error("how this run ended is lost: %s", err.text);
}

/* The counts are worth less than the end, which is written in any case. */
static void store_calls(struct run *run)
{
	const struct attempt *a = run->attempt;
	const struct attempt sums = { .id = a->id }; /* each process's is in its record */
	struct err err = ERR_INIT;

	if (a->n_syscalls > 0 &&
	    store_add_syscalls(run->store, &sums, a->syscalls, a->n_syscalls, NULL, &err) < 0)
		attempt_note(run->attempt, "syscall_hotspots",
			     "they were counted, and could not be recorded");
}

/* Why not all is recorded. What to do about what passes was said when it mattered. */
static void note_trouble(struct run *run)
{
	struct err why = run->store_err;

	if (trouble_may_pass(why.code))
		why.text[err_fact_len(&why)] = '\0';
	attempt_note(run->attempt, REPORT_NOTE_RECORDING, why.text);
}

/* A disk that takes longer than this has no time for what can be done later. */
#define QUICK_DISK_NS UINT64_C(20000000)

/* Until the disk has it all, or for as long as the end may take. True: it was quick. */
static bool settle_end(struct run *run)
{
	uint64_t began_boot_ns = clock_boot_ns();
	int r = settler_finish(run->settler, run->end_boot_ns);

	run->settler = settler_leave(run->settler);
	if (r < 0) {
		store_leave_unsettled(run->store);
		log_warning("the disk has not taken the last of what was recorded yet: it will, "
			    "unless there is a power cut before");
	}
	return r == 0 && clock_boot_ns() - began_boot_ns < QUICK_DISK_NS;
}

static void store_end(struct run *run)
{
	const struct proc_event *events;
	struct err err = ERR_INIT;
	size_t n;

	set_end_patience(
		run); /* again: a daemon that hangs takes seconds of it, not the database */
	record_leave_replaced(run);
	record_try_to_open(run, record_end_patience_ms(run), &err);
	if (run->store)
		store_share_patience(run->store, record_end_patience_ms(run));
	record_last_ticks(run);
	if (run->store_err.code != 0)
		note_trouble(run);
	if (!run->store) {
		keep_end(run, &run->store_err);
		return;
	}
	store_calls(run);
	record_phases(run);
	events = tally_pending_events(run->tally, &n);
	if (store_finish_attempt(run->store, run->attempt, events, n, &err) == 0) {
		if (settle_end(run)) /* all with one wait */
			upkeep_do_some(run->upkeep, run->store);
		return;
	}
	settle_end(run);
	run->store_err.code = 0; /* the end matters more than a tick: say it in any case */
	record_say_loss(run, "the end of this run is not fully recorded", &err);
	note_trouble(run);
	keep_end(run, &err);
}

static bool was_killed(const struct attempt *a)
{
	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].status.signal > 0)
			return true;
	return false;
}

static int keep_oom(void *ctx, const struct event_row *row)
{
	struct run *run = ctx;

	if (row->attempt_id == run->attempt->id && row->event.type == EVENT_OOM)
		tally_told_signal(run->tally, &row->event);
	return 0;
}

/* Our own daemon writes them into the record: the summary is to tell them too. */
static void take_recorded_ooms(struct run *run)
{
	const struct event_filter filter = { .job_id = run->attempt->job_id,
					     .since_wall_ns = run->attempt->started_wall_ns };
	struct err err = ERR_INIT;

	if (run->store && was_killed(run->attempt) &&
	    store_read_events(run->store, &filter, keep_oom, run, &err) < 0)
		log_debug("who was killed for want of memory is not told: %s", err.text);
}

static void on_told_signal(void *ctx, const struct proc_event *ev)
{
	struct run *run = ctx;

	tally_told_signal(run->tally, ev);
}

/* Of a leaf that the runner has waited for it knows all itself. */
static bool is_all_exact(const struct attempt *a)
{
	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].cpu_evidence != EVIDENCE_EXACT)
			return false;
	return true;
}

/* One of an ordinary user's own is told no more than we are, and need not be waited for. */
static bool hears_more(const struct link *link)
{
	return link_has_begun(link) ||
	       (link_is_there(link) && (link_is_guest(link) || geteuid() == 0));
}

static void note_forsaken(struct run *run)
{
	if (link_was_followed(run->link))
		attempt_note(
			run->attempt, "processes",
			"the daemon that followed them has not answered since, or is gone: not "
			"all ends are exact");
}

/* A daemon of root's hears of each end what was used, which the kernel does not tell a user, and
 * root less exactly without eBPF. */
static void complete_deaths(struct run *run)
{
	struct attempt *a = run->attempt;
	struct link_deaths dead;
	size_t n_open;

	link_take_deaths(run->link, &a->arena, &dead);
	n_open = deaths_complete_listed(dead.items, dead.n, a);
	if (dead.is_refused)
		note_forsaken(run);
	if (dead.is_late)
		attempt_note(
			a, "processes",
			"the daemon had no time to say what each had used, and the run did not "
			"wait for it: not all ends are exact");
	record_note_count(
		a, n_open, "processes",
		dead.is_rough ? "of them are known by what the kernel tells the daemon without "
				"eBPF, which lacks the last of what they used: each is the "
				"least that it was"
			      : "of them the kernel had not done with when the run was over, as on "
				"a busy host, or if nobody has waited for them: they lack the "
				"last of what they used, and are not exact");
	deaths_note_withheld(a, dead.n_withheld);
	if (!is_all_exact(a))
		record_note_count(a, dead.n_lost, "processes",
				  "of the kernel's news of births and ends on this host were lost "
				  "before the daemon could read them: not all ends are exact");
	record_note_count(a, dead.n_unlisted, "processes",
			  "of them ended when the daemon had no room left for what each used");
}

static void take_deaths(struct run *run)
{
	struct attempt *a = run->attempt;

	if (is_all_exact(a))
		return;
	if (hears_more(run->link))
		complete_deaths(run);
	else
		note_forsaken(run);
	if (link_began_late(run->link) && !is_all_exact(a))
		attempt_note(
			a, "processes",
			"the daemon had not answered when the run began, or told it of itself, "
			"and the run did not wait for it: ends of the first of them, or of all, "
			"may not be exact");
}

/* Who has killed it a daemon may know, and tells of jobs that it has heard of before their end. */
static void tell_of_kill(struct run *run)
{
	struct err err = ERR_INIT;

	if (!was_killed(run->attempt))
		return;
	record_try_to_open(run, record_end_patience_ms(run), &err);
	record_greet_at_once(run);
}

static void take_signals(struct run *run)
{
	if (link_take_signals(run->link, on_told_signal, run) == -ETIMEDOUT)
		attempt_note(run->attempt, "signals",
			     "the daemon had no time to say who has sent any, and the run did not "
			     "wait for it any longer");
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

static int count_anomaly(void *ctx, const struct anomaly_row *row)
{
	(void)row;
	++*(size_t *)ctx;
	return 0;
}

/* The summary tells of them, and the daemon has seen the last of each. */
static bool has_daemons_anomalies(struct run *run)
{
	const struct anomaly_filter filter = { .job_id = run->attempt->job_id,
					       .attempt_num = run->attempt->attempt_num };
	struct err err = ERR_INIT;
	size_t n = 0;

	return link_is_shared(run->link) &&
	       store_read_anomalies(run->store, &filter, count_anomaly, &n, &err) == 0 && n > 0;
}

/* Not in the database, where it will be in a moment. */
static void await_record(struct run *run)
{
	if (!run->store || !(run->options->is_read_back || has_daemons_anomalies(run)))
		return;
	if (link_await_record(run->link) == -ETIMEDOUT)
		attempt_note(run->attempt, NOTE_UNWRITTEN,
			     "the daemon had no time to write down what it knew last, such as "
			     "phases and who has sent signals, and the run did not wait for it any "
			     "longer: a later report may have more");
}

void record_end(struct run *run, const struct runner_result *result)
{
	struct attempt *a = run->attempt;

	set_end_patience(run);
	link_begin_end(run->link, run->ended_boot_ns - run->boot_ns);
	record_keep_processes(run);
	take_deaths(run);
	tell_of_kill(run);
	record_keep_calls(run);
	take_signals(run);
	a->is_running = false;
	a->ended_wall_ns = when_ended(run);
	a->outcome = result->outcome;
	a->reason = arena_strdup(&a->arena, result->reason);
	a->status = result->status;
	a->last_completed_sheet = result->last_completed_sheet;
	tally_total(run->tally, run->ended_boot_ns, !runner_has_processes(run->runner), &a->usage);
	record_keep_known(run);
	record_end_anomalies(run);
	note_left(run);
	store_end(run);
	record_tell_end(run);
	await_record(run);
	take_recorded_ooms(run);
	record_keep_told(run);
}
