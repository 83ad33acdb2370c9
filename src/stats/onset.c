#include "stats/onset.h"

#include <math.h>

#define SHARE_OUTSIDE 0.05
#define BLUR_POINTS 64

double onset_quantile(const struct onset *o, double p)
{
	size_t low = 0, high = ONSET_POINTS - 1;
	double before, width;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (o->cdf[middle] < p)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return o->from;
	before = o->cdf[low - 1];
	width = o->cdf[low] - before;
	return o->from + o->step * ((double)(low - 1) + (width > 0 ? (p - before) / width : 0));
}

void onset_summarise(struct onset *o)
{
	double mean = 0, square = 0;

	for (size_t i = 1; i < ONSET_POINTS; i++) {
		double at = ((double)i - 0.5) * o->step, share = o->cdf[i] - o->cdf[i - 1];

		mean += share * at;
		square += share * at * at;
	}
	o->sd = sqrt(fmax(square - mean * mean, 0));
	o->median = onset_quantile(o, 0.5);
	o->low = onset_quantile(o, SHARE_OUTSIDE);
	o->high = onset_quantile(o, 1 - SHARE_OUTSIDE);
}

void onset_uniform(double from, double to, struct onset *ret)
{
	ret->misfit = ret->misfit_behind = 0;
	ret->from = from;
	ret->step = (to - from) / (ONSET_POINTS - 1);
	for (size_t i = 0; i < ONSET_POINTS; i++)
		ret->cdf[i] = (double)i / (ONSET_POINTS - 1);
	onset_summarise(ret);
}

/* The share of the distribution that lies before a moment. */
static double cdf_at(const struct onset *o, double at)
{
	double place = o->step > 0 ? (at - o->from) / o->step : at < o->from ? -1 : ONSET_POINTS;
	size_t i;

	if (!(place > 0))
		return 0;
	if (place >= ONSET_POINTS - 1)
		return 1;
	i = (size_t)place;
	return o->cdf[i] + (place - (double)i) * (o->cdf[i + 1] - o->cdf[i]);
}

static double blurred_at(const struct onset *o, double at, double before, double after)
{
	double sum = 0;

	for (int i = 0; i < BLUR_POINTS; i++)
		sum += cdf_at(o, at + before - (before + after) * (i + 0.5) / BLUR_POINTS);
	return sum / BLUR_POINTS;
}

void onset_blur(struct onset *o, double before, double after, double share)
{
	const struct onset sharp = *o;

	if (!(before + after > 0))
		return;
	o->from = sharp.from - before;
	o->step = sharp.step + (before + after) / (ONSET_POINTS - 1);
	for (size_t i = 0; i < ONSET_POINTS; i++) {
		double at = o->from + (double)i * o->step;

		o->cdf[i] = share * blurred_at(&sharp, at, before, after) +
			    (1 - share) * cdf_at(&sharp, at);
	}
	o->cdf[ONSET_POINTS - 1] = 1;
	onset_summarise(o);
}
