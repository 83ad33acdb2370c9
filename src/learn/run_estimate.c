#include "learn/run_estimate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/run_class.h"
#include "stats/change_point.h"
#include "stats/order.h"
#include "stats/probability.h"

#define CENSORED_FACTOR 1.2
#define LEAST_MB 1e-3
#define LOOSER_LEVEL 0.8
#define LEAST_NOISE 0.01 /* of log2: 0.7 %, whatever the level */

/*
 * Cancelled ones ended when somebody had enough of them, whatever somebody says of them; the
 * others are what runs do.
 */
static bool counts(const struct run_record *run)
{
	return run_is_decided(run) && run_measured_outcome(run) != OUTCOME_CANCELLED &&
	       f64_known(run->peak_rss_mb);
}

static bool is_censored(const struct run_record *run)
{
	return run_measured_outcome(run) == OUTCOME_OOM;
}

/* ---- growth from run to run ---- */

#define TREND_LEVEL 0.2 /* one more in five, and not seldom the largest, is no harm */
#define MIN_TREND 3	/* runs: of so few each must need more than the one before */

/*
 * By how much each value is larger than the one before it: the median of all slopes (Theil and
 * Sen), where it grows at all (Mann and Kendall, one-sided). 0: it does not. NaN: no memory.
 */
static double growth_of(const double *values, size_t n)
{
	size_t n_pairs = n * (n - 1) / 2, k = 0;
	CLEANUP(free_ptr) double *slopes = NULL;
	double sum = 0, count = (double)n, deviation, slope, spread;

	if (n < MIN_TREND)
		return 0;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			sum += (values[i] > values[j]) - (values[i] < values[j]);
	deviation = sqrt(count * (count - 1) * (2 * count + 5) / 18);
	if (sum < (double)n_pairs && normal_tail((sum - 1) / deviation) > TREND_LEVEL)
		return 0;
	slopes = calloc(n_pairs, sizeof(*slopes));
	for (size_t i = 0; slopes && i < n; i++)
		for (size_t j = 0; j < i; j++)
			slopes[k++] = (values[i] - values[j]) / (double)(i - j);
	if (!slopes)
		return F64_UNKNOWN;
	order_sort(slopes, n_pairs);
	slope = order_median(slopes, n_pairs);
	if (n_pairs < 2 * n) /* too few to tell how far from it they lie */
		return fmax(slope, 0);
	/* A standard error more: from few runs the slope is not known better than that. */
	for (size_t i = 0; i < n; i++)
		slopes[i] = values[i] - slope * (double)i;
	spread = order_spread(slopes, n, slopes + n);
	return fmax(slope + spread * sqrt(12 / (count * count * count)), 0);
}

/* How far values lie from the line or the level that goes through their middle. */
static double sum_apart(const double *values, size_t n, double slope, double *scratch)
{
	double middle, sum = 0;

	for (size_t i = 0; i < n; i++)
		scratch[i] = values[i] - slope * (double)i;
	order_sort(scratch, n);
	middle = order_median(scratch, n);
	for (size_t i = 0; i < n; i++)
		sum += fabs(scratch[i] - middle);
	return sum;
}

/* A slope looks like a change of level, and this like a slope. 1: they grow; 0; -ENOMEM. */
static int grows_rather(const double *values, size_t n, size_t change)
{
	CLEANUP(free_ptr) double *scratch = calloc(n, sizeof(*scratch));
	double slope = growth_of(values, n);

	if (!scratch || !f64_known(slope))
		return -ENOMEM;
	return slope > 0 && sum_apart(values, n, slope, scratch) <
				    sum_apart(values, change, 0, scratch) +
					    sum_apart(values + change, n - change, 0, scratch);
}

/* ---- peak memory ---- */

/*
 * Each run stands for what it would need now, if they grow from run to run. Only runs that are
 * known to have needed no more count as covered. scratch has room for 2 n.
 */
static int estimate_peak(const struct run_record *const *runs, size_t n, double *scratch,
			 struct estimate *e)
{
	double *needs = scratch + n, growth;
	size_t n_covered = 0, n_looser;

	for (size_t i = 0; i < n; i++) {
		needs[i] = runs[i]->peak_rss_mb * (is_censored(runs[i]) ? CENSORED_FACTOR : 1);
		scratch[i] = log2(fmax(needs[i], LEAST_MB)); /* it grows by factors */
		e->n_censored += is_censored(runs[i]);
	}
	growth = growth_of(scratch, n);
	if (!f64_known(growth))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		scratch[i] = needs[i] *= exp2(growth * (double)(n - i));
	order_sort(scratch, n);
	e->peak_rss_mb = scratch[order_bound(n, ESTIMATE_PEAK_LEVEL) - 1];
	for (size_t i = 0; i < n; i++)
		n_covered += !is_censored(runs[i]) && needs[i] <= e->peak_rss_mb;
	e->peak_coverage = (double)n_covered / (double)(n + 1);
	/* Of heavy tails the last few in a hundred are dear. */
	n_looser = order_bound(n, LOOSER_LEVEL);
	if (n_looser < n && e->n_censored == 0) {
		e->looser_rss_mb = scratch[n_looser - 1];
		e->looser_coverage = (double)n_looser / (double)(n + 1);
	}
	return 0;
}

/* ---- times ---- */

/* Killed for memory, or because it took too long: it would have taken longer. */
static bool is_cut_short(const struct run_record *run)
{
	return is_censored(run) || run_measured_outcome(run) == OUTCOME_TIMEOUT;
}

/* Of those that were cut short, as with memory, a lower bound and a little more. */
static size_t sort_known(const struct run_record *const *runs, size_t n, size_t offset,
			 double *scratch)
{
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++) {
		double v = *(const double *)(const void *)((const char *)runs[i] + offset);

		if (f64_known(v))
			scratch[n_known++] = v * (is_cut_short(runs[i]) ? CENSORED_FACTOR : 1);
	}
	order_sort(scratch, n_known);
	return n_known;
}

static void estimate_times(const struct run_record *const *runs, size_t n, double *scratch,
			   struct estimate *e)
{
	size_t n_known = sort_known(runs, n, offsetof(struct run_record, wall_seconds), scratch);
	size_t n_covered = 0;

	e->wall_seconds = order_median(scratch, n_known);
	n_known = sort_known(runs, n, offsetof(struct run_record, cpu_seconds), scratch);
	e->cpu_seconds = order_median(scratch, n_known);
	if (n_known > 0) {
		e->cpu_high_seconds = scratch[order_bound(n_known, ESTIMATE_CPU_LEVEL) - 1];
		/* The share that is known to stay within it, as with memory. */
		for (size_t i = 0; i < n; i++)
			n_covered += !is_cut_short(runs[i]) &&
				     runs[i]->cpu_seconds <= e->cpu_high_seconds;
		e->cpu_coverage = (double)n_covered / (double)(n_known + 1);
	}
}

int estimate_from_runs(const struct run_record *runs, size_t n, struct estimate *ret)
{
	CLEANUP(free_ptr) const struct run_record **list = calloc(n + 1, sizeof(*list));
	CLEANUP(free_ptr) double *scratch = calloc(2 * n + 1, sizeof(*scratch));
	struct estimate e;
	size_t n_list = 0, since = 0;
	int r;

	if (!list || !scratch)
		return -ENOMEM;
	for (size_t i = n > ESTIMATE_MAX_RUNS ? n - ESTIMATE_MAX_RUNS : 0; i < n; i++)
		if (counts(&runs[i]))
			list[n_list++] = &runs[i];
	estimate_init(&e);
	if (n_list > 0) {
		/* Memory changes by factors, so the level is looked for in logarithms. */
		for (size_t i = 0; i < n_list; i++)
			scratch[i] = log2(fmax(list[i]->peak_rss_mb, LEAST_MB));
		r = change_find_last(scratch, n_list, LEAST_NOISE, &since);
		if (r == 0 && since > 0)
			r = grows_rather(scratch, n_list, since);
		if (r > 0)
			since = 0;
		if (r < 0)
			return r;
		e.n_left_out = since;
		e.n_runs = n_list - since;
		if (estimate_peak(list + since, e.n_runs, scratch, &e) < 0)
			return -ENOMEM;
		estimate_times(list + since, e.n_runs, scratch, &e);
	}
	*ret = e;
	return 0;
}

/* ---- the ladder ---- */

bool estimate_is_enough(const struct estimate *e)
{
	return e->n_runs >= ESTIMATE_ENOUGH;
}

int estimate_try_rung(const struct run_record *runs, size_t n, enum run_rung rung,
		      struct estimate *e)
{
	struct estimate found;
	int r = estimate_from_runs(runs, n, &found);

	if (r < 0)
		return r;
	found.rung = rung;
	if (estimate_is_enough(&found) || (e->n_runs == 0 && found.n_runs > 0))
		*e = found;
	return 0;
}

/* ---- how it did ---- */

/* A run that was killed needed more than it had, nobody knows how much. */
struct estimate_score estimate_judge(const struct estimate *e, const struct run_record *run)
{
	struct estimate_score score = { -1, -1 };

	if (e->n_runs == 0 || !run_is_decided(run) ||
	    run_measured_outcome(run) == OUTCOME_CANCELLED)
		return score;
	if (f64_known(run->peak_rss_mb) && f64_known(e->peak_rss_mb)) {
		bool is_within = run->peak_rss_mb <= e->peak_rss_mb;

		score.is_peak_covered = is_censored(run) && is_within ? -1 : is_within;
	}
	if (f64_known(run->cpu_seconds) && f64_known(e->cpu_high_seconds)) {
		bool is_within = run->cpu_seconds <= e->cpu_high_seconds;

		score.is_cpu_covered = is_cut_short(run) && is_within ? -1 : is_within;
	}
	return score;
}

/* Each step may pass its own bound: at worst these add up. */
static double both_covered(double a, double b)
{
	return f64_known(a) && f64_known(b) ? fmax(a + b - 1, 0) : F64_UNKNOWN;
}

static double larger(double a, double b)
{
	return f64_known(a) && f64_known(b) ? fmax(a, b) : F64_UNKNOWN;
}

/* What is unknown of one step is unknown of all. */
void estimate_add_step(struct estimate *all, const struct estimate *step)
{
	if (all->n_runs == 0 || step->n_runs == 0) {
		estimate_init(all);
		return;
	}
	if (step->n_runs < all->n_runs)
		all->n_runs = step->n_runs;
	if (step->rung > all->rung)
		all->rung = step->rung;
	all->n_censored += step->n_censored;
	all->n_left_out += step->n_left_out;
	all->peak_rss_mb = larger(all->peak_rss_mb, step->peak_rss_mb);
	all->peak_coverage = both_covered(all->peak_coverage, step->peak_coverage);
	all->looser_rss_mb = larger(all->looser_rss_mb, step->looser_rss_mb);
	all->looser_coverage = both_covered(all->looser_coverage, step->looser_coverage);
	all->cpu_seconds += step->cpu_seconds;
	all->cpu_high_seconds += step->cpu_high_seconds;
	all->cpu_coverage = both_covered(all->cpu_coverage, step->cpu_coverage);
	all->wall_seconds += step->wall_seconds;
}

/* ---- JSON ---- */

void estimate_write_fields(struct json *j, const struct estimate *e, const struct calibration *c)
{
	json_key_f64(j, "estimated_peak_memory_mb", e->peak_rss_mb);
	json_key_f64(j, "estimated_cpu_seconds", e->cpu_seconds);
	json_key_f64(j, "confidence", e->peak_coverage);
	json_key_f64(j, "looser_peak_memory_mb", e->looser_rss_mb);
	json_key_f64(j, "looser_confidence", e->looser_coverage);
	json_key_f64(j, "cpu_seconds_90", e->cpu_high_seconds);
	json_key_f64(j, "cpu_coverage", e->cpu_coverage);
	json_key_f64(j, "estimated_wall_seconds", e->wall_seconds);
	json_key_string(j, "basis", e->n_runs ? class_rung_name(e->rung) : "no data");
	json_key_u64(j, "runs", e->n_runs);
	json_key_u64(j, "censored_runs", e->n_censored);
	json_key_u64(j, "runs_before_change", e->n_left_out);
	if (!c)
		return;
	json_key_object(j, "calibration");
	json_key_u64(j, "estimates", c->n_peak);
	json_key_u64(j, "covered", c->n_peak_covered);
	json_key_f64(j, "realised_coverage",
		     c->n_peak ? (double)c->n_peak_covered / (double)c->n_peak : F64_UNKNOWN);
	json_key_f64(j, "promised_coverage", c->promised);
	json_key_u64(j, "cpu_estimates", c->n_cpu);
	json_key_u64(j, "cpu_covered", c->n_cpu_covered);
	json_key_f64(j, "cpu_realised_coverage",
		     c->n_cpu ? (double)c->n_cpu_covered / (double)c->n_cpu : F64_UNKNOWN);
	json_end_object(j);
}
