/*
 * feature - what about a run may go with its failure, as columns to be tested.
 *
 * Numbers are those of run_record. Of early values the class takes the latest
 * moment that nearly all of its runs lived to see. Yes-or-no features are the types
 * of anomalies and, where there are several, the hosts. A column that too few runs
 * have a value for, or all the same, is left out; so is what tells a failure in other words:
 * duration and CPU time where some were timeouts, the peak where some were killed for memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/run_record.h"

enum feature_unit {
	UNIT_MB,
	UNIT_MB_PER_SECOND,
	UNIT_SECONDS,
	UNIT_PERCENT,
	UNIT_COUNT,
	UNIT_NONE, /* yes or no */
};

/*
 * key: "rss_slope_mb_s@60", "syscall:futex", "anomaly:zombie", "host:a".
 * what: "whose memory grew", "with the anomaly".
 * is_censored: the end of the run cuts it short, so of one that failed it may be a
 * consequence of the failure.
 */
struct feature {
	const char *key;
	const char *what, *when; /* "whose peak memory was", "in the first minute" or "" */
	enum feature_unit unit;
	bool is_censored;
	const double *values; /* of each run */
};

struct features {
	struct feature *items;
	size_t n;
	struct arena arena; /* owns all of it */
};

/* ret is overwritten, and to be released after success. -ENOMEM. */
int features_build(const struct run_record *const *runs, size_t n_runs, struct features *ret);
void features_release(struct features *f);

/*
 * The value of a feature, by its key, of one run: for rules that were made
 * earlier. NaN: unknown, or there is no such feature.
 */
double feature_value(const char *key, const struct run_record *run);

/* Before the key of a time_category: thread-seconds. No rule is made of these. */
#define FEATURE_TIME "time:"

/*
 * Whether the value is how the run ended, in other words: the duration of one that was ended
 * for taking too long, the peak of one that was killed for memory, that kill itself.
 */
bool feature_tells_outcome(const char *key, const struct run_record *run);

/* "41 MB/s" */
void feature_add_value(struct buf *out, enum feature_unit unit, double value);

/*
 * The words that say which runs: "whose memory grew faster than 41 MB/s in the
 * first minute", "with the anomaly memory_spike".
 */
void feature_add_phrase(struct buf *out, const struct feature *f, bool is_above, double threshold);
