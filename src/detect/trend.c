#include "detect/trend.h"

#include <math.h>

static size_t place(const struct series *s, size_t i)
{
	return (s->first + i) % SERIES_POINTS;
}

static size_t last_place(const struct series *s)
{
	return place(s, s->n - 1u);
}

static void drop_first(struct series *s)
{
	s->first = (uint8_t)place(s, 1);
	s->n--;
}

static void append(struct series *s, double t, double v)
{
	size_t at;

	if (s->n == SERIES_POINTS)
		drop_first(s);
	at = place(s, s->n++);
	s->t[at] = (float)t;
	s->v[at] = (float)v;
}

static void drop_level(struct levels *l)
{
	l->high_before = fmaxf(l->high_before, l->high[l->first.first]);
	drop_first(&l->first);
}

void levels_add(struct levels *l, double t, double v, double window)
{
	struct series *s = &l->first;

	while (s->n > 1 && t - (double)s->t[s->first] > window)
		drop_level(l);
	if (s->n > 0 && t - (double)s->t[last_place(s)] < window / (SERIES_POINTS - 1)) {
		l->high[last_place(s)] = fmaxf(l->high[last_place(s)], (float)v);
		return;
	}
	if (s->n == SERIES_POINTS)
		drop_level(l);
	append(s, t, v);
	l->high[last_place(s)] = (float)v;
}

bool levels_since(const struct levels *l, double since, double *ret_t, double *ret_v,
		  double *ret_high_before)
{
	const struct series *s = &l->first;
	float high = l->high_before;

	for (size_t i = 0; i < s->n; i++) {
		size_t at = place(s, i);

		if ((double)s->t[at] < since) {
			high = fmaxf(high, l->high[at]);
			continue;
		}
		*ret_t = (double)s->t[at];
		*ret_v = (double)s->v[at];
		*ret_high_before = (double)high;
		return true;
	}
	return false;
}

static void get_point(const struct series *s, size_t at, double *ret_t, double *ret_v)
{
	*ret_t = (double)s->t[at];
	*ret_v = (double)s->v[at];
}

bool levels_until(const struct levels *l, double until, double *ret_t, double *ret_v)
{
	const struct series *s = &l->first;

	for (size_t i = s->n; i > 0; i--)
		if ((double)s->t[place(s, i - 1)] <= until) {
			get_point(s, place(s, i - 1), ret_t, ret_v);
			return true;
		}
	return false;
}

bool levels_last_below(const struct levels *l, double limit, double *ret_t, double *ret_v)
{
	const struct series *s = &l->first;

	for (size_t i = s->n; i > 0; i--)
		if ((double)s->v[place(s, i - 1)] <= limit) {
			get_point(s, place(s, i - 1), ret_t, ret_v);
			return true;
		}
	return false;
}

void floors_init(struct floors *f)
{
	*f = (struct floors){ .open_v = -1 };
}

static void open_part(struct floors *f, double t, double v)
{
	f->open_t = (float)t;
	f->open_v = (float)v;
}

bool floors_add(struct floors *f, double t, double v, double window)
{
	struct series *s = &f->least;

	if (f->open_v < 0) {
		open_part(f, t, v);
		return false;
	}
	if (t - (double)f->open_t < window / SERIES_POINTS) {
		f->open_v = fminf(f->open_v, (float)v);
		return false;
	}
	while (s->n > 0 && t - (double)s->t[s->first] > window)
		drop_first(s);
	append(s, (double)f->open_t, (double)f->open_v);
	open_part(f, t, v);
	return true;
}

/* ---- the line ---- */

void series_fit(const struct series *s, struct fit *ret)
{
	double t = 0, v = 0, tt = 0, vv = 0, tv = 0; /* means, and sums of products of deviations */
	struct fit fit = { 0 };
	size_t n_rising = 0;

	*ret = fit;
	if (s->n < 3)
		return;
	for (size_t i = 0; i < s->n; i++) {
		t += (double)s->t[place(s, i)] / s->n;
		v += (double)s->v[place(s, i)] / s->n;
	}
	for (size_t i = 0; i < s->n; i++) {
		double dt = (double)s->t[place(s, i)] - t;
		double dv = (double)s->v[place(s, i)] - v;

		tt += dt * dt;
		vv += dv * dv;
		tv += dt * dv;
	}
	if (!(tt > 0))
		return;
	fit.n = s->n;
	fit.from = (double)s->t[s->first];
	fit.span = (double)s->t[last_place(s)] - fit.from;
	fit.first = (double)s->v[s->first];
	fit.last = (double)s->v[last_place(s)];
	fit.slope = tv / tt;
	fit.r2 = vv > 0 ? tv * tv / (tt * vv) : 0;
	for (size_t i = 1; i < s->n; i++) {
		double step = (double)s->v[place(s, i)] - (double)s->v[place(s, i - 1)];

		n_rising += step >= 0;
		fit.largest_drop = fmax(fit.largest_drop, -step);
	}
	fit.rising = (double)n_rising / (s->n - 1);
	*ret = fit;
}
