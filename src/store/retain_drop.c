#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/retain.h"
#include "store/rollup.h"

#define BATCH_SECONDS 10 /* those of an anomaly are up to 20 KB */

/*
 * Runs a statement that deletes the oldest ?2 rows before ?1 and returns a time of
 * each. ret_gone_ns: the newest of those times, 0 if there is none.
 */
static int drop_batch(struct query *q, int64_t before, int64_t n_rows, int64_t *ret_gone_ns,
		      struct err *err)
{
	int r;

	*ret_gone_ns = 0;
	query_bind_i64(q, before);
	query_bind_i64(q, n_rows);
	while ((r = query_step(q, err)) > 0) {
		int64_t ns = query_read_i64(q);

		*ret_gone_ns = ns > *ret_gone_ns ? ns : *ret_gone_ns;
	}
	if (r == 0)
		sqlite3_reset(q->stmt);
	return r < 0 ? r : sqlite3_changes(q->store->db);
}

/* Again and again; gone: the key of meta that says up to when they are gone, or NULL. */
static int drop_before(struct slice *slice, enum statement id, int64_t before, const char *gone,
		       uint64_t *n_dropped, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t n_rows = id == STATEMENT_DROP_SECONDS ? BATCH_SECONDS : BATCH_ROWS;
	int r = query_open(slice->store, id, &q, err);

	while (r == 0 && (r = slice_goes_on(slice, err)) > 0) {
		int64_t gone_ns;

		r = drop_batch(&q, before, slice_batch(slice, n_rows), &gone_ns, err);
		if (r <= 0)
			return r;
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

static void take_point(struct table *t, unsigned to, unsigned from)
{
	for (unsigned k = 0; k < POINT_WORDS; k++)
		t->columns[k][to] = t->columns[k][from];
	t->tick[to] = (uint8_t)to;
}

static void raise_point(struct table *t, unsigned to, unsigned from)
{
	static const enum point_word peaks[] = { POINT_RSS_BYTES, POINT_CPU_PERCENT,
						 POINT_PROCESSES };

	t->columns[POINT_WALL_NS][to] = t->columns[POINT_WALL_NS][from];
	for (size_t i = 0; i < ARRAY_SIZE(peaks); i++) {
		uint64_t *column = t->columns[peaks[i]];

		column[to] = u64_max_known(column[to], column[from]);
	}
}

/* Leaves one point for each sheet, one after the other: its peaks, at the time of its last. */
static void thin_points(struct table *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++) {
		uint64_t *percent = &t->columns[POINT_CPU_PERCENT][i];

		if (!u64_known(t->columns[POINT_WALL_NS][i]))
			continue;
		*percent = word_to_scaled(*percent, PERCENT_SCALE);
		if (n > 0 && t->columns[POINT_SHEET][n - 1] == t->columns[POINT_SHEET][i])
			raise_point(t, n - 1, i);
		else
			take_point(t, n++, i);
	}
	t->n = n;
}

static int delete_curve(struct slice *slice, const struct curve *curve, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(slice->store, STATEMENT_DROP_POINTS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, curve->attempt);
	query_bind_i64(&q, curve->fold);
	r = query_run(&q, err);
	if (r < 0 || curve->t.n == 0) /* there was none to miss */
		return r;
	return meta_raise(slice->store, META_CURVES_GONE, curve->last_ns, err);
}

static int put_thin(struct slice *slice, const struct curve *curve, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	int r = query_open(slice->store, STATEMENT_THIN_POINTS, &q, err);

	if (r < 0)
		return r;
	table_write(&bytes, &curve->t, POINT_WORDS, NULL);
	if (buf_error(&bytes) < 0)
		return store_no_memory(slice->store, err);
	query_bind_blob(&q, points_key(curve->attempt, curve->fold), bytes.data, bytes.len);
	query_bind_i64(&q, curve->attempt);
	query_bind_i64(&q, curve->fold);
	return query_run(&q, err);
}

/* 1: the oldest curve before the cutoff that no fold needs any more. 0: none. */
static int next_curve(struct slice *slice, int64_t cutoff_ns, struct curve *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	const void *data;
	size_t len;
	int r = query_open(slice->store, STATEMENT_OLDEST_POINTS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, cutoff_ns);
	r = query_step(&q, err);
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
	slice->run->result.n_curves++;
	thin_points(&curve->t);
	return curve->has_end || curve->t.n == 0 ? delete_curve(slice, curve, err)
						 : put_thin(slice, curve, err);
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
