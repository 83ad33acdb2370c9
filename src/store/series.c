#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec.h"
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
		return store_damaged(store, "tick", err);
	points->n++;
	return 0;
}

/* Of an attempt without a point the time is unknown. */
static int add_table(const struct store *store, const void *data, size_t len, struct table *t,
		     struct points *points, struct err *err)
{
	int r = 0;

	if (table_read(data, len, CODEC_ROWS, POINT_WORDS, NULL, t) < 0)
		return store_damaged(store, "curve", err);
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
		size_t len;
		const void *data = query_read_blob(&q, &len);

		r = add_table(store, data, len, t, points, err);
	}
	return r;
}

struct taking {
	const struct store *store;
	struct table *t;
	struct points *points;
};

static int take_part(void *ctx, const void *data, size_t len, int64_t key, struct err *err)
{
	struct taking *taking = ctx;

	(void)key;
	return add_table(taking->store, data, len, taking->t, taking->points, err);
}

static bool goes_before(const struct series_point *a, const struct series_point *b)
{
	return a->wall_ns < b->wall_ns;
}

/* They nearly are, and those of the same time stay as they were written: no qsort(). */
static void sort_points(struct points *points)
{
	for (size_t i = 1; i < points->n; i++) {
		struct series_point moved = points->items[i];
		size_t k = i;

		for (; k > 0 && goes_before(&moved, &points->items[k - 1]); k--)
			points->items[k] = points->items[k - 1];
		points->items[k] = moved;
	}
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
	sort_points(&points);
	a->series = arena_memdup(&a->arena, points.items, points.n * sizeof(*points.items));
	if (!a->series)
		return store_no_memory(store, err);
	a->n_series = points.n;
	return 0;
}
