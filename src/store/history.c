#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/tables.h"

/*
 * Rows are copied page by page, each page in a transaction of its own, and told
 * after that. A reader that is told to wait (a pipe into a pager) would hold its
 * transaction for as long, and the log could not be shortened meanwhile.
 */
#define PAGE_ROWS 2000

static const struct row_part sample_parts[] = {
	{ &sample_process_columns, 0 },
	{ &sample_shared_columns, 0 },
	{ &sample_columns, 0 },
};

/* Where the next page begins: behind this process of this tick. */
struct place {
	uint64_t wall_ns;
	int64_t tick_id;
	int64_t process_id;
};

struct page {
	struct history_row *rows; /* PAGE_ROWS */
	size_t n;
	struct arena arena; /* owns their strings */
	struct place next;
	int64_t last_tick_id; /* of all that is told; -1: not known yet */
};

static void page_release(struct page *page)
{
	free(page->rows);
	arena_release(&page->arena);
}

static int fail_memory(const struct store *store, struct err *err)
{
	return err_set(err, -ENOMEM, "no memory left to read the database %s", store->path);
}

/* The tick that samples belong to. */
struct tick {
	int64_t id;
	int64_t attempt_id;
	uint64_t wall_ns;
	int attempt_num;
	const char *job_id; /* the page's */
};

static int read_tick(struct query *q, struct tick *tick, struct arena *arena, struct err *err)
{
	tick->id = query_read_i64(q);
	tick->attempt_id = query_read_i64(q);
	tick->wall_ns = (uint64_t)query_read_i64(q);
	tick->attempt_num = (int)query_read_i64(q);
	tick->job_id = arena_strdup(arena, query_read_text(q));
	return tick->job_id ? 0 : fail_memory(q->store, err);
}

static int open_samples(struct store *store, pid_t pid, const struct tick *tick,
			int64_t after_process, struct query *q, struct err *err)
{
	int r = query_open(
		store, pid ? STATEMENT_HISTORY_SAMPLES_OF_PID : STATEMENT_HISTORY_SAMPLES, q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, tick->id);
	query_bind_i64(q, after_process);
	if (pid) {
		query_bind_i64(q, tick->attempt_id);
		query_bind_i64(q, pid);
	}
	return 0;
}

static int add_row(struct query *q, const struct tick *tick, struct page *page, struct err *err)
{
	struct history_row *row = &page->rows[page->n];
	int r;

	*row = (struct history_row){ .wall_ns = tick->wall_ns, .attempt_num = tick->attempt_num };
	page->next = (struct place){ tick->wall_ns, tick->id, query_read_i64(q) };
	proc_sample_init(&row->sample);
	r = row_read(q, sample_parts, ARRAY_SIZE(sample_parts), &row->sample, &page->arena, err);
	if (r < 0)
		return r;
	row->sample.job_id = tick->job_id;
	page->n++;
	return 0;
}

/* The samples of a tick, those behind page->next if it is the tick where that is. */
static int add_tick(struct store *store, pid_t pid, const struct tick *tick, struct page *page,
		    struct err *err)
{
	int64_t after = tick->id == page->next.tick_id ? page->next.process_id : 0;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_samples(store, pid, tick, after, &q, err);

	while (r == 0 && page->n < PAGE_ROWS && (r = query_step(&q, err)) > 0)
		r = add_row(&q, tick, page, err);
	return r;
}

static int open_ticks(struct store *store, const struct history_filter *filter,
		      const struct page *page, struct query *q, struct err *err)
{
	int r = query_open(store, STATEMENT_HISTORY_TICKS, q, err);

	if (r < 0)
		return r;
	query_bind_i64(q, (int64_t)page->next.wall_ns);
	query_bind_i64(q, page->next.tick_id);
	query_bind_i64(q, page->last_tick_id);
	query_bind_text(q, filter->job_id);
	query_bind_i64(q, filter->pid);
	return 0;
}

static int find_end(struct store *store, struct page *page, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r;

	if (page->last_tick_id >= 0)
		return 0;
	r = query_open(store, STATEMENT_HISTORY_END, &q, err);
	if (r == 0)
		r = query_step(&q, err);
	if (r > 0)
		page->last_tick_id = query_read_i64(&q);
	return r < 0 ? r : 0;
}

/* Less than PAGE_ROWS: it was the last. */
static int read_page(struct store *store, const struct history_filter *filter, struct page *page,
		     struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	page->n = 0;
	arena_reset(&page->arena);
	if (r == 0)
		r = find_end(store, page, err);
	if (r == 0)
		r = open_ticks(store, filter, page, &q, err);
	while (r == 0 && page->n < PAGE_ROWS && (r = query_step(&q, err)) > 0) {
		struct tick tick;

		r = read_tick(&q, &tick, &page->arena, err);
		if (r == 0)
			r = add_tick(store, filter->pid, &tick, page, err);
	}
	return r;
}

int store_read_history(struct store *store, const struct history_filter *filter, history_fn *fn,
		       void *ctx, struct err *err)
{
	CLEANUP(page_release)
	struct page page = {
		.rows = calloc(PAGE_ROWS, sizeof(*page.rows)),
		.arena = ARENA_INIT,
		.next = { .wall_ns = filter->since_wall_ns },
		.last_tick_id = -1,
	};
	int r = page.rows ? 0 : fail_memory(store, err);

	do {
		if (r == 0)
			r = read_page(store, filter, &page, err);
		for (size_t i = 0; r == 0 && i < page.n; i++)
			r = fn(ctx, &page.rows[i]);
	} while (r == 0 && page.n == PAGE_ROWS);
	return r;
}
