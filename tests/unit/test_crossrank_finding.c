/*
 * Which rank was first: made-up jobs with a known answer. The error rates are those
 * that docs/ranks.md promises; the table is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/finding.h"

#define RANKS 8
#define MAX_SAMPLES 400
#define MIB 1048576.0
#define T0_NS INT64_C(1700000000000000000)

/* ---- random numbers that are the same in every run ---- */

static uint64_t state;

static double uniform(double from, double to)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return from + (to - from) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform(1e-300, 1))) * cos(6.283185307179586 * uniform(0, 1));
}

/* ---- a job ---- */

struct job {
	double onset[RANKS]; /* seconds; INFINITY: never */
	double start[RANKS]; /* of the record */
	double clock[RANKS]; /* how far its clock is off */
	double slope;	     /* MiB per second; INFINITY: a step of `rise` at once */
	double rise;	     /* MiB, at most */
	double noise, interval, length;
	bool one_host, is_saw;
	bool is_startup;     /* all rise by 800 MiB between 10 s and 14 s */
	bool has_free_clock; /* rank 1 says that its clock follows nothing */
	double marker;	     /* when a collective operation was; 0: none */
};

static double level_at(const struct job *job, int rank, double t)
{
	double since = t - job->onset[rank];
	double base = 1000 + (job->is_saw ? 300 * fmod(t, 10) / 10 : 0);

	if (job->is_startup)
		base += fmin(fmax(t - 10, 0) * 200, 800);
	if (!(since > 0))
		return base;
	return base + fmin(isinf(job->slope) ? job->rise : since * job->slope, job->rise);
}

static void add_rank(struct telemetry *t, const struct job *job, int rank)
{
	struct sample samples[MAX_SAMPLES];
	struct telemetry_event like;
	char host[16];
	size_t n = 0;

	event_init(&like);
	snprintf(host, sizeof(host), "n%d", job->one_host ? 0 : rank);
	like.rank = rank;
	like.world_size = RANKS;
	like.host = (struct text){ host, strlen(host) };
	like.clock.error_ns = 2000000;
	like.clock.is_free = job->has_free_clock && rank == 1;
	for (double at = job->start[rank]; at < job->length && n < MAX_SAMPLES;
	     at += job->interval) {
		double mib = level_at(job, rank, at) + job->noise * normal();

		samples[n++] = (struct sample){
			.timestamp_ns = T0_NS + (int64_t)((at + job->clock[rank]) * 1e9),
			.used_bytes = (int64_t)(fmax(mib, 0) * MIB),
		};
	}
	assert_int_equal(telemetry_add_samples(t, &like, samples, n), 0);
}

static void add_marker(struct telemetry *t, double at)
{
	struct telemetry_event ev;

	event_init(&ev);
	ev.timestamp_ns = T0_NS + (int64_t)(at * 1e9);
	ev.event_type = (struct text){ "nccl_all_reduce", 15 };
	ev.host = (struct text){ "n0", 2 };
	assert_int_equal(telemetry_add(t, &ev), 0);
}

/* As the bars have it: 8 ranks at 1 Hz, 20 MB of noise, ramps of 200 MB/s, starts up to 15 s apart.
 */
static void make_job(struct job *job, int leader, double lead)
{
	double at = uniform(25, 35);

	*job = (struct job){
		.slope = 200, .rise = INFINITY, .noise = 20, .interval = 1, .length = 60
	};
	for (int i = 0; i < RANKS; i++) {
		job->onset[i] = at + (i == leader ? 0 : lead);
		job->start[i] = uniform(0, 15);
		job->clock[i] = uniform(-0.002, 0.002);
	}
}

struct answer {
	enum verdict verdict;
	enum why why;
	int64_t rank;
	double probability, onset, low, high;
};

static struct answer ask(const struct job *job)
{
	struct rank_analysis_options options = { .clock_error_ns = EVENT_UNKNOWN };
	struct telemetry *t = telemetry_new();
	struct answer answer = { .rank = -1, .onset = NAN };
	struct first_cause *f = NULL;
	struct rank_analysis a;

	assert_non_null(t);
	for (int i = 0; i < RANKS; i++)
		add_rank(t, job, i);
	if (job->marker > 0)
		add_marker(t, job->marker);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(finding_make(&a, &options, &f), 0);
	answer.verdict = f->verdict;
	answer.why = f->why;
	if (f->rank) {
		const struct onset *o = &f->candidates[0].rise->onset;
		double origin = (double)(f->origin_ns - T0_NS) / 1e9;

		answer.rank = f->rank->rank;
		answer.probability = f->candidates[0].probability;
		answer.onset = o->median + origin;
		answer.low = o->low + origin;
		answer.high = o->high + origin;
	}
	finding_free(f);
	rank_analysis_release(&a);
	telemetry_free(t);
	return answer;
}

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
	expect(&job, VERDICT_NAMED, WHY_ALONE, 2);
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
	expect(&job, VERDICT_NONE, WHY_START, -1);
	/* A little apart, around one operation of all. */
	job = quiet_job();
	for (int i = 0; i < RANKS; i++) {
		job.start[i] = 0.1 * (RANKS - i);
		job.onset[i] = 40 + 0.2 * i;
	}
	expect(&job, VERDICT_NAMED, WHY_FIRST, 0);
	job.marker = 40.7;
	expect(&job, VERDICT_NONE, WHY_COLLECTIVE, -1);
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
		cmocka_unit_test(test_bars),	      cmocka_unit_test(test_nobody_leads),
		cmocka_unit_test(test_nothing_rises), cmocka_unit_test(test_one_rises),
		cmocka_unit_test(test_steps),	      cmocka_unit_test(test_workload),
		cmocka_unit_test(test_two_episodes),  cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_unseen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
