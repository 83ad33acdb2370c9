/*
 * normal - the normal distribution.
 */
#ifndef PROCTOR_STATS_NORMAL_H
#define PROCTOR_STATS_NORMAL_H

/* P(Z > z). */
double normal_tail(double z);

/* The z with P(Z > z) = p, for 0 < p < 1; at most 38 from 0, where doubles end. */
double normal_tail_quantile(double p);

#endif
