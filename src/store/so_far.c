#include "store/so_far.h"

#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "store/codec.h"
#include "store/failure.h"
#include "store/fold.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/tables.h"

/* Columns of a chunk that are looked at: up to the last of the words in tell(). */
#define WORDS_READ (SAMPLE_OPEN_FDS + 1)

/* The largest of each word. Counters only grow, so that is the latest. */
struct peaks {
	uint64_t words[WORDS_READ];
	uint64_t max_rss_bytes; /* the high-water mark, or where that is unknown the RSS */
	uint64_t n;
};

struct all_peaks {
	struct map by_process; /* process -> index */
	struct peaks *items;
	size_t n, cap;
};

static void all_peaks_release(struct all_peaks *all)
{
	map_release(&all->by_process);
	free(all->items);
}

static int all_peaks_grow(struct all_peaks *all)
{
	size_t cap = all->cap ? all->cap * 2 : 64;
	struct peaks *items = reallocarray(all->items, cap, sizeof(*items));

	if (!items)
		return -1;
	all->items = items;
	all->cap = cap;
	return 0;
}

/* NULL when memory runs out. */
static struct peaks *peaks_of(struct all_peaks *all, int64_t process)
{
	struct peaks *p;
	uint64_t index;

	if (map_get(&all->by_process, (uint64_t)process, &index))
		return &all->items[index];
	if (all->n == all->cap && all_peaks_grow(all) < 0)
		return NULL;
	if (map_put(&all->by_process, (uint64_t)process, all->n) < 0)
		return NULL;
	p = &all->items[all->n++];
	p->n = 0;
	p->max_rss_bytes = U64_UNKNOWN;
	for (unsigned i = 0; i < WORDS_READ; i++)
		p->words[i] = U64_UNKNOWN;
	return p;
}

static uint64_t rss_peak(uint64_t hwm_bytes, uint64_t rss_bytes)
{
	return u64_known(hwm_bytes) ? hwm_bytes : rss_bytes;
}

static void add_chunk(struct peaks *p, const struct table *c)
{
	p->n += c->n;
	for (unsigned i = 0; i < c->n; i++)
		p->max_rss_bytes =
			u64_max_known(p->max_rss_bytes, rss_peak(c->columns[SAMPLE_HWM_BYTES][i],
								 c->columns[SAMPLE_RSS_BYTES][i]));
	for (unsigned k = SAMPLE_USER_NS; k < WORDS_READ; k++)
		for (unsigned i = 0; i < c->n; i++)
			p->words[k] = u64_max_known(p->words[k], c->columns[k][i]);
}

static int add_table(struct store *store, int64_t process, const void *data, size_t len,
		     struct table *t, struct all_peaks *all, struct err *err)
{
	static const uint64_t boot_ns[CODEC_ROWS]; /* when is not asked */
	struct peaks *p = peaks_of(all, process);

	if (!p)
		return store_no_memory(store, err);
	if (table_read(data, len, CODEC_ROWS, WORDS_READ, boot_ns, t) < 0)
		return store_damaged(store, "chunk", err);
	add_chunk(p, t);
	return 0;
}

static int read_folded(struct store *store, int64_t attempt_id, struct table *t,
		       struct all_peaks *all, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_CHUNKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	while (r == 0 && (r = query_step(&q, err)) > 0) {
		int64_t process = query_read_i64(&q);
		size_t len;
		const void *data = query_read_blob(&q, &len);

		r = add_table(store, process, data, len, t, all, err);
	}
	return r;
}

struct taking {
	struct store *store;
	struct table *t;
	struct all_peaks *all;
};

/* Of a daemon's ticks also what is of other attempts: read_records() leaves that out. */
static int take_part(void *ctx, const void *data, size_t len, int64_t key, struct err *err)
{
	struct taking *taking = ctx;

	return add_table(taking->store, key, data, len, taking->t, taking->all, err);
}

static void tell(const struct peaks *p, struct proc_record *record)
{
	record->user_ns = p->words[SAMPLE_USER_NS];
	record->system_ns = p->words[SAMPLE_SYSTEM_NS];
	record->max_rss_bytes = p->max_rss_bytes;
	record->rchar = p->words[SAMPLE_RCHAR];
	record->wchar = p->words[SAMPLE_WCHAR];
	record->read_bytes = p->words[SAMPLE_READ_BYTES];
	record->write_bytes = p->words[SAMPLE_WRITE_BYTES];
	record->major_faults = p->words[SAMPLE_MAJOR_FAULTS];
	record->max_threads = p->words[SAMPLE_THREADS];
	record->max_fds = p->words[SAMPLE_OPEN_FDS];
	record->n_samples = p->n;
}

/* The rows of those that were sampled, into room for all->n of them. */
static int read_records(struct store *store, struct attempt *a, const struct all_peaks *all,
			struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_READ_PROCESSES_SO_FAR, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->id);
	while (r == 0 && a->n_processes < all->n && (r = query_step(&q, err)) > 0) {
		struct proc_record *record = &a->processes[a->n_processes];
		uint64_t index;

		r = 0;
		if (!map_get(&all->by_process, (uint64_t)query_read_i64(&q), &index))
			continue;
		proc_record_init(record);
		r = query_read_columns(&q, &process_columns, record, &a->arena, err);
		tell(&all->items[index], record);
		a->n_processes++;
	}
	return r;
}

int so_far_read_processes(struct store *store, struct attempt *a, struct err *err)
{
	CLEANUP(all_peaks_release) struct all_peaks all = { .by_process = MAP_INIT };
	CLEANUP(free_ptr) struct table *t = malloc(sizeof(*t));
	struct taking taking = { store, t, &all };
	int r = t ? read_folded(store, a->id, t, &all, err) : store_no_memory(store, err);

	if (r == 0)
		r = fold_each_pending(store, a->id, LIST_SAMPLES, take_part, &taking, err);
	if (r < 0 || all.n == 0)
		return r;
	a->processes = arena_alloc(&a->arena, all.n * sizeof(*a->processes));
	if (!a->processes)
		return store_no_memory(store, err);
	return read_records(store, a, &all, err);
}
