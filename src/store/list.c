#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/read.h"

/*
 * list - attempts as they are listed, without their parts.
 */

void attempt_list_release(struct attempt_list *list)
{
	free(list->items);
	arena_release(&list->arena);
	*list = (struct attempt_list){ .arena = ARENA_INIT };
}

/* The statement has sorted out those that ended too early; here only lost ones can have. */
static int check_since(struct store *store, const struct attempt *a, uint64_t since_wall_ns,
		       bool *ret_matches, struct err *err)
{
	uint64_t last_sign_ns = 0;
	int r;

	*ret_matches = true;
	if (since_wall_ns == 0 || !a->is_lost)
		return 0;
	r = attempt_read_last_sign(store, a, &last_sign_ns, err);
	*ret_matches = last_sign_ns > since_wall_ns;
	return r;
}

static void list_reverse(struct attempt_list *list)
{
	for (size_t i = 0, k = list->n; i + 1 < k; i++) {
		struct attempt a = list->items[i];

		list->items[i] = list->items[--k];
		list->items[k] = a;
	}
}

/* 0: this row is not for the list. */
static int list_read_row(struct query *q, const struct attempt_filter *filter, struct attempt *a,
			 struct arena *arena, struct err *err)
{
	bool matches = false;
	int r = attempt_read_row(q, a, arena, err);
	int64_t ns = u64_known(a->started_wall_ns) ? (int64_t)a->started_wall_ns : 0;

	if (r == -EBADMSG && !filter->is_strict)
		return damage_leave_out(
			q->store, &(struct damage){ DAMAGED_ATTEMPTS, a->id, a->id, 1, ns, ns },
			err);
	if (r == 0)
		r = check_since(q->store, a, filter->since_wall_ns, &matches, err);
	return r < 0 ? r : matches;
}

/* Newest first, until the limit is reached. */
static int list_fill(struct query *q, const struct attempt_filter *filter,
		     struct attempt_list *list, struct err *err)
{
	size_t cap = 0;
	int r = 0;

	while ((filter->limit == 0 || list->n < filter->limit) && (r = query_step(q, err)) > 0) {
		struct attempt a;

		r = list_read_row(q, filter, &a, &list->arena, err);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (ARRAY_RESERVE(list->items, cap, list->n + 1) < 0)
			return err_set(err, -ENOMEM, "no memory left to list the attempts");
		list->items[list->n++] = a;
	}
	return r < 0 ? r : 0;
}

static void list_bind(struct query *q, const struct attempt_filter *filter)
{
	int64_t uid = filter->uid ? (int64_t)*filter->uid : -1;

	if (filter->submission) {
		query_bind_i64(q, (int64_t)filter->submission);
		query_bind_i64(q, uid);
		return;
	}
	query_bind_text(q, filter->job_id);
	if (filter->running_only)
		return;
	query_bind_i64(q, (int64_t)filter->since_wall_ns);
	query_bind_i64(q, filter->latest_only);
	query_bind_i64(q, filter->after_id);
	query_bind_i64(q, uid);
}

int store_list_attempts(struct store *store, const struct attempt_filter *filter,
			struct attempt_list *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { .arena = ARENA_INIT };
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(query_close) struct query q = QUERY_INIT;
	enum statement id = filter->submission	   ? STATEMENT_FIND_SUBMISSION
			    : filter->running_only ? STATEMENT_LIST_RUNNING
						   : STATEMENT_LIST_ATTEMPTS;
	int r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);

	if (r == 0)
		r = query_open(store, id, &q, err);
	if (r < 0)
		return r;
	list_bind(&q, filter);
	r = list_fill(&q, filter, &list, err);
	if (r < 0)
		return r;
	list_reverse(&list);
	*ret = list;
	list = (struct attempt_list){ .arena = ARENA_INIT };
	return 0;
}

bool store_version_is_ours(uint64_t before, uint64_t after)
{
	return before >> 32 == after >> 32;
}

int store_read_version(struct store *store, uint64_t *ret, struct err *err)
{
	int64_t version = 0;
	int r = query_read_number(store, STATEMENT_DATA_VERSION, 0, &version, err);

	if (r < 0)
		return r;
	/* SQLite counts what others write; the lower half is ours. */
	*ret = ((uint64_t)version << 32) + store->n_attempt_writes;
	return 0;
}
