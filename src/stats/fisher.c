#include "stats/fisher.h"

#include <math.h>
#include <stdbool.h>

#define SAME 1e-7 /* two tables are as likely as each other if they differ by less */

/* lgamma() writes a global of the C library: others may run at the same time. */
static double log_factorial(size_t n)
{
	int sign;

	return lgamma_r((double)n + 1, &sign);
}

double log_choose(size_t n, size_t k)
{
	return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

/* The margins of a table: n, of which n_with have it, of which n_failed failed. */
struct margins {
	size_t n, n_with, n_failed;
	size_t least, most; /* a can be */
	double log_all;
};

static struct margins margins_of(size_t a, size_t b, size_t c, size_t d)
{
	struct margins m = { .n = a + b + c + d, .n_with = a + b, .n_failed = a + c };
	size_t n_without = c + d;

	m.least = m.n_failed > n_without ? m.n_failed - n_without : 0;
	m.most = m.n_failed < m.n_with ? m.n_failed : m.n_with;
	m.log_all = log_choose(m.n, m.n_failed);
	return m;
}

static double chance_of(const struct margins *m, size_t a)
{
	return exp(log_choose(m->n_with, a) + log_choose(m->n - m->n_with, m->n_failed - a) -
		   m->log_all);
}

double fisher_two_sided(size_t a, size_t b, size_t c, size_t d)
{
	struct margins m = margins_of(a, b, c, d);
	double seen = chance_of(&m, a) * (1 + SAME);
	double sum = 0;

	for (size_t i = m.least; i <= m.most; i++) {
		double chance = chance_of(&m, i);

		if (chance <= seen)
			sum += chance;
	}
	return fmin(sum, 1);
}

double fisher_at_least(size_t a, size_t b, size_t c, size_t d)
{
	struct margins m = margins_of(a, b, c, d);
	double sum = 0;

	for (size_t i = a; i <= m.most; i++)
		sum += chance_of(&m, i);
	return fmin(sum, 1);
}
