#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/query.h"
#include "store/attempt.h"
#include "store/store.h"
#include "store/tables.h"

/* So many are copied at a time, and given out when nothing is locked any more. */
#define PAGE_EVENTS 256

/* Where to go on, and where to stop. */
struct course {
	int64_t after_ns, after_id, until_ns, last_id;
	int64_t job;	 /* 0: any */
	bool is_by_time; /* else as they were written */
	bool is_of_some; /* they are these, in order: */
	int64_t *ids;
	size_t n_ids, cap, next;
};

struct page {
	struct event_row rows[PAGE_EVENTS];
	size_t n;
	bool is_last;
	struct arena arena; /* their strings */
};

static void course_release(struct course *course)
{
	free(course->ids);
}

static void page_release(struct page *page)
{
	arena_release(&page->arena);
}

/*
 * The row that the query stands on: whose it is, and the event's columns. 0: it makes no sense and
 * is left out (damage.h); id and time are those of the row all the same.
 */
static int read_row(struct query *q, struct event_row *ret, struct arena *arena, struct err *err)
{
	int r;

	*ret = (struct event_row){ 0 };
	ret->id = query_read_i64(q);
	ret->attempt_id = query_read_i64(q);
	ret->uid = query_is_null(q) ? U64_UNKNOWN : 0;
	ret->uid |= (uint64_t)query_read_i64(q);
	ret->is_attached = query_read_i64(q);
	ret->event.job_id = arena_strdup(arena, query_read_text(q));
	ret->attempt_num = (int)query_read_i64(q);
	if (!ret->event.job_id)
		return store_no_memory(q->store, err);
	r = query_read_columns(q, &event_columns, &ret->event, arena, err);
	if (r == -EBADMSG) {
		const int64_t ns = u64_known(ret->event.wall_ns) ? (int64_t)ret->event.wall_ns : 0;

		return damage_leave_out(
			q->store,
			&(struct damage){ DAMAGED_EVENTS, ret->id, ret->attempt_id, 1, ns, ns },
			err);
	}
	return r < 0 ? r : 1;
}

/* The next of those that are listed; one that is gone is passed over. */
static int read_listed(struct store *store, struct page *page, struct course *course,
		       struct err *err)
{
	int r = 0;

	while (r == 0 && page->n < PAGE_EVENTS && course->next < course->n_ids) {
		CLEANUP(query_close) struct query q = QUERY_INIT;

		r = query_first(store, STATEMENT_READ_EVENT, &q, err, course->ids[course->next++]);
		if (r > 0)
			r = read_row(&q, &page->rows[page->n], &page->arena, err);
		page->n += r > 0;
		r = r < 0 ? r : 0;
	}
	page->is_last = course->next == course->n_ids;
	return r;
}

static int read_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	page->n = 0;
	page->is_last = true;
	arena_reset(&page->arena);
	if (r == 0 && course->is_of_some)
		return read_listed(store, page, course, err);
	if (r == 0)
		r = course->is_by_time
			    ? query_ask(store, STATEMENT_WALK_EVENTS, &q, err, course->after_ns,
					course->after_id, course->until_ns, course->last_id)
			    : query_ask(store, STATEMENT_FOLLOW_EVENTS, &q, err, course->after_id,
					course->last_id, course->job);
	while (r == 0 && page->n < PAGE_EVENTS && (r = query_step(&q, err)) > 0) {
		const struct event_row *row = &page->rows[page->n];

		r = read_row(&q, &page->rows[page->n], &page->arena, err);
		if (r < 0)
			break;
		course->after_id = row->id;
		course->after_ns = query_as_i64(row->event.wall_ns);
		page->n += (size_t)r;
		r = 0;
	}
	page->is_last = page->n < PAGE_EVENTS;
	return r;
}

static int tell(struct store *store, struct course *course, event_fn *fn, void *ctx,
		struct err *err)
{
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	int r = 0;

	while (r == 0 && !page.is_last) {
		r = read_page(store, &page, course, err);
		for (size_t i = 0; r == 0 && i < page.n; i++)
			r = fn(ctx, &page.rows[i]);
	}
	return r;
}

/* ---- in the order of time ---- */

/*
 * Those of an attempt, or of a job's attempts (0: those of all). All events lie in the order of
 * time; which are a job's is found by its attempts.
 */
static int plan(struct store *store, int64_t attempt, const char *job_id, struct course *ret,
		struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_read_number(store, STATEMENT_LAST_EVENT, 0, &ret->last_id, err);
	if (r >= 0 && !attempt && job_id)
		r = job_find_row(store, job_id, &ret->job, err);
	ret->is_by_time = true;
	ret->is_of_some = attempt || job_id;
	if (r < 0 || !ret->is_of_some)
		return r < 0 ? r : 0;
	r = query_ask(store, attempt ? STATEMENT_EVENTS_OF_ATTEMPT : STATEMENT_EVENTS_OF_JOB, &q,
		      err, attempt ? attempt : ret->job, ret->after_ns, ret->until_ns,
		      ret->last_id);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		if (ARRAY_RESERVE(ret->ids, ret->cap, ret->n_ids + 1) < 0)
			return store_no_memory(store, err);
		ret->ids[ret->n_ids++] = query_read_i64(&q);
		r = 0;
	}
	return r;
}

int store_read_events(struct store *store, const struct event_filter *filter, event_fn *fn,
		      void *ctx, struct err *err)
{
	CLEANUP(course_release)
	struct course course = {
		.after_ns = query_as_i64(filter->since_wall_ns) - 1,
		.after_id = INT64_MAX,
		.until_ns = filter->until_wall_ns ? query_as_i64(filter->until_wall_ns) : INT64_MAX,
	};
	int r = plan(store, filter->attempt_id, filter->job_id, &course, err);

	return r < 0 ? r : tell(store, &course, fn, ctx, err);
}

/* ---- orphans ---- */

int store_read_orphans(struct store *store, const struct orphan_filter *filter, event_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct event_row row;
	bool may_run;
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
		r = read_row(&q, &row, &arena, err);
		/*
		 * Nobody outlives a job that runs: its end is what follows next, or it was thought
		 * lost for a while. One whose runner was killed has no end to go by.
		 */
		may_run = r == 0;
		if (r > 0)
			r = attempt_may_run(store, row.attempt_id, &may_run, err);
		if (r == 0 && !may_run)
			r = fn(ctx, &row);
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
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_read_number(store, STATEMENT_LAST_EVENT, 0, &course.last_id, err);
	if (r >= 0 && job_id)
		r = job_find_row(store, job_id, &course.job, err);
	txn_abort(&txn);
	if (r < 0 || course.last_id <= *after_id)
		return r < 0 ? r : 0;
	r = fn ? tell(store, &course, fn, ctx, err) : 0;
	if (r == 0)
		*after_id = course.last_id;
	return r;
}

/* ---- attempts of which not all events are listed, so that nobody counts the rest as all ---- */

#define MAX_NAMED 8 /* attempts in one sentence */

int store_tell_cut_events(struct store *store, const struct event_filter *filter, struct buf *out,
			  struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job = 0;
	size_t n = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0 && filter->job_id)
		r = job_find_row(store, filter->job_id, &job, err);
	if (r == 0)
		r = query_ask(store, STATEMENT_CUT_EVENTS, &q, err, job,
			      query_as_i64(filter->since_wall_ns),
			      filter->until_wall_ns ? query_as_i64(filter->until_wall_ns)
						    : INT64_MAX);
	if (r < 0)
		return r;
	for (; (r = query_step(&q, err)) > 0; n++) {
		const char *name = query_read_text(&q);
		int64_t num = query_read_i64(&q);
		const char *why = query_read_text(&q);

		if (n == MAX_NAMED)
			buf_add_str(out, ", and more");
		else if (n < MAX_NAMED)
			buf_printf(out, "%sjob %s, attempt %lld: %s", n ? "; " : "",
				   name ? name : "-", (long long)num, why ? why : "-");
	}
	return r < 0 ? r : n > 0;
}
