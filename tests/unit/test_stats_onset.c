/*
 * Lines, noise and onsets on made-up series whose answers are known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/macros.h"
#include "stats/onset.h"

#define N 100

/* Scatter without chance: the same nine values over and over, of standard deviation 1. */
static double scatter(size_t i)
{
	static const double v[] = { 0.3, -1.2, 0.8, 1.5, -0.6, -1.4, 1.1, -0.2, -0.3 };

	return v[i * 7 % ARRAY_SIZE(v)];
}

static void make(double *t, double *y, double onset, double slope, double noise)
{
	for (size_t i = 0; i < N; i++) {
		t[i] = (double)i;
		y[i] = 50 + slope * fmax(t[i] - onset, 0) + noise * scatter(i);
	}
}

static void test_hinge(void **state)
{
	double t[N], y[N];
	struct onset o;

	(void)state;
	make(t, y, 60.4, 10, 2);
	assert_true(onset_hinge(t, y, N, 2, &o));
	assert_true(o.low < 60.4 && 60.4 < o.high && o.high - o.low < 1);
	assert_true(fabs(o.median - 60.4) < 0.3 && o.misfit < 2);
	/* Nothing rises. */
	for (size_t i = 0; i < N; i++)
		y[i] = -t[i];
	assert_false(onset_hinge(t, y, N, 2, &o));
	assert_false(onset_hinge(t, y, 3, 2, &o));
}

/* Where samples are missing an onset is found in between, however steep the rise. */
static void test_hinge_in_gap(void **state)
{
	static const double slopes[] = { 5, 30, 80, 300, 1200 };
	double t[N], y[N];

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(slopes); k++)
		for (double share = 0.05; share < 1; share += 0.1) {
			double onset = 49 + share * 4.8;
			struct onset o;

			for (size_t i = 0; i < N; i++) {
				t[i] = (double)i + (i >= 50 ? 3.8 : 0);
				y[i] = 50 + slopes[k] * fmax(t[i] - onset, 0) + 2 * scatter(i);
			}
			assert_true(onset_hinge(t, y, N, 2, &o));
			assert_true(o.misfit < 2);
			assert_true(o.low <= onset && onset <= o.high);
		}
}

/* What speeds up is seen late; its onset is where it is all the same. */
static void test_faster(void **state)
{
	double t[N], y[N];
	struct onset o;

	(void)state;
	make(t, y, 1000, 0, 2);
	for (size_t i = 60; i < N; i++)
		y[i] += (t[i] - 59.6) * (t[i] - 59.6);
	assert_true(onset_hinge(t, y, N, 2, &o));
	assert_true(o.low < 59.6 && 59.6 < o.high && o.high - o.low < 3 && o.misfit_behind < 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hinge),
		cmocka_unit_test(test_hinge_in_gap),
		cmocka_unit_test(test_faster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
