#include "store/minute_walk.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/rollup.h"

struct minute_walk {
	struct store *store;
	struct minute_window *window;
	bool newest_first;
	uint64_t first, last; /* minutes that are left to be looked at */
	bool is_over;	      /* none are */
	uint64_t width;	      /* of windows, at most */
	size_t n_told;	      /* rows of the window */
	struct minute_row row;
	int64_t process;
};

void minute_walk_close(struct minute_walk **walk)
{
	if (!*walk)
		return;
	minute_window_free(&(*walk)->window);
	free(*walk);
	*walk = NULL;
}

static uint64_t minute_of(uint64_t wall_ns)
{
	return (wall_ns < INT64_MAX ? wall_ns : INT64_MAX) / MINUTE_NS;
}

int minute_walk_open(struct store *store, const struct minute_filter *filter, bool newest_first,
		     struct minute_walk **ret, struct err *err)
{
	CLEANUP(minute_walk_close) struct minute_walk *w = calloc(1, sizeof(*w));
	const struct window_filter window = { .job_id = filter->job_id, .pid = filter->pid };
	int r;

	if (!w)
		return store_no_memory(store, err);
	w->store = store;
	w->newest_first = newest_first;
	w->width = ROLLUP_MINUTES;
	w->first = minute_of(filter->since_wall_ns);
	w->last = minute_of(filter->until_wall_ns ? filter->until_wall_ns : INT64_MAX);
	r = minute_window_new(store, &window, &w->window, err);
	if (r < 0)
		return r;
	w->is_over = minute_window_is_empty(w->window) || w->first > w->last;
	*ret = TAKE_PTR(w);
	return 0;
}

/* ---- windows ---- */

/* The time next to this one at which there may be something; 0: there is none. */
static int find_recorded(struct minute_walk *w, int64_t ns, int64_t *ret_ns, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(w->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(w->store,
			       w->newest_first ? STATEMENT_PREVIOUS_RECORDED
					       : STATEMENT_NEXT_RECORDED,
			       &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, ns);
	r = query_step(&q, err);
	if (r <= 0 || query_is_null(&q))
		return r < 0 ? r : 0;
	*ret_ns = query_read_i64(&q);
	return 1;
}

static uint64_t hour_of(uint64_t minute)
{
	return minute / ROLLUP_MINUTES * ROLLUP_MINUTES;
}

/* 1: first and last have been brought nearer to where there may be something. */
static int skip_nothing(struct minute_walk *w, struct err *err)
{
	int64_t ns = 0;
	int r = find_recorded(
		w, w->newest_first ? minute_begin_ns(w->last + 1) - 1 : minute_begin_ns(w->first),
		&ns, err);

	if (r <= 0 || ns < 0)
		return r < 0 ? r : 0;
	if (w->newest_first)
		w->last = minute_of((uint64_t)ns);
	else
		w->first = minute_of((uint64_t)ns);
	return w->first <= w->last;
}

/* The next of at most an hour: from up to, and without, to. */
static void choose_window(const struct minute_walk *w, uint64_t *from, uint64_t *to)
{
	if (w->newest_first) {
		*to = w->last + 1;
		*from = hour_of(w->last);
		*from = *to - *from > w->width ? *to - w->width : *from;
		*from = *from < w->first ? w->first : *from;
		return;
	}
	*from = w->first;
	*to = hour_of(w->first) + ROLLUP_MINUTES;
	*to = *to - *from > w->width ? *from + w->width : *to;
	*to = *to - 1 > w->last ? w->last + 1 : *to;
}

static void leave_window(struct minute_walk *w, uint64_t from, uint64_t to)
{
	if (!w->newest_first)
		w->first = to;
	else if (from > 0)
		w->last = from - 1;
	w->is_over = w->first > w->last || (w->newest_first && from == 0);
	w->n_told = 0;
}

/* 1: there is another window, which may be empty. */
static int next_window(struct minute_walk *w, struct err *err)
{
	uint64_t from, to;
	int r;

	while (!w->is_over) {
		r = skip_nothing(w, err);
		w->is_over = r <= 0;
		if (r <= 0)
			return r;
		choose_window(w, &from, &to);
		r = minute_window_read(w->window, from, to, err);
		if (r == -EOVERFLOW) {
			w->width = (to - from) / 2;
			continue;
		}
		leave_window(w, from, to);
		return r < 0 ? r : 1;
	}
	return 0;
}

/* ---- rows ---- */

/* 1: it was told. 0: it is not. */
static int take_row(struct minute_walk *w, struct err *err)
{
	size_t n = minute_window_count(w->window), i = w->n_told++;

	i = w->newest_first ? n - 1 - i : i;
	w->process = minute_window_process(w->window, i);
	return minute_window_row(w->window, i, &w->row, err);
}

int minute_walk_next(struct minute_walk *w, struct err *err)
{
	int r = 0;

	while (r == 0) {
		if (w->n_told < minute_window_count(w->window)) {
			r = take_row(w, err);
			continue;
		}
		r = next_window(w, err);
		if (r <= 0)
			return r;
		r = 0;
	}
	return r;
}

const struct minute_row *minute_walk_row(const struct minute_walk *w)
{
	return &w->row;
}

int64_t minute_walk_process(const struct minute_walk *w)
{
	return w->process;
}
