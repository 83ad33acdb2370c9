#include "stats/order.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
