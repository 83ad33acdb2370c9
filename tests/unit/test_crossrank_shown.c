/*
 * How much a record shows: too few samples, and rises that are small beside the scatter.
 */
#include "rank_levels.h"

#include <math.h>
#include <string.h>

/* ---- few samples ---- */

static int n_samples;

static int64_t one_up_half_way(int rank, int second)
{
	return BASE_MIB + (rank == 2 && second >= n_samples / 2 ? 500 : 0);
}

static int64_t level(int rank, int second)
{
	(void)rank;
	(void)second;
	return BASE_MIB;
}

static void test_few_samples_are_no_answer(void **unused)
{
	(void)unused;
	for (n_samples = 3; n_samples < RISES_MIN_SAMPLES; n_samples++)
		expect_answer(one_up_half_way, 4, n_samples, WHY_FEW, -1);
	for (; n_samples < 20; n_samples++)
		expect_answer(one_up_half_way, 4, n_samples, WHY_ALONE, 2);
	expect_answer(level, 4, 1, WHY_FEW, -1);
	expect_answer(level, 4, 3, WHY_NO_RISE, -1);
}

static void test_few_samples_are_told(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	n_samples = 5;
	analyze(one_up_half_way, 4, n_samples, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->unseen->rank, 2);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "Of rank 2 there are 5 samples only"));
	finding_add_remedy(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "longer record"));
	release(t, &a);
}

/* ---- beside scatter ---- */

static int step_mib;

/* Spreads over about 80 MiB, by no rule that shows. */
static int64_t scatter(int rank, int second)
{
	uint64_t z = (uint64_t)(rank * 1009 + second + 1) * UINT64_C(0x9e3779b97f4a7c15);
	int64_t sum = 0;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	for (int i = 0; i < 4; i++, z >>= 16)
		sum += (int64_t)(z & 0xffff) * 40 / 0x10000;
	return BASE_MIB + sum;
}

static int64_t one_steps_up(int rank, int second)
{
	return scatter(rank, second) + (rank == 3 && second >= 200 ? step_mib : 0);
}

/* The others scatter over more than half of what it gains, and go nowhere. */
static void test_scatter_hides_nobody(void **unused)
{
	(void)unused;
	for (step_mib = 240; step_mib <= 400; step_mib += 40)
		expect_answer(one_steps_up, 8, 400, WHY_ALONE, 3);
}

static void test_what_would_not_show_is_told(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	step_mib = 60;
	analyze(one_steps_up, 8, 400, &t, &a);
	assert_int_equal(a.finding->why, WHY_NO_RISE);
	assert_true(a.finding->least_mib > step_mib && a.finding->least_mib < 400);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, " would not show."));
	release(t, &a);
}

/* ---- what is not known ---- */

static void add_flat(struct telemetry *t, int rank)
{
	for (int second = 0; second < 60; second++)
		add_sample(t, rank, 4, second, BASE_MIB);
}

static void test_a_missing_rank_may_have_risen(void **unused)
{
	const struct rank_analysis_options options = { .clock_error_ns = EVENT_UNKNOWN };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;

	(void)unused;
	assert_non_null(t);
	for (int rank = 0; rank < 3; rank++)
		add_flat(t, rank);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, &options), 0);
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->why, WHY_MISSING);
	assert_true(isnan(a.finding->least_mib));
	finding_add_reason(&text, &a, a.finding);
	assert_string_equal(text.data, "Of the ranks with a record none rose, but there is no "
				       "record of rank 3, which may have.");
	release(t, &a);
}

/* Rank 0 rises since its record began, before all that were seen to begin. */
static int64_t one_unseen(int rank, int second)
{
	if (rank == 0)
		return BASE_MIB + 20 * second;
	return BASE_MIB + (second >= 50 + 2 * rank ? 500 : 0);
}

static void test_no_probability_without_an_order(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(one_unseen, 4, 120, &t, &a);
	assert_int_equal(a.finding->why, WHY_UNSEEN);
	assert_true(a.finding->n_candidates > 0);
	for (size_t i = 0; i < a.finding->n_candidates; i++)
		assert_true(isnan(finding_probability(a.finding, &a.finding->candidates[i])));
	release(t, &a);
}

/* ---- what all do in small, and one later in large ---- */

static int small_mib;

static int64_t small_before_large(int rank, int second)
{
	int along = second - (rank == 3 ? 30 : 20), steep = rank == 3 ? 200 : small_mib / 3;
	int most = rank == 3 ? 4000 : small_mib;

	if (along <= 0)
		return 2 * BASE_MIB + (rank + second) % 5;
	return 2 * BASE_MIB + (along * steep < most ? along * steep : most) + (rank + second) % 5;
}

/* Who comes 10 s later is none of those whose order is not sure. */
static void expect_told(const char *why, const char *words)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	analyze(small_before_large, 8, 60, &t, &a);
	assert_string_equal(finding_why_name(a.finding->why), why);
	assert_int_equal(a.finding->n_candidates, 8);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, words));
	release(t, &a);
}

static void test_what_comes_later_is_told(void **unused)
{
	(void)unused;
	small_mib = 300;
	expect_told("first_rise_is_smaller", "GB of rank 3 that follow");
	small_mib = 600;
	expect_told("onsets_overlap", "The memory of 7 of 8 ranks began");
	expect_told("onsets_overlap", "That of 1 more began to rise later.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_samples_are_no_answer),
		cmocka_unit_test(test_few_samples_are_told),
		cmocka_unit_test(test_scatter_hides_nobody),
		cmocka_unit_test(test_what_would_not_show_is_told),
		cmocka_unit_test(test_a_missing_rank_may_have_risen),
		cmocka_unit_test(test_no_probability_without_an_order),
		cmocka_unit_test(test_what_comes_later_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
