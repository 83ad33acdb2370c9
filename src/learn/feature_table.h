/*
 * feature_table - every feature there is, one row each; for the files of this folder.
 */
#ifndef PROCTOR_LEARN_FEATURE_TABLE_H
#define PROCTOR_LEARN_FEATURE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "learn/feature.h"
#include "model/run.h"

/* A number: its key, the words for it, its unit, whether the end cuts it short. */
struct feature_number {
	const char *key, *what;
	enum feature_unit unit;
	bool is_censored;
	size_t offset;
	double (*compute)(const struct run_record *run); /* instead of an offset */
	enum outcome outcome; /* that comes of having much of it: OUTCOME_NONE, or one failure */
};
#define FEATURE_NUMBERS 14
extern const struct feature_number feature_numbers[FEATURE_NUMBERS];
double feature_number_value(const struct feature_number *number, const struct run_record *run);
bool feature_number_tells_outcome(const struct feature_number *number,
				  const struct run_record *run);

/* A number with a value for each horizon, and the words for these. */
struct feature_early {
	const char *key, *what;
	enum feature_unit unit;
	size_t offset; /* of the values for all horizons */
};
#define FEATURE_EARLIES 2
extern const struct feature_early feature_earlies[FEATURE_EARLIES];
extern const char *const feature_horizons[RUN_HORIZONS];
double feature_early_value(const struct feature_early *early, size_t horizon,
			   const struct run_record *run);

/* Features with a name of their own: what stands before it in the key, and the words for it. */
struct feature_named {
	const char *prefix, *what;
	enum feature_unit unit;
	bool is_censored; /* it may have come with the end */
	double (*value)(const struct run_record *run, const char *name);
	size_t max; /* names that are looked at */
};
#define FEATURE_NAMEDS 3 /* system calls, anomalies, hosts */
#define FEATURE_MAX_NAMES 12
#define FEATURE_OOM_KILL "anomaly:oom_kill" /* the failure itself */
extern const struct feature_named feature_nameds[FEATURE_NAMEDS];

#endif
