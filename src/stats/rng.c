#include "stats/rng.h"

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
