#include "crossrank/waves.h"

#include <math.h>

#define SLOPE_SHARE 0.2 /* of the rise's: less steep on the way down, and it is no wave */
#define JUMP_SHARE 0.5	/* of the way down: so much at once, and it is a tooth */
#define MIN_POINTS 4	/* of the way down */
#define TURNED_SHARE 0.5
#define MORE_FACTOR 2.0 /* times the way down */

/* The way down before a run, and the rest between them. */
struct way_down {
	double lost, from, to; /* MiB, seconds */
	double largest_jump;
	size_t n_points;
};

static bool is_level(const struct series *s, size_t i)
{
	return fabs(series_move(s, i).gain) < SERIES_LEVEL_SIGMAS * s->sigma;
}

static struct way_down find_way_down(const struct series *s, size_t first)
{
	struct way_down d = { .from = NAN, .to = NAN };
	size_t i = first;

	while (i > 0 && is_level(s, i - 1))
		i--;
	for (; i > 0; i--) {
		struct move m = series_move(s, i - 1);

		if (m.gain >= SERIES_LEVEL_SIGMAS * s->sigma)
			break;
		d.to = isnan(d.to) ? m.to : d.to;
		d.from = m.from;
		d.lost -= m.gain;
		if ((i - 1) % 2 == 1)
			d.largest_jump = fmax(d.largest_jump, -m.gain);
		else
			d.n_points += s->segments[(i - 1) / 2].to - s->segments[(i - 1) / 2].from;
	}
	return d;
}

double waves_lost(const struct series *s, const struct run *run, double slope)
{
	struct way_down d = find_way_down(s, run->first);
	double rest = series_move(s, run->first).from - d.to;

	if (d.n_points < MIN_POINTS || d.lost < s->min_rise ||
	    d.largest_jump > JUMP_SHARE * d.lost || !(rest <= d.to - d.from))
		return 0;
	return d.lost / (d.to - d.from) >= SLOPE_SHARE * slope ? d.lost : 0;
}

/* What nobody else has, and is much more than a wave gives and takes, is more than one. */
static bool is_more(const struct judge_outcome *o, const struct rise *rise)
{
	return o->to - o->from == 1 && isinf(rise->gone) &&
	       rise->gain_mib >= MORE_FACTOR * rise->lost_mib;
}

void waves_take_back(const struct judge_work *w, struct judge_outcome *chosen)
{
	const struct rise *first = w->pool[chosen->best].rise;
	size_t n_others = chosen->to - chosen->from - 1, n_turned = 0;

	for (size_t i = chosen->from; i < chosen->to; i++)
		n_turned += i != chosen->best && w->pool[i].rise->lost_mib > 0;
	if (is_more(chosen, first))
		return;
	if (!(first->lost_mib > 0) &&
	    (n_turned == 0 || (double)n_turned < TURNED_SHARE * (double)n_others))
		return;
	chosen->verdict = VERDICT_CANNOT_TELL;
	chosen->why = WHY_WAVES;
}
