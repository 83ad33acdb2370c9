#include "crossrank/coverage.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/select.h"

#define USUAL_SHARE                                                                              \
	0.95		   /* of the intervals: so many have no hole, also where samples come in \
			      bursts */
#define HOLE_INTERVALS 5.0 /* of the longest of these */

DEFINE_SELECT_NTH(select_nth, int64_t)

/* From one sample to the next at most, but for holes; scratch has room for as many. */
static int64_t usual_ns(const struct stream *s, int64_t *scratch)
{
	size_t n = s->n - 1, nth = (size_t)(USUAL_SHARE * (double)n);

	for (size_t i = 0; i < n; i++)
		scratch[i] = s->samples[i + 1].timestamp_ns - s->samples[i].timestamp_ns;
	/* Of few the longest may be one, too. */
	nth = nth + 2 > n ? (n > 2 ? n - 2 : n - 1) : nth;
	select_nth(scratch, n, nth);
	return scratch[nth];
}

static struct coverage cover(const struct stream *s, int64_t *scratch)
{
	double longest, ns = 0;
	size_t n = 0;

	if (s->n < 2)
		return (struct coverage){ 0 };
	longest = HOLE_INTERVALS * (double)usual_ns(s, scratch);
	for (size_t i = 1; i < s->n; i++) {
		double delta =
			(double)(s->samples[i].timestamp_ns - s->samples[i - 1].timestamp_ns);

		if (delta > longest)
			continue;
		ns += delta;
		n++;
	}
	return (struct coverage){ ns / 1e9, n > 0 ? ns / 1e9 / (double)n : 0 };
}

int coverage_find(const struct rank_analysis *a, struct coverage **ret)
{
	CLEANUP(free_ptr) int64_t *scratch = NULL;
	struct coverage *found = calloc(a->n_ranks + 1, sizeof(*found));
	size_t most = 1;

	for (size_t i = 0; i < a->n_ranks; i++)
		most = a->ranks[i].total->n > most ? a->ranks[i].total->n : most;
	scratch = calloc(most, sizeof(*scratch));
	if (!found || !scratch) {
		free(found);
		return -ENOMEM;
	}
	for (size_t i = 0; i < a->n_ranks; i++)
		found[i] = cover(a->ranks[i].total, scratch);
	*ret = found;
	return 0;
}
