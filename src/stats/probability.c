#include "stats/probability.h"

#include <math.h>

#define FARTHEST 38.0 /* beyond, the tail is below the smallest double */
#define SAME 1e-7     /* two tables are as likely as each other if they differ by less */

double normal_tail(double z)
{
	return 0.5 * erfc(z / sqrt(2));
}

/* By halving: 60 steps are more than a double has digits. */
double normal_tail_quantile(double p)
{
	double low = -FARTHEST, high = FARTHEST;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (normal_tail(middle) > p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* ---- Fisher ---- */

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

/* ---- Wilson ---- */

struct interval interval_wilson(size_t k, size_t n, double level)
{
	double z = normal_tail_quantile((1 - level) / 2);
	double count = (double)n, share = (double)k / count;
	double middle, half, scale;

	if (n == 0)
		return (struct interval){ 0, 1 };
	scale = 1 / (1 + z * z / count);
	middle = (share + z * z / (2 * count)) * scale;
	half = z * scale * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
	return (struct interval){
		.low = k == 0 ? 0 : fmax(middle - half, 0), /* not a hair beside it */
		.high = k == n ? 1 : fmin(middle + half, 1),
	};
}

static uint64_t rotate(uint64_t v, int n)
{
	return (v << n) | (v >> (64 - n));
}

/* splitmix64: makes four unlike words of any seed, 0 included. */
static uint64_t stir(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->state[i] = stir(&seed);
}

/* xoshiro256**. */
uint64_t rng_u64(struct rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotate(s[3], 45);
	return result;
}

/* The upper half of a product; what would make some more likely is drawn again. */
uint32_t rng_below(struct rng *rng, uint32_t n)
{
	uint64_t product = (rng_u64(rng) >> 32) * n;

	if ((uint32_t)product < n) {
		uint32_t uneven = (uint32_t)(-n) % n;

		while ((uint32_t)product < uneven)
			product = (rng_u64(rng) >> 32) * n;
	}
	return (uint32_t)(product >> 32);
}
