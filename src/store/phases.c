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

int store_enter_phase(struct store *store, int64_t attempt_id, const struct phase_record *phase,
		      struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err), n = 0;

	if (r == 0)
		r = query_open(store, STATEMENT_ENTER_PHASE, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	if (phase->rank >= 0)
		query_bind_i64(&q, phase->rank);
	else
		query_bind_text(&q, NULL);
	query_bind_i64(&q, phase->pid);
	query_bind_text(&q, phase->name);
	query_bind_i64(&q, (int64_t)phase->entered_wall_ns);
	r = run_returning(&q, &n, err);
	if (r == 0 && n == 0)
		r = err_set(err, -ENOSPC, "the job has entered too many phases");
	return r < 0 ? r : txn_commit(&txn, err);
}

int store_exit_phase(struct store *store, int64_t attempt_id, const struct phase_record *phase,
		     struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err), n = 0;

	if (r == 0)
		r = query_open(store, STATEMENT_EXIT_PHASE, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, attempt_id);
	query_bind_i64(&q, phase->pid);
	query_bind_text(&q, phase->name);
	query_bind_i64(&q, (int64_t)phase->left_wall_ns);
	r = run_returning(&q, &n, err);
	if (r == 0 && n == 0)
		r = err_set(err, -ENOENT, "no phase of that name was entered");
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
