#include "crossrank/rank_facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/num.h"
#include "crossrank/method/method.h"
#include "crossrank/reference/reference.h"
#include "crossrank/wording/wording.h"
#include "stats/order.h"
#include "stats/probability.h"

/* ---- the most memory at one moment ---- */

#define MAX_BINS 65536

static int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Sums over ranks, by moment; of records far apart in time moments are coarse. */
static int find_peak(const struct rank_analysis *a, struct facts *f)
{
	CLEANUP(free_ptr) int64_t *sums = NULL;
	int64_t from_ns = f->first_ns, width_ns;
	uint64_t length = (uint64_t)(f->last_ns - from_ns) + 1;
	size_t n, best = 0;

	width_ns = a->median_interval_ns > 0 ? a->median_interval_ns : 1;
	if (length / (uint64_t)width_ns >= MAX_BINS)
		width_ns = (int64_t)(length / MAX_BINS) + 1;
	n = (size_t)(length / (uint64_t)width_ns) + 1;
	sums = calloc(n + 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	/* Each moment gets what a rank used last by its end, while there is a record of it. */
	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct stream *s = a->ranks[i].total;
		size_t bin = (size_t)((s->samples[0].timestamp_ns - from_ns) / width_ns);

		for (size_t k = 0; k < s->n; k++) {
			size_t next = bin + 1;

			if (k + 1 < s->n)
				next = (size_t)((s->samples[k + 1].timestamp_ns - from_ns) /
						width_ns);
			for (; bin < next; bin++)
				sums[bin] = add_saturated(sums[bin], s->samples[k].used_bytes);
		}
	}
	for (size_t i = 0; i < n; i++)
		best = sums[i] > sums[best] ? i : best;
	f->peak_bytes = sums[best];
	f->peak_ns = add_saturated(from_ns, (int64_t)best * width_ns);
	return 0;
}

/* ---- the hidden gap ---- */

#define MAX_POINTS 4096
#define MIN_GAP_BYTES (64.0 * 1024 * 1024)
#define MIN_GAP_SHARE 0.05 /* of the device */
#define SPIKE_SIGMAS 6.0
#define SPIKE_GONE 0.25 /* of a spike may be left in the end */
#define DRIFT_R_SQUARED 0.6
#define FRAGMENTATION_SHARE 0.3
#define SIGMA_PER_MAD 1.4826
#define NEAR_MARKER_NS 150000000
#define MISSED_INTERVALS 3 /* so long without a sample is a gap in the record */

static double gap_of(const struct sample *s)
{
	return (double)s->used_bytes - (double)s->reserved_bytes;
}

/* The exact extremes and means. */
static void measure(const struct stream *s, int64_t interval_ns, struct rank_facts *ret)
{
	const struct sample *last = &s->samples[s->n - 1];
	double sum = 0, share = 0;
	size_t n_reserved = 0;

	*ret = (struct rank_facts){ .first_ns = s->samples[0].timestamp_ns,
				    .last_ns = last->timestamp_ns,
				    .first_bytes = s->samples[0].used_bytes,
				    .last_bytes = last->used_bytes,
				    .peak_bytes = -1,
				    .gap_max_bytes = INT64_MIN,
				    .gap_last_bytes = last->used_bytes - last->reserved_bytes,
				    .spike_sigmas = NAN };
	for (const struct sample *at = s->samples; at <= last; at++) {
		int64_t gap = at->used_bytes - at->reserved_bytes;

		if (at->used_bytes > ret->peak_bytes) {
			ret->peak_bytes = at->used_bytes;
			ret->peak_ns = at->timestamp_ns;
		}
		ret->n_missed += at > s->samples && interval_ns > 0 &&
				 (__int128)at->timestamp_ns - at[-1].timestamp_ns >
					 (__int128)MISSED_INTERVALS * interval_ns;
		sum += (double)gap;
		if (gap > ret->gap_max_bytes) {
			ret->gap_max_bytes = gap;
			ret->gap_max_ns = at->timestamp_ns;
		}
		if (at->reserved_bytes > 0) {
			share += ((double)at->reserved_bytes - (double)at->allocated_bytes) /
				 (double)at->reserved_bytes;
			n_reserved++;
		}
	}
	ret->gap_mean_bytes = sum / (double)s->n;
	ret->unallocated_share = n_reserved ? share / (double)n_reserved : NAN;
}

/* A line through the gaps over time. */
static void fit_drift(const struct stream *s, struct rank_facts *ret)
{
	double t_mean = 0, tt = 0, tg = 0, gg = 0;

	for (size_t i = 0; i < s->n; i++)
		t_mean += (double)(s->samples[i].timestamp_ns - ret->first_ns) / 1e9 / (double)s->n;
	for (size_t i = 0; i < s->n; i++) {
		double t = (double)(s->samples[i].timestamp_ns - ret->first_ns) / 1e9 - t_mean;
		double g = gap_of(&s->samples[i]) - ret->gap_mean_bytes;

		tt += t * t;
		tg += t * g;
		gg += g * g;
	}
	ret->drift_bytes_per_second = tt > 0 ? tg / tt : NAN;
	ret->drift_r_squared = tt > 0 && gg > 0 ? tg * tg / (tt * gg) : NAN;
}

/* Whether the largest gap stands out, and has gone. */
static int is_spike(const struct stream *s, struct rank_facts *f, bool *ret)
{
	size_t step = s->n / MAX_POINTS + 1, n = 0;
	CLEANUP(free_ptr) double *v = calloc(s->n / step + 2, sizeof(*v));
	double median, sigma, height;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i += step)
		v[n++] = gap_of(&s->samples[i]);
	median = noise_median(v, n);
	for (size_t i = 0; i < n; i++)
		v[i] = fabs(v[i] - median);
	sigma = SIGMA_PER_MAD * noise_median(v, n);
	height = (double)f->gap_max_bytes - median;
	f->spike_sigmas = sigma > 0 ? height / sigma : NAN;
	*ret = height > fmax(SPIKE_SIGMAS * sigma, MIN_GAP_BYTES) &&
	       (double)f->gap_last_bytes - median < SPIKE_GONE * height;
	return 0;
}

static int find_gaps(const struct rank_analysis *a, const struct rank *rank, struct rank_facts *ret)
{
	const struct stream *s = rank->total;
	const struct sample *last = &rank->stream->samples[rank->stream->n - 1];
	int64_t total = identity_of(a->telemetry, last)->total_bytes;
	double seconds = (double)(ret->last_ns - ret->first_ns) / 1e9;
	bool spikes = false;
	int r;

	fit_drift(s, ret);
	if (ret->unallocated_share >= FRAGMENTATION_SHARE &&
	    (double)s->samples[s->n - 1].reserved_bytes >= MIN_GAP_BYTES)
		ret->gap_kinds |= GAP_FRAGMENTATION_LIKE;
	if (!((double)ret->gap_max_bytes >= MIN_GAP_BYTES ||
	      (total > 0 && (double)ret->gap_max_bytes >= MIN_GAP_SHARE * (double)total)))
		return 0;
	r = is_spike(s, ret, &spikes);
	if (spikes)
		ret->gap_kinds |= GAP_TRANSIENT_SPIKE;
	ret->is_spike_collective =
		spikes && telemetry_has_marker(a->telemetry, ret->gap_max_ns - NEAR_MARKER_NS,
					       add_saturated(ret->gap_max_ns, NEAR_MARKER_NS));
	if (s->n >= 5 && ret->drift_r_squared >= DRIFT_R_SQUARED &&
	    ret->drift_bytes_per_second * seconds >= MIN_GAP_BYTES)
		ret->gap_kinds |= GAP_PERSISTENT_DRIFT;
	return r;
}

/* ---- steps ---- */

#define MIN_STEPS 3
#define MIN_RANKS 3
#define SLOW_FACTOR 1.2 /* steps so much longer than the others' may make a straggler */
#define LEVEL 0.05	/* and do where chance does so no oftener */

/* By the last part of its path. */
static bool is_step(const struct span *span)
{
	static const char *const names[] = { "step", "iter", "batch" };
	struct text label = span->opened->label;
	const char *slash = memrchr(label.s, '/', label.n);

	if (slash && label.n - (size_t)(slash - label.s) > 2) {
		label.n -= (size_t)(slash + 2 - label.s);
		label.s = slash + 2;
	}
	for (size_t i = 0; !span->is_open && i < ARRAY_SIZE(names); i++)
		if (text_begins_with(label, names[i]))
			return true;
	return false;
}

/* The steps of one rank, in their order. */
struct step_list {
	double *seconds, *ends; /* how long, and until when after origin_ns; NaN: unknown */
	size_t n;
};

struct work {
	const struct rank_analysis *a;
	struct facts *f;
	struct step_list *lists; /* one for each rank */
	double *column;		 /* room for a value of each */
	double cell_seconds;	 /* of CPU or GPU time */
	int64_t origin_ns;
	struct arena arena;
};

static int list_steps(struct work *w, size_t i)
{
	const struct rank *rank = &w->a->ranks[i];
	const struct sample *last = &rank->stream->samples[rank->stream->n - 1];
	struct text session = identity_of(w->a->telemetry, last)->session_id;
	struct step_list *list = &w->lists[i];
	size_t n;
	const struct span *spans = phases_of(&w->a->phases, session, rank->rank, &n);

	*list = (struct step_list){ .seconds =
					    arena_alloc(&w->arena, (2 * n + 1) * sizeof(double)) };
	if (!list->seconds)
		return -ENOMEM;
	list->ends = list->seconds + n;
	for (size_t k = 0; k < n; k++) {
		if (!is_step(&spans[k]))
			continue;
		list->ends[list->n] = (double)(spans[k].end_ns - w->origin_ns) / 1e9;
		list->seconds[list->n++] =
			(double)(spans[k].end_ns - spans[k].opened->timestamp_ns) / 1e9;
	}
	return 0;
}

/* Fills the column with the seconds of the ranks that have a step of this number. */
static size_t fill_column(const struct work *w, size_t step)
{
	size_t n = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (step < w->lists[i].n && !isnan(w->lists[i].ends[step]))
			w->column[n++] = w->lists[i].seconds[step];
	return n;
}

/* ---- who is slow ---- */

/* How probable n or more of n_all are where each has probability p. */
static double at_least(size_t n, size_t n_all, double p)
{
	double sum = 0;

	for (size_t k = n; k <= n_all; k++)
		sum += exp(log_choose(n_all, k) + (double)k * log(p) +
			   (double)(n_all - k) * log1p(-p));
	return fmin(sum, 1);
}

/* Of its steps those count that enough ranks have; the higher the number the fewer have it. */
static void find_stragglers(const struct work *w)
{
	for (size_t step = 0; fill_column(w, step) >= MIN_RANKS; step++) {
		struct rank_facts *longest = NULL; /* of several at once none */
		double seconds = -1;

		for (size_t i = 0; i < w->a->n_ranks; i++) {
			if (step >= w->lists[i].n)
				continue;
			w->f->ranks[i].n_compared++;
			if (w->lists[i].seconds[step] < seconds)
				continue;
			longest = w->lists[i].seconds[step] > seconds ? &w->f->ranks[i] : NULL;
			seconds = w->lists[i].seconds[step];
		}
		if (longest)
			longest->n_longest++;
	}
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		struct rank_facts *f = &w->f->ranks[i];
		size_t least;

		f->may_straggle = f->n_compared >= MIN_STEPS &&
				  f->step_seconds > SLOW_FACTOR * w->f->step_seconds;
		if (!f->may_straggle)
			continue;
		/* Each rank had its chance to be the one. */
		least = fill_column(w, f->n_compared - 1);
		f->straggler_p =
			fmin(1, (double)w->a->n_ranks *
					at_least(f->n_longest, f->n_compared, 1.0 / (double)least));
		f->is_straggler = f->straggler_p <= LEVEL;
	}
}

/*
 * Since when one rank departs from the others, by the method that finds who leaks: the seconds by
 * which its steps take longer than the median step of the same number add up to a series that grows
 * while it is slow, as memory does that leaks. With the sign -1 it grows while the rank is fast. A
 * rise counts from `least` seconds on, if it is twice that of any other rank: what all do is the
 * workload's.
 */
static int find_departure(struct work *w, int sign, double least, struct departure *ret)
{
	size_t n_ranks = w->a->n_ranks, n_steps = 0;
	struct culprit_rank *ranks = arena_alloc(&w->arena, n_ranks * sizeof(*ranks));
	double unit = CULPRIT_LEAST / least, most = 0;
	struct culprit_answer answer = { 0 };
	int r;

	for (size_t i = 0; ranks && i < n_ranks; i++) {
		double *series = arena_alloc(&w->arena, (2 * w->lists[i].n + 1) * sizeof(*series));

		if (!series)
			return -ENOMEM;
		ranks[i] = (struct culprit_rank){ .t = series,
						  .mib = series + w->lists[i].n,
						  .start = NAN,
						  .end = NAN,
						  .rank = i };
		n_steps = w->lists[i].n > n_steps ? w->lists[i].n : n_steps;
	}
	if (!ranks)
		return -ENOMEM;
	for (size_t step = 0; step < n_steps; step++) {
		size_t n = fill_column(w, step);
		double middle = noise_median(w->column, n);

		for (size_t i = 0; n >= MIN_RANKS && i < n_ranks; i++) {
			struct culprit_rank *rank = &ranks[i];
			double *t = (double *)rank->t, *late = (double *)rank->mib;
			double end = step < w->lists[i].n ? w->lists[i].ends[step] : NAN;

			if (isnan(end) || (rank->n > 0 && end <= t[rank->n - 1]))
				continue; /* steps of two threads are no series */
			t[rank->n] = end;
			late[rank->n] = (rank->n > 0 ? late[rank->n - 1] : 0) +
					sign * unit * (w->lists[i].seconds[step] - middle);
			rank->n++;
		}
	}
	r = culprit_find(ranks, n_ranks, &w->arena, &answer);
	*ret = (struct departure){ .why = answer.why };
	for (size_t i = 1; i < answer.n_rises; i++)
		most = fmax(most, answer.rises[i].total);
	if (r < 0 || verdict_of(answer.why) != VERDICT_NAMED || answer.rises[0].total < 2 * most)
		return r;
	ret->rise = answer.rises[0];
	ret->rank = &w->a->ranks[ranks[ret->rise.record].rank];
	ret->since_ns = w->origin_ns + llround(ret->rise.best * 1e9);
	ret->low_ns = w->origin_ns + llround(ret->rise.low * 1e9);
	ret->high_ns = w->origin_ns + llround(ret->rise.high * 1e9);
	ret->seconds = ret->rise.total / unit;
	return 0;
}

static int find_steps(struct work *w)
{
	size_t n_ranks = w->a->n_ranks, n = 0;
	double *medians = arena_alloc(&w->arena, n_ranks * sizeof(*medians));
	int r = 0;

	w->lists = arena_alloc(&w->arena, n_ranks * sizeof(*w->lists));
	w->column = arena_alloc(&w->arena, n_ranks * sizeof(*w->column));
	if (!medians || !w->lists || !w->column)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n_ranks; i++) {
		const struct step_list *list = &w->lists[i];
		struct rank_facts *f = &w->f->ranks[i];
		double *copy; /* the order of the steps is needed later */

		r = list_steps(w, i);
		f->n_steps = list->n;
		f->straggler_p = f->step_seconds = NAN;
		if (r < 0 || list->n < MIN_STEPS)
			continue;
		copy = arena_memdup(&w->arena, list->seconds, list->n * sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		medians[n++] = f->step_seconds = noise_median(copy, list->n);
	}
	if (r < 0)
		return r;
	w->f->step_seconds = noise_median(medians, n);
	find_stragglers(w);
	if (n < MIN_RANKS || !(w->f->step_seconds > 0))
		return 0;
	return find_departure(w, 1, w->f->step_seconds, &w->f->slow);
}

/* ---- CPU and GPU time ---- */

#define MAX_CELLS 2048
#define MIN_RATE 0.1	/* of a core or GPU: ranks that use less are idle */
#define APART_SHARE 0.2 /* of the larger rate: less apart is no departure */
#define WANDER_SIGMAS 3.0

/* The seconds that a rank used until ns, between two samples; NaN where its counter falls. */
static double used_at(const struct rank_moments *all, int64_t rank, int64_t ns)
{
	const struct rank_moment *m = telemetry_find_moment(all, rank, ns);
	double share;

	if (!m || m + 1 == all->items + all->n || m[1].rank != rank || m[1].amount < m->amount)
		return NAN;
	share = (double)(ns - m->timestamp_ns) / (double)(m[1].timestamp_ns - m->timestamp_ns);
	return ((double)m->amount + share * (double)(m[1].amount - m->amount)) / 1e9;
}

/* The seconds used in cells of equal width stand for those of steps. */
static int list_use(struct work *w, const struct rank_moments *all, size_t n_cells,
		    int64_t width_ns)
{
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		double *seconds = arena_alloc(&w->arena, (2 * n_cells + 1) * sizeof(*seconds));
		double before = NAN;

		if (!seconds)
			return -ENOMEM;
		w->lists[i] = (struct step_list){ seconds, seconds + n_cells, n_cells };
		for (size_t k = 0; k < n_cells; k++) {
			int64_t ns = w->origin_ns + (int64_t)k * width_ns;
			double now = used_at(all, w->a->ranks[i].rank, ns);
			double end = (double)(ns - w->origin_ns) / 1e9;

			seconds[k] = now - before;
			w->lists[i].ends[k] = now >= before ? end : NAN;
			before = now;
		}
	}
	return 0;
}

/* Seconds used per second from a time on: the median of the ranks but for one, or of this one. */
static double measure_rate(const struct work *w, double from, const struct rank *rank, bool is_own)
{
	size_t n_ranks = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct step_list *list = &w->lists[i];
		double sum = 0;
		size_t n = 0;

		for (size_t k = 0; k < list->n; k++)
			if (list->ends[k] > from) { /* not where it is NaN */
				sum += list->seconds[k];
				n++;
			}
		if (n > 0 && (&w->a->ranks[i] == rank) == is_own)
			w->column[n_ranks++] = sum / (double)n / w->cell_seconds;
	}
	return noise_median(w->column, n_ranks);
}

/*
 * How far sums wander from each other by chance in all cells: the scatter of a rank's cells about
 * the median of their columns, that of the middle rank, times the root of how many there are.
 * -ENOMEM.
 */
static int measure_wander(struct work *w, size_t n_cells, double *ret)
{
	size_t n_ranks = w->a->n_ranks, n_known = 0;
	double *middles = arena_alloc(&w->arena, n_cells * sizeof(*middles));
	double *away = arena_alloc(&w->arena, n_cells * sizeof(*away));
	double *scatters = arena_alloc(&w->arena, n_ranks * sizeof(*scatters));

	if (!middles || !away || !scatters)
		return -ENOMEM;
	for (size_t k = 0; k < n_cells; k++)
		middles[k] = noise_median(w->column, fill_column(w, k));
	for (size_t i = 0; i < n_ranks; i++) {
		const struct step_list *list = &w->lists[i];
		size_t n = 0;

		for (size_t k = 0; k < n_cells; k++)
			if (!isnan(list->ends[k]))
				away[n++] = fabs(list->seconds[k] - middles[k]);
		if (n > 0)
			scatters[n_known++] = SIGMA_PER_MAD * noise_median(away, n);
	}
	*ret = n_known > 0 ? noise_median(scatters, n_known) * sqrt((double)n_cells) : 0;
	return 0;
}

/* Who uses less than the others, or more: where ranks wait for one, that one keeps its rate. */
static int find_use(struct work *w, const struct rank_moments *all, struct use *ret)
{
	int64_t length_ns = w->f->last_ns - w->origin_ns, width_ns = w->a->median_interval_ns;
	struct departure less, more, *found = &ret->departure;
	double least, wander;
	size_t n_cells;

	found->why = WHY_NO_SAMPLES;
	if (all->n == 0 || width_ns <= 0 || mixed_find(w->a))
		return 0;
	width_ns = length_ns / width_ns > MAX_CELLS ? length_ns / MAX_CELLS : width_ns;
	w->cell_seconds = (double)width_ns / 1e9;
	n_cells = (size_t)(length_ns / width_ns) + 1;
	if (list_use(w, all, n_cells, width_ns) < 0 || measure_wander(w, n_cells, &wander) < 0)
		return -ENOMEM;
	/* A rise counts from a second of a rank's time on, or one cell. */
	least = fmax(measure_rate(w, 0, NULL, false), MIN_RATE) * fmax(w->cell_seconds, 1);
	least = fmax(least, WANDER_SIGMAS * wander);
	if (find_departure(w, -1, least, &less) < 0 || find_departure(w, 1, least, &more) < 0)
		return -ENOMEM;
	if (!less.rank == !more.rank) {
		found->why = less.rank || verdict_of(less.why) == VERDICT_CANNOT_TELL
				     ? WHY_UNRELATED
				     : more.why;
		return 0;
	}
	*found = less.rank ? less : more;
	ret->rate = measure_rate(w, found->rise.best, found->rank, true);
	ret->peers_rate = measure_rate(w, found->rise.best, found->rank, false);
	if (found->rise.is_censored) /* may be by design */
		*found = (struct departure){ .why = WHY_UNSEEN };
	else if (found->rise.late_rate * found->seconds <
		 APART_SHARE * fmax(ret->rate, ret->peers_rate) * found->rise.total)
		*found = (struct departure){ .why = WHY_NO_RISE };
	return 0;
}

/* ---- all together ---- */

int facts_make(struct rank_analysis *a)
{
	struct facts *f = arena_alloc(&a->arena, sizeof(*f));
	struct rank_facts *ranks = arena_alloc(&a->arena, (a->n_ranks + 1) * sizeof(*ranks));
	struct work work = { .a = a, .f = f, .arena = ARENA_INIT };
	int r = 0;

	if (!f || !ranks)
		return -ENOMEM;
	*f = (struct facts){ .ranks = ranks, .first_ns = INT64_MAX, .step_seconds = NAN };
	a->facts = f;
	if (a->n_ranks == 0)
		return 0;
	for (size_t i = 0; r == 0 && i < a->n_ranks; i++) {
		measure(a->ranks[i].total, a->median_interval_ns, &ranks[i]);
		f->first_ns = ranks[i].first_ns < f->first_ns ? ranks[i].first_ns : f->first_ns;
		f->last_ns = ranks[i].last_ns > f->last_ns ? ranks[i].last_ns : f->last_ns;
		f->sum_of_peaks_bytes = add_saturated(f->sum_of_peaks_bytes, ranks[i].peak_bytes);
		r = find_gaps(a, &a->ranks[i], &ranks[i]);
	}
	if (r == 0)
		r = find_peak(a, f);
	work.origin_ns = f->first_ns;
	if (r == 0)
		r = find_steps(&work);
	for (size_t i = 0; r == 0 && i < N_USES; i++)
		r = find_use(&work, &a->telemetry->uses[i], &f->uses[i]);
	arena_release(&work.arena);
	return r;
}

/* ---- JSON and words ---- */

static const struct {
	enum gap_kind kind;
	const char *name;
} kinds[] = {
	{ GAP_TRANSIENT_SPIKE, "transient_spike" },
	{ GAP_PERSISTENT_DRIFT, "persistent_drift" },
	{ GAP_FRAGMENTATION_LIKE, "fragmentation_like" },
};

void facts_add_gap_kinds(struct buf *out, const struct rank_facts *f)
{
	const char *between = "";

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (f->gap_kinds & kinds[i].kind) {
			buf_printf(out, "%s%s", between, kinds[i].name);
			if (kinds[i].kind == GAP_FRAGMENTATION_LIKE) {
				buf_printf(out, " (%.0f %% unallocated)",
					   f->unallocated_share * 100);
			} else if (kinds[i].kind == GAP_PERSISTENT_DRIFT) {
				buf_add_str(out, " (");
				num_add_bytes(out, (uint64_t)f->drift_bytes_per_second);
				buf_printf(out, "/s, R² %.2f)", f->drift_r_squared);
			} else if (!isnan(f->spike_sigmas)) {
				buf_printf(out, " (%.0f sigma)", f->spike_sigmas);
			}
			between = ", ";
		}
}

static void write_gap(struct json *j, const struct rank_facts *f)
{
	json_key_object(j, "hidden_gap");
	json_key_i64(j, "max_bytes", f->gap_max_bytes);
	json_key_i64(j, "max_ns", f->gap_max_ns);
	json_key_f64(j, "mean_bytes", f->gap_mean_bytes);
	json_key_i64(j, "last_bytes", f->gap_last_bytes);
	json_key_f64(j, "unallocated_share", f->unallocated_share);
	json_key_f64(j, "drift_bytes_per_second", f->drift_bytes_per_second);
	json_key_f64(j, "drift_r_squared", f->drift_r_squared);
	json_key_f64(j, "spike_sigmas", f->spike_sigmas);
	json_key_array(j, "classification");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (f->gap_kinds & kinds[i].kind)
			json_str(j, kinds[i].name);
	json_end_array(j);
	if (f->gap_kinds & GAP_TRANSIENT_SPIKE)
		json_key_bool(j, "is_spike_collective", f->is_spike_collective);
	json_end_object(j);
}

static void write_rank(struct json *j, const struct rank_analysis *a, size_t i,
		       const struct rank_facts *f)
{
	const struct stream *s = a->ranks[i].stream;

	json_begin_object(j);
	json_key_i64(j, "rank", a->ranks[i].rank);
	summary_write_text(j, "host", identity_of(a->telemetry, &s->samples[0])->host);
	json_key_u64(j, "samples", s->n);
	json_key_u64(j, "missed_stretches", f->n_missed);
	json_key_i64(j, "first_ns", f->first_ns);
	json_key_i64(j, "last_ns", f->last_ns);
	json_key_i64(j, "first_used_bytes", f->first_bytes);
	json_key_i64(j, "last_used_bytes", f->last_bytes);
	json_key_i64(j, "delta_bytes", f->last_bytes - f->first_bytes);
	json_key_i64(j, "peak_used_bytes", f->peak_bytes);
	json_key_i64(j, "peak_ns", f->peak_ns);
	write_gap(j, f);
	json_key_u64(j, "steps", f->n_steps);
	json_key_f64(j, "step_seconds", f->step_seconds);
	json_key_u64(j, "steps_compared", f->n_compared);
	json_key_u64(j, "steps_longest", f->n_longest);
	json_key_f64(j, "straggler_p", f->straggler_p);
	json_key_bool(j, "is_straggler", f->is_straggler);
	json_end_object(j);
}

static void write_departure(struct json *j, const struct departure *d)
{
	json_key_i64(j, "rank", d->rank->rank);
	json_key_i64(j, "since_ns", d->since_ns);
	json_key_array(j, "since_interval_ns");
	json_i64(j, d->low_ns);
	json_i64(j, d->high_ns);
	json_end_array(j);
}

/* The names of a use in JSON, and of its unit in a sentence. */
static const struct {
	const char *key, *rate_key, *peers_key;
	const char *name, *unit, *why_less;
} uses[N_USES] = {
	[USE_CPU] = { "cpu", "cores", "peers_cores", "CPU", "a core",
		      "It waits, or gets no core." },
	[USE_GPU] = { "gpu", "gpus", "peers_gpus", "GPU", "a GPU",
		      "It waits, or has nothing to compute." },
};

static void write_use(struct json *j, const struct use *use, enum use_kind kind)
{
	json_key_object(j, uses[kind].key);
	json_key_string(j, "verdict", finding_verdict_name(verdict_of(use->departure.why)));
	if (use->departure.rank) {
		write_departure(j, &use->departure);
		json_key_string(j, "direction", use->rate > use->peers_rate ? "more" : "less");
		json_key_f64(j, uses[kind].rate_key, use->rate);
		json_key_f64(j, uses[kind].peers_key, use->peers_rate);
	}
	json_end_object(j);
}

void facts_add_use(struct buf *out, const struct facts *f, enum use_kind kind)
{
	const struct use *use = &f->uses[kind];
	const struct departure *d = &use->departure;
	char since[40];

	if (!d->rank)
		return;
	clock_format_local((uint64_t)d->since_ns, since, sizeof(since));
	buf_printf(out, "%s rank %lld: %.2f of %s since %s (± %.1f s), its peers %.2f. %s",
		   uses[kind].name, (long long)d->rank->rank, use->rate, uses[kind].unit, since,
		   (d->rise.high - d->rise.low) / 2, use->peers_rate,
		   use->rate > use->peers_rate
			   ? "Where ranks wait for each other, they may wait for this one."
			   : uses[kind].why_less);
}

void facts_write_json(struct json *j, const struct rank_analysis *a, const struct facts *f)
{
	bool has_peak = a->n_ranks > 0;

	json_key_array(j, "ranks");
	for (size_t i = 0; i < a->n_ranks; i++)
		write_rank(j, a, i, &f->ranks[i]);
	json_end_array(j);
	json_key_object(j, "memory");
	summary_write_known(j, "sum_of_peaks_bytes", has_peak, f->sum_of_peaks_bytes);
	summary_write_known(j, "same_instant_peak_bytes", has_peak, f->peak_bytes);
	summary_write_known(j, "same_instant_peak_ns", has_peak, f->peak_ns);
	json_end_object(j);
	json_key_object(j, "steps");
	json_key_f64(j, "median_seconds", f->step_seconds);
	json_key_array(j, "stragglers");
	for (size_t i = 0; i < a->n_ranks; i++)
		if (f->ranks[i].is_straggler)
			json_i64(j, a->ranks[i].rank);
	json_end_array(j);
	if (f->slow.rank) {
		json_key_object(j, "slow");
		write_departure(j, &f->slow);
		json_key_f64(j, "lost_seconds", f->slow.seconds);
		json_end_object(j);
	} else {
		json_key_null(j, "slow");
	}
	json_end_object(j);
	for (size_t i = 0; i < N_USES; i++) {
		if (a->telemetry->uses[i].n > 0)
			write_use(j, &f->uses[i], (enum use_kind)i);
		else
			json_key_null(j, uses[i].key);
	}
}
