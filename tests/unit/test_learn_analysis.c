#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/failure_analysis.h"
#include "learn/feature.h"
#include "learn/run_class.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))
#define MINUTE_NS UINT64_C(60000000000)

struct sample {
	struct run_record runs[64];
	char ids[64][16];
	size_t n;
};

/* A run that is over; each is another job an hour after the one before. */
static struct run_record *add_run(struct sample *s, bool has_failed, double peak_rss_mb)
{
	struct run_record *run = &s->runs[s->n];

	run_record_init(run);
	snprintf(s->ids[s->n], sizeof(s->ids[0]), "job-%zu", s->n);
	run->job_id = s->ids[s->n];
	run->attempt = (int64_t)++s->n;
	run->is_whole = true;
	run->class.label = "train.py";
	run->class.command = 7;
	run->outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
	run->started_wall_ns = s->n * 60 * MINUTE_NS;
	run->ended_wall_ns = run->started_wall_ns + MINUTE_NS;
	run->peak_rss_mb = peak_rss_mb;
	return run;
}

/* ---- units ---- */

static void test_retries_count_once(void **state)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	struct sample s = { .n = 0 };
	size_t n, n_retries, n_undecided;

	(void)state;
	for (int i = 0; i < 6; i++)
		add_run(&s, i < 4, i);
	for (int i = 1; i < 6; i++) { /* one minute after the end of the one before */
		s.runs[i].job_id = "same";
		s.runs[i].started_wall_ns = s.runs[i - 1].ended_wall_ns + MINUTE_NS;
		s.runs[i].ended_wall_ns = s.runs[i].started_wall_ns + MINUTE_NS;
	}
	s.runs[0].job_id = "same";
	add_run(&s, true, 6)->outcome = OUTCOME_CANCELLED;
	assert_int_equal(units_list(s.runs, s.n, &units, &n, &n_retries, &n_undecided), 0);
	/* fail fail fail fail pass pass: the first five are one; what follows a success is new. */
	assert_int_equal(n, 2);
	assert_int_equal(n_retries, 4);
	assert_int_equal(n_undecided, 1);
	assert_ptr_equal(units[0], &s.runs[0]);
	assert_ptr_equal(units[1], &s.runs[5]);
}

/* Who starts the same again by hand gives it another id, or none. */
static void test_a_retry_needs_no_id(void **state)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	struct sample s = { .n = 0 };
	size_t n, n_retries, n_undecided;

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct run_record *run = add_run(&s, i < 4, 100);

		run->attempt = i + 1;
		run->argv_hash = 9;
		run->started_wall_ns = UINT64_C(600000000000) * (uint64_t)(i + 1);
		run->ended_wall_ns = run->started_wall_ns + UINT64_C(60000000000);
	}
	s.runs[2].argv_hash = 10;			       /* another command */
	s.runs[3].started_wall_ns = s.runs[1].started_wall_ns; /* beside another */
	assert_int_equal(units_list(s.runs, s.n, &units, &n, &n_retries, &n_undecided), 0);
	assert_int_equal(n_retries, 3); /* beside the second, but after the first */
	assert_int_equal(n, 2);
}

static void test_other_input_is_no_retry(void **state)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	struct sample s = { .n = 0 };
	size_t n, n_retries, n_undecided;

	(void)state;
	for (int i = 0; i < 4; i++)
		add_run(&s, true, i)->job_id = "same";
	s.runs[1].started_wall_ns = s.runs[0].ended_wall_ns;
	s.runs[1].input_hash = 1;					      /* other files */
	s.runs[3].started_wall_ns = s.runs[2].ended_wall_ns + 61 * MINUTE_NS; /* much later */
	assert_int_equal(units_list(s.runs, s.n, &units, &n, &n_retries, &n_undecided), 0);
	assert_int_equal(n, 4);
}

/* ---- effect ---- */

/*
 * 1 2 3 passed, 4 failed, 5 passed, 6 7 8 failed. The best cuts of all are 3|4
 * (J = 4/4 - 1/4) and 5|6 (3/4 - 0). Without a pass below, 3|4 is better by 1/3 to 1/4…
 */
static void test_effect_by_hand(void **state)
{
	const double values[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const bool failed[] = { false, false, false, true, false, true, true, true };
	struct effect e;

	(void)state;
	assert_int_equal(effect_measure(values, failed, 8, true, &e), 0);
	assert_true(e.threshold == 3.5 || e.threshold == 5.5);
	assert_int_equal(e.in.n + e.out.n, 8);
	assert_int_equal(e.in.n_failed + e.out.n_failed, 4);
	if (e.threshold == 3.5) {
		assert_int_equal(e.in.n, 5);
		assert_near(e.in.rate, 0.8, 1e-12);
		assert_near(e.out.rate, 0, 1e-12);
		assert_near(e.odds_ratio, 4.5 * 3.5 / (1.5 * 0.5), 1e-12);
	}
	assert_true(e.loo_accuracy < 1);
}

/*
 * Leave-one-out the slow way: the best cuts of all others. Several may be as good;
 * whether the best puts the run on its side: by none of them, by some, by all.
 */
static void judge_slowly(const double *values, const bool *failed, size_t n, size_t out,
			 size_t *ret_least, size_t *ret_most)
{
	double best = -2;
	size_t n_best = 0, n_right = 0;

	for (size_t c = 0; c < n; c++) { /* a cut above each value, halfway to the next */
		double above[2] = { 0, 0 }, all[2] = { 0, 0 }, next = INFINITY, j;

		if (c == out)
			continue;
		for (size_t i = 0; i < n; i++) {
			if (i == out)
				continue;
			if (values[i] > values[c])
				next = fmin(next, values[i]);
			all[failed[i]]++;
			above[failed[i]] += values[i] > values[c];
		}
		j = above[1] / all[1] - above[0] / all[0];
		if (!isfinite(next) || j < best - 1e-12)
			continue;
		if (j > best + 1e-12)
			n_best = n_right = 0;
		best = fmax(best, j);
		n_best++;
		n_right += (values[out] > (values[c] + next) / 2) == failed[out];
	}
	*ret_least += n_right == n_best;
	*ret_most += n_right > 0;
}

static void test_effect_as_the_slow_way(void **state)
{
	uint64_t seed = 12345;

	(void)state;
	for (int k = 0; k < 500; k++) {
		size_t least = 0, most = 0;
		double values[15], right;
		bool failed[15];
		struct effect e;

		for (size_t i = 0; i < 15; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			values[i] = (double)(seed >> 33);
			failed[i] = i < 6;
		}
		for (size_t i = 0; i < 15; i++)
			judge_slowly(values, failed, 15, i, &least, &most);
		assert_int_equal(effect_measure(values, failed, 15, true, &e), 0);
		right = round(e.loo_accuracy * 15);
		assert_true(right >= (double)least && right <= (double)most);
	}
}

static void test_effect_below(void **state)
{
	const double values[] = { 1, 2, 3, 10, 11, 12, NAN };
	const bool failed[] = { true, true, true, false, false, false, true };
	const double same[] = { 1, 1, 1, 1, 1, 1, 1 };
	struct effect e;

	(void)state;
	assert_int_equal(effect_measure(values, failed, 7, false, &e), 0);
	assert_near(e.threshold, 6.5, 1e-12);
	assert_int_equal(e.in.n, 3);
	assert_int_equal(e.in.n_failed, 3);
	assert_int_equal(e.out.n, 3);
	assert_int_equal(e.out.n_failed, 0);
	assert_near(e.risk_difference, 1, 1e-12);
	assert_near(e.loo_accuracy, 1, 1e-12);
	assert_true(effect_measure(same, failed, 7, true, &e) < 0);
}

/* ---- findings ---- */

/* Memory growth: 8 of 9 above 41 MB/s failed, 1 of 12 below. */
static void fill_growth(struct sample *s)
{
	for (int i = 0; i < 21; i++) {
		bool is_fast = i < 9, has_failed = is_fast ? i != 4 : i == 15;
		struct run_record *run = add_run(s, has_failed, 500 + (i * 37) % 21);

		run->rss_slope_mb_s[2] = is_fast ? 42 + i : 40 - i;
	}
}

static void test_a_finding_in_words(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };
	const struct finding *f;

	(void)state;
	fill_growth(&s);
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_int_equal(a.n, 1);
	f = &a.findings[0];
	assert_int_equal(f->grade, GRADE_SUPPORTED);
	assert_string_equal(f->feature, "rss_slope_mb_s@60");
	assert_false(f->is_censored);
	assert_true(f->effect.is_above);
	assert_int_equal(f->effect.in.n_failed, 8);
	assert_int_equal(f->effect.in.n, 9);
	assert_int_equal(f->effect.out.n_failed, 1);
	assert_int_equal(f->effect.out.n, 12);
	assert_memory_equal(f->sentence,
			    "runs of `train.py` whose memory grew faster than 36.5 MB/s in the "
			    "first minute failed 8 of 9 times (95 % interval 57 to 98 %); others 1 "
			    "of 12; adjusted p 0.00",
			    150);
	assert_non_null(strstr(f->sentence, "supported"));
	assert_int_equal(a.n_tested, 1);
}

/* The same runs in another order, with the same seed, give the same. */
static void test_order_does_not_matter(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	CLEANUP(analysis_release) struct analysis b = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 }, turned;

	(void)state;
	fill_growth(&s);
	turned = s;
	for (size_t i = 0; i < s.n; i++)
		turned.runs[i] = s.runs[s.n - 1 - i];
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_int_equal(analysis_run(turned.runs, s.n, 1, &b), 0);
	assert_int_equal(a.n, b.n);
	assert_string_equal(a.findings[0].sentence, b.findings[0].sentence);
	assert_true(a.findings[0].p == b.findings[0].p);
}

static void test_few_runs_are_suggestive_at_most(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };

	(void)state;
	for (int i = 0; i < 5; i++)
		add_run(&s, i < 2, i < 2 ? 900 + i : 100 + i);
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.findings[0].grade, GRADE_SUGGESTIVE);
	assert_false(a.findings[0].is_tested);
	assert_true(isnan(a.findings[0].p));
	assert_near(a.findings[0].p_floor, 0.1, 1e-12);
	assert_string_equal(
		a.findings[0].sentence,
		"suggestive: 2 of 2 failures and 0 of 3 passes of `train.py` were runs whose peak "
		"memory was more than 502 MB; 5 runs cannot give a p below 0.10 (censored: a "
		"failure cuts this short)");
	analysis_release(&a);
	assert_int_equal(analysis_run(s.runs, 4, 1, &a), 0); /* 2 and 2: nothing to tell */
	assert_int_equal(a.n, 0);
}

static void test_censored_is_said(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };

	(void)state;
	for (int i = 0; i < 20; i++)
		add_run(&s, i < 8, 500)->wall_seconds = i < 8 ? 3 + i : 100 + i;
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_int_equal(a.n, 1);
	assert_true(a.findings[0].is_censored);
	assert_non_null(strstr(a.findings[0].sentence, "consequence"));
}

static bool has_finding(const struct analysis *a, const char *feature)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->findings[i].feature, feature) == 0)
			return true;
	return false;
}

/* That what took too long took long, and what ran out of memory had much, is no finding. */
static void test_the_outcome_is_no_feature(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct run_record *run = add_run(&s, i < 8, i < 8 ? 900 + i : 100 + i);

		run->wall_seconds = i < 8 ? 60 : 10 + i;
		run->cpu_seconds = run->wall_seconds / 2;
		run->io_mb = i < 8 ? 50 + i : 10 + i;
		run->anomalies = i < 8 ? "oom_kill zombie" : "";
	}
	for (int i = 0; i < 4; i++)
		s.runs[i].outcome = i < 2 ? OUTCOME_TIMEOUT : OUTCOME_OOM;
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_false(has_finding(&a, "wall_seconds") || has_finding(&a, "cpu_seconds"));
	assert_false(has_finding(&a, "peak_rss_mb") || has_finding(&a, "anomaly:oom_kill"));
	assert_true(has_finding(&a, "io_mb") && has_finding(&a, "anomaly:zombie"));
	for (size_t i = 0; i < a.n; i++) { /* who had all the time there was has more of all */
		assert_true(a.findings[i].is_censored && a.findings[i].may_follow);
		assert_non_null(strstr(a.findings[i].sentence, "may be a consequence"));
	}
}

/* A verdict says that it was all right, not that it was not ended for its memory. */
static void test_a_verdict_does_not_make_a_feature_of_the_outcome(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };

	(void)state;
	for (int i = 0; i < 20; i++)
		add_run(&s, i < 8, i < 8 ? 900 + i : 100 + i)->measured =
			i < 8 ? OUTCOME_OOM : OUTCOME_NONE;
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_int_equal(a.n, 0);
}

/* Who died before the minute has no value after a minute: the class takes an earlier moment. */
static void test_early_values_are_comparable(void **state)
{
	CLEANUP(features_release) struct features f = { .arena = ARENA_INIT };
	const struct run_record *runs[20];
	struct sample s = { .n = 0 };

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct run_record *run = add_run(&s, i < 8, 500);

		for (size_t h = 0; h < (i < 8 ? 2 : RUN_HORIZONS); h++)
			run->early_rss_mb[h] = 10.0 * (double)h + i;
		runs[i] = run;
	}
	assert_int_equal(features_build(runs, 20, &f), 0);
	assert_int_equal(f.n, 1); /* the peak is the same for all */
	assert_string_equal(f.items[0].key, "early_rss_mb@15");
	assert_string_equal(f.items[0].when, "in the first 15 s");
	assert_near(feature_value("early_rss_mb@15", runs[3]), 13, 1e-12);
	assert_true(isnan(feature_value("early_rss_mb@60", runs[3])));
	assert_true(isnan(feature_value("no such", runs[3])));
}

static void test_yes_or_no_and_shares(void **state)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };

	(void)state;
	for (int i = 0; i < 16; i++) {
		struct run_record *run = add_run(&s, i < 8, 500);

		run->anomalies = i < 8 ? "memory_spike zombie" : i < 12 ? "zombie" : "";
		run->syscalls = i < 8 ? "futex 90 read 10" : "futex 20 read 80";
		run->host = i % 2 ? "a" : "b";
	}
	assert_int_equal(analysis_run(s.runs, s.n, 1, &a), 0);
	assert_true(a.n >= 2);
	for (size_t i = 0; i < a.n; i++) {
		if (a.findings[i].grade != GRADE_SUPPORTED)
			continue;
		assert_true(strstr(a.findings[i].sentence, "futex") ||
			    strstr(a.findings[i].sentence, "read") ||
			    strstr(a.findings[i].sentence, "with the anomaly memory_spike"));
		assert_null(strstr(a.findings[i].sentence, "host"));
	}
}

/* Two hundred classes of noise and one with something in it, which must still be found. */
static void test_many_classes_pay_together(void **state)
{
	static struct run_record runs[200 * 10 + 21];
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct sample s = { .n = 0 };
	uint64_t seed = 99;
	size_t n = 0;

	(void)state;
	fill_growth(&s);
	s.runs[4].outcome = OUTCOME_OOM; /* now all that grew fast failed, and nobody else */
	s.runs[15].outcome = OUTCOME_SUCCESS;
	for (size_t c = 0; c < 200; c++)
		for (int i = 0; i < 10; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			runs[n] = s.runs[0];
			runs[n].class.command = 1000 + c;
			runs[n].class.label = "noise";
			runs[n].job_id = NULL;
			runs[n].attempt = (int64_t)(1000 + n);
			runs[n].outcome = i < 4 ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
			runs[n++].rss_slope_mb_s[2] = (double)(seed >> 40);
		}
	for (size_t i = 0; i < s.n; i++)
		runs[n++] = s.runs[i];
	assert_int_equal(analysis_run(runs, n, 1, &a), 0);
	assert_int_equal(a.n_tested, 201);
	assert_true(a.n >= 1);
	for (size_t i = 0; i < a.n; i++)
		if (a.findings[i].grade == GRADE_SUPPORTED)
			assert_string_equal(a.findings[i].label, "train.py");
	assert_int_equal(a.findings[0].grade, GRADE_SUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_retries_count_once),
		cmocka_unit_test(test_a_retry_needs_no_id),
		cmocka_unit_test(test_other_input_is_no_retry),
		cmocka_unit_test(test_effect_by_hand),
		cmocka_unit_test(test_effect_as_the_slow_way),
		cmocka_unit_test(test_effect_below),
		cmocka_unit_test(test_a_finding_in_words),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_few_runs_are_suggestive_at_most),
		cmocka_unit_test(test_censored_is_said),
		cmocka_unit_test(test_the_outcome_is_no_feature),
		cmocka_unit_test(test_a_verdict_does_not_make_a_feature_of_the_outcome),
		cmocka_unit_test(test_early_values_are_comparable),
		cmocka_unit_test(test_yes_or_no_and_shares),
		cmocka_unit_test(test_many_classes_pay_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
