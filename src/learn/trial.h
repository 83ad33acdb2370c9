/*
 * trial - the features of one class of runs, tested together.
 *
 *	CLEANUP(trial_release) struct trial t = TRIAL_INIT;
 *
 *	r = trial_set_out(&t, runs, n_runs);
 *	r = trial_run(&t, seed, 0);
 *	r = trial_find(&t, i, arena, &finding);	for a feature that is worth it
 */
#ifndef PROCTOR_LEARN_TRIAL_H
#define PROCTOR_LEARN_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "learn/analysis.h"
#include "learn/feature.h"
#include "model/run.h"
#include "stats/maxt.h"

struct trial {
	const struct run_record *const *runs; /* of one class, by time; borrowed */
	size_t n_runs, n_failed;
	struct features features;
	bool *has_failed;	      /* of each run */
	const double **columns;	      /* of each feature… */
	bool *is_binary;	      /* …and what kind it is… */
	struct maxt_feature *results; /* …and what came of it */
	struct maxt_summary summary;
};

#define TRIAL_INIT                                 \
	{                                          \
		.features = {.arena = ARENA_INIT } \
	}

void trial_release(struct trial *t);

/* -ENOMEM. */
int trial_set_out(struct trial *t, const struct run_record *const *runs, size_t n_runs);

/* With so many deals where not all are gone through, 0: as many as usual. Again with other ones. */
int trial_run(struct trial *t, uint64_t seed, uint64_t n_deals);

/* Adjusted for its features; 1 for none. */
double trial_smallest_p(const struct trial *t);

/*
 * What there is to say about a feature, but for its grade and its sentence. Strings go
 * into the arena. -EDOM: there is nowhere to cut. -ENOMEM.
 */
int trial_find(const struct trial *t, size_t feature, struct arena *arena, struct finding *ret);

#endif
