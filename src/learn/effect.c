#include "learn/effect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "stats/order.h"

#define LEVEL 0.95

/* ---- both sides of a cut ---- */

static void settle_side(struct effect_side *side)
{
	side->rate = side->n ? (double)side->n_failed / (double)side->n : F64_UNKNOWN;
	side->interval = interval_wilson(side->n_failed, side->n, LEVEL);
}

static double odds_ratio(const struct effect_side *in, const struct effect_side *out)
{
	double a = (double)in->n_failed + 0.5, b = (double)(in->n - in->n_failed) + 0.5;
	double c = (double)out->n_failed + 0.5, d = (double)(out->n - out->n_failed) + 0.5;

	return a * d / (b * c);
}

void effect_split(const double *values, const bool *has_failed, size_t n, struct effect *effect)
{
	effect->in = effect->out = (struct effect_side){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct effect_side *side;

		if (!f64_known(values[i]))
			continue;
		side = (values[i] > effect->threshold) == effect->is_above ? &effect->in
									   : &effect->out;
		side->n++;
		side->n_failed += has_failed[i];
	}
	settle_side(&effect->in);
	settle_side(&effect->out);
	effect->risk_difference = effect->in.rate - effect->out.rate;
	effect->odds_ratio = odds_ratio(&effect->in, &effect->out);
}

/* ---- leave one out ---- */

struct point {
	double value;
	bool has_failed;
};

static int by_value(const void *a, const void *b)
{
	double x = ((const struct point *)a)->value, y = ((const struct point *)b)->value;

	return (x > y) - (x < y);
}

/*
 * Points by value; with sign -1 turned around, so that more fail above. A cut is
 * named by how many points are below it. best_before[kind][i]: the best cut among
 * those up to i, for the set without one of a kind (passed, failed) that is above
 * the cut; best_after: from i on, without one that is below.
 */
struct search {
	struct point *points;
	size_t n, n_failed;
	size_t *best_before[2], *best_after[2];
};

static void search_release(struct search *s)
{
	free(s->points);
	free(s->best_before[0]);
}

static bool is_cut(const struct search *s, size_t k)
{
	return k > 0 && k < s->n && s->points[k - 1].value < s->points[k].value;
}

/*
 * Youden's J of the cut with so many failures above it, without one run of the kind,
 * which is above it or not.
 */
static double separation(const struct search *s, size_t cut, size_t failed_above, int kind,
			 bool is_out_above)
{
	size_t above = s->n - cut, passed_above = above - failed_above;
	double all_failed = (double)s->n_failed, all_passed = (double)(s->n - s->n_failed);
	double failed = (double)failed_above, passed = (double)passed_above;

	if (kind == 1) {
		all_failed--;
		failed -= is_out_above;
	} else {
		all_passed--;
		passed -= is_out_above;
	}
	return failed / fmax(all_failed, 1) - passed / fmax(all_passed, 1);
}

static void search_kind(struct search *s, int kind, const size_t *failed_above)
{
	double best = -INFINITY;
	size_t cut = 0;

	for (size_t k = 0; k <= s->n; k++) {
		double j = is_cut(s, k) ? separation(s, k, failed_above[k], kind, true) : -INFINITY;

		if (j > best) {
			best = j;
			cut = k;
		}
		s->best_before[kind][k] = cut;
	}
	best = -INFINITY;
	cut = 0;
	for (size_t k = s->n + 1; k-- > 0;) {
		double j =
			is_cut(s, k) ? separation(s, k, failed_above[k], kind, false) : -INFINITY;

		if (j > best) {
			best = j;
			cut = k;
		}
		s->best_after[kind][k] = cut;
	}
}

/* The best cut without the run at place i; 0: there is none. */
static size_t cut_without(const struct search *s, size_t i, const size_t *failed_above)
{
	int kind = s->points[i].has_failed;
	size_t before = s->best_before[kind][i], after = s->best_after[kind][i + 1];

	if (before == 0 || after == 0)
		return before ? before : after;
	return separation(s, before, failed_above[before], kind, true) >=
			       separation(s, after, failed_above[after], kind, false)
		       ? before
		       : after;
}

static double middle_of(const struct search *s, size_t cut)
{
	return s->points[cut - 1].value / 2 + s->points[cut].value / 2;
}

/* Where the cut lies if the run at place i is not there: it may have been the edge of it. */
static double middle_without(const struct search *s, size_t cut, size_t i)
{
	if ((cut != i && cut != i + 1) || i == 0 || i + 1 >= s->n)
		return middle_of(s, cut);
	return s->points[i - 1].value / 2 + s->points[i + 1].value / 2;
}

static int by_size(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* Leaves out each run in turn; the median of the cuts is the cut. */
static int leave_one_out(struct search *s, const size_t *failed_above, double *ret_threshold,
			 double *ret_accuracy)
{
	CLEANUP(free_ptr) size_t *cuts = calloc(s->n, sizeof(*cuts));
	size_t n_right = 0, n_cuts = 0;

	if (!cuts)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		size_t cut = cut_without(s, i, failed_above);

		if (cut == 0)
			continue;
		n_right +=
			(s->points[i].value > middle_without(s, cut, i)) == s->points[i].has_failed;
		cuts[n_cuts++] = cut;
	}
	if (n_cuts == 0)
		return -EDOM;
	qsort(cuts, n_cuts, sizeof(*cuts), by_size);
	*ret_threshold = middle_of(s, cuts[(n_cuts - 1) / 2]);
	*ret_accuracy = (double)n_right / (double)s->n;
	return 0;
}

static int search_fill(struct search *s, const double *values, const bool *has_failed, size_t n,
		       double sign)
{
	size_t *room;

	s->points = calloc(n + 1, sizeof(*s->points));
	room = calloc(4 * (n + 2), sizeof(*room));
	s->best_before[0] = room;
	if (!s->points || !room)
		return -ENOMEM;
	s->best_before[1] = room + (n + 2);
	s->best_after[0] = room + 2 * (n + 2);
	s->best_after[1] = room + 3 * (n + 2);
	for (size_t i = 0; i < n; i++)
		if (f64_known(values[i])) {
			s->points[s->n++] = (struct point){ .value = sign * values[i],
							    .has_failed = has_failed[i] };
			s->n_failed += has_failed[i];
		}
	if (s->n < 2)
		return -EDOM;
	qsort(s->points, s->n, sizeof(*s->points), by_value);
	return 0;
}

int effect_measure(const double *values, const bool *has_failed, size_t n, bool is_above,
		   struct effect *ret)
{
	CLEANUP(search_release) struct search s = { 0 };
	CLEANUP(free_ptr) size_t *failed_above = calloc(n + 2, sizeof(*failed_above));
	struct effect effect = { .is_above = is_above };
	double sign = is_above ? 1 : -1;
	int r = failed_above ? search_fill(&s, values, has_failed, n, sign) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t k = s.n; k-- > 0;)
		failed_above[k] = failed_above[k + 1] + s.points[k].has_failed;
	search_kind(&s, 0, failed_above);
	search_kind(&s, 1, failed_above);
	r = leave_one_out(&s, failed_above, &effect.threshold, &effect.loo_accuracy);
	if (r < 0)
		return r;
	effect.threshold *= sign;
	effect_split(values, has_failed, n, &effect);
	*ret = effect;
	return 0;
}
