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

/* Events in the order of time: of one attempt, or of all. */
struct stream {
	int64_t attempt; /* 0: all */
	int64_t after_ns, after_id;
	struct event_row rows[PAGE_EVENTS]; /* those read last… */
	size_t n, next;			    /* …and the first that is not told */
	bool is_at_end;			    /* there are no more to read */
	struct arena arena;		    /* their strings */
	struct stream *following;
};

/* An attempt of the job, and when its first event was. */
struct source {
	int64_t attempt, first_ns;
};

struct telling {
	struct store *store;
	int64_t since_ns, until_ns, last_id;
	struct source *sources; /* by time */
	size_t n, cap, next;	/* those before next have a stream, or are told */
	struct stream *open;	/* those that have an event to tell, in no order */
};

static void stream_free(struct stream *s)
{
	arena_release(&s->arena);
	free(s);
}

static void telling_release(struct telling *t)
{
	while (t->open) {
		struct stream *s = t->open;

		t->open = s->following;
		stream_free(s);
	}
	free(t->sources);
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
	r = query_read_columns(q, &event_owner_columns, ret, NULL, err);
	if (r < 0)
		return r;
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

static int fill_page(const struct telling *t, struct stream *s, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(t->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_ask(t->store,
			      s->attempt ? STATEMENT_WALK_ATTEMPT_EVENTS : STATEMENT_WALK_EVENTS,
			      &q, err, s->after_ns, s->after_id, t->until_ns, t->last_id);
	if (r == 0 && s->attempt)
		query_bind_i64(&q, s->attempt);
	s->n = s->next = 0;
	arena_reset(&s->arena);
	while (r == 0 && s->n < PAGE_EVENTS && (r = query_step(&q, err)) > 0) {
		const struct event_row *row = &s->rows[s->n];

		r = read_row(&q, &s->rows[s->n], &s->arena, err);
		if (r < 0)
			break;
		s->after_id = row->id;
		s->after_ns = query_as_i64(row->event.wall_ns);
		s->n += (size_t)r;
		r = 0;
	}
	s->is_at_end = s->n < PAGE_EVENTS;
	return r;
}

static int open_stream(struct telling *t, int64_t attempt, struct err *err)
{
	struct stream *s = malloc(sizeof(*s));

	if (!s)
		return store_no_memory(t->store, err);
	s->attempt = attempt;
	s->after_ns = t->since_ns - 1;
	s->after_id = INT64_MAX;
	s->arena = (struct arena)ARENA_INIT;
	s->following = t->open;
	t->open = s;
	return fill_page(t, s, err);
}

/* ---- which streams there are ---- */

static int add_source(struct telling *t, struct source source, struct err *err)
{
	if (ARRAY_RESERVE(t->sources, t->cap, t->n + 1) < 0)
		return store_no_memory(t->store, err);
	t->sources[t->n++] = source;
	return 0;
}

/* attempt: 0 is any. A job that is not there has none. */
static int plan(struct telling *t, int64_t attempt, const char *job_id, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(t->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_read_number(t->store, STATEMENT_LAST_EVENT, 0, &t->last_id, err);
	if (r < 0)
		return r;
	if (attempt != 0 || !job_id)
		return add_source(t, (struct source){ attempt, 0 }, err);
	r = query_open(t->store, STATEMENT_ATTEMPTS_WITH_EVENTS, &q, err);
	if (r < 0)
		return r;
	query_bind_text(&q, job_id);
	query_bind_i64(&q, t->since_ns);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct source source = { .attempt = query_read_i64(&q) };

		source.first_ns = query_read_i64(&q);
		r = add_source(t, source, err);
	}
	return r;
}

/* ---- telling ---- */

static const struct event_row *head_of(const struct stream *s)
{
	return &s->rows[s->next];
}

/* By time; those of the same time as they were written. */
static struct stream *find_first(const struct telling *t)
{
	struct stream *first = NULL;

	for (struct stream *s = t->open; s; s = s->following) {
		const struct event_row *x = head_of(s), *y = first ? head_of(first) : NULL;

		if (!y || x->event.wall_ns < y->event.wall_ns ||
		    (x->event.wall_ns == y->event.wall_ns && x->id < y->id))
			first = s;
	}
	return first;
}

/* The stream's next event, or its end. */
static int settle(struct telling *t, struct stream *s, struct err *err)
{
	int r = s->next == s->n && !s->is_at_end ? fill_page(t, s, err) : 0;

	if (r == 0 && s->next == s->n) {
		struct stream **at = &t->open;

		while (*at != s)
			at = &(*at)->following;
		*at = s->following;
		stream_free(s);
	}
	return r;
}

/* The attempts of a job mostly come one after the other: few streams are open at once. */
static int open_sources(struct telling *t, struct stream **ret, struct err *err)
{
	int r = 0;

	*ret = find_first(t);
	while (r == 0 && t->next < t->n &&
	       (!*ret ||
		t->sources[t->next].first_ns <= query_as_i64(head_of(*ret)->event.wall_ns))) {
		r = open_stream(t, t->sources[t->next++].attempt, err);
		if (r == 0)
			r = settle(t, t->open, err);
		*ret = find_first(t);
	}
	return r;
}

static int tell(struct store *store, int64_t attempt, const struct event_filter *filter,
		event_fn *fn, void *ctx, struct err *err)
{
	CLEANUP(telling_release)
	struct telling t = {
		.store = store,
		.since_ns = query_as_i64(filter->since_wall_ns),
		.until_ns = filter->until_wall_ns ? query_as_i64(filter->until_wall_ns) : INT64_MAX,
	};
	struct stream *s = NULL;
	int r = plan(&t, attempt, filter->job_id, err);

	while (r == 0 && (r = open_sources(&t, &s, err)) == 0 && s) {
		r = fn(ctx, &s->rows[s->next++]);
		if (r == 0)
			r = settle(&t, s, err);
	}
	return r;
}

int store_read_events(struct store *store, const struct event_filter *filter, event_fn *fn,
		      void *ctx, struct err *err)
{
	return tell(store, 0, filter, fn, ctx, err);
}

int store_read_attempt_events(struct store *store, int64_t attempt_id,
			      const struct event_filter *filter, event_fn *fn, void *ctx,
			      struct err *err)
{
	return attempt_id == 0 ? 0 : tell(store, attempt_id, filter, fn, ctx, err);
}

/* ---- in the order in which they were written, for readers that come back for more ---- */

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

static int read_page(struct store *store, struct page *page, struct course *course, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_ask(store, STATEMENT_FOLLOW_EVENTS, &q, err, course->after_id,
			      course->last_id, course->job);
	if (r < 0)
		return r;
	page->n = 0;
	arena_reset(&page->arena);
	while (r == 0 && page->n < PAGE_EVENTS && (r = query_step(&q, err)) > 0) {
		r = read_row(&q, &page->rows[page->n], &page->arena, err);
		if (r < 0)
			break;
		course->after_id = page->rows[page->n].id;
		page->n += (size_t)r;
		r = 0;
	}
	return r;
}

static int plan_course(struct store *store, const char *job_id, struct course *ret, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_read_number(store, STATEMENT_LAST_EVENT, 0, &ret->last_id, err);
	if (r >= 0 && job_id)
		r = job_find_row(store, job_id, &ret->job, err);
	return r < 0 ? r : 0;
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
		r = read_row(&q, &row, &arena, err);
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
	CLEANUP(page_release) struct page page = { .arena = ARENA_INIT };
	struct course course = { .after_id = *after_id };
	int r = plan_course(store, job_id, &course, err);
	int64_t last_id = course.last_id;
	bool has_more = fn != NULL;

	if (r < 0 || last_id <= *after_id)
		return r;
	while (r == 0 && has_more) {
		r = read_page(store, &page, &course, err);
		for (size_t i = 0; r == 0 && i < page.n; i++)
			r = fn(ctx, &page.rows[i]);
		has_more = page.n == PAGE_EVENTS;
	}
	if (r == 0)
		*after_id = last_id;
	return r;
}

/* ---- attempts of which not all events are listed, so that nobody counts the rest as all ---- */

#define MAX_NAMED 8 /* attempts in one sentence */

static void name_attempt(struct query *q, size_t i, struct buf *out)
{
	const char *job_id = query_read_text(q);
	int64_t num = query_read_i64(q);
	const char *why = query_read_text(q);

	if (i == MAX_NAMED)
		buf_add_str(out, ", and more");
	else if (i < MAX_NAMED)
		buf_printf(out, "%sjob %s, attempt %lld: %s", i ? "; " : "", job_id ? job_id : "-",
			   (long long)num, why ? why : "-");
}

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
	while ((r = query_step(&q, err)) > 0)
		name_attempt(&q, n++, out);
	return r < 0 ? r : n > 0;
}
