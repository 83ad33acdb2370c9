#include "crossrank/rank_facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "crossrank/method/method.h"
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
static int find_peak(const struct rank_analysis *a, struct peak *ret)
{
	CLEANUP(free_ptr) int64_t *sums = NULL;
	int64_t from_ns = INT64_MAX, last_ns = 0, width_ns;
	uint64_t length;
	size_t n, best = 0;

	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct stream *s = a->ranks[i].total;

		if (s->samples[0].timestamp_ns < from_ns)
			from_ns = s->samples[0].timestamp_ns;
		if (s->samples[s->n - 1].timestamp_ns > last_ns)
			last_ns = s->samples[s->n - 1].timestamp_ns;
	}
	length = (uint64_t)(last_ns - from_ns) + 1;
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
	ret->bytes = sums[best];
	ret->ns = add_saturated(from_ns, (int64_t)best * width_ns);
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

static double gap_of(const struct sample *s)
{
	return (double)s->used_bytes - (double)s->reserved_bytes;
}

/* The exact extremes and means. */
static void measure(const struct stream *s, struct rank_facts *ret)
{
	double sum = 0, share = 0;
	size_t n_reserved = 0;

	ret->gap_max_bytes = INT64_MIN;
	for (size_t i = 0; i < s->n; i++) {
		const struct sample *at = &s->samples[i];
		int64_t gap = at->used_bytes - at->reserved_bytes;

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
	ret->gap_last_bytes = s->samples[s->n - 1].used_bytes - s->samples[s->n - 1].reserved_bytes;
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
	double seconds = (double)(ret->last_ns - ret->first_ns) / 1e9;
	bool spikes = false;
	int r = 0;
	const struct sample *last;
	int64_t total;

	ret->spike_sigmas = NAN;
	measure(s, ret);
	fit_drift(s, ret);
	if (ret->unallocated_share >= FRAGMENTATION_SHARE &&
	    (double)s->samples[s->n - 1].reserved_bytes >= MIN_GAP_BYTES)
		ret->gap_kinds |= GAP_FRAGMENTATION_LIKE;
	last = &rank->stream->samples[rank->stream->n - 1];
	total = a->telemetry->identities[last->identity].total_bytes;
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
	double *seconds, *ends; /* how long, and until when after origin_ns */
	size_t n;
};

struct work {
	const struct rank_analysis *a;
	struct facts *f;
	struct step_list *lists; /* one for each rank */
	int64_t origin_ns;
};

static int find_steps_of(struct work *w, size_t i)
{
	const struct rank *rank = &w->a->ranks[i];
	const struct sample *last = &rank->stream->samples[rank->stream->n - 1];
	struct text session = w->a->telemetry->identities[last->identity].session_id;
	struct step_list *list = &w->lists[i];
	size_t n;
	const struct span *spans = phases_of(&w->a->phases, session, rank->rank, &n);

	list->seconds = calloc(2 * n + 1, sizeof(*list->seconds));
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

/* ---- who is slow ---- */

/* Who took longest for the step of this number, of how many; of several at once nobody. */
static struct rank_facts *find_longest(const struct work *w, size_t step, size_t *ret_n)
{
	struct rank_facts *longest = NULL;
	double most = -1;
	size_t n = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++) {
		if (step >= w->lists[i].n)
			continue;
		n++;
		if (w->lists[i].seconds[step] < most)
			continue;
		longest = w->lists[i].seconds[step] > most ? &w->f->ranks[i] : NULL;
		most = w->lists[i].seconds[step];
	}
	*ret_n = n;
	return longest;
}

/* How probable n or more of n_all are where each has probability p. */
static double at_least(size_t n, size_t n_all, double p)
{
	double sum = 0;

	for (size_t k = n; k <= n_all; k++)
		sum += exp(log_choose(n_all, k) + (double)k * log(p) +
			   (double)(n_all - k) * log1p(-p));
	return fmin(sum, 1);
}

/* Of its steps those that enough ranks have; least: the fewest that had one of them. */
static void judge_rank(const struct work *w, const size_t *n_of_step, size_t i)
{
	struct rank_facts *f = &w->f->ranks[i];
	size_t least = w->a->n_ranks;

	for (size_t step = 0; step < w->lists[i].n && n_of_step[step] >= MIN_RANKS; step++) {
		f->n_compared++;
		least = n_of_step[step] < least ? n_of_step[step] : least;
	}
	f->may_straggle =
		f->n_compared >= MIN_STEPS && f->step_seconds > SLOW_FACTOR * w->f->step_seconds;
	if (!f->may_straggle)
		return;
	/* Each rank had its chance to be the one. */
	f->straggler_p = fmin(1, (double)w->a->n_ranks * at_least(f->n_longest, f->n_compared,
								  1.0 / (double)least));
	f->is_straggler = f->straggler_p <= LEVEL;
	w->f->n_stragglers += f->is_straggler;
}

static int judge(const struct work *w)
{
	CLEANUP(free_ptr) size_t *n_of_step = NULL;
	size_t most = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		most = w->lists[i].n > most ? w->lists[i].n : most;
	n_of_step = calloc(most + 1, sizeof(*n_of_step));
	if (!n_of_step)
		return -ENOMEM;
	for (size_t step = 0; step < most; step++) {
		struct rank_facts *longest = find_longest(w, step, &n_of_step[step]);

		if (longest && n_of_step[step] >= MIN_RANKS)
			longest->n_longest++;
	}
	for (size_t i = 0; i < w->a->n_ranks; i++)
		judge_rank(w, n_of_step, i);
	return 0;
}

/*
 * Since when one rank is slow: the seconds by which its steps take longer than the median step of
 * the same number add up to a series that grows while it is slow, as memory does that leaks. A
 * rise counts from one median step on. Ranks that all become slow are the workload's.
 */
static int find_slow(const struct work *w)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	size_t n_ranks = w->a->n_ranks, n = MIN_RANKS;
	struct culprit_rank *ranks = arena_alloc(&arena, n_ranks * sizeof(*ranks));
	double *column = arena_alloc(&arena, n_ranks * sizeof(*column)), *series = NULL;
	double unit = CULPRIT_LEAST / w->f->step_seconds;
	struct culprit_answer answer;
	int r;

	for (size_t i = 0; ranks && i < n_ranks; i++) {
		series = arena_alloc(&arena, (2 * w->lists[i].n + 1) * sizeof(*series));
		if (!series)
			return -ENOMEM;
		ranks[i] = (struct culprit_rank){ .t = series,
						  .mib = series + w->lists[i].n,
						  .start = NAN,
						  .end = NAN,
						  .rank = i };
	}
	if (!ranks || !column)
		return -ENOMEM;
	for (size_t step = 0; n >= MIN_RANKS; step++) {
		double middle;

		n = 0;
		for (size_t i = 0; i < n_ranks; i++)
			if (step < w->lists[i].n)
				column[n++] = w->lists[i].seconds[step];
		middle = n >= MIN_RANKS ? noise_median(column, n) : NAN;
		for (size_t i = 0; i < n_ranks && n >= MIN_RANKS; i++) {
			struct culprit_rank *rank = &ranks[i];
			double *t = (double *)rank->t, *late = (double *)rank->mib;
			double end = step < w->lists[i].n ? w->lists[i].ends[step] : NAN;

			if (isnan(end) || (rank->n > 0 && end <= t[rank->n - 1]))
				continue; /* steps of two threads are no series */
			t[rank->n] = end;
			late[rank->n] = (rank->n > 0 ? late[rank->n - 1] : 0) +
					unit * (w->lists[i].seconds[step] - middle);
			rank->n++;
		}
	}
	r = culprit_find(ranks, n_ranks, &arena, &answer);
	if (r < 0 || answer.why != WHY_ALONE)
		return r;
	w->f->slow = &w->a->ranks[ranks[answer.rises[0].record].rank];
	w->f->slow_since_ns = w->origin_ns + llround(answer.rises[0].best * 1e9);
	w->f->slow_low_ns = w->origin_ns + llround(answer.rises[0].low * 1e9);
	w->f->slow_high_ns = w->origin_ns + llround(answer.rises[0].high * 1e9);
	w->f->slow_lost_seconds = answer.rises[0].total / unit;
	return 0;
}

static int find_all(struct work *w)
{
	CLEANUP(free_ptr) double *medians = calloc(w->a->n_ranks + 1, sizeof(*medians));
	size_t n = 0;
	int r = medians ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < w->a->n_ranks; i++) {
		const struct step_list *list = &w->lists[i];
		CLEANUP(free_ptr) double *copy = NULL; /* the order of the steps is needed later */
		struct rank_facts *f = &w->f->ranks[i];

		r = find_steps_of(w, i);
		f->n_steps = list->n;
		f->straggler_p = f->step_seconds = NAN;
		if (r < 0 || list->n < MIN_STEPS)
			continue;
		copy = malloc(list->n * sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		memcpy(copy, list->seconds, list->n * sizeof(*copy));
		medians[n++] = f->step_seconds = noise_median(copy, list->n);
	}
	w->f->step_seconds = r == 0 ? noise_median(medians, n) : NAN;
	if (r == 0)
		r = judge(w);
	return r < 0 || n < MIN_RANKS || !(w->f->step_seconds > 0) ? r : find_slow(w);
}

static int find_steps(const struct rank_analysis *a, struct facts *f)
{
	CLEANUP(free_ptr) struct step_list *lists = calloc(a->n_ranks + 1, sizeof(*lists));
	struct work w = { a, f, lists, a->ranks[0].total->samples[0].timestamp_ns };
	int r = lists ? find_all(&w) : -ENOMEM;

	for (size_t i = 0; lists && i < a->n_ranks; i++)
		free(lists[i].seconds);
	return r;
}

/* ---- all together ---- */

#define MISSED_INTERVALS 3 /* so long without a sample is a gap in the record */

static void walk_samples(const struct rank *rank, int64_t interval_ns, struct rank_facts *ret)
{
	const struct stream *s = rank->total;

	ret->first_ns = s->samples[0].timestamp_ns;
	ret->last_ns = s->samples[s->n - 1].timestamp_ns;
	ret->first_bytes = s->samples[0].used_bytes;
	ret->last_bytes = s->samples[s->n - 1].used_bytes;
	ret->peak_bytes = -1;
	for (size_t i = 0; i < s->n; i++) {
		const struct sample *at = &s->samples[i];

		if (at->used_bytes > ret->peak_bytes) {
			ret->peak_bytes = at->used_bytes;
			ret->peak_ns = at->timestamp_ns;
		}
		ret->n_missed += i > 0 && interval_ns > 0 &&
				 (__int128)at->timestamp_ns - at[-1].timestamp_ns >
					 (__int128)MISSED_INTERVALS * interval_ns;
	}
}

int facts_make(struct rank_analysis *a)
{
	struct facts *f = arena_alloc(&a->arena, sizeof(*f));
	struct rank_facts *ranks = arena_alloc(&a->arena, (a->n_ranks + 1) * sizeof(*ranks));
	int r = 0;

	if (!f || !ranks)
		return -ENOMEM;
	memset(ranks, 0, (a->n_ranks + 1) * sizeof(*ranks));
	*f = (struct facts){ .ranks = ranks, .step_seconds = NAN };
	a->facts = f;
	if (a->n_ranks == 0)
		return 0;
	for (size_t i = 0; r == 0 && i < a->n_ranks; i++) {
		walk_samples(&a->ranks[i], a->median_interval_ns, &ranks[i]);
		f->sum_of_peaks_bytes = add_saturated(f->sum_of_peaks_bytes, ranks[i].peak_bytes);
		r = find_gaps(a, &a->ranks[i], &ranks[i]);
	}
	if (r == 0)
		r = find_peak(a, &f->instant_peak);
	return r < 0 ? r : find_steps(a, f);
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
	struct text host = a->telemetry->identities[s->samples[0].identity].host;

	json_begin_object(j);
	json_key_i64(j, "rank", a->ranks[i].rank);
	json_key(j, "host");
	json_str_n(j, host.s, host.n);
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

/* There is none where there are no samples. */
static void write_peak(struct json *j, const struct rank_analysis *a, const char *key, int64_t v)
{
	json_key(j, key);
	if (a->n_ranks > 0)
		json_i64(j, v);
	else
		json_none(j);
}

void facts_write_json(struct json *j, const struct rank_analysis *a, const struct facts *f)
{
	json_key_array(j, "ranks");
	for (size_t i = 0; i < a->n_ranks; i++)
		write_rank(j, a, i, &f->ranks[i]);
	json_end_array(j);
	json_key_object(j, "memory");
	write_peak(j, a, "sum_of_peaks_bytes", f->sum_of_peaks_bytes);
	write_peak(j, a, "same_instant_peak_bytes", f->instant_peak.bytes);
	write_peak(j, a, "same_instant_peak_ns", f->instant_peak.ns);
	json_end_object(j);
	json_key_object(j, "steps");
	json_key_f64(j, "median_seconds", f->step_seconds);
	json_key_array(j, "stragglers");
	for (size_t i = 0; i < a->n_ranks; i++)
		if (f->ranks[i].is_straggler)
			json_i64(j, a->ranks[i].rank);
	json_end_array(j);
	json_key(j, "slow");
	if (f->slow) {
		json_begin_object(j);
		json_key_i64(j, "rank", f->slow->rank);
		json_key_i64(j, "since_ns", f->slow_since_ns);
		json_key_array(j, "since_interval_ns");
		json_i64(j, f->slow_low_ns);
		json_i64(j, f->slow_high_ns);
		json_end_array(j);
		json_key_f64(j, "lost_seconds", f->slow_lost_seconds);
		json_end_object(j);
	} else {
		json_none(j);
	}
	json_end_object(j);
}
