#include "learn/belief_judge.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/analysis.h"
#include "learn/feature.h"
#include "learn/unit.h"
#include "stats/fisher.h"

#define CONFIRM_FIRST_LOOK 8
#define CONFIRM_MIN_EACH 3
#define RETIRE_MIN_RUNS 10
/*
 * Deviations from what a rule that holds would score. One look in 2,000 is as far out; over
 * 200 later runs that retires 3 to 9 % of the rules that hold (see the test).
 */
#define RETIRE_DEVIATIONS 3.3

/* A rule that told much is seen to fail by few runs, one that told little by many. */
static const size_t retire_windows[] = { 20, 40, 80, 160 };

/* What the rule predicted for some runs, and what came of them. */
struct score {
	size_t n, n_failed;
	size_t n_in, n_in_failed;
	double brier_sum, base_sum;
	double gain, variance; /* by which the first is to be below the other, if the rule holds */
};

static void score_add(struct score *s, const struct pattern *p, double value, bool has_failed)
{
	bool is_in = (value > p->threshold) == p->is_above;
	double rate = is_in ? p->rate_in : p->rate_out, apart = rate - p->base_rate;
	double came = has_failed, rule = came - rate, base = came - p->base_rate;

	s->n++;
	s->n_failed += has_failed;
	s->n_in += is_in;
	s->n_in_failed += is_in && has_failed;
	s->brier_sum += rule * rule;
	s->base_sum += base * base;
	s->gain += apart * apart;
	s->variance += 4 * apart * apart * rate * (1 - rate);
}

/* No better than the base rate, and that is no chance: a rule that held would have been. */
static bool has_failed_to_hold(const struct score *s)
{
	double excess = s->brier_sum - s->base_sum;

	return excess >= 0 && excess + s->gain >= RETIRE_DEVIATIONS * sqrt(s->variance);
}

static bool has_each(const struct score *s)
{
	return s->n_failed >= CONFIRM_MIN_EACH && s->n - s->n_failed >= CONFIRM_MIN_EACH;
}

static double confirm_p(const struct score *s)
{
	size_t n_out = s->n - s->n_in, n_out_failed = s->n_failed - s->n_in_failed;

	return fisher_at_least(s->n_in_failed, s->n_in - s->n_in_failed, n_out_failed,
			       n_out - n_out_failed);
}

/*
 * One that began before the last of those it was found on had ended is not later than these.
 * A retry of one of these is no unit (unit.h).
 */
static double unseen_value(const struct pattern *p, const struct run_record *run)
{
	if ((u64_known(run->started_wall_ns) && run->started_wall_ns <= p->frozen_wall_ns) ||
	    feature_tells_outcome(p->feature, run))
		return F64_UNKNOWN;
	return feature_value(p->feature, run);
}

/*
 * The later runs are looked at when there are 8, 16, 32… of them, each time with half
 * of what is left of the error: however often, noise is confirmed in at most 5 %. What is
 * spent stays spent, when old runs are no longer there to be counted as well.
 */
static void look(struct pattern *p, const struct score *so_far, uint64_t now)
{
	double level = ANALYSIS_LEVEL * pow(0.5, (double)p->n_looks + 1);

	if (u64_known(p->confirmed_wall_ns) ||
	    (double)so_far->n < CONFIRM_FIRST_LOOK * pow(2, (double)p->n_looks))
		return;
	p->n_looks++;
	if (!has_each(so_far) || so_far->brier_sum >= so_far->base_sum || confirm_p(so_far) > level)
		return;
	p->confirmed_wall_ns = now;
	p->lapsed_wall_ns = U64_UNKNOWN;
	p->grade = grade_name(GRADE_CONFIRMED);
}

static void tell_score(struct pattern *p, const struct score *all)
{
	p->n_later = all->n;
	p->n_later_failed = all->n_failed;
	if (all->n == 0)
		return;
	p->brier = all->brier_sum / (double)all->n;
	p->brier_base = all->base_sum / (double)all->n;
	p->later_p = confirm_p(all);
}

static int judge_retirement(struct pattern *p, const struct score *recent, uint64_t now,
			    struct arena *arena)
{
	char why[160];

	if (recent->n < RETIRE_MIN_RUNS || !has_failed_to_hold(recent))
		return 0;
	snprintf(why, sizeof(why),
		 "of the last %zu runs it had not seen it told no better than the base rate "
		 "(Brier score %.3f, base rate %.3f), which is no chance",
		 recent->n, recent->brier_sum / (double)recent->n,
		 recent->base_sum / (double)recent->n);
	p->retired_wall_ns = now;
	p->retired_why = arena_strdup(arena, why);
	return p->retired_why ? 0 : -ENOMEM;
}

/* The newest so many of those with a value. */
static void score_recent(const struct pattern *p, const struct run_record *const *units,
			 size_t first, size_t end, size_t window, struct score *ret)
{
	for (size_t i = end; i > first && ret->n < window; i--) {
		double value = unseen_value(p, units[i - 1]);

		if (f64_known(value))
			score_add(ret, p, value, run_has_failed(units[i - 1]));
	}
}

int belief_judge(struct pattern *p, const struct run_record *const *units, size_t n, uint64_t now,
		 struct arena *arena)
{
	struct score all = { 0 };
	size_t first, end = units_of_class(units, n, p->class_key, p->frozen_wall_ns, &first);
	int r = 0;

	for (size_t i = first; i < end; i++) {
		double value = unseen_value(p, units[i]);

		if (!f64_known(value))
			continue;
		score_add(&all, p, value, run_has_failed(units[i]));
		look(p, &all, now);
	}
	tell_score(p, &all);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(retire_windows); i++) {
		struct score recent = { 0 };

		score_recent(p, units, first, end, retire_windows[i], &recent);
		if (!u64_known(p->retired_wall_ns) && (i == 0 || recent.n == retire_windows[i]))
			r = judge_retirement(p, &recent, now, arena);
	}
	return r;
}
