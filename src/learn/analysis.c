#include "learn/analysis.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/feature.h"
#include "learn/unit.h"
#include "learn/words.h"
#include "stats/maxt.h"

#define MIN_UNTESTED 5	    /* runs of a class that is too small to be tested */
#define MIN_UNTESTED_EACH 2 /* failures, and passes, of those */
#define MAX_UNTESTED 3	    /* findings about such a class */
#define SECOND_DEALS 99999  /* for a class whose p is as small as the first deals can tell */
#define SECOND_CLASSES 20   /* at most */

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

/* The columns of a class and what came of testing them. */
struct tested {
	struct features features;
	bool *has_failed;
	const double **columns;
	bool *is_binary;
	struct maxt_feature *results;
	struct maxt_summary summary;
};

static void tested_release(struct tested *t)
{
	features_release(&t->features);
	free(t->has_failed);
	free(t->columns);
	free(t->is_binary);
	free(t->results);
}

static int set_out(const struct class_test *c, struct tested *ret)
{
	size_t n;
	int r = features_build(c->runs, c->n_runs, &ret->features);

	if (r < 0)
		return r;
	n = ret->features.n + 1;
	ret->has_failed = calloc(c->n_runs, sizeof(*ret->has_failed));
	ret->columns = calloc(n, sizeof(*ret->columns));
	ret->is_binary = calloc(n, sizeof(*ret->is_binary));
	ret->results = calloc(n, sizeof(*ret->results));
	if (!ret->has_failed || !ret->columns || !ret->is_binary || !ret->results)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_runs; i++)
		ret->has_failed[i] = run_has_failed(c->runs[i]);
	for (size_t i = 0; i < ret->features.n; i++) {
		ret->columns[i] = ret->features.items[i].values;
		ret->is_binary[i] = ret->features.items[i].unit == UNIT_NONE;
	}
	return 0;
}

static int test(const struct class_test *c, struct tested *t, uint64_t seed, uint64_t n_deals)
{
	struct maxt_input in = {
		.columns = t->columns,
		.is_binary = t->is_binary,
		.n_features = t->features.n,
		.has_failed = t->has_failed,
		.n_runs = c->n_runs,
		.seed = seed ^ c->runs[0]->class.command ^ n_deals,
		.n_deals = n_deals,
	};

	return maxt_test(&in, t->results, &t->summary);
}

/* ---- findings ---- */

static struct finding *add_finding(struct work *w)
{
	struct analysis *out = w->out;

	if (out->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 16;
		struct finding *more = reallocarray(out->findings, cap, sizeof(*more));

		if (!more)
			return NULL;
		out->findings = more;
		w->cap = cap;
	}
	return &out->findings[out->n++];
}

static enum grade grade_of(double p)
{
	if (p <= ANALYSIS_LEVEL)
		return GRADE_SUPPORTED;
	return p <= ANALYSIS_SUGGESTIVE ? GRADE_SUGGESTIVE : GRADE_NONE;
}

static int describe(struct work *w, const struct feature *feature, struct finding *f)
{
	CLEANUP(buf_release) struct buf phrase = BUF_INIT;
	struct arena *arena = &w->out->arena;

	feature_add_phrase(&phrase, feature, f->effect.is_above, f->effect.threshold);
	f->label = f->label ? arena_strdup(arena, f->label) : NULL;
	f->feature = arena_strdup(arena, feature->key);
	f->phrase = arena_strndup(arena, phrase.data, phrase.len);
	return buf_error(&phrase) == 0 && f->feature && f->phrase ? 0 : -ENOMEM;
}

/* The finding about a feature, before the classes are adjusted for each other. */
static int find(struct work *w, const struct class_test *c, const struct tested *t, size_t i)
{
	const struct feature *feature = &t->features.items[i];
	const struct maxt_feature *result = &t->results[i];
	struct finding *f, found = {
		.label = c->runs[0]->class.label,
		.class_key = c->runs[0]->class.command,
		.is_tested = c->is_tested,
		.is_censored = feature->is_censored,
		.p = c->is_tested ? result->p : F64_UNKNOWN,
		.p_alone = result->p_alone,
		.p_floor = t->summary.p_floor,
		.auc = result->auc,
		.n_deals = t->summary.n_deals,
		.is_exact = t->summary.is_exact,
		.n_runs = c->n_runs,
		.n_failed = c->n_failed,
		.newest_wall_ns = c->runs[c->n_runs - 1]->ended_wall_ns,
	};
	int r = effect_measure(feature->values, t->has_failed, c->n_runs, result->auc > 0.5,
			       &found.effect);

	if (r < 0)
		return r == -EDOM ? 0 : r;
	r = describe(w, feature, &found);
	f = r == 0 ? add_finding(w) : NULL;
	if (!f)
		return -ENOMEM;
	*f = found;
	return 0;
}

static double smallest_p(const struct tested *t)
{
	double p = 1;

	for (size_t i = 0; i < t->features.n; i++)
		p = fmin(p, t->results[i].p);
	return p;
}

/* All that may turn out to be something; the classes have yet to be adjusted. */
static int find_tested(struct work *w, const struct class_test *c, const struct tested *t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->features.n; i++)
		if (t->results[i].p <= ANALYSIS_SUGGESTIVE)
			r = find(w, c, t, i);
	return r;
}

/* Too few to be tested: what separates without an exception. */
static int find_untested(struct work *w, const struct class_test *c, const struct tested *t)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && n < MAX_UNTESTED && i < t->features.n; i++)
		if (t->results[i].auc == 0 || t->results[i].auc == 1) {
			r = find(w, c, t, i);
			n++;
		}
	return r;
}

static bool is_testable(const struct class_test *c)
{
	return c->n_failed >= ANALYSIS_MIN_EACH && c->n_runs - c->n_failed >= ANALYSIS_MIN_EACH;
}

static bool is_worth_telling(const struct class_test *c)
{
	return c->n_runs >= MIN_UNTESTED && c->n_failed >= MIN_UNTESTED_EACH &&
	       c->n_runs - c->n_failed >= MIN_UNTESTED_EACH;
}

static int analyze_class(struct work *w, struct class_test *c)
{
	CLEANUP(tested_release) struct tested t = { .features = { .arena = ARENA_INIT } };
	int r = 0;

	c->is_tested = is_testable(c);
	c->p = 1;
	c->factor = 1;
	if (c->is_tested || is_worth_telling(c)) {
		r = set_out(c, &t);
		if (r == 0 && t.features.n > 0)
			r = test(c, &t, w->out->seed, 0);
		if (r == 0 && c->is_tested)
			c->p = smallest_p(&t);
		if (r == 0)
			r = c->is_tested ? find_tested(w, c, &t) : find_untested(w, c, &t);
	}
	c->n_findings = w->out->n;
	return r;
}

/* ---- the classes together ---- */

static int by_p(const void *a, const void *b)
{
	const struct class_test *x = *(struct class_test *const *)a;
	const struct class_test *y = *(struct class_test *const *)b;

	return x->p != y->p ? (x->p > y->p ? 1 : -1) : (x > y) - (x < y);
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
	CLEANUP(tested_release) struct tested t = { .features = { .arena = ARENA_INIT } };
	struct class_test *c = &w->classes[which];
	size_t first = which > 0 ? c[-1].n_findings : 0;
	int r = set_out(c, &t);

	if (r == 0)
		r = test(c, &t, w->out->seed, SECOND_DEALS);
	if (r < 0)
		return r;
	c->p = smallest_p(&t);
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

	if (x->grade != y->grade)
		return x->grade < y->grade ? 1 : -1;
	if (x->is_tested && y->is_tested && x->p != y->p)
		return x->p > y->p ? 1 : -1;
	if (x->class_key != y->class_key)
		return x->class_key > y->class_key ? 1 : -1;
	return strcmp(x->feature, y->feature);
}

/* What a run that has not ended cannot cut short comes first, at the same p. */
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
			f.grade = grade_of(f.p);
		} else {
			f.grade = GRADE_SUGGESTIVE;
		}
		if (f.grade == GRADE_NONE)
			continue;
		f.sentence = words_of_finding(&f, &out->arena);
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
		if (w->n_classes == cap) {
			cap = cap ? cap * 2 : 64;
			c = reallocarray(w->classes, cap, sizeof(*c));
			if (!c)
				return -ENOMEM;
			w->classes = c;
		}
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
	int r = split(w, units, n);

	w->out->n_classes = w->n_classes;
	for (size_t i = 0; r == 0 && i < w->n_classes; i++)
		r = analyze_class(w, &w->classes[i]);
	if (r == 0)
		r = adjust_classes(w);
	if (r == 0)
		r = look_closer(w);
	return r == 0 ? settle(w) : r;
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
