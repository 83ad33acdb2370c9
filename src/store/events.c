#include <stddef.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/store.h"
#include "store/tables.h"

/* So many are copied at a time, and told when nothing is locked any more. */
#define PAGE_EVENTS 256

struct page {
	struct event_row rows[PAGE_EVENTS];
	size_t n;
	struct arena arena; /* their strings */
};

/* Where to go on, and where to stop. */
struct course {
	int64_t after_ns, after_id;
	int64_t until_ns, last_id;
	int64_t job; /* 0: any */
	bool is_by_id;
};

static void page_release(struct page *page)
{
	arena_release(&page->arena);
}

static int64_t as_i64(uint64_t ns)
{
	return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* The row that the query stands on: whose it is, and the event's columns. */
static int add_row(struct query *q, struct page *page, struct course *course, struct err *err)
{
	struct event_row *row = &page->rows[page->n];
	int r;

	*row = (struct event_row){ 0 };
	row->id = course->after_id = query_read_i64(q);
	r = query_read_columns(q, &event_owner_columns, row, NULL, err);
	if (r < 0)
		return r;
	row->event.job_id = arena_strdup(&page->arena, query_read_text(q));
	row->attempt_num = (int)query_read_i64(q);
	if (!row->event.job_id)
		return store_no_memory(q->store, err);
	r = query_read_columns(q, &event_columns, &row->event, &page->arena, err);
	if (r < 0)
		return r;
	course->after_ns = as_i64(row->event.wall_ns);
	page->n++;
	return 0;
}

static void bind_course(struct query *q, const struct course *course)
{
	if (!course->is_by_id)
		query_bind_i64(q, course->after_ns);
	query_bind_i64(q, course->after_id);
	if (!course->is_by_id)
		query_bind_i64(q, course->until_ns);
	query_bind_i64(q, course->last_id);
	query_bind_i64(q, course->job);
}

static int fill_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store,
			       course->is_by_id ? STATEMENT_FOLLOW_EVENTS : STATEMENT_WALK_EVENTS,
			       &q, err);
	if (r < 0)
		return r;
	bind_course(&q, course);
	page->n = 0;
	arena_reset(&page->arena);
	while (r == 0 && page->n < PAGE_EVENTS && (r = query_step(&q, err)) > 0)
		r = add_row(&q, page, course, err);
	return r;
}

static int tell_page(const struct page *page, event_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < page->n; i++)
		r = fn(ctx, &page->rows[i]);
	return r;
}

/* A number that a statement gives; *ret stays as it is where there is no row. */
static int read_number(struct store *store, enum statement id, const char *text, int64_t *ret,
		       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	if (text)
		query_bind_text(&q, text);
	r = query_step(&q, err);
	if (r > 0)
		*ret = query_read_i64(&q);
	return r < 0 ? r : 0;
}

static int plan(struct store *store, const struct event_filter *filter, struct course *ret,
		struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	*ret = (struct course){
		.after_ns = as_i64(filter->since_wall_ns) - 1,
		.after_id = INT64_MAX,
		.until_ns = filter->until_wall_ns ? as_i64(filter->until_wall_ns) : INT64_MAX,
		.job = filter->job_id ? -1 : 0, /* which no row has */
	};
	if (r == 0)
		r = read_number(store, STATEMENT_LAST_EVENT, NULL, &ret->last_id, err);
	if (r == 0 && filter->job_id)
		r = read_number(store, STATEMENT_FIND_JOB, filter->job_id, &ret->job, err);
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

int store_read_events(struct store *store, const struct event_filter *filter, event_fn *fn,
		      void *ctx, struct err *err)
{
	struct course course;
	int r = plan(store, filter, &course, err);

	return r < 0 ? r : walk(store, &course, fn, ctx, err);
}

/* Ids are given in the order of the commits: what has a smaller one was there before. */
int store_follow_events(struct store *store, const char *job_id, int64_t *after_id, event_fn *fn,
			void *ctx, struct err *err)
{
	const struct event_filter filter = { .job_id = job_id };
	struct course course;
	int r = plan(store, &filter, &course, err);

	if (r < 0 || course.last_id <= *after_id)
		return r;
	course.is_by_id = true;
	course.after_id = *after_id;
	r = fn ? walk(store, &course, fn, ctx, err) : 0;
	if (r == 0)
		*after_id = course.last_id;
	return r;
}
