#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/attempt.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"

/* ---- the samples of a process ---- */

void totals_init(struct totals *totals)
{
	totals->n = 0;
	totals->max_rss_bytes = U64_UNKNOWN;
	for (unsigned i = 0; i < TOTALS_WORDS; i++)
		totals->words[i] = U64_UNKNOWN;
}

void totals_add(struct totals *totals, const struct table *chunk)
{
	totals->n += chunk->n;
	for (unsigned i = 0; i < chunk->n; i++) {
		uint64_t hwm_bytes = chunk->columns[SAMPLE_hwm_bytes][i];
		uint64_t rss_bytes = chunk->columns[SAMPLE_rss_bytes][i];

		totals->max_rss_bytes = u64_max_known(totals->max_rss_bytes,
						      u64_known(hwm_bytes) ? hwm_bytes : rss_bytes);
	}
	for (unsigned k = SAMPLE_user_ns; k < TOTALS_WORDS; k++)
		for (unsigned i = 0; i < chunk->n; i++)
			totals->words[k] = u64_max_known(totals->words[k], chunk->columns[k][i]);
}

/* Which word is the largest that a field can have been. */
static const struct {
	size_t offset;
	enum sample_word word;
} fields[] = {
	{ offsetof(struct proc_record, user_ns), SAMPLE_user_ns },
	{ offsetof(struct proc_record, system_ns), SAMPLE_system_ns },
	{ offsetof(struct proc_record, rchar), SAMPLE_rchar },
	{ offsetof(struct proc_record, wchar), SAMPLE_wchar },
	{ offsetof(struct proc_record, read_bytes), SAMPLE_read_bytes },
	{ offsetof(struct proc_record, write_bytes), SAMPLE_write_bytes },
	{ offsetof(struct proc_record, major_faults), SAMPLE_major_faults },
	{ offsetof(struct proc_record, max_threads), SAMPLE_threads },
	{ offsetof(struct proc_record, max_fds), SAMPLE_open_fds },
	{ offsetof(struct proc_record, max_gpu_bytes), SAMPLE_gpu_memory_bytes },
};

void totals_tell(const struct totals *totals, struct proc_record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		uint64_t *field = (uint64_t *)((char *)record + fields[i].offset);

		*field = u64_max_known(*field, totals->words[fields[i].word]);
	}
	record->max_rss_bytes = u64_max_known(record->max_rss_bytes, totals->max_rss_bytes);
	record->n_samples += totals->n;
}

/* ---- processes ---- */

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

/* NULL when memory runs out. */
static struct totals *totals_of(struct all_totals *all, int64_t process)
{
	struct totals *p;
	uint64_t index;

	if (map_get(&all->by_process, (uint64_t)process, &index))
		return &all->items[index];
	if (ARRAY_RESERVE(all->items, all->cap, all->n + 1) < 0)
		return NULL;
	if (map_put(&all->by_process, (uint64_t)process, all->n) < 0)
		return NULL;
	p = &all->items[all->n++];
	totals_init(p);
	return p;
}

/* What folds are read for: the samples of their processes, or their points. */
struct taking {
	struct store *store;
	struct table *t;
	struct all_totals *all;
	struct points *points;
};

static int take_samples(void *ctx, int64_t process, const void *data, size_t len, struct err *err)
{
	static const uint64_t boot_ns[CODEC_ROWS]; /* when is not asked */
	struct taking *taking = ctx;
	struct totals *p;

	if (table_read(data, len, CODEC_ROWS, TOTALS_WORDS, boot_ns, taking->t) < 0)
		return -EBADMSG;
	p = totals_of(taking->all, process);
	if (!p)
		return store_no_memory(taking->store, err);
	totals_add(p, taking->t);
	return 0;
}

static int take_fold(void *ctx, const struct fold_ref *fold, struct err *err)
{
	struct taking *taking = ctx;

	return fold_each_samples(taking->store, fold, NULL, take_samples, ctx, err);
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
	int r = query_ask(store, STATEMENT_READ_PROCESSES_SO_FAR, &q, err, a->id);

	if (r < 0)
		return r;
	while (a->n_processes < room && (r = query_step(&q, err)) > 0) {
		r = read_record(&q, all, &a->arena, &a->processes[a->n_processes], err);
		if (r < 0)
			return r;
		a->n_processes += (size_t)r;
	}
	return r < 0 ? r : 0;
}

int running_totals_read(struct store *store, struct attempt *a, size_t n, struct err *err)
{
	CLEANUP(all_totals_release) struct all_totals all = { .by_process = MAP_INIT };
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct taking taking = { store, t, .all = &all };
	int r = t ? query_ask(store, STATEMENT_FOLDS_OF_ATTEMPT, &q, err, a->id)
		  : store_no_memory(store, err);

	if (r == 0)
		r = folds_read(&q, take_fold, &taking, err);
	if (r == 0)
		r = folds_read_pending(store, a->id, INT64_MIN, INT64_MAX, INT64_MAX, take_fold,
				       &taking, err);
	if (r < 0 || n == 0)
		return r;
	a->processes = arena_alloc(&a->arena, n * sizeof(*a->processes));
	if (!a->processes)
		return store_no_memory(store, err);
	return read_records(store, a, &all, n, err);
}

/* ---- curves ---- */

struct points {
	struct series_point *items;
	size_t n, cap;
};

static void points_release(struct points *points)
{
	free(points->items);
}

/*
 * Of an attempt without a point the time is unknown. -EBADMSG: it makes no sense, and err has
 * nothing yet.
 */
static int add_curve(const struct store *store, const void *data, size_t len, struct table *t,
		     struct points *points, struct err *err)
{
	if (table_read(data, len, CODEC_ROWS, POINT_WORDS, NULL, t) < 0)
		return -EBADMSG;
	if (ARRAY_RESERVE(points->items, points->cap, points->n + t->n) < 0)
		return store_no_memory(store, err);
	for (unsigned i = 0; i < t->n; i++) {
		uint64_t words[POINT_WORDS];

		for (unsigned k = 0; k < POINT_WORDS; k++)
			words[k] = t->columns[k][i];
		if (!u64_known(words[POINT_WALL_NS]))
			continue;
		if (point_from_words(words, &points->items[points->n]) < 0)
			return -EBADMSG;
		points->n++;
	}
	return 0;
}

static int read_curves(struct store *store, int64_t attempt_id, struct table *t,
		       struct points *points, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	CLEANUP(buf_release) struct buf raw = BUF_INIT;
	int r = query_ask(store, STATEMENT_READ_POINTS, &q, err, attempt_id);

	while (r == 0 && (r = query_step(&q, err)) > 0) {
		struct damage place = { .kind = DAMAGED_CURVE, .n = 1, .recorder = attempt_id };

		place.id = query_read_i64(&q);
		place.first_ns = place.last_ns = query_read_i64(&q);
		r = query_read_pack(&q, points_key(attempt_id, place.id), &raw, err);
		if (r == 0)
			r = add_curve(store, raw.data, raw.len, t, points, err);
		if (r == -EBADMSG)
			r = damage_leave_out(store, &place, err);
	}
	return r;
}

static int take_curve(void *ctx, const struct fold_ref *fold, struct err *err)
{
	struct taking *taking = ctx;
	const struct folded *f = fold->pending;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_parts; i++) {
		const struct fold_part *part = &f->parts[i];

		if (part->list != LIST_POINTS)
			continue;
		r = add_curve(taking->store, f->bytes.data + part->at, part->len, taking->t,
			      taking->points, err);
		if (r == -EBADMSG)
			r = fold_leave_out(taking->store, fold, DAMAGED_CURVE, 0, 1, err);
	}
	return r;
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

int series_read(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(points_release) struct points points = { 0 };
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	CLEANUP(free_ptr) const struct series_point **order = NULL;
	bool is_sorted = true; /* mostly: the clock is rarely set back */
	struct taking taking = { store, t, .points = &points };
	int r = t ? read_curves(store, a->id, t, &points, err) : store_no_memory(store, err);

	if (r == 0)
		r = folds_read_pending(store, a->id, INT64_MIN, INT64_MAX, INT64_MAX, take_curve,
				       &taking, err);
	if (r < 0 || points.n == 0)
		return r;
	a->details.series = arena_alloc(&a->arena, points.n * sizeof(*points.items));
	order = reallocarray(NULL, points.n, sizeof(*order));
	if (!a->details.series || !order)
		return store_no_memory(store, err);
	for (size_t i = 0; i < points.n; i++) {
		order[i] = &points.items[i];
		is_sorted &= i == 0 || order[i - 1]->wall_ns <= order[i]->wall_ns;
	}
	if (!is_sorted)
		qsort(order, points.n, sizeof(*order), compare_points);
	for (size_t i = 0; i < points.n; i++)
		a->details.series[i] = *order[i];
	a->details.n_series = points.n;
	return 0;
}
