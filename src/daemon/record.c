#include "daemon/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/own.h"
#include "daemon/record_greet.h"
#include "daemon/record_keep.h"
#include "daemon/run_internal.h"

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

void record_say_loss(struct run *run, const char *what, const struct err *err)
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

/* A disk that does not answer now is no reason to leave what is open. */
static bool was_replaced(const struct run *run)
{
	struct stat st;

	if (stat(run->options->db_path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return st.st_dev != run->store_file.device || st.st_ino != run->store_file.inode;
}

void record_leave_replaced(struct run *run)
{
	if (!run->store || !was_replaced(run))
		return;
	log_error("%s was removed or replaced: this run is recorded anew from here on",
		  run->options->db_path);
	upkeep_leave(run->upkeep);
	unsaved_release(&run->unsaved);
	map_clear(&run->lasting.written);
	run->settler = settler_leave(run->settler);
	run->store = store_close(run->store);
	run->is_maker_tried = false;
	run->attempt->id = 0;
	if (!run->is_replaced)
		attempt_note(run->attempt, "history",
			     "another database took the place of the first one during the run: "
			     "samples from before that are in the first one, wherever it is now");
	run->is_replaced = true;
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

unsigned record_end_patience_ms(const struct run *run)
{
	uint64_t now = clock_boot_ns();

	return now < run->end_boot_ns ? (unsigned)((run->end_boot_ns - now) / 1000000) : 0;
}

/* The first that is written may find a long log already. */
static int begin_recording(struct run *run, struct err *err)
{
	int r;

	if (run->end_boot_ns > 0)
		store_share_patience(run->store, record_end_patience_ms(run));
	run->settler = settler_new(run->loop, run->store);
	r = begin_attempt(run, err);
	if (r == 0)
		return 0;
	run->settler = settler_leave(run->settler);
	run->store = store_close(run->store);
	return r;
}

static int try_to_open(struct run *run, unsigned patience_ms, struct err *err)
{
	const char *path = run->options->db_path;
	int r = make_folder_of(path, err);

	if (r == 0)
		r = store_open_patient(path, STORE_WRITE, patience_ms, &run->store, err);
	if (r < 0)
		return r;
	run->store_file = id_of(path);
	upkeep_tell_set_aside(run->store);
	return begin_recording(run, err);
}

static int open_store(struct run *run, unsigned patience_ms, struct err *err)
{
	const char *path = run->options->db_path;
	int r;

	if (!path)
		return err_set(err, -ENOENT, "%s", run->options->why_no_db);
	r = try_to_open(run, patience_ms, err);
	if (r < 0 && upkeep_make_room(run->upkeep, path, r))
		r = try_to_open(run, patience_ms, err);
	return r;
}

static void on_made(void *ctx)
{
	record_now(ctx);
}

/*
 * -EBUSY: another thread is making the database, or bringing it up to date. It does not tell how
 * that went: opening it does.
 */
static int make_elsewhere(struct run *run, unsigned patience_ms, struct err *err)
{
	const char *path = run->options->db_path;
	int r;

	if (!run->is_maker_tried && run->end_boot_ns == 0 && path && !store_is_ready(path) &&
	    make_folder_of(path, NULL) == 0)
		run->maker = maker_new(run->loop, path, on_made, run);
	run->is_maker_tried = true;
	r = maker_wait(run->maker, run->end_boot_ns > 0 ? patience_ms : 0);
	if (r < 0)
		return err_set(err, -EBUSY, "the database %s is being made, and its disk is slow",
			       path);
	run->maker = maker_leave(run->maker);
	return 0;
}

/* Inside the loop, what may pass is tried again at the next tick. */
void record_try_to_open(struct run *run, unsigned patience_ms, struct err *err)
{
	int r;

	if (run->store || run->store_is_off)
		return;
	r = make_elsewhere(run, patience_ms, err);
	if (run->end_boot_ns > 0) /* it may have been spent on that */
		patience_ms = record_end_patience_ms(run);
	if (r == 0)
		r = open_store(run, patience_ms, err);
	if (r == 0 || (trouble_may_pass(r) && run->end_boot_ns == 0))
		return;
	run->store_is_off = true;
	record_say_loss(run,
			run->end_boot_ns ? "the samples of this run are not recorded"
					 : "this run is not recorded",
			err);
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
		record_say_loss(run, "this run is not fully recorded", &err);
}

void record_now(struct run *run)
{
	bool was_open = run->store != NULL;
	size_t told = run->n_sheets_stored > 0 ? run->n_sheets_stored - 1 : 0;
	struct err err = ERR_INIT;

	record_try_to_open(run, LOOP_PATIENCE_MS, &err);
	if (was_open)
		write_sheets(run);
	record_tell_changed(run, told);
}

void record_sheet_soon(struct run *run)
{
	loop_timer_set(run->record_timer, 0, 0);
}
