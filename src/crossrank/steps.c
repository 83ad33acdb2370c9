#include "crossrank/facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/macros.h"
#include "stats/noise.h"

#define MIN_STEPS 3
#define MIN_RANKS 3
#define SLOW_FACTOR 1.2 /* steps so much longer than the others' make a straggler */

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

static int find_steps_of(const struct rank_analysis *a, const struct rank *rank,
			 struct rank_facts *ret)
{
	const struct sample *last = &rank->stream->samples[rank->stream->n - 1];
	struct text session = a->telemetry->identities[last->identity].session_id;
	CLEANUP(free_ptr) double *seconds = NULL;
	size_t n;
	const struct span *spans = phases_of(&a->phases, session, rank->rank, &n);

	ret->step_seconds = NAN;
	seconds = calloc(n + 1, sizeof(*seconds));
	if (!seconds)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (is_step(&spans[i]))
			seconds[ret->n_steps++] =
				(double)(spans[i].end_ns - spans[i].opened->timestamp_ns) / 1e9;
	if (ret->n_steps >= MIN_STEPS)
		ret->step_seconds = noise_median(seconds, ret->n_steps);
	return 0;
}

int steps_find(const struct rank_analysis *a, struct facts *f)
{
	CLEANUP(free_ptr) double *medians = calloc(a->n_ranks + 1, sizeof(*medians));
	size_t n = 0;
	int r = medians ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < a->n_ranks; i++) {
		r = find_steps_of(a, &a->ranks[i], &f->ranks[i]);
		if (!isnan(f->ranks[i].step_seconds))
			medians[n++] = f->ranks[i].step_seconds;
	}
	f->step_seconds = r == 0 ? noise_median(medians, n) : NAN;
	for (size_t i = 0; n >= MIN_RANKS && i < a->n_ranks; i++) {
		f->ranks[i].is_straggler = f->ranks[i].step_seconds > SLOW_FACTOR * f->step_seconds;
		f->n_stragglers += f->ranks[i].is_straggler;
	}
	return r;
}
