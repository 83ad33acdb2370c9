#include "crossrank/chance.h"

#include <math.h>

#define PAIR_P 0.05   /* of two ranks: likelier than this, and it is chance */
#define CHANCE_P 0.04 /* the same of more, for which there are more tests */
#define PART_P 0.005  /* the same of a part: others rose elsewhere, or it is without the first */
#define EVEN_P 0.01   /* the same for an even pace, which few jobs have */
#define FEW 4	      /* more are many */
#define LEAST_LENGTH 0.75  /* of the time in which they may have risen */
#define MAX_SPAN_SHARE 0.4 /* of that time: no number of ranks makes more a cluster */
#define MOST_SHARE 0.8	   /* of those behind the first */
#define MIN_EVEN 4
#define EVEN_STEPS 256

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
static double cluster_p(const struct onsets *o, size_t k, double span, double length)
{
	double share = fmax(span, o->least) / o->length;

	if (!(share <= MAX_SPAN_SHARE) || k < 2)
		return 1;
	share = any_of(share * o->length / length, o->choices);
	return fmin(o->choices * (double)(o->n - k + 1) * binomial_tail(o->n, k - 1, share), 1);
}

/*
 * The time in which k of them may have risen. The more they are the more does p depend on it, so
 * that for many it is the least that a job may have.
 */
static double length_for(const struct onsets *o, size_t k)
{
	return k > FEW ? LEAST_LENGTH * o->length : o->length;
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
	double p = cluster_p(o, o->n, span, length_for(o, o->n));

	if (o->n < 3 || p >= 1)
		return p;
	return both_p(p, pow(any_of(behind / span, o->choices), (double)o->n - 2));
}

/* The least time within which k neighbours behind the first of n are. */
static double least_span(const struct onsets *o, size_t n, size_t k)
{
	double least = INFINITY;

	for (size_t i = 1; i + k <= n; i++)
		least = fmin(least, o->at[i + k - 1] - o->at[i]);
	return least;
}

/* All of n but the first, or all but a few of them: each of both could have been found. */
static double behind_p(const struct onsets *o, size_t n)
{
	size_t all = n > 0 ? n - 1 : 0, most = (size_t)ceil(MOST_SHARE * (double)all);
	double p = cluster_p(o, all, least_span(o, n, all), o->length);

	if (most == all)
		return p;
	return fmin(2 * fmin(p, cluster_p(o, most, least_span(o, n, most), o->length)), 1);
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

bool chance_is_even(const struct onsets *o)
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

bool chance_is_part(const struct onsets *o)
{
	double span = o->at[o->n_members - 1] - o->at[0];

	return cluster_p(o, o->n_members, span, length_for(o, o->n_members)) < PART_P;
}

bool chance_is_cluster(const struct onsets *o)
{
	return all_p(o) < (o->n == 2 ? PAIR_P : CHANCE_P);
}

bool chance_is_behind(const struct onsets *o, size_t n)
{
	return behind_p(o, n) < PART_P;
}
