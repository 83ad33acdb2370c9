/*
 * Which rank was first, of many: one that leads among a hundred that do not is neither lost in
 * their number nor made up by it.
 */
#define RANKS 96
#include "rank_jobs.h"

#define LEADER 41
#define JOBS 12

/* Steps at 1 Hz, on one host: each has happened somewhere between two samples. */
static struct job steps(double lead)
{
	struct job job = { .base = 2000,
			   .slope = INFINITY,
			   .rise = 1500,
			   .noise = 3,
			   .interval = 1,
			   .length = 60,
			   .one_host = true };
	double at = uniform(28, 32);

	for (int i = 0; i < RANKS; i++) {
		job.start[i] = uniform(0, 1);
		job.onset[i] = i == LEADER ? at : at + lead;
	}
	return job;
}

static const struct kind {
	double lead;
	int n_ranks;	    /* the leader is among them where somebody leads */
	double least_named; /* so many are named at least, and rightly */
	double least_none;  /* nobody leads: so many are said to be the workload's at least */
} kinds[] = {
	{ 2, RANKS, 0.9, 0 }, { 1.5, RANKS, 0.5, 0 }, { 1.5, 48, 0.5, 0 },
	{ 0, RANKS, 0, 0.8 }, { 0, 8, 0, 0.8 },
};

struct tally {
	int named, wrong, none;
};

static struct tally try_kind(const struct kind *kind)
{
	struct tally t = { 0 };

	for (int i = 0; i < JOBS; i++) {
		struct job job = steps(kind->lead);
		struct answer answer;

		job.n_ranks = kind->n_ranks;
		answer = ask(&job);
		t.named += answer.verdict == VERDICT_NAMED;
		t.wrong += answer.verdict == VERDICT_NAMED &&
			   (kind->lead == 0 || answer.rank != LEADER);
		t.none += answer.verdict == VERDICT_NONE;
	}
	return t;
}

/* "None" is a claim, too: it is wrong where one leads by more than the samples are apart. */
static void test_many(void **unused)
{
	(void)unused;
	state = 700;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct tally t = try_kind(&kinds[i]);

		print_message("# %3d ranks, %g s: %2d of %d named, %d wrong, %2d none\n",
			      kinds[i].n_ranks, kinds[i].lead, t.named, JOBS, t.wrong, t.none);
		assert_int_equal(t.wrong, 0);
		assert_true(t.named >= kinds[i].least_named * JOBS);
		assert_true(t.none >= kinds[i].least_none * JOBS);
		assert_true(kinds[i].lead == 0 || t.none == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
