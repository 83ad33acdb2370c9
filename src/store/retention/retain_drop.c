/* retain_drop - what is too old goes, and what there is no room for. */
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/retention/retain.h"
#include "store/rollup.h"

#define BATCH_SECONDS 10 /* those of an anomaly are up to 20 KB */

/*
 * Again and again a statement that deletes the oldest ?2 rows before ?1 and returns a time of each;
 * gone: the key of meta that says up to when they are gone, or NULL.
 */
static int drop_before(struct slice *slice, enum statement id, int64_t before, const char *gone,
		       uint64_t *n_dropped, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t n_rows = id == STATEMENT_DROP_SECONDS ? BATCH_SECONDS : BATCH_ROWS;
	int r = query_open(slice->store, id, &q, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		int64_t gone_ns = 0;

		query_bind_i64(&q, before);
		query_bind_i64(&q, slice_batch(slice, n_rows));
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
		r = gone ? meta_raise(slice->store, gone, gone_ns, err) : 0;
	}
	return r < 0 ? r : 1;
}

int retain_drop_minutes(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	int64_t hour = (int64_t)((uint64_t)cutoff_ns / HOUR_NS);

	return drop_before(slice, STATEMENT_DROP_ROLLUPS, hour << ROLLUP_BITS, NULL,
			   &slice->run->result.n_minutes, err);
}

int retain_drop_events(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	return drop_before(slice, STATEMENT_DROP_EVENTS, cutoff_ns, META_EVENTS_GONE,
			   &slice->run->result.n_events, err);
}

int retain_drop_anomalies(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	return drop_before(slice, STATEMENT_DROP_ANOMALIES, cutoff_ns, META_ANOMALIES_GONE,
			   &slice->run->result.n_anomalies, err);
}

int retain_drop_over_anomalies(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	return drop_before(slice, STATEMENT_DROP_OVER_ANOMALIES, cutoff_ns, META_ANOMALIES_GONE,
			   &slice->run->result.n_anomalies, err);
}

int retain_drop_seconds(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	return drop_before(slice, STATEMENT_DROP_SECONDS, cutoff_ns, NULL,
			   &slice->run->result.n_seconds, err);
}

/* ---- curves ---- */

/* The points of an attempt in the ticks of a fold. */
struct curve {
	int64_t attempt, fold, last_ns;
	bool has_end; /* the attempt's account tells the peaks */
	struct table t;
};

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

/* 1: the oldest curve before the cutoff that no fold needs any more. 0: none. */
static int next_curve(struct slice *slice, int64_t cutoff_ns, struct curve *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_first(slice->store, STATEMENT_OLDEST_POINTS, &q, err, cutoff_ns);

	if (r <= 0)
		return r;
	ret->attempt = query_read_i64(&q);
	ret->fold = query_read_i64(&q);
	ret->last_ns = query_read_i64(&q);
	ret->has_end = query_read_i64(&q);
	data = query_read_blob(&q, points_key(ret->attempt, ret->fold), &len);
	if (table_read(data, len, CODEC_ROWS, POINT_WORDS, NULL, &ret->t) < 0) {
		slice->run->result.n_damaged++;
		ret->t.n = 0;
	}
	return 1;
}

/* Of an attempt without an end its points alone tell its peaks: those stay. */
static int drop_curve(struct slice *slice, struct curve *curve, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct store *store = slice->store;
	int r;

	slice->run->result.n_curves++;
	thin_points(&curve->t);
	if (curve->has_end || curve->t.n == 0) {
		r = query_exec(store, STATEMENT_DROP_POINTS, err, curve->attempt, curve->fold);
		if (r < 0 || curve->t.n == 0) /* there was none to miss */
			return r;
		return meta_raise(store, META_CURVES_GONE, curve->last_ns, err);
	}
	table_write(&bytes, &curve->t, POINT_WORDS, NULL);
	r = buf_error(&bytes) < 0 ? store_no_memory(store, err)
				  : query_open(store, STATEMENT_THIN_POINTS, &q, err);
	if (r < 0)
		return r;
	query_bind_blob(&q, points_key(curve->attempt, curve->fold), bytes.data, bytes.len);
	query_bind_i64(&q, curve->attempt);
	query_bind_i64(&q, curve->fold);
	return query_run(&q, err);
}

int retain_drop_curves(struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(free_ptr) struct curve *curve = malloc(sizeof(*curve));
	int r = curve ? 0 : store_no_memory(slice->store, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		r = next_curve(slice, cutoff_ns, curve, err);
		if (r <= 0)
			return r;
		r = drop_curve(slice, curve, err);
	}
	return r < 0 ? r : 1;
}

/* ---- room ---- */

#define BATCH_COUNTED 1000 /* between two looks at the clock, where none goes */

static int read_used(const struct slice *slice, uint64_t *ret, struct err *err)
{
	uint64_t file_bytes;

	return space_read(slice->store, &file_bytes, ret, err);
}

/* How many bytes are above max_bytes: those of the database, and of what counts beside it. */
static int read_over(const struct slice *slice, uint64_t *ret, struct err *err)
{
	const struct retention *run = slice->run;
	uint64_t used = 0;
	int r = run->policy.max_bytes ? read_used(slice, &used, err) : 0;

	*ret = 0;
	if (r < 0 || !run->policy.max_bytes)
		return r;
	used += run->result.beside_bytes;
	*ret = used > run->policy.max_bytes ? used - run->policy.max_bytes : 0;
	return 0;
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
	int r = u64_known(slice->run->target_bytes) ? read_used(slice, &used, err) : 0;

	return r < 0 ? r : u64_known(slice->run->target_bytes) && used > slice->run->target_bytes;
}

int room_drop(struct slice *slice, drop_fn *fn, struct err *err)
{
	int r = lacks_room(slice, err);

	slice->run->after_attempt = 0; /* where the stages of attempts begin */
	if (r <= 0)
		return r;
	slice->is_for_room = true;
	r = fn(slice, INT64_MAX, err);
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
	r = read_used(slice, &used, err);
	if (r == 0)
		r = retain_count(slice->store, STATEMENT_SIZE_OF_EVENT, &each, err);
	/* About how many bytes those have that have not gone since they were counted. */
	if (r < 0 || run->n_events <= run->result.n_events || n_left * (uint64_t)each <= used / 2)
		return r;
	return room_drop(slice, retain_drop_events, err);
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

/* Calls fn for each such attempt, while there is too little room; fn returns 1 if it is not through
 * with it. */
static int each_attempt(struct slice *slice, int (*fn)(struct slice *, int64_t, struct err *),
			struct err *err)
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
			r = fn(slice, attempt, err);
		if (r < 0)
			return r;
		if (r == 0)
			slice->run->after_attempt = attempt;
	}
	if (r == 0)
		slice->run->after_attempt = 0; /* where the next stage begins */
	return r;
}

/* Some rows of an attempt; 1: there may be more. The report says why they are missing. */
static int drop_rows(struct slice *slice, enum statement id, int64_t attempt, const char *what,
		     uint64_t *n_dropped, struct err *err)
{
	CLEANUP(query_close) struct query note = QUERY_INIT;
	int n, r = query_exec(slice->store, id, err, attempt, slice_batch(slice, BATCH_ROWS));

	if (r < 0)
		return r;
	n = sqlite3_changes(slice->store->db);
	*n_dropped += (uint64_t)n;
	if (n == 0)
		return 0;
	r = query_ask(slice->store, STATEMENT_NOTE_UNKNOWN, &note, err, attempt);
	if (r < 0)
		return r;
	query_bind_text(&note, what);
	query_bind_text(&note, "their rows were removed to keep the database below max_bytes");
	r = query_run(&note, err);
	return r < 0 ? r : 1;
}

static int drop_phases(struct slice *slice, int64_t attempt, struct err *err)
{
	return drop_rows(slice, STATEMENT_DROP_PHASES, attempt, "phases",
			 &slice->run->result.n_phases, err);
}

static int drop_processes(struct slice *slice, int64_t attempt, struct err *err)
{
	return drop_rows(slice, STATEMENT_DROP_PROCESSES, attempt, "processes",
			 &slice->run->result.n_processes, err);
}

/* By now it has no more than its row and those of its sheets, ranks and notes. */
static int drop_attempt(struct slice *slice, int64_t attempt, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job;
	int r = query_first(slice->store, STATEMENT_DROP_ATTEMPT, &q, err, attempt);

	if (r <= 0)
		return r;
	job = query_read_i64(&q);
	r = query_run(&q, err);
	slice->run->result.n_attempts++;
	return r < 0 ? r : query_exec(slice->store, STATEMENT_DROP_JOB, err, job);
}

int room_phases(struct slice *slice, struct err *err)
{
	return each_attempt(slice, drop_phases, err);
}

int room_processes(struct slice *slice, struct err *err)
{
	return each_attempt(slice, drop_processes, err);
}

int room_attempts(struct slice *slice, struct err *err)
{
	return each_attempt(slice, drop_attempt, err);
}

/* As it is now: what was beside the database may have become shorter, or longer. */
int room_end(struct slice *slice, struct err *err)
{
	struct retention_result *result = &slice->run->result;

	result->beside_bytes = space_beside(slice->store, &slice->run->policy);
	result->wal_bytes = space_of_wal(slice->store);
	return read_over(slice, &result->over_bytes, err);
}
