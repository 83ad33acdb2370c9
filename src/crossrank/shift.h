/*
 * shift - how much of a series stays up from some moment on, and how sure that is.
 *
 * What goes up and down, as a saw or as noise does, has no part that is a rise, and may have gained
 * for good all the same. So the mean behind each moment is held against the mean before it. A
 * sample counts for less where each is near the one before.
 *
 * Inside of rises.c.
 */
#ifndef PROCTOR_CROSSRANK_SHIFT_H
#define PROCTOR_CROSSRANK_SHIFT_H

#include "crossrank/series.h"

#define SHIFT_MIN_SIDE 3 /* samples before a moment, and behind it: of fewer nothing is said */

struct shift {
	double least; /* so much has stayed up, and stands out from the scatter; 0: nothing surely
		       */
	double most;  /* more has not */
	double sigma; /* the scatter around that, teeth and all */
};

/*
 * Of a series that is cut. Nothing has gained more for good than lies between its lowest point and
 * the highest behind that. What a saw has gained its lows have gained, too; where it is none the
 * lowest points are chance.
 */
void shift_find(const struct series *s, bool is_sawtooth, struct shift *ret);

#endif
