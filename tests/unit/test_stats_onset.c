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
#include "stats/hinge.h"
#include "stats/noise.h"
#include "stats/onset.h"
#include "stats/segments.h"

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

static void test_noise(void **state)
{
	double t[N], y[N], scratch[N], flat, sloped;

	(void)state;
	make(t, y, 1000, 0, 2);
	flat = noise_sigma(t, y, N, 1, scratch);
	assert_true(flat > 1 && flat < 4);
	make(t, y, 0, 30, 2); /* a slope does not count */
	sloped = noise_sigma(t, y, N, 1, scratch);
	assert_true(fabs(sloped - flat) < 1e-6);
	make(t, y, 50, 1, 0);
	assert_true(noise_sigma(t, y, N, 1, scratch) < 1e-9);
	assert_true(noise_sigma(t, y, 2, 1, scratch) == 0);
	assert_true(isnan(noise_median(scratch, 0)));
}

static void test_segments(void **state)
{
	struct segment parts[N];
	double t[N], y[N];
	size_t n;

	(void)state;
	make(t, y, 1000, 0, 2);
	assert_int_equal(segments_find(t, y, N, 2, parts, &n), 0);
	assert_int_equal(n, 1);
	make(t, y, 60, 10, 2); /* a ramp */
	assert_int_equal(segments_find(t, y, N, 2, parts, &n), 0);
	assert_int_equal(n, 2);
	assert_true(parts[1].from >= 59 && parts[1].from <= 62);
	assert_true(fabs(parts[1].slope - 10) < 0.2 && fabs(parts[0].slope) < 0.2);
	make(t, y, 1000, 0, 2); /* a step up and one down */
	for (size_t i = 30; i < 70; i++)
		y[i] += 100;
	assert_int_equal(segments_find(t, y, N, 2, parts, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(parts[1].from, 30);
	assert_int_equal(parts[1].to, 70);
	assert_int_equal(segments_find(t, y, 0, 2, parts, &n), 0);
	assert_int_equal(n, 0);
}

static void test_hinge(void **state)
{
	const struct hinge_kind line = { 0 }, sloped = { .is_sloped = true };
	double t[N], y[N];
	struct onset o;

	(void)state;
	make(t, y, 60.4, 10, 2);
	assert_true(onset_hinge(t, y, N, 2, line, &o));
	assert_true(o.low < 60.4 && 60.4 < o.high && o.high - o.low < 1);
	assert_true(fabs(o.median - 60.4) < 0.3 && o.misfit < 2);
	/* Upon a slope of its own. */
	for (size_t i = 0; i < N; i++)
		y[i] -= 3 * t[i];
	assert_true(onset_hinge(t, y, N, 2, sloped, &o));
	assert_true(fabs(o.median - 60.4) < 0.5);
	/* Nothing rises. */
	for (size_t i = 0; i < N; i++)
		y[i] = -t[i];
	assert_false(onset_hinge(t, y, N, 2, line, &o));
	assert_false(onset_hinge(t, y, 3, 2, line, &o));
}

/* What speeds up is seen late; its onset is where it is all the same. */
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
			assert_true(onset_hinge(t, y, N, 2, (struct hinge_kind){ 0 }, &o));
			assert_true(o.misfit < 2);
			assert_true(o.low <= onset && onset <= o.high);
		}
}

static void test_faster(void **state)
{
	const struct hinge_kind line = { 0 }, any = { .may_explode = true };
	double t[N], y[N];
	struct onset o;

	(void)state;
	make(t, y, 1000, 0, 2);
	for (size_t i = 60; i < N; i++)
		y[i] += (t[i] - 59.6) * (t[i] - 59.6);
	assert_true(onset_hinge(t, y, N, 2, line, &o));
	assert_true(o.low < 59.6 && 59.6 < o.high && o.high - o.low < 3 && o.misfit_behind < 3);
	make(t, y, 1000, 0, 2);
	for (size_t i = 60; i < N; i++)
		y[i] += 10 * expm1((t[i] - 59.6) / 8);
	assert_true(onset_hinge(t, y, N, 2, any, &o));
	assert_true(o.low < 59.6 && 59.6 < o.high && o.high - o.low < 6 && o.misfit_behind < 3);
}

static void test_blur(void **state)
{
	struct onset o;

	(void)state;
	onset_uniform(10, 11, &o);
	onset_blur(&o, 0, 0, 1);
	assert_true(o.from == 10 && fabs(o.median - 10.5) < 1e-9);
	onset_blur(&o, 9, 0, 1);
	assert_true(o.from == 1 && fabs(o.median - 6) < 0.1 && fabs(o.low - 1.95) < 0.1);
	assert_true(fabs(onset_quantile(&o, 1) - 11) < 0.1);
	/* Half of it stays where it was. */
	onset_uniform(10, 11, &o);
	onset_blur(&o, 9, 0, 0.5);
	assert_true(o.high > 10.8 && fabs(o.low - 2.4) < 0.3 && o.median > 9.5);
}

static void test_quantiles(void **state)
{
	struct onset o;

	(void)state;
	onset_uniform(10, 20, &o);
	assert_true(fabs(o.median - 15) < 1e-9 && fabs(o.low - 10.5) < 1e-9);
	assert_true(fabs(o.sd - 10 / sqrt(12)) < 0.01);
	assert_true(onset_quantile(&o, 0) == 10 && fabs(onset_quantile(&o, 1) - 20) < 1e-9);
}

static void test_first(void **state)
{
	struct onset early, late, same;
	struct first_entry entries[] = { { &late, 0, 0 }, { &early, 1, 0 }, { &same, 2, 0 } };
	double p[3];

	(void)state;
	onset_uniform(0, 1, &early);
	onset_uniform(2, 3, &late);
	onset_uniform(2, 3, &same);
	assert_int_equal(onset_first(entries, 3, 3, 1000, p), 0);
	assert_true(p[0] == 0 && p[1] == 1 && p[2] == 0);
	assert_true(onset_equal_p(entries, 3) < 0.01);
	/* Two alike: half and half. */
	entries[1].onset = &same;
	assert_int_equal(onset_first(entries, 2, 3, 20000, p), 0);
	assert_true(fabs(p[0] - 0.5) < 0.02 && fabs(p[0] + p[1] - 1) < 1e-9);
	assert_true(onset_equal_p(entries, 2) > 0.5);
	/* One clock's error cancels, two clocks' errors do not. */
	entries[1] = (struct first_entry){ &early, 0, 10 };
	entries[0].clock_error = 10;
	assert_int_equal(onset_first(entries, 2, 1, 20000, p), 0);
	assert_true(p[1] == 1);
	assert_true(onset_equal_p(entries, 2) < 0.01);
	entries[1].clock = 1;
	assert_true(onset_equal_p(entries, 2) > 0.5);
	assert_int_equal(onset_first(entries, 2, 2, 20000, p), 0);
	assert_true(p[1] > 0.5 && p[1] < 0.75);
}

/* As if each point behind it was added for each onset, also where few are. */
static void test_sums_behind(void **state)
{
	static struct hinge h;
	double t[N], y[N];

	(void)state;
	for (size_t i = 0; i < N; i++) {
		t[i] = 1000 + (double)i + 0.3 * sin((double)i);
		y[i] = i > N / 2 ? 5 * exp((double)(i - N / 2) / 8) : cos((double)i);
	}
	h = (struct hinge){ .t = t, .y = y, .n = N, .k = 3, .sigma = 1 };
	assert_true(hinge_init(&h, true));
	for (size_t k = 0; k < h.n_models * (N - 2); k++) {
		const struct model *model = &h.models[k % h.n_models];
		double tau = t[k / h.n_models] + 0.25 * (double)(k % 3);
		double begun = hinge_beginning(&h, model, tau), x = 0, xx = 0, xt = 0, xy = 0;
		struct sums sums = hinge_add_behind(&h, model, tau, begun);

		for (size_t i = 0; i < N; i++) {
			double at = t[i] > tau ? hinge_course(&h, model, i, tau, begun) : 0;

			x += at;
			xx += at * at;
			xt += at * hinge_time(&h, i);
			xy += at * (y[i] - h.mean);
		}
		assert_true(fabs(sums.x - x) <= 1e-8 * x && fabs(sums.xx - xx) <= 1e-8 * xx);
		assert_true(fabs(sums.xt - xt) <= 1e-8 * xt &&
			    fabs(sums.xy - xy) <= 1e-8 * fabs(xy));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_noise),	    cmocka_unit_test(test_segments),
		cmocka_unit_test(test_hinge),	    cmocka_unit_test(test_hinge_in_gap),
		cmocka_unit_test(test_faster),	    cmocka_unit_test(test_blur),
		cmocka_unit_test(test_quantiles),   cmocka_unit_test(test_first),
		cmocka_unit_test(test_sums_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
