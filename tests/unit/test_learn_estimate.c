#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "draws.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/learn.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))
#define MAX_RUNS 200

struct past {
	struct run_record runs[MAX_RUNS];
	size_t n;
};

static struct run_record *add_run(struct past *past, double peak_mb, double cpu_seconds)
{
	struct run_record *run = &past->runs[past->n++];

	run_record_init(run);
	run->is_whole = true;
	run->outcome = OUTCOME_SUCCESS;
	run->peak_rss_mb = peak_mb;
	run->cpu_seconds = cpu_seconds;
	run->wall_seconds = 2 * cpu_seconds;
	return run;
}

static void test_no_history_is_no_data(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	assert_int_equal(estimate_from_runs(past.runs, 0, &e), 0);
	assert_int_equal(e.n_runs, 0);
	assert_true(isnan(e.peak_rss_mb) && isnan(e.cpu_seconds) && isnan(e.peak_coverage));
	add_run(&past, 100, 1)->outcome = OUTCOME_CANCELLED;
	add_run(&past, NAN, 1);
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_int_equal(e.n_runs, 0);
}

/* 9 runs: the largest, 9 of 10. 39 runs: ceil(40 * 0.95) = the 38th, 38 of 40. */
static void test_order_statistics(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 9; i++)
		add_run(&past, 100 + (i * 4) % 9, i + 1);
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_int_equal(e.n_runs, 9);
	assert_near(e.peak_rss_mb, 108, 0);
	assert_near(e.peak_coverage, 0.9, 1e-12);
	assert_near(e.cpu_seconds, 5, 0);
	assert_near(e.cpu_high_seconds, 9, 0); /* ceil(10 * 0.9) = the 9th */
	assert_near(e.cpu_coverage, 0.9, 1e-12);
	assert_near(e.wall_seconds, 10, 0);
	past.n = 0;
	for (int i = 0; i < 39; i++)
		add_run(&past, 1000 + (i * 19) % 39, i);
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_near(e.peak_rss_mb, 1037, 0);
	assert_near(e.looser_rss_mb, 1031, 0); /* the 32nd */
	assert_near(e.looser_coverage, 32.0 / 40, 1e-12);
	assert_near(e.peak_coverage, 38.0 / 40, 1e-12);
}

/* Killed at 200 MB: it wanted more. 240 is not known to be enough, so it covers 4 of 6. */
static void test_killed_runs_are_lower_bounds(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;
	struct estimate_score score;

	(void)state;
	for (int i = 0; i < 4; i++)
		add_run(&past, 100 + (2 * i + 2) % 5, 1);
	add_run(&past, 200, 1)->outcome = OUTCOME_OOM;
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_int_equal(e.n_censored, 1);
	assert_near(e.peak_rss_mb, 240, 1e-9);
	assert_near(e.peak_coverage, 4.0 / 6, 1e-12);
	score = estimate_judge(&e, &past.runs[0]);
	assert_int_equal(score.is_peak_covered, 1);
	assert_int_equal(score.is_cpu_covered, 1);
	past.runs[4].peak_rss_mb = 230; /* killed within it: who knows */
	assert_int_equal(estimate_judge(&e, &past.runs[4]).is_peak_covered, -1);
	past.runs[4].peak_rss_mb = 250;
	assert_int_equal(estimate_judge(&e, &past.runs[4]).is_peak_covered, 0);
}

static void test_after_a_change_only_new_runs_count(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 30; i++)
		add_run(&past, 4000 + 10 * (i % 5), 1);
	for (int i = 0; i < 8; i++)
		add_run(&past, 1000 + 10 * (i % 3), 1);
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_int_equal(e.n_runs, 8);
	assert_int_equal(e.n_left_out, 30);
	assert_near(e.peak_rss_mb, 1020, 0);
	assert_near(e.peak_coverage, 8.0 / 9, 1e-12);
}

static void test_ladder(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 9; i++)
		add_run(&past, 100 * (i * 4 % 9 + 1), 1);
	estimate_init(&e);
	assert_int_equal(estimate_try_rung(past.runs, 0, RUNG_EXACT, &e), 0);
	assert_false(estimate_is_enough(&e));
	assert_int_equal(e.n_runs, 0);
	assert_int_equal(estimate_try_rung(past.runs, 2, RUNG_MASKED, &e), 0);
	assert_false(estimate_is_enough(&e)); /* two are too few… */
	assert_int_equal(e.n_runs, 2);
	assert_int_equal(estimate_try_rung(past.runs, 2, RUNG_PROGRAM, &e), 0);
	assert_int_equal(e.rung, RUNG_MASKED); /* …unless nobody has more */
	assert_int_equal(estimate_try_rung(past.runs, 9, RUNG_PROGRAM, &e), 0);
	assert_true(estimate_is_enough(&e));
	assert_int_equal(e.rung, RUNG_PROGRAM);
	assert_int_equal(e.n_runs, 9);
	assert_near(e.peak_rss_mb, 900, 0);
}

/* Ended for taking too long: 10 s of CPU time, and who knows how many more. */
static void test_runs_that_took_too_long_are_lower_bounds(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 4; i++)
		add_run(&past, 100, 1 + i);
	add_run(&past, 100, 10)->outcome = OUTCOME_TIMEOUT;
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_near(e.cpu_high_seconds, 12, 1e-9);
	assert_near(e.cpu_coverage, 4.0 / 6, 1e-12);
	assert_near(e.peak_coverage, 5.0 / 6, 1e-12); /* its memory was enough for it */
	assert_int_equal(estimate_judge(&e, &past.runs[4]).is_cpu_covered, -1);
	assert_int_equal(estimate_judge(&e, &past.runs[3]).is_cpu_covered, 1);
}

/* What the runs of a class are like. */
enum world { STEADY, WILD, STEPPED, LIMITED, DRIFTING, N_WORLDS = DRIFTING + 3 };
static const char *const world_names[] = {
	"steady",
	"wild tails",
	"a step before the last 8",
	"killed above a limit",
	"growing 1 % a run",
	"the same, noise of 1 %",
	"the same, noise of 5 %",
};

static const double drift_noise[] = { 0.3, 0.01, 0.05 };

/* What the ith of n runs needs, in MB. */
static double need_of(struct rng *rng, enum world world, size_t i, size_t n)
{
	double normal = rng_normal(rng);

	if (world == WILD)
		return exp(6 + 0.3 * normal / fmax(fabs(rng_normal(rng)), 0.05));
	if (world == STEPPED)
		return exp((i + 8 < n ? 6 : 7) + 0.1 * normal);
	if (world >= DRIFTING)
		return exp(6 + drift_noise[world - DRIFTING] * normal + 0.01 * (double)i);
	return exp(6 + 0.3 * normal);
}

#define LIMIT_MB 600.0 /* one run in 11 needs more */

/* 1: the next run stays within what is said of n before it; 0: it does not. */
static int ask_once(struct rng *rng, enum world world, size_t n, double *promised)
{
	struct past past = { .n = 0 };
	struct estimate e;

	for (size_t i = 0; i < n; i++) {
		double need = need_of(rng, world, i, n);
		bool is_killed = world == LIMITED && need > LIMIT_MB;

		add_run(&past, is_killed ? LIMIT_MB : need, 1)->outcome =
			is_killed ? OUTCOME_OOM : OUTCOME_SUCCESS;
	}
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	*promised += e.peak_coverage;
	return need_of(rng, world, n, n) <= e.peak_rss_mb;
}

/*
 * The promise is kept: over many histories the next run is covered at least as often as
 * was said, and nearly as often where runs need more and more.
 */
static void test_coverage_is_what_it_says(void **state)
{
	static const size_t sizes[] = { 3, 9, 19, 60, 150 };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 60421);
	print_message("# runs  what they are like         promised  realised\n");
	for (enum world world = 0; world < N_WORLDS; world++)
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			double promised = 0, realised = 0;

			for (int round = 0; round < 2000; round++)
				realised += ask_once(&rng, world, sizes[k], &promised) / 2000.0;
			promised /= 2000;
			print_message("# %4zu  %-26s %.3f     %.3f\n", sizes[k], world_names[world],
				      promised, realised);
			/* Of three runs nobody knows whether they grow. */
			if (world < DRIFTING || sizes[k] > 3)
				assert_true(realised >=
					    promised - (world < DRIFTING ? 0.03 : 0.05));
			if (world == STEADY)
				assert_true(realised <= promised + 0.03);
		}
}

/* Twelve runs, each 1 % more than the one before: the next is the thirteenth. */
static void test_growth_goes_on(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 12; i++)
		add_run(&past, 100 * pow(1.01, i), 1);
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_near(e.peak_rss_mb, 100 * pow(1.01, 12), 0.01);
	past.n = 0;
	for (int i = 0; i < 12; i++) /* what needs less and less needs no more than it did */
		add_run(&past, 100 * pow(0.99, i), 1);
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_true(e.peak_rss_mb <= 100);
}

static void test_steps_add_up(void **state)
{
	struct estimate a, b;

	(void)state;
	estimate_init(&a);
	a.n_runs = 19;
	a.peak_rss_mb = 100;
	a.peak_coverage = 0.95;
	a.cpu_seconds = 3;
	b = a;
	b.peak_rss_mb = 300;
	b.peak_coverage = 0.9;
	b.n_runs = 9;
	estimate_add_step(&a, &b);
	assert_near(a.peak_rss_mb, 300, 0);
	assert_near(a.peak_coverage, 0.85, 1e-12);
	assert_near(a.cpu_seconds, 6, 0);
	assert_int_equal(a.n_runs, 9);
	assert_true(isnan(a.cpu_coverage) && isnan(a.cpu_high_seconds)); /* nobody knows, not 0 */
	b.peak_rss_mb = b.peak_coverage = NAN;
	estimate_add_step(&a, &b);
	assert_true(isnan(a.peak_rss_mb) && isnan(a.peak_coverage));
	estimate_init(&b);
	estimate_add_step(&a, &b);
	assert_int_equal(a.n_runs, 0);
	assert_true(isnan(a.peak_rss_mb) && isnan(a.cpu_seconds));
}

/* ---- admission ---- */

static struct admit_answer ask(double limit, double used, double wanted, double promised,
			       enum pressure_level level)
{
	const struct pressure pressure = { .level = level, .reason = "because" };
	const struct admit_running running = { 100, 100 + promised, 90, 60 };
	struct admit_answer answer;
	struct estimate e;
	struct admit_question q = { &e, &running, 1, &pressure, limit, used };

	estimate_init(&e);
	e.n_runs = isnan(wanted) ? 0 : 5;
	e.peak_rss_mb = wanted;
	admit_decide(&q, &answer);
	return answer;
}

static void test_admission(void **state)
{
	struct admit_answer a = ask(1000, 300, 200, 100, PRESSURE_NONE);

	(void)state;
	assert_int_equal(a.decision, ADMIT);
	assert_int_equal(a.delay_seconds, 0);
	assert_near(a.headroom_mb, 250, 1e-9); /* 850 - 300 - 100 - 200 */
	a = ask(1000, 300, 200, 400, PRESSURE_LOW);
	assert_int_equal(a.decision, ADMIT_DELAY);
	assert_int_equal(a.delay_seconds, 30); /* the running one should be over by then */
	assert_non_null(strstr(a.reason, "400 MB more"));
	a = ask(1000, 300, 900, 0, PRESSURE_NONE);
	assert_int_equal(a.decision, ADMIT_REJECT); /* it never fits */
	assert_true(a.is_for_good);
	a = ask(1000, 300, 10, 0, PRESSURE_HIGH);
	assert_int_equal(a.decision, ADMIT_REJECT);
	assert_false(a.is_for_good);
	assert_non_null(strstr(a.reason, "high (because)"));
	a = ask(1000, 300, NAN, 0, PRESSURE_MEDIUM);
	assert_int_equal(a.decision, ADMIT);
	assert_int_equal(a.delay_seconds, 10);
	assert_true(isnan(a.headroom_mb));
	a = ask(NAN, NAN, 10, 0, PRESSURE_NONE);
	assert_int_equal(a.decision, ADMIT);
	assert_non_null(strstr(a.reason, "cannot be read"));
}

/* ---- classes ---- */

static void assert_label(const char *command, const char *label)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	class_add_label(command, &out);
	assert_string_equal(out.data, label);
}

static void test_classes(void **state)
{
	CLEANUP(buf_release) struct buf masked = BUF_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct class_source source = { "/opt/x/train.py --lr 0.1 /data/a", 1, 5, 1, 1000, 4096 };
	struct run_class a, b;

	(void)state;
	assert_label("/usr/bin/python3.11 -u src/train.py --lr 1", "train.py");
	assert_label("bash -c 'echo a'", "bash");
	assert_label("/bin/bash -lc 'cd /x && make'", "bash");
	assert_label("perl -we 'print 1'", "perl");
	assert_label("bash -e build.sh", "build.sh");
	assert_label("python3 -m http.server", "http.server");
	assert_label("/bin/sleep 5", "sleep");
	assert_label("", "?");
	assert_label("bin/run/ x", "run");
	assert_label("/", "/");
	assert_label("python3", "python3");
	class_mask_command("python3 src/train.py --lr=1.5e-3 --data=/x/y -n 12 run7b", &masked);
	assert_string_equal(masked.data, "train.py PATH --lr=# --data=PATH -n # run#b");
	assert_int_equal(class_describe(&source, &arena, &a), 0);
	source.command = "/opt/x/train.py --lr 0.2 /data/b";
	source.argv_hash = 6;
	source.input_bytes = 4100; /* from 4096 up to 8191 is one bucket */
	assert_int_equal(class_describe(&source, &arena, &b), 0);
	assert_true(a.rungs[RUNG_EXACT] != b.rungs[RUNG_EXACT]);
	assert_true(a.rungs[RUNG_MASKED] == b.rungs[RUNG_MASKED]);
	assert_true(a.command == b.command);
	source.input_bytes = 9000;
	assert_int_equal(class_describe(&source, &arena, &b), 0);
	assert_true(a.rungs[RUNG_MASKED] != b.rungs[RUNG_MASKED]);
	assert_true(a.rungs[RUNG_PROGRAM] == b.rungs[RUNG_PROGRAM]);
	source.n_sheets = 3;
	assert_int_equal(class_describe(&source, &arena, &b), 0);
	assert_true(a.rungs[RUNG_PROGRAM] != b.rungs[RUNG_PROGRAM]);
	assert_string_equal(b.label, "train.py (3 sheets)");
	source.n_sheets = 1;
	source.uid = 1001;
	assert_int_equal(class_describe(&source, &arena, &b), 0);
	assert_true(a.rungs[RUNG_PROGRAM] != b.rungs[RUNG_PROGRAM]);
	assert_string_equal(b.label, "train.py");
}

/* A person may call it a success: it would still have needed more. */
static void test_a_verdict_does_not_lift_censoring(void **state)
{
	struct past past = { .n = 0 };
	struct estimate e;

	(void)state;
	for (int i = 0; i < 4; i++)
		add_run(&past, 100, 1);
	add_run(&past, 200, 2)->measured = OUTCOME_OOM;
	add_run(&past, 50, 10)->measured = OUTCOME_TIMEOUT;
	add_run(&past, 900, 900)->measured = OUTCOME_CANCELLED;
	assert_int_equal(estimate_from_runs(past.runs, past.n, &e), 0);
	assert_int_equal(e.n_runs, 6);
	assert_int_equal(e.n_censored, 1);
	assert_near(e.peak_rss_mb, 240, 1e-9);
	assert_near(e.peak_coverage, 5 / 7.0, 1e-9);
	assert_near(e.cpu_high_seconds, 12, 1e-9);
	assert_int_equal(estimate_judge(&e, &past.runs[4]).is_peak_covered, -1);
	assert_int_equal(estimate_judge(&e, &past.runs[6]).is_peak_covered, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_history_is_no_data),
		cmocka_unit_test(test_order_statistics),
		cmocka_unit_test(test_killed_runs_are_lower_bounds),
		cmocka_unit_test(test_after_a_change_only_new_runs_count),
		cmocka_unit_test(test_a_verdict_does_not_lift_censoring),
		cmocka_unit_test(test_ladder),
		cmocka_unit_test(test_runs_that_took_too_long_are_lower_bounds),
		cmocka_unit_test(test_coverage_is_what_it_says),
		cmocka_unit_test(test_growth_goes_on),
		cmocka_unit_test(test_steps_add_up),
		cmocka_unit_test(test_admission),
		cmocka_unit_test(test_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
