#include <errno.h>

#include "base/macros.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/attempt.h"
#include "store/store.h"
#include "store/tables.h"

#define MAX_COUNTS 4096 /* kept at a time; they are found out again */

/* Counting phases at each mark would take longer with every one. */
static int enter(struct store *store, struct phase_mark *mark, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	uint64_t key = ((uint64_t)mark->attempt_id << 32) ^ (uint32_t)(mark->phase.rank + 1);
	uint64_t n = 0;
	int r = 0;

	if (!map_get(&store->phase_counts, key, &n)) {
		r = query_find(store, STATEMENT_COUNT_PHASES, &q, err, V_I64(mark->attempt_id),
			       V_I64_IF(mark->phase.rank >= 0, mark->phase.rank));
		n = r > 0 ? (uint64_t)query_read_i64(&q) : 0;
	}
	mark->result = -ENOSPC; /* nobody fills the disk with phases */
	if (r >= 0 && n < PHASES_PER_RANK) {
		r = query_put(store, STATEMENT_ENTER_PHASE, err, V_I64(mark->attempt_id),
			      V_I64_IF(mark->phase.rank >= 0, mark->phase.rank),
			      V_I64(mark->phase.pid), V_TEXT(mark->phase.name),
			      V_I64((int64_t)mark->phase.entered_wall_ns));
		if (r == 0 && sqlite3_changes(store->db) > 0)
			mark->result = 0;
	}
	if (r < 0)
		return r;
	if (store->phase_counts.len >= MAX_COUNTS)
		map_clear(&store->phase_counts);
	if (map_put(&store->phase_counts, key, n + (mark->result == 0)) < 0)
		map_remove(&store->phase_counts, key); /* without memory it is counted again */
	return 0;
}

static int leave_of(struct store *store, struct phase_mark *mark, pid_t pid, struct err *err)
{
	int r = query_put(store, STATEMENT_EXIT_PHASE, err, V_I64(mark->attempt_id), V_I64(pid),
			  V_TEXT(mark->phase.name), V_I64((int64_t)mark->phase.left_wall_ns));

	mark->result = r == 0 && sqlite3_changes(store->db) > 0 ? 0 : -ENOENT;
	return r;
}

/* The one other process whose phase it may be; 0: none, or which of them? */
static int find_other(struct store *store, struct phase_mark *mark, pid_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int n = 0, r = query_find(store, STATEMENT_LIST_OPEN_PHASES, &q, err,
				  V_I64(mark->attempt_id), V_TEXT(mark->phase.name));

	for (*ret = 0; r > 0; r = query_step(&q, err)) {
		pid_t pid = (pid_t)query_read_i64(&q);
		int rank = query_is_null(&q) ? RANK_NONE : (int)query_read_i64(&q);

		mark->entered_by = pid;
		if (mark->are_kin && ((rank >= 0 && rank == mark->phase.rank) ||
				      mark->are_kin(mark->ctx, pid, mark->phase.pid)))
			*ret = n++ == 0 ? pid : 0;
	}
	return r;
}

static int leave(struct store *store, struct phase_mark *mark, struct err *err)
{
	pid_t other = 0;
	int r = leave_of(store, mark, mark->phase.pid, err);

	if (r == 0 && mark->result == -ENOENT)
		r = find_other(store, mark, &other, err);
	return r == 0 && other > 0 ? leave_of(store, mark, other, err) : r;
}

int store_mark_phases(struct store *store, struct phase_mark *marks, size_t n, struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = (marks[i].is_exit ? leave : enter)(store, &marks[i], err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r < 0)
		map_clear(&store->phase_counts); /* of what is undone */
	return r;
}

int store_add_lost_marks(struct store *store, int64_t attempt_id, uint64_t n, struct err *err)
{
	return query_exec(store, STATEMENT_ADD_LOST_MARKS, err, attempt_id, query_as_i64(n));
}

/* ---- reading them ---- */

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
		r = query_ask(store, STATEMENT_WALK_PHASES, &q, err, (int64_t)filter->since_wall_ns,
			      job);
	if (r < 0)
		return r;
	r = rows_read(&q, parts, ARRAY_SIZE(parts), sizeof(*list.items), &list.arena, &list.items,
		      &list.n, err);
	if (r < 0)
		return r;
	*ret = list;
	list = (struct phase_list){ .arena = ARENA_INIT };
	return 0;
}
