/*
 * chance - whether moments are nearer to each other than chance puts them.
 *
 * Had each of n ranks risen at any moment of a time, independently: how often would their moments
 * be as near as these? Seldom (p < 0.04; of two 0.05) is no chance. Inside of related.c.
 */
#ifndef PROCTOR_CROSSRANK_CHANCE_H
#define PROCTOR_CROSSRANK_CHANCE_H

#include <stdbool.h>
#include <stddef.h>

struct onsets {
	double *at;	/* of one rise of each rank that has any, by time */
	double choices; /* rises of a rank from which that one was taken, on average */
	size_t n, n_members;
	double length; /* of the time in which they may have risen, on average */
	double least;  /* a span that is as good as none */
};

/* The first n_members of them are near each other, whatever the others did (p < 0.005). */
bool chance_is_part(const struct onsets *o);

/* All of them are near each other; and those behind the first even more so. */
bool chance_is_cluster(const struct onsets *o);

/*
 * Of the first n those behind the very first are near each other, all of them or all but a few,
 * however long before them it was (p < 0.005).
 */
bool chance_is_behind(const struct onsets *o, size_t n);

/* They went up one after the other, at an even pace. */
bool chance_is_even(const struct onsets *o);

#endif
