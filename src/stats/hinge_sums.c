#include "stats/hinge.h"

#include <math.h>

static void add_up_behind(struct hinge *h)
{
	for (size_t i = h->n; i-- > 0;) {
		struct moments *m = &h->behind[i];
		double left = (h->t[h->n - 1] - h->t[i]) / h->span, power = 1;

		*m = m[1];
		for (int k = 0; k <= 2 * HINGE_MAX_POWER; k++, power *= left) {
			m->u[k] += power;
			if (k <= HINGE_MAX_POWER)
				m->uy[k] += power * (h->y[i] - h->mean);
		}
	}
}

void hinge_add_up(struct hinge *h)
{
	for (size_t i = 0; i < h->n; i++)
		h->mean += h->y[i] / (double)h->n;
	for (size_t i = 0; i < h->n; i++) {
		double t = hinge_time(h, i), y = h->y[i] - h->mean;

		h->st += t;
		h->stt += t * t;
		h->sy += y;
		h->sty += t * y;
		h->syy += y * y;
	}
	add_up_behind(h);
}

static double grown_at(const struct hinge *h, double growth, double t)
{
	return exp((t - h->t[h->n - 1]) / growth);
}

void hinge_set_growth(const struct hinge *h, double growth, struct model *ret)
{
	ret->power = 0;
	ret->growth = growth;
	ret->weight = HINGE_GROWTH_WEIGHT;
	ret->behind[h->n] = (struct growth_sums){ 0 };
	for (size_t i = h->n; i-- > 0;) {
		const struct growth_sums *next = &ret->behind[i + 1];
		double e = grown_at(h, growth, h->t[i]);

		ret->behind[i] = (struct growth_sums){
			.e = next->e + e,
			.ee = next->ee + e * e,
			.et = next->et + e * hinge_time(h, i),
			.ey = next->ey + e * (h->y[i] - h->mean),
		};
	}
}

double hinge_beginning(const struct hinge *h, const struct model *model, double tau)
{
	return model->power == 0 ? grown_at(h, model->growth, tau) : 0;
}

double hinge_course(const struct hinge *h, const struct model *model, size_t i, double tau,
		    double begun)
{
	double x = (h->t[i] - tau) / h->span;

	if (model->power == 0)
		return grown_at(h, model->growth, h->t[i]) - begun;
	if (model->power == 1)
		return x;
	if (model->power == 2)
		return x * x;
	return model->power == 3 ? x * x * x : x * sqrt(x);
}

/* The number of the first point behind tau; as many as there are: none. */
static size_t point_behind(const struct hinge *h, double tau)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->t[middle] > tau)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The sum of (v - u)^power, where moments[k] is that of u^k. */
static double expand(const double *moments, int power, double v)
{
	double sum = 0, factor = power % 2 ? -1 : 1;

	for (int k = power; k >= 0; k--) {
		sum += factor * moments[k];
		factor *= -v * k / (power - k + 1);
	}
	return sum;
}

static struct sums sums_of_power(const struct hinge *h, int power, double tau)
{
	const struct moments *m = &h->behind[point_behind(h, tau)];
	double left = (h->t[h->n - 1] - tau) / h->span, x = expand(m->u, power, left);

	return (struct sums){ .x = x,
			      .xx = expand(m->u, 2 * power, left),
			      .xt = x - expand(m->u + 1, power, left),
			      .xy = expand(m->uy, power, left) };
}

static struct sums sums_of_growth(const struct hinge *h, const struct model *model, double tau,
				  double begun)
{
	size_t i = point_behind(h, tau);
	const struct moments *m = &h->behind[i];
	const struct growth_sums *g = &model->behind[i];

	return (struct sums){ .x = g->e - begun * m->u[0],
			      .xx = g->ee - 2 * begun * g->e + begun * begun * m->u[0],
			      .xt = g->et - begun * (m->u[0] - m->u[1]),
			      .xy = g->ey - begun * m->uy[0] };
}

/* Of a power that is no whole number, point by point. */
static struct sums sums_of_points(const struct hinge *h, const struct model *model, double tau)
{
	struct sums s = { 0 };

	for (size_t i = h->n; i-- > 0 && h->t[i] > tau;) {
		double x = hinge_course(h, model, i, tau, 0);

		s.x += x;
		s.xx += x * x;
		s.xt += x * hinge_time(h, i);
		s.xy += x * (h->y[i] - h->mean);
	}
	return s;
}

struct sums hinge_add_behind(const struct hinge *h, const struct model *model, double tau,
			     double begun)
{
	if (model->power == 0)
		return sums_of_growth(h, model, tau, begun);
	return model->power == floor(model->power) ? sums_of_power(h, (int)model->power, tau)
						   : sums_of_points(h, model, tau);
}
