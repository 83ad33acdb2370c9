#include "stats/interval.h"

#include <math.h>

#include "stats/normal.h"

struct interval interval_wilson(size_t k, size_t n, double level)
{
	double z = normal_tail_quantile((1 - level) / 2);
	double count = (double)n, share = (double)k / count;
	double middle, half, scale;

	if (n == 0)
		return (struct interval){ 0, 1 };
	scale = 1 / (1 + z * z / count);
	middle = (share + z * z / (2 * count)) * scale;
	half = z * scale * sqrt(share * (1 - share) / count + z * z / (4 * count * count));
	return (struct interval){
		.low = k == 0 ? 0 : fmax(middle - half, 0), /* not a hair beside it */
		.high = k == n ? 1 : fmin(middle + half, 1),
	};
}
