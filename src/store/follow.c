/*
 * follow - events in the order in which they were written, for who comes back for more.
 */
#include "base/macros.h"
#include "store/events.h"
#include "store/read.h"

struct page {
	struct event_row rows[PAGE_EVENTS];
	size_t n;
	struct arena arena; /* their strings */
};

/* Where to go on, and where to stop. */
struct course {
	int64_t after_id, last_id;
	int64_t job; /* 0: any */
};

static void page_release(struct page *page)
{
	arena_release(&page->arena);
}

static int fill_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, STATEMENT_FOLLOW_EVENTS, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, course->after_id);
	query_bind_i64(&q, course->last_id);
	query_bind_i64(&q, course->job);
	page->n = 0;
	arena_reset(&page->arena);
	while (r == 0 && page->n < PAGE_EVENTS && (r = query_step(&q, err)) > 0) {
		r = events_read_row(&q, &page->rows[page->n], &page->arena, err);
		if (r < 0)
			break;
		course->after_id = page->rows[page->n].id;
		page->n += (size_t)r;
		r = 0;
	}
	return r;
}

static int tell_page(const struct page *page, event_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < page->n; i++)
		r = fn(ctx, &page->rows[i]);
	return r;
}

static int plan(struct store *store, const char *job_id, struct course *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = events_read_last_id(store, &ret->last_id, err);
	if (r == 0 && job_id)
		r = job_find_row(store, job_id, &ret->job, err);
	return r;
}

static int walk(struct store *store, struct course *course, event_fn *fn, void *ctx,
		struct err *err)
{
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	int r;

	do {
		r = fill_page(store, &page, course, err);
		if (r == 0)
			r = tell_page(&page, fn, ctx);
	} while (r == 0 && page.n == PAGE_EVENTS);
	return r;
}

/*
 * Nobody outlives a job that runs: its end is what follows next, or it was thought lost for a
 * while. One whose runner was killed has no end to go by.
 */
static int tell_orphan(struct store *store, const struct event_row *row, event_fn *fn, void *ctx,
		       struct err *err)
{
	bool may_run = false;
	int r = attempt_may_run(store, row->attempt_id, &may_run, err);

	return r < 0 || may_run ? r : fn(ctx, row);
}

int store_read_orphans(struct store *store, const struct orphan_filter *filter, event_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct event_row row;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, STATEMENT_WALK_ORPHANS, &q, err);
	if (r < 0)
		return r;
	query_bind_text(&q, filter->boot_id);
	query_bind_i64(&q, filter->attempt_id);
	query_bind_i64(&q, filter->attempt_id ? filter->attempt_id : INT64_MAX);
	query_bind_i64(&q, (int64_t)filter->n_most);
	while ((r = query_step(&q, err)) > 0) {
		arena_reset(&arena);
		r = events_read_row(&q, &row, &arena, err);
		if (r > 0)
			r = tell_orphan(store, &row, fn, ctx, err);
		if (r != 0)
			break;
	}
	return r;
}

/* Ids are given in the order of the commits: what has a smaller one was there before. */
int store_follow_events(struct store *store, const char *job_id, int64_t *after_id, event_fn *fn,
			void *ctx, struct err *err)
{
	struct course course = { .after_id = *after_id };
	int r = plan(store, job_id, &course, err);
	int64_t last_id = course.last_id;

	if (r < 0 || last_id <= *after_id)
		return r;
	r = fn ? walk(store, &course, fn, ctx, err) : 0;
	if (r == 0)
		*after_id = last_id;
	return r;
}
