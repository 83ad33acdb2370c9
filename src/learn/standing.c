#include "learn/standing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "stats/order.h"

#define MIN_SUCCESSES 3
#define UNUSUAL 0.05

#define SAME_SHARE 0.01

/* Where it stands in a run, and how far two of it may lie apart, beside SAME_SHARE, that are the
 * same: nobody does anything about 50 ms or 1 MB. */
static const struct {
	size_t offset;
	double same;
} quantities[STANDING_COUNT] = {
	[STANDING_WALL] = { offsetof(struct run_record, wall_seconds), 0.05 },
	[STANDING_CPU] = { offsetof(struct run_record, cpu_seconds), 0.05 },
	[STANDING_PEAK] = { offsetof(struct run_record, peak_rss_mb), 1 },
};

static double value_of(const struct run_record *run, enum standing_quantity quantity)
{
	return *(const double *)(const void *)((const char *)run + quantities[quantity].offset);
}

/* What is known of those that the usual is taken from, sorted. */
static size_t sort_values(const struct run_record *others, size_t n, bool only_successes,
			  enum standing_quantity quantity, double *ret)
{
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++) {
		double value = value_of(&others[i], quantity);

		if (f64_known(value) && (!only_successes || !run_has_failed(&others[i])))
			ret[n_known++] = value;
	}
	order_sort(ret, n_known);
	return n_known;
}

static struct standing_value compare(double value, double same, const double *sorted, size_t n)
{
	struct standing_value v = { value, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, n, 0, 0, false };
	size_t k = order_bound(n, 1 - UNUSUAL / 2), n_nearer;
	double apart = fmax(same, SAME_SHARE * value);

	if (n == 0)
		return v;
	v.median = order_median(sorted, n);
	v.high = sorted[k - 1];
	v.low = sorted[n - k];
	for (size_t i = 0; i < n; i++) {
		v.n_below += sorted[i] < value - apart;
		v.n_above += sorted[i] > value + apart;
	}
	n_nearer = v.n_below > v.n_above ? v.n_below : v.n_above;
	v.is_unusual =
		f64_known(value) && 2.0 * (double)(1 + n - n_nearer) <= UNUSUAL * (double)(n + 1);
	return v;
}

int standing_judge(const struct run_record *run, const struct run_record *others, size_t n,
		   struct standing *ret)
{
	CLEANUP(free_ptr) double *sorted = calloc(n + 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	ret->n_others = n;
	ret->n_failed = 0;
	for (size_t i = 0; i < n; i++)
		ret->n_failed += run_has_failed(&others[i]);
	ret->is_by_success = n - ret->n_failed >= MIN_SUCCESSES;
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		size_t n_known = sort_values(others, n, ret->is_by_success, q, sorted);

		ret->values[q] = compare(value_of(run, q), quantities[q].same, sorted, n_known);
	}
	return 0;
}
