#include "stats/rank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

struct placed {
	double value;
	size_t index;
};

static int compare(const void *a, const void *b)
{
	double x = ((const struct placed *)a)->value, y = ((const struct placed *)b)->value;

	return (x > y) - (x < y);
}

static size_t list_known(const double *values, size_t n, struct placed *ret, int32_t *ranks)
{
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++) {
		ranks[i] = 0;
		if (!isnan(values[i]))
			ret[n_known++] = (struct placed){ values[i], i };
	}
	return n_known;
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
	sums.n_known = list_known(values, n, placed, ret);
	if (sums.n_known > 1)
		qsort(placed, sums.n_known, sizeof(*placed), compare);
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
