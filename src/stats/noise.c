#include "stats/noise.h"

#include <math.h>

#include "stats/select.h"

/* Of a normal distribution: standard deviation over median absolute deviation. */
#define SIGMA_PER_MAD 1.4826

DEFINE_SELECT_NTH(select_nth, double)

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
