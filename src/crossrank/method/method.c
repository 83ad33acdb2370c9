#include "crossrank/method/method.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/method/rank_grid.h"
#include "crossrank/method/rank_track.h"

#define SAME_SCALE 0.3	 /* a rank may follow its peers at a scale of its own, by so much */
#define LINK_SECONDS 5.0 /* rises closer than that, or 4 intervals, may be one event of the job */
#define MIN_SPAN_CELLS 4
#define MIN_SPAN_SECONDS 2.0
#define MIN_SPAN_SHARE 0.25 /* of the age of the job at its start */
#define UNSEEN_SHARE 0.5    /* of a rise: a peak that no sample shows may have been one */
#define OUTSIDE_CELLS 8	    /* the others agree for so long, and for such a share of the record */
#define OUTSIDE_SHARE 0.6
#define OUTSIDE_ALIVE 0.75 /* of the others have records to the end of what is compared */
#define OUTSIDE_PARTS 6 /* a rank that grows since its start gains in all of these, but for one */
#define TRANSIENT_SCALES 2.0 /* a spike counts from here on */
#define COMMON_SCALES 3.0    /* a common rise counts from here on */
#define LEAST_LEAD 0.3	     /* of an interval: a smaller one does not show */
#define LOAD_SHARE 0.4	     /* of what a rank holds afterwards: a load is that large */
#define MAIN_SHARE 0.25	     /* of all that a rank gains: the rise is no block before it */
#define LATE_SHARE 0.4	     /* of its mean rate in the last quarter: a rise goes on */
#define BESIDE_SHARE 0.15    /* of the largest: by the control a P of 0.99 that it is no scatter */
#define BLOCK_SHARE 0.5	     /* of one that goes on: a block that ended is no fault beside it */
#define MIN_REST 4.0	     /* intervals: a way up that ended was finite */
#define REST_SECONDS 4.0     /* and so long */
#define SMALL_LEAD 1.5	     /* s: so small a lead is denied whatever P is */
#define Z95 1.645
#define ASCENT_SECONDS 2.0 /* the pace of a way up is measured in so long */
#define MAX_MISFIT 0.06	   /* of the gain: samples are no farther from a line */
#define SLOPES 0.05	   /* of it: copies differ by so much in their slopes elsewhere */
#define MIN_AGE 3.0	   /* intervals: a younger rise at the end of a record may be a spike */
#define CONTROL_CELLS 6	   /* before a rise are a control group */
#define MAX_REPEATS 4	   /* samples of one reading */
#define REPEATS_SHARE 0.95 /* of the changes are so far apart */
#define MIN_CHANGES 6
#define MIN_EXIT 4	   /* samples at the end, or a twentieth, that an exit may take, */
#define EXIT_SECONDS 1.5   /* or so long */
#define EXIT_BEFORE 8	   /* samples before them show what was held */
#define EXIT_SHARE 0.85	   /* of that: less to the end is an exit */
#define MAX_SHARP 16	   /* rises of an event */
#define LEAST_TOGETHER 0.5 /* of the record, to deny that a rank rises */
#define MAX_FEW 0.1	   /* of the ranks may have too few samples */
#define STATED_NAMED 0.8   /* for P from CULPRIT_NAMED on */
#define STATED_SURE 0.98   /* from this P on ... */
#define STATED_MOST 0.9	   /* ... that is stated */

/* One place where something may have gone wrong: the end of an agreement, or a rise inside of it.
 */
struct event {
	size_t from;
	enum why why;
	struct culprit_rise *rises; /* by onset */
	size_t n_rises, first;
	double probability, lead, score;
	double below;	     /* a lead is smaller than that */
	bool is_since_start; /* the lead */
	size_t because;
};

struct work {
	struct grid *g;
	struct arena *arena;
	size_t first_span; /* the cell where the first agreement begins */
	struct event *events;
	size_t n_events, cap_events;
	bool is_hidden; /* all rise since they first agreed: who began is before that */
};

static int compare_onsets(const void *l, const void *r)
{
	const struct culprit_rise *a = l, *b = r;

	if (a->onset != b->onset)
		return a->onset < b->onset ? -1 : 1;
	return (a->record > b->record) - (a->record < b->record);
}

/* Seconds from a rank's first sample to the first agreement, 2 at least: how long it starts up. */
static double startup_of(const struct work *w, const struct track *track)
{
	return fmax(w->g->at[w->first_span] - track->t[0], 2);
}

/*
 * What the peers of track r gain in n cells from s on; of an even number of them the lower middle
 * one: one that rises is no common movement.
 */
static void gains_of_others(const struct grid *g, const struct middle *middles, size_t r, size_t s,
			    size_t n, double *mib)
{
	for (size_t i = 0; i < n; i++) {
		const struct middle *m = &middles[i];
		double gain = grid_kept(g, r, s + i) - grid_kept(g, r, s);

		mib[i] = m->n < 2 ? gain : gain <= m->low ? m->above_low : m->low;
	}
}

/*
 * Where the peers' last way up begins in span [s, e), which may be that of the fault: the earliest
 * of all members, so that the same is taken from each. mib has room for e - s.
 */
static size_t find_ascent(const struct grid *g, const struct middle *middles, const size_t *members,
			  size_t n, size_t s, size_t e, double *mib)
{
	size_t cells = e - s, step = (size_t)fmax(1, ceil(ASCENT_SECONDS / g->cell));
	size_t half = cells / 2 > step + 1 ? cells / 2 : step + 1;

	for (size_t k = 0; k < n; k++) {
		double scale = g->tracks[members[k]].scale, pace;
		size_t to = cells;

		gains_of_others(g, middles, members[k], s, cells, mib);
		pace = 2 * mib[cells - 1] / (double)cells;
		while (to > half &&
		       mib[to - 1] - mib[to - 1 - step] > fmax(0.1 * scale, (double)step * pace))
			to--;
		g->scratch[k] = (double)to;
	}
	return (size_t)track_quantile(g->scratch, n, 0.5);
}

/*
 * The movement of span [s, e) that track r shares with its peers, up to cell `to` of it, at the
 * track's own scale. mib has room for e - s.
 */
static struct common common_of(struct work *w, const struct middle *middles, size_t r, size_t s,
			       size_t e, size_t to, double *mib)
{
	struct grid *g = w->g;
	const struct track *track = &g->tracks[r];
	size_t n = e - s, half = n / 2;
	double most = 0, squares = 0, products = 0, trend = 0, base = grid_kept(g, r, s);

	gains_of_others(g, middles, r, s, n, mib);
	for (size_t i = to; i < n; i++)
		mib[i] = mib[to - 1];
	if (n >= 12)
		trend = fmax(0,
			     (mib[n - 1] - mib[half]) / fmax(g->at[e - 1] - g->at[s + half], 1e-9));
	if (trend * (g->at[g->n_cells - 1] - g->at[s]) < 0.5 * track->scale)
		trend = 0; /* a creep that is lost in the scatter is none */
	for (size_t i = 0; i < n; i++) {
		most = fmax(most, mib[i]);
		squares += mib[i] * mib[i];
		products += mib[i] * (grid_kept(g, r, s + i) - base);
	}
	if (most > 3 * track->scale && squares > 0) {
		double own = fmin(fmax(products / squares, 1 - SAME_SCALE), 1 + SAME_SCALE);

		for (size_t i = 0; i < n; i++)
			mib[i] *= own;
		trend *= own;
	}
	return (struct common){ g->at + s, mib, n, trend, false };
}

/* Whether no other rank rises within a second or two intervals. */
static bool is_alone(const struct culprit_rise *rises, const bool *has, size_t n, size_t k,
		     double onset, double interval)
{
	for (size_t i = 0; i < n; i++)
		if (i != k && has[i] && fabs(rises[i].onset - onset) < fmax(1, 2 * interval))
			return false;
	return true;
}

/* Puts the rises of all members into ev->rises; loads at the start are passed over. -ENOMEM. */
static int find_rises(struct work *w, const size_t *members, size_t n, size_t s, size_t e,
		      double stop, struct event *ev)
{
	struct grid *g = w->g;
	CLEANUP(free_ptr) struct middle *middles = malloc((e - s) * sizeof(*middles));
	CLEANUP(free_ptr) double *mib = malloc((e - s) * sizeof(*mib));
	CLEANUP(free_ptr) double *levels = malloc(n * sizeof(*levels));
	CLEANUP(free_ptr) bool *has = calloc(n, sizeof(*has));
	struct middle level;
	size_t n_found = 0, to;

	ev->rises = arena_alloc(w->arena, n * sizeof(*ev->rises));
	if (!middles || !mib || !levels || !has || !ev->rises)
		return -ENOMEM;
	for (size_t i = s; i < e; i++)
		middles[i - s] = grid_middle(g, members, n, false, s, i);
	to = find_ascent(g, middles, members, n, s, e, mib);
	for (size_t k = 0; k < n; k++)
		g->scratch[k] = levels[k] = grid_kept(g, members[k], s);
	level = middle_of(g->scratch, n);
	for (size_t k = 0; k < n; k++) {
		const struct track *track = &g->tracks[members[k]];
		struct common common = common_of(w, middles, members[k], s, e, to, mib);
		int r = rise_find(track, g->at[s], stop + 0.5 * track->interval, &common,
				  &ev->rises[k]);

		if (r < 0)
			return r;
		has[k] = r > 0;
	}
	/* Soon after its start, alone, and nearer to what its peers have: a load. */
	for (size_t k = 0; k < n; k++) {
		const struct track *track = &g->tracks[members[k]];
		double away = levels[k] - middle_without(&level, levels[k]);
		double young = 4 * fmax(startup_of(w, track), 4 * track->interval);

		while (has[k] && ev->rises[k].till < stop - MIN_REST * track->interval) {
			struct common common = common_of(w, middles, members[k], s, e, to, mib);
			struct culprit_rise *rise = &ev->rises[k], next;
			bool is_load = rise->onset - track->t[0] < young &&
				       fabs(away + rise->gain) < fabs(away) &&
				       is_alone(ev->rises, has, n, k, rise->onset, track->interval);
			int r;

			if (!is_load && !(rise->is_step && rise->gain < MAIN_SHARE * rise->total))
				break;
			r = rise_find(track, rise->till, stop + 0.5 * track->interval, &common,
				      &next);
			if (r < 0)
				return r;
			/* Nor is a block long before it the beginning of a rise. */
			if (!is_load &&
			    !(r > 0 &&
			      next.onset - rise->till > fmax(LINK_SECONDS, 4 * track->interval) &&
			      stop - next.onset > MIN_AGE * track->interval))
				break;
			away += rise->gain;
			has[k] = r > 0;
			if (r > 0)
				*rise = next;
		}
	}
	for (size_t k = 0; k < n; k++)
		if (has[k])
			ev->rises[n_found++] = ev->rises[k];
	ev->n_rises = n_found;
	return 0;
}

/*
 * Small ones are not the fault, unless their rank died on the way. Beside one that goes on to the
 * end, neither are blocks of less than half of it: with time they are ever smaller.
 */
static void drop_minor(const struct work *w, double stop, struct event *ev)
{
	const struct culprit_rise *largest = ev->rises;
	double longest = 0, least = 0, least_late;
	size_t n = 0;

	for (size_t i = 0; i < ev->n_rises; i++) {
		if (ev->rises[i].total > largest->total)
			largest = &ev->rises[i];
		longest = fmax(longest, ev->rises[i].gain / ev->rises[i].rate);
	}
	if (ev->n_rises == 0)
		return;
	ev->score = largest->total;
	least_late = BLOCK_SHARE * largest->late_rate;
	if (largest->gain > MAIN_SHARE * largest->total &&
	    largest->late_rate > LATE_SHARE * largest->mean_rate &&
	    stop - largest->onset > 2 * MIN_REST * w->g->tracks[largest->record].interval)
		least = BLOCK_SHARE * largest->total;
	for (size_t i = 0; i < ev->n_rises; i++) {
		const struct culprit_rise *rise = &ev->rises[i];
		const struct track *track = &w->g->tracks[rise->record];
		bool died = track->t[track->n - 1] < stop - 4 * track->interval &&
			    rise->rate > 0.25 * ev->score / longest;

		if ((rise->total >= BESIDE_SHARE * ev->score &&
		     (rise->total >= least || rise->late_rate >= least_late)) ||
		    died)
			ev->rises[n++] = *rise;
	}
	ev->n_rises = n;
}

/* Nor are those of the last moments, beside older ones: they may be spikes. */
static void drop_young(const struct grid *g, struct event *ev)
{
	size_t n = 0;

	for (size_t i = 0; i < ev->n_rises; i++) {
		const struct track *track = &g->tracks[ev->rises[i].record];

		if (track->t[track->n - 1] - ev->rises[i].onset < MIN_AGE * track->interval)
			continue;
		ev->rises[n] = ev->rises[i];
		n++;
	}
	ev->n_rises = n > 0 ? n : ev->n_rises;
}

/* Whether a track took as much at once, before cell s. */
static bool took_before(const struct track *track, double gain, double until)
{
	for (size_t i = 0; i + 1 < track->n && track->t[i + 1] < until; i++) {
		double step = track->kept[i + 1] - track->kept[i];

		if (step > 0.85 * gain && step < 1.18 * gain)
			return true;
	}
	return false;
}

/*
 * Whether half of the peers that do not rise took as much at their start: a load, or a rise? A rank
 * that held before it what its peers hold has loaded.
 */
static bool is_late_load(const struct work *w, const size_t *members, size_t n, size_t s,
			 const struct event *ev)
{
	struct grid *g = w->g;
	const struct culprit_rise *first = &ev->rises[0];
	const struct track *track = &g->tracks[first->record];
	double level = grid_kept(g, first->record, s);
	size_t n_before = 0;

	if (!first->is_step || first->onset - track->t[0] >= 6 * startup_of(w, track))
		return false;
	for (size_t k = 0; k < n; k++)
		g->scratch[k] = grid_kept(g, members[k], s);
	if (fabs(level - track_quantile(g->scratch, n, 0.5)) < track->scale)
		return false;
	for (size_t k = 0; k < n; k++) {
		bool rose = false;

		for (size_t i = 0; i < ev->n_rises; i++)
			rose |= ev->rises[i].record == members[k];
		n_before += !rose &&
			    (took_before(&w->g->tracks[members[k]], first->gain, w->g->at[s]) ||
			     took_before(&w->g->tracks[members[k]], first->total, w->g->at[s]));
	}
	return n_before > 0 && (double)n_before >= 0.5 * (double)(n - ev->n_rises);
}

static bool is_like(const struct spike *spike, const struct culprit_rise *rise, double age)
{
	return rise->gain < 1.25 * spike->mib && age - 2 * rise->sd < 1.5 * spike->seconds;
}

/* The number of spikes of a track as large and as long as a rise that is `age` old. */
static size_t count_like(const struct track *track, const struct culprit_rise *rise, double age)
{
	size_t n = 0, n_smooth = 0;

	for (size_t i = 0; i < track->n_all_spikes; i++)
		n += is_like(&track->all_spikes[i], rise, age);
	for (size_t i = 0; i < track->n_spikes; i++)
		n_smooth += is_like(&track->spikes[i], rise, age);
	return n > n_smooth ? n : n_smooth;
}

/* A spike of any member was as large and as long as this rise is so far, or that is hardly seen. */
static bool may_pass(const struct work *w, const size_t *members, size_t n, double stop,
		     const struct culprit_rise *rise)
{
	const struct track *own = &w->g->tracks[rise->record];
	double age = fmin(own->t[own->n - 1], stop + own->interval / 2) - rise->onset;

	if (age < MIN_AGE * own->interval)
		return true;
	for (size_t k = 0; k < n; k++)
		if (count_like(&w->g->tracks[members[k]], rise, age) > 0)
			return true;
	return false;
}

/* A peer without a record of that moment may have begun before; SIZE_MAX: there is none. */
static size_t find_uncovered(const struct work *w, const struct culprit_rise *rise)
{
	for (size_t r = 0; r < w->g->n; r++) {
		const struct track *track = &w->g->tracks[r];
		bool is_later = track->t[0] > rise->onset && !(track->in->start > rise->onset);
		bool is_over = track->t[track->n - 1] < rise->onset &&
			       (isnan(track->in->end) ||
				track->in->unseen_mib > UNSEEN_SHARE * rise->gain);

		if (r != rise->record && track->in->rank != w->g->tracks[rise->record].in->rank &&
		    (is_later || is_over))
			return r;
	}
	return SIZE_MAX;
}

/* The last rise before a moment that all ranks shared; NULL: none. */
static const struct event *find_shared_before(const struct work *w, double at, size_t n_rises)
{
	const struct event *found = NULL;

	for (size_t i = 0; i < w->n_events; i++) {
		const struct event *ev = &w->events[i];

		if (ev->why == WHY_SHARED && ev->n_rises >= n_rises &&
		    ev->rises[ev->n_rises - 1].onset < at)
			found = ev;
	}
	return found;
}

/*
 * The probability that a rank gains more than its peers wander in the same time: they see the same
 * workload. With fewer than three of them that says nothing.
 */
static double beyond_peers(const struct grid *g, const size_t *members, size_t n,
			   const struct culprit_rise *rise)
{
	size_t from = track_count_to(g->at, g->n_cells, rise->onset - rise->sd);
	/* A step is over in a moment: peers that do the same later count. */
	size_t to = rise->is_step ? g->n_cells : track_count_to(g->at, g->n_cells, rise->till);
	double most = LEAST_SCALE * g->tracks[rise->record].scale;
	size_t n_peers = 0;

	from = from > 0 ? from - 1 : 0;
	to = to < g->n_cells ? to : g->n_cells - 1;
	for (size_t k = 0; k < n; k++) {
		size_t r = members[k], last = to < g->to[r] ? to : g->to[r] - 1;

		if (r == rise->record || from < g->from[r] || from >= last ||
		    (!rise->is_step && last < to))
			continue;
		n_peers++;
		most = fmax(most, grid_kept(g, r, last) - grid_kept(g, r, from));
	}
	return n_peers < 3 ? 0 : lead_beyond(rise->gain / most, (double)n_peers, n, LEAD_TAIL);
}

static int judge_alone(struct work *w, const size_t *members, size_t n, size_t s, size_t e,
		       double stop, struct event *ev)
{
	const struct culprit_rise *rise = &ev->rises[0];
	const struct track *track = &w->g->tracks[rise->record];
	double seconds = fmin(rise->gain / rise->rate, 0.5 * (w->g->at[e - 1] - w->g->at[s]));
	int r = lead_control(w->g, members, n, s, rise, fmax(seconds, 3 * track->interval), false,
			     &ev->probability);

	if (r < 0)
		return r;
	if (rise->onset >= w->g->at[s] + CONTROL_CELLS * w->g->cell)
		ev->probability = fmax(ev->probability, beyond_peers(w->g, members, n, rise));
	ev->because = find_uncovered(w, rise);
	/* Two ranks that hardly ever did the same show no spread. */
	if (n == 2 && track_count_to(w->g->at + s, e - s, rise->onset) < OUTSIDE_CELLS)
		ev->probability = fmin(ev->probability, CULPRIT_NAMED);
	if (may_pass(w, members, n, stop, rise))
		/* It gave several that large back already: one more. */
		ev->why = count_like(track, rise, 0) > 1 ? WHY_NO_RISE : WHY_MAY_PASS;
	else if (ev->because != SIZE_MAX)
		ev->why = WHY_UNSEEN;
	else if (ev->probability >= CULPRIT_NAMED)
		ev->why = WHY_ALONE;
	else
		ev->why = WHY_SMALL;
	return 0;
}

/* With a probability of 0.95 each, no rise began so many seconds before all others. */
static double find_bound(const struct event *ev)
{
	double most = 0;

	for (size_t i = 0; i < ev->n_rises; i++) /* the others begin with the first one of them */
		most = fmax(most, ev->rises[i == 0 ? 1 : 0].onset - ev->rises[i].onset +
					  Z95 * ev->rises[i].sd);
	return most;
}

/* Whether nearly all ranks rise, and all of them come to rest: at the start that is the load. */
static bool is_load(const struct event *ev, size_t n_alive, const struct grid *g, double stop)
{
	size_t n_large = 0;

	for (size_t i = 0; i < ev->n_rises; i++) {
		const struct culprit_rise *rise = &ev->rises[i];
		const struct track *track = &g->tracks[rise->record];
		size_t at = track_count_to(track->t, track->n, rise->till) - 1;

		if (rise->till > stop - MIN_REST * track->interval)
			return false;
		n_large += rise->gain > LOAD_SHARE * track->kept[at];
	}
	return (double)n_large >= 0.75 * (double)n_alive;
}

static int judge_lead(struct work *w, const size_t *members, size_t n, size_t s, double stop,
		      struct event *ev)
{
	struct grid *g = w->g;
	const struct track *earliest = &g->tracks[ev->rises[0].record];
	CLEANUP(free_ptr) struct culprit_rise **rises = calloc(ev->n_rises, sizeof(*rises));
	double first_onset = ev->rises[0].onset, range;
	bool is_early = first_onset - earliest->t[0] < 4 * startup_of(w, earliest);
	bool is_close, is_small;
	const struct event *shared;
	size_t n_alive = 0;
	struct lead lead;
	int r;

	if (!rises)
		return -ENOMEM;
	for (size_t i = 0; i < ev->n_rises; i++)
		rises[i] = &ev->rises[i];
	for (size_t k = 0; k < n; k++) {
		const struct track *track = &g->tracks[members[k]];

		n_alive += track->t[track->n - 1] > first_onset;
	}
	shared = find_shared_before(w, first_onset, ev->n_rises);
	r = lead_find(g, rises, ev->n_rises, n_alive, g->at[g->n_cells - 1] - g->at[s],
		      shared ? shared->rises : NULL, shared ? shared->n_rises : 0, &lead);
	if (r < 0)
		return r;
	if (lead.is_unordered) {
		ev->why = WHY_CLOCKS;
		return 0;
	}
	ev->first = lead.first;
	ev->lead = lead.seconds;
	ev->is_since_start = lead.is_since_start;
	ev->probability = lead.probability;
	ev->below = find_bound(ev) + lead.error;
	/* Nor can samples that far apart show it. */
	if (lead.seconds < LEAST_LEAD * earliest->interval)
		ev->probability = fmin(ev->probability, 0.9);
	if (ev->probability >= CULPRIT_NAMED) {
		const struct culprit_rise *first = &ev->rises[lead.first];
		double p;

		r = lead_control(g, members, n, s, first,
				 fmax(lead.till_most, 2 * earliest->interval) + first->sd +
					 lead.error_of_second,
				 true, &p);
		if (r < 0)
			return r;
		ev->probability = fmin(ev->probability, p);
	}
	if (is_early && is_load(ev, n_alive, g, stop)) {
		ev->why = WHY_SHARED;
		return 0;
	}
	if (ev->probability >= CULPRIT_NAMED) {
		ev->because = find_uncovered(w, &ev->rises[lead.first]);
		if (ev->because == SIZE_MAX)
			ev->why = WHY_FIRST;
		else
			ev->why = WHY_UNSEEN;
		return 0;
	}
	range = ev->rises[ev->n_rises - 1].onset - first_onset;
	is_close = fmin(range, lead.range) < fmax(LINK_SECONDS, 4 * earliest->interval);
	is_small = ev->below <= fmax(SMALL_LEAD, 1.5 * earliest->interval);
	/* A leader is denied up to a bound. */
	if ((double)ev->n_rises >= 0.75 * (double)n_alive && is_close &&
	    (is_small ||
	     (lead.probability < 0.8 && ev->below <= fmax(LINK_SECONDS, 4 * earliest->interval))))
		ev->why = WHY_SHARED;
	else
		ev->why = is_close ? WHY_TOO_CLOSE : WHY_UNRELATED;
	return 0;
}

/* When the first rises of an event that names a rank began, more exactly. -ENOMEM. */
static int sharpen(struct work *w, const size_t *members, size_t n, size_t s, size_t e, double stop,
		   struct event *ev)
{
	CLEANUP(free_ptr) struct middle *middles = malloc((e - s) * sizeof(*middles));
	CLEANUP(free_ptr) double *mib = malloc((e - s) * sizeof(*mib));
	size_t to;

	if (!middles || !mib)
		return -ENOMEM;
	for (size_t i = s; i < e; i++)
		middles[i - s] = grid_middle(w->g, members, n, false, s, i);
	to = find_ascent(w->g, middles, members, n, s, e, mib);
	for (size_t i = 0; i < ev->n_rises; i++) {
		struct culprit_rise *rise = &ev->rises[i], again;
		const struct track *track = &w->g->tracks[rise->record];
		struct common common;
		int r;

		if (i >= MAX_SHARP && i != ev->first)
			continue;
		common = common_of(w, middles, rise->record, s, e, to, mib);
		common.is_sharp = true;
		r = rise_find(track, rise->since, stop + 0.5 * track->interval, &common, &again);
		if (r < 0)
			return r;
		if (r > 0) {
			rise->best = again.best;
			rise->low = again.low;
			rise->high = again.high;
		}
	}
	return 0;
}

/*
 * Ranks that are copies rise at about one slope: of how much their slopes differ, that of each is
 * known better than from its own line, and with it where the line begins. If each goes on as a line
 * these onsets count, and what a rank took at once is part of its line.
 */
static void pool_lines(const struct grid *g, struct event *ev)
{
	double slope = 0, error = 0, squares, n = (double)ev->n_rises;
	size_t n_off = 0;

	for (size_t i = 0; i < ev->n_rises; i++) {
		const struct culprit_line *line = &ev->rises[i].line;

		if (isnan(line->sd))
			return;
		n_off += line->misfit > MAX_MISFIT;
		slope += line->slope / n;
		error += line->slope_square / n;
	}
	if (ev->n_rises < 2 || 2 * n_off > ev->n_rises)
		return;
	squares = 2 * (pow(SLOPES * slope, 2) + error);
	for (size_t i = 0; i < ev->n_rises; i++)
		squares += pow(ev->rises[i].line.slope - slope, 2);
	squares = fmax(squares / (n + 1) - error, 0);
	if (squares > pow(SAME_SCALE * slope, 2))
		return;
	for (size_t i = 0; i < ev->n_rises; i++) {
		struct culprit_rise *rise = &ev->rises[i];
		const struct track *track = &g->tracks[rise->record];
		const struct culprit_line *line = &rise->line;
		double part = line->product / (line->slope_square + squares);

		rise->onset = line->onset + part * (slope - line->slope);
		rise->sd = sqrt(line->sd * line->sd - part * line->product);
		rise->grain = GRAIN * track->interval;
		rise->is_step = false;
		rise->gain = rise->total;
		rise->till = track->t[track->n - 1];
	}
}

/* Who rose behind span [s, e), up to `stop`, and did one of them lead? Appends an event. -ENOMEM.
 */
static int judge(struct work *w, size_t s, size_t e, double stop)
{
	struct grid *g = w->g;
	size_t n = grid_find_members(g, s, GRID_ALL);
	CLEANUP(free_ptr) size_t *members = malloc(n * sizeof(*members));
	struct event ev = { .from = s, .probability = NAN, .lead = NAN, .because = SIZE_MAX };
	int r;

	if (!members)
		return -ENOMEM;
	memcpy(members, g->members, n * sizeof(*members));
	r = find_rises(w, members, n, s, e, stop, &ev);
	if (r < 0)
		return r;
	drop_minor(w, stop, &ev);
	drop_young(g, &ev);
	pool_lines(g, &ev);
	qsort(ev.rises, ev.n_rises, sizeof(*ev.rises), compare_onsets);
	if (ev.n_rises == 0) {
		ev.why = WHY_NO_RISE;
	} else if (is_late_load(w, members, n, s, &ev)) {
		ev.probability = 0.5;
		ev.why = WHY_LOADED;
	} else {
		r = ev.n_rises == 1 ? judge_alone(w, members, n, s, e, stop, &ev)
				    : judge_lead(w, members, n, s, stop, &ev);
	}
	if (r == 0 && verdict_of(ev.why) == VERDICT_NAMED)
		r = sharpen(w, members, n, s, e, stop, &ev);
	if (r < 0 || ARRAY_RESERVE(w->events, w->cap_events, w->n_events + 1) < 0)
		return -ENOMEM;
	w->events[w->n_events++] = ev;
	return 0;
}

/*
 * Whether a way up from cell `from` rests at `at`: at less than a quarter of its pace for long,
 * `rest` cells at least.
 */
static bool rests(const double *v, size_t n, size_t from, size_t at, size_t rest, double least)
{
	size_t ahead = (at - from) / 2 > rest ? (at - from) / 2 : rest;

	if (at + rest >= n)
		return true;
	if (v[at + rest] - v[at] > least)
		return false;
	ahead = at + ahead < n ? ahead : n - 1 - at;
	return v[at + ahead] - v[at] <
	       0.25 * (v[at] - v[from]) / (double)(at - from) * (double)ahead;
}

/*
 * Large common rises inside of an agreement: one of the ranks may have led them, by less than its
 * room. Each is judged up to the next. -ENOMEM.
 */
static int judge_common(struct work *w, struct span span)
{
	struct grid *g = w->g;
	size_t n_cells = span.to - span.from, n_ups = 0, cap_ups = 0, at = 0;
	CLEANUP(free_ptr) double *middle = malloc(n_cells * sizeof(*middle));
	CLEANUP(free_ptr) struct up {
		size_t from, over;
	} *ups = NULL;
	double least;
	size_t n = grid_find_members(g, span.from, GRID_ALL);
	size_t rest = (size_t)fmax(MIN_REST, ceil(REST_SECONDS / g->cell));

	if (!middle)
		return -ENOMEM;
	for (size_t i = 0; i < n_cells; i++) {
		size_t count = 0;

		for (size_t k = 0; k < n; k++)
			if (span.from + i < g->to[g->members[k]])
				g->scratch[count++] = grid_kept(g, g->members[k], span.from + i);
		middle[i] = track_quantile(g->scratch, count, 0.5);
		middle[i] = i > 0 ? fmax(middle[i], middle[i - 1]) : middle[i];
	}
	least = fmax(g->scale, RISE_MINOR * (middle[n_cells - 1] - middle[0]));
	while (at + 4 < n_cells || n_ups == 0) {
		size_t over = track_count_to(middle, n_cells, middle[at] + least);

		if (over >= n_cells)
			break;
		if (ARRAY_RESERVE(ups, cap_ups, n_ups + 1) < 0)
			return -ENOMEM;
		ups[n_ups++] = (struct up){ at, over };
		for (at = over; !rests(middle, n_cells,
				       track_count_to(middle, n_cells,
						      middle[ups[n_ups - 1].from] + least / 4) -
					       1,
				       at, rest, g->scale / 2);)
			at++;
	}
	w->is_hidden |= n_ups > 0 && ups[0].over < 4 &&
			middle[n_cells - 1] - middle[n_cells / 2] >
				fmax(3 * g->scale, 0.25 * (middle[n_cells - 1] - middle[0]));
	for (size_t i = 0; i < n_ups; i++) {
		size_t stop = i + 1 < n_ups ? ups[i + 1].over - 2 : n_cells - 1;
		int r = 0;

		if (ups[i].over - ups[i].from >= 4 &&
		    middle[stop] - middle[ups[i].from] > COMMON_SCALES * g->scale)
			r = judge(w, span.from + ups[i].from, span.from + ups[i].over,
				  g->at[span.from + stop]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- one rank that is unlike all others ---- */

/* The track that gains most on the others after the start-up; SIZE_MAX: none gains. */
static size_t find_outsider(const struct work *w)
{
	struct grid *g = w->g;
	size_t from = g->n_cells / 8, found = SIZE_MAX;
	size_t n = grid_find_members(g, from, GRID_ALL);
	double most = 0;
	struct middle m;

	for (size_t k = 0; k < n; k++)
		g->scratch[k] = grid_kept(g, g->members[k], g->to[g->members[k]] - 1) -
				grid_kept(g, g->members[k], from);
	m = middle_of(g->scratch, n);
	for (size_t k = 0; k < n && n > 1; k++) {
		size_t r = g->members[k];
		double gain = grid_kept(g, r, g->to[r] - 1) - grid_kept(g, r, from);

		if (gain - middle_without(&m, gain) > most) {
			most = gain - middle_without(&m, gain);
			found = r;
		}
	}
	return found;
}

/* The longest span of all but one track; false: they do not agree for most of the record. */
static int find_others_span(struct work *w, size_t but, struct span *ret)
{
	struct grid *g = w->g;
	CLEANUP(free_ptr) struct span *items = NULL;
	struct span_list spans = { 0 };
	struct span best = { 0 };
	size_t end = g->to[but] < g->n_cells ? g->to[but] : g->n_cells;

	for (int pass = 0; pass < 2 && best.to == 0; pass++) {
		int r = grid_find_spans(g, pass == 0, but, &spans);

		items = spans.items;
		if (r < 0)
			return r;
		for (size_t i = 0; i < spans.n; i++)
			if (spans.items[i].to - spans.items[i].from > best.to - best.from)
				best = spans.items[i];
	}
	best.to = best.to < end ? best.to : end;
	*ret = best;
	return best.to >= best.from + OUTSIDE_CELLS &&
	       (double)(best.to - best.from) >= OUTSIDE_SHARE * (double)(end - best.from) &&
	       (double)best.from <= (1 - OUTSIDE_SHARE) * (double)end;
}

/*
 * A rank may leave the others before all of them have agreed: it grows since its start. It is the
 * culprit if the others agree over most of the record, it gains on them all the time, and by more
 * than any of them does on the rest. must_grow: only one that gains to the end. Appends an event
 * and returns 1 then. -ENOMEM.
 */
static int judge_outsider(struct work *w, bool must_grow)
{
	struct grid *g = w->g;
	size_t but = find_outsider(w), n, n_steady = 0, last;
	CLEANUP(free_ptr) size_t *members = NULL;
	CLEANUP(free_ptr) double *mib = NULL;
	struct event ev = { .probability = NAN, .lead = NAN, .because = SIZE_MAX };
	struct culprit_rise *rise;
	struct span span;
	struct common common;
	double most, even, gain, total_common, width, windows, from;
	int r = but == SIZE_MAX ? 0 : find_others_span(w, but, &span);

	if (r <= 0)
		return r;
	n = grid_find_members(g, span.from, but);
	members = malloc(n * sizeof(*members));
	mib = malloc((span.to - span.from) * sizeof(*mib));
	rise = ev.rises = arena_alloc(w->arena, sizeof(*ev.rises));
	if (!members || !mib || !rise)
		return -ENOMEM;
	memcpy(members, g->members, n * sizeof(*members));
	for (size_t k = 0; k < n; k++)
		g->scratch[k] = (double)g->to[members[k]];
	last = (size_t)track_quantile(g->scratch, n, 1 - OUTSIDE_ALIVE);
	span.to = span.to < last ? span.to : last;
	if (span.to < span.from + OUTSIDE_CELLS)
		return 0;
	for (size_t i = span.from; i < span.to; i++) {
		size_t count = 0;

		for (size_t k = 0; k < n; k++)
			if (i < g->to[members[k]])
				g->scratch[count++] = grid_kept(g, members[k], i) -
						      grid_kept(g, members[k], span.from);
		mib[i - span.from] = count > 0	     ? track_quantile(g->scratch, count, 0.5)
				     : i > span.from ? mib[i - span.from - 1]
						     : 0;
	}
	common = (struct common){ g->at + span.from, mib, span.to - span.from, 0, true };
	from = g->at[span.from];
	do { /* a load is passed over */
		r = rise_find(&g->tracks[but], from, g->at[span.to - 1], &common, rise);
		if (r <= 0)
			return r;
		from = rise->till;
	} while (from < g->at[span.to - 1] - MIN_REST * g->tracks[but].interval &&
		 rise->onset - g->tracks[but].t[0] < 4 * startup_of(w, &g->tracks[but]));
	total_common = mib[span.to - span.from - 1];
	gain = grid_kept(g, but, span.to - 1) - grid_kept(g, but, span.from) - total_common;
	for (size_t part = 0; part < OUTSIDE_PARTS; part++) {
		size_t a = part * (span.to - span.from - 1) / OUTSIDE_PARTS;
		size_t b = (part + 1) * (span.to - span.from - 1) / OUTSIDE_PARTS;
		double own = grid_kept(g, but, span.from + b) - grid_kept(g, but, span.from + a);

		n_steady += own - (mib[b] - mib[a]) >= 0.3 * gain / OUTSIDE_PARTS;
	}
	ev.from = span.from;
	ev.n_rises = 1;
	ev.score = rise->total;
	if (n_steady + 1 >= OUTSIDE_PARTS) {
		rise->is_censored = true;
		rise->is_step = false;
		rise->onset = rise->best = rise->low = g->tracks[but].t[0];
		rise->high = fmax(g->at[span.from], rise->onset);
		rise->gain = rise->total = gain;
		rise->rate = gain / (g->at[span.to - 1] - g->at[span.from]);
		width = (double)(span.to - span.from) / 2;
	} else {
		double end = g->at[span.to - 1];

		if ((must_grow &&
		     (rise->is_step || rise->till < end - 0.1 * (end - rise->onset))) ||
		    rise->onset < g->at[span.from] + 3 * g->cell || gain < 0.7 * rise->gain ||
		    is_late_load(w, members, n, span.from, &ev))
			return 0;
		gain = rise->gain;
		width = fmin(fmax(gain / rise->rate / g->cell, 3),
			     (double)(span.to - span.from) / 2);
	}
	r = lead_largest_change(g, members, n, span.from, span.to, (size_t)width, &most, &even);
	if (r < 0)
		return r;
	most = fmax(2 * most, fmax(g->tracks[but].scale, (n < 2 ? 1 : SAME_SCALE) * total_common));
	windows = (double)n * (double)(span.to - span.from) / width;
	ev.probability = lead_beyond(gain / most, windows, n, LEAD_TAIL);
	if (n < 2) /* which has no spread of its own */
		ev.probability = fmin(ev.probability, CULPRIT_NAMED);
	if (ev.probability < CULPRIT_NAMED ||
	    (!rise->is_censored && find_uncovered(w, rise) != SIZE_MAX) ||
	    may_pass(w, members, n, INFINITY, rise) || may_pass(w, &but, 1, INFINITY, rise))
		return 0;
	ev.why = WHY_ALONE;
	if (ARRAY_RESERVE(w->events, w->cap_events, w->n_events + 1) < 0)
		return -ENOMEM;
	w->events[w->n_events++] = ev;
	return 1;
}

static bool is_long_enough(const struct grid *g, struct span span)
{
	return span.to - span.from >= MIN_SPAN_CELLS &&
	       g->at[span.to - 1] - g->at[span.from] >=
		       fmax(MIN_SPAN_SECONDS, MIN_SPAN_SHARE * (g->at[span.from] - g->born));
}

/* Whether several rose, and one of them gained twice as much as each other one. */
static bool is_mostly_of(const struct event *ev, size_t record)
{
	double own = 0, most = 0;

	for (size_t i = 0; i < ev->n_rises; i++) {
		if (ev->rises[i].record == record)
			own = ev->rises[i].total;
		else
			most = fmax(most, ev->rises[i].total);
	}
	return most > 0 && own > 2 * most;
}

/* The earliest that stands; an undecided one before it that gained about as much is in its way. */
static const struct event *choose(const struct work *w)
{
	const struct event *best = NULL, *open = NULL, *largest = NULL;
	double most = 0;
	bool is_open;

	for (size_t i = 0; i < w->n_events; i++)
		most = fmax(most, w->events[i].score);
	for (size_t i = 0; i < w->n_events; i++) {
		const struct event *ev = &w->events[i];

		if (ev->score < RISE_MINOR * most)
			continue;
		if (!largest || ev->score > largest->score)
			largest = ev;
		if (verdict_of(ev->why) == VERDICT_CANNOT_TELL &&
		    (!open || ev->score > open->score))
			open = ev;
		if (verdict_of(ev->why) == VERDICT_NAMED &&
		    (!best || ev->rises[ev->first].onset < best->rises[best->first].onset))
			best = ev;
	}
	is_open = open && !best;
	for (size_t i = 0; best && i < w->n_events; i++) {
		const struct event *ev = &w->events[i];
		const struct culprit_rise *a = &ev->rises[ev->first],
					  *b = &best->rises[best->first];

		is_open |= verdict_of(ev->why) == VERDICT_CANNOT_TELL &&
			   ev->score >= RISE_MINOR * most && ev->from <= best->from &&
			   ev->score > 0.67 * best->score &&
			   !(a->record == b->record &&
			     fabs(a->onset - b->onset) <= 3 * hypot(a->sd, b->sd)) &&
			   !is_mostly_of(ev, b->record);
	}
	return is_open ? open : best ? best : largest;
}

/*
 * P is a minimum over parts and no likelihood. The share of right names on recorded jobs that were
 * not used to make the method is stated instead (docs/ranks-method.md). NaN stays: unknown.
 */
static double stated(double p, bool is_named)
{
	if (isnan(p))
		return p;
	if (!is_named)
		return fmin(STATED_NAMED * p / CULPRIT_NAMED, STATED_NAMED - 0.01);
	return p < STATED_SURE ? STATED_NAMED : STATED_MOST;
}

/* Whether P is what an event was decided by: a rank with another obstacle has an unknown one. */
static bool is_weighed(const struct event *ev)
{
	return verdict_of(ev->why) == VERDICT_NAMED || ev->why == WHY_TOO_CLOSE ||
	       ev->why == WHY_UNRELATED || ev->why == WHY_SMALL;
}

/* What most others gain a second from the onset of a rise on; NaN: they are flat. */
static double others_rate(const struct grid *g, const struct culprit_rise *rise)
{
	size_t from = track_count_to(g->at, g->n_cells, rise->onset), n = 0, n_flat = 0;

	for (size_t r = 0; r < g->n; r++) {
		double gain, seconds;

		if (g->tracks[r].in->rank == g->tracks[rise->record].in->rank ||
		    g->from[r] > from || from + 1 >= g->to[r])
			continue;
		gain = grid_kept(g, r, g->to[r] - 1) - grid_kept(g, r, from);
		seconds = g->at[g->to[r] - 1] - g->at[from];
		n_flat += gain <= g->tracks[r].scale;
		g->scratch[n++] = gain / seconds;
	}
	return 2 * n_flat >= n ? NAN : track_quantile(g->scratch, n, 0.5);
}

static void take_event(const struct event *ev, const struct grid *g, struct culprit_answer *ret)
{
	ret->why = ev->why;
	ret->rises = ev->rises;
	ret->n_rises = ev->n_rises;
	ret->probability = is_weighed(ev)
				   ? stated(ev->probability, verdict_of(ev->why) == VERDICT_NAMED)
				   : NAN;
	ret->lead = ev->lead;
	ret->is_since_start = ev->is_since_start;
	if (ev->because != SIZE_MAX)
		ret->because = g->tracks[ev->because].record;
	if (ev->n_rises == 0)
		return;
	if (ev->why == WHY_SHARED)
		ret->lead_below = ev->below + g->tracks[ev->rises[ev->first].record].interval;
	if (ev->first > 0) {
		struct culprit_rise kept = ret->rises[0];

		ret->rises[0] = ret->rises[ev->first];
		ret->rises[ev->first] = kept;
	}
	if (ev->why == WHY_ALONE)
		ret->others_rate = others_rate(g, &ret->rises[0]);
	/* The order of onsets alone makes no other rank likelier than the first one leaves. */
	ret->rises[0].probability = ret->probability;
	for (size_t i = 0; i < ret->n_rises; i++) {
		if (i > 0 && isnan(ret->probability))
			ret->rises[i].probability = NAN;
		else if (i > 0)
			ret->rises[i].probability =
				fmin(ret->rises[i].probability, 1 - ret->probability);
		ret->rises[i].record = g->tracks[ret->rises[i].record].record;
	}
}

/* ---- memory that was given back ---- */

/*
 * The one spike of the job, where one rank alone has one and its peers hold still: reported as
 * transient, and no culprit. False: there is none, or there are several.
 */
static int find_transient(struct work *w, struct culprit_answer *ret)
{
	const struct grid *g = w->g;
	const struct track *found = NULL;
	const struct spike *spike = NULL;
	struct culprit_rise *rise;
	double ready = g->at[w->first_span];
	size_t n = 0, at;

	for (size_t r = 0; r < g->n; r++) {
		const struct track *track = &g->tracks[r];

		for (size_t i = 0; i < track->n_spikes; i++) {
			const struct spike *s = &track->spikes[i];

			if (s->from + s->seconds < ready ||
			    s->mib < TRANSIENT_SCALES * track->scale)
				continue;
			n++;
			found = track;
			spike = s;
		}
	}
	if (n != 1 || spike->from < ready || spike->seconds < 2 * found->interval)
		return 0;
	rise = arena_alloc(w->arena, sizeof(*rise));
	if (!rise)
		return -ENOMEM;
	at = track_count_to(found->t, found->n, spike->from);
	*rise = (struct culprit_rise){
		.record = found->record,
		.low = at > 1 ? found->t[at - 2] : spike->from,
		.high = spike->from,
		.gain = spike->mib,
		.total = spike->mib,
		.till = spike->from,
		.rate = INFINITY,
		.given_back = spike->from + spike->seconds,
		.probability = NAN,
		.is_step = true,
	};
	rise->onset = rise->best = (rise->low + rise->high) / 2;
	rise->sd = (rise->high - rise->low) / sqrt(12);
	ret->why = WHY_GIVEN_BACK;
	ret->rises = rise;
	ret->n_rises = 1;
	return 0;
}

static int answer(struct work *w, struct culprit_answer *ret)
{
	struct grid *g = w->g;
	CLEANUP(free_ptr) struct span *items = NULL;
	struct span_list spans = { 0 };
	const struct event *best;
	size_t n_long = 0;
	double together = 0; /* cells */
	bool has_named = false;
	int r = 0;

	for (int pass = 0; pass < 2 && n_long == 0; pass++) {
		r = grid_find_spans(g, pass == 0, GRID_ALL, &spans);
		items = spans.items;
		if (r < 0)
			return r;
		for (size_t i = 0; i < spans.n; i++) {
			if (is_long_enough(g, spans.items[i]))
				spans.items[n_long++] = spans.items[i];
		}
	}
	if (n_long == 0) {
		ret->why = WHY_NEVER_ALIKE;
		r = judge_outsider(w, false);
		if (r > 0)
			take_event(&w->events[0], g, ret);
		return r < 0 ? r : 0;
	}
	w->first_span = spans.items[0].from;
	for (size_t i = 0; r == 0 && i < n_long; i++) {
		r = judge_common(w, spans.items[i]);
		if (r == 0 && spans.items[i].is_broken)
			r = judge(w, spans.items[i].from, spans.items[i].to, g->at[g->n_cells - 1]);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < w->n_events; i++) {
		has_named |= verdict_of(w->events[i].why) == VERDICT_NAMED;
		ret->n_events += w->events[i].n_rises > 0;
		ret->n_shared += w->events[i].why == WHY_SHARED;
	}
	best = w->n_events > 0 ? choose(w) : NULL;
	if (!(best && verdict_of(best->why) == VERDICT_NAMED)) {
		r = judge_outsider(w, !best || verdict_of(best->why) == VERDICT_NONE);
		if (r < 0)
			return r;
		if (r > 0) {
			take_event(&w->events[w->n_events - 1], g, ret);
			return 0;
		}
		best = w->n_events > 0 ? choose(w) : NULL;
	}
	if (w->is_hidden && !has_named) {
		ret->why = WHY_UNSEEN;
	} else if (w->n_events == 0) {
		ret->why = WHY_NO_RISE;
	} else {
		take_event(best, g, ret);
	}
	/* That nothing happened is known where the ranks were seen to agree. */
	for (size_t i = 0; i < n_long; i++)
		together += (double)(spans.items[i].to - spans.items[i].from);
	if (ret->why == WHY_NO_RISE && together < LEAST_TOGETHER * (double)g->n_cells) {
		ret->why = WHY_NEVER_ALIKE;
	}
	if (ret->why == WHY_NO_RISE) {
		r = find_transient(w, ret);
		if (r < 0)
			return r;
	}
	if (ret->why == WHY_NO_RISE)
		for (size_t i = 0; i < g->n; i++)
			ret->least_mib =
				fmax(isnan(ret->least_mib) ? 0 : ret->least_mib, g->room[i]);
	return 0;
}

/*
 * A meter may be read less often than samples are taken, so that values come several times: leaves
 * the samples with which they come. -ENOMEM.
 */
static int leave_repeats_out(struct culprit_rank *in, struct arena *arena)
{
	size_t last = 0, n_changes = 0, counts[MAX_REPEATS] = { 0 }, every = 0, n = 0;
	double *t, *mib;

	for (size_t i = 1; i < in->n; i++) {
		if (in->mib[i] == in->mib[i - 1])
			continue;
		for (size_t k = 2; n_changes > 0 && k <= MAX_REPEATS; k++)
			counts[k - 1] += (i - last) % k == 0;
		n_changes++;
		last = i;
	}
	for (size_t k = MAX_REPEATS; k >= 2 && every == 0; k--)
		if ((double)counts[k - 1] >= REPEATS_SHARE * (double)(n_changes - 1))
			every = k;
	if (n_changes <= MIN_CHANGES || every == 0 || in->n < 8 * every)
		return 0;
	t = arena_alloc(arena, in->n * sizeof(*t));
	mib = arena_alloc(arena, in->n * sizeof(*mib));
	if (!t || !mib)
		return -ENOMEM;
	for (size_t i = last % every; i < in->n; i += every) {
		t[n] = in->t[i];
		mib[n++] = in->mib[i];
	}
	in->t = t;
	in->mib = mib;
	in->n = n;
	return 0;
}

/*
 * The number of samples before those at the end of a record that stay below a share of the level
 * before them: they show how a process is taken apart. in->n: there are none. With is_late the
 * level is what was held last. Else it is no more than in most of the later half: behind a spike a
 * rank holds less than in it, but not less than before it. SIZE_MAX: out of memory.
 */
static size_t find_exit(const struct culprit_rank *in, bool is_late, struct arena *arena)
{
	size_t most = in->n / 20 > MIN_EXIT ? in->n / 20 : MIN_EXIT, n = in->n, half = in->n / 2;
	size_t late = in->n - track_count_to(in->t, in->n, in->t[in->n - 1] - EXIT_SECONDS);
	size_t window;
	double *before = arena_memdup(arena, in->mib, in->n * sizeof(*before)), level;

	if (!before)
		return SIZE_MAX;
	most = late > most ? late : most;
	window = most + 2 * EXIT_BEFORE;
	if (in->n < most + EXIT_BEFORE)
		return in->n;
	/* Of a short record the later half has no more than the samples before the exit. */
	if (half + window > in->n)
		half = in->n > window ? in->n - window : 0;
	level = track_quantile(before + in->n - most - EXIT_BEFORE, EXIT_BEFORE, 0.5);
	if (!is_late)
		level = fmin(level, track_quantile(before + half, in->n - half - most, 0.5));
	while (n > in->n - most && in->mib[n - 1] < EXIT_SHARE * level)
		n--;
	/* The one before may be on its way down already. */
	if (n < in->n && in->mib[n - 1] < in->mib[n - 2])
		n--;
	return n;
}

/*
 * Leaves the exits of n ranks out. If half of the ranks give back what they gained late, their
 * processes end like that. One rank that does so had a spike. -ENOMEM.
 */
static int leave_exits_out(struct culprit_rank *ranks, size_t n, struct arena *arena)
{
	CLEANUP(free_ptr) size_t *late = calloc(n + 1, sizeof(*late));
	size_t n_late = 0;

	if (!late)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t to = find_exit(&ranks[i], false, arena);

		late[i] = find_exit(&ranks[i], true, arena);
		if (to == SIZE_MAX || late[i] == SIZE_MAX)
			return -ENOMEM;
		n_late += late[i] < to;
		ranks[i].n = to;
	}
	for (size_t i = 0; i < n && 2 * n_late >= n; i++)
		ranks[i].n = late[i];
	return 0;
}

/*
 * Ranks with too few samples were not compared. One that was over before the first rise and held
 * less is none of it; any other one may have been first, or have risen.
 */
static void weigh_left_out(const struct culprit_rank *ranks, size_t n, struct culprit_answer *ret)
{
	const struct culprit_rise *first = ret->n_rises > 0 ? &ret->rises[0] : NULL;

	for (size_t i = 0; i < n; i++) {
		if (ranks[i].n >= TRACK_MIN_SAMPLES)
			continue;
		ret->n_left_out++;
		if (verdict_of(ret->why) == VERDICT_CANNOT_TELL ||
		    (ranks[i].end < (first ? first->low : INFINITY) &&
		     ranks[i].unseen_mib <= (first ? UNSEEN_SHARE * first->gain : CULPRIT_LEAST)))
			continue;
		ret->why = WHY_FEW;
		ret->because = i;
		ret->probability = ret->lead_below = ret->least_mib = NAN;
		for (size_t k = 0; k < ret->n_rises; k++)
			ret->rises[k].probability = NAN;
	}
}

int culprit_find(const struct culprit_rank *ranks, size_t n, struct arena *arena,
		 struct culprit_answer *ret)
{
	struct track *tracks = arena_alloc(arena, (n + 1) * sizeof(*tracks));
	struct culprit_rank *cleaned = arena_alloc(arena, (n + 1) * sizeof(*cleaned));
	struct grid grid;
	struct work w = { .g = &grid, .arena = arena };
	size_t n_tracks = 0;
	int r;

	*ret = (struct culprit_answer){ .why = WHY_FEW,
					.probability = NAN,
					.lead = NAN,
					.lead_below = NAN,
					.others_rate = NAN,
					.least_mib = NAN,
					.because = SIZE_MAX,
					.interval = NAN };
	if (!tracks || !cleaned)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (ranks[i].n < TRACK_MIN_SAMPLES) {
			ret->because = i;
			continue;
		}
		tracks[n_tracks].record = i;
		cleaned[n_tracks] = ranks[i];
		r = leave_repeats_out(&cleaned[n_tracks++], arena);
		if (r < 0)
			return r;
	}
	r = leave_exits_out(cleaned, n_tracks, arena);
	for (size_t i = 0; r == 0 && i < n_tracks; i++) {
		size_t record = tracks[i].record;

		r = track_make(&cleaned[i], i, arena, &tracks[i]);
		tracks[i].record = record;
	}
	if (r < 0)
		return r;
	if (n_tracks < 2 || (double)(n - n_tracks) > MAX_FEW * (double)n)
		return 0;
	ret->because = SIZE_MAX;
	r = grid_make(tracks, n_tracks, arena, &grid);
	if (r < 0)
		return r;
	ret->interval = grid.cell;
	r = answer(&w, ret);
	free(w.events);
	if (r == 0)
		weigh_left_out(ranks, n, ret);
	return r;
}
