/*
 * onset - when a rise began, as a distribution over time.
 *
 * A ramp is a constant, then a line or a power of the time from its onset on (a hinge), fitted by
 * least squares. The likelihood of each other onset follows from how much worse it fits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ONSET_MAX_SAMPLES 320

struct onset {
	double median, low, high; /* the middle nine tenths */
	double misfit;		  /* variance around the hinge over that expected */
	double misfit_behind;	  /* the same of what is behind the onset */
};

/*
 * The hinge in n points (at most ONSET_MAX_SAMPLES), sigma being the scatter that is expected at
 * least. False: no rise fits, or too few points.
 */
bool onset_hinge(const double *t, const double *y, size_t n, double sigma, struct onset *ret);
