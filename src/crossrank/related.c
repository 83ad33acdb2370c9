#include "crossrank/related.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/usual.h"
#include "stats/order.h"

#define PAIR_P 0.05	 /* of two ranks: likelier than this, and it is chance */
#define CHANCE_P 0.04	 /* the same of more, for which there are more tests */
#define PART_P 0.005	 /* the same of a part: others rose elsewhere, or it is without the first */
#define EVEN_P 0.01	 /* the same for an even pace, which few jobs have */
#define ACTIVE_SHARE 0.4 /* of the record: while it loads, evaluates and ends nothing rises */
#define MAX_SPAN_SHARE 0.4 /* of that time: no number of ranks makes more a cluster */
#define MOST_SHARE 0.8	   /* of those behind the first */
#define LASTING_SHARE 0.5  /* of the rest of the record */
#define LIKE_SHARE 0.5	   /* of what the first gained in the same time */
#define MIN_EVEN 4
#define EVEN_STEPS 256

struct onsets {
	double *at;	/* of one rise of each rank that has any, by time once sorted */
	double choices; /* rises of a rank from which that one was taken, on average */
	size_t n, n_members;
	double length; /* of the time in which they may have risen, on average */
	double least;  /* a span that is as good as none */
};

/* ---- which rises are compared ---- */

static bool is_member(const struct judge_work *w, const struct judge_outcome *o,
		      const struct rank *rank)
{
	for (size_t i = o->from; i < o->to; i++)
		if (w->pool[i].rank == rank)
			return true;
	return false;
}

/* Given back soon, and not with the end of its process. */
static bool is_passing(const struct judge_work *w, const struct candidate *c)
{
	double onset = c->rise->onset.median;

	return c->rise->gone - onset < LASTING_SHARE * (usual_record_end(w, c->rank) - onset);
}

/* What passes is not like what stays. */
static bool is_comparable(const struct judge_work *w, const struct candidate *first,
			  const struct candidate *other)
{
	return usual_is_given_back(w, first->rank, first->rise) || is_passing(w, first) ||
	       !is_passing(w, other);
}

static double onset_of(const struct candidate *c)
{
	return c->rise->onset.median;
}

/* By rank: the onset of its rise that is nearest to the first. */
static void note_onset(const struct judge_work *w, const struct judge_outcome *chosen,
		       const struct candidate *c, double *nearest)
{
	const struct candidate *first = &w->pool[chosen->best];
	double *at = &nearest[c->rank - w->a->ranks];

	if (!is_comparable(w, first, c) || is_member(w, chosen, c->rank))
		return;
	if (isnan(*at) || fabs(onset_of(c) - onset_of(first)) < fabs(*at - onset_of(first)))
		*at = onset_of(c);
}

/* As steep as the first one, and small only as its record ends. */
static bool is_cut_short(const struct rise *first, const struct rise *other)
{
	return other->gain_mib >=
	       LIKE_SHARE * first->slope * fmax(other->end - other->onset.median, 0);
}

/* Those of other episodes that are not the workload's, and those too late to be large. */
static void note_others(const struct judge_work *w, const struct judge_outcome *items, size_t n,
			const struct judge_outcome *chosen, double *nearest)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = items[i].from; items[i].verdict != VERDICT_NONE && k < items[i].to;
		     k++)
			note_onset(w, chosen, &w->pool[k], nearest);
	for (size_t i = 0; i < w->n_small; i++)
		if (is_cut_short(w->pool[chosen->best].rise, w->small[i].rise))
			note_onset(w, chosen, &w->small[i], nearest);
}

static void add_onset(const struct judge_work *w, struct onsets *o, const struct rank *rank,
		      double at)
{
	o->at[o->n++] = at;
	o->length += ACTIVE_SHARE * w->coverage[rank - w->a->ranks].seconds;
}

/*
 * Members first, then others. Who did not rise, as it died before, says nothing of how long the
 * others could have.
 */
static void collect(const struct judge_work *w, const struct judge_outcome *items, size_t n,
		    const struct judge_outcome *chosen, struct onsets *ret)
{
	double *nearest = ret->at + w->a->n_ranks;
	double sd = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		nearest[i] = NAN;
	note_others(w, items, n, chosen, nearest);
	for (size_t i = chosen->from; i < chosen->to; i++)
		if (is_comparable(w, &w->pool[chosen->best], &w->pool[i])) {
			add_onset(w, ret, w->pool[i].rank, onset_of(&w->pool[i]));
			sd += w->pool[i].rise->onset.sd;
		}
	ret->n_members = ret->n;
	ret->least = 2 * sd / (double)ret->n;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (!isnan(nearest[i]))
			add_onset(w, ret, &w->a->ranks[i], nearest[i]);
	ret->length /= (double)ret->n;
}

/*
 * Of each rank in it that rise was taken which fits best; its others could have been. A rank's
 * rises in one episode are one.
 */
static void count_choices(const struct judge_work *w, const struct judge_outcome *items, size_t n,
			  const struct judge_outcome *chosen, struct onsets *ret)
{
	size_t n_choices = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = items[i].from; items[i].verdict != VERDICT_NONE && k < items[i].to;
		     k++)
			n_choices += is_comparable(w, &w->pool[chosen->best], &w->pool[k]);
	ret->choices = fmax((double)n_choices / (double)ret->n, 1);
}

/* ---- chance ---- */

/* The probability of d or more successes of n, each with probability p. */
static double binomial_tail(size_t n, size_t d, double p)
{
	double sum = 0;

	if (p >= 1)
		return 1;
	for (size_t i = d; i <= n; i++)
		sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) -
			   lgamma((double)(n - i) + 1) + (double)i * log(p) +
			   (double)(n - i) * log1p(-p));
	return fmin(sum, 1);
}

/* That any of so many is within the share of the time in which one is with that probability. */
static double any_of(double p, double n)
{
	return 1 - pow(1 - fmin(p, 1), n);
}

/*
 * Of n moments by chance: that so many neighbours are within such a share of the time, or fewer.
 * Where a rank has several, each of them could be the first, and any of another's near it.
 */
static double cluster_p(const struct onsets *o, size_t k, double span)
{
	double share = fmax(span, o->least) / o->length;

	if (!(share <= MAX_SPAN_SHARE) || k < 2)
		return 1;
	share = any_of(share, o->choices);
	return fmin(o->choices * (double)(o->n - k + 1) * binomial_tail(o->n, k - 1, share), 1);
}

/* Both of two independent tests at once, by Fisher. */
static double both_p(double a, double b)
{
	double product = fmax(a * b, 1e-300);

	return product * (1 - log(product));
}

/* All of them are near each other; and those behind the first even more so. */
static double all_p(const struct onsets *o)
{
	double span = fmax(o->at[o->n - 1] - o->at[0], o->least);
	double behind = fmax(o->at[o->n - 1] - o->at[1], o->least);
	double p = cluster_p(o, o->n, span);

	if (o->n < 3 || p >= 1)
		return p;
	return both_p(p, pow(any_of(behind / span, o->choices), (double)o->n - 2));
}

/* The least time within which k neighbours behind the first member are. */
static double least_span(const struct onsets *o, size_t k)
{
	double least = INFINITY;

	for (size_t i = 1; i + k <= o->n_members; i++)
		least = fmin(least, o->at[i + k - 1] - o->at[i]);
	return least;
}

/*
 * Those behind the first are near each other, all of them or all but a few, however long before
 * them the first was: a scan for both numbers, each of which could have been found.
 */
static double behind_p(const struct onsets *o)
{
	size_t all = o->n_members > 0 ? o->n_members - 1 : 0;
	size_t most = (size_t)ceil(MOST_SHARE * (double)all);
	double p = cluster_p(o, all, least_span(o, all));

	if (most == all)
		return p;
	return fmin(2 * fmin(p, cluster_p(o, most, least_span(o, most))), 1);
}

/*
 * That the largest of n gaps by chance is so few times the smallest: the integral of
 * n (u - u^q)^(n - 1) from 0 to 1.
 */
static double even_p(double q, size_t n)
{
	double sum = 0;

	for (int i = 0; i < EVEN_STEPS; i++) {
		double u = (i + 0.5) / EVEN_STEPS;

		sum += pow(u - pow(u, q), (double)n - 1);
	}
	return (double)n * sum / EVEN_STEPS;
}

static bool is_even(const struct onsets *o)
{
	double least = INFINITY, most = 0;

	if (o->n < MIN_EVEN)
		return false;
	for (size_t i = 1; i < o->n; i++) {
		least = fmin(least, o->at[i] - o->at[i - 1]);
		most = fmax(most, o->at[i] - o->at[i - 1]);
	}
	return least > o->least &&
	       pow(o->choices, (double)o->n) * even_p(most / least, o->n - 1) < EVEN_P;
}

/* ---- who is shown beside the one that is named ---- */

static const struct candidate *find_rise(const struct judge_work *w, const struct rank *rank,
					 double at)
{
	for (size_t i = 0; i < w->n_pool; i++)
		if (w->pool[i].rank == rank && onset_of(&w->pool[i]) == at)
			return &w->pool[i];
	for (size_t i = 0; i < w->n_small; i++)
		if (w->small[i].rank == rank && onset_of(&w->small[i]) == at)
			return &w->small[i];
	return NULL;
}

/*
 * Others that rose soon are why the only one of its episode may be named: it was before them, or
 * it is not the first, and they are listed.
 */
static void join_others(struct judge_work *w, const double *nearest, struct judge_outcome *chosen)
{
	const struct candidate first = w->pool[chosen->best];
	size_t from = w->n_pool, n = from;

	w->pool[n++] = first;
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct candidate *c = find_rise(w, &w->a->ranks[i], nearest[i]);

		if (!c)
			continue;
		if (onset_of(c) < onset_of(&first)) {
			chosen->verdict = VERDICT_CANNOT_TELL;
			chosen->why = WHY_UNRELATED;
			return;
		}
		w->pool[n] = *c;
		w->pool[n++].probability = 0;
	}
	w->n_pool = n;
	*chosen = (struct judge_outcome){ VERDICT_NAMED, WHY_FIRST, from, n, from, NULL };
}

int related_judge(struct judge_work *w, const struct judge_outcome *items, size_t n,
		  struct judge_outcome *chosen)
{
	CLEANUP(free_ptr) double *room = calloc(2 * w->a->n_ranks + 1, sizeof(*room));
	struct onsets o = { .at = room };
	bool is_cluster, is_behind;

	if (!room)
		return -ENOMEM;
	if (usual_take_back(w, chosen))
		return 0;
	collect(w, items, n, chosen, &o);
	count_choices(w, items, n, chosen, &o);
	w->f->n_risen = o.n;
	if (o.n < 2)
		return 0;
	order_sort(o.at, o.n_members);
	is_cluster = cluster_p(&o, o.n_members, o.at[o.n_members - 1] - o.at[0]) < PART_P;
	is_behind = behind_p(&o) < PART_P;
	order_sort(o.at, o.n);
	is_cluster |= all_p(&o) < (o.n == 2 ? PAIR_P : CHANCE_P) || is_even(&o);
	w->f->is_apart = is_behind && !is_cluster;
	if (!is_cluster && !is_behind) {
		chosen->verdict = VERDICT_CANNOT_TELL;
		chosen->why = WHY_UNRELATED;
	} else if (o.n_members == 1 && chosen->to - chosen->from == 1) {
		join_others(w, room + w->a->n_ranks, chosen);
	}
	return 0;
}
