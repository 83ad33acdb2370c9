/*
 * follow_anomalies - what was told of anomalies in the order in which it was written, for who comes
 * back for more.
 */
#include "base/macros.h"
#include "store/anomalies.h"
#include "store/anomaly_changes.h"
#include "store/query.h"

#define PAGE_CHANGES 32 /* so many are copied at a time, and told when nothing is locked */

struct page {
	struct anomaly_change_row rows[PAGE_CHANGES];
	size_t n;
	struct arena arena; /* their strings */
};

/* Where to go on, and where to stop. */
struct course {
	int64_t after_id, last_id;
};

static void page_release(struct page *page)
{
	arena_release(&page->arena);
}

static const struct column head_items[] = {
	COLUMN(anomaly_change_row, id, column_bits),
	COLUMN(anomaly_change_row, uid, column_u64),
};
static const struct columns head_columns = COLUMNS(head_items);

/* 1: it is in ret. 0: it is left out. */
static int read_row(struct query *q, struct anomaly_change_row *ret, struct arena *arena,
		    struct err *err)
{
	struct anomaly_cells cells = { 0 };
	const char *job_id;
	int r;

	r = query_read_columns(q, &head_columns, ret, NULL, err);
	if (r < 0)
		return r;
	job_id = arena_strdup(arena, query_read_text(q));
	r = query_read_columns(q, &anomaly_place_columns, &cells, NULL, err);
	if (r == 0)
		r = query_read_columns(q, &anomaly_columns, &cells, arena, err);
	if (r == 0)
		r = anomaly_read_cells(q->store, &cells, job_id, &ret->episode, err);
	if (r > 0)
		r = anomaly_read_change(q, &ret->moment, err);
	if (r > 0)
		episode_recall(&ret->episode, &ret->moment);
	return r;
}

static int fill_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, STATEMENT_FOLLOW_ANOMALIES, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, course->after_id);
	query_bind_i64(&q, course->last_id);
	page->n = 0;
	arena_reset(&page->arena);
	while (page->n < PAGE_CHANGES && (r = query_step(&q, err)) > 0) {
		struct anomaly_change_row *row = &page->rows[page->n];

		r = read_row(&q, row, &page->arena, err);
		if (r < 0)
			return r;
		course->after_id = row->id;
		page->n += (size_t)r;
	}
	return r < 0 ? r : 0;
}

static int tell_page(const struct page *page, anomaly_change_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < page->n; i++)
		r = fn(ctx, &page->rows[i]);
	return r;
}

static int walk(struct store *store, struct course *course, anomaly_change_fn *fn, void *ctx,
		struct err *err)
{
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	int r;

	do {
		r = fill_page(store, &page, course, err);
		if (r == 0)
			r = tell_page(&page, fn, ctx);
	} while (r == 0 && page.n == PAGE_CHANGES);
	return r;
}

static int read_last_id(struct store *store, int64_t *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, STATEMENT_LAST_ANOMALY_CHANGE, &q, err);
	if (r == 0)
		r = query_step(&q, err);
	if (r > 0)
		*ret = query_read_i64(&q);
	return r < 0 ? r : 0;
}

/* Where the newest were removed their ids are given again. */
int store_follow_anomalies(struct store *store, int64_t *after_id, anomaly_change_fn *fn, void *ctx,
			   struct err *err)
{
	struct course course = { .after_id = *after_id };
	int r = read_last_id(store, &course.last_id, err);

	if (r == 0 && fn && course.last_id > *after_id)
		r = walk(store, &course, fn, ctx, err);
	if (r == 0)
		*after_id = course.last_id;
	return r;
}
