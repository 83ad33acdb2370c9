/*
 * Which rank was first, where something else happens as well: ranks that load at their start,
 * an earlier rise of all in no order, noise that wanders, a disturbance that all share. The
 * table is printed; docs/ranks.md has it.
 */
#include "rank_jobs.h"

#include "crossrank/startup.h"

/* ---- kinds of jobs; at 4 Hz and quiet, as RSS is, unless said otherwise ---- */

static void make_quiet(struct job *job, int leader, double lead)
{
	double at = uniform(20, 25);

	*job = (struct job){
		.slope = 10, .rise = 60, .noise = 0.1, .interval = 0.25, .length = 40
	};
	for (int i = 0; i < RANKS; i++) {
		job->onset[i] = lead < 0 ? INFINITY : at + (i == leader ? 0 : lead);
		job->start[i] = uniform(0, 2);
	}
	job->one_host = true;
}

static void make_loading(struct job *job, int leader, double lead)
{
	make_quiet(job, leader, lead);
	job->loaded = uniform(20, 120);
	for (int i = 0; i < RANKS; i++) {
		job->loads[i] = uniform(2, 5);
		job->idle[i] = uniform(0.3, 1.2);
	}
}

static void make_pausing(struct job *job, int leader, double lead)
{
	make_loading(job, leader, lead);
	job->pause = uniform(0.5, 1);
}

/* It rests for about as long as it loaded. */
static void make_soon(struct job *job, int leader, double lead)
{
	make_loading(job, leader, lead);
	for (int i = 0; i < RANKS; i++)
		job->onset[i] -= 13;
}

static void make_early(struct job *job, int leader, double lead)
{
	make_quiet(job, leader, lead);
	job->early_rise = uniform(20, 60);
	for (int i = 0; i < RANKS; i++)
		job->early[i] = uniform(8, 12);
}

static void make_stairs(struct job *job, int leader, double lead)
{
	make_quiet(job, leader, lead);
	job->slope = 30;
	job->stair = 2.5;
	job->rise = 400;
}

static void make_faster(struct job *job, int leader, double lead)
{
	make_quiet(job, leader, lead);
	job->slope = 3;
	job->power = 2;
	job->rise = INFINITY;
}

/*
 * Each when the one before is done, nearly, and until all have: two or three of eight, some
 * seconds apart, are no row.
 */
static void make_row(struct job *job, int leader, double lead)
{
	make_quiet(job, leader, lead);
	job->length = 80;
	for (int i = 0; lead > 0 && i < RANKS; i++)
		if (i != leader)
			job->onset[i] = job->onset[leader] + lead * (1 + i);
}

/* 1 Hz and 20 MiB of noise, ramps of 200 MiB/s, starts up to 15 s apart. */
static void make_noisy(struct job *job, int leader, double lead)
{
	make_job(job, leader, lead < 0 ? 0 : lead);
	for (int i = 0; lead < 0 && i < RANKS; i++)
		job->onset[i] = INFINITY;
}

static void make_wandering(struct job *job, int leader, double lead)
{
	make_noisy(job, leader, lead);
	job->noise = 5;
	job->wander = 20;
}

static void make_shared(struct job *job, int leader, double lead)
{
	make_noisy(job, leader, lead);
	job->noise = 5;
	job->shared = 40;
}

static void make_shaken(struct job *job, int leader, double lead)
{
	make_noisy(job, leader, lead);
	job->quake = 300;
	job->quake_at = uniform(18, 22);
}

/* ---- what is answered ---- */

#define JOBS ROUNDS(30) /* of each kind, with each lead */
#define NOBODY (-1.0)
#define AT_ONCE 0.0

struct kind {
	const char *name;
	void (*make)(struct job *job, int leader, double lead);
	bool has_order; /* somebody is first even where no rank leads */
	bool is_hard;	/* it may say that it cannot tell */
};

static const struct kind kinds[] = {
	{ "nothing else", make_noisy, false, false },
	{ "ranks load for 2 to 5 s", make_loading, false, false },
	{ "and pause in between", make_pausing, false, false },
	{ "and rest for 3 to 8 s only", make_soon, false, false },
	{ "all step up before, in any order", make_early, true, false },
	{ "in stairs", make_stairs, false, false },
	{ "ever faster", make_faster, false, true },
	{ "one rank after the other", make_row, false, false },
	{ "noise wanders", make_wandering, false, false },
	{ "a disturbance of all wanders", make_shared, false, false },
	{ "a disturbance of all, a step", make_shaken, false, false },
};

struct tally {
	int claimed, right;
};

static struct tally try_kind(const struct kind *kind, double lead)
{
	struct tally tally = { 0 };

	for (int i = 0; i < JOBS; i++) {
		int leader = (int)uniform(0, RANKS);
		struct answer answer;
		struct job job;

		kind->make(&job, leader, lead);
		answer = ask(&job);
		tally.claimed += answer.verdict == VERDICT_NAMED;
		tally.right += answer.rank == leader;
	}
	return tally;
}

/* Whoever is named is named wrongly. */
static void check_no_leader(const struct kind *kind)
{
	int claimed = try_kind(kind, AT_ONCE).claimed;

	if (!kind->has_order)
		claimed += try_kind(kind, NOBODY).claimed;
	print_message("  %3d named where nobody leads\n", claimed);
	assert_rate(claimed <= 0.05 * 2 * JOBS);
}

static void check_kind(const struct kind *kind)
{
	static const double leads[] = { 0.5, 1, 2, 5 };
	struct tally sum = { 0 };

	print_message("# %-34s", kind->name);
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		struct tally t = try_kind(kind, leads[i]);

		print_message("  %g s: %2d of %d", leads[i], t.right, JOBS);
		sum.claimed += t.claimed;
		sum.right += t.right;
		if (leads[i] >= 2 && !kind->is_hard)
			assert_rate(t.claimed >= 0.85 * JOBS);
	}
	print_message("  %d wrong", sum.claimed - sum.right);
	assert_rate(sum.right >= 0.95 * sum.claimed);
	check_no_leader(kind);
}

static void test_kinds(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		state = 100 + i;
		check_kind(&kinds[i]);
	}
}

/* ---- where a start-up ends ---- */

static size_t end_of(const int *mib, size_t n)
{
	struct sample samples[32] = { 0 };
	struct stream s = { .samples = samples, .n = n };
	struct startup start;

	for (size_t i = 0; i < n; i++) {
		samples[i].timestamp_ns = T0_NS + (int64_t)i * 500000000;
		samples[i].used_bytes = (int64_t)(mib[i] * MIB);
	}
	startup_find(&s, false, &start);
	return start.has_rest ? start.begin : SIZE_MAX;
}

static void test_startup(void **unused)
{
	static const int rests[] = { 100, 100, 101, 100, 100, 101, 100, 100, 300, 500, 700, 900 };
	static const int loads[] = { 2,	 9,  7,	 12, 30, 44, 53, 53, 53, 53,
				     53, 53, 53, 53, 60, 70, 80, 90, 99 };
	static const int pauses[] = { 2, 20, 20, 20, 40, 60, 80, 80, 80, 80, 80, 80, 80 };
	static const int waits[] = { 5,	 5,  5,	 5,  5,	 5,  20, 40, 50, 50, 50,
				     50, 50, 50, 50, 50, 60, 70, 80, 90, 99 };
	static const int never[] = { 2, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110 };
	/* The rise behind it makes the scatter large, in which the end of the load would hide. */
	static const int steep[] = { 3,	 3,   0,   3,	4,   4,	  3,   4,   4,	 7,
				     11, 14,  34,  34,	34,  34,  34,  34,  48,	 70,
				     84, 106, 120, 142, 156, 178, 192, 214, 228, 250 };
	static const int two[] = { 5, 5 };

	(void)unused;
	assert_int_equal(end_of(rests, ARRAY_SIZE(rests)), 0);
	assert_int_equal(end_of(loads, ARRAY_SIZE(loads)), 6);
	assert_int_equal(end_of(pauses, ARRAY_SIZE(pauses)), 6);
	assert_int_equal(end_of(waits, ARRAY_SIZE(waits)), 8);
	assert_int_equal(end_of(waits, ARRAY_SIZE(waits) - 5), 0); /* nothing happens behind it */
	assert_int_equal(end_of(steep, ARRAY_SIZE(steep)), 12);
	assert_int_equal(end_of(never, ARRAY_SIZE(never)), SIZE_MAX);
	assert_int_equal(end_of(two, 1), SIZE_MAX);
}

/* Loads, and goes on rising without a rest. */
static void load_and_rise(struct job *job, int rank, double start, double seconds)
{
	job->start[rank] = start;
	job->loads[rank] = seconds;
	job->onset[rank] = start + seconds;
}

/* Nobody saw a beginning. Where that is as long after each rank's start, it is how they start. */
static void test_no_rest(void **unused)
{
	struct job job = { .slope = 60,
			   .rise = INFINITY,
			   .loaded = 4000,
			   .noise = 2,
			   .interval = 1,
			   .length = 60,
			   .one_host = true };
	struct answer answer;

	(void)unused;
	state = 990;
	for (int i = 0; i < RANKS; i++)
		load_and_rise(&job, i, 1.5 * i, 5);
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NONE);
	assert_int_equal(answer.why, WHY_START);
	for (int i = 0; i < RANKS; i++)
		load_and_rise(&job, i, 0, i == 3 ? 5 : 12);
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(answer.why, WHY_UNSEEN);
}

/*
 * Where starts differ, and rises with them, it is how they begin. Where only one started before,
 * and rose before, it may have led.
 */
static void test_own_start(void **unused)
{
	struct job job = { .slope = 60,
			   .rise = INFINITY,
			   .noise = 2,
			   .interval = 1,
			   .length = 60,
			   .one_host = true };
	struct answer answer;

	(void)unused;
	state = 991;
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = 1.5 * i;
		job.onset[i] = job.start[i] + 20;
	}
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NONE);
	assert_int_equal(answer.why, WHY_START);
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = i == 3 ? 0 : 2;
		job.onset[i] = job.start[i] + 20;
	}
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(answer.why, WHY_OWN_START);
}

/* The records begin late, that of the first as much before the others as it rises. */
static struct job late_records(void)
{
	struct job job = { .slope = 60,
			   .rise = INFINITY,
			   .noise = 2,
			   .interval = 1,
			   .length = 60,
			   .one_host = true };

	for (int i = 0; i < RANKS; i++) {
		job.start[i] = i == 3 ? 10 : 12;
		job.onset[i] = job.start[i] + 20;
	}
	return job;
}

static void test_told_starts(void **unused)
{
	struct job job = late_records();
	struct answer answer;

	(void)unused;
	state = 992;
	answer = ask(&job);
	assert_int_equal(answer.why, WHY_OWN_START);
	/* All programs started at once: it led. */
	for (int i = 0; i < RANKS; i++)
		job.born[i] = 5 + uniform(0, 0.1);
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NAMED);
	assert_int_equal(answer.rank, 3);
	/* Its program, too, was the first by as much. */
	job.born[3] -= 2;
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(answer.why, WHY_OWN_START);
	/* All programs at once, but each rises as long after its own record began. */
	for (int i = 0; i < RANKS; i++) {
		job.born[i] = 5 + uniform(0, 0.1);
		job.start[i] = 10 + 0.8 * i;
		job.onset[i] = job.start[i] + 20;
	}
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NONE);
	assert_int_equal(answer.why, WHY_START);
	/* Each as long after its own start, but for what it takes until the record begins. */
	for (int i = 0; i < RANKS; i++) {
		job.born[i] = 1 + 1.5 * i;
		job.start[i] = job.born[i] + uniform(2, 4);
		job.onset[i] = job.start[i] + 20;
	}
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NONE);
	assert_int_equal(answer.why, WHY_START);
}

/* Who rises first had loaded before its record began, as its level says; or it never did. */
static void test_loaded_before(void **unused)
{
	struct job job = { .slope = 10,
			   .rise = 60,
			   .loaded = 40,
			   .noise = 0.02,
			   .interval = 0.25,
			   .length = 16,
			   .one_host = true };
	struct answer answer;

	(void)unused;
	state = 992;
	for (int i = 0; i < RANKS; i++) {
		job.loads[i] = 0.2;
		job.idle[i] = i == 3 ? -1 : 0.3;
		job.onset[i] = i == 3 ? 9 : 11;
	}
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_NAMED);
	assert_int_equal(answer.rank, 3);
	job.idle[3] = job.length;
	answer = ask(&job);
	assert_int_equal(answer.verdict, VERDICT_CANNOT_TELL);
	assert_int_equal(answer.why, WHY_LOADED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),	    cmocka_unit_test(test_startup),
		cmocka_unit_test(test_no_rest),	    cmocka_unit_test(test_own_start),
		cmocka_unit_test(test_told_starts), cmocka_unit_test(test_loaded_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
