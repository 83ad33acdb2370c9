#include "learn/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_id(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

/* By class, job, and what it was given; then by time. */
static int by_job(const void *a, const void *b)
{
	const struct run_record *x = *(const struct run_record *const *)a;
	const struct run_record *y = *(const struct run_record *const *)b;
	int order = compare_u64(x->class.command, y->class.command);

	if (order == 0)
		order = compare_id(x->job_id, y->job_id);
	if (order == 0)
		order = compare_u64(x->argv_hash, y->argv_hash);
	if (order == 0)
		order = compare_u64(x->input_hash, y->input_hash);
	if (order == 0)
		order = compare_u64(x->started_wall_ns, y->started_wall_ns);
	return order ? order : compare_u64((uint64_t)x->attempt, (uint64_t)y->attempt);
}

static int by_time(const void *a, const void *b)
{
	const struct run_record *x = *(const struct run_record *const *)a;
	const struct run_record *y = *(const struct run_record *const *)b;
	int order = compare_u64(x->class.command, y->class.command);

	if (order == 0)
		order = compare_u64(x->ended_wall_ns, y->ended_wall_ns);
	if (order == 0)
		order = compare_u64((uint64_t)x->attempt, (uint64_t)y->attempt);
	return order ? order : compare_id(x->job_id, y->job_id);
}

static bool is_same_input(const struct run_record *a, const struct run_record *b)
{
	return a->class.command == b->class.command && a->argv_hash == b->argv_hash &&
	       a->input_hash == b->input_hash && a->job_id && b->job_id &&
	       strcmp(a->job_id, b->job_id) == 0;
}

static bool is_retry(const struct run_record *run, const struct run_record *before)
{
	if (!is_same_input(run, before))
		return false;
	if (run->attempt == 0) /* from a file */
		return true;
	return before->outcome != OUTCOME_SUCCESS && u64_known(before->ended_wall_ns) &&
	       run->started_wall_ns <= before->ended_wall_ns + UNIT_RETRY_NS;
}

int units_list(const struct run_record *runs, size_t n, const struct run_record ***ret,
	       size_t *ret_n, size_t *ret_n_retries, size_t *ret_n_undecided)
{
	const struct run_record **items = calloc(n ? n : 1, sizeof(*items));
	const struct run_record *before = NULL;
	size_t n_whole = 0, n_all = 0, n_units = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		n_whole += runs[i].is_whole;
		if (runs[i].is_whole && run_is_decided(&runs[i]))
			items[n_all++] = &runs[i];
	}
	*ret_n_undecided = n_whole - n_all;
	qsort(items, n_all, sizeof(*items), by_job);
	for (size_t i = 0; i < n_all; i++) {
		const struct run_record *run = items[i];

		if (!before || !is_retry(run, before))
			items[n_units++] = run;
		before = run; /* a retry of a retry is one of the first */
	}
	qsort(items, n_units, sizeof(*items), by_time);
	*ret = items;
	*ret_n = n_units;
	*ret_n_retries = n_all - n_units;
	return 0;
}

/* How many are of a class before this one, or of it and ended by then. */
static size_t count_until(const struct run_record *const *units, size_t n, uint64_t class_key,
			  uint64_t wall_ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct run_record *run = units[middle];

		if (run->class.command < class_key ||
		    (run->class.command == class_key && run->ended_wall_ns <= wall_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t units_of_class(const struct run_record *const *units, size_t n, uint64_t class_key,
		      uint64_t after_wall_ns, size_t *ret_first)
{
	*ret_first = count_until(units, n, class_key, after_wall_ns);
	return count_until(units, n, class_key, UINT64_MAX);
}
