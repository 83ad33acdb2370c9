/*
 * learned - runs in numbers, what is believed about them, and how estimates did.
 *
 * Part of store.h, with its rules: each call that writes is one short transaction.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/run_record.h"
#include "model/job.h"

struct store;

/* ---- runs ---- */

/* Attempts that have ended and are no runs yet, oldest end first, at most so many. */
struct unnoted {
	int64_t attempt; /* its id */
	char job_id[JOB_ID_MAX + 1];
	int attempt_num;
};
int store_list_unnoted(struct store *store, struct unnoted *ret, size_t max, size_t *ret_n,
		       struct err *err);

/* What was expected of a run by its start, and how that did. */
struct run_estimate {
	struct estimate estimate;
	struct estimate_score score;
};

/* Adds or replaces runs of one attempt; estimates has one for each, or is NULL. */
int store_put_runs(struct store *store, const struct run_record *runs,
		   const struct run_estimate *estimates, size_t n, struct err *err);

/* Which runs: those that ended later than one moment, and by another; the newest so many. */
struct run_span {
	uint64_t after_wall_ns, until_wall_ns; /* U64_UNKNOWN: until now */
	const uint64_t *command;	       /* of this class (run_class.command); NULL: of any */
	size_t limit;
};

/* Appends them, oldest first; on failure none. */
int store_list_runs(struct store *store, const struct run_span *span, struct run_list *ret,
		    struct err *err);

/* Which runs: those of a class on one rung, the newest so many. */
struct run_kind {
	const struct run_class *class;
	enum run_rung rung;
	uint64_t uid;		/* of this user, as recorded; U64_UNKNOWN: of all */
	uint64_t until_wall_ns; /* that had ended by then; U64_UNKNOWN: by now */
	size_t limit;
};

/* The same of these. */
int store_list_runs_of_kind(struct store *store, const struct run_kind *kind, struct run_list *ret,
			    struct err *err);

/* The types of anomalies of an attempt (sheet 0: of all sheets), with a blank between two. */
int store_read_anomaly_types(struct store *store, int64_t attempt, int sheet_num, struct buf *out,
			     struct err *err);

/* How the estimates for these runs did. */
int store_read_calibration(struct store *store, const struct run_kind *kind,
			   struct calibration *ret, struct err *err);

/* ---- patterns ---- */

int store_list_patterns(struct store *store, struct pattern_list *ret, struct err *err);
int store_put_patterns(struct store *store, const struct pattern_list *patterns, struct err *err);

/* ---- verdicts ---- */

struct store_verdict {
	enum outcome outcome;
	const char *note; /* or NULL */
	uint64_t uid;	  /* who says so */
	uint64_t wall_ns;
};

/*
 * Replaces the outcome of an attempt (num 0: the latest) that has ended by what a
 * person says; what was measured is kept beside it. -ENOENT: no such attempt.
 * -EAGAIN: it still runs. -ENODATA: it was lost, so that nothing is known of its end.
 */
int store_set_outcome(struct store *store, const char *job_id, int num,
		      const struct store_verdict *verdict, struct err *err);

/* Takes that back: the outcome is what was measured. Fails as it does. */
int store_restore_outcome(struct store *store, const char *job_id, int num, struct err *err);

/* What was measured of an attempt that a person has judged. OUTCOME_NONE: nobody has. */
int store_read_measured_outcome(struct store *store, int64_t attempt, enum outcome *ret,
				struct err *err);
