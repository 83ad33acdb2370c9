#include "stats/maxt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/order.h"
#include "stats/probability.h"

#define SAME 1e-9	    /* statistics that differ by less differ by rounding only */
#define BREAK_TIES_UP_TO 40 /* runs: with more, rank sums are hardly ever the same */
#define DISTANCE_MOST 10.0
#define DISTANCE_UNIT 100000.0 /* of a standard deviation, as a whole number */

/* So many columns are added up at a time. */
typedef int32_t lanes __attribute__((vector_size(32)));
#define N_LANES (sizeof(lanes) / sizeof(int32_t))

/*
 * One feature. column: where its doubled ranks (or 0 and 1) stand in a row of the
 * matrix. known: the column that counts who has a value; -1: everybody. distance:
 * that of the values themselves, standardised; -1: not needed.
 */
struct maxt_column {
	size_t feature;
	int column, known, distance;
	struct rank_sums sums;
	double *binary;		      /* the statistic by how many failed with it; else NULL */
	double *mean, *per_deviation; /* by how many that failed have a value… */
	size_t n_counts;	      /* …of which there is only one if everybody has */
	int64_t total, total_known, total_distance;
	double observed;
	uint64_t hits, hits_alone;
};

struct maxt {
	const struct maxt_input *in;
	size_t n_failed, n_dealt; /* the smaller group is dealt */
	bool deals_passes;
	struct maxt_column *columns; /* by statistic, the least first */
	size_t n_columns;
	lanes *rows; /* of each run */
	size_t row_lanes;
	lanes *sums;
	uint64_t n_deals;
};

/* ---- the columns ---- */

static void maxt_release(struct maxt *m)
{
	for (size_t i = 0; m->columns && i < m->n_columns; i++) {
		free(m->columns[i].binary);
		free(m->columns[i].mean);
		free(m->columns[i].per_deviation);
	}
	free(m->columns);
	free(m->rows);
	free(m->sums);
}

static int32_t *cell(struct maxt *m, size_t run, int column)
{
	return (int32_t *)(m->rows + run * m->row_lanes) + column;
}

/* Aligned for lanes, which calloc() does not promise; all 0. */
static lanes *alloc_lanes(size_t n)
{
	size_t size = (n ? n : 1) * sizeof(lanes);
	lanes *p = aligned_alloc(sizeof(lanes), size);

	if (p)
		memset(p, 0, size);
	return p;
}

static int set_out(struct maxt *m)
{
	const struct maxt_input *in = m->in;
	int next = 0;

	m->columns = calloc(in->n_features ? in->n_features : 1, sizeof(*m->columns));
	if (!m->columns)
		return -ENOMEM;
	m->n_columns = in->n_features;
	for (size_t i = 0; i < in->n_features; i++) {
		bool is_complete = true;

		for (size_t k = 0; k < in->n_runs; k++)
			is_complete = is_complete && !isnan(in->columns[i][k]);
		m->columns[i].feature = i;
		m->columns[i].column = next++;
		m->columns[i].known = is_complete ? -1 : next++;
		m->columns[i].distance = in->n_runs <= BREAK_TIES_UP_TO ? next++ : -1;
	}
	m->row_lanes = ((size_t)next + N_LANES - 1) / N_LANES;
	m->rows = alloc_lanes(m->row_lanes * in->n_runs);
	m->sums = alloc_lanes(m->row_lanes * (m->n_dealt + 1));
	return m->rows && m->sums ? 0 : -ENOMEM;
}

/* Fisher's test of each number of failures with the feature, as a normal deviate. */
static int fill_binary(struct maxt *m, struct maxt_column *c)
{
	const double *values = m->in->columns[c->feature];
	size_t n_with = 0, n = m->in->n_runs;

	for (size_t i = 0; i < n; i++) {
		n_with += values[i] != 0;
		*cell(m, i, c->column) = values[i] != 0;
	}
	c->total = (int64_t)n_with;
	c->binary = calloc(m->n_failed + 1, sizeof(double));
	if (!c->binary)
		return -ENOMEM;
	for (size_t k = 0; k <= m->n_failed && k <= n_with; k++) {
		double p;

		if (m->n_failed - k > n - n_with)
			continue;
		p = fisher_two_sided(k, n_with - k, m->n_failed - k,
				     n - n_with - (m->n_failed - k));
		c->binary[k] = p >= 1 ? 0 : normal_tail_quantile(fmax(p, 1e-300) / 2);
	}
	return 0;
}

static int fill_moments(struct maxt_column *c, size_t first, size_t n_counts)
{
	c->mean = calloc(n_counts, sizeof(double));
	c->per_deviation = calloc(n_counts, sizeof(double));
	if (!c->mean || !c->per_deviation)
		return -ENOMEM;
	c->n_counts = n_counts;
	for (size_t i = 0; i < n_counts; i++) {
		double deviation = rank_sum_deviation(&c->sums, first + i);

		c->mean[i] = rank_sum_mean(&c->sums, first + i);
		c->per_deviation[i] = deviation > 0 ? 1 / deviation : 0;
	}
	return 0;
}

/* How far each value is from the mean of all, in standard deviations; 0 for those unknown. */
static void fill_distances(struct maxt *m, struct maxt_column *c)
{
	const double *values = m->in->columns[c->feature];
	double sum = 0, squares = 0, mean, deviation, n = (double)c->sums.n_known;

	for (size_t i = 0; i < m->in->n_runs; i++)
		sum += isnan(values[i]) ? 0 : values[i];
	mean = sum / n;
	for (size_t i = 0; i < m->in->n_runs; i++)
		squares += isnan(values[i]) ? 0 : (values[i] - mean) * (values[i] - mean);
	deviation = sqrt(squares / n);
	if (!(deviation > 0) || !isfinite(deviation))
		return; /* all of them stay 0: nothing to tell apart */
	for (size_t i = 0; i < m->in->n_runs; i++) {
		double off = (values[i] - mean) / deviation;

		if (isnan(off))
			continue;
		off = fmin(fmax(off, -DISTANCE_MOST), DISTANCE_MOST) * DISTANCE_UNIT;
		*cell(m, i, c->distance) = (int32_t)lrint(off);
		c->total_distance += lrint(off);
	}
}

static int fill_ranks(struct maxt *m, struct maxt_column *c, int32_t *ranks)
{
	size_t n = m->in->n_runs;
	int r = rank_doubled(m->in->columns[c->feature], n, ranks, &c->sums);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		*cell(m, i, c->column) = ranks[i];
		c->total += ranks[i];
		if (c->known >= 0)
			*cell(m, i, c->known) = ranks[i] > 0;
	}
	c->total_known = (int64_t)c->sums.n_known;
	if (c->distance >= 0)
		fill_distances(m, c);
	return c->known < 0 ? fill_moments(c, m->n_failed, 1) : fill_moments(c, 0, m->n_failed + 1);
}

/* Counts who failed, and sets out the columns. As maxt_test() fails. */
static int maxt_fill(struct maxt *m)
{
	CLEANUP(free_ptr) int32_t *ranks = NULL;
	const struct maxt_input *in = m->in;
	size_t n_passed;
	int r;

	if (in->n_runs > RANK_MAX_VALUES || in->n_features > MAXT_MAX_FEATURES)
		return -E2BIG;
	for (size_t i = 0; i < in->n_runs; i++)
		m->n_failed += in->has_failed[i];
	n_passed = in->n_runs - m->n_failed;
	if (m->n_failed == 0 || n_passed == 0)
		return -EDOM;
	m->deals_passes = n_passed < m->n_failed;
	m->n_dealt = m->deals_passes ? n_passed : m->n_failed;
	r = set_out(m);
	ranks = calloc(in->n_runs, sizeof(*ranks));
	if (!ranks)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < m->n_columns; i++) {
		struct maxt_column *c = &m->columns[i];

		r = in->is_binary[c->feature] && c->known < 0 ? fill_binary(m, c)
							      : fill_ranks(m, c, ranks);
	}
	return r;
}

double maxt_floor(size_t n_failed, size_t n_passed)
{
	double mirrored = n_failed == n_passed ? 2 : 1;

	return mirrored * exp(-log_choose(n_failed + n_passed, n_failed));
}

/* ---- the statistic of a deal ---- */

/* The rank sum of the failed runs. If the passes were dealt, it is the total minus theirs. */
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
