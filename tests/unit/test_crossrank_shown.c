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
	for (n_samples = 1; n_samples < 6; n_samples++)
		expect_answer(one_up_half_way, 4, n_samples, WHY_FEW, -1);
	for (n_samples = 20; n_samples < 30; n_samples++)
		expect_answer(one_up_half_way, 4, n_samples, WHY_ALONE, 2);
	expect_answer(level, 4, 1, WHY_FEW, -1);
	expect_answer(level, 4, 12, WHY_NO_RISE, -1);
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
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "There are 5 samples of rank 3"));
	finding_add_remedy(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "record for longer"));
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
	assert_string_equal(text.data, "No rank with a record rises, but there is no record of "
				       "rank 3, which may have risen.");
	release(t, &a);
}

/* ---- since the start ---- */

/* Rank 5 grows by 2 MiB in each step of half a second since its program began, the others hold 32.
 */
static int64_t one_since_start(int rank, int second)
{
	return 32 + (rank == 5 ? 4 * second : 0);
}

static void test_a_leak_that_begins_with_the_program(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	for (int seconds = 30; seconds <= 240; seconds += 30)
		expect_answer(one_since_start, 8, seconds, WHY_ALONE, 5);
	analyze(one_since_start, 8, 60, &t, &a);
	assert_true(a.finding->candidates[0].is_censored);
	finding_add_headline(&text, &a, a.finding);
	assert_string_equal(text.data, "CULPRIT rank 5 (n0)");
	release(t, &a);
}

/* ---- given back ---- */

static int64_t one_passes(int rank, int second)
{
	return BASE_MIB + (rank == 2 && second >= 40 && second < 50 ? 800 : 0);
}

static void test_memory_that_was_given_back_is_no_culprit(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(one_passes, 4, 100, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NONE);
	assert_int_equal(a.finding->why, WHY_GIVEN_BACK);
	assert_true(a.finding->has_passed);
	assert_null(a.finding->rank);
	finding_add_headline(&text, &a, a.finding);
	assert_string_equal(text.data, "TRANSIENT rank 2 (n0)");
	buf_reset(&text);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "rank 2 rose, of 4 ranks, by 800 MB. Most of what it "
					  "gained was given back 10.5 s later"));
	release(t, &a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_samples_are_no_answer),
		cmocka_unit_test(test_few_samples_are_told),
		cmocka_unit_test(test_scatter_hides_nobody),
		cmocka_unit_test(test_what_would_not_show_is_told),
		cmocka_unit_test(test_a_missing_rank_may_have_risen),
		cmocka_unit_test(test_a_leak_that_begins_with_the_program),
		cmocka_unit_test(test_memory_that_was_given_back_is_no_culprit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
