/*
 * rank_diverged: a rank that leaves its peers is found while that happens, once; ranks that do the
 * same are not.
 */
#include "detect_scenes.h"

#include <stdlib.h>
#include <time.h>

#define RANKS 8
#define PID 100

/* What the ranks do; times in seconds. */
static struct plot {
	int culprit;	      /* -1: none */
	double onset, lead;   /* of the culprit; the others follow so much later, INFINITY: never */
	double rate, at_once; /* MB/s, MB */
	double stagger, tooth;	/* of the loads; MB of a saw-tooth */
	double gone_from, back; /* the culprit's process has another pid after that */
	unsigned seed;
	bool is_gpu;
} plot;

/* By no rule that shows, from 0 to 1. */
static double draw(unsigned a, unsigned b)
{
	uint64_t z = (plot.seed * UINT64_C(7919) + a) * UINT64_C(104729) + b;

	z *= UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return (double)((z ^ z >> 27) >> 11) * 0x1p-53;
}

static void ranks(struct host *h, double t)
{
	for (int rank = 0; rank < RANKS; rank++) {
		double begin = 2 + plot.stagger * draw((unsigned)rank, 1), mb = 30;
		double onset = rank == plot.culprit ? plot.onset : plot.onset + plot.lead;
		struct proc_sample *p;

		if (rank == plot.culprit && t >= plot.gone_from && t < plot.back)
			continue;
		for (unsigned block = 0; block < 6; block++)
			mb += t >= begin + 4 * draw((unsigned)rank, 10 + block) ? 50 : 0;
		if (plot.tooth > 0)
			mb += plot.tooth * (0.5 + draw((unsigned)rank, 2)) *
			      fmod(t / 7 + draw((unsigned)rank, 3), 1);
		mb += 3 * draw((unsigned)rank, 100 + (unsigned)t);
		if (t >= onset && t < plot.back)
			mb += plot.at_once + plot.rate * (t - onset);
		p = host_add(h, PID + rank + (t >= plot.back ? RANKS : 0), 1);
		p->rank = rank;
		p->rss_anon_bytes = plot.is_gpu ? 10 * MB : (uint64_t)(mb * (double)MB);
		p->rss_file_bytes = 2 * MB;
		p->rss_shmem_bytes = 0;
		p->rss_bytes = p->rss_anon_bytes + p->rss_file_bytes;
		if (plot.is_gpu)
			p->gpu_memory_bytes = (uint64_t)(mb * (double)MB);
	}
}

static const struct plot quiet = {
	.culprit = -1, .onset = INFINITY, .gone_from = INFINITY, .back = INFINITY, .stagger = 2
};

static size_t count(const struct host *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_seen; i++)
		n += h->seen[i].change == EPISODE_BEGAN &&
		     h->seen[i].e.worst.type == ANOMALY_RANK_DIVERGED;
	return n;
}

/* How often of 20 the culprit is found within 30 s of `visible` seconds, and another rank is. */
static void check_found(double visible, const char *kind, int least)
{
	int n_found = 0;

	for (plot.seed = 1; plot.seed <= 20; plot.seed++) {
		const struct seen *s;
		struct host h;
		char name[32];

		plot.culprit = (int)(plot.seed % RANKS);
		host_open(&h, 1);
		play(&h, 240, ranks);
		s = host_find(&h, ANOMALY_RANK_DIVERGED, EPISODE_BEGAN);
		assert_true(count(&h) <= 1); /* once */
		if (s) {
			snprintf(name, sizeof(name), "rank %d (worker", plot.culprit);
			if (s->e.worst.pid != PID + plot.culprit || !strstr(s->e.worst.text, name))
				fail_msg("seed %u: %s", plot.seed, s->e.worst.text);
			assert_int_equal(s->e.worst.sheet_num, 2);
			n_found += s->at <= plot.onset + visible + 30 &&
				   strstr(s->e.worst.text, kind) != NULL;
		}
		if (plot.seed == 1 && s)
			print_message("# after %.0f s: %s\n", s->at - plot.onset, s->e.worst.text);
		host_close(&h);
	}
	print_message("# %d of 20 in time\n", n_found);
	assert_true(n_found >= least);
}

static void test_alone(void **state)
{
	(void)state;
	plot = quiet;
	plot.onset = 80;
	plot.lead = INFINITY;
	plot.rate = 4;
	check_found(8, "(alone, ", 20);
	plot.tooth = 10;
	check_found(10, "(alone, ", 18);
	plot.rate = 0;
	plot.at_once = 150;
	check_found(1, "at once since", 18);
	plot.is_gpu = true;
	check_found(1, "(alone, ", 18);
}

/* While one rises it is alone; when the others have followed it was first. */
static void test_first(void **state)
{
	(void)state;
	plot = quiet;
	plot.onset = 80;
	plot.lead = 6;
	plot.rate = 8;
	check_found(6, ", probability 0.", 16);
}

static void test_none(void **state)
{
	static const struct plot plots[] = {
		{ .onset = INFINITY, .stagger = 10 },
		{ .onset = INFINITY, .tooth = 60 },
		{ .onset = 80, .rate = 8, .stagger = 3 },
		{ .onset = 80, .at_once = 200, .tooth = 20 },
		{ .onset = 0, .rate = 4, .stagger = 5 },
	};
	int n_named = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(plots); i++)
		for (unsigned seed = 1; seed <= 20; seed++) {
			struct host h;

			plot = plots[i];
			plot.culprit = -1;
			plot.gone_from = plot.back = INFINITY;
			plot.seed = seed;
			host_open(&h, 1);
			play(&h, 200, ranks);
			n_named += count(&h) > 0;
			if (count(&h) > 0)
				print_message(
					"# plot %zu, seed %u, after %.0f s: %s\n", i, seed,
					host_find(&h, ANOMALY_RANK_DIVERGED, EPISODE_BEGAN)->at,
					host_find(&h, ANOMALY_RANK_DIVERGED, EPISODE_BEGAN)
						->e.worst.text);
			host_close(&h);
		}
	print_message("# %d of 100 jobs without a culprit have one\n", n_named);
	assert_true(n_named <= 2);
}

/* A rank whose process was started again holds less for a while: that is no rise. */
static void test_restart(void **state)
{
	struct host h;

	(void)state;
	plot = quiet;
	plot.culprit = 3;
	plot.gone_from = 60;
	plot.back = 70;
	host_open(&h, 1);
	play(&h, 200, ranks);
	assert_int_equal(count(&h), 0);
	host_close(&h);
}

/* Far more samples than are kept: for a person who looks at what it costs. */
/* It is over when another process has the rank's number, and does not begin again. */
static void test_found_then_restarted(void **state)
{
	static const double backs[] = { 150, 210, 270 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(backs); i++) {
		struct host h;

		plot = quiet;
		plot.culprit = 3;
		plot.onset = 80;
		plot.lead = INFINITY;
		plot.rate = 8;
		plot.gone_from = 130;
		plot.back = backs[i];
		host_open(&h, 1);
		play(&h, 600, ranks);
		assert_int_equal(count(&h), 1);
		assert_non_null(host_find(&h, ANOMALY_RANK_DIVERGED, EPISODE_CLEARED));
		host_close(&h);
	}
}

/* A sheet on a GPU, one without, and a process that the first one has left behind. */
static void two_sheets(struct host *h, double t)
{
	struct proc_sample *p;

	plot.is_gpu = t < 60;
	ranks(h, t);
	for (size_t i = 0; i < h->snap.n_processes; i++) {
		h->snap.processes[i].sheet_num = t < 60 ? 1 : 2;
		if (t >= 60)
			h->snap.processes[i].gpu_memory_bytes = U64_UNKNOWN;
	}
	p = host_add(h, PID + 50, 1);
	p->rank = 0;
	p->sheet_num = 1;
	p->rss_bytes = p->rss_anon_bytes = 10 * MB;
}

static void test_second_sheet(void **state)
{
	const struct seen *found;
	struct host h;

	(void)state;
	plot = quiet;
	plot.culprit = 3;
	plot.onset = 160;
	plot.lead = INFINITY;
	plot.rate = 8;
	host_open(&h, 1);
	play(&h, 300, two_sheets);
	found = host_find(&h, ANOMALY_RANK_DIVERGED, EPISODE_BEGAN);
	assert_non_null(found);
	assert_int_equal(found->e.worst.sheet_num, 2);
	assert_int_equal(count(&h), 1);
	host_close(&h);
}

static void test_long(void **state)
{
	struct timespec from, to;
	struct host h;

	(void)state;
	plot = quiet;
	plot.culprit = 5;
	plot.tooth = 60;
	plot.onset = 7000;
	plot.lead = INFINITY;
	plot.rate = 4;
	host_open(&h, 1);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	play(&h, 7200, ranks);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	print_message("# %.2f us for each sample of a rank, everything of detect/ included\n",
		      ((double)(to.tv_sec - from.tv_sec) * 1e6 +
		       (double)(to.tv_nsec - from.tv_nsec) / 1e3) /
			      (7200.0 * RANKS));
	assert_int_equal(count(&h), 1);
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),	     cmocka_unit_test(test_first),
		cmocka_unit_test(test_none),	     cmocka_unit_test(test_restart),
		cmocka_unit_test(test_long),	     cmocka_unit_test(test_found_then_restarted),
		cmocka_unit_test(test_second_sheet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
