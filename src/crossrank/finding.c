#include "crossrank/finding.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/blocks.h"
#include "crossrank/episodes.h"
#include "crossrank/gather.h"
#include "crossrank/grain.h"
#include "crossrank/interval.h"
#include "crossrank/mixed.h"
#include "crossrank/peak.h"
#include "crossrank/series.h"
#include "crossrank/stamps.h"
#include "crossrank/strays.h"
#include "crossrank/usual.h"

#define HIDDEN_SHARE 0.5 /* of what a rank held at most: it may have gained so much unseen */

/* ---- rises of all ranks ---- */

static int64_t earliest_ns(const struct rank_analysis *a)
{
	int64_t earliest = INT64_MAX;

	for (size_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].total->samples[0].timestamp_ns < earliest)
			earliest = a->ranks[i].total->samples[0].timestamp_ns;
	return earliest;
}

static int find_rises(struct judge_work *w)
{
	CLEANUP(sections_release) struct section_list sections = { 0 };
	struct rank_analysis *a = w->a;
	int r;

	w->f->rises = calloc(a->n_ranks + 1, sizeof(*w->f->rises));
	w->f->origin_ns = earliest_ns(a);
	if (!w->f->rises)
		return -ENOMEM;
	r = sections_find(a, &sections);
	for (size_t from = 0, to; r == 0 && from < sections.n; from = to) {
		size_t rank = sections.items[from].rank;

		for (to = from; to < sections.n && sections.items[to].rank == rank;)
			to++;
		r = rises_find(sections.items + from, to - from, w->f->origin_ns, &a->arena,
			       &w->f->rises[rank]);
	}
	return r;
}

/* ---- the answer ---- */

static int compare_candidates(const void *l, const void *r)
{
	const struct candidate *a = l, *b = r;

	if (a->probability != b->probability && !isnan(a->probability))
		return a->probability > b->probability ? -1 : 1;
	return gather_compare(l, r);
}

/* The session of the last sample before a moment, or of the first one. */
static struct text session_at(const struct rank_analysis *a, const struct rank *rank, int64_t ns)
{
	const struct stream *s = rank->total;
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

int64_t finding_ns(const struct first_cause *f, double seconds)
{
	int64_t ns = fabs(seconds) < 9e9 ? llround(seconds * 1e9) : INT64_MAX, sum;

	return __builtin_add_overflow(f->origin_ns, ns, &sum) ? INT64_MAX : sum;
}

double finding_probability(const struct first_cause *f, const struct candidate *c)
{
	return f->verdict == VERDICT_CANNOT_TELL && f->why != WHY_TOO_CLOSE ? NAN : c->probability;
}

static int name_rank(struct judge_work *w)
{
	struct first_cause *f = w->f;
	const struct candidate *first = &f->candidates[0];
	const struct onset *onset = &first->rise->onset;
	struct phase_time time = { finding_ns(f, onset->low), finding_ns(f, onset->median),
				   finding_ns(f, onset->high) };

	f->lead = NAN;
	for (size_t i = 1; i < f->n_candidates; i++) {
		double lead = f->candidates[i].rise->onset.median - onset->median;

		f->lead = isnan(f->lead) || lead < f->lead ? lead : f->lead;
	}
	if (f->verdict == VERDICT_NAMED)
		f->rank = first->rank;
	return phases_resolve_between(&w->a->phases, &time,
				      session_at(w->a, first->rank, time.middle_ns),
				      first->rank->rank, &f->phase);
}

static int take_outcome(struct judge_work *w, const struct judge_outcome *o)
{
	struct first_cause *f = w->f;

	f->verdict = o->verdict;
	f->why = o->why;
	f->unseen = o->unseen;
	f->is_unnamed_host = o->why == WHY_CLOCKS && w->clocks[o->unseen - w->a->ranks].is_unnamed;
	f->lead = NAN;
	f->lead_below = o->why == WHY_SHARED ? o->lead_below : NAN;
	f->n_candidates = o->to - o->from;
	if (f->n_candidates == 0)
		return 0;
	f->candidates = calloc(f->n_candidates, sizeof(*f->candidates));
	if (!f->candidates)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_candidates; i++)
		f->candidates[i] = w->pool[o->from + i];
	qsort(f->candidates, f->n_candidates, sizeof(*f->candidates), compare_candidates);
	return name_rank(w);
}

/* What everybody gave back and lived on is a spike, or a hump, and nothing that went wrong. */
static void note_passed(const struct judge_work *w)
{
	struct first_cause *f = w->f;

	f->has_passed = f->verdict == VERDICT_NAMED;
	for (size_t i = 0; i < f->n_candidates; i++) {
		struct candidate *c = &f->candidates[i];

		c->is_given_back = usual_is_given_back(w, c->rank, c->rise);
		f->has_passed &= c->is_given_back;
	}
}

static bool has_few(const struct rise_list *list)
{
	size_t n = list->n_together;

	return n < 2 || (n < RISES_MIN_SAMPLES && list->climb_mib >= SERIES_MIN_RISE_MIB);
}

/* Whether it surely gained something, or may have gained about all it holds, and nobody saw when.
 */
static bool is_hidden(const struct rise_list *list)
{
	return list->sure_mib > list->clear_mib ||
	       list->hidden_mib > fmax(HIDDEN_SHARE * list->high_mib, SERIES_MIN_RISE_MIB);
}

/* Nobody was seen to rise: whether that could have been seen, and how much of it. */
static void look_for_hidden(const struct judge_work *w)
{
	struct first_cause *f = w->f;

	f->least_mib = SERIES_MIN_RISE_MIB;
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct rise_list *list = &f->rises[i];

		f->least_mib = fmax(f->least_mib, list->hidden_mib);
		if (!has_few(list) && !is_hidden(list))
			continue;
		f->verdict = VERDICT_CANNOT_TELL;
		f->why = has_few(list) ? WHY_FEW : WHY_HIDDEN;
		f->unseen = &w->a->ranks[i];
		f->least_mib = NAN;
		return;
	}
}

/* Who has no record at all may have risen where no other did. */
static void look_for_missing(const struct judge_work *w)
{
	struct first_cause *f = w->f;

	if (f->why != WHY_NO_RISE || f->n_missing == 0)
		return;
	f->verdict = VERDICT_CANNOT_TELL;
	f->why = WHY_MISSING;
	f->least_mib = NAN;
}

static void note_clocks(struct judge_work *w)
{
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		w->f->clock_error = fmax(w->f->clock_error, w->clocks[i].error);
		w->f->is_assumed |= w->clocks[i].is_assumed;
		w->f->has_free_clock |= w->clocks[i].is_free;
	}
}

static int make(struct judge_work *w, const struct rank_analysis_options *options)
{
	CLEANUP(stamps_release) struct stamps stamps = { 0 };
	struct judge_outcome best = { 0 };
	struct grain grain;
	int64_t interval_ns;
	struct peak peak;
	int r = interval_median(w->a, true, &interval_ns);

	if (r < 0)
		return r;
	w->interval = (double)interval_ns / 1e9;
	w->assumed_ns = options->clock_error_ns;
	r = clocks_find(w->a, options->clock_error_ns, &w->clocks, &w->f->n_clocks);
	if (r < 0)
		return r;
	note_clocks(w);
	r = coverage_find(w->a, &w->coverage);
	if (r < 0)
		return r;
	r = peak_find(w->a, &peak);
	if (r < 0)
		return r;
	r = find_rises(w);
	if (r == 0)
		r = blocks_blur(w);
	if (r == 0)
		r = stamps_find(w->a, &stamps);
	if (r == 0)
		r = grain_find(w, &stamps, &grain);
	if (r < 0)
		return r;
	grain_blur(w, &stamps, &grain);
	stamps_blur(w, &stamps);
	r = gather_collect(w);
	w->peak = (double)(peak.ns - w->f->origin_ns) / 1e9 + w->interval;
	if (r == 0)
		r = episodes_judge(w, &best);
	if (r < 0)
		return r;
	grain_blur_all(w, &stamps, &grain);
	stamps_blur_all(w, &stamps);
	r = take_outcome(w, &best);
	note_passed(w);
	if (w->f->why == WHY_NO_RISE)
		look_for_hidden(w);
	look_for_missing(w);
	return r;
}

/* Without the ranks that are stray, which are the last ones. */
static int make_of_own(struct judge_work *w, const struct rank_analysis_options *options)
{
	struct rank_analysis *a = w->a;
	size_t n_all = a->n_ranks;
	int64_t world_size = a->world_size;
	uint64_t n_missing_all = a->n_missing_all;
	int r;

	w->f->n_ranks = a->n_ranks -= strays_count_ranks(a);
	if (a->n_ranks < n_all) {
		a->world_size = a->declared_size;
		a->n_missing_all = (uint64_t)a->declared_size - a->n_ranks;
	}
	w->f->n_missing = a->n_missing_all;
	r = make(w, options);
	a->n_ranks = n_all;
	a->world_size = world_size;
	a->n_missing_all = n_missing_all;
	return r;
}

int finding_make(struct rank_analysis *a, const struct rank_analysis_options *options,
		 struct first_cause **ret)
{
	struct first_cause *f = calloc(1, sizeof(*f));
	struct judge_work w = { .a = a, .f = f };
	int r = 0;

	if (!f)
		return -ENOMEM;
	f->verdict = VERDICT_CANNOT_TELL;
	f->why = WHY_NO_SAMPLES;
	f->lead = f->lead_below = f->least_mib = NAN;
	f->unseen = mixed_find(a);
	if (f->unseen)
		f->why = WHY_MIXED;
	else if (a->n_ranks > 0)
		r = make_of_own(&w, options);
	free(w.clocks);
	free(w.coverage);
	gather_release(&w);
	if (r < 0)
		f = finding_free(f);
	*ret = f;
	return r;
}

struct first_cause *finding_free(struct first_cause *f)
{
	if (!f)
		return NULL;
	free(f->candidates);
	free(f->rises);
	free(f);
	return NULL;
}
