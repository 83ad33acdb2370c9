#include "crossrank/gather.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

#define LARGE_SHARE 0.2	  /* of the largest rise; others are small */
#define GAP_INTERVALS 3.0 /* so long after the others ended begins another episode */
#define GAP_SECONDS 3.0	  /* and so long at least */
#define SMALL_SIGMAS 8.0
#define MOST_SHARE 0.5
#define UP_INTERVALS 10.0 /* so long may a smaller one have ended before it */
#define UP_SECONDS 10.0
#define OUTSIDE 0.01 /* of an onset's distribution, at each end */

/* ---- when a rise can have begun ---- */

static double clock_error(const struct judge_work *w, const struct candidate *c)
{
	return w->clocks[c->rank - w->a->ranks].error;
}

static double earliest(const struct judge_work *w, const struct candidate *c)
{
	return onset_quantile(&c->rise->onset, OUTSIDE) - clock_error(w, c);
}

static double latest(const struct judge_work *w, const struct candidate *c)
{
	return onset_quantile(&c->rise->onset, 1 - OUTSIDE) + clock_error(w, c);
}

static double end_of(const struct judge_work *w, const struct candidate *c)
{
	return fmax(c->rise->end + clock_error(w, c), latest(w, c));
}

static double gap_of(const struct judge_work *w)
{
	return fmax(GAP_SECONDS, GAP_INTERVALS * w->interval);
}

int gather_compare(const void *l, const void *r)
{
	const struct candidate *a = l, *b = r;

	if (a->earliest != b->earliest)
		return a->earliest < b->earliest ? -1 : 1;
	return (a->rank->rank > b->rank->rank) - (a->rank->rank < b->rank->rank);
}

/* ---- all rises ---- */

/* The teeth of a saw are how that rank works; only what stays up says something. */
static bool counts(const struct rise_list *list, const struct rise *rise)
{
	return !(list->is_sawtooth && !isinf(rise->gone));
}

static double largest_gain(const struct judge_work *w)
{
	double largest = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		for (size_t k = 0; k < w->f->rises[i].n; k++)
			if (counts(&w->f->rises[i], &w->f->rises[i].items[k]))
				largest = fmax(largest, w->f->rises[i].items[k].gain_mib);
	return largest;
}

/* Small ones are to stand out from what went before by more than large ones do anyway. */
static void add_rise(struct judge_work *w, size_t rank, const struct rise *rise, bool is_large)
{
	struct candidate c = { .rank = &w->a->ranks[rank],
			       .rise = rise,
			       .main = is_large ? rise : NULL,
			       .clock = w->clocks[rank].number };

	c.earliest = earliest(w, &c);
	/* A small one between two levels may have been anywhere until it was seen. */
	c.latest = fmax(rise->seen + clock_error(w, &c), latest(w, &c));
	if (is_large)
		w->all[w->n_all++] = c;
	else if (rise->gain_mib >= SMALL_SIGMAS * rise->ground_mib)
		w->small[w->n_small++] = c;
}

static bool overlap(const struct judge_work *w, const struct candidate *a,
		    const struct candidate *b)
{
	return a->earliest <= b->latest + w->interval && b->earliest <= a->latest + w->interval;
}

/* Ranks with a small rise at that time. They are by rank still. */
static size_t count_alike(const struct judge_work *w, const struct candidate *c)
{
	const struct rank *last = NULL;
	size_t n = 0;

	for (size_t i = 0; i < w->n_small; i++)
		if (w->small[i].rank != last && overlap(w, c, &w->small[i])) {
			last = w->small[i].rank;
			n++;
		}
	return n;
}

/* Small rises that most ranks have at the same time are the workload's. */
static void mark_shared(struct judge_work *w)
{
	for (size_t i = 0; i < w->n_small; i++) {
		size_t n_alike = count_alike(w, &w->small[i]);

		w->small[i].is_shared =
			n_alike > 1 && (double)n_alike >= MOST_SHARE * (double)w->a->n_ranks;
	}
}

static size_t count_rises(const struct judge_work *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		n += w->f->rises[i].n;
	return n;
}

int gather_collect(struct judge_work *w)
{
	double least = LARGE_SHARE * largest_gain(w);
	size_t most = count_rises(w) + 1;

	w->all = calloc(most, sizeof(*w->all));
	w->small = calloc(most, sizeof(*w->small));
	w->pool = calloc(most + 2 * w->a->n_ranks, sizeof(*w->pool));
	w->place = calloc(w->a->n_ranks + 1, sizeof(*w->place));
	if (!w->all || !w->small || !w->pool || !w->place)
		return -ENOMEM;
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct rise_list *list = &w->f->rises[i];

		for (size_t k = 0; k < list->n; k++)
			if (counts(list, &list->items[k]))
				add_rise(w, i, &list->items[k], list->items[k].gain_mib >= least);
	}
	qsort(w->all, w->n_all, sizeof(*w->all), gather_compare);
	mark_shared(w);
	qsort(w->small, w->n_small, sizeof(*w->small), gather_compare);
	return 0;
}

void gather_release(struct judge_work *w)
{
	free(w->all);
	free(w->small);
	free(w->pool);
	free(w->place);
}

/* ---- one episode ---- */

/* A rank's member of the episode whose members begin at from; NULL: it has none. */
static struct candidate *member_of(struct judge_work *w, const struct rank *rank, size_t from)
{
	size_t place = w->place[rank - w->a->ranks];

	return place > from ? &w->pool[place - 1] : NULL;
}

static void add_member(struct judge_work *w, const struct candidate *c)
{
	w->pool[w->n_pool++] = *c;
	w->place[c->rank - w->a->ranks] = w->n_pool;
}

/* The moment at which the first of the members has surely begun. */
static double surely_begun(const struct judge_work *w, size_t from)
{
	double begun = INFINITY;

	for (size_t i = from; i < w->n_pool; i++)
		begun = fmin(begun, latest(w, &w->pool[i]));
	return begun;
}

/* Whether a small rise leads up to what begins then: no long rest is between. */
static bool leads_up(const struct judge_work *w, const struct candidate *c, double begin)
{
	double gap = fmax(UP_SECONDS, UP_INTERVALS * w->interval);

	return end_of(w, c) + gap >= begin;
}

/* Each once, so that there is room for all. */
static void take_small(struct judge_work *w, struct candidate *c)
{
	c->is_taken = true;
	add_member(w, c);
}

/* Smaller ones that began before, from the last to the first: each may lead up to the next. */
static void add_small(struct judge_work *w, size_t from, double quiet_until)
{
	double begun = surely_begun(w, from), begin = w->pool[from].earliest;

	for (size_t i = w->n_small; i-- > 0;) {
		struct candidate *c = &w->small[i];
		struct candidate *member = member_of(w, c->rank, from);

		if (c->is_shared || c->is_taken || c->earliest > begun ||
		    c->rise->onset.median <= quiet_until || !leads_up(w, c, begin))
			continue;
		if (!member)
			take_small(w, c);
		else if (c->earliest < member->earliest)
			member->rise = c->rise;
		begin = fmin(begin, c->earliest);
	}
}

/* Whether a rank has a small rise of its own with that one. */
static bool takes_part(const struct judge_work *w, const struct rank *rank,
		       const struct candidate *c)
{
	for (size_t i = 0; i < w->n_small; i++)
		if (w->small[i].rank == rank && overlap(w, c, &w->small[i]))
			return true;
	return false;
}

/* Of the members from there on up to `to`. */
static bool all_take_part(const struct judge_work *w, size_t from, size_t to,
			  const struct candidate *c)
{
	for (size_t i = from; i < to; i++)
		if (!takes_part(w, w->pool[i].rank, c))
			return false;
	return true;
}

/*
 * What most ranks do in small, and a member in large, is one thing: that member neither rose alone
 * nor first because of how much it took. But who did the small thing with them does another.
 */
static void add_shared(struct judge_work *w, size_t from, double quiet_until)
{
	double until = surely_begun(w, from) + gap_of(w), begin = w->pool[from].earliest;
	size_t to = w->n_pool;

	for (size_t i = 0; i < w->n_small; i++) {
		struct candidate *c = &w->small[i];

		if (c->is_shared && !c->is_taken && !member_of(w, c->rank, from) &&
		    c->earliest <= until && c->rise->onset.median > quiet_until &&
		    leads_up(w, c, begin) && !all_take_part(w, from, to, c))
			take_small(w, c);
	}
}

size_t gather_episode(struct judge_work *w, size_t first, double quiet_until)
{
	double end = end_of(w, &w->all[first]), gap = gap_of(w);
	size_t to = first, from = w->n_pool;

	for (; to < w->n_all; to++) {
		const struct candidate *c = &w->all[to];
		bool is_again = member_of(w, c->rank, from) != NULL;

		/* A second rise while others rise is part of what happens. */
		if (to > first && c->earliest > end + (is_again ? 0 : gap))
			break;
		if (!is_again)
			add_member(w, c);
		end = fmax(end, end_of(w, c));
	}
	add_small(w, from, quiet_until);
	add_shared(w, from, quiet_until);
	qsort(w->pool + from, w->n_pool - from, sizeof(*w->pool), gather_compare);
	return to;
}
