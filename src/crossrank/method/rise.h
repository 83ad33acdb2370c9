/*
 * rise - when a rank's memory began to grow for good, apart from what its peers do, and how sure
 * that moment is.
 *
 * Inside of method/.
 */
#ifndef PROCTOR_CROSSRANK_METHOD_RISE_H
#define PROCTOR_CROSSRANK_METHOD_RISE_H

#include "crossrank/method/track.h"

#define RISE_MINOR 0.1 /* of the largest gain: smaller ones are not the fault */

/* The movement that a rank shares with its peers: known in cells, then a line. */
struct common {
	const double *at, *mib;
	size_t n;
	double trend;  /* MiB/s behind the last cell */
	bool is_sharp; /* best, low and high of a rise are wanted: that costs a fit of several
			  shapes */
};

/*
 * The main rise of a track between two moments, beyond the common movement. Returns 1 and fills
 * ret, 0: there is none; -ENOMEM.
 */
int rise_find(const struct track *track, double from, double stop, const struct common *common,
	      struct culprit_rise *ret);

#endif
