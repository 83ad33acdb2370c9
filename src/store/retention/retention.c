#include "store/retention/retention.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/ingest.h"
#include "store/retention/retain.h"
#include "store/rollup.h"

#define DAY_NS (24 * HOUR_NS)

/* ---- when ---- */

/*
 * Times in the file's integers: those before 1970 and after 2262 are none that it can hold. Nothing
 * is old while nobody knows how late it is.
 */
static int64_t age_cutoff(const struct retention *run, unsigned n, uint64_t unit_ns)
{
	uint64_t age_ns;

	if (run->held_until_ns || run->now_wall_ns > INT64_MAX ||
	    __builtin_mul_overflow(n, unit_ns, &age_ns) || age_ns > run->now_wall_ns)
		return 0;
	return (int64_t)(run->now_wall_ns - age_ns);
}

static int64_t full_cutoff(const struct retention *run)
{
	return age_cutoff(run, run->policy.full_resolution_hours, HOUR_NS);
}

int64_t retain_minutes_cutoff(const struct retention *run)
{
	return age_cutoff(run, run->policy.downsampled_days, DAY_NS);
}

/* Not before their samples. */
static int64_t curves_cutoff(const struct retention *run)
{
	int64_t full = full_cutoff(run), minutes = retain_minutes_cutoff(run);

	return full < minutes ? full : minutes;
}

static int64_t events_cutoff(const struct retention *run)
{
	return age_cutoff(run, run->policy.events_days, DAY_NS);
}

int slice_goes_on(struct slice *slice, struct err *err)
{
	uint64_t used_bytes;
	int r;

	if (slice->is_begun && clock_boot_ns() >= slice->deadline_ns)
		return 0;
	slice->is_begun = true;
	if (!slice->is_for_room)
		return 1;
	r = space_read(slice->store, NULL, &used_bytes, err);
	return r < 0 ? r : used_bytes > slice->run->target_bytes;
}

int64_t slice_batch(const struct slice *slice, int64_t n_rows)
{
	return n_rows < slice->run->batch_rows ? n_rows : slice->run->batch_rows;
}

/* ---- how much ---- */

int retain_count(struct store *store, enum statement id, int64_t *ret, struct err *err)
{
	int r;

	*ret = 0;
	r = query_read_number(store, id, 0, ret, err);
	return r < 0 ? r : 0;
}

/* Either may be NULL. */
int space_read(struct store *store, uint64_t *ret_file_bytes, uint64_t *ret_used_bytes,
	       struct err *err)
{
	int64_t page_bytes = 0, n_pages = 0, n_free = 0;
	int r = retain_count(store, STATEMENT_PAGE_SIZE, &page_bytes, err);

	if (r == 0)
		r = retain_count(store, STATEMENT_PAGE_COUNT, &n_pages, err);
	if (r == 0)
		r = retain_count(store, STATEMENT_FREE_COUNT, &n_free, err);
	if (ret_file_bytes)
		*ret_file_bytes = (uint64_t)(n_pages * page_bytes);
	if (ret_used_bytes)
		*ret_used_bytes = (uint64_t)((n_pages - n_free) * page_bytes);
	return r;
}

static uint64_t file_bytes(const char *path, const char *suffix)
{
	CLEANUP(free_ptr) char *name = NULL;
	struct stat st;

	if (asprintf(&name, "%s%s", path, suffix) < 0) {
		name = NULL;
		return 0;
	}
	return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

uint64_t space_beside(const struct store *store, const struct retention_policy *policy)
{
	return ingest_count_bytes(store->path) +
	       (policy->jsonl_path ? jsonl_count_bytes(policy->jsonl_path, false) : 0);
}

uint64_t store_drop_logs(const char *db_path, const struct retention_policy *policy)
{
	const char *log = policy->jsonl_path;
	uint64_t database = file_bytes(db_path, "") + ingest_count_bytes(db_path), n = 0;

	if (!policy->max_bytes || !log)
		return 0;
	while (database + jsonl_count_bytes(log, false) > policy->max_bytes &&
	       jsonl_drop_oldest(log) > 0)
		n++;
	return n;
}

uint64_t space_of_wal(const struct store *store)
{
	return file_bytes(store->path, "-wal") + file_bytes(store->path, "-journal");
}

int space_over(struct store *store, const struct retention_policy *policy, uint64_t beside_bytes,
	       uint64_t *ret, struct err *err)
{
	uint64_t used = 0;
	int r = policy->max_bytes ? space_read(store, NULL, &used, err) : 0;

	*ret = 0;
	if (r < 0 || !policy->max_bytes)
		return r;
	used += beside_bytes;
	*ret = used > policy->max_bytes ? used - policy->max_bytes : 0;
	return 0;
}

int store_read_over(struct store *store, const struct retention_policy *policy, uint64_t *ret,
		    struct err *err)
{
	return space_over(store, policy, policy->max_bytes ? space_beside(store, policy) : 0, ret,
			  err);
}

/*
 * ---- whether the wall clock may be believed when it says that things are old ----
 *
 * A clock that jumps years ahead makes all that there is look old. Each run of retention, and the
 * process that makes the database, notes what both clocks say. In the same boot they must have
 * moved alike; over a boot nobody knows for how long the machine was off, and only a long time is
 * doubted. A clock that is synchronised with another is believed. After a doubtful jump nothing is
 * removed for its age until the clock has stood by it for HOLD_NS, or goes back.
 */

#define SAME_BOOT_NS HOUR_NS	    /* by so much more than the boot clock it may move */
#define OTHER_BOOT_NS (30 * DAY_NS) /* a machine may be off for so long */
#define HOLD_NS (7 * DAY_NS)

#define META_HELD "clock_held_ns"

/* What a run of retention notes, by its keys in meta; 0: nothing. */
enum { NOTED_WALL_NS, NOTED_BOOT_NS, NOTED_BOOT, NOTED_HELD_NS, N_NOTED };
static const char *const note_keys[N_NOTED] = { "clock_wall_ns", "clock_boot_ns",
						"clock_boot" /* a hash of its id */, META_HELD };

static void note_now(uint64_t wall_ns, const struct retention_clock *clock, int64_t ret[N_NOTED])
{
	ret[NOTED_WALL_NS] = query_as_i64(wall_ns);
	ret[NOTED_BOOT_NS] = (int64_t)clock->boot_ns;
	ret[NOTED_BOOT] = (int64_t)hash_bytes(HASH_INIT, clock->boot_id, strlen(clock->boot_id));
	ret[NOTED_HELD_NS] = 0;
}

int retention_note_clock(sqlite3 *db)
{
	const struct retention_clock clock = retention_clock_now();
	int64_t now[N_NOTED];
	int rc = SQLITE_OK;

	note_now(clock_wall_ns(), &clock, now);
	for (size_t i = 0; rc == SQLITE_OK && i < N_NOTED; i++) {
		char sql[96];

		snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO meta VALUES ('%s', %lld)",
			 note_keys[i], (long long)now[i]);
		rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	}
	return rc;
}

/* Until when what is old stays; 0: it may go. */
static int64_t hold_until(const int64_t seen[N_NOTED], const int64_t now[N_NOTED],
			  bool is_synchronised)
{
	uint64_t may_have_passed = OTHER_BOOT_NS;
	int64_t wall_ns = now[NOTED_WALL_NS];

	if (is_synchronised || wall_ns < seen[NOTED_WALL_NS])
		return 0;
	if (seen[NOTED_BOOT] == now[NOTED_BOOT] && now[NOTED_BOOT_NS] >= seen[NOTED_BOOT_NS])
		may_have_passed =
			(uint64_t)(now[NOTED_BOOT_NS] - seen[NOTED_BOOT_NS]) + SAME_BOOT_NS;
	if (seen[NOTED_WALL_NS] > 0 &&
	    (uint64_t)(wall_ns - seen[NOTED_WALL_NS]) > may_have_passed) /* it has jumped */
		return wall_ns > INT64_MAX - (int64_t)HOLD_NS ? INT64_MAX
							      : wall_ns + (int64_t)HOLD_NS;
	return seen[NOTED_HELD_NS] > wall_ns ? seen[NOTED_HELD_NS] : 0;
}

/* Inside a transaction: sets run->held_until_ns; and what the clocks say is noted, or not. */
static int judge_clock(struct store *store, struct retention *run, bool notes, struct err *err)
{
	int64_t seen[N_NOTED] = { 0 }, now[N_NOTED];
	int r = 0;

	if (!u64_known(run->clock.boot_ns) || run->now_wall_ns > INT64_MAX)
		return 0;
	for (size_t i = 0; r == 0 && i < N_NOTED; i++)
		r = meta_read(store, note_keys[i], &seen[i], err);
	note_now(run->now_wall_ns, &run->clock, now);
	now[NOTED_HELD_NS] = hold_until(seen, now, run->clock.is_synchronised);
	for (size_t i = 0; r == 0 && notes && i < N_NOTED; i++)
		r = meta_write(store, note_keys[i], now[i], err);
	if (r == 0)
		run->held_until_ns = (uint64_t)now[NOTED_HELD_NS];
	return r;
}

static int look_at_clock(struct slice *slice, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct retention run = *slice->run;
	int r = txn_begin(slice->store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = judge_clock(slice->store, &run, true, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r == 0)
		slice->run->held_until_ns = run.held_until_ns;
	return r;
}

struct retention_clock retention_clock_now(void)
{
	struct retention_clock clock = { .boot_ns = clock_boot_ns(),
					 .is_synchronised =
						 clock_read_quality().is_synchronised > 0 };

	_Static_assert(sizeof(clock.boot_id) == ALIVE_BOOT_ID_BYTES, "one and the same");
	proc_boot_id(clock.boot_id);
	return clock;
}

int store_read_retention_hold(struct store *store, uint64_t now_wall_ns, uint64_t *ret,
			      struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int64_t until_ns = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = meta_read(store, META_HELD, &until_ns, err);
	if (r < 0)
		return r;
	*ret = until_ns > 0 && (uint64_t)until_ns > now_wall_ns ? (uint64_t)until_ns : 0;
	return 0;
}

/* ---- stages ---- */

/* A recorder that is quiet for so long has left its ticks: an interval is 5 minutes at most. */
#define LEFT_NS HOUR_NS

/* Ticks that nobody will fold. One recorder is enough for a slice. */
static int fold_left(struct slice *slice, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct retention *run = slice->run;
	uint64_t now_ns = run->now_wall_ns;
	int64_t recorder;
	int r = txn_begin(slice->store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = query_first(
			slice->store, STATEMENT_LEFT_RECORDER, &q, err,
			now_ns > INT64_MAX || now_ns < LEFT_NS ? 0 : (int64_t)(now_ns - LEFT_NS),
			run->after_recorder);
	if (r <= 0)
		return r;
	recorder = query_read_i64(&q);
	query_close(&q);
	r = fold_all(slice->store, recorder, err);
	if (r == -EBADMSG || r == -EINVAL) { /* they stay, and with them whatever is wrong */
		run->result.n_damaged++;
		run->after_recorder = recorder;
		return 1;
	}
	if (r == 0)
		r = txn_commit(&txn, err);
	return r < 0 ? r : 1;
}

static int count_due(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	int64_t n = 0;
	int r = space_read(slice->store, &run->result.bytes_before, NULL, err);

	if (r == 0)
		r = query_read_number(slice->store, STATEMENT_COUNT_OLD_FOLDS, full_cutoff(run), &n,
				      err);
	run->n_folds_due = (uint64_t)n;
	return r < 0 ? r : 0;
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
	int r = space_read(slice->store, &run->result.bytes_after, NULL, err);

	if (run->is_cut_short || run->now_wall_ns > INT64_MAX)
		return r; /* it is due as before */
	if (r == 0)
		r = meta_write(slice->store, META_RETAINED, (int64_t)run->now_wall_ns, err);
	if (r == 0)
		r = meta_write(slice->store, META_SECONDS_KEPT, (int64_t)run->now_wall_ns, err);
	return r;
}

#define ROWS(id_, batch_, gone_, member_)                                                  \
	{                                                                                  \
		STATEMENT_##id_, batch_, gone_, offsetof(struct retention_result, member_) \
	}
static const struct old_rows minutes = ROWS(DROP_ROLLUPS, BATCH_ROWS, NULL, n_minutes);
const struct old_rows retain_events = ROWS(DROP_EVENTS, BATCH_ROWS, META_EVENTS_GONE, n_events);
static const struct old_rows anomalies =
	ROWS(DROP_ANOMALIES, BATCH_ROWS, META_ANOMALIES_GONE, n_anomalies);
/* For room, of those that are over only; the seconds of others, up to 20 KB each, go alone. */
static const struct old_rows over_anomalies =
	ROWS(DROP_OVER_ANOMALIES, BATCH_ROWS, META_ANOMALIES_GONE, n_anomalies);
static const struct old_rows seconds = ROWS(DROP_SECONDS, 10, NULL, n_seconds);
static const struct old_rows daemons = ROWS(DROP_DAEMONS, BATCH_ROWS, NULL, n_daemons);

/* Only what is removed here has referred to them. */
static int drop_boots(struct slice *slice, struct err *err)
{
	const struct retention_result *result = &slice->run->result;

	return result->n_daemons + result->n_attempts == 0
		       ? 0
		       : query_run_alone(slice->store, STATEMENT_DROP_BOOTS, err);
}

/*
 * In this order: those that are not inside a transaction come first. A stage has a function of its
 * own; or it drops what ended before the cutoff; or, without one, the oldest until there is room.
 */
static const struct stage {
	stage_fn *fn;
	bool is_alone;
	drop_fn *drop;
	const struct old_rows *rows;
	int64_t (*cutoff)(const struct retention *run);
	bool is_of_owner; /* of the user with the most records, if there are several users */
} stages[] = {
	{ .fn = look_at_clock, .is_alone = true },	  /* whether anything is old at all */
	{ .fn = count_due, .is_alone = true },		  /* how much there is */
	{ .fn = fold_left, .is_alone = true },		  /* ticks of recorders that are gone */
	{ .fn = retain_find_evidence, .is_alone = true }, /* since when anomalies may need… */
	{ .fn = retain_keep_evidence, .is_alone = true }, /* …some of the samples */
	{ .drop = retain_roll, .cutoff = full_cutoff },	  /* samples become minutes */
	{ .rows = &minutes, .cutoff = retain_minutes_cutoff },
	{ .drop = retain_drop_curves, .cutoff = curves_cutoff },
	{ .rows = &retain_events, .cutoff = events_cutoff },
	{ .rows = &anomalies, .cutoff = events_cutoff },
	{ .rows = &daemons, .cutoff = events_cutoff },
	{ .fn = room_begin },	     /* whether there is too little; if so until there is enough: */
	{ .fn = room_logs },	     /* the oldest that were rotated */
	{ .fn = room_count_owners }, /* who has how much, for the next ones */
	{ .fn = room_owner },
	{ .fn = room_many_events, .is_of_owner = true }, /* where most of it is events */
	{ .drop = retain_roll, .is_of_owner = true },
	{ .drop = retain_roll, .cutoff = full_cutoff, .is_of_owner = true },
	{ .fn = room_minutes, .is_of_owner = true },
	{ .fn = room_events, .is_of_owner = true },
	{ .fn = room_phases, .is_of_owner = true },
	{ .fn = room_processes, .is_of_owner = true },
	{ .fn = room_attempts, .is_of_owner = true },
	{ .fn = room_owner_done, .is_of_owner = true }, /* perhaps the next owner; then of all: */
	{ .fn = room_many_events },			/* the oldest, where most of it is events */
	{ .drop = retain_roll },
	{ .drop = retain_roll, .cutoff = full_cutoff }, /* what that has begun is ended */
	{ .rows = &minutes },
	{ .drop = retain_drop_curves },
	{ .rows = &seconds }, /* of anomalies */
	{ .rows = &retain_events },
	{ .rows = &over_anomalies },
	{ .fn = room_phases }, /* of the oldest attempts that are over */
	{ .fn = room_processes },
	{ .fn = room_attempts },
	{ .fn = drop_boots }, /* that nothing refers to any more */
	{ .fn = room_end },   /* whether there is enough now */
	{ .fn = give_back },  /* what is free, to the disk */
	{ .fn = note_done },  /* when it was */
};

/* ---- slices ---- */

/* However slow the disk is a slice works for so long: it would not come to an end. */
#define WORK_MIN_NS UINT64_C(1000000)

void store_retain_begin(struct retention *run, const struct retention_policy *policy,
			uint64_t now_wall_ns, const struct retention_clock *clock)
{
	*run = (struct retention){
		.after_recorder = INT64_MIN,
		.owner = -1,
		.policy = *policy,
		.now_wall_ns = now_wall_ns,
		.slice_ns = RETENTION_SLICE_MS * UINT64_C(1000000),
		.work_ns = RETENTION_SLICE_MS * UINT64_C(1000000),
		.batch_rows = BATCH_ROWS,
		.target_bytes = U64_UNKNOWN,
		.clock = clock ? *clock : (struct retention_clock){ .boot_ns = U64_UNKNOWN },
		.result = { .bytes_before = U64_UNKNOWN,
			    .bytes_after = U64_UNKNOWN,
			    .beside_bytes = U64_UNKNOWN,
			    .wal_bytes = U64_UNKNOWN },
	};
}

/* Stage after stage of one kind, until the time is up. 1: it is. */
static int run_stages(struct slice *slice, bool is_alone, struct err *err)
{
	struct retention *run = slice->run;

	while (run->stage < ARRAY_SIZE(stages) && stages[run->stage].is_alone == is_alone) {
		const struct stage *stage = &stages[run->stage];
		int r = stage->is_of_owner && run->owner < 0 ? 0
			: stage->fn			     ? stage->fn(slice, err)
			: !stage->cutoff ? room_drop(slice, stage->drop, stage->rows, err)
			: stage->rows
				? retain_drop_rows(slice, stage->rows, stage->cutoff(run), err)
				: stage->drop(slice, stage->cutoff(run), err);

		if (r != 0)
			return r;
		run->stage++;
	}
	return 0;
}

/* Those that are alone, then the others. What these have counted counts only if it was written. */
static int run_all_stages(struct slice *slice, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct retention before;
	int more, r = run_stages(slice, true, err);

	if (r != 0)
		return r;
	before = *slice->run;
	r = txn_begin(slice->store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r < 0)
		return r;
	more = run_stages(slice, false, err);
	r = more < 0 ? more : txn_commit(&txn, err);
	if (r < 0)
		*slice->run = before;
	return r < 0 ? r : more;
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
		settle_copy(slice->store, true);
	return r < 0 || restored == 0 ? r : restored;
}

bool retention_is_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

int store_retain_slice(struct store *store, struct retention *run, struct err *err)
{
	uint64_t lock_timeout_ns = store->lock_timeout_ns, began_ns = clock_boot_ns(), took_ns;
	const uint64_t limit_ns = RETENTION_LIMIT_MS * UINT64_C(1000000);
	struct slice slice = { .store = store, .run = run };
	int r;

	if (run->work_ns > run->slice_ns)
		run->work_ns = run->slice_ns;
	slice.deadline_ns = began_ns + run->work_ns;
	store->lock_timeout_ns = 0;
	/* Pages that the file lacks get there while the disk has room. On a full disk the log could
	 * neither be copied nor grow, and nothing could be removed. */
	if (run->stage == 0)
		settle_copy(store, false);
	r = run_slice(&slice, err);
	store->lock_timeout_ns = lock_timeout_ns;
	if (retention_is_full(r)) {
		/*
		 * What the log has of the disk is all there is: the next slice is one piece of
		 * work, from the beginning of the log. If that was too much already, fewer rows.
		 */
		if (run->met_full)
			run->batch_rows = run->batch_rows > 4 ? run->batch_rows / 4 : 1;
		run->met_full = true;
		run->slice_ns = 0;
		settle_copy(store, false);
	} else if (r >= 0) { /* row by row it would take hours */
		run->met_full = false;
		run->batch_rows =
			run->batch_rows < BATCH_ROWS / 2 ? run->batch_rows * 2 : BATCH_ROWS;
	}
	/* Half the work where it took too long, and by and by more again. */
	took_ns = clock_boot_ns() - began_ns;
	if (took_ns > limit_ns)
		run->work_ns = run->work_ns / 2 > WORK_MIN_NS ? run->work_ns / 2 : WORK_MIN_NS;
	else if (took_ns < limit_ns / 2)
		run->work_ns += run->work_ns / 4;
	if (run->work_ns > run->slice_ns)
		run->work_ns = run->slice_ns;
	return r;
}

/* So often a full disk is met before nothing more is tried: each time less is asked of it. */
#define FULL_TIMES 5

/*
 * Nothing more is removed: the slices that follow only give back what is free by now, and return
 * the failure when they are through. 1, or the failure where there is nothing to give back.
 */
static int cut_short(struct store *store, struct retention *run, const struct err *full)
{
	if (run->is_cut_short || !u64_known(run->result.bytes_before) ||
	    space_read(store, &run->result.bytes_after, NULL, NULL) < 0)
		return full->code;
	for (unsigned i = run->stage; i < ARRAY_SIZE(stages); i++)
		if (stages[i].fn == room_end)
			run->stage = i;
	run->is_cut_short = true;
	run->full = *full;
	return 1;
}

int store_retain_step(struct store *store, struct retention *run, struct err *err)
{
	struct err found = ERR_INIT;
	int r = store_retain_slice(store, run, &found);

	if (r > 0) {
		run->n_full = 0;
	} else if (r == 0 && run->is_cut_short) {
		found = run->full;
	} else if (retention_is_full(r) && ++run->n_full < FULL_TIMES) {
		r = 1; /* again, with less */
	} else if (retention_is_full(r)) {
		uint64_t n_logs = store_drop_logs(store->path, &run->policy);

		run->n_full = 0;
		run->result.n_logs += n_logs;
		r = n_logs > 0 ? 1 : cut_short(store, run, &found);
	}
	if (r > 0 || found.code == 0)
		return r;
	if (err)
		*err = found;
	return found.code;
}

/* ---- whether it is due ---- */

#define INTERVAL_NS HOUR_NS
/* Who begins says so, for this long: of ten that find it due at once one does it. */
#define CLAIM_NS UINT64_C(600000000000)
/* Where there is too much it does not wait for the hour, but for this long after the last time. */
#define ROOM_INTERVAL_NS UINT64_C(60000000000)

/* for_room: also a minute after the last time, unless somebody may be at it. */
static int read_due(struct store *store, bool for_room, uint64_t now_wall_ns, struct err *err)
{
	int64_t done_ns = 0;
	int r = meta_read(store, META_RETAINED, &done_ns, err);
	uint64_t age_ns = now_wall_ns - (uint64_t)done_ns;

	if (r < 0)
		return r;
	return done_ns <= 0 || (uint64_t)done_ns > now_wall_ns || age_ns >= INTERVAL_NS ||
	       (for_room && age_ns >= ROOM_INTERVAL_NS && age_ns < INTERVAL_NS - CLAIM_NS);
}

int store_claim_retention(struct store *store, bool for_room, uint64_t now_wall_ns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = read_due(store, for_room, now_wall_ns, err);
	if (r <= 0)
		return r;
	txn_abort(&txn);
	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
	if (r == 0)
		r = read_due(store, for_room, now_wall_ns, err); /* another may have been first */
	if (r <= 0)
		return r;
	r = meta_write(store, META_RETAINED, (int64_t)(now_wall_ns - INTERVAL_NS + CLAIM_NS), err);
	if (r == 0)
		r = txn_commit(&txn, err);
	return r < 0 ? r : 1;
}

int store_return_retention(struct store *store, uint64_t now_wall_ns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = meta_write(store, META_RETAINED, (int64_t)(now_wall_ns - INTERVAL_NS), err);
	return r < 0 ? r : txn_commit(&txn, err);
}

/* ---- what it would do ---- */

int store_preview_retention(struct store *store, const struct retention_policy *policy,
			    uint64_t now_wall_ns, const struct retention_clock *clock,
			    struct retention *ret, struct err *err)
{
	CLEANUP(store_closep) struct store *copy = NULL;
	int r = store_open_copy(store, &copy, err);

	store_retain_begin(ret, policy, now_wall_ns, clock);
	ret->is_dry = true;
	if (r == 0)
		while ((r = store_retain_slice(copy, ret, err)) > 0)
			;
	return r;
}
