#include "crossrank/facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/macros.h"
#include "stats/probability.h"
#include "stats/noise.h"

#define MIN_STEPS 3
#define MIN_RANKS 3
#define SLOW_FACTOR 1.2 /* steps so much longer than the others' may make a straggler */
#define LEVEL 0.05	/* and do where chance does so no oftener */

static bool begins_with(struct text t, const char *word)
{
	size_t n = strlen(word);

	if (t.n < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (ascii_to_lower(t.s[i]) != word[i])
			return false;
	return true;
}

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
		if (begins_with(label, names[i]))
			return true;
	return false;
}

/* The steps of one rank, in their order. */
struct step_list {
	double *seconds;
	size_t n;
};

struct work {
	const struct rank_analysis *a;
	struct facts *f;
	struct step_list *lists; /* one for each rank */
};

static int find_steps_of(struct work *w, size_t i)
{
	const struct rank *rank = &w->a->ranks[i];
	const struct sample *last = &rank->stream->samples[rank->stream->n - 1];
	struct text session = w->a->telemetry->identities[last->identity].session_id;
	struct step_list *list = &w->lists[i];
	size_t n;
	const struct span *spans = phases_of(&w->a->phases, session, rank->rank, &n);

	list->seconds = calloc(n + 1, sizeof(*list->seconds));
	if (!list->seconds)
		return -ENOMEM;
	for (size_t k = 0; k < n; k++)
		if (is_step(&spans[k]))
			list->seconds[list->n++] =
				(double)(spans[k].end_ns - spans[k].opened->timestamp_ns) / 1e9;
	return 0;
}

/* The median of a copy: the order of the steps is needed later. */
static int find_median_of(const struct step_list *list, double *ret)
{
	CLEANUP(free_ptr) double *copy = calloc(list->n + 1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	if (list->n > 0)
		memcpy(copy, list->seconds, list->n * sizeof(*copy));
	*ret = list->n >= MIN_STEPS ? noise_median(copy, list->n) : NAN;
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

static int find_all(struct work *w)
{
	CLEANUP(free_ptr) double *medians = calloc(w->a->n_ranks + 1, sizeof(*medians));
	size_t n = 0;
	int r = medians ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < w->a->n_ranks; i++) {
		struct rank_facts *f = &w->f->ranks[i];

		r = find_steps_of(w, i);
		if (r == 0)
			r = find_median_of(&w->lists[i], &f->step_seconds);
		f->n_steps = w->lists[i].n;
		f->straggler_p = NAN;
		if (r == 0 && !isnan(f->step_seconds))
			medians[n++] = f->step_seconds;
	}
	w->f->step_seconds = r == 0 ? noise_median(medians, n) : NAN;
	return r < 0 ? r : judge(w);
}

int steps_find(const struct rank_analysis *a, struct facts *f)
{
	CLEANUP(free_ptr) struct step_list *lists = calloc(a->n_ranks + 1, sizeof(*lists));
	struct work w = { a, f, lists };
	int r = lists ? find_all(&w) : -ENOMEM;

	for (size_t i = 0; lists && i < a->n_ranks; i++)
		free(lists[i].seconds);
	return r;
}
