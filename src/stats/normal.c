#include "stats/normal.h"

#include <math.h>

#define FARTHEST 38.0 /* beyond, the tail is below the smallest double */

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
