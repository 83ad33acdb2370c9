#include "daemon/record_tick.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "daemon/record.h"
#include "daemon/record_anomalies.h"
#include "daemon/record_greet.h"
#include "daemon/record_keep.h"
#include "daemon/run_internal.h"

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

/* Once: it is likely to stay so. */
static void note_slow_disk(struct run *run)
{
	struct err err = ERR_INIT;
	uint64_t wait_ns;

	if (settler_check(run->settler, &wait_ns, &err) == 0 || run->is_slow_said)
		return;
	run->is_slow_said = true;
	log_warning("recording goes on: %s", err.text);
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

	record_try_to_open(run, LOOP_PATIENCE_MS, &err);
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

void record_phases(struct run *run)
{
	struct err err = ERR_INIT;

	if (run->store && run->attempt->id > 0)
		(void)phase_box_empty(&run->phases, run->store, run->attempt->id, run->root_fd,
				      &err);
}

void record_tick(struct run *run, const struct series_point *point)
{
	record_leave_replaced(run);
	record_greet(run);
	record_phases(run);
	if (run->store && link_records(run->link) && !run->backlog.first) {
		run->is_sampled_by_daemon = true;
		record_hand_over_anomalies(run);
		store_events(run);
		return;
	}
	record_look_for_anomalies(run);
	store_or_keep(run, point);
	note_disk(run);
	note_slow_disk(run);
	append_line(run);
	upkeep_look(run->upkeep, run->store);
}

/* What waits still, with more patience: all of it was waiting for less than this. */
void record_last_ticks(struct run *run)
{
	struct err err = ERR_INIT;
	char what[80];

	if (run->store &&
	    backlog_drain(&run->backlog, U64_UNKNOWN, store_waiting_tick, run, &err) < 0) {
		snprintf(what, sizeof(what), "this run is not fully recorded (%zu ticks are lost)",
			 run->backlog.n);
		run->backlog.n_lost += run->backlog.n;
		record_say_loss(run, what, &err);
	}
	if (run->store && unsaved_retry(&run->unsaved, run->store, U64_UNKNOWN, &err) < 0) {
		run->unsaved.n_lost += run->unsaved.n;
		record_say_loss(run, "this run is not fully recorded", &err);
	}
	if (!run->store_is_off)
		record_note_count(run->attempt, run->backlog.n_lost, "history",
				  "ticks could not be stored");
	record_note_count(run->attempt, run->unsaved.n_lost, "anomalies", "could not be stored");
	record_note_count(run->attempt, detect_count_left_out(run->detect), "anomalies",
			  "processes or anomalies were more than there was room for");
	record_note_count(run->attempt, run->n_lines_missing, "log of snapshots",
			  "snapshots could not be written to it");
	if (run->n_lines_missing > 0)
		log_warning("the log lacks %llu snapshots",
			    (unsigned long long)run->n_lines_missing);
}
