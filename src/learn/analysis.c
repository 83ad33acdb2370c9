#include "learn/analysis.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "learn/trial.h"
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

/* Notes what a feature says, before the classes are adjusted for each other. */
static int find(struct work *w, const struct class_test *c, const struct trial *t, size_t i)
{
	struct finding *f, found;
	int r = trial_find(t, i, &w->out->arena, &found);

	if (r < 0)
		return r == -EDOM ? 0 : r; /* nowhere to cut */
	found.is_tested = c->is_tested;
	found.p = c->is_tested ? found.p : F64_UNKNOWN;
	f = add_finding(w);
	if (!f)
		return -ENOMEM;
	*f = found;
	return 0;
}

/* All that may turn out to be something; the classes have yet to be adjusted. */
static int find_tested(struct work *w, const struct class_test *c, const struct trial *t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->features.n; i++)
		if (t->results[i].p <= ANALYSIS_SUGGESTIVE)
			r = find(w, c, t, i);
	return r;
}

/* Too few to be tested: what separates without an exception. */
static int find_untested(struct work *w, const struct class_test *c, const struct trial *t)
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
	CLEANUP(trial_release) struct trial t = TRIAL_INIT;
	int r = 0;

	c->is_tested = is_testable(c);
	c->p = 1;
	c->factor = 1;
	if (c->is_tested || is_worth_telling(c)) {
		r = trial_set_out(&t, c->runs, c->n_runs);
		if (r == 0 && t.features.n > 0)
			r = trial_run(&t, w->out->seed, 0);
		if (r == 0 && c->is_tested)
			c->p = trial_smallest_p(&t);
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
	CLEANUP(trial_release) struct trial t = TRIAL_INIT;
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

/* The classes are sorted already. */
static int list_tested(struct work *w)
{
	uint64_t *keys = arena_alloc(&w->out->arena, (w->out->n_tested + 1) * sizeof(*keys));
	size_t n = 0;

	if (!keys)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_classes; i++)
		if (w->classes[i].is_tested)
			keys[n++] = w->classes[i].runs[0]->class.command;
	w->out->tested = keys;
	return 0;
}

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
	if (r == 0)
		r = list_tested(w);
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
