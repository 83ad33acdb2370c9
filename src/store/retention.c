#include "store/retention.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/retain.h"
#include "store/rollup.h"
#include "store/settle.h"
#include "store/sqlite.h"

/* A recorder that is quiet for so long has left its ticks: an interval is 5 minutes at most. */
#define LEFT_NS HOUR_NS
/* However slow the disk is a slice works for so long: it would not come to an end. */
#define WORK_MIN_NS UINT64_C(1000000)

/* ---- stages ---- */

static int find_left(struct slice *slice, int64_t *ret_recorder, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(slice->store, STATEMENT_LEFT_RECORDER, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, retain_cutoff_ns(slice->run->now_wall_ns, 1, LEFT_NS));
	query_bind_i64(&q, slice->run->after_recorder);
	r = query_step(&q, err);
	if (r > 0)
		*ret_recorder = query_read_i64(&q);
	return r;
}

/* Ticks that nobody will fold. One recorder is enough for a slice. */
static int fold_left(struct slice *slice, struct err *err)
{
	int64_t recorder = 0;
	int r = find_left(slice, &recorder, err);

	if (r <= 0)
		return r;
	slice->is_begun = true;
	r = fold_left_behind(slice->store, recorder, slice->deadline_ns, err);
	if (r == -EBADMSG || r == -EINVAL) { /* they stay, and with them whatever is wrong */
		slice->run->result.n_damaged++;
		slice->run->after_recorder = recorder;
		r = 0;
	}
	return r < 0 ? r : 1;
}

static int begin(struct slice *slice, struct err *err)
{
	struct retention_result *result = &slice->run->result;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	uint64_t used_bytes;
	int r = space_read(slice->store, &result->bytes_before, &used_bytes, err);

	if (r == 0)
		r = query_open(slice->store, STATEMENT_COUNT_OLD_FOLDS, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, retain_full_cutoff(slice->run));
	r = query_step(&q, err);
	if (r > 0)
		slice->run->n_folds_due = (uint64_t)query_read_i64(&q);
	return r < 0 ? r : 0;
}

static int old_samples(struct slice *slice, struct err *err)
{
	return retain_roll(slice, retain_full_cutoff(slice->run), err);
}

static int old_minutes(struct slice *slice, struct err *err)
{
	return retain_drop_minutes(slice, retain_minutes_cutoff(slice->run), err);
}

static int old_curves(struct slice *slice, struct err *err)
{
	return retain_drop_curves(slice, retain_curves_cutoff(slice->run), err);
}

static int old_events(struct slice *slice, struct err *err)
{
	return retain_drop_events(slice, retain_events_cutoff(slice->run), err);
}

static int old_anomalies(struct slice *slice, struct err *err)
{
	return retain_drop_anomalies(slice, retain_events_cutoff(slice->run), err);
}

/*
 * What is at the end of the file moves into the pages that are free. It writes more, for
 * the time that it takes, than all else: it has a quarter of that.
 */
static int give_back(struct slice *slice, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t n_free = 0, n_before = INT64_MAX;
	bool is_little = slice->run->batch_rows < BATCH_ROWS; /* a full disk was met */
	int r = query_open(slice->store, is_little ? STATEMENT_VACUUM_LITTLE : STATEMENT_VACUUM, &q,
			   err);

	slice->deadline_ns -= slice->run->work_ns / 4 * 3;
	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = retain_count(slice->store, STATEMENT_FREE_COUNT, &n_free, err);
		if (r < 0 || n_free == 0)
			return r;
		if (n_free >= n_before)
			return 0; /* somebody has switched auto_vacuum off: they are used again */
		n_before = n_free;
		r = query_run(&q, err);
	}
	return r < 0 ? r : 1;
}

static int note_done(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	uint64_t used_bytes;
	int r = space_read(slice->store, &run->result.bytes_after, &used_bytes, err);

	if (run->is_cut_short)
		return r; /* it is due as before */
	if (r == 0 && run->now_wall_ns <= INT64_MAX)
		r = meta_write(slice->store, META_RETAINED, (int64_t)run->now_wall_ns, err);
	if (r == 0 && run->now_wall_ns <= INT64_MAX)
		r = meta_write(slice->store, META_SECONDS_KEPT, (int64_t)run->now_wall_ns, err);
	return r;
}

/* In this order. Those that are not inside a transaction come first. */
static const struct {
	stage_fn *fn;
	bool is_alone;
} stages[] = {
	{ retain_judge_clock, true },	/* whether anything is old at all */
	{ begin, true },		/* how much there is */
	{ fold_left, true },		/* ticks of recorders that are gone */
	{ retain_find_evidence, true }, /* since when anomalies may need… */
	{ retain_keep_evidence, true }, /* …some of the samples */
	{ old_samples, false },		/* become minutes */
	{ old_minutes, false },		/* go */
	{ old_curves, false },		/* go; of an attempt without an end the peaks stay */
	{ old_events, false },		/* go */
	{ old_anomalies, false },	/* go, as events do */
	{ room_begin, false }, /* whether there is too little; if so until there is enough: */
	{ room_logs, false },  /* the oldest that were rotated */
	{ room_count_events, false }, /* how many there are, for the next one */
	{ room_many_events, false },  /* the oldest, where most of it is events */
	{ room_samples, false },      /* the oldest become minutes */
	{ room_minutes, false },      /* the oldest */
	{ room_curves, false },	      /* the oldest */
	{ room_seconds, false },      /* of the oldest anomalies */
	{ room_events, false },	      /* the oldest */
	{ room_anomalies, false },    /* the oldest that are over */
	{ room_phases, false },	      /* of the oldest attempts that are over */
	{ room_processes, false },    /* the same */
	{ room_attempts, false },     /* the oldest that are over */
	{ room_end, false },	      /* whether there is enough now */
	{ give_back, false },	      /* what is free, to the disk */
	{ note_done, false },	      /* when it was */
};

/* ---- slices ---- */

void store_retain_begin(struct retention *run, const struct retention_policy *policy,
			uint64_t now_wall_ns)
{
	*run = (struct retention){
		.after_recorder = INT64_MIN,
		.after_event_ns = INT64_MIN,
		.policy = *policy,
		.now_wall_ns = now_wall_ns,
		.slice_ns = RETENTION_SLICE_MS * UINT64_C(1000000),
		.work_ns = RETENTION_SLICE_MS * UINT64_C(1000000),
		.batch_rows = BATCH_ROWS,
		.target_bytes = U64_UNKNOWN,
		.clock = { .boot_ns = U64_UNKNOWN },
		.result = { .bytes_before = U64_UNKNOWN,
			    .bytes_after = U64_UNKNOWN,
			    .beside_bytes = U64_UNKNOWN,
			    .wal_bytes = U64_UNKNOWN },
	};
}

int store_retain_cut_short(struct store *store, struct retention *run, struct err *err)
{
	uint64_t used_bytes;

	for (unsigned i = run->stage; i < ARRAY_SIZE(stages); i++)
		if (stages[i].fn == room_end)
			run->stage = i;
	run->is_cut_short = true;
	return space_read(store, &run->result.bytes_after, &used_bytes, err);
}

/* Stage after stage of one kind, until the time is up. 1: it is. */
static int run_stages(struct slice *slice, bool is_alone, struct err *err)
{
	struct retention *run = slice->run;

	while (run->stage < ARRAY_SIZE(stages) && stages[run->stage].is_alone == is_alone) {
		int r = stages[run->stage].fn(slice, err);

		if (r != 0)
			return r;
		run->stage++;
	}
	return 0;
}

/* What the stages have counted counts only if it was written. */
static int run_in_transaction(struct slice *slice, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct retention before = *slice->run;
	int more, r = txn_begin(slice->store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r < 0)
		return r;
	more = run_stages(slice, false, err);
	r = more < 0 ? more : txn_commit(&txn, err);
	if (r < 0)
		*slice->run = before;
	return r < 0 ? r : more;
}

static int run_all_stages(struct slice *slice, struct err *err)
{
	int r = run_stages(slice, true, err);

	return r != 0 ? r : run_in_transaction(slice, err);
}

static int run_slice(struct slice *slice, struct err *err)
{
	int before, restored, r = durability_lower(slice->store, &before, err);

	if (r < 0)
		return r;
	r = run_all_stages(slice, err);
	restored = durability_restore(slice->store, before, r < 0 ? NULL : err);
	if (before > 0)
		settle_now(slice->store);
	if (r == 0)
		settle_shorten(slice->store);
	return r < 0 || restored == 0 ? r : restored;
}

/* Half the work where it took too long, and by and by more again. */
static void adapt(struct retention *run, uint64_t took_ns)
{
	uint64_t limit_ns = RETENTION_LIMIT_MS * UINT64_C(1000000);

	if (took_ns > limit_ns)
		run->work_ns = run->work_ns / 2 > WORK_MIN_NS ? run->work_ns / 2 : WORK_MIN_NS;
	else if (took_ns < limit_ns / 2)
		run->work_ns += run->work_ns / 4;
	if (run->work_ns > run->slice_ns)
		run->work_ns = run->slice_ns;
}

/*
 * What the log has of the disk is all there is: the next slice is one piece of work, from the
 * beginning of the log. If that was too much already, fewer rows.
 */
static void do_with_less(struct store *store, struct retention *run)
{
	if (run->met_full)
		run->batch_rows = run->batch_rows > 4 ? run->batch_rows / 4 : 1;
	run->met_full = true;
	run->slice_ns = 0;
	settle_reuse(store);
}

/* Row by row it would take hours. */
static void do_with_more(struct retention *run)
{
	run->met_full = false;
	run->batch_rows = run->batch_rows < BATCH_ROWS / 2 ? run->batch_rows * 2 : BATCH_ROWS;
}

int store_retain_slice(struct store *store, struct retention *run, struct err *err)
{
	uint64_t patience_ns = store->patience_ns, began_ns = clock_boot_ns();
	struct slice slice = { .store = store, .run = run };
	int r;

	if (run->work_ns > run->slice_ns)
		run->work_ns = run->slice_ns;
	slice.deadline_ns = began_ns + run->work_ns;
	store->patience_ns = 0;
	r = run_slice(&slice, err);
	store->patience_ns = patience_ns;
	if (r == -ENOSPC || r == -EDQUOT)
		do_with_less(store, run);
	else if (r >= 0)
		do_with_more(run);
	adapt(run, clock_boot_ns() - began_ns);
	return r;
}
