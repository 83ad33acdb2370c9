#include "learn/failure_analysis.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/feature.h"
#include "learn/run_class.h"
#include "stats/maxt.h"

#define LEVEL 0.95

/* ---- both sides of a cut ---- */

static void settle_side(struct effect_side *side)
{
	side->rate = side->n ? (double)side->n_failed / (double)side->n : F64_UNKNOWN;
	side->interval = interval_wilson(side->n_failed, side->n, LEVEL);
}

/* The sides of a cut that is given. */
static void effect_split(const double *values, const bool *has_failed, size_t n,
			 struct effect *effect)
{
	struct effect_side *in = &effect->in, *out = &effect->out;

	*in = *out = (struct effect_side){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct effect_side *side;

		if (!f64_known(values[i]))
			continue;
		side = (values[i] > effect->threshold) == effect->is_above ? in : out;
		side->n++;
		side->n_failed += has_failed[i];
	}
	settle_side(in);
	settle_side(out);
	effect->risk_difference = in->rate - out->rate;
	effect->odds_ratio =
		((double)in->n_failed + 0.5) * ((double)(out->n - out->n_failed) + 0.5) /
		(((double)(in->n - in->n_failed) + 0.5) * ((double)out->n_failed + 0.5));
}

/* ---- leave one out ---- */

struct point {
	double value;
	bool has_failed;
};

static int by_value(const void *a, const void *b)
{
	return COMPARE(((const struct point *)a)->value, ((const struct point *)b)->value);
}

/*
 * The best cut, by Youden's J, without the run at place out; 0: there is none. Points are by value,
 * and more fail above; a cut is named by how many are below it. Of cuts that are as good the
 * one farthest from the run counts, and the lower one first.
 */
static size_t cut_without(const struct point *points, size_t n, size_t n_failed, size_t out)
{
	bool has_failed = points[out].has_failed;
	size_t failed_above = n_failed, passed_above = n - n_failed, cut = 0;
	int64_t all_failed = (int64_t)(failed_above - has_failed);
	int64_t all_passed = (int64_t)(passed_above - !has_failed), best = INT64_MIN;

	for (size_t k = 1; k < n; k++) {
		bool is_out_above = out >= k;
		int64_t failed, passed, j; /* J times the runs of both kinds */

		failed_above -= points[k - 1].has_failed;
		passed_above -= !points[k - 1].has_failed;
		if (!(points[k - 1].value < points[k].value))
			continue;
		failed = (int64_t)(failed_above - (has_failed && is_out_above));
		passed = (int64_t)(passed_above - (!has_failed && is_out_above));
		j = failed * (all_passed > 1 ? all_passed : 1) -
		    passed * (all_failed > 1 ? all_failed : 1);
		if (j > best || (j == best && cut > out)) {
			best = j;
			cut = k;
		}
	}
	return cut;
}

static double middle_of(const struct point *points, size_t cut)
{
	return points[cut - 1].value / 2 + points[cut].value / 2;
}

static int by_size(const void *a, const void *b)
{
	return COMPARE(*(const size_t *)a, *(const size_t *)b);
}

/* Leaves out each run in turn; the median of the cuts is the cut. */
int effect_measure(const double *values, const bool *has_failed, size_t n_values, bool is_above,
		   struct effect *ret)
{
	CLEANUP(free_ptr) struct point *points = calloc(n_values + 1, sizeof(*points));
	CLEANUP(free_ptr) size_t *cuts = calloc(n_values + 1, sizeof(*cuts));
	struct effect effect = { .is_above = is_above };
	double sign = is_above ? 1 : -1;
	size_t n = 0, n_failed = 0, n_right = 0, n_cuts = 0;

	if (!points || !cuts)
		return -ENOMEM;
	for (size_t i = 0; i < n_values; i++) {
		if (!f64_known(values[i]))
			continue;
		points[n].value = sign * values[i];
		points[n++].has_failed = has_failed[i];
		n_failed += has_failed[i];
	}
	qsort(points, n, sizeof(*points), by_value);
	for (size_t i = 0; i < n; i++) {
		size_t cut = cut_without(points, n, n_failed, i);
		double threshold;

		if (cut == 0)
			continue;
		threshold = middle_of(points, cut);
		/* The run may have been the edge of the cut. */
		if ((cut == i || cut == i + 1) && i > 0 && i + 1 < n)
			threshold = points[i - 1].value / 2 + points[i + 1].value / 2;
		n_right += (points[i].value > threshold) == points[i].has_failed;
		cuts[n_cuts++] = cut;
	}
	if (n_cuts == 0)
		return -EDOM;
	qsort(cuts, n_cuts, sizeof(*cuts), by_size);
	effect.threshold = sign * middle_of(points, cuts[(n_cuts - 1) / 2]);
	effect.loo_accuracy = (double)n_right / (double)n;
	effect_split(values, has_failed, n_values, &effect);
	*ret = effect;
	return 0;
}

#define MIN_UNTESTED 5	    /* runs of a class that is too small to be tested */
#define MIN_UNTESTED_EACH 2 /* failures, and passes, of those */
#define MAX_UNTESTED 3	    /* findings about such a class */
#define SECOND_DEALS 99999  /* for a class whose p is as small as the first deals can tell */
#define SECOND_CLASSES 20   /* at most */

/* ---- sentences ---- */

const char *grade_name(enum grade grade)
{
	static const char *const names[] = { "none", "suggestive", "supported", "confirmed" };

	return names[grade];
}

/* 0.003, 0.00012, 0.04 */
static void add_p(struct buf *out, double p)
{
	buf_printf(out, p < 0.001 ? "%.1g" : p < 0.1 ? "%.2g" : "%.2f", p);
}

/*
 * "runs of `train.py` whose memory grew faster than 41 MB/s in the first minute failed 8 of 9 times
 * (95 % interval 57 to 98 %); others 1 of 12; adjusted p 0.003, supported". Of too few runs:
 * "suggestive: 2 of 2 failures and 0 of 3 passes …", without a rate and an interval, as so few
 * are no prediction. NULL: no memory.
 */
static const char *sentence_of(const struct finding *f, struct arena *arena)
{
	const struct effect_side *in = &f->effect.in, *rest = &f->effect.out;
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	if (f->is_tested) {
		buf_add_str(&out, "runs ");
		if (f->label)
			buf_printf(&out, "of `%s` ", f->label);
		buf_printf(&out,
			   "%s failed %zu of %zu times (95 %% interval %.0f to %.0f %%); others "
			   "%zu of %zu; adjusted p ",
			   f->phrase, in->n_failed, in->n, in->interval.low * 100,
			   in->interval.high * 100, rest->n_failed, rest->n);
		add_p(&out, f->p);
		buf_printf(&out, ", %s", grade_name(f->grade));
	} else {
		buf_printf(&out, "suggestive: %zu of %zu failures and %zu of %zu passes ",
			   in->n_failed, in->n_failed + rest->n_failed, in->n - in->n_failed,
			   in->n - in->n_failed + (rest->n - rest->n_failed));
		if (f->label)
			buf_printf(&out, "of `%s` ", f->label);
		buf_printf(&out, "were runs %s; %zu runs cannot give a p below ", f->phrase,
			   f->n_runs);
		add_p(&out, f->p_floor);
	}
	if (f->is_censored)
		buf_printf(&out, " (censored: %s%s)",
			   strchr(f->feature, ':') ? "it may have come with the end"
						   : "a failure cuts this short",
			   f->may_follow ? ", so it may be a consequence and no cause" : "");
	return buf_error(&out) < 0 ? NULL : arena_strndup(arena, out.data, out.len);
}

/* ---- the features of one class of runs, tested together ---- */

struct trial {
	const struct run_record *const *runs; /* of one class, by time; borrowed */
	size_t n_runs, n_failed;
	struct features features;     /* its arena owns the rest */
	bool *has_failed;	      /* of each run */
	const double **columns;	      /* of each feature… */
	bool *is_binary;	      /* …and what kind it is… */
	struct maxt_feature *results; /* …and what came of it */
	struct maxt_summary summary;
};

static void trial_release(struct trial *t)
{
	features_release(&t->features);
}

static int trial_set_out(struct trial *t, const struct run_record *const *runs, size_t n_runs)
{
	int r = features_build(runs, n_runs, &t->features);
	size_t n = t->features.n;
	struct arena *arena = &t->features.arena;

	if (r < 0)
		return r;
	t->runs = runs;
	t->n_runs = n_runs;
	t->has_failed = arena_alloc(arena, n_runs * sizeof(*t->has_failed));
	t->columns = arena_alloc(arena, n * sizeof(*t->columns));
	t->is_binary = arena_alloc(arena, n * sizeof(*t->is_binary));
	t->results = arena_alloc(arena, n * sizeof(*t->results));
	if (!t->has_failed || !t->columns || !t->is_binary || !t->results)
		return -ENOMEM;
	for (size_t i = 0; i < n_runs; i++) {
		t->has_failed[i] = run_has_failed(runs[i]);
		t->n_failed += t->has_failed[i];
	}
	for (size_t i = 0; i < n; i++) {
		t->columns[i] = t->features.items[i].values;
		t->is_binary[i] = t->features.items[i].unit == UNIT_NONE;
	}
	return 0;
}

/* With so many deals where not all are gone through, 0: the default. Again with other ones. */
static int trial_run(struct trial *t, uint64_t seed, uint64_t n_deals)
{
	const struct maxt_input in = {
		.columns = t->columns,
		.is_binary = t->is_binary,
		.n_features = t->features.n,
		.has_failed = t->has_failed,
		.n_runs = t->n_runs,
		.seed = seed ^ t->runs[0]->class.command ^ n_deals,
		.n_deals = n_deals,
	};

	return maxt_test(&in, t->results, &t->summary);
}

/* Adjusted for its features; 1 for none. */
static double trial_smallest_p(const struct trial *t)
{
	double p = 1;

	for (size_t i = 0; i < t->features.n; i++)
		p = fmin(p, t->results[i].p);
	return p;
}

void analysis_release(struct analysis *a)
{
	free(a->findings);
	arena_release(&a->arena);
	*a = (struct analysis){ .arena = ARENA_INIT };
}

/* ---- one class ---- */

struct class_test {
	const struct run_record *const *runs; /* by time */
	size_t n_runs, n_failed;
	bool is_tested;
	double p;	   /* of its most outstanding feature */
	double factor;	   /* that the other classes put on it */
	size_t n_findings; /* of the analysis, up to here */
};

struct work {
	struct analysis *out;
	size_t cap;
	struct class_test *classes;
	size_t n_classes;
};

/* ---- findings ---- */

/* Notes a feature, before the classes are adjusted for each other. */
static int find(struct work *w, const struct class_test *c, const struct trial *t, size_t i)
{
	const struct feature *feature = &t->features.items[i];
	const struct maxt_feature *result = &t->results[i];
	const char *label = t->runs[0]->class.label;
	CLEANUP(buf_release) struct buf phrase = BUF_INIT;
	struct analysis *out = w->out;
	bool has_timeouts = false;
	struct finding found = {
		.class_key = t->runs[0]->class.command,
		.is_tested = c->is_tested,
		.is_censored = feature->is_censored,
		.p = c->is_tested ? result->p : F64_UNKNOWN,
		.p_alone = result->p_alone,
		.p_floor = t->summary.p_floor,
		.auc = result->auc,
		.n_deals = t->summary.n_deals,
		.is_exact = t->summary.is_exact,
		.n_runs = t->n_runs,
		.n_failed = t->n_failed,
		.newest_wall_ns = t->runs[t->n_runs - 1]->ended_wall_ns,
	};
	int r = effect_measure(feature->values, t->has_failed, t->n_runs, result->auc > 0.5,
			       &found.effect);

	if (r < 0)
		return r == -EDOM ? 0 : r; /* nowhere to cut */
	for (size_t k = 0; k < t->n_runs; k++)
		has_timeouts |=
			t->has_failed[k] && run_measured_outcome(t->runs[k]) == OUTCOME_TIMEOUT;
	/*
	 * Less of it is what being cut short would do by itself, more of it what having been given
	 * all the time there was would; an anomaly may come with the end.
	 */
	found.may_follow = feature->is_censored &&
			   (!found.effect.is_above || has_timeouts || feature->unit == UNIT_NONE);
	feature_add_phrase(&phrase, feature, found.effect.is_above, found.effect.threshold);
	found.label = arena_strdup(&out->arena, label);
	found.feature = arena_strdup(&out->arena, feature->key);
	found.phrase = arena_strndup(&out->arena, phrase.data, phrase.len);
	if (buf_error(&phrase) < 0 || !found.feature || !found.phrase || (label && !found.label) ||
	    ARRAY_RESERVE(out->findings, w->cap, out->n + 1) < 0)
		return -ENOMEM;
	out->findings[out->n++] = found;
	return 0;
}

/*
 * Of a class that is tested all that may turn out to be something; the classes have yet to be
 * adjusted. Of one with too few runs for a test what separates without an exception.
 */
static int find_all(struct work *w, const struct class_test *c, const struct trial *t)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->features.n; i++) {
		const struct maxt_feature *result = &t->results[i];
		bool separates = result->auc == 0 || result->auc == 1;

		if (c->is_tested ? result->p <= ANALYSIS_SUGGESTIVE
				 : separates && n < MAX_UNTESTED) {
			r = find(w, c, t, i);
			n++;
		}
	}
	return r;
}

static int analyze_class(struct work *w, struct class_test *c)
{
	CLEANUP(trial_release) struct trial t = { .features = { .arena = ARENA_INIT } };
	size_t n_passed = c->n_runs - c->n_failed;
	int r = 0;

	c->is_tested = c->n_failed >= ANALYSIS_MIN_EACH && n_passed >= ANALYSIS_MIN_EACH;
	c->p = 1;
	c->factor = 1;
	if (c->is_tested || (c->n_runs >= MIN_UNTESTED && c->n_failed >= MIN_UNTESTED_EACH &&
			     n_passed >= MIN_UNTESTED_EACH)) {
		r = trial_set_out(&t, c->runs, c->n_runs);
		if (r == 0 && t.features.n > 0)
			r = trial_run(&t, w->out->seed, 0);
		if (r == 0 && c->is_tested)
			c->p = trial_smallest_p(&t);
		if (r == 0)
			r = find_all(w, c, &t);
	}
	c->n_findings = w->out->n;
	return r;
}

/* ---- the classes together ---- */

static int by_p(const void *a, const void *b)
{
	const struct class_test *x = *(struct class_test *const *)a;
	const struct class_test *y = *(struct class_test *const *)b;

	return COMPARE(x->p, y->p) ?: COMPARE(x, y);
}

/*
 * Benjamini and Hochberg over the classes: how much larger the smallest p of each
 * becomes. On noise they call something supported as seldom as one class alone.
 */
static int adjust_classes(struct work *w)
{
	CLEANUP(free_ptr) struct class_test **order = calloc(w->n_classes + 1, sizeof(*order));
	size_t n = 0;
	double p = 1;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_classes; i++)
		if (w->classes[i].is_tested)
			order[n++] = &w->classes[i];
	qsort(order, n, sizeof(*order), by_p);
	for (size_t i = n; i > 0; i--) {
		p = fmin(p, order[i - 1]->p * (double)n / (double)i);
		order[i - 1]->factor = fmax(p / order[i - 1]->p, 1);
	}
	w->out->n_tested = n;
	return 0;
}

/* Replaces the p of a class by that of new and more deals. */
static int test_again(struct work *w, size_t which)
{
	CLEANUP(trial_release) struct trial t = { .features = { .arena = ARENA_INIT } };
	struct class_test *c = &w->classes[which];
	size_t first = which > 0 ? c[-1].n_findings : 0;
	int r = trial_set_out(&t, c->runs, c->n_runs);

	if (r == 0)
		r = trial_run(&t, w->out->seed, SECOND_DEALS);
	if (r < 0)
		return r;
	c->p = trial_smallest_p(&t);
	for (size_t i = first; i < c->n_findings; i++) {
		struct finding *f = &w->out->findings[i];

		for (size_t k = 0; k < t.features.n; k++)
			if (strcmp(f->feature, t.features.items[k].key) == 0) {
				f->p = t.results[k].p;
				f->p_alone = t.results[k].p_alone;
			}
		f->n_deals = t.summary.n_deals;
		f->p_floor = t.summary.p_floor;
	}
	return 0;
}

/*
 * Where no deal came near, and there are so many classes that this is not yet
 * enough, more deals may tell. They are new ones, and their p stands alone: who is
 * looked at twice is not looked at more kindly.
 */
static int look_closer(struct work *w)
{
	size_t n_again = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->n_classes && n_again < SECOND_CLASSES; i++) {
		const struct class_test *c = &w->classes[i];

		if (!c->is_tested || c->p > 1.5 / (MAXT_DEALS + 1) ||
		    c->p * c->factor <= ANALYSIS_LEVEL)
			continue;
		r = test_again(w, i);
		n_again++;
	}
	return r == 0 && n_again > 0 ? adjust_classes(w) : r;
}

/* ---- the end ---- */

static int by_weight(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->grade == y->grade && x->is_tested && y->is_tested && x->p != y->p)
		return COMPARE(x->p, y->p);
	return COMPARE(y->grade, x->grade) ?: COMPARE(x->class_key, y->class_key) ?: strcmp(x->feature, y->feature);
}

/* Grades, now that the classes are adjusted for each other; what is none goes. */
static int settle(struct work *w)
{
	struct analysis *out = w->out;
	size_t n = 0, class = 0;

	for (size_t i = 0; i < out->n; i++) {
		struct finding f = out->findings[i];

		while (i >= w->classes[class].n_findings)
			class ++;
		if (f.is_tested) {
			f.p = fmin(f.p * w->classes[class].factor, 1);
			f.grade = f.p <= ANALYSIS_LEVEL	       ? GRADE_SUPPORTED
				  : f.p <= ANALYSIS_SUGGESTIVE ? GRADE_SUGGESTIVE
							       : GRADE_NONE;
		} else {
			f.grade = GRADE_SUGGESTIVE;
		}
		if (f.grade == GRADE_NONE)
			continue;
		f.sentence = sentence_of(&f, &out->arena);
		if (!f.sentence)
			return -ENOMEM;
		out->findings[n++] = f;
	}
	out->n = n;
	if (n > 1)
		qsort(out->findings, n, sizeof(*out->findings), by_weight);
	return 0;
}

/* The classes in an array of units that is sorted by class and time. */
static int split(struct work *w, const struct run_record *const *units, size_t n)
{
	size_t cap = 0;

	for (size_t first = 0, end; first < n; first = end) {
		struct class_test *c;

		for (end = first + 1; end < n; end++)
			if (units[end]->class.command != units[first]->class.command)
				break;
		if (ARRAY_RESERVE(w->classes, cap, w->n_classes + 1) < 0)
			return -ENOMEM;
		if (end - first > ANALYSIS_MAX_RUNS)
			first = end - ANALYSIS_MAX_RUNS;
		c = &w->classes[w->n_classes++];
		*c = (struct class_test){ .runs = units + first, .n_runs = end - first };
		for (size_t i = first; i < end; i++)
			c->n_failed += run_has_failed(units[i]);
	}
	return 0;
}

static int analyze(struct work *w, const struct run_record *const *units, size_t n)
{
	uint64_t *tested = NULL;
	size_t n_tested = 0;
	int r = split(w, units, n);

	w->out->n_classes = w->n_classes;
	for (size_t i = 0; r == 0 && i < w->n_classes; i++)
		r = analyze_class(w, &w->classes[i]);
	if (r == 0)
		r = adjust_classes(w);
	if (r == 0)
		r = look_closer(w);
	if (r < 0)
		return r;
	tested = arena_alloc(&w->out->arena, (w->out->n_tested + 1) * sizeof(*tested));
	if (!tested)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_classes; i++) /* they are sorted already */
		if (w->classes[i].is_tested)
			tested[n_tested++] = w->classes[i].runs[0]->class.command;
	w->out->tested = tested;
	return settle(w);
}

int analysis_run(const struct run_record *runs, size_t n, uint64_t seed, struct analysis *ret)
{
	CLEANUP(free_ptr) const struct run_record **units = NULL;
	struct analysis out = { .seed = seed, .arena = ARENA_INIT };
	struct work w = { .out = &out };
	size_t n_units = 0;
	int r = units_list(runs, n, &units, &n_units, &out.n_retries, &out.n_undecided);

	out.n_runs = n_units;
	if (r == 0)
		r = analyze(&w, units, n_units);
	free(w.classes);
	if (r < 0) {
		analysis_release(&out);
		return r;
	}
	*ret = out;
	return 0;
}

/* ---- JSON ---- */

static void write_side(struct json *j, const char *key, const struct effect_side *side)
{
	json_key_object(j, key);
	json_key_u64(j, "runs", side->n);
	json_key_u64(j, "failures", side->n_failed);
	json_key_f64(j, "failure_rate", side->rate);
	json_key_array(j, "interval_95");
	json_f64(j, side->interval.low);
	json_f64(j, side->interval.high);
	json_end_array(j);
	json_end_object(j);
}

void analysis_write_findings(struct json *j, const struct analysis *a)
{
	json_begin_array(j);
	for (const struct finding *f = a->findings; f < a->findings + a->n; f++) {
		json_begin_object(j);
		json_key_string(j, "class", f->label);
		json_key_string(j, "feature", f->feature);
		json_key_string(j, "grade", grade_name(f->grade));
		json_key_string(j, "sentence", f->sentence);
		json_key_bool(j, "tested", f->is_tested);
		json_key_f64(j, "p_adjusted", f->p);
		json_key_f64(j, "p_unadjusted", f->is_tested ? f->p_alone : F64_UNKNOWN);
		json_key_f64(j, "p_floor", f->p_floor);
		json_key_u64(j, "permutations", f->n_deals);
		json_key_bool(j, "exact", f->is_exact);
		json_key_f64(j, "auc", f->auc);
		json_key_bool(j, "censored", f->is_censored);
		json_key_bool(j, "may_be_consequence", f->may_follow);
		json_key_u64(j, "runs", f->n_runs);
		json_key_u64(j, "failures", f->n_failed);
		json_key_string(j, "direction", f->effect.is_above ? "above" : "at most");
		json_key_f64(j, "threshold", f->effect.threshold);
		write_side(j, "inside", &f->effect.in);
		write_side(j, "others", &f->effect.out);
		json_key_f64(j, "risk_difference", f->effect.risk_difference);
		json_key_f64(j, "odds_ratio", f->effect.odds_ratio);
		json_key_f64(j, "leave_one_out_accuracy", f->effect.loo_accuracy);
		json_end_object(j);
	}
	json_end_array(j);
}
