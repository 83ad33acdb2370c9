#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "daemon/run_internal.h"

void record_say_once(bool *was_said, const char *what, const struct err *err)
{
	if (!*was_said)
		log_error("%s: %s", what, err->text);
	*was_said = true;
}

/*
 * Of the masked command: a new token does not make a new kind of job. Only a
 * command that is too long to be shown whole is told apart by its raw bytes.
 */
static uint64_t hash_command(uint64_t h, const char *const *argv, const struct mask *mask)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	mask_argv(mask, argv, &text);
	h = hash_bytes(h, text.data, text.len + 1);
	for (size_t i = 0; text.len > COMMAND_MAX_BYTES - UTF8_MAX_BYTES && argv[i]; i++)
		h = hash_bytes(h, argv[i], strlen(argv[i]) + 1);
	return h;
}

static uint64_t hash_spec(const struct job_spec *spec, const struct mask *mask)
{
	uint64_t h = HASH_INIT;

	for (size_t i = 0; i < spec->n_sheets; i++)
		h = hash_command(h, spec->sheets[i].argv, mask);
	return h;
}

static const char *own_host(struct arena *arena)
{
	char name[256] = "";

	if (gethostname(name, sizeof(name) - 1) < 0)
		return NULL;
	return arena_strdup(arena, name);
}

static const char *own_folder(struct arena *arena)
{
	CLEANUP(free_ptr) char *folder = getcwd(NULL, 0);

	return arena_strdup(arena, folder);
}

void record_describe(struct run *run)
{
	struct attempt *a = run->attempt;

	a->job_id = arena_strdup(&a->arena, run->options->spec->job_id);
	a->command = arena_strdup(&a->arena, run->options->command);
	a->is_running = true;
	a->argv_hash = hash_spec(run->options->spec, run->options->mask);
	a->uid = geteuid();
	a->host = own_host(&a->arena);
	a->workdir = own_folder(&a->arena);
	proc_boot_id(a->boot_id);
	a->runner.pid = getpid();
	if (proc_start_ticks(a->runner.pid, &a->runner.start_ticks) < 0)
		a->runner.start_ticks = U64_UNKNOWN;
	a->interval_seconds = run->options->interval_seconds;
	a->started_wall_ns = clock_wall_ns();
	a->total_sheets = (int)run->options->spec->n_sheets;
}

void record_sheet(struct run *run, const struct sheet_record *sheet)
{
	struct err err = ERR_INIT;

	if (run->store && store_write_sheet(run->store, run->attempt, sheet, &err) < 0)
		record_say_once(&run->store_failed, "this run is not fully recorded", &err);
}

void record_tick(struct run *run, const struct series_point *point)
{
	const struct proc_event *events;
	struct err err = ERR_INIT;
	size_t n;

	if (!run->store)
		return;
	events = tally_take_events(run->tally, &n);
	if (store_write_tick(run->store, run->attempt, &run->snap, point, events, n, &err) < 0) {
		record_say_once(&run->store_failed, "this run is not fully recorded", &err);
		run->ticks_not_stored++;
	}
}

static int open_store(struct run *run, struct err *err)
{
	CLEANUP(free_ptr) char *folder = strdup(run->options->db_path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int r;

	if (slash && slash != folder) {
		*slash = '\0';
		r = path_make_dir(folder, err);
		if (r < 0)
			return r;
	}
	r = store_open(run->options->db_path, STORE_WRITE, &run->store, err);
	if (r < 0)
		return r;
	r = store_begin_attempt(run->store, run->attempt, err);
	if (r < 0)
		run->store = store_close(run->store);
	return r;
}

void record_open(struct run *run)
{
	const struct sheet_record *sheet;
	struct err err = ERR_INIT;

	if (!run->options->db_path)
		err_set(&err, -ENOENT, "%s", run->options->why_no_db);
	if (!run->options->db_path || open_store(run, &err) < 0) {
		record_say_once(&run->store_failed, "this run is not recorded", &err);
		return;
	}
	sheet = runner_current_sheet(run->runner);
	if (sheet)
		record_sheet(run, sheet);
}

static void add_unknown(struct attempt *a, const char *what, const char *why)
{
	struct unknown_note *notes = a->unknowns;
	struct unknown_note *grown = arena_alloc(&a->arena, (a->n_unknowns + 1) * sizeof(*grown));

	if (!grown)
		return;
	if (a->n_unknowns > 0)
		memcpy(grown, notes, a->n_unknowns * sizeof(*grown));
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

static void note_unknowns(struct run *run)
{
	struct attempt *a = run->attempt;

	add_unknown(a, "syscall_hotspots", "this version does not count system calls");
	add_unknown(a, "gpus", "this version does not read GPUs");
	add_unknown(a, "anomalies", "this version does not look for anomalies");
	if (!run->life)
		add_unknown(
			a, "process_spawn_count",
			"the kernel does not tell this user of births and deaths: processes that lived "
			"between two samples are missing");
	add_count_note(a, tally_lost_events(run->tally), "process_spawn_count",
		       "kernel events were lost: counts are lower bounds");
	add_count_note(a, tally_unlisted_processes(run->tally), "processes",
		       "more processes were counted and are not listed one by one");
	add_count_note(a, tally_unlisted_events(run->tally), "events",
		       "more process events were counted and are not listed");
	add_count_note(a, run->ticks_not_stored, "history", "samples could not be stored");
	if (a->usage.cpu_evidence == EVIDENCE_LOWER_BOUND)
		add_unknown(
			a, "total_cpu_seconds",
			"some processes were waited for by nobody, as their parent ignores SIGCHLD, or "
			"still run: what they used is not counted in");
	if (a->usage.io_evidence == EVIDENCE_LOWER_BOUND)
		add_unknown(a, "io", "what still runs is not counted in");
}

static void copy_sheets(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct sheet_record *sheets = runner_sheets(run->runner, &n);

	a->sheets = arena_alloc(&a->arena, n * sizeof(*sheets));
	if (!a->sheets)
		return;
	memcpy(a->sheets, sheets, n * sizeof(*sheets));
	a->n_sheets = n;
	for (size_t i = 0; i < n; i++) {
		struct sheet_record *s = &a->sheets[i];

		s->name = arena_strdup(&a->arena, s->name);
		s->command = arena_strdup(&a->arena, s->command);
		s->reason = arena_strdup(&a->arena, s->reason);
		if (s->n_ranks > 0) {
			void *ranks = arena_alloc(&a->arena, s->n_ranks * sizeof(*s->ranks));

			s->ranks = ranks ? memcpy(ranks, s->ranks, s->n_ranks * sizeof(*s->ranks))
					 : NULL;
			s->n_ranks = ranks ? s->n_ranks : 0;
		}
	}
}

static void copy_processes(struct run *run)
{
	struct attempt *a = run->attempt;
	size_t n;
	const struct proc_record *records = tally_processes(run->tally, &n);

	a->processes = n ? arena_alloc(&a->arena, n * sizeof(*records)) : NULL;
	if (!a->processes)
		return;
	memcpy(a->processes, records, n * sizeof(*records));
	a->n_processes = n;
	for (size_t i = 0; i < n; i++)
		a->processes[i].command = arena_strdup(&a->arena, a->processes[i].command);
}

static void note_rungs(struct run *run)
{
	struct attempt *a = run->attempt;

	a->rungs = arena_alloc(&a->arena, SOURCES_MAX_RUNGS * sizeof(*a->rungs));
	if (a->rungs)
		a->n_rungs = sources_probe_rungs(run->root_fd, &a->arena, a->rungs);
}

static void store_end(struct run *run)
{
	const struct proc_event *events;
	struct err err = ERR_INIT;
	size_t n;

	if (!run->store)
		return;
	events = tally_take_events(run->tally, &n);
	if (store_finish_attempt(run->store, run->attempt, events, n, &err) < 0) {
		run->store_failed =
			false; /* the end matters more than a tick: say it in any case */
		record_say_once(&run->store_failed, "the end of this run is not recorded", &err);
	}
}

void record_end(struct run *run, const struct runner_result *result)
{
	struct attempt *a = run->attempt;

	a->is_running = false;
	a->ended_wall_ns = clock_wall_ns();
	a->outcome = result->outcome;
	a->reason = arena_strdup(&a->arena, result->reason);
	a->status = result->status;
	a->last_completed_sheet = result->last_completed_sheet;
	tally_total(run->tally, clock_boot_ns(), !runner_has_children(), &a->usage);
	copy_sheets(run);
	copy_processes(run);
	note_rungs(run);
	note_unknowns(run);
	store_end(run);
}
