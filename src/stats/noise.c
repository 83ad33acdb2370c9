#include "stats/noise.h"

#include <math.h>

/* Of a normal distribution: standard deviation over median absolute deviation. */
#define SIGMA_PER_MAD 1.4826

static void swap(double *a, double *b)
{
	double kept = *a;

	*a = *b;
	*b = kept;
}

/* Quickselect: what belongs at v[k] gets there. */
static void select_nth(double *v, size_t n, size_t k)
{
	size_t from = 0, to = n - 1;

	while (from < to) {
		double pivot = v[from + (to - from) / 2];
		size_t low = from, high = to;

		while (low <= high) {
			while (v[low] < pivot)
				low++;
			while (v[high] > pivot)
				high--;
			if (low > high)
				break;
			swap(&v[low++], &v[high]);
			if (high == 0)
				break;
			high--;
		}
		if (k <= high)
			to = high;
		else if (k >= low)
			from = low;
		else
			return;
	}
}

double noise_median(double *v, size_t n)
{
	if (n == 0)
		return NAN;
	select_nth(v, n, n / 2);
	return v[n / 2];
}

double noise_sigma(const double *t, const double *y, size_t n, size_t lag, double *scratch)
{
	size_t kept = 0;

	for (size_t i = lag; i + lag < n; i++) {
		double span = t[i + lag] - t[i - lag];
		double share = span > 0 ? (t[i] - t[i - lag]) / span : 0.5;
		double off = y[i] - (y[i - lag] * (1 - share) + y[i + lag] * share);

		/* Scaled to the variance of one point. */
		scratch[kept++] = fabs(off) / sqrt(1 + share * share + (1 - share) * (1 - share));
	}
	return kept > 0 ? SIGMA_PER_MAD * noise_median(scratch, kept) : 0;
}
