/*
 * trend - a value over a window of time, in as many numbers as fit into a cache line or
 * two: however often it is looked at, at most SERIES_POINTS are kept.
 *
 * Times are seconds since whatever the owner counts from, and never go back.
 */
#ifndef PROCTOR_DETECT_TREND_H
#define PROCTOR_DETECT_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERIES_POINTS 32

/* Points in a ring. All zeros is empty. */
struct series {
	float t[SERIES_POINTS], v[SERIES_POINTS];
	uint8_t first, n;
};

/* The first value of each part of the window, and the largest. All zeros is empty. */
struct levels {
	struct series first;
	float high[SERIES_POINTS];
	float high_before; /* the largest of those that are older than the window; 0: none is */
};

/* What is older than the window is dropped, unless there is nothing newer to compare with. */
void levels_add(struct levels *l, double t, double v, double window);

/* The earliest at this time or later, and the largest before that; false: there is none. */
bool levels_since(const struct levels *l, double since, double *ret_t, double *ret_v,
		  double *ret_high_before);

/* The latest at this time or earlier; false: there is none. */
bool levels_until(const struct levels *l, double until, double *ret_t, double *ret_v);

/* The latest value that is no larger than this; false: there is none. */
bool levels_last_below(const struct levels *l, double limit, double *ret_t, double *ret_v);

/*
 * The least of each of SERIES_POINTS parts of the window: what a process always has,
 * whatever it takes and gives back in between.
 */
struct floors {
	struct series least;
	float open_t, open_v; /* the part that is not over yet; open_v < 0: nothing is in it */
};

void floors_init(struct floors *f);

/* True when a part was completed, so that a fit has something new to say. */
bool floors_add(struct floors *f, double t, double v, double window);

/* A straight line through the points. */
struct fit {
	size_t n;
	double from;	     /* time of the first */
	double span;	     /* seconds from the first to the last */
	double first, last;  /* values */
	double slope;	     /* per second */
	double r2;	     /* share of the variance that the line explains */
	double rising;	     /* share of the steps that do not fall */
	double largest_drop; /* of one step */
};

/* n is 0 where there are fewer than 3 points. */
void series_fit(const struct series *s, struct fit *ret);

#endif
