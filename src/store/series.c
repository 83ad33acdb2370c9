#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/so_far.h"

struct points {
	struct series_point *items;
	size_t n, cap;
};

static void points_release(struct points *points)
{
	free(points->items);
}

/* -EBADMSG: it makes no sense, and nothing is said yet. */
static int points_add(const struct store *store, struct points *points, const uint64_t *words,
		      struct err *err)
{
	if (points->n == points->cap) {
		size_t cap = points->cap ? points->cap * 2 : 256;
		struct series_point *items = reallocarray(points->items, cap, sizeof(*items));

		if (!items)
			return store_no_memory(store, err);
		points->items = items;
		points->cap = cap;
	}
	if (point_from_words(words, &points->items[points->n]) < 0)
		return -EBADMSG;
	points->n++;
	return 0;
}

/* Of an attempt without a point the time is unknown. The same -EBADMSG. */
static int add_table(const struct store *store, const void *data, size_t len, struct table *t,
		     struct points *points, struct err *err)
{
	int r = 0;

	if (table_read(data, len, CODEC_ROWS, POINT_WORDS, NULL, t) < 0)
		return -EBADMSG;
	for (unsigned i = 0; r == 0 && i < t->n; i++) {
		uint64_t words[POINT_WORDS];

		for (unsigned k = 0; k < POINT_WORDS; k++)
			words[k] = t->columns[k][i];
		if (u64_known(words[POINT_WALL_NS]))
			r = points_add(store, points, words, err);
	}
	return r;
}

static int read_folded(struct store *store, int64_t attempt_id, struct table *t,
		       struct points *points, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_POINTS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct damage place = { .kind = DAMAGED_CURVE, .n = 1, .recorder = attempt_id };
		const void *data;
		size_t len;

		place.id = query_read_i64(&q);
		place.first_ns = place.last_ns = query_read_i64(&q);
		data = query_read_blob(&q, points_key(attempt_id, place.id), &len);
		r = add_table(store, data, len, t, points, err);
		if (r == -EBADMSG)
			r = damage_leave_out(store, &place, err);
	}
	return r;
}

struct taking {
	struct store *store;
	struct table *t;
	struct points *points;
};

static int take_part(void *ctx, const void *data, size_t len, int64_t key, struct err *err)
{
	struct taking *taking = ctx;

	const struct damage place = { .kind = DAMAGED_CURVE, .n = 1, .recorder = key };
	int r = add_table(taking->store, data, len, taking->t, taking->points, err);

	return r == -EBADMSG ? damage_leave_out(taking->store, &place, err) : r;
}

/* By time; those of the same time stay as they were written. */
static int compare_points(const void *a, const void *b)
{
	const struct series_point *x = *(const struct series_point *const *)a;
	const struct series_point *y = *(const struct series_point *const *)b;

	if (x->wall_ns != y->wall_ns)
		return x->wall_ns < y->wall_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool is_sorted(const struct points *points)
{
	for (size_t i = 1; i < points->n; i++)
		if (points->items[i].wall_ns < points->items[i - 1].wall_ns)
			return false;
	return true;
}

/* They mostly are: the clock is rarely set back. */
static int copy_sorted(const struct points *points, struct series_point *ret)
{
	CLEANUP(free_ptr) const struct series_point **order = NULL;

	if (is_sorted(points)) {
		memcpy(ret, points->items, points->n * sizeof(*ret));
		return 0;
	}
	order = reallocarray(NULL, points->n, sizeof(*order));
	if (!order)
		return -1;
	for (size_t i = 0; i < points->n; i++)
		order[i] = &points->items[i];
	qsort(order, points->n, sizeof(*order), compare_points);
	for (size_t i = 0; i < points->n; i++)
		ret[i] = *order[i];
	return 0;
}

int series_read(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(points_release) struct points points = { 0 };
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	struct taking taking = { store, t, &points };
	int r = t ? read_folded(store, a->id, t, &points, err) : store_no_memory(store, err);

	if (r == 0)
		r = fold_each_pending(store, a->id, LIST_POINTS, take_part, &taking, err);
	if (r < 0 || points.n == 0)
		return r;
	a->series = arena_alloc(&a->arena, points.n * sizeof(*points.items));
	if (!a->series || copy_sorted(&points, a->series) < 0)
		return store_no_memory(store, err);
	a->n_series = points.n;
	return 0;
}
