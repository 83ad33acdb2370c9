#include "store/events.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/store.h"
#include "store/tables.h"

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

/* ---- a stream ---- */

static int leave_out(struct store *store, const struct event_row *row, struct err *err)
{
	const int64_t ns = u64_known(row->event.wall_ns) ? (int64_t)row->event.wall_ns : 0;
	const struct damage d = { DAMAGED_EVENTS, row->id, row->attempt_id, 1, ns, ns };

	return damage_leave_out(store, &d, err);
}

int events_read_row(struct query *q, struct event_row *ret, struct arena *arena, struct err *err)
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
	if (r == -EBADMSG)
		return leave_out(q->store, ret, err);
	return r < 0 ? r : 1;
}

static int add_row(struct query *q, struct stream *s, struct err *err)
{
	const struct event_row *row = &s->rows[s->n];
	int r = events_read_row(q, &s->rows[s->n], &s->arena, err);

	if (r < 0)
		return r;
	s->after_id = row->id;
	s->after_ns = query_as_i64(row->event.wall_ns);
	s->n += (size_t)r;
	return 0;
}

static int open_page(const struct telling *t, const struct stream *s, struct query *q,
		     struct err *err)
{
	int r = query_open(t->store,
			   s->attempt ? STATEMENT_WALK_ATTEMPT_EVENTS : STATEMENT_WALK_EVENTS, q,
			   err);

	if (r < 0)
		return r;
	query_bind_i64(q, s->after_ns);
	query_bind_i64(q, s->after_id);
	query_bind_i64(q, t->until_ns);
	query_bind_i64(q, t->last_id);
	if (s->attempt)
		query_bind_i64(q, s->attempt);
	return 0;
}

static int fill_page(const struct telling *t, struct stream *s, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(t->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = open_page(t, s, &q, err);
	s->n = s->next = 0;
	arena_reset(&s->arena);
	while (r == 0 && s->n < PAGE_EVENTS && (r = query_step(&q, err)) > 0)
		r = add_row(&q, s, err);
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
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 16;
		struct source *sources = reallocarray(t->sources, cap, sizeof(*sources));

		if (!sources)
			return store_no_memory(t->store, err);
		t->sources = sources;
		t->cap = cap;
	}
	t->sources[t->n++] = source;
	return 0;
}

/* A job that is not there has none. */
static int list_attempts(struct telling *t, const char *job_id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(t->store, STATEMENT_ATTEMPTS_WITH_EVENTS, &q, err);

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

int events_read_last_id(struct store *store, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_LAST_EVENT, &q, err);

	if (r == 0)
		r = query_step(&q, err);
	if (r > 0)
		*ret = query_read_i64(&q);
	return r < 0 ? r : 0;
}

/* attempt: 0 is any. */
static int plan(struct telling *t, int64_t attempt, const char *job_id, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(t->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = events_read_last_id(t->store, &t->last_id, err);
	if (r < 0)
		return r;
	return attempt == 0 && job_id ? list_attempts(t, job_id, err)
				      : add_source(t, (struct source){ attempt, 0 }, err);
}

/* ---- telling ---- */

static const struct event_row *head_of(const struct stream *s)
{
	return &s->rows[s->next];
}

/* By time; those of the same time as they were written. */
static bool is_before(const struct stream *a, const struct stream *b)
{
	uint64_t x = head_of(a)->event.wall_ns, y = head_of(b)->event.wall_ns;

	return x != y ? x < y : head_of(a)->id < head_of(b)->id;
}

static struct stream *find_first(const struct telling *t)
{
	struct stream *first = NULL;

	for (struct stream *s = t->open; s; s = s->following)
		if (!first || is_before(s, first))
			first = s;
	return first;
}

static void close_stream(struct telling *t, struct stream *s)
{
	struct stream **at = &t->open;

	while (*at != s)
		at = &(*at)->following;
	*at = s->following;
	stream_free(s);
}

/* The stream's next event, or its end. */
static int settle(struct telling *t, struct stream *s, struct err *err)
{
	int r = s->next == s->n && !s->is_at_end ? fill_page(t, s, err) : 0;

	if (r == 0 && s->next == s->n)
		close_stream(t, s);
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
