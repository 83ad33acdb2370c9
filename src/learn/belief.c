#include "learn/belief.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/feature.h"
#include "learn/run_class.h"
#include "stats/probability.h"

const char *belief_state(const struct pattern *p)
{
	if (u64_known(p->retired_wall_ns))
		return "retired";
	if (strcmp(p->type, PATTERN_ANOMALY) == 0)
		return "anomaly";
	if (u64_known(p->lapsed_wall_ns) && !u64_known(p->confirmed_wall_ns))
		return "lapsed";
	return p->grade ? p->grade : "correlation";
}

/* ---- later runs judge a rule ---- */

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

static double confirm_p(const struct score *s)
{
	size_t n_out = s->n - s->n_in, n_out_failed = s->n_failed - s->n_in_failed;

	return fisher_at_least(s->n_in_failed, s->n_in - s->n_in_failed, n_out_failed,
			       n_out - n_out_failed);
}

/*
 * One that began before the last of those it was found on had ended is not later than these.
 * A retry of one of these is no unit (run_class.h).
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
	if (so_far->n_failed < CONFIRM_MIN_EACH ||
	    so_far->n - so_far->n_failed < CONFIRM_MIN_EACH ||
	    so_far->brier_sum >= so_far->base_sum || confirm_p(so_far) > level)
		return;
	p->confirmed_wall_ns = now;
	p->lapsed_wall_ns = U64_UNKNOWN;
	p->grade = grade_name(GRADE_CONFIRMED);
}

static int judge_retirement(struct pattern *p, const struct score *recent, uint64_t now,
			    struct arena *arena)
{
	double excess = recent->brier_sum - recent->base_sum;
	char why[160];

	/* No better than the base rate, and that is no chance: a rule that held would have been. */
	if (recent->n < RETIRE_MIN_RUNS || excess < 0 ||
	    excess + recent->gain < RETIRE_DEVIATIONS * sqrt(recent->variance))
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

/*
 * units: by class and time (run_class.h). Judged by the same runs again, it comes out the same. The
 * reason for retiring goes into the arena. -ENOMEM.
 */
static int judge(struct pattern *p, const struct run_record *const *units, size_t n, uint64_t now,
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
	p->n_later = all.n;
	p->n_later_failed = all.n_failed;
	if (all.n > 0) {
		p->brier = all.brier_sum / (double)all.n;
		p->brier_base = all.base_sum / (double)all.n;
		p->later_p = confirm_p(&all);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(retire_windows); i++) {
		struct score recent = { 0 }; /* of the newest so many of those with a value */

		for (size_t k = end; k > first && recent.n < retire_windows[i]; k--) {
			double value = unseen_value(p, units[k - 1]);

			if (f64_known(value))
				score_add(&recent, p, value, run_has_failed(units[k - 1]));
		}
		if (!u64_known(p->retired_wall_ns) && (i == 0 || recent.n == retire_windows[i]))
			r = judge_retirement(p, &recent, now, arena);
	}
	return r;
}

/* ---- findings become patterns ---- */

struct work {
	struct pattern_list *patterns;
	const struct run_record *const *units;
	size_t n_units;
	uint64_t seed, now_wall_ns;
};

/* The threshold may differ; the opposite is another belief. */
static bool is_about(const struct pattern *p, const struct finding *f)
{
	return p->grade && p->class_key == f->class_key && p->is_above == f->effect.is_above &&
	       strcmp(p->feature, f->feature) == 0;
}

/* Older rows come first. NULL: there is none. */
static struct pattern *find_newest(const struct work *w, const struct finding *f)
{
	for (size_t i = w->patterns->n; i > 0; i--)
		if (is_about(&w->patterns->items[i - 1], f))
			return &w->patterns->items[i - 1];
	return NULL;
}

/* (failures + 1) / (runs + 2): a side where all failed so far does not predict certainty. */
static double predicted(const struct effect_side *side)
{
	return ((double)side->n_failed + 1) / ((double)side->n + 2);
}

/* The rule as it will be judged, and the sentence about the runs that it was found on. */
static int add(struct work *w, const struct finding *f)
{
	struct arena *arena = &w->patterns->arena;
	struct pattern p, *added;
	char name[256], round[32] = "";
	size_t n_before = 0;

	pattern_init(&p);
	p.type = PATTERN_FINDING;
	/* Those after the first say which they are: what was retired keeps its row. */
	for (size_t i = 0; i < w->patterns->n; i++)
		n_before += is_about(&w->patterns->items[i], f);
	if (n_before > 0)
		snprintf(round, sizeof(round), " %zu", n_before + 1);
	snprintf(name, sizeof(name), "%016llx %.200s %s%s", (unsigned long long)f->class_key,
		 f->feature, f->effect.is_above ? "above" : "below", round);
	p.name = arena_strdup(&w->patterns->arena, name);
	p.first_wall_ns = p.last_wall_ns = w->now_wall_ns;
	p.occurrences = 1;
	p.n_jobs = f->n_runs;
	p.p = f->p;
	p.description = arena_strdup(arena, f->sentence);
	p.grade = grade_name(GRADE_SUPPORTED);
	p.label = arena_strdup(arena, f->label);
	p.class_key = f->class_key;
	p.feature = arena_strdup(arena, f->feature);
	p.is_above = f->effect.is_above;
	p.threshold = f->effect.threshold;
	p.rate_in = predicted(&f->effect.in);
	p.rate_out = predicted(&f->effect.out);
	p.base_rate = ((double)f->n_failed + 1) / ((double)f->n_runs + 2);
	p.frozen_wall_ns = f->newest_wall_ns;
	if (!p.name || !p.feature || !p.description || (f->label && !p.label))
		return -ENOMEM;
	added = pattern_list_add(w->patterns);
	if (!added)
		return -ENOMEM;
	*added = p;
	return 0;
}

/*
 * The runs that it was supported by once are part of the look-back for days: only those
 * since the retirement can bring it back, as a new rule.
 */
static int find_again(struct work *w, const struct pattern *p)
{
	CLEANUP(analysis_release) struct analysis found = { .arena = ARENA_INIT };
	CLEANUP(free_ptr) struct run_record *later = NULL;
	size_t first, end;
	int r;

	end = units_of_class(w->units, w->n_units, p->class_key, p->retired_wall_ns, &first);
	later = calloc(end - first + 1, sizeof(*later));
	if (!later)
		return -ENOMEM;
	for (size_t i = first; i < end; i++)
		later[i - first] = *w->units[i];
	r = analysis_run(later, end - first, w->seed, &found);
	for (size_t i = 0; r == 0 && i < found.n; i++) {
		const struct finding *f = &found.findings[i];

		if (f->grade >= GRADE_SUPPORTED && is_about(p, f))
			return add(w, f);
	}
	return r;
}

static int note(struct work *w, const struct finding *f)
{
	struct pattern *p = find_newest(w, f);

	if (!p)
		return add(w, f);
	if (u64_known(p->retired_wall_ns))
		return find_again(w, p);
	p->occurrences++;
	p->last_wall_ns = w->now_wall_ns;
	p->lapsed_wall_ns = U64_UNKNOWN;
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	return COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
}

int beliefs_update(struct pattern_list *patterns, const struct analysis *found,
		   const struct run_record *runs, size_t n_runs, uint64_t now_wall_ns)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	size_t n_units, n_retries, n_undecided;
	int r = units_list(runs, n_runs, &units, &n_units, &n_retries, &n_undecided);
	struct work w = { patterns, units, n_units, found->seed, now_wall_ns };

	for (size_t i = 0; r == 0 && i < patterns->n; i++) {
		struct pattern *p = &patterns->items[i];

		if (p->grade && !u64_known(p->retired_wall_ns))
			r = judge(p, units, n_units, now_wall_ns, &patterns->arena);
	}
	for (size_t i = 0; r == 0 && i < found->n; i++)
		if (found->findings[i].grade >= GRADE_SUPPORTED)
			r = note(&w, &found->findings[i]);
	/* What this analysis could have found again, and did not, lapses. */
	for (size_t i = 0; r == 0 && i < patterns->n; i++) {
		struct pattern *p = &patterns->items[i];

		if (p->grade && !u64_known(p->confirmed_wall_ns) && !u64_known(p->lapsed_wall_ns) &&
		    !u64_known(p->retired_wall_ns) && p->last_wall_ns < now_wall_ns &&
		    found->n_tested > 0 &&
		    bsearch(&p->class_key, found->tested, found->n_tested, sizeof(p->class_key),
			    compare_keys))
			p->lapsed_wall_ns = now_wall_ns;
	}
	return r;
}

/* ---- correlations ---- */

static int note_correlation(struct pattern_list *list, const struct compat_result *result,
			    uint64_t now)
{
	CLEANUP(buf_release) struct buf name = BUF_INIT, tags = BUF_INIT;
	struct pattern *p = NULL;

	buf_printf(&name, "%s %s", result->type, result->tags[0]);
	for (size_t i = 0; i < COMPAT_TAGS; i++)
		buf_printf(&tags, "%s%s", i ? "\n" : "", result->tags[i]);
	if (buf_error(&name) < 0 || buf_error(&tags) < 0)
		return -ENOMEM;
	for (size_t i = 0; !p && i < list->n; i++)
		if (strcmp(list->items[i].type, PATTERN_CORRELATION) == 0 &&
		    strcmp(list->items[i].name, name.data) == 0)
			p = &list->items[i];
	if (!p) {
		p = pattern_list_add(list);
		if (!p)
			return -ENOMEM;
		p->type = PATTERN_CORRELATION;
		p->name = arena_strndup(&list->arena, name.data, name.len);
		p->first_wall_ns = now;
	}
	p->tags = arena_strndup(&list->arena, tags.data, tags.len);
	p->confidence = result->confidence;
	p->n_jobs = result->n_jobs;
	p->occurrences++;
	p->last_wall_ns = now;
	return p->name && p->tags ? 0 : -ENOMEM;
}

int beliefs_note_compat(struct pattern_list *patterns, const struct compat *compat,
			uint64_t now_wall_ns)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < compat->n; i++)
		if (compat->results[i].is_stored)
			r = note_correlation(patterns, &compat->results[i], now_wall_ns);
	return r;
}

/* ---- JSON ---- */

static void key_time(struct json *j, const char *key, uint64_t wall_ns)
{
	json_key_f64(j, key, u64_to_seconds(wall_ns));
}

/* Lines, as a list. */
static void write_lines(struct json *j, const char *key, const char *tags)
{
	json_key_array(j, key);
	while (tags && *tags) {
		size_t len = strcspn(tags, "\n");

		json_str_n(j, tags, len);
		tags += len + (tags[len] == '\n');
	}
	json_end_array(j);
}

void belief_write_json(struct json *j, const struct pattern *p)
{
	json_begin_object(j);
	json_key_string(j, "type", p->type);
	json_key_string(j, "name", p->name);
	json_key_string(j, "state", belief_state(p));
	json_key_string(j, "description", p->description);
	json_key_u64(j, "runs", p->n_jobs);
	json_key_u64(j, "occurrences", p->occurrences);
	key_time(j, "since", p->first_wall_ns);
	key_time(j, "last_seen", p->last_wall_ns);
	if (p->grade) {
		json_key_string(j, "grade", p->grade);
		json_key_string(j, "class", p->label);
		json_key_string(j, "feature", p->feature);
		json_key_string(j, "direction", p->is_above ? "above" : "at most");
		json_key_f64(j, "threshold", p->threshold);
		json_key_f64(j, "p_adjusted", p->p);
		json_key_f64(j, "predicted_inside", p->rate_in);
		json_key_f64(j, "predicted_others", p->rate_out);
		json_key_f64(j, "base_rate", p->base_rate);
		json_key_u64(j, "later_runs", p->n_later);
		json_key_u64(j, "later_failures", p->n_later_failed);
		json_key_f64(j, "later_p", p->later_p);
		json_key_f64(j, "brier", p->brier);
		json_key_f64(j, "brier_base_rate", p->brier_base);
		key_time(j, "confirmed", p->confirmed_wall_ns);
		key_time(j, "lapsed", p->lapsed_wall_ns);
		key_time(j, "retired", p->retired_wall_ns);
		json_key_string(j, "retired_why", p->retired_why);
	} else {
		json_key_f64(j, "confidence", p->confidence);
		write_lines(j, "context_tags", p->tags);
	}
	if (strcmp(p->type, PATTERN_ANOMALY) == 0)
		write_lines(j, "jobs", p->jobs);
	json_end_object(j);
}
