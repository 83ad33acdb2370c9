/* retain_drop - what is too old goes, and what there is no room for. */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/retention/retain.h"

/* Again and again, until none is left. */
int retain_drop_rows(struct slice *slice, const struct old_rows *rows, int64_t before,
		     struct err *err)
{
	uint64_t *n_dropped = (uint64_t *)((char *)&slice->run->result + rows->n_dropped);
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(slice->store, rows->id, &q, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		int64_t gone_ns = 0;

		query_bind_i64(&q, before);
		query_bind_i64(&q, slice_batch(slice, rows->batch));
		while ((r = query_step(&q, err)) > 0) {
			int64_t ns = query_read_i64(&q);

			gone_ns = ns > gone_ns ? ns : gone_ns;
		}
		if (r < 0)
			return r;
		sqlite3_reset(q.stmt);
		r = sqlite3_changes(slice->store->db);
		if (r == 0)
			return 0;
		*n_dropped += (uint64_t)r;
		r = rows->gone ? meta_raise(slice->store, rows->gone, gone_ns, err) : 0;
	}
	return r < 0 ? r : 1;
}

/* ---- curves ---- */

/* Leaves one point for each sheet, one after the other: its peaks, at the time of its last. */
static void thin_points(struct table *t)
{
	static const enum point_word peaks[] = { POINT_RSS_BYTES, POINT_CPU_PERCENT,
						 POINT_PROCESSES };
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++) {
		uint64_t *percent = &t->columns[POINT_CPU_PERCENT][i];

		if (!u64_known(t->columns[POINT_WALL_NS][i]))
			continue;
		*percent = word_to_scaled(*percent, PERCENT_SCALE);
		if (n > 0 && t->columns[POINT_SHEET][n - 1] == t->columns[POINT_SHEET][i]) {
			t->columns[POINT_WALL_NS][n - 1] = t->columns[POINT_WALL_NS][i];
			for (size_t k = 0; k < ARRAY_SIZE(peaks); k++) {
				uint64_t *column = t->columns[peaks[k]];

				column[n - 1] = u64_max_known(column[n - 1], column[i]);
			}
			continue;
		}
		for (unsigned k = 0; k < POINT_WORDS; k++)
			t->columns[k][n] = t->columns[k][i];
		t->tick[n] = (uint8_t)n;
		n++;
	}
	t->n = n;
}

/*
 * 1: the oldest curve before the cutoff that no fold needs any more is gone. 0: there is none. Of
 * an attempt without an end its points alone tell its peaks: those stay.
 */
static int drop_curve(struct slice *slice, int64_t cutoff_ns, struct table *t, struct err *err)
{
	CLEANUP(query_close) struct query oldest = QUERY_INIT;
	CLEANUP(buf_release) struct buf raw = BUF_INIT, pack = BUF_INIT;
	struct store *store = slice->store;
	int64_t attempt, fold, last_ns;
	bool has_end; /* the attempt's account tells the peaks */
	int r = query_first(store, STATEMENT_OLDEST_POINTS, &oldest, err, cutoff_ns);

	if (r <= 0)
		return r;
	attempt = query_read_i64(&oldest);
	fold = query_read_i64(&oldest);
	last_ns = query_read_i64(&oldest);
	has_end = query_read_i64(&oldest);
	r = query_read_pack(&oldest, points_key(attempt, fold), &raw, err);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || table_read(raw.data, raw.len, CODEC_ROWS, POINT_WORDS, NULL, t) < 0) {
		slice->run->result.n_damaged++;
		t->n = 0;
	}
	query_close(&oldest);
	slice->run->result.n_curves++;
	thin_points(t);
	if (has_end || t->n == 0) {
		r = query_exec(store, STATEMENT_DROP_POINTS, err, attempt, fold);
		if (r == 0 && t->n > 0) /* else there was none to miss */
			r = meta_raise(store, META_CURVES_GONE, last_ns, err);
		return r < 0 ? r : 1;
	}
	buf_reset(&raw);
	table_write(&raw, t, POINT_WORDS, NULL);
	pack_write(&pack, &raw);
	r = buf_error(&pack) < 0 ? store_no_memory(store, err)
				 : query_put(store, STATEMENT_THIN_POINTS, err,
					     V_BLOB(points_key(attempt, fold), pack.data, pack.len),
					     V_I64(attempt), V_I64(fold));
	return r < 0 ? r : 1;
}

int retain_drop_curves(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	int r = t ? 0 : store_no_memory(slice->store, err);

	while (r >= 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = drop_curve(slice, cutoff_ns, t, err);
		if (r <= 0)
			return r;
	}
	return r < 0 ? r : 1;
}

/* ---- room ---- */

#define BATCH_COUNTED 1000 /* between two looks at the clock, where none goes */

static int read_over(const struct slice *slice, uint64_t *ret, struct err *err)
{
	const struct retention *run = slice->run;

	return space_over(slice->store, &run->policy, run->result.beside_bytes, ret, err);
}

/*
 * Below the limit, so that it is not met again by the next tick; what is left of that for the
 * database, and so much in any case: a log may be larger for a while.
 */
static void set_target(struct retention *run, uint64_t over)
{
	uint64_t max = run->policy.max_bytes, mark = max - max / 10, least = max / 4;
	uint64_t beside = run->result.beside_bytes;

	run->target_bytes = over == 0				     ? U64_UNKNOWN
			    : mark > beside && mark - beside > least ? mark - beside
								     : least;
}

int room_begin(struct slice *slice, struct err *err)
{
	uint64_t over = 0;
	int r;

	slice->run->result.beside_bytes = space_beside(slice->store, &slice->run->policy);
	r = read_over(slice, &over, err);
	set_target(slice->run, r < 0 ? 0 : over);
	return r;
}

/* What was rotated is in the database as well, as samples or as minutes: it goes first. */
int room_logs(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	uint64_t over = 0;
	int r;

	if (!u64_known(run->target_bytes) || !run->policy.jsonl_path)
		return 0;
	while ((r = read_over(slice, &over, err)) == 0 && over > 0 &&
	       jsonl_drop_oldest(run->policy.jsonl_path) > 0) {
		run->result.n_logs++;
		run->result.beside_bytes = space_beside(slice->store, &run->policy);
	}
	set_target(run, over);
	return r;
}

/* 1: there are too many bytes. */
static int lacks_room(const struct slice *slice, struct err *err)
{
	uint64_t used = 0;
	int r = u64_known(slice->run->target_bytes) ? space_read(slice->store, NULL, &used, err)
						    : 0;

	return r < 0 ? r : u64_known(slice->run->target_bytes) && used > slice->run->target_bytes;
}

int room_drop(struct slice *slice, drop_fn *fn, const struct old_rows *rows, struct err *err)
{
	int r = lacks_room(slice, err);

	slice->run->after_attempt = 0; /* where the stages of attempts begin */
	if (r <= 0)
		return r;
	slice->is_for_room = true;
	r = rows ? retain_drop_rows(slice, rows, INT64_MAX, err) : fn(slice, INT64_MAX, err);
	slice->is_for_room = false;
	return r <= 0 ? r : lacks_room(slice, err);
}

/* By time, as they go. Their ids do not tell how many are left: one that stays may be years older
 * than the next. */
int room_count_events(struct slice *slice, struct err *err)
{
	struct retention *run = slice->run;
	int r = lacks_room(slice, err);

	if (r <= 0)
		return r;
	while ((r = slice_goes_on(slice, err)) > 0) {
		CLEANUP(query_close) struct query q = QUERY_INIT;
		unsigned n = 0;

		r = query_ask(slice->store, STATEMENT_NEXT_EVENTS, &q, err, run->after_event_ns,
			      run->after_event, BATCH_COUNTED);
		for (; r >= 0 && (r = query_step(&q, err)) > 0; n++) {
			run->after_event_ns = query_read_i64(&q);
			run->after_event = query_read_i64(&q);
		}
		if (r < 0)
			return r;
		run->n_events += n;
		if (n < BATCH_COUNTED) {
			run->n_events += run->result.n_events; /* as it began */
			return 0;
		}
	}
	return r < 0 ? r : 1;
}

/* A few jobs that start process after process fill it alone: all else would go for little. */
int room_many_events(struct slice *slice, struct err *err)
{
	const struct retention *run = slice->run;
	uint64_t used = 0, n_left = run->n_events - run->result.n_events;
	int64_t each = 0;
	int r = lacks_room(slice, err);

	if (r <= 0)
		return r;
	r = space_read(slice->store, NULL, &used, err);
	if (r == 0)
		r = retain_count(slice->store, STATEMENT_SIZE_OF_EVENT, &each, err);
	/* About how many bytes those have that have not gone since they were counted. */
	if (r < 0 || run->n_events <= run->result.n_events || n_left * (uint64_t)each <= used / 2)
		return r;
	return room_drop(slice, NULL, &retain_events, err);
}

/* ---- attempts ---- */

/* 1: the next attempt behind after_attempt that is over for certain. 0: none but the newest. */
static int next_attempt(struct slice *slice, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	bool may_run = true;
	int r = query_ask(slice->store, STATEMENT_NEXT_ATTEMPT, &q, err, slice->run->after_attempt);

	if (r < 0)
		return r;
	while (may_run && (r = query_step(&q, err)) > 0) {
		*ret = query_read_i64(&q);
		r = attempt_may_run(slice->store, *ret, &may_run, err);
		if (r < 0)
			return r;
		if (may_run)
			slice->run->after_attempt = *ret;
	}
	return may_run ? r : 1;
}

/* Some rows of an attempt; 1: there may be more. The report says why they are missing. */
static int drop_rows(struct slice *slice, enum statement id, int64_t attempt, const char *what,
		     uint64_t *n_dropped, struct err *err)
{
	int n, r = query_exec(slice->store, id, err, attempt, slice_batch(slice, BATCH_ROWS));

	if (r < 0)
		return r;
	n = sqlite3_changes(slice->store->db);
	*n_dropped += (uint64_t)n;
	if (n == 0)
		return 0;
	r = query_put(slice->store, STATEMENT_NOTE_UNKNOWN, err, V_I64(attempt), V_TEXT(what),
		      V_TEXT("their rows were removed to keep the database below max_bytes"));
	return r < 0 ? r : 1;
}

/* By now it has no more than its row and those of its sheets, ranks and notes. */
static int drop_attempt(struct slice *slice, int64_t attempt, uint64_t *n_dropped, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job;
	int r = query_first(slice->store, STATEMENT_DROP_ATTEMPT, &q, err, attempt);

	if (r <= 0)
		return r;
	job = query_read_i64(&q);
	r = query_run(&q, err);
	++*n_dropped;
	return r < 0 ? r : query_exec(slice->store, STATEMENT_DROP_JOB, err, job);
}

/*
 * Of each such attempt, while there is too little room: rows (what), or all that it has (NULL), by
 * the statement.
 */
static int each_attempt(struct slice *slice, enum statement id, const char *what,
			uint64_t *n_dropped, struct err *err)
{
	int64_t attempt = 0;
	int r;

	while ((r = lacks_room(slice, err)) > 0) {
		r = slice_goes_on(slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
		r = next_attempt(slice, &attempt, err);
		if (r == 0)
			break;
		if (r > 0)
			r = what ? drop_rows(slice, id, attempt, what, n_dropped, err)
				 : drop_attempt(slice, attempt, n_dropped, err);
		if (r < 0)
			return r;
		if (r == 0)
			slice->run->after_attempt = attempt;
	}
	if (r == 0)
		slice->run->after_attempt = 0; /* where the next stage begins */
	return r;
}

int room_phases(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_PHASES, "phases", &slice->run->result.n_phases,
			    err);
}

int room_processes(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_PROCESSES, "processes",
			    &slice->run->result.n_processes, err);
}

int room_attempts(struct slice *slice, struct err *err)
{
	return each_attempt(slice, STATEMENT_DROP_ATTEMPT, NULL, &slice->run->result.n_attempts,
			    err);
}

/* As it is now: what was beside the database may have become shorter, or longer. */
int room_end(struct slice *slice, struct err *err)
{
	struct retention_result *result = &slice->run->result;

	result->beside_bytes = space_beside(slice->store, &slice->run->policy);
	result->wal_bytes = space_of_wal(slice->store);
	return read_over(slice, &result->over_bytes, err);
}
