#include "store/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "store/handle.h"

int rows_write(struct store *store, enum statement id, int64_t attempt_id,
	       const struct columns *columns, const void *items, size_t n, size_t item_size,
	       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = n > 0 ? query_open(store, id, &q, err) : 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		query_bind_i64(&q, attempt_id);
		query_bind_columns(&q, columns, (const char *)items + i * item_size);
		r = query_run(&q, err);
	}
	return r;
}

/* Items found so far. They move while they become more, so they get to the arena at the end. */
struct growing {
	char *items;
	size_t n, cap;
};

static void growing_release(struct growing *g)
{
	free(g->items);
}

/* Room for one more, cleared; NULL when memory runs out. */
static void *growing_add(struct growing *g, size_t item_size)
{
	if (array_reserve(&g->items, &g->cap, g->n + 1, item_size) < 0)
		return NULL;
	return memset(g->items + g->n++ * item_size, 0, item_size);
}

static int fail_memory(const struct query *q, struct err *err)
{
	return err_set(err, -ENOMEM, "no memory left to read the database %s", q->store->path);
}

int row_read(struct query *q, const struct row_part *parts, size_t n_parts, void *item,
	     struct arena *arena, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_parts; i++)
		r = query_read_columns(q, parts[i].columns, (char *)item + parts[i].offset, arena,
				       err);
	return r;
}

static int hand_over(const struct query *q, const struct growing *g, size_t item_size,
		     struct arena *arena, void *ret_items, size_t *ret_n, struct err *err)
{
	void *items = NULL;

	if (g->n > 0) {
		items = arena_alloc(arena, g->n * item_size);
		if (!items)
			return fail_memory(q, err);
		memcpy(items, g->items, g->n * item_size);
	}
	memcpy(ret_items, &items, sizeof(items));
	*ret_n = g->n;
	return 0;
}

/* 0: it was left out. */
static int read_sound_row(struct query *q, struct damage d, const struct columns *columns,
			  void *item, struct arena *arena, struct err *err)
{
	int r;

	d.id = query_read_i64(q);
	d.first_ns = d.last_ns = query_read_i64(q);
	d.n = 1;
	r = query_read_columns(q, columns, item, arena, err);
	if (r == -EBADMSG)
		return damage_leave_out(q->store, &d, err);
	return r < 0 ? r : 1;
}

int rows_read_sound(struct query *q, const struct damage *kind, const struct columns *columns,
		    size_t item_size, struct arena *arena, void *ret_items, size_t *ret_n,
		    struct err *err)
{
	CLEANUP(growing_release) struct growing found = { 0 };
	int r;

	while ((r = query_step(q, err)) > 0) {
		void *item = growing_add(&found, item_size);

		r = item ? read_sound_row(q, *kind, columns, item, arena, err)
			 : fail_memory(q, err);
		if (r < 0)
			return r;
		found.n -= r == 0;
	}
	if (r < 0)
		return r;
	return hand_over(q, &found, item_size, arena, ret_items, ret_n, err);
}

int rows_read(struct query *q, const struct row_part *parts, size_t n_parts, size_t item_size,
	      struct arena *arena, void *ret_items, size_t *ret_n, struct err *err)
{
	CLEANUP(growing_release) struct growing found = { 0 };
	int r;

	while ((r = query_step(q, err)) > 0) {
		void *item = growing_add(&found, item_size);

		r = item ? row_read(q, parts, n_parts, item, arena, err) : fail_memory(q, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	return hand_over(q, &found, item_size, arena, ret_items, ret_n, err);
}
