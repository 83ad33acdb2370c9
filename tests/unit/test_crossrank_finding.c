/*
 * Which rank was first: made-up jobs with a known answer. The error rates are those
 * that docs/ranks.md promises; the table is printed.
 */
#include "crossrank/wording/wording.h"

#include "rank_jobs.h"

/* ---- the bars ---- */

struct tally {
	int n, claimed, right, covered;
	double error;
};

static struct tally try_lead(double lead, int n)
{
	struct tally tally = { .n = n };

	for (int i = 0; i < n; i++) {
		int leader = (int)uniform(0, RANKS);
		struct job job;
		struct answer answer;

		make_job(&job, leader, lead);
		answer = ask(&job);
		if (answer.verdict != VERDICT_NAMED)
			continue;
		tally.claimed++;
		tally.right += answer.rank == leader;
		tally.covered +=
			answer.low <= job.onset[leader] && job.onset[leader] <= answer.high;
		tally.error += fabs(answer.onset - job.onset[leader]);
	}
	return tally;
}

static void test_bars(void **unused)
{
	static const double leads[] = { 0.5, 1, 2, 3, 5 };
	int claimed = 0, right = 0;

	(void)unused;
	state = 1;
	print_message("# lead  jobs  claimed  right  onset in its interval  mean error\n");
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		struct tally t = try_lead(leads[i], 100);

		print_message("# %.1f s  %4d  %5.1f %%  %5.1f %%  %5.1f %%  %.0f ms\n", leads[i],
			      t.n, 100.0 * t.claimed / t.n, 100.0 * t.right / t.claimed,
			      100.0 * t.covered / t.claimed, 1e3 * t.error / t.claimed);
		claimed += t.claimed;
		right += t.right;
		assert_true(t.right >= 0.95 * t.claimed);
		if (leads[i] >= 2)
			assert_true(t.claimed >= 0.95 * t.n);
	}
	assert_true(right >= 0.95 * claimed);
}

/* Nobody leads: whoever is named is named wrongly. */
static void test_nobody_leads(void **unused)
{
	struct tally t;

	(void)unused;
	state = 2;
	t = try_lead(0, 150);
	print_message("# no lead: %d of %d named\n", t.claimed, t.n);
	assert_true(t.claimed <= 0.05 * t.n);
}

/* ---- shapes and circumstances ---- */

/* All on one host, nothing left to chance but the noise. */
static struct job quiet_job(void)
{
	struct job job = { .slope = 200,
			   .rise = 3000,
			   .noise = 5,
			   .interval = 1,
			   .length = 80,
			   .one_host = true };

	for (int i = 0; i < RANKS; i++)
		job.onset[i] = INFINITY;
	for (int i = 0; i < RANKS; i++)
		job.start[i] = 0.1 * i;
	return job;
}

static void expect(const struct job *job, enum verdict verdict, enum why why, int64_t rank)
{
	struct answer answer = ask(job);

	if (answer.verdict != verdict || answer.why != why || answer.rank != rank)
		fail_msg("%s (%s), rank %d", finding_verdict_name(answer.verdict),
			 finding_why_name(answer.why), (int)answer.rank);
}

static void set_onsets(struct job *job, double at, int leader, double lead)
{
	for (int i = 0; i < RANKS; i++)
		job->onset[i] = at + (i == leader ? 0 : lead);
}

static void test_nothing_rises(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 3;
	expect(&job, VERDICT_NONE, WHY_NO_RISE, -1);
	job.noise = 60;
	expect(&job, VERDICT_NONE, WHY_NO_RISE, -1);
	job.noise = 0;
	expect(&job, VERDICT_NONE, WHY_NO_RISE, -1);
	job.is_saw = true;
	job.noise = 5;
	expect(&job, VERDICT_NONE, WHY_NO_RISE, -1);
}

static void test_one_rises(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 4;
	job.onset[5] = 40;
	expect(&job, VERDICT_NAMED, WHY_ALONE, 5);
	job.slope = 2; /* a slow leak */
	expect(&job, VERDICT_NAMED, WHY_ALONE, 5);
	job.slope = INFINITY;
	job.rise = 500;
	expect(&job, VERDICT_NAMED, WHY_ALONE, 5);
	job.noise = 0;
	expect(&job, VERDICT_NAMED, WHY_ALONE, 5);
	job.is_saw = true; /* over teeth that all have */
	job.rise = 2000;
	expect(&job, VERDICT_NAMED, WHY_ALONE, 5);
}

static void test_steps(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 5;
	job.slope = INFINITY;
	job.rise = 400;
	set_onsets(&job, 30.5, 2, 4);
	expect(&job, VERDICT_NAMED, WHY_FIRST, 2);
	set_onsets(&job, 30.5, 2, 15);
	expect(&job, VERDICT_NAMED, WHY_FIRST, 2);
	set_onsets(&job, 30.5, 2, 2);
	expect(&job, VERDICT_NAMED, WHY_FIRST, 2);
}

static void test_workload(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 6;
	set_onsets(&job, 40, 0, 0);
	expect(&job, VERDICT_NONE, WHY_SHARED, -1);
	/* Each ten seconds after its own start, and starts are apart. */
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = 1.7 * i;
		job.onset[i] = job.start[i] + 10;
	}
	assert_int_equal(ask(&job).verdict, VERDICT_NONE);
}

/* Noise as large as what is gained in a second: that nobody led by less than one did is wrong. */
static void test_no_lead_is_denied(void **unused)
{
	int n_shared = 0;

	(void)unused;
	state = 11;
	for (int i = 0; i < 40; i++) {
		double lead = i % 2 ? 1.5 : 0;
		struct job job = quiet_job();
		struct answer answer;

		job.slope = 100;
		job.noise = i % 4 < 2 ? 100 : 10;
		set_onsets(&job, uniform(40, 41), 2, lead);
		for (int k = 0; k < RANKS; k++)
			job.start[k] = uniform(0, 1);
		answer = ask(&job);
		n_shared += answer.why == WHY_SHARED;
		assert_true(isnan(answer.lead_below) == (answer.why != WHY_SHARED));
		assert_false(answer.lead_below < lead);
	}
	assert_true(n_shared >= 8); /* where there is little noise, and no lead */
}

/* A rise that all have at the start does not hide the one that matters. */
static void test_two_episodes(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 7;
	job.rise = 600;
	set_onsets(&job, 55, 6, 3);
	job.is_startup = true;
	expect(&job, VERDICT_NAMED, WHY_FIRST, 6);
}

static void test_clocks(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 8;
	job.one_host = false;
	set_onsets(&job, 40, 1, 2);
	expect(&job, VERDICT_NAMED, WHY_FIRST, 1);
	job.has_free_clock = true;
	expect(&job, VERDICT_CANNOT_TELL, WHY_CLOCKS, -1);
	job.one_host = true; /* one clock is in order with itself */
	expect(&job, VERDICT_NAMED, WHY_FIRST, 1);
}

static void test_unseen(void **unused)
{
	struct job job = quiet_job();

	(void)unused;
	state = 9;
	set_onsets(&job, 40, 1, 2);
	job.start[3] = 45; /* its record begins when it rises already */
	expect(&job, VERDICT_CANNOT_TELL, WHY_UNSEEN, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bars),
		cmocka_unit_test(test_nobody_leads),
		cmocka_unit_test(test_nothing_rises),
		cmocka_unit_test(test_one_rises),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_workload),
		cmocka_unit_test(test_no_lead_is_denied),
		cmocka_unit_test(test_two_episodes),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_unseen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
