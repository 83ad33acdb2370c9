#include "crossrank/stamps.h"

#include <errno.h>
#include <stdlib.h>

#define FINEST_NS INT64_C(1000000) /* less is none beside what samples leave open */
#define MIN_SAMPLES 4		   /* fewer may be whole by chance */

/* By how many units an onset may be earlier, and later. */
struct blur {
	double before, after;
};

/* Rounded, or cut off: so that nine tenths of it reach as far as the unit. */
static const struct blur own = { 0.5, 1.1 };

/* The same in two parts: what differs from rank to rank, and what does not. */
static const struct blur between = { 0.5, 0.5 }, of_all = { 0.25, 0.85 };

void stamps_release(struct stamps *s)
{
	free(s->units);
	*s = (struct stamps){ 0 };
}

static int64_t common_divisor(int64_t a, int64_t b)
{
	while (b != 0) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The largest unit of which all timestamps are multiples, which no interval is shorter than. */
static int64_t unit_of(const struct stream *s)
{
	int64_t unit = 0;

	if (s->n < MIN_SAMPLES || s->samples[0].timestamp_ns == s->samples[s->n - 1].timestamp_ns)
		return 0;
	for (size_t i = 0; i < s->n && (unit == 0 || unit >= FINEST_NS); i++)
		unit = common_divisor(s->samples[i].timestamp_ns, unit);
	return unit >= FINEST_NS ? unit : 0;
}

int stamps_find(const struct rank_analysis *a, struct stamps *ret)
{
	*ret = (struct stamps){ .units = calloc(a->n_ranks + 1, sizeof(*ret->units)),
				.is_one = true };
	if (!ret->units)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++) {
		ret->units[i] = (double)unit_of(a->ranks[i].total) / 1e9;
		ret->is_one &= ret->units[i] == ret->units[0];
	}
	return 0;
}

static void blur(struct judge_work *w, const struct stamps *s, struct blur by)
{
	for (size_t i = 0; i < w->a->n_ranks; i++)
		for (size_t k = 0; k < w->f->rises[i].n; k++)
			onset_blur(&w->f->rises[i].items[k].onset, by.before * s->units[i],
				   by.after * s->units[i], 1);
}

void stamps_blur(struct judge_work *w, const struct stamps *s)
{
	blur(w, s, s->is_one ? between : own);
}

void stamps_blur_all(struct judge_work *w, const struct stamps *s)
{
	if (s->is_one)
		blur(w, s, of_all);
}
