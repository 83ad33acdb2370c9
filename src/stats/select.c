#include "stats/select.h"

#include <math.h>

DEFINE_SELECT_NTH(select_nth, double)

double noise_median(double *v, size_t n)
{
	if (n == 0)
		return NAN;
	select_nth(v, n, n / 2);
	return v[n / 2];
}
