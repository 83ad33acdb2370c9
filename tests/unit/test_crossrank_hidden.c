/*
 * What a rank gains for good and nobody sees begin: in the teeth of a saw, and in wide scatter;
 * and what a single sample shows.
 */
#include "rank_levels.h"

#include <math.h>
#include <string.h>

#define TOOTH_SECONDS 5
#define RISE_SECONDS 20

static int tooth_mib, gain_mib, other_gain_mib, scatter_mib;

static int64_t ramp(int second, int at, int64_t gain)
{
	int64_t along = second - at < RISE_SECONDS ? second - at : RISE_SECONDS;

	return along > 0 ? gain * along / RISE_SECONDS : 0;
}

/* As if by chance, -500 to 499. */
static int64_t chance(int rank, int second)
{
	uint64_t z = (uint64_t)(rank * 1009 + second + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return (int64_t)((z ^ z >> 27) % 1000) - 500;
}

static int64_t tooth(int rank, int second)
{
	return (second + rank) % TOOTH_SECONDS * (tooth_mib / (TOOTH_SECONDS - 1));
}

/* ---- a saw that gains ---- */

/* Rank 2 is the first, by 8 s, and goes in teeth. */
static int64_t first_in_teeth(int rank, int second)
{
	int at = rank == 2 ? 60 : rank == 0 ? 68 : 70;

	return BASE_MIB + (rank == 2 ? tooth(rank, second) : 0) + chance(rank, second) / 200 +
	       ramp(second, at, rank == 2 ? gain_mib : other_gain_mib);
}

static void expect_nobody(level_fn level, int n_ranks, int seconds)
{
	struct rank_analysis a;
	struct telemetry *t;

	analyze(level, n_ranks, seconds, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	release(t, &a);
}

static void test_who_rises_in_teeth_is_not_passed_over(void **unused)
{
	static const int sizes[][2] = {
		{ 500, 600 }, { 500, 800 }, { 2000, 3000 }, { 1000, 1500 }
	};

	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		tooth_mib = sizes[i][0];
		gain_mib = other_gain_mib = sizes[i][1];
		expect_nobody(first_in_teeth, 8, 120);
	}
}

/* Teeth that lead nowhere keep nobody from being named. */
static void test_teeth_that_stay_hide_nobody(void **unused)
{
	(void)unused;
	tooth_mib = 1000;
	gain_mib = 0;
	for (other_gain_mib = 1000; other_gain_mib <= 4000; other_gain_mib += 500)
		expect_answer(first_in_teeth, 8, 120, WHY_FIRST, 0);
}

/* ---- nobody is seen to rise ---- */

static int64_t all_in_teeth(int rank, int second)
{
	return BASE_MIB + tooth(rank, second) + chance(rank, second) / 200 +
	       (rank == 2 ? ramp(second, 60, gain_mib) : 0);
}

static void test_a_gain_in_teeth_is_not_none(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	tooth_mib = 2000;
	gain_mib = 3000;
	analyze(all_in_teeth, 4, 120, &t, &a);
	assert_string_equal(finding_why_name(a.finding->why), "rise_may_be_hidden");
	assert_int_equal(a.finding->verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->unseen->rank, 2);
	assert_true(isnan(a.finding->least_mib));
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "the memory of rank 2 goes up and down"));
	release(t, &a);
}

/* Whatever is said not to show, nobody has gained more. */
static void test_none_bounds_what_was_gained(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;
	size_t n_none = 0;

	(void)unused;
	for (tooth_mib = 0; tooth_mib <= 2000; tooth_mib += 400)
		for (gain_mib = 0; gain_mib <= 1000; gain_mib += 50) {
			analyze(all_in_teeth, 4, 120, &t, &a);
			if (a.finding->verdict == VERDICT_NONE) {
				assert_true(a.finding->least_mib >= gain_mib);
				assert_true(a.finding->least_mib < 1.5 * tooth_mib + 100);
				n_none++;
			}
			release(t, &a);
		}
	assert_true(n_none > 6);
}

/* Each sample is another process: none of them shows a thing. */
static void test_processes_of_one_sample_show_nothing(void **unused)
{
	const struct rank_analysis_options options = { .clock_error_ns = EVENT_UNKNOWN };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t = telemetry_new();
	struct telemetry_event ev;
	struct rank_analysis a;

	(void)unused;
	assert_non_null(t);
	for (int i = 0; i < 120; i++) {
		event_init(&ev);
		ev.event_type = (struct text){ "sample", 6 };
		ev.host = (struct text){ "n0", 2 };
		ev.rank = i % 2;
		ev.world_size = 2;
		ev.pid = 1000 + i;
		ev.timestamp_ns = T0_NS + i / 2 * SECOND_NS;
		ev.device_used_bytes = (100 + 30 * i) * MIB;
		assert_int_equal(telemetry_add(t, &ev), 0);
	}
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, &options), 0);
	assert_string_equal(finding_why_name(a.finding->why), "too_few_samples");
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "Of each process of rank 0 there is 1 sample only"));
	release(t, &a);
}

/* ---- scatter ---- */

/* Rank 3 scatters widely, and begins 8 s before rank 5, the first of the others. */
static int64_t first_in_scatter(int rank, int second)
{
	int at = rank == 3 ? 200 : rank == 5 ? 208 : 210;

	return 12000 + chance(rank, second) * (rank == 3 ? scatter_mib : 5) / 500 +
	       ramp(second, at, rank == 3 ? gain_mib : other_gain_mib);
}

static void test_who_may_have_risen_in_scatter_is_not_passed_over(void **unused)
{
	(void)unused;
	other_gain_mib = 300;
	for (gain_mib = 0; gain_mib <= 300; gain_mib += 100)
		for (scatter_mib = 3000; scatter_mib <= 6000; scatter_mib += 500)
			expect_nobody(first_in_scatter, 8, 300);
}

/* Where so many samples would show it, it has not risen. */
static void test_scatter_that_would_show_it_hides_nobody(void **unused)
{
	(void)unused;
	gain_mib = 0;
	other_gain_mib = 300;
	for (scatter_mib = 20; scatter_mib <= 100; scatter_mib += 20)
		expect_answer(first_in_scatter, 8, 300, WHY_FIRST, 5);
}

/* ---- what is only given back ---- */

static int released_mib, released_at;
static bool all_release;

/* Rank 0, or all, give something back at once, and then are level; rank 3 may rise later. */
static int64_t releasing(int rank, int second)
{
	bool holds = second < released_at && (rank == 0 || all_release);

	return 2 * BASE_MIB + (holds ? released_mib : 0) + chance(rank, second) / 25 +
	       (rank == 3 ? ramp(second, released_at + 25, gain_mib) : 0);
}

static void test_what_only_falls_is_none(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	gain_mib = 0;
	released_mib = 4000;
	for (int i = 0; i < 2; i++)
		for (released_at = 6; released_at < 60; released_at += 6) {
			all_release = i > 0;
			analyze(releasing, 8, 60, &t, &a);
			assert_string_equal(finding_why_name(a.finding->why), "no_rise");
			assert_true(a.finding->least_mib < 300);
			release(t, &a);
		}
}

static void test_what_only_falls_hides_nobody(void **unused)
{
	static const int cases[][4] = { /* released, at, gain, seconds */
					{ 4000, 20, 2000, 70 },
					{ 2500, 8, 1500, 60 },
					{ 1500, 20, 1200, 70 },
					{ 2000, 30, 1000, 120 }
	};

	(void)unused;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		const int *c = cases[i / 2];

		all_release = i % 2 > 0;
		released_mib = c[0];
		released_at = c[1];
		gain_mib = c[2];
		expect_answer(releasing, 8, c[3], WHY_ALONE, 3);
	}
}

/* ---- samples that stick out ---- */

static int up_mib, stick_mib;

/* One of the last samples of rank 1 is up, and one of rank 2 was, long before. */
static int64_t one_sticks_out(int rank, int second)
{
	if (rank == 1 && second == 96)
		return BASE_MIB + up_mib;
	if (rank == 2 && second == 40)
		return BASE_MIB + stick_mib;
	return BASE_MIB + chance(rank, second) / 200;
}

static void test_a_sample_that_sticks_out_like_others_names_nobody(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	up_mib = 500;
	for (stick_mib = 250; stick_mib <= 350; stick_mib += 50)
		expect_nobody(one_sticks_out, 4, 100);
	for (stick_mib = -350; stick_mib <= -250; stick_mib += 50)
		expect_nobody(one_sticks_out, 4, 100);
	stick_mib = -300;
	analyze(one_sticks_out, 4, 100, &t, &a);
	assert_string_equal(finding_why_name(a.finding->why), "samples_stick_out");
	assert_int_equal(a.finding->unseen->rank, 2);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "samples of rank 2 stick out about as far, too"));
	finding_add_remedy(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "Samples closer together"));
	release(t, &a);
}

/* The same with one that was down: to come back is no rise then. */
static int64_t one_comes_back(int rank, int second)
{
	if (rank == 1 && second == 60)
		return BASE_MIB - up_mib;
	if (rank == 1 && second == 59)
		return BASE_MIB + up_mib / 2;
	if (rank == 2 && second == 40)
		return BASE_MIB + stick_mib;
	return BASE_MIB + chance(rank, second) / 200;
}

static void test_to_come_back_is_no_rise_where_others_do(void **unused)
{
	(void)unused;
	up_mib = 500;
	stick_mib = -300;
	expect_nobody(one_comes_back, 4, 100);
}

static void test_a_sample_that_alone_sticks_out_is_a_rise(void **unused)
{
	(void)unused;
	up_mib = 500;
	for (stick_mib = -100; stick_mib <= 0; stick_mib += 50)
		expect_answer(one_sticks_out, 4, 100, WHY_ALONE, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_rises_in_teeth_is_not_passed_over),
		cmocka_unit_test(test_teeth_that_stay_hide_nobody),
		cmocka_unit_test(test_a_gain_in_teeth_is_not_none),
		cmocka_unit_test(test_none_bounds_what_was_gained),
		cmocka_unit_test(test_processes_of_one_sample_show_nothing),
		cmocka_unit_test(test_who_may_have_risen_in_scatter_is_not_passed_over),
		cmocka_unit_test(test_scatter_that_would_show_it_hides_nobody),
		cmocka_unit_test(test_what_only_falls_is_none),
		cmocka_unit_test(test_what_only_falls_hides_nobody),
		cmocka_unit_test(test_a_sample_that_sticks_out_like_others_names_nobody),
		cmocka_unit_test(test_to_come_back_is_no_rise_where_others_do),
		cmocka_unit_test(test_a_sample_that_alone_sticks_out_is_a_rise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
