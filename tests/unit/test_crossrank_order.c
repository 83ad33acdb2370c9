/*
 * Ranks that do the same after their own starts take more or less time for it: who is the first of
 * them says nothing, and who leads others that started whenever they did is still named.
 */
#include "rank_jobs.h"

#define JOBS ROUNDS(40)

static struct job staggered_job(double slope)
{
	struct job job = { .slope = slope,
			   .rise = 1500,
			   .noise = 20,
			   .interval = 1,
			   .length = 90,
			   .one_host = true };

	for (int i = 0; i < RANKS; i++)
		job.start[i] = uniform(0, 6);
	return job;
}

/* *n_in_order: how many of the others are said to go by their starts, and not just to be close. */
static int count_named_by_start(double slope, double jitter, int *n_in_order)
{
	int n = 0;

	for (int i = 0; i < JOBS; i++) {
		struct job job = staggered_job(slope);
		struct answer answer;

		for (int k = 0; k < RANKS; k++)
			job.onset[k] = job.start[k] + 35 + jitter * normal();
		answer = ask(&job);
		n += answer.verdict == VERDICT_NAMED;
		*n_in_order += answer.why == WHY_IN_ORDER;
	}
	print_message("# after its own start, give or take %.1f s: %d of %d named\n", jitter, n,
		      JOBS);
	return n;
}

static void test_the_order_of_starts_names_nobody(void **unused)
{
	int n_in_order = 0;

	(void)unused;
	state = 21;
	for (double jitter = 0; jitter < 0.7; jitter += 0.3) {
		assert_true(count_named_by_start(100, jitter, &n_in_order) <= 1 + 0.05 * JOBS);
		assert_true(count_named_by_start(INFINITY, jitter, &n_in_order) <= 1 + 0.05 * JOBS);
	}
	print_message("# %d of %d in the order of their starts\n", n_in_order, 6 * JOBS);
	assert_true(n_in_order >= 0.1 * 6 * JOBS);
}

static void test_who_leads_is_named_whoever_started(void **unused)
{
	int n_right = 0;

	(void)unused;
	state = 22;
	for (int i = 0; i < JOBS; i++) {
		struct job job = staggered_job(100);
		double at = uniform(40, 50);
		int leader = (int)uniform(0, RANKS);
		struct answer answer;

		for (int k = 0; k < RANKS; k++)
			job.onset[k] = at + (k == leader ? 0 : uniform(2, 5));
		answer = ask(&job);
		assert_true(answer.verdict != VERDICT_NAMED || answer.rank == leader);
		n_right += answer.verdict == VERDICT_NAMED;
	}
	print_message("# 2 to 5 s ahead: %d of %d named\n", n_right, JOBS);
	assert_true(n_right >= 0.9 * JOBS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_order_of_starts_names_nobody),
		cmocka_unit_test(test_who_leads_is_named_whoever_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
