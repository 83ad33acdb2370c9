#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/history_fold.h"
#include "store/query.h"
#include "store/tables.h"

/*
 * Rows are copied page by page, each page in a transaction of its own, and told
 * after that. A reader that is told to wait (a pipe into a pager) would hold its
 * transaction for as long, and the log could not be shortened meanwhile. Between
 * two pages ticks may become a fold: they keep their ids, so the place holds.
 */
#define PAGE_ROWS 2000

struct history {
	struct store *store;
	const struct history_filter *filter;
	struct place place;   /* up to which all is told */
	int64_t last_tick_id; /* of all that is told; -1: not known yet */
	struct open_fold *folds;
	struct history_row *rows; /* PAGE_ROWS */
	size_t n;
	struct arena arena; /* owns the strings of rows that come from ticks */
	struct map known;   /* of processes in the arena: id -> struct proc_sample * */
};

static void history_release(struct history *h)
{
	open_folds_free(h->folds);
	free(h->rows);
	arena_release(&h->arena);
	map_release(&h->known);
}

/* ---- rows ---- */

static int add_row(struct history *h, const struct history_tick *tick,
		   const struct proc_sample *process, const uint64_t *words, struct err *err)
{
	struct history_row *row = &h->rows[h->n];

	row->wall_ns = tick->wall_ns;
	row->attempt_num = tick->attempt_num;
	row->sample = *process;
	row->sample.job_id = tick->job_id;
	if (sample_from_words(words, &row->sample) < 0)
		return store_damaged(h->store, "sample", err);
	h->n++;
	return 0;
}

static bool is_full(const struct history *h)
{
	return h->n == PAGE_ROWS;
}

/* The process that the row is behind of, in this tick. */
static int64_t told_process(const struct history *h, const struct history_tick *tick)
{
	return h->place.wall_ns == tick->wall_ns && h->place.tick_id == tick->id ? h->place.process
										 : 0;
}

static int add_fold_tick(struct history *h, struct open_fold *fold, struct err *err)
{
	struct history_tick tick = open_fold_tick(fold);
	int64_t told = told_process(h, &tick);
	struct fold_sample sample;
	int r = 0;

	for (size_t i = 0; r == 0 && i < fold->n_processes; i++) {
		if (!open_fold_sample(fold, i, &sample) || sample.id <= told)
			continue;
		if (is_full(h))
			return 0;
		h->place = (struct place){ tick.wall_ns, tick.id, sample.id };
		r = add_row(h, &tick, sample.process, sample.words, err);
	}
	fold->next++;
	return r;
}

/* ---- ticks that are not folded ---- */

static int load_process(struct history *h, int64_t id, struct proc_sample **ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct proc_sample *p = arena_alloc(&h->arena, sizeof(*p));
	int r = p ? query_open(h->store, STATEMENT_HISTORY_PROCESS, &q, err)
		  : store_no_memory(h->store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return store_damaged(h->store, "tick", err);
	proc_sample_init(p);
	r = query_read_columns(&q, &sample_process_columns, p, &h->arena, err);
	if (r == 0 && map_put(&h->known, (uint64_t)id, (uint64_t)(uintptr_t)p) < 0)
		r = store_no_memory(h->store, err);
	*ret = p;
	return r;
}

static int find_process(struct history *h, int64_t id, struct proc_sample **ret, struct err *err)
{
	uint64_t p;

	if (!map_get(&h->known, (uint64_t)id, &p))
		return load_process(h, id, ret, err);
	*ret = (struct proc_sample *)(uintptr_t)p;
	return 0;
}

static int add_samples(struct history *h, const struct history_tick *tick,
		       struct tick_reader *reader, struct err *err)
{
	int64_t told = told_process(h, tick);
	int r;

	while ((r = tick_read_sample(reader)) > 0 && !is_full(h)) {
		struct proc_sample *process = NULL;

		if (reader->process <= told)
			continue;
		r = find_process(h, reader->process, &process, err);
		if (r == 0 && h->filter->pid && process->key.pid != h->filter->pid)
			continue;
		h->place = (struct place){ tick->wall_ns, tick->id, reader->process };
		if (r == 0)
			r = add_row(h, tick, process, reader->words, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? store_damaged(h->store, "tick", err) : 0;
}

static int add_tick(struct history *h, struct history_tick *tick, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct tick_reader reader;
	const void *data;
	size_t len;
	int r = query_open(h->store, STATEMENT_HISTORY_TICK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, tick->id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	tick->attempt_num = (int)query_read_i64(&q);
	tick->job_id = arena_strdup(&h->arena, query_read_text(&q));
	data = query_read_blob(&q, &len);
	if (!tick->job_id)
		return store_no_memory(h->store, err);
	if (tick_read_head(&reader, data, len) < 0)
		return store_damaged(h->store, "tick", err);
	return add_samples(h, tick, &reader, err);
}

/* ---- pages ---- */

/* What comes next of a query that gives ids and times in order. */
struct upcoming {
	struct query q;
	bool is_there;
	int64_t id;
	uint64_t wall_ns;
};

static void upcoming_close(struct upcoming *u)
{
	query_close(&u->q);
}

static int upcoming_step(struct upcoming *u, struct err *err)
{
	int r = query_step(&u->q, err);

	u->is_there = r > 0;
	if (r <= 0)
		return r;
	u->id = query_read_i64(&u->q);
	u->wall_ns = (uint64_t)query_read_i64(&u->q);
	return 0;
}

static int begin_folds(struct history *h, struct upcoming *u, struct err *err)
{
	int r = query_open(h->store, STATEMENT_HISTORY_FOLDS, &u->q, err);

	if (r < 0)
		return r;
	query_bind_i64(&u->q, (int64_t)h->place.wall_ns);
	query_bind_text(&u->q, h->filter->job_id);
	query_bind_i64(&u->q, h->filter->pid);
	return upcoming_step(u, err);
}

static int begin_ticks(struct history *h, struct upcoming *u, struct err *err)
{
	int r = query_open(h->store, STATEMENT_HISTORY_TICKS, &u->q, err);

	if (r < 0)
		return r;
	query_bind_i64(&u->q, (int64_t)h->place.wall_ns);
	query_bind_i64(&u->q, h->place.tick_id);
	query_bind_i64(&u->q, h->last_tick_id);
	query_bind_text(&u->q, h->filter->job_id);
	query_bind_i64(&u->q, h->filter->pid);
	return upcoming_step(u, err);
}

static int find_end(struct history *h, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r;

	if (h->last_tick_id >= 0)
		return 0;
	r = query_open(h->store, STATEMENT_HISTORY_END, &q, err);
	if (r == 0)
		r = query_step(&q, err);
	if (r > 0)
		h->last_tick_id = query_read_i64(&q);
	return r < 0 ? r : 0;
}

/* The tick that comes next of those at hand; the fold that it is in, or NULL. False: there is none.
 */
static bool choose_next(struct history *h, const struct upcoming *ticks, struct history_tick *ret,
			struct open_fold **ret_fold)
{
	struct open_fold *fold = open_folds_first(h->folds);

	*ret_fold = NULL;
	*ret = (struct history_tick){ .wall_ns = ticks->wall_ns, .id = ticks->id };
	if (!fold)
		return ticks->is_there;
	if (!ticks->is_there || open_fold_is_before(fold, ticks->wall_ns, ticks->id)) {
		*ret_fold = fold;
		*ret = open_fold_tick(fold);
	}
	return true;
}

/* 1: a tick was told, or a fold opened. 0: no more. */
static int advance(struct history *h, struct upcoming *folds, struct upcoming *ticks,
		   struct err *err)
{
	struct open_fold *fold;
	struct history_tick tick;
	bool has_next = choose_next(h, ticks, &tick, &fold);
	int r;

	if (folds->is_there && (!has_next || folds->wall_ns <= tick.wall_ns)) {
		r = open_folds_add(h->store, h->filter, folds->id, &h->place, h->last_tick_id,
				   &h->folds, err);
		if (r == 0)
			r = upcoming_step(folds, err);
		return r < 0 ? r : 1;
	}
	if (!has_next)
		return 0;
	if (fold)
		r = add_fold_tick(h, fold, err);
	else
		r = add_tick(h, &tick, err);
	if (r == 0 && !fold && !is_full(h))
		r = upcoming_step(ticks, err);
	return r < 0 ? r : 1;
}

/* Less than PAGE_ROWS: it was the last. */
static int read_page(struct history *h, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(upcoming_close) struct upcoming folds = { .q = QUERY_INIT };
	CLEANUP(upcoming_close) struct upcoming ticks = { .q = QUERY_INIT };
	int r = txn_begin(h->store, STATEMENT_BEGIN_READ, &txn, err);

	h->n = 0;
	arena_reset(&h->arena);
	map_clear(&h->known);
	open_folds_drop_done(&h->folds);
	if (r == 0)
		r = find_end(h, err);
	if (r == 0)
		r = begin_folds(h, &folds, err);
	if (r == 0)
		r = begin_ticks(h, &ticks, err);
	if (r < 0)
		return r;
	while (!is_full(h) && (r = advance(h, &folds, &ticks, err)) > 0)
		;
	return r < 0 ? r : 0;
}

int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(history_release)
	struct history h = {
		.store = store,
		.filter = filter,
		.place = { .wall_ns = filter->since_wall_ns },
		.last_tick_id = -1,
		.rows = calloc(PAGE_ROWS, sizeof(*h.rows)),
		.arena = ARENA_INIT,
	};
	int r = h.rows ? 0 : store_no_memory(store, err);

	do {
		if (r == 0)
			r = read_page(&h, err);
		for (size_t i = 0; r == 0 && i < h.n; i++)
			r = fn(ctx, &h.rows[i]);
	} while (r == 0 && is_full(&h));
	return r;
}
