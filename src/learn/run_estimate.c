#include "learn/run_estimate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/run_class.h"
#include "stats/change_point.h"
#include "stats/order.h"

#define CENSORED_FACTOR 1.2
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

/* ---- peak memory ---- */

/* Only runs that are known to have needed no more count as covered. */
static void estimate_peak(const struct run_record *const *runs, size_t n, double *scratch,
			  struct estimate *e)
{
	size_t n_covered = 0;

	for (size_t i = 0; i < n; i++) {
		scratch[i] = runs[i]->peak_rss_mb * (is_censored(runs[i]) ? CENSORED_FACTOR : 1);
		e->n_censored += is_censored(runs[i]);
	}
	order_sort(scratch, n);
	e->peak_rss_mb = scratch[order_bound(n, ESTIMATE_PEAK_LEVEL) - 1];
	for (size_t i = 0; i < n; i++)
		n_covered += !is_censored(runs[i]) && runs[i]->peak_rss_mb <= e->peak_rss_mb;
	e->peak_coverage = (double)n_covered / (double)(n + 1);
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

int estimate_from_runs(const struct run_record *const *runs, size_t n, struct estimate *ret)
{
	CLEANUP(free_ptr) const struct run_record **list = calloc(n + 1, sizeof(*list));
	CLEANUP(free_ptr) double *scratch = calloc(n + 1, sizeof(*scratch));
	struct estimate e;
	size_t n_list = 0, since = 0;
	int r;

	if (!list || !scratch)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (counts(runs[i]))
			list[n_list++] = runs[i];
	estimate_init(&e);
	if (n_list > 0) {
		/* Memory changes by factors, so the level is looked for in logarithms. */
		for (size_t i = 0; i < n_list; i++)
			scratch[i] = log2(fmax(list[i]->peak_rss_mb, 1e-3));
		r = change_find_last(scratch, n_list, LEAST_NOISE, &since);
		if (r < 0)
			return r;
		e.n_left_out = since;
		e.n_runs = n_list - since;
		estimate_peak(list + since, e.n_runs, scratch, &e);
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
	size_t first = n > ESTIMATE_MAX_RUNS ? n - ESTIMATE_MAX_RUNS : 0;
	CLEANUP(free_ptr) const struct run_record **list = calloc(n - first + 1, sizeof(*list));
	struct estimate found;
	int r;

	if (!list)
		return -ENOMEM;
	for (size_t i = first; i < n; i++)
		list[i - first] = &runs[i];
	r = estimate_from_runs(list, n - first, &found);
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
