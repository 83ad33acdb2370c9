/*
 * failure_analysis - which resource patterns go with failure: the findings.
 *
 * Runs are put into classes by their command. Retries of the same input count once.
 * In each class with 3 failures and 3 passes or more all features are tested
 * together (stats/maxt.h), and the classes are adjusted for each other
 * (Benjamini and Hochberg), so that on noise at most 5 % of analyses, however many
 * classes they look at, call anything supported. In smaller classes nothing is
 * tested: what separates failures from passes without exception is told as
 * suggestive, with the smallest p that so few runs could have given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "model/run_record.h"
#include "stats/probability.h"

/*
 * ---- how much a feature predicts failure: where to cut, and what happened on each side ----
 *
 * The cut is the one that separates best (failure rate among those that failed
 * minus that among those that passed, Youden's J), chosen by leave-one-out: for
 * each run anew from all others, and of these cuts the median. How often the cut
 * that was made without a run puts it on the right side is the accuracy, which
 * nobody's own data has flattered.
 */

/* One side of the cut. */
struct effect_side {
	size_t n, n_failed;
	double rate;		  /* NaN for none */
	struct interval interval; /* Wilson, 95 % */
};

struct effect {
	bool is_above;	  /* those above the cut fail more often; else those at or below it */
	double threshold; /* halfway between two values; of a yes-or-no feature 0.5 */
	struct effect_side in, out; /* where more fail, and the rest */
	double risk_difference;
	double odds_ratio; /* 0.5 added to each count */
	double loo_accuracy;
};

/* Unknown values are left out. -EDOM: there is no cut. -ENOMEM. */
int effect_measure(const double *values, const bool *has_failed, size_t n, bool is_above,
		   struct effect *ret);

#define ANALYSIS_LEVEL 0.05	 /* supported */
#define ANALYSIS_SUGGESTIVE 0.10 /* worth a second look */
#define ANALYSIS_MIN_EACH 3	 /* failures, and passes: with fewer nothing is tested */
#define ANALYSIS_MAX_RUNS 2000	 /* of a class, the newest: more take long and tell nothing new */

enum grade { GRADE_NONE, GRADE_SUGGESTIVE, GRADE_SUPPORTED, GRADE_CONFIRMED };
const char *grade_name(enum grade grade); /* "none", "suggestive", … */

struct finding {
	const char *label; /* of the class; NULL: it has no name */
	uint64_t class_key;
	const char *feature; /* its key */
	const char *phrase;  /* "whose peak memory was more than 41 MB" */
	const char *sentence;
	enum grade grade;
	bool is_tested;	  /* false: too few runs */
	bool is_censored; /* the end of a run cuts the feature short, or comes with it */
	bool may_follow;  /* being so may be a consequence of the failure */
	double p;	  /* adjusted for all features and classes; NaN: not tested */
	double p_alone;	  /* of this feature, as if it were the only one */
	double p_floor;	  /* so few runs cannot give less */
	double auc;
	uint64_t n_deals;
	bool is_exact;
	size_t n_runs, n_failed; /* of the class */
	struct effect effect;
	uint64_t newest_wall_ns; /* the last of these runs ended then */
};

struct analysis {
	struct finding *findings; /* the surest first */
	size_t n;
	size_t n_runs, n_retries, n_classes, n_tested, n_undecided;
	const uint64_t *tested; /* the keys of the n_tested classes, ascending */
	uint64_t seed;
	struct arena arena; /* owns the strings, and these keys */
};

/* Runs in any order. ret is overwritten, and to be released after success. -ENOMEM. */
int analysis_run(const struct run_record *runs, size_t n, uint64_t seed, struct analysis *ret);
void analysis_release(struct analysis *a);

/* An array of objects. */
void analysis_write_findings(struct json *j, const struct analysis *a);
