#include "store/retain_group.h"

#include <errno.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/rollup.h"

static int drop_fold(struct fold_group *g, int64_t fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_DROP_FOLD, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold);
	return query_run(&q, err);
}

/* ---- which ---- */

static int find_next(struct fold_group *g, struct old_fold *fold, int64_t after, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_NEXT_CHUNK, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->id);
	query_bind_i64(&q, after);
	r = query_step(&q, err);
	fold->next = r > 0 ? query_read_i64(&q) : 0;
	return r < 0 ? r : 0;
}

/* One that nobody can tell the times of has no ticks here. */
static int read_folds(struct fold_group *g, struct query *q, struct err *err)
{
	int r;

	while ((r = query_step(q, err)) > 0) {
		struct old_fold *fold = &g->folds[g->n];
		bool is_whole;
		const void *data;
		size_t len;

		fold->id = query_read_i64(q);
		fold->rolled_to = query_read_i64(q);
		data = query_read_some_blob(q, fold->id, &len, &is_whole);
		r = fold_times_read(data, len, is_whole, &g->t, &fold->times);
		if (r == -ENOMEM)
			return store_no_memory(g->store, err);
		fold->times.n = r < 0 ? 0 : fold->times.n;
		if (r == 0 && !is_whole && fold->rolled_to == 0)
			g->slice->run->result.n_damaged++; /* what is behind the times */
		g->n++;
	}
	return r;
}

/* What is damaged is gone, with its chunks. */
static int sort_out(struct fold_group *g, struct err *err)
{
	unsigned n = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < g->n; i++) {
		if (g->folds[i].times.n == 0) {
			g->slice->run->result.n_damaged++;
			r = drop_fold(g, g->folds[i].id, err);
			continue;
		}
		g->folds[n] = g->folds[i];
		r = find_next(g, &g->folds[n], g->folds[n].rolled_to, err);
		n++;
	}
	g->n = n;
	return r;
}

static int load_hour(struct fold_group *g, int64_t recorder, int64_t first_ns, int64_t cutoff_ns,
		     struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_FOLDS_OF_HOUR, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, first_ns);
	query_bind_i64(&q, (int64_t)((uint64_t)first_ns / HOUR_NS * HOUR_NS + HOUR_NS - 1));
	query_bind_i64(&q, cutoff_ns);
	query_bind_i64(&q, recorder);
	query_bind_i64(&q, GROUP_FOLDS);
	r = read_folds(g, &q, err);
	return r < 0 ? r : sort_out(g, err);
}

int fold_group_load(struct fold_group *g, struct slice *slice, int64_t cutoff_ns, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t recorder, first_ns;
	int r = query_open(slice->store, STATEMENT_OLDEST_FOLD, &q, err);

	g->slice = slice;
	g->store = slice->store;
	g->n = 0;
	g->rolled_to = 0;
	if (r < 0)
		return r;
	query_bind_i64(&q, cutoff_ns);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	recorder = query_read_i64(&q);
	first_ns = query_read_i64(&q);
	r = load_hour(g, recorder, first_ns, cutoff_ns, err);
	return r < 0 ? r : 1;
}

/* ---- how far ---- */

int64_t fold_group_next(const struct fold_group *g)
{
	int64_t least = 0;

	for (unsigned i = 0; i < g->n; i++) {
		int64_t next = g->folds[i].next;

		if (next && (least == 0 || next < least))
			least = next;
	}
	return least;
}

int fold_group_pass(struct fold_group *g, int64_t process, struct err *err)
{
	int r = 0;

	g->rolled_to = process;
	for (unsigned i = 0; r == 0 && i < g->n; i++)
		if (g->folds[i].next == process)
			r = find_next(g, &g->folds[i], process, err);
	return r;
}

static int mark(struct fold_group *g, struct old_fold *fold, int64_t rolled_to, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_MARK_FOLD, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold->id);
	query_bind_i64(&q, rolled_to);
	fold->rolled_to = rolled_to;
	return query_run(&q, err);
}

/* One that has none of the group's last processes is done up to there all the same. */
int fold_group_mark(struct fold_group *g, struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < g->n; i++) {
		struct old_fold *fold = &g->folds[i];
		int64_t to = fold->next == 0 ? CHUNK_PROCESS_MAX : g->rolled_to;

		if (to > fold->rolled_to)
			r = mark(g, fold, to, err);
	}
	return r;
}

/* ---- away with it ---- */

/* Returns how many. */
static int drop_chunks(struct fold_group *g, int64_t fold, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(g->store, STATEMENT_DROP_CHUNKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, fold);
	query_bind_i64(&q, slice_batch(g->slice, BATCH_ROWS));
	r = query_run(&q, err);
	return r < 0 ? r : sqlite3_changes(g->store->db);
}

static int drop_whole(struct fold_group *g, int64_t fold, struct err *err)
{
	int r;

	while ((r = drop_chunks(g, fold, err)) > 0) {
		r = slice_goes_on(g->slice, err);
		if (r <= 0)
			return r < 0 ? r : 1;
	}
	if (r == 0)
		r = drop_fold(g, fold, err);
	if (r == 0)
		g->slice->run->result.n_folds++;
	return r;
}

int fold_group_drop(struct fold_group *g, struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < g->n; i++)
		if (g->folds[i].next == 0)
			r = drop_whole(g, g->folds[i].id, err);
	return r;
}
