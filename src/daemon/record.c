#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/evidence.h"
#include "daemon/own.h"
#include "daemon/run_internal.h"
#include "report/report.h"

/* How long all that is stored when all is over may wait for another writer, together. */
#define END_PATIENCE_MS 5000

/* What lasts as long as this is told to a daemon that does not see it in its database. */
#define GUEST_AFTER_SECONDS 0.25

/* ---- the beginning ---- */

static const char *own_folder(struct arena *arena)
{
	CLEANUP(free_ptr) char *folder = getcwd(NULL, 0);

	return arena_strdup(arena, folder);
}

void record_describe(struct run *run)
{
	struct attempt *a = run->attempt;
	struct job_input input;

	a->job_id = arena_strdup(&a->arena, run->options->spec->job_id);
	a->command = arena_strdup(&a->arena, run->options->command);
	a->is_running = true;
	a->argv_hash = job_spec_hash(run->options->spec, run->options->mask);
	input = job_spec_measure_input(run->options->spec);
	a->input_bytes = input.bytes;
	a->input_hash = input.hash;
	a->uid = geteuid();
	a->submission = run->options->submission;
	a->host = own_host(&a->arena);
	a->workdir = own_folder(&a->arena);
	proc_boot_id(a->boot_id);
	a->pid_ns = own_pid_ns();
	a->runner.pid = getpid();
	if (proc_start_ticks(a->runner.pid, &a->runner.start_ticks) < 0)
		a->runner.start_ticks = U64_UNKNOWN;
	a->interval_seconds = run->options->interval_seconds;
	a->started_wall_ns = clock_wall_ns();
	run->boot_ns = run->ended_boot_ns = clock_boot_ns(); /* the same moment: see run_now() */
	a->clock = clock_read_quality();
	a->total_sheets = (int)run->options->spec->n_sheets;
}

/* ---- during the run ---- */

/* Something is lost, and the report will say so. */
static void say_loss(struct run *run, const char *what, const struct err *err)
{
	if (run->store_err.code != 0)
		return;
	log_error("%s: %s", what, err->text);
	run->store_err = *err;
}

static int make_folder_of(const char *file, struct err *err)
{
	CLEANUP(free_ptr) char *folder = strdup(file);
	char *slash = folder ? strrchr(folder, '/') : NULL;

	if (!slash || slash == folder)
		return 0;
	*slash = '\0';
	return path_make_dir(folder, err);
}

/* Which file the path names now; all zero: none. */
static struct file_id id_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct file_id){ 0 };
	return (struct file_id){ st.st_dev, st.st_ino };
}

/* Somebody has moved or removed the database under us: what we write nobody will find. */
static bool was_replaced(const struct run *run)
{
	struct file_id now = id_of(run->options->db_path);

	return now.device != run->store_file.device || now.inode != run->store_file.inode;
}

/* With the sheets as they are now, which are the runner's. */
static int begin_attempt(struct run *run, struct err *err)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);
	struct attempt with_sheets = *a;
	int r;

	with_sheets.sheets = (struct sheet_record *)sheets;
	with_sheets.n_sheets = n;
	r = store_begin_attempt(run->store, &with_sheets, err);
	if (r < 0)
		return r;
	a->id = with_sheets.id;
	a->attempt_num = with_sheets.attempt_num;
	unsaved_set_attempt(&run->unsaved, a->id);
	run->n_sheets_stored = n;
	return 0;
}

/* What is left of the time for the end of the run. */
static unsigned end_patience_ms(const struct run *run)
{
	uint64_t now = clock_boot_ns();

	return now < run->end_boot_ns ? (unsigned)((run->end_boot_ns - now) / 1000000) : 0;
}

static int open_store(struct run *run, unsigned patience_ms, struct err *err)
{
	const char *path = run->options->db_path;
	int r;

	if (!path)
		return err_set(err, -ENOENT, "%s", run->options->why_no_db);
	r = make_folder_of(path, err);
	if (r == 0)
		r = store_open_patient(path, STORE_WRITE, patience_ms, &run->store, err);
	if (r < 0)
		return r;
	run->store_file = id_of(path);
	if (run->end_boot_ns > 0)
		store_share_patience(run->store, end_patience_ms(run));
	r = begin_attempt(run, err);
	if (r < 0)
		run->store = store_close(run->store);
	return r;
}

/* Inside the loop, what may pass is tried again at the next tick. */
static void try_to_open(struct run *run, unsigned patience_ms, struct err *err)
{
	int r;

	if (run->store || run->store_is_off)
		return;
	r = open_store(run, patience_ms, err);
	if (r == 0 || (trouble_may_pass(r) && patience_ms == LOOP_PATIENCE_MS))
		return;
	run->store_is_off = true;
	say_loss(run, "this run is not recorded", err);
}

/* A daemon is not to count them as well, or at all. */
static bool keeps_calls(const struct run *run)
{
	return run->calls || run->options->syscalls.how == RUN_SYSCALLS_OFF;
}

/* As it is by now, for a daemon. */
static struct link_job link_job_of(const struct run *run)
{
	struct link_job job = {
		.a = run->attempt,
		.device = run->store_file.device,
		.inode = run->store_file.inode,
		.keeps_calls = keeps_calls(run),
	};

	job.sheets = runner_sheets(run->runner, &job.n_sheets);
	return job;
}

int record_ask_to_count(struct run *run, struct err *err)
{
	struct link_job job = link_job_of(run);

	job.keeps_calls = false;
	job.wants_calls = true;
	return link_ask_to_count(run->link, &job, err);
}

/* The last that is stored may have ended since. */
static void write_sheets(struct run *run)
{
	size_t n, from = run->n_sheets_stored > 0 ? run->n_sheets_stored - 1 : 0;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);
	struct err err = ERR_INIT;
	int r = store_write_sheets(run->store, run->attempt, sheets + from, n - from, &err);

	if (r == 0)
		run->n_sheets_stored = n;
	else if (!trouble_may_pass(r)) /* else it is written again at the end, with all sheets */
		say_loss(run, "this run is not fully recorded", &err);
}

/*
 * Where nothing is to be written down a daemon is not told either, but for the one that has
 * started us: it would not know the job, could not end it, and would never hear how it ended.
 */
static bool may_greet(const struct run *run)
{
	if (run->store)
		return true;
	return run->store_is_off && (run->options->db_path || run->options->is_submitted);
}

/*
 * Once the attempt is in the database, which is where a daemon that shares it looks,
 * or cannot be. Our own daemon is greeted when the job lasts: at first we look more
 * often than the daemon does, and what is over by then needs none. For another,
 * whose guest we are, it is new; and one that has submitted the job waits for it, and sees nothing
 * of it in a database that we do not write. Before a daemon counts what is not its to count it is
 * told so.
 */
static void greet_daemon(struct run *run)
{
	double elapsed = clock_ns_to_seconds(clock_boot_ns() - run->boot_ns);
	const struct link_job job = link_job_of(run);
	bool is_submitted = run->options->is_submitted;

	if (!may_greet(run))
		return;
	if (elapsed > GUEST_AFTER_SECONDS || is_submitted || job.keeps_calls)
		link_greet(run->link, &job,
			   elapsed > run->options->interval_seconds || job.keeps_calls ||
				   (is_submitted && !run->store));
}

void record_now(struct run *run)
{
	bool was_open = run->store != NULL;
	const struct link_job job = link_job_of(run);
	size_t told = run->n_sheets_stored > 0 ? run->n_sheets_stored - 1 : 0;
	struct err err = ERR_INIT;

	try_to_open(run, LOOP_PATIENCE_MS, &err);
	if (was_open)
		write_sheets(run);
	link_tell_changed(run->link, &job, told);
	if (run->options->is_submitted || job.keeps_calls)
		greet_daemon(run);
}

void record_sheet_soon(struct run *run)
{
	loop_timer_set(run->record_timer, 0, 0);
}

/* ---- ticks ---- */

/* A short wait is nobody's business. */
#define WAIT_UNSAID_NS UINT64_C(2000000000)

static void note_waiting(struct run *run, const struct err *err)
{
	uint64_t now = clock_boot_ns();

	if (!u64_known(run->waiting_since_boot_ns))
		run->waiting_since_boot_ns = now;
	if (run->is_waiting_said ||
	    (err->code == -EBUSY && now - run->waiting_since_boot_ns < WAIT_UNSAID_NS))
		return;
	run->is_waiting_said = true;
	log_warning("recording waits, and the job goes on: %s", err->text);
}

static void note_stored(struct run *run)
{
	run->waiting_since_boot_ns = U64_UNKNOWN;
	if (!run->is_waiting_said)
		return;
	run->is_waiting_said = false;
	if (run->backlog.n_lost > 0)
		log_warning("recording goes on; %llu ticks are lost",
			    (unsigned long long)run->backlog.n_lost);
	else
		log_warning("recording goes on; the database has every tick");
}

/* Said when it begins, and when it is over. */
static void note_disk(struct run *run)
{
	struct err err = ERR_INIT;
	bool is_refused = run->store && store_check_disk(run->store, &err) < 0;

	if (is_refused && !run->is_disk_said)
		log_warning("recording goes on: %s", err.text);
	else if (run->is_disk_said && run->store && !is_refused)
		log_warning("what was recorded is on the disk by now");
	run->is_disk_said = is_refused;
}

/* A tick that has waited knows no more of the attempt than which one it is, which may be new. */
static int store_tick(struct run *run, const struct tick_record *tick, struct err *err)
{
	const struct attempt *attempts[] = { run->attempt };
	struct tick_record record = *tick;
	int r;

	record.attempts = attempts;
	record.events = tally_pending_events(run->tally, &record.n_events);
	r = store_write_tick(run->store, run->attempt->id, &record, err);
	if (r == 0)
		tally_events_stored(run->tally);
	return r;
}

static int store_waiting_tick(void *ctx, const struct tick_record *record, struct err *err)
{
	return store_tick(ctx, record, err);
}

/*
 * Those that wait, oldest first, are stored for so long, and after so much of a pause again: there
 * may be hundreds, and the next tick is not to be late for them.
 */
#define DRAIN_NS UINT64_C(20000000)
#define DRAIN_PAUSE_MS 20

/* 1: more wait. */
static int store_some(struct run *run, struct err *err)
{
	int r = backlog_drain(&run->backlog, clock_boot_ns() + DRAIN_NS, store_waiting_tick, run,
			      err);

	if (r > 0)
		loop_timer_set(run->drain_timer, DRAIN_PAUSE_MS, 0);
	return r;
}

void record_waiting(struct run *run)
{
	struct err err = ERR_INIT;
	int r = run->store ? store_some(run, &err) : 0;

	if (r == 0 && run->store)
		note_stored(run);
	else if (r < 0) /* the next tick tries again */
		note_waiting(run, &err);
}

/* A line that cannot be written is not worth keeping: the database has it all. */
static void append_line(struct run *run)
{
	struct err err = ERR_INIT;

	if (!run->jsonl || jsonl_append_snapshot(run->jsonl, &run->snap, &err) == 0)
		return;
	if (run->n_lines_missing++ == 0)
		log_warning("snapshots are missing in the log, and the job goes on: %s", err.text);
}

static void store_or_keep(struct run *run, const struct series_point *point)
{
	const struct attempt *attempts[] = { run->attempt };
	const struct tick_record record = {
		.snap = &run->snap, .attempts = attempts, .n_attempts = 1, .points = point
	};
	struct err err = ERR_INIT;
	int r;

	try_to_open(run, LOOP_PATIENCE_MS, &err);
	if (run->store_is_off)
		return;
	r = run->store ? store_some(run, &err) : err.code;
	if (r == 0)
		r = store_tick(run, &record, &err);
	if (r == 0) {
		note_stored(run);
		return;
	}
	backlog_add(&run->backlog, &record);
	if (r < 0)
		note_waiting(run, &err);
}

/* The daemon looks at the processes; what happened to them we know better. */
static void store_events(struct run *run)
{
	struct err err = ERR_INIT;
	size_t n;
	const struct proc_event *events = tally_pending_events(run->tally, &n);

	if (n > 0 && store_write_events(run->store, run->attempt, events, n, &err) == 0)
		tally_events_stored(run->tally);
}

/* Who traces for us is our child, and none of the job. */
static void trace(struct run *run, const struct episode *e, const struct anomaly_evidence *evidence)
{
	const struct evidence_trace_plan plan = { run->options->state_dir,
						  run->options->anomaly->evidence_trace_seconds };
	struct err err = ERR_INIT;
	int r;

	if (!(plan.seconds > 0))
		return;
	r = evidence_trace_begin(&run->trace, &plan, e, evidence, &err);
	if (r < 0)
		log_debug("no trace of process %lld: %s", (long long)e->worst.pid, err.text);
	else if (tree_add_stranger(run->tree, run->trace.tracer) < 0)
		evidence_trace_stop(&run->trace);
}

static void keep_trace(struct run *run, bool has_ended)
{
	struct err err = ERR_INIT;

	if (!has_ended)
		return;
	tree_forget_stranger(run->tree, run->trace.ended);
	if (run->store && run->trace.evidence.trace[0] &&
	    store_set_evidence(run->store, run->trace.episode, &run->trace.evidence, &err) < 0)
		log_warning("the trace %s is not recorded: %s", run->trace.evidence.trace,
			    err.text);
}

/* And its processes are looked at closer for a while: run.c plans its ticks by that. */
static bool find_evidence(struct run *run, const struct detect_change *change,
			  struct anomaly_evidence *ret)
{
	const struct evidence_from from = { run->root_fd, run->options->mask, &run->snap };
	bool has_evidence;

	if (change->change != EPISODE_BEGAN)
		return false;
	has_evidence = evidence_gather(&from, change->episode, ret);
	if (closer_begin(&run->closer, &change->wish, run->attempt->id, clock_boot_ns())) {
		ret->fast_interval_seconds = change->wish.interval_seconds;
		has_evidence = true;
	}
	if (has_evidence)
		trace(run, change->episode, ret);
	return has_evidence;
}

/* One that cannot be stored now is stored later, or at the end. What is of the host is nobody's. */
static void store_anomaly(struct run *run, const struct detect_change *change)
{
	struct anomaly_evidence evidence;
	struct episode episode;
	const struct anomaly_news news = {
		.attempt_id = change->episode->worst.job_id ? run->attempt->id : 0,
		.episode = &episode,
		.change = change->change,
		.takes_over = !link_is_shared(run->link), /* what a daemon began that is gone */
	};
	struct err err = ERR_INIT;

	episode_copy(&episode, change->episode);
	if (find_evidence(run, change, &evidence))
		episode.evidence = &evidence;
	unsaved_write(&run->unsaved, run->store, &news, NULL, &err);
}

static void store_anomalies(struct run *run, const struct detect_changes *changes)
{
	for (size_t i = 0; !run->store_is_off && i < changes->n; i++)
		store_anomaly(run, &changes->items[i]);
	if (changes->n == 0)
		unsaved_retry(&run->unsaved, run->store, 0, NULL);
}

#define USUAL_AFTER_NS UINT64_C(5000000000) /* a short run never pays for it */

/* Once, from the record, which has its sheets as those of others. */
static void look_up_usual(struct run *run)
{
	CLEANUP(attempt_release) struct attempt a;

	attempt_init(&a);
	if (run->has_usual || !run->store || clock_boot_ns() - run->boot_ns < USUAL_AFTER_NS)
		return;
	if (store_read_progress(run->store, run->attempt->job_id, run->attempt->attempt_num, &a,
				NULL) < 0 ||
	    learning_usual(run->store, &a, &run->usual, NULL) < 0)
		return;
	run->usual.job_id = run->attempt->job_id;
	run->has_usual = true;
}

/* What we know ourselves, and what a daemon has written down. NULL: no memory, or there is none. */
static struct proc_event *list_news(struct run *run, size_t *ret_n)
{
	struct told_kills *told = &run->told_kills;
	size_t n;
	const struct proc_event *own = tally_pending_events(run->tally, &n);
	struct proc_event *list;

	for (size_t i = 0; i < n; i++)
		if (own[i].type == EVENT_OOM)
			told_kills_know(told, own[i].key.pid);
	told_kills_look(told, run->store, run->attempt, &run->snap);
	list = reallocarray(NULL, n + told->n, sizeof(*list));
	*ret_n = list ? n + told->n : 0;
	if (list && n > 0)
		memcpy(list, own, n * sizeof(*list));
	if (list && told->n > 0)
		memcpy(list + n, told->items, told->n * sizeof(*list));
	return list;
}

static void look_for_anomalies(struct run *run)
{
	CLEANUP(free_ptr) struct proc_event *events = NULL;
	struct detect_news news = { .snap = &run->snap, .usual = &run->usual };
	struct detect_changes changes;

	/* What is of the host a daemon tells, where one is. */
	detect_set_scope(run->detect, link_is_shared(run->link) ? DETECT_JOBS : DETECT_ALL);
	look_up_usual(run);
	news.n_usual = run->has_usual;
	news.events = events = list_news(run, &news.n_events);
	detect_tick(run->detect, &news, &changes); /* what it has found, it has found */
	store_anomalies(run, &changes);
}

static bool has_new_kill(const struct run *run)
{
	size_t n;
	const struct proc_event *events = tally_pending_events(run->tally, &n);

	for (size_t i = 0; i < n; i++)
		if (events[i].type == EVENT_OOM)
			return true;
	return false;
}

/*
 * A kill for want of memory mostly ends the job, and then there is no further tick. None of its
 * processes is left to be seen.
 */
static void look_at_last_kill(struct run *run)
{
	struct err err = ERR_INIT;

	if (!run->collector || !has_new_kill(run) || link_records(run->link) ||
	    collector_scan_some(run->collector, NULL, 0, &run->snap, &err) < 0)
		return;
	run->snap.wall_ns = run->attempt->ended_wall_ns;
	look_for_anomalies(run);
}

static void end_anomalies(struct run *run)
{
	struct detect_changes changes;

	keep_trace(run, evidence_trace_stop(&run->trace));
	look_at_last_kill(run);
	detect_end(run->detect, &changes);
	store_anomalies(run, &changes);
}

/*
 * From now on a daemon looks. What lasts is left open in the record, and the daemon goes on with
 * it when it sees the same; kills are moments, and told here.
 */
static void hand_over(struct run *run)
{
	struct detect_changes changes;

	unsaved_retry(&run->unsaved, run->store, 0, NULL);
	if (run->is_handed_over)
		return;
	run->is_handed_over = true;
	keep_trace(run, evidence_trace_stop(&run->trace));
	detect_end(run->detect, &changes);
	for (size_t i = 0; i < changes.n; i++)
		if (changes.items[i].episode->worst.type == ANOMALY_OOM_KILL)
			store_anomaly(run, &changes.items[i]);
}

/* What fails now is there at the next tick. */
static void store_phases(struct run *run)
{
	struct err err = ERR_INIT;

	if (run->store && run->attempt->id > 0)
		(void)phase_box_empty(&run->phases, run->store, run->attempt->id, run->root_fd,
				      &err);
}

void record_tick(struct run *run, const struct series_point *point)
{
	greet_daemon(run);
	store_phases(run);
	if (run->store && link_records(run->link) && !run->backlog.first) {
		hand_over(run);
		store_events(run);
		return;
	}
	run->is_handed_over = false;
	keep_trace(run, evidence_trace_has_ended(&run->trace));
	look_for_anomalies(run);
	store_or_keep(run, point);
	note_disk(run);
	append_line(run);
	upkeep_look(run->upkeep, run->store);
}

/* ---- the end ---- */

static void add_unknown(struct attempt *a, const char *what, const char *why)
{
	struct unknown_note *grown = arena_alloc(&a->arena, (a->n_unknowns + 1) * sizeof(*grown));

	if (!grown)
		return;
	if (a->n_unknowns > 0)
		memcpy(grown, a->unknowns, a->n_unknowns * sizeof(*grown));
	grown[a->n_unknowns] = (struct unknown_note){ arena_strdup(&a->arena, what),
						      arena_strdup(&a->arena, why) };
	a->unknowns = grown;
	a->n_unknowns++;
}

static void add_count_note(struct attempt *a, uint64_t n, const char *what, const char *why)
{
	char text[200];

	if (n == 0)
		return;
	snprintf(text, sizeof(text), "%llu %s", (unsigned long long)n, why);
	add_unknown(a, what, text);
}

/* The daemon times for all jobs alike. */
static void warn_all_timed(const struct run *run, const struct told_calls *calls)
{
	if (run->options->syscalls.time_every > 1 && calls->time_every <= 1)
		log_warning("a daemon has counted the system calls, and timed all of them: its "
			    "syscalls_time_every says how many");
}

static void keep_told_calls(struct run *run, struct told_calls *calls)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;

	CLEANUP(buf_release) struct buf error = BUF_INIT;

	warn_all_timed(run, calls);
	told_calls_keep(calls, run->attempt);
	told_calls_say_missing(calls, &why);
	if (why.len > 0)
		add_unknown(run->attempt, "syscalls", why.data);
	told_calls_say_error(calls, &error);
	if (error.len > 0)
		add_unknown(run->attempt, NOTE_SYSCALL_TIMES, error.data);
	run->is_counted_by_daemon = link_counts_calls(run->link);
}

/* By a daemon that is there and does. It may have come after the beginning. */
static void take_daemons_calls(struct run *run)
{
	CLEANUP(told_calls_release)
	struct told_calls calls = { .processes.max_bytes = RUN_CALLS_MAX_TEXT_BYTES };
	struct err err = ERR_INIT;
	int r;

	if (run->options->syscalls.how == RUN_SYSCALLS_OFF)
		return;
	r = link_take_calls(run->link, &calls, &err);
	if (r == 0)
		keep_told_calls(run, &calls);
	else if (run->is_daemon_asked)
		err_set(&run->calls_err, r,
			"the daemon that counted them is gone, or has them no "
			"more");
}

/* What went wrong with counting is no reason to say that nothing was counted. */
static void keep_calls(struct run *run)
{
	const char *why = NULL, *error = NULL;

	if (!run->calls) {
		take_daemons_calls(run);
		return;
	}
	run_calls_end(run->calls, run->attempt, &why, &error);
	if (why)
		add_unknown(run->attempt, "syscalls", why);
	if (error)
		add_unknown(run->attempt, NOTE_SYSCALL_TIMES, error);
}

static void note_gpus(struct run *run)
{
	char why[256];

	if (run->gpus && gpus_tell_trouble(run->gpus, why, sizeof(why)))
		add_unknown(run->attempt, "gpus", why);
	else if (!run->gpus && sources_has_gpu(run->root_fd))
		add_unknown(run->attempt, "gpus", "gpu_enabled is false in the configuration");
}

static void note_unknowns(struct run *run)
{
	struct attempt *a = run->attempt;

	if (!run->calls && a->n_syscalls == 0)
		add_unknown(a, "syscall_hotspots", run->calls_err.text);
	note_gpus(run);
	if (!run->collector)
		add_unknown(a, "samples", "/proc cannot be read");
	if (!run->life)
		add_unknown(
			a, "process_spawn_count",
			"the kernel does not tell this user of births and deaths: processes that "
			"lived between two samples are missing");
	add_count_note(a, tally_lost_events(run->tally), "process_spawn_count",
		       "kernel events were lost: counts are lower bounds");
	add_count_note(a, tally_unlisted_processes(run->tally), "processes",
		       "more processes were counted and are not listed one by one");
	add_count_note(a, tally_unlisted_events(run->tally), "events",
		       "more process events were counted and are not listed");
	if (a->usage.cpu_evidence == EVIDENCE_LOWER_BOUND)
		add_unknown(
			a, "total_cpu_seconds",
			"some processes still run, or were waited for by nobody, as their parent "
			"ignores SIGCHLD: what they used is not all counted in");
	if (a->usage.io_evidence == EVIDENCE_LOWER_BOUND)
		add_unknown(
			a, "io",
			"some of it could not be read, or is of processes that still run or that "
			"nobody waited for");
}

static void keep_sheet(struct attempt *a, struct sheet_record *s)
{
	s->name = arena_strdup(&a->arena, s->name);
	s->command = arena_strdup(&a->arena, s->command);
	s->reason = arena_strdup(&a->arena, s->reason);
	s->ranks = s->n_ranks ? arena_memdup(&a->arena, s->ranks, s->n_ranks * sizeof(*s->ranks))
			      : NULL;
	s->n_ranks = s->ranks ? s->n_ranks : 0;
}

static void keep_sheets(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);

	a->sheets = n ? arena_memdup(&a->arena, sheets, n * sizeof(*sheets)) : NULL;
	a->n_sheets = a->sheets ? n : 0;
	for (size_t i = 0; i < a->n_sheets; i++)
		keep_sheet(a, &a->sheets[i]);
}

static void keep_processes(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct proc_record *records = tally_processes(run->tally, &n);

	a->processes = n ? arena_memdup(&a->arena, records, n * sizeof(*records)) : NULL;
	a->n_processes = a->processes ? n : 0;
	for (size_t i = 0; i < a->n_processes; i++)
		a->processes[i].command = arena_strdup(&a->arena, a->processes[i].command);
}

static void keep_events(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct proc_event *events = tally_events(run->tally, &n);

	a->events = n ? arena_memdup(&a->arena, events, n * sizeof(*events)) : NULL;
	a->n_events = a->events ? n : 0;
	for (size_t i = 0; i < a->n_events; i++) {
		a->events[i].job_id = a->job_id;
		a->events[i].details = arena_strdup(&a->arena, a->events[i].details);
	}
}

static int keep_anomaly(void *ctx, const struct anomaly_row *row)
{
	return episode_append(ctx, &row->episode);
}

/* From the record, since it may have been the daemon that looked. */
static void keep_anomalies(struct run *run)
{
	const struct anomaly_filter filter = { .job_id = run->attempt->job_id,
					       .attempt_num = run->attempt->attempt_num };
	struct err err = ERR_INIT;

	if (!run->store ||
	    store_read_anomalies(run->store, &filter, keep_anomaly, run->attempt, &err) < 0)
		add_unknown(run->attempt, "anomalies", "they could not be recorded");
}

static void keep_series(struct run *run)
{
	struct attempt *a = run->attempt;

	a->series = run->n_series ? arena_memdup(&a->arena, run->series,
						 run->n_series * sizeof(*run->series))
				  : NULL;
	a->n_series = a->series ? run->n_series : 0;
}

static void note_calls_rung(struct run *run)
{
	struct attempt *a = run->attempt;
	struct rung taken = { RUNG_SYSCALLS, RUNG_UNKNOWN, run->calls_err.text };

	if (run->calls)
		taken = run_calls_rung(run->calls);
	else if (run->is_counted_by_daemon)
		taken = (struct rung){ RUNG_SYSCALLS, RUNG_SYSCALLS_EBPF, "" };
	for (size_t i = 0; i < a->n_rungs; i++)
		if (strcmp(a->rungs[i].measurement, RUNG_SYSCALLS) == 0) {
			a->rungs[i].rung = taken.rung;
			a->rungs[i].reason = arena_strdup(&a->arena, taken.reason);
		}
}

/* What measured, which may be less than what a probe would find now. */
static void note_rungs(struct run *run)
{
	struct attempt *a = run->attempt;

	a->rungs = arena_alloc(&a->arena, SOURCES_MAX_RUNGS * sizeof(*a->rungs));
	if (!a->rungs)
		return;
	a->n_rungs = sources_probe_rungs(run->root_fd, &a->arena, a->rungs);
	if (run->gpus)
		gpus_tell_rung(run->gpus, &a->arena, a->rungs, a->n_rungs);
	note_calls_rung(run);
	for (size_t i = 0; i < a->n_rungs; i++) {
		if (run->life || strcmp(a->rungs[i].measurement, SOURCES_RUNG_BIRTHS) != 0)
			continue;
		a->rungs[i].rung = SOURCES_RUNG_BIRTHS_POLLING;
		a->rungs[i].reason = arena_strdup(&a->arena, run->life_err.text);
	}
}

/* Somebody has put another database in its place: the attempt is begun anew there. */
static void leave_replaced(struct run *run)
{
	if (!run->store || !was_replaced(run))
		return;
	upkeep_leave(run->upkeep);
	unsaved_release(&run->unsaved);
	run->store = store_close(run->store);
	run->attempt->id = 0;
	add_unknown(run->attempt, "history",
		    "another database took the place of the first one during the run: samples "
		    "from before that are in the first one, wherever it is now");
}

/* What waits still, with more patience: all of it was waiting for less than this. */
static void store_last_ticks(struct run *run)
{
	struct err err = ERR_INIT;
	char what[80];

	if (run->store &&
	    backlog_drain(&run->backlog, U64_UNKNOWN, store_waiting_tick, run, &err) < 0) {
		snprintf(what, sizeof(what), "this run is not fully recorded (%zu ticks are lost)",
			 run->backlog.n);
		run->backlog.n_lost += run->backlog.n;
		say_loss(run, what, &err);
	}
	if (run->store && unsaved_retry(&run->unsaved, run->store, U64_UNKNOWN, &err) < 0) {
		run->unsaved.n_lost += run->unsaved.n;
		say_loss(run, "this run is not fully recorded", &err);
	}
	if (!run->store_is_off)
		add_count_note(run->attempt, run->backlog.n_lost, "history",
			       "ticks could not be stored");
	add_count_note(run->attempt, run->unsaved.n_lost, "anomalies", "could not be stored");
	add_count_note(run->attempt, detect_count_left_out(run->detect), "anomalies",
		       "processes or anomalies were more than there was room for");
	add_count_note(run->attempt, run->n_lines_missing, "log of snapshots",
		       "snapshots could not be written to it");
	if (run->n_lines_missing > 0)
		log_warning("the log lacks %llu snapshots",
			    (unsigned long long)run->n_lines_missing);
}

/*
 * How it ended is known, whatever has become of the database: it waits beside that, and
 * whoever opens it next takes it in.
 */
static void keep_end(struct run *run, const struct err *why)
{
	struct err err = ERR_INIT;

	if (!run->options->db_path || why->code == -EMEDIUMTYPE) /* nothing of ours is there */
		return;
	if (store_keep_end(run->options->db_path, run->attempt, &err) == 0)
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
		add_unknown(run->attempt, "syscall_hotspots",
			    "they were counted, and could not be recorded");
}

static void store_end(struct run *run)
{
	const struct proc_event *events;
	struct err err = ERR_INIT;
	size_t n;

	run->end_boot_ns = clock_boot_ns() + END_PATIENCE_MS * UINT64_C(1000000);
	leave_replaced(run);
	try_to_open(run, END_PATIENCE_MS, &err);
	if (run->store)
		store_share_patience(run->store, end_patience_ms(run));
	store_last_ticks(run);
	if (run->store_err.code != 0)
		add_unknown(run->attempt, REPORT_NOTE_RECORDING, run->store_err.text);
	if (!run->store) {
		keep_end(run, &run->store_err);
		return;
	}
	store_calls(run);
	store_phases(run);
	events = tally_pending_events(run->tally, &n);
	if (store_finish_attempt(run->store, run->attempt, events, n, &err) == 0) {
		upkeep_do_some(run->upkeep, run->store);
		return;
	}
	run->store_err.code = 0; /* the end matters more than a tick: say it in any case */
	say_loss(run, "the end of this run is not fully recorded", &err);
	add_unknown(run->attempt, REPORT_NOTE_RECORDING, run->store_err.text);
	keep_end(run, &err);
}

/* Whoever submitted it hears of it, however short it was. */
static void tell_end(struct run *run)
{
	const struct link_job job = link_job_of(run);

	run->is_untold = !link_tell_end(run->link, &job, run->options->is_submitted) &&
			 (link_is_guest(run->link) || run->options->is_for_other ||
			  (run->options->is_submitted && !run->store));
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

/* Who has killed it a daemon may know, and tells of jobs that it has heard of before their end. */
static void tell_of_kill(struct run *run)
{
	struct link_job job;
	struct err err = ERR_INIT;

	if (!was_killed(run->attempt))
		return;
	try_to_open(run, END_PATIENCE_MS, &err);
	job = link_job_of(run);
	link_greet_at_once(run->link, &job);
}

void record_end(struct run *run, const struct runner_result *result)
{
	struct attempt *a = run->attempt;

	keep_processes(run);
	tell_of_kill(run);
	link_take_signals(run->link, on_told_signal, run);
	a->is_running = false;
	a->ended_wall_ns = a->started_wall_ns + (clock_boot_ns() - run->boot_ns);
	a->outcome = result->outcome;
	a->reason = arena_strdup(&a->arena, result->reason);
	a->status = result->status;
	a->last_completed_sheet = result->last_completed_sheet;
	tally_total(run->tally, run->ended_boot_ns, !runner_has_processes(run->runner), &a->usage);
	keep_sheets(run);
	keep_calls(run);
	note_rungs(run);
	note_unknowns(run);
	end_anomalies(run);
	store_end(run);
	tell_end(run);
	take_recorded_ooms(run);
	keep_events(run);
	keep_anomalies(run);
	keep_series(run);
}
