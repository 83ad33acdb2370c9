#include "store/so_far.h"

#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "store/codec.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"
#include "store/totals.h"

struct all_totals {
	struct map by_process; /* process -> index */
	struct totals *items;
	size_t n, cap;
};

static void all_totals_release(struct all_totals *all)
{
	map_release(&all->by_process);
	free(all->items);
}

static int all_totals_grow(struct all_totals *all)
{
	size_t cap = all->cap ? all->cap * 2 : 64;
	struct totals *items = reallocarray(all->items, cap, sizeof(*items));

	if (!items)
		return -1;
	all->items = items;
	all->cap = cap;
	return 0;
}

/* NULL when memory runs out. */
static struct totals *totals_of(struct all_totals *all, int64_t process)
{
	struct totals *p;
	uint64_t index;

	if (map_get(&all->by_process, (uint64_t)process, &index))
		return &all->items[index];
	if (all->n == all->cap && all_totals_grow(all) < 0)
		return NULL;
	if (map_put(&all->by_process, (uint64_t)process, all->n) < 0)
		return NULL;
	p = &all->items[all->n++];
	totals_init(p);
	return p;
}

/* place: for who has to say that it is damaged. */
static int add_table(struct store *store, int64_t process, const void *data, size_t len,
		     const struct damage *place, struct table *t, struct all_totals *all,
		     struct err *err)
{
	static const uint64_t boot_ns[CODEC_ROWS]; /* when is not asked */
	struct totals *p;

	if (table_read(data, len, CODEC_ROWS, TOTALS_WORDS, boot_ns, t) < 0)
		return damage_leave_out(store, place, err);
	p = totals_of(all, process);
	if (!p)
		return store_no_memory(store, err);
	totals_add(p, t);
	return 0;
}

static int read_folded(struct store *store, int64_t attempt_id, struct table *t,
		       struct all_totals *all, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_CHUNKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct damage place = { .kind = DAMAGED_SAMPLES, .n = 1 };
		const void *data;
		int64_t process;
		size_t len;

		place.id = query_read_i64(&q);
		place.recorder = query_read_i64(&q);
		place.first_ns = query_read_i64(&q);
		place.last_ns = query_read_i64(&q);
		process = query_read_i64(&q);
		data = query_read_blob(&q, place.id, &len);
		r = add_table(store, process, data, len, &place, t, all, err);
	}
	return r;
}

struct taking {
	struct store *store;
	struct table *t;
	struct all_totals *all;
};

/* Of a daemon's ticks also what is of other attempts: read_records() leaves that out. */
static int take_part(void *ctx, const void *data, size_t len, int64_t key, struct err *err)
{
	static const struct damage never = { .kind = DAMAGED_SAMPLES }; /* it was just made */
	struct taking *taking = ctx;

	return add_table(taking->store, key, data, len, &never, taking->t, taking->all, err);
}

/*
 * The row, with its samples if any of them are left and nobody has summed them up yet; false: it
 * was never sampled, and nobody has told of it.
 */
static int read_record(struct query *q, const struct all_totals *all, struct arena *arena,
		       struct proc_record *ret, struct err *err)
{
	uint64_t index, id = (uint64_t)query_read_i64(q);
	bool is_unaccounted = query_read_i64(q);
	int r;

	proc_record_init(ret);
	r = query_read_columns(q, &process_columns, ret, arena, err);
	ret->is_unaccounted = is_unaccounted;
	if (r < 0 || !is_unaccounted)
		return r < 0 ? r : 1;
	if (map_get(&all->by_process, id, &index))
		totals_tell(&all->items[index], ret);
	return ret->n_samples > 0;
}

/* Those that were sampled, into room for so many. */
static int read_records(struct store *store, struct attempt *a, const struct all_totals *all,
			size_t room, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_PROCESSES_SO_FAR, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	while (a->n_processes < room && (r = query_step(&q, err)) > 0) {
		r = read_record(&q, all, &a->arena, &a->processes[a->n_processes], err);
		if (r < 0)
			return r;
		a->n_processes += (size_t)r;
	}
	return r < 0 ? r : 0;
}

int so_far_count_processes(struct store *store, int64_t attempt_id, struct process_count *ret,
			   struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_COUNT_PROCESSES, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	ret->n = (size_t)query_read_i64(&q);
	ret->n_unaccounted = (size_t)query_read_i64(&q);
	return 0;
}

int so_far_read_processes(struct store *store, struct attempt *a, size_t n, struct err *err)
{
	CLEANUP(all_totals_release) struct all_totals all = { .by_process = MAP_INIT };
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	struct taking taking = { store, t, &all };
	int r = t ? read_folded(store, a->id, t, &all, err) : store_no_memory(store, err);

	if (r == 0)
		r = fold_each_pending(store, a->id, LIST_SAMPLES, take_part, &taking, err);
	if (r < 0 || n == 0)
		return r;
	a->processes = arena_alloc(&a->arena, n * sizeof(*a->processes));
	if (!a->processes)
		return store_no_memory(store, err);
	return read_records(store, a, &all, n, err);
}
