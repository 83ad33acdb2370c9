/*
 * Which rank was first where something hides it: how much one takes, a pause in its rise, or
 * steps that are too short to be seen as such.
 */
#include "rank_jobs.h"

#define JOBS 40
#define LEADER 2

struct tally {
	int named, wrong, n_onsets, n_covered;
};

static void add_answer(const struct job *job, int leader, struct tally *t)
{
	struct answer answer = ask(job);

	t->named += answer.verdict == VERDICT_NAMED;
	t->wrong += answer.verdict == VERDICT_NAMED && answer.rank != leader;
	t->n_onsets += answer.n_onsets;
	t->n_covered += answer.n_covered;
}

/* ---- one that takes much more than the others ---- */

/* The others by 50 MiB/s, so much earlier. */
static struct job large_job(int large, double times, double earlier)
{
	struct job job = {
		.slope = 50, .rise = INFINITY, .noise = 20, .interval = 1, .length = 90
	};

	job.one_host = true;
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = uniform(0, 5);
		job.onset[i] = 40 - (i == large ? 0 : earlier);
	}
	job.own[large].slope = 50 * times;
	return job;
}

static void test_large_is_not_alone(void **unused)
{
	static const double times[] = { 4, 6, 8, 20 }, earlier[] = { 0, 1, 3, 12 };

	(void)unused;
	state = 1;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		for (size_t k = 0; k < ARRAY_SIZE(earlier); k++) {
			struct job job = large_job(3, times[i], earlier[k]);

			assert_int_not_equal(ask(&job).verdict, VERDICT_NAMED);
		}
}

static void test_large_hides_no_leader(void **unused)
{
	struct job job;

	(void)unused;
	state = 2;
	job = large_job(3, 8, 0);
	job.onset[6] = 37;
	assert_int_equal(ask(&job).rank, 6);
	job = large_job(3, 8, -3); /* it leads itself */
	assert_int_equal(ask(&job).rank, 3);
	assert_int_equal(ask(&job).why, WHY_FIRST);
}

/* What all did, and the one that takes much as well, is another thing than what it does then. */
static void test_large_after_all(void **unused)
{
	struct job job = large_job(3, 8, 0);

	(void)unused;
	state = 3;
	job.early_rise = 400;
	for (int i = 0; i < RANKS; i++) {
		job.onset[i] = i == 3 ? 40 : INFINITY;
		job.early[i] = 34;
	}
	assert_int_equal(ask(&job).rank, 3);
	assert_int_equal(ask(&job).why, WHY_ALONE);
}

/* ---- a pause ---- */

/* The leader rises by 80 MiB, which is nothing beside 20 GiB, and stands for 2 s. */
static struct job paused_job(double lead, double second)
{
	struct job job = {
		.base = 20000,
		.slope = 20,
		.rise = INFINITY,
		.noise = 2,
		.interval = 1,
		.length = 90,
		.one_host = true,
	};
	double start = uniform(0, 1);

	for (int i = 0; i < RANKS; i++) {
		job.start[i] = start;
		job.onset[i] = 40;
	}
	job.onset[LEADER] -= lead;
	job.onset[5] -= second;
	job.own[LEADER].rise = 80;
	job.own[LEADER].again = job.onset[LEADER] + 6;
	return job;
}

static void test_pause(void **unused)
{
	struct tally t = { 0 };

	(void)unused;
	state = 4;
	for (int i = 0; i < JOBS; i++) {
		struct job job = paused_job(4, i % 2 ? 1.5 : 0);

		add_answer(&job, LEADER, &t);
	}
	print_message("# a pause: %d of %d named, %d wrong\n", t.named, JOBS, t.wrong);
	assert_true(t.wrong == 0);
	assert_true(t.named >= 0.8 * JOBS);
}

/* ---- steps that are too short to be seen ---- */

static struct job stairs_job(double step, double lead, bool at_once)
{
	struct job job = {
		.base = 2000,
		.slope = 50 / step,
		.rise = INFINITY,
		.noise = 2,
		.interval = 1,
		.length = 90,
		.one_host = true,
	};
	double onset = uniform(40, 41);

	job.stair = step;
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = at_once ? 0.35 : uniform(0, 5);
		job.onset[i] = onset - (i == LEADER ? lead : 0);
	}
	return job;
}

static struct tally try_stairs(double step, double lead, bool at_once)
{
	struct tally t = { 0 };

	for (int i = 0; i < JOBS; i++) {
		struct job job = stairs_job(step, lead, at_once);

		add_answer(&job, lead > 0 ? LEADER : -1, &t);
	}
	print_message("# steps of %.2f s, %.1f s ahead%s: %d of %d named, %d wrong, "
		      "%d of %d onsets inside\n",
		      step, lead, at_once ? ", looked at at once" : "", t.named, JOBS, t.wrong,
		      t.n_covered, t.n_onsets);
	assert_true(t.n_covered >= 0.85 * t.n_onsets);
	return t;
}

/* When it is looked at is no order. */
static void test_stairs_together(void **unused)
{
	static const double steps[] = { 1, 0.98, 0.95, 0.5, 0.2 };
	int named = 0;

	(void)unused;
	state = 5;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		named += try_stairs(steps[i], 0, false).named;
	assert_true(named <= 0.03 * JOBS * ARRAY_SIZE(steps));
}

static void test_stairs_lead(void **unused)
{
	static const double leads[] = { 0.5, 2, 3 };

	(void)unused;
	state = 6;
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		struct tally t = try_stairs(1, leads[i], false);

		assert_true(t.wrong <= 0.05 * JOBS);
		if (leads[i] >= 2)
			assert_true(t.named >= 0.8 * JOBS);
	}
}

/* Of ranks that one collector looks at, the order is that of the samples. */
static void test_stairs_at_once(void **unused)
{
	struct tally t;

	(void)unused;
	state = 7;
	assert_true(try_stairs(1, 0, true).named == 0);
	assert_true(try_stairs(0.1, 0, true).named == 0);
	t = try_stairs(1, 1.2, true);
	assert_true(t.wrong == 0);
	assert_true(t.named >= 0.9 * JOBS);
}

/* Three ramps: what may be unseen between two samples makes two followers no less near. */
static void test_three_ranks(void **unused)
{
	static const double leads[] = { 2, 3, 4 };

	(void)unused;
	state = 8;
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		struct tally t = { 0 };

		for (int k = 0; k < JOBS; k++) {
			struct job job = { .base = 2000,
					   .slope = 200,
					   .rise = INFINITY,
					   .noise = 20,
					   .interval = 1,
					   .length = 60,
					   .n_ranks = 3,
					   .one_host = true };

			for (int rank = 0; rank < 3; rank++) {
				job.start[rank] = uniform(0, 1);
				job.onset[rank] = rank == LEADER ? 30 : 30 + leads[i];
			}
			add_answer(&job, LEADER, &t);
		}
		print_message("# three ranks, %.1f s ahead: %d of %d named, %d wrong\n", leads[i],
			      t.named, JOBS, t.wrong);
		assert_true(t.wrong == 0);
		assert_true(t.named >= 0.8 * JOBS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_is_not_alone),
		cmocka_unit_test(test_large_hides_no_leader),
		cmocka_unit_test(test_large_after_all),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_stairs_together),
		cmocka_unit_test(test_stairs_lead),
		cmocka_unit_test(test_stairs_at_once),
		cmocka_unit_test(test_three_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
