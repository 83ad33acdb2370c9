#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draws.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/learn.h"

#include "learn_bars.h"

#define MAX_RUNS 300
#define N_NOISE_RUNS 100
#define HOUR_NS UINT64_C(3600000000000)

struct past {
	struct run_record runs[MAX_RUNS];
	size_t n;
};

static void add_run(struct past *past, bool has_failed, double slope)
{
	struct run_record *run = &past->runs[past->n++];

	run_record_init(run);
	run->attempt = (int64_t)past->n;
	run->is_whole = true;
	run->class.command = 7;
	run->class.label = "train.py";
	run->outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
	run->started_wall_ns = past->n * 10 * HOUR_NS;
	run->ended_wall_ns = run->started_wall_ns + HOUR_NS;
	run->rss_slope_mb_s[2] = slope;
}

/* Every other run grows fast, and fails if it is true that such runs do. */
static void add_runs(struct past *past, size_t n, bool is_true)
{
	for (size_t i = 0; i < n; i++) {
		bool is_fast = i % 2, has_failed = is_true ? is_fast : i % 4 < 2;

		add_run(past, has_failed, is_fast ? 100 + (double)i : 10 + (double)i);
	}
}

static void analyze(struct past *past, struct pattern_list *patterns)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	uint64_t now = past->runs[past->n - 1].ended_wall_ns;

	assert_int_equal(analysis_run(past->runs, past->n, 1, &a), 0);
	assert_int_equal(beliefs_update(patterns, &a, past->runs, past->n, now), 0);
}

static void test_found_then_confirmed(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };
	const struct pattern *p;
	double threshold;

	(void)state;
	add_runs(&past, 16, true);
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 1);
	p = &patterns.items[0];
	threshold = p->threshold;
	assert_string_equal(belief_state(p), "supported");
	assert_string_equal(p->feature, "rss_slope_mb_s@60");
	assert_int_equal(p->n_later, 0);
	assert_true(isnan(p->brier));
	assert_true(p->rate_in > 0.8 && p->rate_in < 1);
	add_runs(&past, 6, true); /* too few to confirm anything */
	analyze(&past, &patterns);
	assert_string_equal(belief_state(&patterns.items[0]), "supported");
	assert_int_equal(patterns.items[0].n_later, 6);
	add_runs(&past, 2, true);
	analyze(&past, &patterns);
	p = &patterns.items[0];
	assert_int_equal(patterns.n, 1);
	assert_string_equal(belief_state(p), "confirmed");
	assert_int_equal(p->n_later, 8);
	assert_int_equal(p->occurrences, 3);
	assert_true(p->brier < p->brier_base);
	assert_true(p->threshold == threshold); /* the rule is frozen */
	assert_int_equal(p->confirmed_wall_ns, past.runs[past.n - 1].ended_wall_ns);
}

static void test_what_stops_holding_is_retired(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };

	(void)state;
	add_runs(&past, 16, true);
	analyze(&past, &patterns);
	add_runs(&past, 16, true);
	analyze(&past, &patterns);
	assert_string_equal(belief_state(&patterns.items[0]), "confirmed");
	add_runs(&past, 20, false);
	analyze(&past, &patterns);
	assert_string_equal(belief_state(&patterns.items[0]), "retired");
	assert_non_null(strstr(patterns.items[0].retired_why, "last 20 runs"));
	assert_true(u64_known(patterns.items[0].confirmed_wall_ns)); /* it was, once */
	analyze(&past, &patterns); /* on the same runs it stays so */
	assert_string_equal(belief_state(&patterns.items[0]), "retired");
}

/* The runs of before the retirement are still looked at: they do not bring it back. */
static void test_what_was_retired_comes_back_by_new_runs_only(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };
	uint64_t retired_wall_ns;

	(void)state;
	add_runs(&past, 40, true);
	analyze(&past, &patterns);
	add_runs(&past, 20, false);
	analyze(&past, &patterns);
	assert_string_equal(belief_state(&patterns.items[0]), "retired");
	retired_wall_ns = patterns.items[0].retired_wall_ns;
	add_runs(&past, 2, true);
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 1);
	assert_int_equal(patterns.items[0].retired_wall_ns, retired_wall_ns);
	add_runs(&past, 14, true);
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 2);
	assert_string_equal(belief_state(&patterns.items[0]), "retired");
	assert_int_equal(patterns.items[0].retired_wall_ns, retired_wall_ns);
	assert_string_equal(belief_state(&patterns.items[1]), "supported");
	assert_string_not_equal(patterns.items[0].name, patterns.items[1].name);
	assert_int_equal(patterns.items[1].n_jobs, 16); /* those since */
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 2);
}

/* What the sentence says is what is judged, however the threshold would be chosen by now. */
static void test_the_sentence_is_frozen_with_the_rule(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };
	char sentence[400];

	(void)state;
	add_runs(&past, 16, true);
	analyze(&past, &patterns);
	snprintf(sentence, sizeof(sentence), "%s", patterns.items[0].description);
	for (size_t i = 0; i < 20; i++)
		add_run(&past, i % 2, i % 2 ? 80 + (double)i : 40 + (double)i / 2);
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 1);
	assert_string_equal(patterns.items[0].description, sentence);
	assert_int_equal(patterns.items[0].n_jobs, 16);
	assert_int_equal(patterns.items[0].occurrences, 2);
}

/* Not confirmed, and not found again: it is not called supported any more. */
static void test_what_is_not_found_again_lapses(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };
	size_t n_first;

	(void)state;
	add_runs(&past, 8, true);
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 1);
	assert_string_equal(belief_state(&patterns.items[0]), "supported");
	add_runs(&past, 7, false);
	analyze(&past, &patterns);
	assert_string_equal(belief_state(&patterns.items[0]), "lapsed");
	assert_int_equal(patterns.items[0].lapsed_wall_ns, past.runs[past.n - 1].ended_wall_ns);
	n_first = past.n;
	add_runs(&past, 7, true);
	memmove(past.runs, past.runs + n_first, 7 * sizeof(past.runs[0]));
	past.n = 4;
	analyze(&past, &patterns); /* too few to be tested: nobody has looked */
	assert_string_equal(belief_state(&patterns.items[0]), "lapsed");
	past.n = 7;
	analyze(&past, &patterns);
	assert_int_equal(patterns.n, 1);
	assert_string_equal(belief_state(&patterns.items[0]), "supported");
}

/* When old runs are removed the looks at them stay spent. */
static void test_looks_are_spent_once(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	const struct analysis nothing = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };

	(void)state;
	add_runs(&past, 16, true);
	analyze(&past, &patterns);
	past.n = 16;
	add_runs(&past, 8, false);
	assert_int_equal(beliefs_update(&patterns, &nothing, past.runs, past.n, 1), 0);
	assert_int_equal(patterns.items[0].n_looks, 1);
	add_runs(&past, 8, true); /* which would confirm it, were they the first */
	assert_int_equal(beliefs_update(&patterns, &nothing, past.runs + 24, 8, 2), 0);
	assert_int_equal(patterns.items[0].n_later, 8);
	assert_int_equal(patterns.items[0].n_looks, 1);
	assert_false(u64_known(patterns.items[0].confirmed_wall_ns));
}

/* One that ran while the others did was under the same stars. */
static void test_only_later_beginnings_are_unseen(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	const struct analysis nothing = { .arena = ARENA_INIT };
	struct past past = { .n = 0 };

	(void)state;
	add_runs(&past, 16, true);
	analyze(&past, &patterns);
	add_runs(&past, 2, true);
	past.runs[16].started_wall_ns = past.runs[15].started_wall_ns;
	assert_int_equal(beliefs_update(&patterns, &nothing, past.runs, past.n, 1), 0);
	assert_int_equal(patterns.items[0].n_later, 1);
}

/* Rules that were made of noise: at most 5 % are ever confirmed, however often one looks. */
static void test_noise_is_seldom_confirmed(void **state)
{
	size_t n_confirmed = 0, n_rules = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 5);
	for (int round = 0; round < 200; round++) {
		CLEANUP(pattern_list_release)
		struct pattern_list patterns = { .arena = ARENA_INIT };
		struct analysis nothing = { .arena = ARENA_INIT };
		static struct past past;
		struct pattern *p = pattern_list_add(&patterns);

		past.n = 0;
		p->type = PATTERN_FINDING;
		p->name = "rule";
		p->grade = "supported";
		p->class_key = 7;
		p->feature = "rss_slope_mb_s@60";
		p->is_above = true;
		p->threshold = 0;
		p->rate_in = 0.6;
		p->rate_out = 0.4;
		p->base_rate = 0.5;
		p->frozen_wall_ns = 0;
		for (size_t i = 0; i < MAX_RUNS; i++) {
			add_run(&past, rng_unit(&rng) < 0.5, rng_normal(&rng));
			if (i % 10 == 9)
				assert_int_equal(beliefs_update(&patterns, &nothing, past.runs,
								past.n, i + 1),
						 0);
		}
		n_rules++;
		n_confirmed += u64_known(patterns.items[0].confirmed_wall_ns);
	}
	print_message("# rules made of noise that were ever confirmed: %zu of %zu\n", n_confirmed,
		      n_rules);
	assert_in_range(n_confirmed, 0, 20); /* 10, and 3 standard deviations */
}

/* Instrumented code takes its time. */
#ifdef __SANITIZE_ADDRESS__
#define N_FATES 25
#define N_NOISE_CLASSES 20
#else
#define N_FATES 200
#define N_NOISE_CLASSES 100
#endif

/* A rule, and what the runs are like that judge it. */
struct fate {
	const char *name;
	double rate_in, rate_out; /* that it predicts */
	double in, out;		  /* what is so from some run on */
	size_t n_held;		  /* before that the rule holds */
	double least, most;	  /* share that is retired by the end */
};

/* By how many runs it was retired; 0: it was not. */
static size_t live(struct rng *rng, const struct fate *f)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	const struct analysis nothing = { .arena = ARENA_INIT };
	struct pattern *p = pattern_list_add(&patterns);
	static struct past past;

	past.n = 0;
	p->type = PATTERN_FINDING;
	p->name = "rule";
	p->grade = "supported";
	p->class_key = 7;
	p->feature = "rss_slope_mb_s@60";
	p->is_above = true;
	p->threshold = 0.6;
	p->rate_in = f->rate_in;
	p->rate_out = f->rate_out;
	p->base_rate = 0.4 * f->rate_in + 0.6 * f->rate_out;
	p->frozen_wall_ns = 0;
	while (past.n < MAX_RUNS) {
		double value = rng_unit(rng);
		bool is_in = value > p->threshold, holds = past.n < f->n_held;
		double chance = is_in ? (holds ? f->rate_in : f->in) : holds ? f->rate_out : f->out;

		add_run(&past, rng_unit(rng) < chance, value);
		if (past.n % 5 == 0)
			assert_int_equal(
				beliefs_update(&patterns, &nothing, past.runs, past.n, past.n), 0);
		if (u64_known(p->retired_wall_ns))
			return past.n;
	}
	return 0;
}

/* A class of noise that grows, analysed again and again; what is believed of it then. */
static void grow_noise(struct rng *rng, struct pattern_list *patterns)
{
	static struct run_record runs[N_NOISE_RUNS];

	for (size_t i = 0; i < N_NOISE_RUNS; i++) {
		CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };

		bars_fill_run(rng, BARS_NORMAL, &runs[i], rng_unit(rng) < 0.3, 0);
		runs[i].attempt = (int64_t)i + 1;
		runs[i].started_wall_ns = (i + 1) * 10 * HOUR_NS;
		runs[i].ended_wall_ns = runs[i].started_wall_ns + HOUR_NS;
		if (i % 5 != 4)
			continue;
		assert_int_equal(analysis_run(runs, i + 1, 1, &a), 0);
		assert_int_equal(beliefs_update(patterns, &a, runs, i + 1, runs[i].ended_wall_ns),
				 0);
	}
}

static size_t count_state(const struct pattern_list *patterns, const char *state)
{
	size_t n = 0;

	for (size_t i = 0; i < patterns->n; i++)
		n += strcmp(belief_state(&patterns->items[i]), state) == 0;
	return n;
}

/* Noise is supported now and then. It does not stay so. */
static void test_noise_does_not_pile_up(void **state)
{
	size_t n_ever = 0, n_supported = 0, n_confirmed = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 31);
	for (size_t i = 0; i < N_NOISE_CLASSES; i++) {
		CLEANUP(pattern_list_release)
		struct pattern_list patterns = { .arena = ARENA_INIT };

		grow_noise(&rng, &patterns);
		n_ever += patterns.n > 0;
		n_supported += count_state(&patterns, "supported") > 0;
		n_confirmed += count_state(&patterns, "confirmed") > 0;
	}
	print_message("# of %d classes of noise, each analysed %d times: supported once %zu, at "
		      "the end %zu, confirmed %zu\n",
		      N_NOISE_CLASSES, N_NOISE_RUNS / 5, n_ever, n_supported, n_confirmed);
	assert_in_range(n_supported, 0,
			N_NOISE_CLASSES / 10); /* 5 %, and a standard deviation or two */
	assert_in_range(n_confirmed, 0, N_NOISE_CLASSES / 10);
	assert_true(n_ever > n_supported);
}

/* What holds is seldom retired by chance, what stops holding is, and what never held soon. */
static void test_who_is_retired(void **state)
{
	static const struct fate fates[] = {
		{ "0.9 and 0.1, holds", 0.9, 0.1, 0.9, 0.1, 0, 0, 0.12 },
		{ "0.7 and 0.2, holds", 0.7, 0.2, 0.7, 0.2, 0, 0, 0.12 },
		{ "0.5 and 0.2, holds", 0.5, 0.2, 0.5, 0.2, 0, 0, 0.12 },
		{ "0.9 and 0.1, until run 60", 0.9, 0.1, 0.42, 0.42, 60, 0.95, 1 },
		{ "0.7 and 0.2, until run 60", 0.7, 0.2, 0.4, 0.4, 60, 0.9, 1 },
		{ "0.5 and 0.2, until run 60", 0.5, 0.2, 0.32, 0.32, 60, 0.5, 1 },
		{ "0.9 and 0.1, then all pass", 0.9, 0.1, 0, 0, 60, 1, 1 },
		{ "0.7 and 0.2, then all pass", 0.7, 0.2, 0, 0, 60, 1, 1 },
		{ "0.5 and 0.2, then all pass", 0.5, 0.2, 0, 0, 60, 0.95, 1 },
		{ "0.9 and 0.1, then all fail", 0.9, 0.1, 1, 1, 60, 1, 1 },
		{ "0.7 and 0.2, then all fail", 0.7, 0.2, 1, 1, 60, 1, 1 },
		{ "0.5 and 0.2, then all fail", 0.5, 0.2, 1, 1, 60, 0.95, 1 },
		{ "0.9 and 0.1, the other way", 0.9, 0.1, 0.1, 0.9, 0, 1, 1 },
	};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 9);
	print_message("# of %d rules, analysed every 5 of %d later runs\n", N_FATES, MAX_RUNS);
	print_message("# failure rates predicted      retired  of these by run 60\n");
	for (size_t i = 0; i < ARRAY_SIZE(fates); i++) {
		size_t n_retired = 0, n_early = 0;

		for (int round = 0; round < N_FATES; round++) {
			size_t when = live(&rng, &fates[i]);

			n_retired += when > 0;
			n_early += when > 0 && when <= 60;
		}
		print_message("# %-28s   %.3f    %.3f\n", fates[i].name,
			      (double)n_retired / N_FATES, (double)n_early / N_FATES);
		assert_true((double)n_retired >= N_FATES * fates[i].least);
		assert_true((double)n_retired <= N_FATES * fates[i].most);
	}
}

static void test_correlations_are_kept(void **state)
{
	CLEANUP(pattern_list_release) struct pattern_list patterns = { .arena = ARENA_INIT };
	CLEANUP(compat_release) struct compat compat = { .arena = ARENA_INIT };
	struct compat_profile profiles[10];

	(void)state;
	for (size_t i = 0; i < 10; i++)
		profiles[i] = (struct compat_profile){ .peak_rss_mb = i < 4 ? 100 : 3000,
						       .has_failed = i < 4 };
	assert_int_equal(compat_analyze(profiles, 10, 5, &compat), 0);
	assert_int_equal(beliefs_note_compat(&patterns, &compat, 100), 0);
	assert_int_equal(beliefs_note_compat(&patterns, &compat, 200), 0);
	assert_int_equal(patterns.n, 2);
	assert_string_equal(patterns.items[0].type, "RESOURCE_CORRELATION");
	assert_string_equal(patterns.items[0].name, "memory_vs_failure memory_bin:<256MB");
	assert_string_equal(patterns.items[0].tags,
			    "memory_bin:<256MB\nfailure_rate:1.00\nsample_size:4");
	assert_int_equal(patterns.items[0].occurrences, 2);
	assert_int_equal(patterns.items[0].first_wall_ns, 100);
	assert_int_equal(patterns.items[0].last_wall_ns, 200);
	assert_true(fabs(patterns.items[0].confidence - (0.5 + 0.08 + 0.3)) < 1e-12);
	assert_string_equal(belief_state(&patterns.items[0]), "correlation");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_then_confirmed),
		cmocka_unit_test(test_what_stops_holding_is_retired),
		cmocka_unit_test(test_what_was_retired_comes_back_by_new_runs_only),
		cmocka_unit_test(test_the_sentence_is_frozen_with_the_rule),
		cmocka_unit_test(test_what_is_not_found_again_lapses),
		cmocka_unit_test(test_looks_are_spent_once),
		cmocka_unit_test(test_only_later_beginnings_are_unseen),
		cmocka_unit_test(test_noise_is_seldom_confirmed),
		cmocka_unit_test(test_noise_does_not_pile_up),
		cmocka_unit_test(test_who_is_retired),
		cmocka_unit_test(test_correlations_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
