#include "stats/interval.h"

#include <math.h>

#include "stats/normal.h"

struct interval interval_wilson(size_t k, size_t n, double level)
{
	double z = normal_tail_quantile((1 - level) / 2);
	double count = (double)n, share = (double)k / count;
	double middle, half, scale;

	if (n == 0)
		return (struct interval){ 0, 1 };
	scale = 1 / (1 + z * z / count);
	middle = (share + z * z / (2 * count)) * scale;
	half = z * scale * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
	return (struct interval){
		.low = k == 0 ? 0 : fmax(middle - half, 0), /* not a hair beside it */
		.high = k == n ? 1 : fmin(middle + half, 1),
	};
}

/* ---- the beta distribution ---- */

#define TINY 1e-300

static double not_zero(double v)
{
	return fabs(v) < TINY ? TINY : v;
}

/* One step of Lentz's method: the next numerator of the continued fraction. */
static double step(double numerator, double *c, double *d)
{
	*d = 1 / not_zero(1 + numerator * *d);
	*c = not_zero(1 + numerator / *c);
	return *c * *d;
}

/* The continued fraction of the incomplete beta function; quick for x < (a + 1) / (a + b + 2). */
static double fraction(double a, double b, double x)
{
	double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1));
	double value = d;

	for (int i = 1; i < 10000; i++) {
		double m = i, factor;

		value *= step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), &c, &d);
		factor = step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), &c, &d);
		value *= factor;
		if (fabs(factor - 1) < 1e-15)
			break;
	}
	return value;
}

static double log_gamma(double v)
{
	int sign;

	return lgamma_r(v, &sign);
}

double beta_share(double a, double b, double x)
{
	double front;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * fraction(a, b, x) / a;
	return 1 - front * fraction(b, a, 1 - x) / b;
}

static double beta_quantile(double a, double b, double share)
{
	double low = 0, high = 1;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (beta_share(a, b, middle) < share)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* At the ends the bound is the end: no rate below 0 can be left out. */
struct interval interval_jeffreys(size_t k, size_t n, double level)
{
	double a = (double)k + 0.5, b = (double)(n - k) + 0.5;
	double out = (1 - level) / 2;

	if (n == 0)
		return (struct interval){ 0, 1 };
	return (struct interval){
		.low = k == 0 ? 0 : beta_quantile(a, b, out),
		.high = k == n ? 1 : beta_quantile(a, b, 1 - out),
	};
}
