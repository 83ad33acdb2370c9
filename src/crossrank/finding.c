#include "crossrank/finding.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/clocks.h"

#define N_DRAWS 20000
#define MIN_GAIN_SHARE 0.2 /* of the largest rise: smaller ones are not compared */
#define ALL_SHARE 0.8	   /* so many of the ranks are as good as all */
#define EQUAL_P 0.01	   /* likelier than this: they began together */
#define ALIGNED_P 0.05	   /* the same for onsets after each rank's own start */
#define GAP_INTERVALS 3.0  /* so long after the others ended begins another episode */
#define NEAR_MARKER_S 0.15
#define MIN_ALIGNED 3

struct work {
	struct analysis *a;
	struct finding *f;
	struct rank_clock *clocks;
	struct candidate *all; /* every rise that counts, by time */
	size_t n_all;
	size_t *last_seen; /* by number of the rank: one more than its last place in all[] */
	double interval;
};

/* What came of one episode. */
struct outcome {
	enum verdict verdict;
	enum why why;
	size_t from, to; /* of all[] */
	size_t best;
	const struct rank *unseen;
};

/* ---- rises of all ranks ---- */

static int64_t earliest_ns(const struct analysis *a)
{
	int64_t earliest = INT64_MAX;

	for (size_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].stream->samples[0].timestamp_ns < earliest)
			earliest = a->ranks[i].stream->samples[0].timestamp_ns;
	return earliest;
}

static int find_rises(struct work *w)
{
	struct analysis *a = w->a;
	int r = 0;

	w->f->rises = calloc(a->n_ranks + 1, sizeof(*w->f->rises));
	w->f->origin_ns = earliest_ns(a);
	if (!w->f->rises)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < a->n_ranks; i++)
		r = rises_find(a->ranks[i].stream, w->f->origin_ns, &w->f->rises[i]);
	return r;
}

/* The teeth of a saw are how that rank works; only what stays up says something. */
static bool counts(const struct rise_list *list, const struct rise *rise, double min_gain)
{
	return rise->gain_mib >= min_gain && !(list->is_sawtooth && rise->comes_down);
}

static double largest_gain(const struct work *w)
{
	double largest = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		for (size_t k = 0; k < w->f->rises[i].n; k++)
			if (counts(&w->f->rises[i], &w->f->rises[i].items[k], 0))
				largest = fmax(largest, w->f->rises[i].items[k].gain_mib);
	return largest;
}

static int compare_onsets(const void *l, const void *r)
{
	const struct candidate *a = l, *b = r;
	double x = a->rise->onset.median, y = b->rise->onset.median;

	if (x != y)
		return x < y ? -1 : 1;
	return (a->rank->rank > b->rank->rank) - (a->rank->rank < b->rank->rank);
}

static int collect(struct work *w)
{
	double min_gain = MIN_GAIN_SHARE * largest_gain(w);

	w->all = calloc(w->a->n_ranks * RISES_MAX + 1, sizeof(*w->all));
	w->last_seen = calloc(w->a->n_ranks + 1, sizeof(*w->last_seen));
	if (!w->all || !w->last_seen)
		return -ENOMEM;
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct rise_list *list = &w->f->rises[i];

		for (size_t k = 0; k < list->n; k++)
			if (counts(list, &list->items[k], min_gain))
				w->all[w->n_all++] = (struct candidate){
					.rank = &w->a->ranks[i],
					.rise = &list->items[k],
					.clock = w->clocks[i].number,
				};
	}
	qsort(w->all, w->n_all, sizeof(*w->all), compare_onsets);
	return 0;
}

/* ---- episodes ---- */

/* Rises that belong together: each rank once, and no long rest between them. */
static size_t episode_end(const struct work *w, size_t from)
{
	double end = w->all[from].rise->end;
	size_t to = from;

	for (; to < w->n_all; to++) {
		size_t *last = &w->last_seen[w->all[to].rank - w->a->ranks];

		if (to > from && w->all[to].rise->onset.median > end + GAP_INTERVALS * w->interval)
			return to;
		if (*last > from)
			return to;
		*last = to + 1;
		end = fmax(end, w->all[to].rise->end);
	}
	return to;
}

static const struct rank_clock *clock_of(const struct work *w, const struct candidate *c)
{
	return &w->clocks[c->rank - w->a->ranks];
}

static bool is_all(const struct work *w, const struct outcome *o)
{
	return (double)(o->to - o->from) >= ALL_SHARE * (double)w->a->n_ranks;
}

/* The first of a rank's samples, in seconds after the origin. */
static double start_of(const struct work *w, const struct rank *rank)
{
	return (double)(rank->stream->samples[0].timestamp_ns - w->f->origin_ns) / 1e9;
}

static void fill_entries(const struct work *w, const struct outcome *o, struct first_entry *ret)
{
	for (size_t i = o->from; i < o->to; i++)
		ret[i - o->from] = (struct first_entry){ &w->all[i].rise->onset, w->all[i].clock,
							 clock_of(w, &w->all[i])->error };
}

/* By how much each rank is moved for its start to be at zero; nothing if it is not moved. */
static int moved_p(const struct work *w, const struct outcome *o, bool is_moved, double *ret)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct onset *moved = calloc(n, sizeof(*moved));
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));

	if (!moved || !entries)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &w->all[o->from + i];

		moved[i] = c->rise->onset;
		moved[i].median -= is_moved ? start_of(w, c->rank) : 0;
		/* A process starts up to one interval before its first sample. */
		moved[i].sd = hypot(moved[i].sd, w->interval / sqrt(12));
		entries[i] = (struct first_entry){ &moved[i], 0, 0 };
	}
	*ret = onset_equal_p(entries, n);
	return 0;
}

/* Whether they began together after each one's own start, and not together otherwise. */
static int follows_start(const struct work *w, const struct outcome *o, bool *ret)
{
	double moved = 0, unmoved = 1;
	int r = 0;

	*ret = false;
	if (!is_all(w, o) || o->to - o->from < MIN_ALIGNED)
		return 0;
	r = moved_p(w, o, true, &moved);
	if (r == 0)
		r = moved_p(w, o, false, &unmoved);
	*ret = r == 0 && moved >= ALIGNED_P && unmoved < EQUAL_P;
	return r;
}

static bool is_near_marker(const struct work *w, const struct rise *rise)
{
	double reach = fmax(NEAR_MARKER_S, w->interval);

	return telemetry_has_marker(w->a->telemetry, finding_ns(w->f, rise->onset.low - reach),
				    finding_ns(w->f, rise->onset.high + reach));
}

static bool all_near_markers(const struct work *w, const struct outcome *o)
{
	if (w->a->telemetry->n_markers == 0)
		return false;
	for (size_t i = o->from; i < o->to; i++)
		if (!is_near_marker(w, w->all[i].rise))
			return false;
	return true;
}

/* ---- what an episode says ---- */

static struct outcome none(struct outcome o, enum why why)
{
	o.verdict = VERDICT_NONE;
	o.why = why;
	return o;
}

static struct outcome cannot_tell(struct outcome o, enum why why, const struct rank *unseen)
{
	o.verdict = VERDICT_CANNOT_TELL;
	o.why = why;
	o.unseen = unseen;
	return o;
}

static struct outcome named(struct outcome o, enum why why)
{
	o.verdict = VERDICT_NAMED;
	o.why = why;
	return o;
}

/* A rank with one sample, or whose record begins after the first onset, may have risen before it.
 */
static const struct rank *find_unseen(const struct work *w, const struct outcome *o)
{
	const struct rise *first = w->all[o->from].rise;

	for (size_t i = o->from; i < o->to; i++)
		if (w->all[i].rise->is_censored)
			return w->all[i].rank;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (w->a->ranks[i].stream->n < 2 ||
		    start_of(w, &w->a->ranks[i]) > first->onset.high + w->clocks[i].error)
			return &w->a->ranks[i];
	return NULL;
}

static const struct rank *find_free_clock(const struct work *w, const struct outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (clock_of(w, &w->all[i])->is_free && w->all[i].clock != w->all[o->from].clock)
			return w->all[i].rank;
	for (size_t i = o->from; i < o->to; i++)
		if (clock_of(w, &w->all[o->from])->is_free &&
		    w->all[i].clock != w->all[o->from].clock)
			return w->all[o->from].rank;
	return NULL;
}

static bool all_censored(const struct work *w, const struct outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (!w->all[i].rise->is_censored)
			return false;
	return true;
}

/* By the numbers alone; several ranks rose. */
static int weigh(struct work *w, struct outcome *o)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));
	CLEANUP(free_ptr) double *p = calloc(n, sizeof(*p));
	bool is_start = false;
	double equal;
	int r;

	if (!entries || !p)
		return -ENOMEM;
	fill_entries(w, o, entries);
	r = onset_first(entries, n, w->f->n_clocks, N_DRAWS, p);
	if (r == 0)
		r = follows_start(w, o, &is_start);
	if (r < 0)
		return r;
	o->best = o->from;
	for (size_t i = 0; i < n; i++) {
		w->all[o->from + i].probability = p[i];
		if (p[i] > w->all[o->best].probability)
			o->best = o->from + i;
	}
	equal = onset_equal_p(entries, n);
	if (is_all(w, o) && equal >= EQUAL_P)
		*o = none(*o, WHY_SHARED);
	else if (is_all(w, o) && all_near_markers(w, o))
		*o = none(*o, WHY_COLLECTIVE);
	else if (is_start)
		*o = none(*o, WHY_START);
	else if (equal >= EQUAL_P || w->all[o->best].probability < FINDING_NAMED)
		*o = cannot_tell(*o, WHY_TOO_CLOSE, NULL);
	else
		*o = named(*o, WHY_FIRST);
	return 0;
}

static int judge(struct work *w, size_t from, size_t to, struct outcome *ret)
{
	struct outcome o = { .from = from, .to = to, .best = from };
	const struct rank *unseen = find_unseen(w, &o), *free_clock = find_free_clock(w, &o);
	int r = 0;

	for (size_t i = from; i < to; i++)
		w->all[i].probability = to - from == 1 ? 1 : NAN;
	if (all_censored(w, &o) && is_all(w, &o))
		o = none(o, WHY_START);
	else if (w->a->n_ranks == 1)
		o = cannot_tell(o, WHY_ONE_RANK, NULL);
	else if (free_clock)
		o = cannot_tell(o, WHY_CLOCKS, free_clock);
	else if (to - from == 1 && !unseen)
		o = named(o, WHY_ALONE);
	else if (to - from > 1)
		r = weigh(w, &o);
	if (unseen && o.verdict == VERDICT_NAMED)
		o = cannot_tell(o, WHY_UNSEEN, unseen);
	*ret = o;
	return r;
}

/* A rank that is named goes before an open question, and that before a workload; the first of each.
 */
static int judge_all(struct work *w, struct outcome *best)
{
	*best = (struct outcome){ .verdict = VERDICT_NONE, .why = WHY_NO_RISE };
	for (size_t from = 0, to; from < w->n_all; from = to) {
		struct outcome o;
		int r;

		to = episode_end(w, from);
		r = judge(w, from, to, &o);
		if (r < 0)
			return r;
		if (w->f->n_episodes++ == 0 || o.verdict < best->verdict)
			*best = o;
		w->f->n_shared += o.verdict == VERDICT_NONE;
	}
	return 0;
}

/* ---- the answer ---- */

static int compare_candidates(const void *l, const void *r)
{
	const struct candidate *a = l, *b = r;

	if (a->probability != b->probability && !isnan(a->probability))
		return a->probability > b->probability ? -1 : 1;
	return compare_onsets(l, r);
}

/* The session of the last sample before a moment, or of the first one. */
static struct text session_at(const struct analysis *a, const struct rank *rank, int64_t ns)
{
	const struct stream *s = rank->stream;
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->samples[middle].timestamp_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return a->telemetry->identities[s->samples[low > 0 ? low - 1 : 0].identity].session_id;
}

int64_t finding_ns(const struct finding *f, double seconds)
{
	int64_t ns = fabs(seconds) < 9e9 ? llround(seconds * 1e9) : INT64_MAX, sum;

	return __builtin_add_overflow(f->origin_ns, ns, &sum) ? INT64_MAX : sum;
}

static int name_rank(struct work *w)
{
	struct finding *f = w->f;
	const struct candidate *first = &f->candidates[0];
	int64_t ns = finding_ns(f, first->rise->onset.median);

	f->lead = NAN;
	for (size_t i = 1; i < f->n_candidates; i++) {
		double lead = f->candidates[i].rise->onset.median - first->rise->onset.median;

		f->lead = isnan(f->lead) || lead < f->lead ? lead : f->lead;
	}
	if (f->verdict == VERDICT_NAMED)
		f->rank = first->rank;
	return phases_resolve(&w->a->phases, ns, session_at(w->a, first->rank, ns),
			      first->rank->rank, &f->phase);
}

static int take_outcome(struct work *w, const struct outcome *o)
{
	struct finding *f = w->f;

	f->verdict = o->verdict;
	f->why = o->why;
	f->unseen = o->unseen;
	f->lead = NAN;
	f->n_candidates = o->to - o->from;
	if (f->n_candidates == 0)
		return 0;
	f->candidates = calloc(f->n_candidates, sizeof(*f->candidates));
	if (!f->candidates)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_candidates; i++)
		f->candidates[i] = w->all[o->from + i];
	qsort(f->candidates, f->n_candidates, sizeof(*f->candidates), compare_candidates);
	return name_rank(w);
}

static void note_clocks(struct work *w)
{
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		w->f->clock_error = fmax(w->f->clock_error, w->clocks[i].error);
		w->f->is_assumed |= w->clocks[i].is_assumed;
	}
}

static int make(struct work *w, const struct analysis_options *options)
{
	struct outcome best = { 0 };
	int r = clocks_find(w->a, options->clock_error_ns, &w->clocks, &w->f->n_clocks);

	if (r < 0)
		return r;
	note_clocks(w);
	r = find_rises(w);
	if (r == 0)
		r = collect(w);
	if (r == 0)
		r = judge_all(w, &best);
	return r < 0 ? r : take_outcome(w, &best);
}

int finding_make(struct analysis *a, const struct analysis_options *options, struct finding **ret)
{
	struct finding *f = calloc(1, sizeof(*f));
	struct work w = { .a = a, .f = f, .interval = (double)a->median_interval_ns / 1e9 };
	int r = 0;

	if (!f)
		return -ENOMEM;
	f->verdict = VERDICT_NONE;
	f->why = WHY_NO_RISE;
	f->lead = NAN;
	if (a->n_ranks > 0)
		r = make(&w, options);
	free(w.clocks);
	free(w.all);
	free(w.last_seen);
	if (r < 0)
		f = finding_free(f);
	*ret = f;
	return r;
}

struct finding *finding_free(struct finding *f)
{
	if (!f)
		return NULL;
	free(f->candidates);
	free(f->rises);
	free(f);
	return NULL;
}
