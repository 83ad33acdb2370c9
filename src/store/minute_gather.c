#include "store/minute_gather.h"

#include <errno.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/query.h"

int minute_window_fail(const struct minute_window *m, int r, struct err *err)
{
	return r == -ENOMEM ? store_no_memory(m->store, err) : r;
}

int minute_window_leave_out(struct minute_window *m, enum damage_kind kind, int64_t id, uint64_t n,
			    struct err *err)
{
	const struct damage d = { kind, id,	     kind == DAMAGED_MINUTES ? 0 : m->recorder,
				  n,	m->first_ns, m->last_ns };

	return damage_leave_out(m->store, &d, err);
}

int64_t minute_window_rollup_id(int64_t process, uint64_t minute)
{
	return (int64_t)(minute / ROLLUP_MINUTES) << ROLLUP_BITS | process;
}

/* ---- samples ---- */

/* A table of samples, in the ticks of m->times. */
static int add_samples(struct minute_window *m, int64_t process, const void *data, size_t len,
		       struct err *err)
{
	struct minute_sum *row;
	uint64_t minute;
	int r = 0;

	if (table_read(data, len, m->times.n, SAMPLE_WORDS, m->times.boot_ns, &m->samples) < 0)
		return minute_window_leave_out(m, DAMAGED_SAMPLES, m->fold << CHUNK_BITS | process,
					       1, err);
	for (unsigned from = 0, to; r == 0 && from < m->samples.n; from = to) {
		to = rollup_find_run(&m->samples, from, m->times.wall_ns, &minute);
		if (!minute_sums_has_room_for(&m->sums, minute))
			continue;
		r = minute_sums_find(&m->sums, process, minute, &row);
		if (r == 0)
			rollup_minute_add(&row->sums, ROLLUP_SAMPLES, &m->samples, from, to,
					  m->times.ids);
	}
	return minute_window_fail(m, r, err);
}

/* ---- what has become rollups: it is read first, so nothing is added to yet ---- */

static int add_rollup(struct minute_window *m, int64_t process, const void *data, size_t len,
		      struct err *err)
{
	struct minute_sum *row;
	int r = 0;

	if (rollup_read(data, len, ROLLUP_SAMPLES, &m->t, &m->rollup) < 0)
		return minute_window_leave_out(
			m, DAMAGED_MINUTES, minute_window_rollup_id(process, m->sums.from), 1, err);
	for (uint64_t minute = m->sums.from; r == 0 && minute < m->sums.to; minute++) {
		const struct rollup_minute *sums = &m->rollup.minutes[minute % ROLLUP_MINUTES];

		if (sums->n == 0)
			continue;
		r = minute_sums_find(&m->sums, process, minute, &row);
		if (r == 0)
			row->sums = *sums;
	}
	return minute_window_fail(m, r, err);
}

typedef int add_fn(struct minute_window *m, int64_t process, const void *data, size_t len,
		   struct err *err);

/* Rows of a table whose ids are high << 30 | process, those behind after, one by one… */
static int add_wanted(struct minute_window *m, enum statement id, int64_t high, int64_t after,
		      add_fn *add, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->wanted.n; i++) {
		CLEANUP(query_close) struct query q = QUERY_INIT;
		int64_t key = high << CHUNK_BITS | m->wanted.ids[i];

		if (m->wanted.ids[i] <= after)
			continue;
		r = query_open(m->store, id, &q, err);
		if (r < 0)
			return r;
		query_bind_i64(&q, key);
		r = query_step(&q, err);
		if (r > 0) {
			size_t len;
			const void *data = query_read_blob(&q, key, &len);

			r = add(m, m->wanted.ids[i], data, len, err);
		}
	}
	return r;
}

/* …or all of them, and those that are not wanted left out. */
static int add_range(struct minute_window *m, enum statement id, int64_t high, int64_t after,
		     add_fn *add, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(m->store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, high);
	query_bind_i64(&q, after);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t process = query_read_i64(&q);
		size_t len;
		const void *data = query_read_blob(&q, high << CHUNK_BITS | process, &len);

		r = process_set_has(&m->wanted, process) ? add(m, process, data, len, err) : 0;
	}
	return r;
}

/* Where samples are still there, snapshots have the GPUs themselves. */
static int add_gpu_rollup(struct minute_window *m, struct err *err)
{
	int r = gpu_minutes_read_row(m->store, &m->gpus, &m->work, err);

	return r == -EBADMSG ? minute_window_leave_out(m, DAMAGED_MINUTES,
						       gpu_minutes_row_id(&m->gpus), 1, err)
			     : r;
}

static int add_rollups(struct minute_window *m, struct err *err)
{
	int64_t hour = (int64_t)(m->sums.from / ROLLUP_MINUTES);
	int r;

	m->first_ns = minute_begin_ns(m->sums.from);
	m->last_ns = minute_begin_ns(m->sums.to) - 1;
	r = m->rollups_only ? add_gpu_rollup(m, err) : 0;
	if (r < 0)
		return r;
	return process_set_is_small(&m->wanted)
		       ? add_wanted(m, STATEMENT_READ_ROLLUP, hour, 0, add_rollup, err)
		       : add_range(m, STATEMENT_READ_ROLLUPS, hour, 0, add_rollup, err);
}

/* ---- what is there as samples ---- */

/* 1: the times of the fold's ticks are known. 0: it is damaged. */
static int read_times(struct minute_window *m, const void *head, size_t len, bool is_whole,
		      struct err *err)
{
	int r = fold_times_read(head, len, is_whole, &m->t, &m->times);

	if (r == -EBADMSG)
		return minute_window_leave_out(m, DAMAGED_TICKS, m->fold, m->n_ticks, err);
	return r < 0 ? minute_window_fail(m, r, err) : 1;
}

/* What of it is not in rollups: that of processes behind rolled_to. Its head is read next. */
static int add_fold(struct minute_window *m, int64_t rolled_to, struct query *q, struct err *err)
{
	bool is_whole;
	size_t len;
	const void *head = query_read_some_blob(q, m->fold, &len, &is_whole);
	int r = read_times(m, head, len, is_whole, err);

	if (r <= 0)
		return r;
	return process_set_is_small(&m->wanted)
		       ? add_wanted(m, STATEMENT_READ_CHUNK, m->fold, rolled_to, add_samples, err)
		       : add_range(m, STATEMENT_READ_CHUNKS_OF_FOLD, m->fold, rolled_to,
				   add_samples, err);
}

/* From when till when, and the job: as the statements of walks have them. */
static int open_window(struct minute_window *m, enum statement id, struct query *q, struct err *err)
{
	int r = query_open(m->store, id, q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, minute_begin_ns(m->sums.from));
	query_bind_i64(q, minute_begin_ns(m->sums.to) - 1);
	query_bind_i64(q, m->wanted.job);
	return 0;
}

static int add_folds(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_window(m, STATEMENT_MINUTE_FOLDS, &q, err);

	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t rolled_to;

		m->fold = query_read_i64(&q);
		m->recorder = query_read_i64(&q);
		m->first_ns = query_read_i64(&q);
		m->last_ns = query_read_i64(&q);
		m->n_ticks = (uint64_t)query_read_i64(&q);
		rolled_to = query_read_i64(&q);
		r = add_fold(m, rolled_to, &q, err);
	}
	return r;
}

static int add_folded(struct minute_window *m, const struct folded *f, struct err *err)
{
	int r;

	m->fold = f->id;
	m->first_ns = f->first_ns;
	m->last_ns = f->last_ns;
	m->n_ticks = f->n_ticks;
	r = read_times(m, f->head.data, f->head.len, true, err);
	if (r <= 0)
		return r;
	r = 0;
	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i];

		if (part->list == LIST_SAMPLES && process_set_has(&m->wanted, part->key))
			r = add_samples(m, part->key, f->bytes.data + part->at, part->len, err);
	}
	return r;
}

static int add_tail(struct minute_window *m, int64_t recorder, struct err *err)
{
	CLEANUP(folded_release) struct folded f = FOLDED_INIT;
	int64_t after_id = 0;
	int r;

	m->recorder = recorder;
	while ((r = fold_read_pending(m->store, recorder, after_id, INT64_MAX, &f, err)) > 0) {
		after_id = f.id;
		r = fold_leave_out(m->store, recorder, &f, minute_begin_ns(m->sums.from),
				   minute_begin_ns(m->sums.to) - 1, err);
		if (r == 0 && f.n_ticks > 0)
			r = add_folded(m, &f, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int add_tails(struct minute_window *m, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_window(m, STATEMENT_WALK_TAILS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, 0);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = add_tail(m, query_read_i64(&q), err);
	return r;
}

/* ---- all of it ---- */

int minute_gather(struct minute_window *m, struct err *err)
{
	static int (*const readers[])(struct minute_window *, struct err *) = {
		add_rollups,
		add_folds,
		add_tails,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < (m->rollups_only ? 1 : ARRAY_SIZE(readers)); i++)
		r = readers[i](m, err);
	return r;
}
