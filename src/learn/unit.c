#include "learn/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"

#define MAX_BESIDE 16 /* runs of the same that are looked at */

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

/* Of the record: who starts a job anew need not give it its old id. Files have ids only. */
static bool has_command(const struct run_record *run)
{
	return run->argv_hash != 0;
}

/* By class and what it was given, or else by its id; then by time. */
static int by_job(const void *a, const void *b)
{
	const struct run_record *x = *(const struct run_record *const *)a;
	const struct run_record *y = *(const struct run_record *const *)b;
	int order = compare_u64(x->class.command, y->class.command);

	if (order == 0)
		order = compare_u64(x->argv_hash, y->argv_hash);
	if (order == 0)
		order = compare_u64(x->input_hash, y->input_hash);
	if (order == 0 && !has_command(x))
		order = compare_id(x->job_id, y->job_id);
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

static bool is_same_job(const struct run_record *a, const struct run_record *b)
{
	return a->job_id && b->job_id && strcmp(a->job_id, b->job_id) == 0;
}

static bool is_same_input(const struct run_record *a, const struct run_record *b)
{
	if (a->class.command != b->class.command || a->argv_hash != b->argv_hash ||
	    a->input_hash != b->input_hash)
		return false;
	return has_command(a) || is_same_job(a, b);
}

static bool is_retry(const struct run_record *run, const struct run_record *before)
{
	if (run->attempt == 0) /* from a file */
		return true;
	if (run->started_wall_ns < before->ended_wall_ns && !is_same_job(run, before))
		return false; /* beside it, not after it */
	return before->outcome != OUTCOME_SUCCESS && u64_known(before->ended_wall_ns) &&
	       run->started_wall_ns <= before->ended_wall_ns + UNIT_RETRY_NS;
}

/*
 * Whether the last of these is a retry of one before it: of a retry as well. Some may run side
 * by side, so the one right before need not be it; but once one went well it is over.
 */
static bool repeats_another(const struct run_record *const *runs, size_t n)
{
	const struct run_record *run = runs[n - 1];

	for (size_t i = n - 1; i > 0 && n - i <= MAX_BESIDE; i--) {
		const struct run_record *before = runs[i - 1];

		if (!is_same_input(run, before))
			return false;
		if (is_retry(run, before))
			return true;
		if (before->outcome == OUTCOME_SUCCESS &&
		    before->ended_wall_ns <= run->started_wall_ns)
			return false;
	}
	return false;
}

static size_t list_decided(const struct run_record *runs, size_t n, const struct run_record **ret,
			   size_t *ret_n_undecided)
{
	size_t n_whole = 0, n_all = 0;

	for (size_t i = 0; i < n; i++) {
		n_whole += runs[i].is_whole;
		if (runs[i].is_whole && run_is_decided(&runs[i]))
			ret[n_all++] = &runs[i];
	}
	*ret_n_undecided = n_whole - n_all;
	return n_all;
}

int units_list(const struct run_record *runs, size_t n, const struct run_record ***ret,
	       size_t *ret_n, size_t *ret_n_retries, size_t *ret_n_undecided)
{
	CLEANUP(free_ptr) const struct run_record **all = calloc(n + 1, sizeof(*all));
	const struct run_record **units = calloc(n + 1, sizeof(*units));
	size_t n_all, n_units = 0;

	if (!all || !units) {
		free(units);
		return -ENOMEM;
	}
	n_all = list_decided(runs, n, all, ret_n_undecided);
	qsort(all, n_all, sizeof(*all), by_job);
	for (size_t i = 0; i < n_all; i++)
		if (!repeats_another(all, i + 1))
			units[n_units++] = all[i];
	qsort(units, n_units, sizeof(*units), by_time);
	*ret = units;
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
