/*
 * unknown - how a number that could not be read is kept apart from zero.
 *
 * Counters and sizes are uint64_t with U64_UNKNOWN, rates and percentages are
 * double with NaN. Arithmetic on doubles carries NaN along by itself; for
 * integers use the helpers here. JSON prints unknown as null, screens as "-".
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define U64_UNKNOWN UINT64_MAX
#define F64_UNKNOWN ((double)NAN)

static inline bool u64_known(uint64_t v)
{
	return v != U64_UNKNOWN;
}

static inline bool f64_known(double v)
{
	return !isnan(v);
}

/* The sum; unknown if either is unknown or the sum does not fit. */
static inline uint64_t u64_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	if (!u64_known(a) || !u64_known(b) || __builtin_add_overflow(a, b, &sum))
		return U64_UNKNOWN;
	return sum;
}

/* now - before; unknown if either is, or if the counter went backwards. */
static inline uint64_t u64_delta(uint64_t now, uint64_t before)
{
	if (!u64_known(now) || !u64_known(before) || now < before)
		return U64_UNKNOWN;
	return now - before;
}

/* The larger of those known; unknown only if both are. */
static inline uint64_t u64_max_known(uint64_t a, uint64_t b)
{
	if (!u64_known(a))
		return b;
	if (!u64_known(b))
		return a;
	return a > b ? a : b;
}

static inline double f64_max_known(double a, double b)
{
	return isfinite(a) && !(a <= b) ? a : b;
}

/* a + b where an unknown part is left out; unknown only if both are. */
static inline uint64_t u64_add_known(uint64_t a, uint64_t b)
{
	if (!u64_known(a))
		return b;
	if (!u64_known(b))
		return a;
	return u64_add(a, b);
}

static inline double f64_add_known(double a, double b)
{
	return isnan(b) ? a : isnan(a) ? b : a + b;
}

static inline double u64_to_mb(uint64_t bytes)
{
	return u64_known(bytes) ? (double)bytes / (1024.0 * 1024.0) : F64_UNKNOWN;
}

static inline double u64_to_seconds(uint64_t ns)
{
	return u64_known(ns) ? (double)ns / 1e9 : F64_UNKNOWN;
}
