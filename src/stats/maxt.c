#include "stats/maxt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/fisher.h"
#include "stats/maxt_internal.h"
#include "stats/rank.h"
#include "stats/rng.h"

/* Statistics that differ by rounding only are the same. */
#define SAME 1e-9

double maxt_floor(size_t n_failed, size_t n_passed)
{
	double mirrored = n_failed == n_passed ? 2 : 1;

	return mirrored * exp(-log_choose(n_failed + n_passed, n_failed));
}

/* ---- the statistic of a deal ---- */

/* The sum over those that failed, of which the sum over those dealt may be the rest. */
static int64_t of_failed(const struct maxt *m, const int32_t *sums, int column, int64_t total)
{
	return m->deals_passes ? total - sums[column] : sums[column];
}

/* Less than what two different doubled rank sums differ by. */
static double tie_break(const struct maxt *m, const struct maxt_column *c, const int32_t *sums)
{
	double sum, apart;

	if (c->distance < 0)
		return 0;
	sum = (double)of_failed(m, sums, c->distance, c->total_distance);
	apart = fabs(sum -
		     (double)c->total_distance * (double)m->n_failed / (double)m->in->n_runs) /
		DISTANCE_UNIT;
	return 0.5 * apart / (1 + apart);
}

static double statistic_of(const struct maxt *m, const struct maxt_column *c, const int32_t *sums)
{
	int64_t sum = of_failed(m, sums, c->column, c->total);
	size_t count = 0;

	if (c->binary)
		return c->binary[sum];
	if (c->known >= 0)
		count = (size_t)of_failed(m, sums, c->known, c->total_known);
	return (fabs((double)sum - c->mean[count]) + tie_break(m, c, sums)) *
	       c->per_deviation[count];
}

/* Step down: a feature competes with itself and with those that stand out less. */
static void count_deal(struct maxt *m, const lanes *sums)
{
	const int32_t *values = (const int32_t *)sums;
	double largest = 0;

	for (size_t i = 0; i < m->n_columns; i++) {
		struct maxt_column *c = &m->columns[i];
		double statistic = statistic_of(m, c, values);

		if (statistic > largest)
			largest = statistic;
		c->hits += largest >= c->observed - SAME;
		c->hits_alone += statistic >= c->observed - SAME;
	}
	m->n_deals++;
}

static void add_row(lanes *to, const lanes *from, const lanes *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = from[i] + row[i];
}

static const lanes *row_of(const struct maxt *m, size_t run)
{
	return m->rows + run * m->row_lanes;
}

/* ---- the deals ---- */

static int by_observed(const void *a, const void *b)
{
	const struct maxt_column *x = a, *y = b;

	if (x->observed != y->observed)
		return x->observed > y->observed ? 1 : -1;
	return x->feature < y->feature ? -1 : 1;
}

/* How it was; and from here on the columns go by how far they stand out. */
static void observe(struct maxt *m, struct maxt_feature *ret)
{
	for (size_t i = 0; i < m->in->n_runs; i++)
		if (m->in->has_failed[i] != m->deals_passes)
			add_row(m->sums, m->sums, row_of(m, i), m->row_lanes);
	for (size_t i = 0; i < m->n_columns; i++) {
		struct maxt_column *c = &m->columns[i];
		const int32_t *sums = (const int32_t *)m->sums;
		struct maxt_feature *f = &ret[c->feature];
		int64_t sum = of_failed(m, sums, c->column, c->total);

		c->observed = statistic_of(m, c, sums);
		f->statistic = c->observed;
		f->n_known = c->binary ? m->in->n_runs : c->sums.n_known;
		f->n_known_failed = c->known < 0
					    ? m->n_failed
					    : (size_t)of_failed(m, sums, c->known, c->total_known);
		f->auc = rank_auc((double)sum, f->n_known_failed, f->n_known);
		if (c->binary) {
			double with = (double)sum / (double)m->n_failed;
			double without = ((double)c->total - (double)sum) /
					 (double)(m->in->n_runs - m->n_failed);

			f->auc = (1 + with - without) / 2;
		}
	}
	qsort(m->columns, m->n_columns, sizeof(*m->columns), by_observed);
}

/* Every choice of so many runs; sums[k] is that of the first k chosen. */
static int deal_all(struct maxt *m)
{
	size_t n = m->in->n_runs, k = m->n_dealt, width = m->row_lanes;
	CLEANUP(free_ptr) size_t *chosen = calloc(k + 1, sizeof(*chosen));
	size_t depth = 0;

	if (!chosen)
		return -ENOMEM;
	memset(m->sums, 0, width * sizeof(*m->sums));
	for (;;) {
		while (depth < k) { /* fill up with the next ones */
			add_row(m->sums + (depth + 1) * width, m->sums + depth * width,
				row_of(m, chosen[depth]), width);
			chosen[depth + 1] = chosen[depth] + 1;
			depth++;
		}
		count_deal(m, m->sums + k * width);
		do { /* the last one that can move on, does */
			if (depth == 0)
				return 0;
			chosen[--depth]++;
		} while (chosen[depth] + (k - depth) > n);
	}
}

static int deal_some(struct maxt *m, uint64_t n_deals)
{
	uint32_t n = (uint32_t)m->in->n_runs;
	CLEANUP(free_ptr) uint32_t *order = calloc(n, sizeof(*order));
	struct rng rng;

	if (!order)
		return -ENOMEM;
	rng_seed(&rng, m->in->seed);
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	while (m->n_deals < n_deals) {
		memset(m->sums, 0, m->row_lanes * sizeof(*m->sums));
		for (uint32_t i = 0; i < m->n_dealt; i++) {
			uint32_t k = i + rng_below(&rng, n - i), run = order[k];

			order[k] = order[i];
			order[i] = run;
			add_row(m->sums, m->sums, row_of(m, run), m->row_lanes);
		}
		count_deal(m, m->sums);
	}
	return 0;
}

/* ---- the test ---- */

/* From the most outstanding down p never gets smaller. */
static void settle(struct maxt *m, bool is_exact, struct maxt_feature *ret)
{
	double extra = is_exact ? 0 : 1, deals = (double)m->n_deals + extra, p = 0;

	for (size_t i = m->n_columns; i > 0; i--) {
		struct maxt_column *c = &m->columns[i - 1];

		p = fmax(p, ((double)c->hits + extra) / deals);
		ret[c->feature].p = p;
		ret[c->feature].p_alone = ((double)c->hits_alone + extra) / deals;
	}
}

int maxt_test(const struct maxt_input *in, struct maxt_feature *ret,
	      struct maxt_summary *ret_summary)
{
	CLEANUP(maxt_release) struct maxt m = { .in = in };
	bool is_exact;
	int r = maxt_fill(&m);

	if (r < 0)
		return r;
	observe(&m, ret);
	is_exact = log_choose(in->n_runs, m.n_dealt) < log(MAXT_EXACT_DEALS + 0.5);
	r = is_exact ? deal_all(&m) : deal_some(&m, in->n_deals ? in->n_deals : MAXT_DEALS);
	if (r < 0)
		return r;
	settle(&m, is_exact, ret);
	*ret_summary = (struct maxt_summary){
		.n_deals = m.n_deals,
		.is_exact = is_exact,
		.p_floor = fmax(maxt_floor(m.n_failed, in->n_runs - m.n_failed),
				is_exact ? 0 : 1 / ((double)m.n_deals + 1)),
	};
	return 0;
}
