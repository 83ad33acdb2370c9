/*
 * Whether the rises of several ranks have to do with each other: short records of real programs,
 * whose memory grows in small blocks beside nothing that scatters, with a leader and without.
 */
#include "rank_jobs.h"

#define LEADER 1
#define JOBS 40
#define CHANCE_JOBS ROUNDS(300)
#define PART_JOBS ROUNDS(150)

/* As a program that takes 1 MiB every 0.1 s; proctor looks every 0.25 s. */
static struct job small_blocks(int n_ranks, double length)
{
	struct job job = { .n_ranks = n_ranks,
			   .base = 44,
			   .slope = 10,
			   .rise = INFINITY,
			   .block = 1,
			   .interval = 0.25,
			   .length = length,
			   .one_host = true };
	double from = uniform(0, 0.25);

	for (int i = 0; i < RANKS; i++) {
		job.start[i] = from;
		job.filled[i] = 0.99;
	}
	return job;
}

static struct job leading(int n_ranks, double lead)
{
	struct job job = small_blocks(n_ranks, 11);
	double at = uniform(4, 4.5);

	for (int i = 0; i < RANKS; i++)
		job.onset[i] = i == LEADER ? at : at + lead;
	return job;
}

/* With one rank that rises long after the others. */
static struct job trailing(int n_ranks, double lead)
{
	struct job job = leading(n_ranks, lead);

	job.onset[n_ranks - 1] += 3;
	return job;
}

/* A job without --interval, which is looked at ever more seldom; blocks of 4 MiB. */
static struct job slowing(int n_ranks, double lead)
{
	struct job job = small_blocks(n_ranks, 24);
	double at = uniform(10, 14);

	job.base = 14;
	job.slope = 8;
	job.block = 4;
	job.interval = 0.06;
	job.slower = 1.1;
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = 0.3;
		job.onset[i] = i == LEADER ? at : at + lead;
	}
	return job;
}

/* Steep beside the interval: an onset is known to much less than the time between two samples. */
static struct job seldom(int n_ranks, double lead)
{
	struct job job = small_blocks(n_ranks, 200);
	double at = uniform(90, 110);

	job.base = 500;
	job.slope = 20;
	job.block = 0;
	job.noise = 1;
	job.interval = 5;
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = uniform(0, 5);
		job.onset[i] = i == LEADER ? at : at + lead;
	}
	return job;
}

/* Steps that are far apart for their number, so that the first is alone in its episode. */
static struct job far_ahead(int n_ranks, double lead)
{
	struct job job = small_blocks(n_ranks, 12);
	double at = uniform(5, 6);

	job.base = 1000;
	job.noise = 3;
	job.slope = INFINITY;
	job.rise = 800;
	job.block = 0;
	for (int i = 0; i < RANKS; i++)
		job.onset[i] = i == LEADER ? at : at + lead + uniform(0, 0.4);
	return job;
}

static const struct kind {
	const char *name;
	struct job (*make)(int n_ranks, double lead);
	int n_ranks;
	double lead;
	double least, covered; /* so many are named, and so many onsets are inside, at least */
} kinds[] = {
	{ "small blocks", leading, 5, 0.5, 0.9, 0.85 },
	{ "small blocks", leading, 5, 1, 0.95, 0.85 },
	{ "small blocks", leading, 5, 2, 0.95, 0.85 },
	{ "small blocks", leading, 5, 4, 0.95, 0.85 },
	{ "small blocks", leading, 8, 4, 0.95, 0.85 },
	{ "one rank is late", trailing, 8, 2, 0.95, 0.85 },
	{ "far ahead", far_ahead, 8, 4, 0.95, 0.75 },
	{ "ever more seldom", slowing, 4, 2, 0.4, 0.75 },
	{ "every 5 s", seldom, 4, 2, 0.95, 0.85 },
	{ "every 5 s", seldom, 4, 0, 0, 0.85 },
	{ "small blocks", leading, 5, 0, 0, 0.85 },
	{ "ever more seldom", slowing, 4, 0, 0, 0.75 },
};

struct tally {
	int named, wrong, n_onsets, n_covered;
};

static struct tally try_kind(const struct kind *kind)
{
	struct tally t = { 0 };

	for (int i = 0; i < JOBS; i++) {
		struct job job = kind->make(kind->n_ranks, kind->lead);
		struct answer answer = ask(&job);
		bool is_named = answer.verdict == VERDICT_NAMED;

		t.named += is_named;
		t.wrong += is_named && (answer.rank != LEADER || kind->lead == 0);
		t.n_onsets += answer.n_onsets;
		t.n_covered += answer.n_covered;
	}
	return t;
}

static void test_leads(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct tally t;

		state = 600 + i;
		t = try_kind(&kinds[i]);
		print_message(
			"# %-16s %d ranks, %.1f s: %2d of %d named, %d wrong, %3d of %3d onsets "
			"inside\n",
			kinds[i].name, kinds[i].n_ranks, kinds[i].lead, t.named, JOBS, t.wrong,
			t.n_covered, t.n_onsets);
		assert_int_equal(t.wrong, 0);
		assert_true(t.named >= kinds[i].least * JOBS);
		assert_true(t.n_covered >= kinds[i].covered * t.n_onsets);
	}
}

/* Each rank rises at a time of its own, and one of them is the first: that says nothing. */
static int count_by_chance(int n_ranks)
{
	int named = 0;

	for (int i = 0; i < CHANCE_JOBS; i++) {
		struct job job = small_blocks(n_ranks, 12);

		for (int k = 0; k < n_ranks; k++)
			job.onset[k] = uniform(3, 11);
		named += ask(&job).verdict == VERDICT_NAMED;
	}
	return named;
}

static void test_by_chance(void **unused)
{
	static const int numbers[] = { 3, 5, 8 };

	(void)unused;
	state = 640;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int named = count_by_chance(numbers[i]);

		print_message("# %d ranks by chance: %d of %d named\n", numbers[i], named,
			      CHANCE_JOBS);
		assert_true(named <= 0.05 * CHANCE_JOBS);
	}
}

/* The same in three tenths of the record, as where it loads and idles for the rest. */
static int count_in_part(int n_ranks, bool is_step)
{
	int named = 0;

	for (int i = 0; i < PART_JOBS; i++) {
		struct job job = { .n_ranks = n_ranks,
				   .slope = is_step ? INFINITY : 60,
				   .rise = 600,
				   .noise = 3,
				   .interval = 1,
				   .length = 120,
				   .one_host = true };

		for (int k = 0; k < n_ranks; k++) {
			job.start[k] = uniform(0, 1);
			job.onset[k] = uniform(47, 83);
		}
		named += ask(&job).verdict == VERDICT_NAMED;
	}
	return named;
}

static void test_by_chance_in_part(void **unused)
{
	static const int numbers[] = { 3, 4, 5, 8 };

	(void)unused;
	state = 650;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int n_steps = count_in_part(numbers[i], true);
		int n_ramps = count_in_part(numbers[i], false);

		print_message("# %d ranks by chance in a part: steps %d, ramps %d of %d named\n",
			      numbers[i], n_steps, n_ramps, PART_JOBS);
		assert_true(n_steps + n_ramps <= (numbers[i] > 4 ? 0.07 : 0.1) * 2 * PART_JOBS);
	}
}

/* Each rank does the same so long after its own start; starts are further apart than an episode. */
static const struct staggered {
	const char *name;
	int n_ranks;
	double start[RANKS];
	double after, base, rise;
	enum why why;
} staggered[] = {
	{ "who loads last", 8, { 0, 1, 2, 3, 4, 5, 6, 18 }, 11, 200, 2000, WHY_START },
	{ "the last", 8, { 0, 1, 2, 3, 4, 5, 6, 12 }, 30, 200, 600, WHY_START },
	{ "the first", 8, { 0, 6, 7, 8, 9, 10, 11, 12 }, 30, 200, 600, WHY_START },
	{ "each is alone", 4, { 0, 5, 11, 15 }, 60, 200, 600, WHY_START },
	{ "all but the last at once", 8, { 0, 0, 0, 0, 0, 0, 0, 12 }, 30, 200, 600, WHY_START },
	{ "all but the first at once", 8, { 0, 9, 9, 9, 9, 9, 9, 9 }, 30, 200, 600, WHY_OWN_START },
};

static struct job make_staggered(const struct staggered *s)
{
	struct job job = { .n_ranks = s->n_ranks,
			   .base = s->base,
			   .slope = INFINITY,
			   .rise = s->rise,
			   .interval = 1,
			   .length = 120,
			   .one_host = true };

	for (int i = 0; i < s->n_ranks; i++) {
		job.start[i] = s->start[i];
		job.onset[i] = s->start[i] + s->after - 0.5;
	}
	return job;
}

static void test_staggered(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(staggered); i++) {
		struct job job = make_staggered(&staggered[i]);
		struct answer answer = ask(&job);

		print_message("# %s: %s\n", staggered[i].name, finding_why_name(answer.why));
		assert_int_equal(answer.why, staggered[i].why);
		assert_true(answer.n_onsets >= 0.8 * staggered[i].n_ranks);
	}
}

/* As programs on a busy machine are seen, which take more or less time until they are at work. */
static void test_staggered_busy(void **unused)
{
	static const double after[] = { 6.7, 6.6, 7.2, 6.5, 6.7, 6.5, 7, 6.3 };
	struct job job = make_staggered(&staggered[1]);
	struct answer answer;

	(void)unused;
	job.interval = 0.5;
	job.length = 25;
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = staggered[1].start[i] / 2;
		job.onset[i] = job.start[i] + after[i];
	}
	job.start[RANKS - 1] = 8.5;
	job.onset[RANKS - 1] = 8.5 + after[RANKS - 1];
	answer = ask(&job);
	assert_int_equal(answer.why, WHY_START);
}

/* One of them rises when none of its start would: that is its own doing. */
static void test_staggered_leader(void **unused)
{
	struct job job = make_staggered(&staggered[1]);
	struct answer answer;

	(void)unused;
	job.onset[LEADER] = 70;
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NAMED);
	assert_int_equal(answer.rank, LEADER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leads),
		cmocka_unit_test(test_by_chance),
		cmocka_unit_test(test_by_chance_in_part),
		cmocka_unit_test(test_staggered),
		cmocka_unit_test(test_staggered_busy),
		cmocka_unit_test(test_staggered_leader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
