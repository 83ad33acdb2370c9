#include "stats/order.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

static int compare(const void *a, const void *b)
{
	return COMPARE(*(const double *)a, *(const double *)b);
}

void order_sort(double *values, size_t n)
{
	if (n > 1)
		qsort(values, n, sizeof(*values), compare);
}

double order_median(const double *sorted, size_t n)
{
	if (n == 0)
		return NAN;
	return n % 2 ? sorted[n / 2] : sorted[n / 2 - 1] / 2 + sorted[n / 2] / 2;
}

double order_spread(const double *values, size_t n, double *scratch)
{
	double median;

	for (size_t i = 0; i < n; i++)
		scratch[i] = values[i];
	order_sort(scratch, n);
	median = order_median(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(values[i] - median);
	order_sort(scratch, n);
	return 1.4826 * order_median(scratch, n);
}

size_t order_bound(size_t n, double level)
{
	/* A hair less: 20 times 0.95 is 19, not the 19.000000000000004 that it may come out as. */
	double k = ceil((double)(n + 1) * level - 1e-9);

	return k > (double)n ? n : (size_t)k;
}

DEFINE_SELECT_NTH(select_nth, double)

double noise_median(double *v, size_t n)
{
	if (n == 0)
		return NAN;
	select_nth(v, n, n / 2);
	return v[n / 2];
}

/* ---- ranks ---- */

struct placed {
	double value;
	size_t index;
};

static int compare_placed(const void *a, const void *b)
{
	return COMPARE(((const struct placed *)a)->value, ((const struct placed *)b)->value);
}

int rank_doubled(const double *values, size_t n, int32_t *ret, struct rank_sums *ret_sums)
{
	CLEANUP(free_ptr) struct placed *placed = NULL;
	struct rank_sums sums = { 0 };

	if (n > RANK_MAX_VALUES)
		return -E2BIG;
	placed = calloc(n ? n : 1, sizeof(*placed));
	if (!placed)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		ret[i] = 0;
		if (!isnan(values[i]))
			placed[sums.n_known++] = (struct placed){ values[i], i };
	}
	if (sums.n_known > 1)
		qsort(placed, sums.n_known, sizeof(*placed), compare_placed);
	for (size_t first = 0, end; first < sums.n_known; first = end) {
		double t;

		for (end = first + 1; end < sums.n_known; end++)
			if (placed[end].value != placed[first].value)
				break;
		for (size_t i = first; i < end; i++)
			ret[placed[i].index] = (int32_t)(first + end + 1);
		t = (double)(end - first);
		sums.ties += t * t * t - t;
	}
	*ret_sums = sums;
	return 0;
}

double rank_sum_mean(const struct rank_sums *sums, size_t n_chosen)
{
	return (double)n_chosen * (double)(sums->n_known + 1);
}

double rank_sum_deviation(const struct rank_sums *sums, size_t n_chosen)
{
	double n = (double)sums->n_known, k = (double)n_chosen;

	if (n < 2 || n_chosen == 0 || n_chosen >= sums->n_known)
		return 0;
	return 2 * sqrt(fmax(k * (n - k) / 12 * ((n + 1) - sums->ties / (n * (n - 1))), 0));
}

double rank_auc(double doubled_sum, size_t n_chosen, size_t n_known)
{
	double k = (double)n_chosen, others = (double)n_known - k;

	if (k <= 0 || others <= 0)
		return NAN;
	return (doubled_sum / 2 - k * (k + 1) / 2) / (k * others);
}
