#include <errno.h>

#include "base/macros.h"
#include "store/query.h"
#include "store/read.h"
#include "store/rows.h"
#include "store/store.h"
#include "store/tables.h"

/* Runs a statement that returns the row it has made or changed. *ret_n: how many there were. */
static int run_returning(struct query *q, int *ret_n, struct err *err)
{
	int r = query_step(q, err);

	if (r < 0)
		return r;
	*ret_n = r;
	return query_run(q, err);
}

static int enter(struct store *store, struct phase_mark *mark, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_ENTER_PHASE, &q, err), n = 0;

	if (r < 0)
		return r;
	query_bind_i64(&q, mark->attempt_id);
	if (mark->phase.rank >= 0)
		query_bind_i64(&q, mark->phase.rank);
	else
		query_bind_text(&q, NULL);
	query_bind_i64(&q, mark->phase.pid);
	query_bind_text(&q, mark->phase.name);
	query_bind_i64(&q, (int64_t)mark->phase.entered_wall_ns);
	r = run_returning(&q, &n, err);
	mark->result = n > 0 ? 0 : -ENOSPC;
	return r;
}

static int leave(struct store *store, struct phase_mark *mark, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_EXIT_PHASE, &q, err), n = 0;

	if (r < 0)
		return r;
	query_bind_i64(&q, mark->attempt_id);
	query_bind_i64(&q, mark->phase.pid);
	query_bind_text(&q, mark->phase.name);
	query_bind_i64(&q, (int64_t)mark->phase.left_wall_ns);
	r = run_returning(&q, &n, err);
	mark->result = n > 0 ? 0 : -ENOENT;
	return r;
}

int store_mark_phases(struct store *store, struct phase_mark *marks, size_t n, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = (marks[i].is_exit ? leave : enter)(store, &marks[i], err);
	return r < 0 ? r : txn_commit(&txn, err);
}

void phase_list_release(struct phase_list *list)
{
	arena_release(&list->arena);
	*list = (struct phase_list){ .arena = ARENA_INIT };
}

int store_list_phases(struct store *store, const struct event_filter *filter,
		      struct phase_list *ret, struct err *err)
{
	static const struct row_part parts[] = {
		{ &phase_row_columns, 0 },
		{ &phase_columns, offsetof(struct phase_row, phase) },
	};
	CLEANUP(phase_list_release) struct phase_list list = { .arena = ARENA_INIT };
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t job = 0;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0 && filter->job_id)
		r = job_find_row(store, filter->job_id, &job, err);
	if (r == 0)
		r = query_open(store, STATEMENT_WALK_PHASES, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, (int64_t)filter->since_wall_ns);
	query_bind_i64(&q, job);
	r = rows_read(&q, parts, ARRAY_SIZE(parts), sizeof(*list.items), &list.arena, &list.items,
		      &list.n, err);
	if (r < 0)
		return r;
	*ret = list;
	list = (struct phase_list){ .arena = ARENA_INIT };
	return 0;
}
