#include "store/process_set.h"

#include <stdlib.h>

#include "base/macros.h"
#include "store/failure.h"
#include "store/query.h"
#include "store/read.h"

#define SMALL 64

void process_set_release(struct process_set *set)
{
	free(set->ids);
	*set = (struct process_set){ 0 };
}

static int add(struct process_set *set, struct store *store, int64_t process, struct err *err)
{
	if (set->n == set->cap) {
		size_t cap = set->cap ? set->cap * 2 : 64;
		int64_t *ids = reallocarray(set->ids, cap, sizeof(*ids));

		if (!ids)
			return store_no_memory(store, err);
		set->ids = ids;
		set->cap = cap;
	}
	set->ids[set->n++] = process;
	return 0;
}

static int list(struct process_set *set, struct store *store, pid_t pid, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(
		store, set->job ? STATEMENT_PROCESSES_OF_JOB : STATEMENT_PROCESSES_OF_PID, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, pid);
	if (set->job)
		query_bind_i64(&q, set->job);
	while (r == 0 && (r = query_step(&q, err)) > 0)
		r = add(set, store, query_read_i64(&q), err);
	return r;
}

int process_set_find(struct process_set *set, struct store *store, const char *job_id, pid_t pid,
		     struct err *err)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r;

	set->is_filtered = job_id || pid;
	if (!set->is_filtered)
		return 0;
	r = txn_begin(store, STATEMENT_BEGIN_READ, &txn, err);
	if (r == 0 && job_id)
		r = job_find_row(store, job_id, &set->job, err);
	return r < 0 ? r : list(set, store, pid, err);
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

bool process_set_has(const struct process_set *set, int64_t process)
{
	return !set->is_filtered ||
	       bsearch(&process, set->ids, set->n, sizeof(process), compare_ids);
}

bool process_set_is_small(const struct process_set *set)
{
	return set->is_filtered && set->n <= SMALL;
}
