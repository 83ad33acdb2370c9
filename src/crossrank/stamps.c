#include "crossrank/stamps.h"

#define COARSEST_NS INT64_C(1000000000)
#define FINEST_NS INT64_C(1000000) /* less is none beside what samples leave open */
#define MIN_SAMPLES 4		   /* fewer may be whole by chance */
#define EARLIER 0.5		   /* units, if they were rounded */
#define LATER 1.1 /* if they were cut off: so that nine tenths of it reach as far as the unit */

/* The largest unit of which all timestamps are multiples; 0: none is large enough. */
static int64_t unit_of(const struct stream *s)
{
	int64_t unit = s->n < MIN_SAMPLES ? 0 : COARSEST_NS;

	for (size_t i = 0; unit >= FINEST_NS && i < s->n; i++)
		while (unit >= FINEST_NS && s->samples[i].timestamp_ns % unit != 0)
			unit /= 10;
	return unit >= FINEST_NS ? unit : 0;
}

void stamps_blur(struct judge_work *w)
{
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		double unit = (double)unit_of(w->a->ranks[i].total) / 1e9;

		for (size_t k = 0; k < w->f->rises[i].n; k++)
			onset_blur(&w->f->rises[i].items[k].onset, EARLIER * unit, LATER * unit, 1);
	}
}
