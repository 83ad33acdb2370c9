#include "recorder/run_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/upkeep.h"

/* ---- the daemon ---- */

/* A run that lasts as long as this greets a daemon. */
#define GREET_AFTER_SECONDS 0.25

/* One that is to count system calls as well is asked while the command waits. */
void record_begin(struct run *run)
{
	if (run->options->db_path && !run->counting.asks_daemon)
		link_begin(run->link);
}

/*
 * A run that is over soon needs no daemon. One that has submitted the job waits for it. Before a
 * daemon counts system calls that are not its to count, it is told so.
 */
static void greet(struct run *run)
{
	double elapsed = clock_ns_to_seconds(clock_boot_ns() - run->boot_ns);

	if (run->job.log &&
	    (elapsed > GREET_AFTER_SECONDS || run->options->is_submitted || run->job.keeps_calls))
		link_greet(run->link);
}

void record_tell_changed(struct run *run)
{
	link_tell_changed(run->link, false);
	if (run->options->is_submitted || run->job.keeps_calls)
		greet(run);
}

/* Whether there is a daemon that cannot read the end in its own folder of logs. */
static bool must_hear_end(const struct run *run)
{
	return link_state(run->link)->is_guest || run->options->is_for_other ||
	       (run->options->is_submitted && !attempt_log_is_stored(run->job.log));
}

void record_prepare_end(struct run *run)
{
	if (run->job.log && must_hear_end(run) && link_open_log(run->link) < 0)
		log_debug("the log cannot be read back");
}

/* Whoever submitted it hears of it, however short it was. */
void record_tell_end(struct run *run)
{
	run->is_untold = run->job.log && !link_tell_end(run->link, run->options->is_submitted) &&
			 must_hear_end(run);
	if (run->is_untold)
		run->untold_log = link_take_log(run->link);
}

/* ---- the log ---- */

static void describe_self(struct attempt *a)
{
	a->uid = geteuid();
	a->host = own_host(&a->arena);
	proc_boot_id(a->boot_id);
	a->pid_ns = own_pid_ns();
	a->runner.pid = getpid();
	if (proc_start_ticks(a->runner.pid, &a->runner.start_ticks) < 0)
		a->runner.start_ticks = U64_UNKNOWN;
}

void record_describe(struct run *run)
{
	CLEANUP(free_ptr) char *folder = getcwd(NULL, 0);
	struct attempt *a = run->attempt;
	struct job_input input;

	a->job_id = arena_strdup(&a->arena, run->options->spec->job_id);
	a->command = arena_strdup(&a->arena, run->options->command);
	a->is_running = true;
	a->argv_hash = job_spec_hash(run->options->spec, run->options->mask);
	input = job_spec_measure_input(run->options->spec);
	a->input_bytes = input.bytes;
	a->input_hash = input.hash;
	describe_self(a);
	a->submission = run->options->submission;
	a->workdir = arena_strdup(&a->arena, folder);
	a->interval_seconds = run->options->interval_seconds;
	a->started_wall_ns = clock_wall_ns();
	run->boot_ns = run->ended_boot_ns = clock_boot_ns(); /* the same moment: see run_now() */
	run->storing.boot_ns = run->boot_ns;
	a->clock = clock_read_quality();
	a->total_sheets = (int)run->options->spec->n_sheets;
	a->attempt_num = run->options->spec->is_new_id ? 1 : 0;
}

/* ---- the log ---- */

/* With the sheets as they are now, which are the runner's. */
static void describe_begin(void *ctx, struct buf *out)
{
	const struct run *run = ctx;
	size_t n;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);

	record_write_begin(out, run->attempt);
	record_write_sheets(out, sheets, n);
}

void record_open(struct run *run)
{
	struct attempt_log_options options = { .db_path = run->options->db_path,
					       .a = run->attempt,
					       .describe = describe_begin,
					       .ctx = run };
	struct err err = ERR_INIT;
	int r = options.db_path ? attempt_log_open(&options, &run->job.log, &err)
				: err_set(&err, -ENOENT, "%s", run->options->why_no_db);

	run->attempt->id = r < 0 ? 0 : ATTEMPT_IN_LOG;
	if (r == 0)
		return;
	if (run->recording.err.code == 0 && !run->options->is_quiet)
		log_error("this run is not recorded: %s", err.text);
	if (run->recording.err.code == 0)
		run->recording.err = err;
	if (!options.db_path && !run->options->is_submitted)
		return;
	options.db_path = NULL; /* a daemon may record it */
	(void)attempt_log_open(&options, &run->job.log, NULL);
}

void record_append(struct run *run, enum record_type type, const struct buf *bytes)
{
	if (run->job.log)
		attempt_log_append(run->job.log, type, bytes);
}

/* ---- what is stored ---- */

#define STORE_EVERY_NS UINT64_C(3600000000000)
#define STORE_EVERY_BYTES (UINT64_C(4) << 20)

void record_store_aside(struct run *run)
{
	if (!attempt_log_is_stored(run->job.log) || run->storing.pid > 0 ||
	    link_is_shared(run->link))
		return;
	run->storing.boot_ns = clock_boot_ns();
	run->storing.bytes = attempt_log_bytes(run->job.log);
	run->storing.pid = upkeep_run_aside(run->options->db_path, run->options->retention,
					    run->options->jsonl_path);
	if (run->storing.pid > 0 && membership_add_stranger(run->members, run->storing.pid) < 0)
		log_debug("process %d is not known not to be the job's", (int)run->storing.pid);
}

struct store *record_open_store(const struct run *run)
{
	struct store *store = NULL;

	if (!run->options->db_path || store_open_timeout(run->options->db_path, STORE_READ_AS_IS,
							 LOOP_PATIENCE_MS, &store, NULL) < 0)
		return NULL;
	return store;
}

/* ---- records ---- */

/* The last that is recorded may have ended since. */
void record_now(struct run *run)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	size_t n, from = run->recording.n_sheets > 0 ? run->recording.n_sheets - 1 : 0;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);

	record_write_sheets_changed(&bytes, run->attempt, sheets + from, n - from);
	record_append(run, RECORD_SHEETS, &bytes);
	run->recording.n_sheets = n;
	record_tell_changed(run);
}

void record_sheet_soon(struct run *run)
{
	loop_timer_set(run->record_timer, 0, 0);
}

static void append_phases(void *ctx, const struct phase_change *items, size_t n, uint64_t n_lost)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	record_write_phases(&bytes, items, n);
	record_write_number(&bytes, n_lost);
	record_append(ctx, RECORD_PHASES, &bytes);
}

void record_events(struct run *run)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	size_t n;
	const struct proc_event *events = tally_pending_events(run->tally, &n);

	if (n > 0) {
		record_write_list(&bytes, RECORD_LIST_EVENTS, events, n);
		record_append(run, RECORD_EVENTS, &bytes);
		tally_events_stored(run->tally);
	}
	phase_box_read(&run->phases, run->root_fd, append_phases, run);
}

/* An event after a quiet time is recorded after the first, and those of a storm as seldom as the
 * second: the daemon stores them each time. */
#define EVENTS_SOON_MS 100
#define EVENTS_APART_MS 500

void record_events_soon(struct run *run)
{
	uint64_t now = clock_boot_ns(), ms = EVENTS_SOON_MS;
	size_t n;

	tally_pending_events(run->tally, &n);
	if (n == 0 || run->recording.is_soon || !run->job.log || !link_state(run->link)->is_there)
		return;
	if (now < run->recording.events_due_boot_ns)
		ms += (run->recording.events_due_boot_ns - now) / 1000000;
	run->recording.is_soon = true;
	run->recording.events_due_boot_ns = now + (ms + EVENTS_APART_MS - EVENTS_SOON_MS) * 1000000;
	loop_timer_set(run->recording.events_timer, ms, 0);
}

void record_tick(struct run *run, const struct series_point *point)
{
	struct err err = ERR_INIT;

	/* Where somebody has removed the folder nobody would find what we append: the record begins
	 * anew, under the same number if that is still free. */
	if (run->job.log && attempt_log_is_gone(run->job.log)) {
		log_error("the folder %s-logs was removed: this run is recorded anew from here on",
			  run->options->db_path);
		link_leave_log(run->link);
		run->job.log = attempt_log_close(run->job.log);
		if (!run->recording.is_replaced)
			attempt_note(run->attempt, "history",
				     "what was recorded of this run was removed while it ran: "
				     "samples from before that are lost");
		run->recording.is_replaced = true;
		record_open(run);
	}
	greet(run);
	record_look_for_anomalies(run);
	record_events(run);
	if (run->job.log) {
		attempt_log_append_tick(run->job.log, &run->snap, point);
		link_tell_changed(run->link, true);
	}
	if (attempt_log_is_stored(run->job.log)) {
		(void)attempt_log_sync(run->job.log);
		/* Of a run that lasts: its log is not to grow for ever. */
		if (run->storing.pid > 0 && waitpid(run->storing.pid, NULL, WNOHANG) != 0) {
			membership_forget_stranger(run->members, run->storing.pid);
			run->storing.pid = 0;
		}
		if (clock_boot_ns() - run->storing.boot_ns >= STORE_EVERY_NS ||
		    attempt_log_bytes(run->job.log) - run->storing.bytes >= STORE_EVERY_BYTES)
			record_store_aside(run);
	}
	/* A line that cannot be written is not worth keeping: the record has it all. A daemon of
	 * the same folder writes the log itself. */
	if (run->jsonl && !link_is_shared(run->link) &&
	    jsonl_append_snapshot(run->jsonl, &run->snap, &err) < 0 && run->n_lines_missing++ == 0)
		log_warning("snapshots are missing in the log, and the job goes on: %s", err.text);
}

/* ---- a job that cannot begin ---- */

#define REFUSAL_PATIENCE_NS UINT64_C(5000000000)

void run_record_refusal(const struct refusal *refusal)
{
	uint64_t until_boot_ns = clock_boot_ns() + REFUSAL_PATIENCE_NS;
	CLEANUP(attempt_release) struct attempt a;
	struct log_sender *sender = NULL;
	struct err err = ERR_INIT;
	int r = -ENOENT;

	attempt_init(&a);
	describe_self(&a);
	a.job_id = refusal->job_id;
	a.command = refusal->command;
	a.submission = refusal->submission;
	a.started_wall_ns = a.ended_wall_ns = clock_wall_ns();
	a.outcome = OUTCOME_FAILURE;
	a.reason = refusal->reason;
	if (refusal->db_path)
		r = attempt_log_write_whole(refusal->db_path, &a, until_boot_ns,
					    refusal->is_for_other ? &sender : NULL, &err);
	if (refusal->db_path && r < 0)
		log_error("that %s could not begin is not recorded: %s", a.job_id, err.text);
	if (r < 0) { /* in memory, for a daemon */
		sender = log_sender_close(sender);
		(void)attempt_log_write_whole(NULL, &a, until_boot_ns, &sender, NULL);
	}
	if (refusal->is_for_other || r < 0)
		late_word_leave(&a, sender, true);
}
