#include "stats/maxt_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/fisher.h"
#include "stats/normal.h"

#define BREAK_TIES_UP_TO 40 /* runs: with more, rank sums are hardly ever the same */
#define DISTANCE_MOST 10.0

void maxt_release(struct maxt *m)
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

static bool is_complete(const double *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (isnan(values[i]))
			return false;
	return true;
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
		m->columns[i].feature = i;
		m->columns[i].column = next++;
		m->columns[i].known = is_complete(in->columns[i], in->n_runs) ? -1 : next++;
		m->columns[i].distance = in->n_runs <= BREAK_TIES_UP_TO ? next++ : -1;
	}
	m->row_lanes = ((size_t)next + N_LANES - 1) / N_LANES;
	m->rows = alloc_lanes(m->row_lanes * in->n_runs);
	m->sums = alloc_lanes(m->row_lanes * (m->n_dealt + 1));
	return m->rows && m->sums ? 0 : -ENOMEM;
}

/* What Fisher's test says of each number of failures with the feature, as a normal deviate. */
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

static int fill_all(struct maxt *m)
{
	CLEANUP(free_ptr) int32_t *ranks = calloc(m->in->n_runs, sizeof(*ranks));
	int r = ranks ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < m->n_columns; i++) {
		struct maxt_column *c = &m->columns[i];

		r = m->in->is_binary[c->feature] && c->known < 0 ? fill_binary(m, c)
								 : fill_ranks(m, c, ranks);
	}
	return r;
}

int maxt_fill(struct maxt *m)
{
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
	return r < 0 ? r : fill_all(m);
}
