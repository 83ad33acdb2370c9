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
	assert_int_equal(verdict_of(a.finding->why), VERDICT_CANNOT_TELL);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "There are 5 samples of rank 3"));
	finding_add_remedy(&text, a.finding);
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
	assert_true(a.finding->answer.least_mib > step_mib && a.finding->answer.least_mib < 400);
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
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;

	(void)unused;
	assert_non_null(t);
	for (int rank = 0; rank < 3; rank++)
		add_flat(t, rank);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(rank_analysis_run(&a, EVENT_UNKNOWN), 0);
	assert_int_equal(verdict_of(a.finding->why), VERDICT_CANNOT_TELL);
	assert_int_equal(a.finding->why, WHY_MISSING);
	assert_true(isnan(a.finding->answer.least_mib));
	finding_add_reason(&text, &a, a.finding);
	assert_string_equal(text.data, "No rank with a record rises for good, but there is no "
				       "record of rank 3, which may have risen.");
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
	assert_true(a.finding->candidates[0].rise.is_censored);
	finding_add_headline(&text, a.finding);
	assert_string_equal(text.data, "CULPRIT rank 5 (n0)");
	release(t, &a);
}

/* Two ranks that differ since their start: one other rank shows no spread. */
static int64_t one_of_two_since_start(int rank, int second)
{
	return 32 + (rank == 1 ? 4 * second : 0);
}

static void test_of_two_ranks_less_is_sure(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(one_of_two_since_start, 2, 120, &t, &a);
	assert_int_equal(a.finding->why, WHY_ALONE);
	assert_int_equal(a.finding->candidates[0].rank->rank, 1);
	assert_true(a.finding->candidates[0].rise.probability < 0.86);
	release(t, &a);
}

/* All load 40 MiB soon after their start, two of them 2 s after the others. Rank 1 leaks first. */
static int64_t two_load_late(int rank, int second)
{
	int onset = rank == 1 ? 40 : 42;

	return 3 + (second >= (rank == 2 || rank == 5 ? 10 : 8) ? 40 : 0) +
	       (second > onset ? 30 * (second - onset) : 0);
}

static void test_who_catches_up_does_not_rise(void **unused)
{
	(void)unused;
	for (int seconds = 52; seconds < 70; seconds += 3)
		expect_answer(two_load_late, 7, seconds, WHY_FIRST, 1);
}

/* ---- what the others do ---- */

static int64_t one_on_growth(int rank, int second)
{
	return BASE_MIB + 10 * second + (rank == 2 && second >= 60 ? 40 * (second - 60) : 0);
}

static int64_t one_on_flat(int rank, int second)
{
	return BASE_MIB + (rank == 2 && second >= 60 ? 40 * (second - 60) : 0);
}

static void test_others_that_rise_are_not_flat(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(one_on_growth, 8, 120, &t, &a);
	assert_int_equal(a.finding->why, WHY_ALONE);
	assert_true(fabs(a.finding->answer.others_rate - 10) < 1);
	release(t, &a);
	analyze(one_on_flat, 8, 120, &t, &a);
	assert_int_equal(a.finding->why, WHY_ALONE);
	assert_true(isnan(a.finding->answer.others_rate));
	release(t, &a);
}

/* ---- ranks that are hardly there ---- */

static void analyze_events(struct telemetry *t, struct rank_analysis *ret)
{
	assert_int_equal(rank_analysis_init(ret, t), 0);
	assert_int_equal(rank_analysis_run(ret, EVENT_UNKNOWN), 0);
}

/* Rank 15 has 3 samples, from `second` on, and ended then if that is known. */
static void expect_beside_short(level_fn of_others, int second, bool is_ended, enum why why)
{
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;

	assert_non_null(t);
	for (int rank = 0; rank < 15; rank++)
		for (int k = 0; k < 120; k++)
			add_sample(t, rank, 16, k, of_others(rank, k));
	for (int k = 0; k < 3; k++)
		add_sample(t, 15, 16, second + k, BASE_MIB);
	if (is_ended) {
		struct telemetry_event ev;

		event_init(&ev);
		ev.event_type = (struct text){ "rank_end", 8 };
		ev.host = (struct text){ "n0", 2 };
		ev.rank = 15;
		ev.world_size = 16;
		ev.timestamp_ns = T0_NS + (second + 3) * SECOND_NS;
		ev.device_used_bytes = BASE_MIB * MIB;
		assert_int_equal(telemetry_add(t, &ev), 0);
	}
	analyze_events(t, &a);
	assert_string_equal(finding_why_name(a.finding->why), finding_why_name(why));
	assert_int_equal(a.finding->n_ranks, 15);
	release(t, &a);
}

static void test_a_rank_with_few_samples_may_have_been_first(void **unused)
{
	(void)unused;
	expect_beside_short(one_on_flat, 10, true, WHY_ALONE);
	expect_beside_short(one_on_flat, 10, false, WHY_FEW);
	expect_beside_short(one_on_flat, 70, true, WHY_FEW);
	expect_beside_short(level, 10, true, WHY_NO_RISE);
	expect_beside_short(level, 10, false, WHY_FEW);
}

/* Ranks start 1 s after each other and rise 60 s after their start, but for rank 2: after 52 s. */
static void test_a_lead_since_the_start_has_its_words(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;

	(void)unused;
	assert_non_null(t);
	for (int rank = 0; rank < 8; rank++)
		for (int k = rank; k < 180; k++) {
			int since = k - rank - (rank == 2 ? 52 : 60);

			add_sample(t, rank, 8, k, BASE_MIB + (since > 0 ? 60 * since : 0));
		}
	analyze_events(t, &a);
	assert_int_equal(a.finding->why, WHY_FIRST);
	assert_int_equal(finding_culprit(a.finding)->rank, 2);
	assert_true(a.finding->answer.is_since_start);
	assert_true(fabs(a.finding->answer.lead - 8) < 1);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, " sooner after its start than that of any other of 8"));
	release(t, &a);
}

/* All rise together at 60 s; of rank 3 there is no record. */
static void test_a_leader_that_was_denied_is_not_named(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t = telemetry_new();
	struct rank_analysis a;

	(void)unused;
	assert_non_null(t);
	for (int rank = 0; rank < 3; rank++)
		for (int k = 0; k < 120; k++)
			add_sample(t, rank, 4, k, BASE_MIB + (k >= 60 ? 40 * (k - 60) : 0));
	analyze_events(t, &a);
	assert_int_equal(a.finding->why, WHY_MISSING);
	finding_add_reason(&text, &a, a.finding);
	assert_string_equal(text.data, "The ranks with a record rise together, but there is no "
				       "record of rank 3, which may have risen.");
	release(t, &a);
}

/* Rank 2 starts again at 60 s, as pid 12, and that process leaks from 90 s on. */
static void test_the_headline_has_the_process_that_rose(void **unused)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct telemetry *t = telemetry_new();
	struct telemetry_event ev;
	struct rank_analysis a;

	(void)unused;
	assert_non_null(t);
	for (int rank = 0; rank < 4; rank++)
		for (int k = 0; k < 180; k++) {
			bool is_second = rank == 2 && k >= 60;

			event_init(&ev);
			ev.event_type = (struct text){ "sample", 6 };
			ev.host = is_second ? (struct text){ "n1", 2 } : (struct text){ "n0", 2 };
			ev.clock.boot_id = (struct text){ "a boot", 6 };
			ev.pid = is_second ? 12 : rank + 1;
			ev.rank = rank;
			ev.world_size = 4;
			ev.timestamp_ns = T0_NS + k * SECOND_NS + rank + 1;
			ev.device_used_bytes =
				(BASE_MIB + (is_second && k >= 90 ? 40 * (k - 90) : 0)) * MIB;
			assert_int_equal(telemetry_add(t, &ev), 0);
		}
	analyze_events(t, &a);
	finding_add_headline(&text, a.finding);
	assert_string_equal(text.data, "CULPRIT rank 2 (n1, pid 12)");
	release(t, &a);
}

/* ---- given back ---- */

static int spike_from, spike_to;

static int64_t one_spike(int rank, int second)
{
	return BASE_MIB + (rank == 2 && second >= spike_from && second < spike_to ? 500 : 0);
}

/* However short the record is. */
static void test_a_spike_near_the_end_is_none(void **unused)
{
	(void)unused;
	for (int n = 17; n < 40; n++)
		for (spike_from = n - 10, spike_to = n - 4; spike_to < n - 1; spike_to++) {
			struct rank_analysis a;
			struct telemetry *t;

			analyze(one_spike, 4, n, &t, &a);
			assert_null(finding_culprit(a.finding));
			release(t, &a);
		}
}

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
	assert_int_equal(verdict_of(a.finding->why), VERDICT_NONE);
	assert_int_equal(a.finding->why, WHY_GIVEN_BACK);
	assert_true((a.finding->why == WHY_GIVEN_BACK));
	assert_null(finding_culprit(a.finding));
	finding_add_headline(&text, a.finding);
	assert_string_equal(text.data, "TRANSIENT rank 2 (n0)");
	buf_reset(&text);
	finding_add_reason(&text, &a, a.finding);
	assert_non_null(strstr(text.data, "rank 2 rose, of 4 ranks, by 800 MB. Most of what it "
					  "gained was given back 10.5 s later"));
	release(t, &a);
}

/* A checkpoint of rank 0 each 20 s; the record ends in one. */
static int64_t saves(int rank, int second)
{
	return BASE_MIB + (rank == 0 && second >= 18 && second % 20 > 16 ? 300 : 0);
}

/* Three ranks grow by 20 MiB/s: rank 1 from 14 s on, the others 2.5 s and 3 s later. */
static int64_t grows(int rank, int second)
{
	int ticks = 2 * (second - 14) - (rank == 1 ? 0 : 5 + rank / 2);

	return 100 + (ticks > 0 ? 10 * ticks : 0);
}

static void test_what_ranks_do_anyway_hides_nobody(void **unused)
{
	(void)unused;
	expect_answer(saves, 4, 99, WHY_NO_RISE, -1);
	expect_answer(grows, 3, 30, WHY_FIRST, 1);
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
		cmocka_unit_test(test_of_two_ranks_less_is_sure),
		cmocka_unit_test(test_who_catches_up_does_not_rise),
		cmocka_unit_test(test_others_that_rise_are_not_flat),
		cmocka_unit_test(test_a_rank_with_few_samples_may_have_been_first),
		cmocka_unit_test(test_a_lead_since_the_start_has_its_words),
		cmocka_unit_test(test_a_leader_that_was_denied_is_not_named),
		cmocka_unit_test(test_the_headline_has_the_process_that_rose),
		cmocka_unit_test(test_a_spike_near_the_end_is_none),
		cmocka_unit_test(test_memory_that_was_given_back_is_no_culprit),
		cmocka_unit_test(test_what_ranks_do_anyway_hides_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
