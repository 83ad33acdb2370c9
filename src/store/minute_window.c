#include "store/minute_window.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/minute_gather.h"
#include "store/process.h"
#include "store/query.h"

void minute_window_free(struct minute_window **m)
{
	if (!*m)
		return;
	process_set_release(&(*m)->wanted);
	minute_sums_release(&(*m)->sums);
	minute_sums_release(&(*m)->gpus);
	map_release(&(*m)->process_of);
	arena_release(&(*m)->arena);
	free(*m);
	*m = NULL;
}

static void clear_window(struct minute_window *m, uint64_t from, uint64_t to)
{
	minute_sums_begin(&m->sums, from, to);
	minute_sums_begin(&m->gpus, from, to);
	map_clear(&m->process_of);
	arena_release(&m->arena);
	m->arena = (struct arena)ARENA_INIT;
}

/* ---- who they are ---- */

/* One that is gone has no place. */
static int name_process(struct minute_window *m, int64_t id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct process *p = arena_alloc(&m->arena, sizeof(*p));
	int r = p ? query_open(m->store, STATEMENT_WALK_PROCESS, &q, err)
		  : store_no_memory(m->store, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, id);
	query_bind_i64(&q, 0);
	query_bind_i64(&q, 0);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	r = process_read(&q, &m->arena, p, err);
	if (r == 0 && map_put(&m->process_of, (uint64_t)id, (uint64_t)(uintptr_t)p) < 0)
		r = store_no_memory(m->store, err);
	return r;
}

static int name_processes(struct minute_window *m, struct err *err)
{
	uint64_t place;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->sums.n; i++)
		if (!map_get(&m->process_of, (uint64_t)m->sums.rows[i].process, &place))
			r = name_process(m, m->sums.rows[i].process, err);
	return r;
}

/* ---- the window ---- */

static int read_rows(struct minute_window *m, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(m->store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = minute_gather(m, err);
	return r < 0 ? r : name_processes(m, err);
}

int minute_window_read(struct minute_window *m, uint64_t from, uint64_t to, struct err *err)
{
	int r;

	clear_window(m, from, to);
	r = read_rows(m, err);
	if (r == 0)
		r = minute_window_fail(m, minute_sums_sort(&m->sums), err);
	if (r == 0)
		r = minute_window_fail(m, minute_sums_sort(&m->gpus), err);
	if (r < 0)
		m->sums.n = m->gpus.n = 0;
	return r;
}

size_t minute_window_count(const struct minute_window *m)
{
	return m->sums.n;
}

uint64_t minute_window_minute(const struct minute_window *m, size_t i)
{
	return m->sums.sorted[i]->minute;
}

int64_t minute_window_process(const struct minute_window *m, size_t i)
{
	return m->sums.sorted[i]->process;
}

int minute_window_row(struct minute_window *m, size_t i, struct minute_row *ret, struct err *err)
{
	const struct minute_sum *sum = m->sums.sorted[i];
	const struct process *p;
	uint64_t place;

	if (!map_get(&m->process_of, (uint64_t)sum->process, &place))
		return 0;
	p = (const struct process *)(uintptr_t)place;
	*ret = (struct minute_row){ .wall_ns = sum->minute * MINUTE_NS,
				    .attempt_num = p->attempt_num,
				    .attempt_id = p->attempt_id };
	process_at(p, sum->sums.last_tick, &ret->last);
	if (rollup_minute_tell(&sum->sums, ret) == 0)
		return 1;
	m->first_ns = minute_begin_ns(sum->minute);
	m->last_ns = minute_begin_ns(sum->minute + 1) - 1;
	return minute_window_leave_out(m, DAMAGED_MINUTES,
				       minute_window_rollup_id(sum->process, sum->minute), 1, err);
}

int minute_window_gpus(struct minute_window *m, uint64_t minute, struct snapshot *ret,
		       struct err *err)
{
	int r = gpu_minutes_tell(&m->gpus, minute, ret);

	if (r != -EBADMSG)
		return minute_window_fail(m, r, err);
	m->first_ns = minute_begin_ns(minute);
	m->last_ns = minute_begin_ns(minute + 1) - 1;
	return minute_window_leave_out(
		m, DAMAGED_MINUTES, minute_window_rollup_id(GPU_MINUTES_PROCESS, minute), 1, err);
}

/* ---- a new one ---- */

int minute_window_new(struct store *store, const struct window_filter *filter,
		      struct minute_window **ret, struct err *err)
{
	CLEANUP(minute_window_free) struct minute_window *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return store_no_memory(store, err);
	m->store = store;
	m->rollups_only = filter->rollups_only;
	r = process_set_find(&m->wanted, store, filter->job_id, filter->pid, err);
	if (r == 0)
		*ret = TAKE_PTR(m);
	return r;
}

bool minute_window_is_empty(const struct minute_window *m)
{
	return m->wanted.is_filtered && m->wanted.n == 0;
}
