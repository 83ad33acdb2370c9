#include "crossrank/together.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/noise.h"

#define ALL_SHARE 0.8	  /* so many of the ranks are as good as all */
#define EQUAL_P 0.01	  /* likelier than this: they began together */
#define ALIGNED_P 0.05	  /* the same for onsets after each rank's own start */
#define NEAR_MARKER_S 0.5 /* before and after an operation, whatever the samples */
#define MAX_SPREAD_S 2.0  /* an onset and its clock no better known: together or not */
#define SHOWN_LEAD_S 1.0  /* or an interval: nobody led only where such a lead would show */
#define LEAD_STEP_S 0.01  /* to which the bound of a lead is found */
#define MIN_ALIGNED 3
#define ORDERED_SHARE 0.5 /* of the spread by the clock: no more is left of it after each start */
#define MIN_ORDERED 5	  /* of fewer ranks that is chance in too many cases */
#define BORN_SHARE 0.5	  /* of a lead: who started so much before the others may owe it to that */

bool together_is_all(const struct judge_work *w, const struct judge_outcome *o)
{
	return (double)(o->to - o->from) >= ALL_SHARE * (double)w->a->n_ranks;
}

/* ---- after each one's own start ---- */

typedef double rise_time_fn(const struct rise *rise);

static double start_of(const struct rise *rise)
{
	return rise->start;
}

static double born_of(const struct rise *rise)
{
	return rise->born;
}

static double onset_of(const struct rise *rise)
{
	return rise->onset.median;
}

/* How likely they began together, each moved so that its time of that kind is zero; NULL: none is.
 */
static int moved_p(const struct judge_work *w, const struct judge_outcome *o, rise_time_fn *zero,
		   double jitter, double *ret)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct onset *moved = calloc(n, sizeof(*moved));
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));

	if (!moved || !entries)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &w->pool[o->from + i];

		moved[i] = c->rise->onset;
		moved[i].median -= zero ? zero(c->rise) : 0;
		/* A process starts up to one interval before its first sample. */
		moved[i].sd = hypot(hypot(moved[i].sd, jitter), w->interval / sqrt(12));
		entries[i] = (struct first_entry){ &moved[i], 0, 0 };
	}
	*ret = onset_equal_p(entries, n);
	return 0;
}

/* By how much the likeliest first one is before the median of the others. */
static int lead_in(const struct judge_work *w, const struct judge_outcome *o, rise_time_fn *time,
		   double *ret)
{
	size_t n = 0;
	CLEANUP(free_ptr) double *others = calloc(o->to - o->from, sizeof(*others));

	if (!others)
		return -ENOMEM;
	for (size_t i = o->from; i < o->to; i++)
		if (i != o->best)
			others[n++] = time(w->pool[i].rise);
	*ret = noise_median(others, n) - time(w->pool[o->best].rise);
	return 0;
}

/*
 * A record may begin long after its program, as that of GPU memory does: whose record began as much
 * before as it rose, but not its program, did both first.
 */
static int is_born_before(const struct judge_work *w, const struct judge_outcome *o, bool *ret)
{
	double born = 0, lead = 0;
	int r = lead_in(w, o, born_of, &born);

	if (r == 0)
		r = lead_in(w, o, onset_of, &lead);
	*ret = born >= BORN_SHARE * lead;
	return r;
}

/*
 * Whether they began together after each one's own start, be it that of its program or of its
 * record, and not together otherwise.
 */
static int follows_start(const struct judge_work *w, const struct judge_outcome *o, double jitter,
			 bool *ret)
{
	double from_start = 0, from_birth = 0, unmoved = 1;
	int r = 0;

	*ret = false;
	if (!together_is_all(w, o) || o->to - o->from < MIN_ALIGNED)
		return 0;
	r = moved_p(w, o, start_of, jitter, &from_start);
	if (r == 0)
		r = moved_p(w, o, born_of, jitter, &from_birth);
	if (r == 0)
		r = moved_p(w, o, NULL, 0, &unmoved);
	*ret = r == 0 && fmax(from_start, from_birth) >= ALIGNED_P && unmoved < EQUAL_P;
	return r;
}

/* The sum of the squares around their mean, each moved so that its time of that kind is zero. */
static double spread(const struct judge_work *w, const struct judge_outcome *o, rise_time_fn *zero)
{
	double n = (double)(o->to - o->from), mean = 0, sum = 0;

	for (size_t i = o->from; i < o->to; i++)
		mean += (onset_of(w->pool[i].rise) - (zero ? zero(w->pool[i].rise) : 0)) / n;
	for (size_t i = o->from; i < o->to; i++) {
		double at = onset_of(w->pool[i].rise) - (zero ? zero(w->pool[i].rise) : 0);

		sum += (at - mean) * (at - mean);
	}
	return sum;
}

/*
 * Whether ranks rise in about the order of their starts. How long equal programs take until they
 * rise varies by more than the onsets are blurred by, and by how much nobody knows: so it is held
 * against the spread by the clock. Who leads, and those who follow, do so whenever they started.
 */
static bool is_in_order(const struct judge_work *w, const struct judge_outcome *o)
{
	double left = fmin(spread(w, o, start_of), spread(w, o, born_of));

	return together_is_all(w, o) && o->to - o->from >= MIN_ORDERED &&
	       left <= ORDERED_SHARE * spread(w, o, NULL);
}

int together_since_start(const struct judge_work *w, const struct judge_outcome *o, bool *ret)
{
	double moved = 0;
	int r = moved_p(w, o, start_of, 0, &moved);

	*ret = r == 0 && moved >= ALIGNED_P;
	return r;
}

/* ---- around an operation ---- */

/* Whether all of it lies around the moment of one operation. */
static bool is_near(const struct judge_work *w, const struct judge_outcome *o, int64_t marker_ns)
{
	double at = (double)(marker_ns - w->f->origin_ns) / 1e9;

	for (size_t i = o->from; i < o->to; i++) {
		const struct onset *onset = &w->pool[i].rise->onset;

		if (onset->low < at - NEAR_MARKER_S || onset->high > at + NEAR_MARKER_S)
			return false;
	}
	return true;
}

bool together_is_collective(const struct judge_work *w, const struct judge_outcome *o)
{
	const struct onset *first = &w->pool[o->from].rise->onset;
	const struct telemetry *t = w->a->telemetry;
	int64_t from = finding_ns(w->f, first->low - NEAR_MARKER_S);
	int64_t to = finding_ns(w->f, first->high + NEAR_MARKER_S);

	for (size_t i = telemetry_find_marker(t, from);
	     i < t->n_markers && t->markers[i].timestamp_ns <= to; i++)
		if (is_near(w, o, t->markers[i].timestamp_ns))
			return true;
	return false;
}

/* ---- by the clock ---- */

/* Where the samples and clocks could hide a lead, nobody knows that there was none. */
static bool is_bounded(const struct first_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (entries[i].onset->high - entries[i].onset->low + 2 * entries[i].clock_error >
		    MAX_SPREAD_S)
			return false;
	return true;
}

/*
 * Whether all but the first began together by the clock: then nothing but that one's own start
 * tells them apart, which may be chance.
 */
static bool are_together(const struct first_entry *others, size_t n)
{
	return n > 1 && onset_equal_p(others, n) >= EQUAL_P;
}

/* Out of n entries; the others are the n - 1 that are left. */
static struct first_entry take_first(struct first_entry *entries, size_t n, size_t first)
{
	struct first_entry taken = entries[first];

	entries[first] = entries[n - 1];
	return taken;
}

static double shown_lead(const struct judge_work *w)
{
	return fmax(w->interval, SHOWN_LEAD_S);
}

/* Whether the first one would be told from them, had it led by so much more. */
static bool shows_lead(const struct judge_work *w, const struct first_entry *first,
		       const struct first_entry *others, size_t n)
{
	return onset_behind_p(first, shown_lead(w), others, n) < EQUAL_P;
}

/* Who can have been before all others by the most, if any rank could: one of n. */
static size_t find_earliest(const struct first_entry *entries, size_t n)
{
	double earliest = INFINITY;
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		double at = onset_quantile(entries[i].onset, EQUAL_P / (double)n) -
			    entries[i].clock_error;

		if (at < earliest) {
			earliest = at;
			found = i;
		}
	}
	return found;
}

/*
 * The lead, at least shown_lead(), that none of n ranks had but for one case of a hundred. It is
 * asked of where the onsets can be, and not whether a test would have found it: who led may have
 * come out late. INFINITY: it may be more than `most`.
 */
static double bound_lead(struct first_entry *entries, size_t n, double least, double most)
{
	size_t earliest = find_earliest(entries, n);
	struct first_entry one = take_first(entries, n, earliest);
	double sure = 1 - EQUAL_P / (double)n, high = INFINITY;

	if (onset_behind_p(&one, -most, entries, n - 1) >= sure)
		high = most;
	if (onset_behind_p(&one, -least, entries, n - 1) >= sure)
		high = least;
	for (double low = least; !isinf(high) && high - low > LEAD_STEP_S;) {
		double middle = (low + high) / 2;

		if (onset_behind_p(&one, -middle, entries, n - 1) >= sure)
			high = middle;
		else
			low = middle;
	}
	entries[earliest] = one;
	return high;
}

static void compare(const struct judge_work *w, const struct judge_outcome *o,
		    struct first_entry *entries, struct together *ret)
{
	size_t n = o->to - o->from;
	bool is_known = together_is_all(w, o) && is_bounded(entries, n);
	double equal = onset_equal_p(entries, n);
	struct first_entry first;

	ret->lead_below = INFINITY;
	if (is_known)
		ret->lead_below =
			bound_lead(entries, n, shown_lead(w), fmax(w->interval, MAX_SPREAD_S));
	first = take_first(entries, n, o->best - o->from);
	equal = fmin(equal, (double)n * onset_behind_p(&first, 0, entries, n - 1));
	ret->is_sure = w->pool[o->best].probability >= FINDING_NAMED;
	ret->is_equal = equal >= EQUAL_P;
	ret->is_shared = ret->is_equal && !isinf(ret->lead_below) && !ret->is_sure &&
			 shows_lead(w, &first, entries, n - 1);
}

static void fill_entries(const struct judge_work *w, const struct judge_outcome *o,
			 struct first_entry *ret)
{
	for (size_t i = o->from; i < o->to; i++)
		ret[i - o->from] = judge_entry(w, &w->pool[i], false);
}

int together_find_start(const struct judge_work *w, const struct judge_outcome *o, double jitter,
			struct together *ret)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));
	int r = entries ? follows_start(w, o, jitter, &ret->is_start) : -ENOMEM;

	if (r < 0 || !(ret->is_start || is_in_order(w, o)))
		return r;
	fill_entries(w, o, entries);
	take_first(entries, n, o->best - o->from);
	ret->is_of_one = are_together(entries, n - 1);
	ret->is_ordered = !ret->is_of_one;
	return is_born_before(w, o, &ret->is_born);
}

int together_find(const struct judge_work *w, const struct judge_outcome *o, struct together *ret)
{
	CLEANUP(free_ptr) struct first_entry *entries = calloc(o->to - o->from, sizeof(*entries));
	int r = entries ? together_find_start(w, o, 0, ret) : -ENOMEM;

	if (r < 0)
		return r;
	fill_entries(w, o, entries);
	compare(w, o, entries, ret);
	return 0;
}
