/*
 * Rises that are given back, that stand beside others, and those of waves: exact series of few
 * ranks.
 */
#include "rank_levels.h"

#include <math.h>
#include <string.h>

/* ---- checkpoints ---- */

/* Each has one of 25 s every minute; the record ends in the fourth of the last rank. */
static int64_t checkpoints(int rank, int second)
{
	static const int from[] = { 70, 88, 100 };
	int since = second - from[rank];

	return BASE_MIB + (since >= 0 && since % 60 < 25 ? 400 : 0) + (rank * 7 + second * 3) % 5;
}

static void test_a_checkpoint_cut_by_the_end_is_none_that_stays(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(checkpoints, 3, 300, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->why, WHY_MAY_PASS);
	assert_non_null(a.finding->unseen);
	release(t, &a);
}

/* The same, and rank 1 keeps it for longer than any of them is up. */
static int64_t kept(int rank, int second)
{
	if (rank == 1 && second >= 208)
		return BASE_MIB + 400 + (second * 3) % 5;
	return second < 230 ? checkpoints(rank, second) : BASE_MIB + (rank * 7 + second * 3) % 5;
}

static void test_what_is_up_for_longer_is_no_checkpoint(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(kept, 3, 300, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->rank->rank, 1);
	release(t, &a);
}

/* Rank 0 has one, the others have many of the same kind. */
static int64_t one_of_many(int rank, int second)
{
	int from = rank == 0 ? 160 : 60 + 11 * rank, since = second - from;
	bool is_up = since >= 0 && (rank == 0 ? since < 25 : since % 60 < 25 && since < 180);

	return BASE_MIB + (is_up ? 400 : 0) + (rank * 7 + second * 3) % 5;
}

static void test_one_of_what_others_do_often_names_nobody(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(one_of_many, 3, 300, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->why, WHY_USUAL);
	release(t, &a);
}

/* ---- alone among others ---- */

static int64_t one_after_the_other(int rank, int second)
{
	static const int from[] = { 50, 56, 58, 60, 61 };

	return BASE_MIB + (second >= from[rank] ? 600 : 0) + (rank * 7 + second * 3) % 5;
}

static void test_who_follows_is_shown(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(one_after_the_other, 5, 240, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->why, WHY_FIRST);
	assert_int_equal(a.finding->rank->rank, 0);
	assert_int_equal(a.finding->n_candidates, 5);
	assert_float_equal(a.finding->lead, 6, 1);
	release(t, &a);
}

/* ---- a spike ---- */

static int64_t spiking(int rank, int second)
{
	bool is_up = rank == 3 && second >= 120 && second < 128;

	return BASE_MIB + (is_up ? 800 : 0) + (rank * 7 + second * 3) % 5;
}

/* The same, and its process ends with it. */
static int64_t spiking_at_the_end(int rank, int second)
{
	return spiking(rank, second < 124 ? second : 124) - (second == 239 && rank == 3 ? 700 : 0);
}

static void expect_passed(level_fn level, bool has_passed)
{
	CLEANUP(buf_release) struct buf reason = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	analyze(level, 5, 240, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->rank->rank, 3);
	assert_int_equal(a.finding->has_passed, has_passed);
	finding_add_reason(&reason, &a, a.finding);
	assert_int_equal(strstr(reason.data, "that passed") != NULL, has_passed);
	assert_int_equal(strstr(reason.data, "given back") != NULL, has_passed);
	release(t, &a);
}

static void test_a_spike_is_said_to_have_passed(void **unused)
{
	(void)unused;
	expect_passed(spiking, true);
	expect_passed(spiking_at_the_end, false);
}

/* Each rank evaluates once for 10 s; or rank 0 begins something that all end together. */
static int64_t hump(int rank, int second, int from, int to)
{
	return BASE_MIB + (second >= from && second < to ? 600 : 0) + (rank * 7 + second * 3) % 5;
}

static int64_t one_hump_each(int rank, int second)
{
	static const int from[] = { 60, 64, 66, 68, 71, 74, 77, 79 };

	return hump(rank, second, from[rank], from[rank] + 10);
}

static int64_t ended_together(int rank, int second)
{
	return hump(rank, second, rank == 0 ? 60 : 63, 80);
}

static void test_one_hump_of_each_names_nobody(void **unused)
{
	(void)unused;
	expect_answer(one_hump_each, 8, 240, WHY_UNRELATED, -1);
	expect_answer(ended_together, 8, 240, WHY_FIRST, 0);
}

/* ---- waves ---- */

/* Around zero, with a little noise; its lowest point is at `lowest`. */
static int64_t wave_at(int rank, int second, double lowest, double period, double height)
{
	double angle = 6.283185307179586 * (second - lowest) / period;

	return (int64_t)(-height * cos(angle)) + (rank * 7 + second * 3) % 5;
}

/* All turn within some seconds. */
static int64_t one_before_others(int rank, int second)
{
	static const double lowest[] = { 80, 92, 93, 94, 92 };

	return BASE_MIB + wave_at(rank, second, lowest[rank], 200, 330);
}

/* A rank turns while the others still go down; then all of them leak from one moment on. */
static int64_t before_a_leak(int rank, int second)
{
	double lowest = rank == 4 ? 79 : 150 + 5 * rank;

	return BASE_MIB + wave_at(rank, second, lowest, 400, 350) +
	       6 * (second > 120 ? second - 120 : 0);
}

static int64_t leaking_in_waves(int rank, int second)
{
	int leak = rank == 3 && second > 110 ? 20 * (second - 110) : 0;

	return BASE_MIB + wave_at(rank, second, 20, 45, 100) + leak;
}

static void expect_nobody(level_fn level)
{
	struct rank_analysis a;
	struct telemetry *t;

	analyze(level, 5, 240, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->why, WHY_WAVES);
	assert_null(a.finding->rank);
	release(t, &a);
}

static void test_a_wave_that_turns_names_nobody(void **unused)
{
	(void)unused;
	expect_nobody(one_before_others);
	expect_nobody(before_a_leak);
}

static void test_a_leak_is_more_than_a_wave(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(leaking_in_waves, 5, 240, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->rank->rank, 3);
	release(t, &a);
}

/* ---- in words ---- */

static void expect_seconds(double seconds, const char *text)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	finding_add_seconds(&out, seconds);
	assert_string_equal(out.data, text);
}

static void test_seconds_are_plain_numbers(void **unused)
{
	(void)unused;
	expect_seconds(0.0123, "12.3 ms");
	expect_seconds(2.13, "2.13 s");
	expect_seconds(999.4, "999 s");
	expect_seconds(999.7, "1000 s");
	expect_seconds(3600, "3600 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_checkpoint_cut_by_the_end_is_none_that_stays),
		cmocka_unit_test(test_what_is_up_for_longer_is_no_checkpoint),
		cmocka_unit_test(test_one_of_what_others_do_often_names_nobody),
		cmocka_unit_test(test_who_follows_is_shown),
		cmocka_unit_test(test_a_spike_is_said_to_have_passed),
		cmocka_unit_test(test_one_hump_of_each_names_nobody),
		cmocka_unit_test(test_a_wave_that_turns_names_nobody),
		cmocka_unit_test(test_a_leak_is_more_than_a_wave),
		cmocka_unit_test(test_seconds_are_plain_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
