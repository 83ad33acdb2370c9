/*
 * merging - what is known about the ranks of a job, put together.
 *
 *	struct rank_analysis a;
 *
 *	rank_analysis_init(&a, telemetry);
 *	rank_analysis_run(&a, EVENT_UNKNOWN);
 *	summary_write_all(&json, &a);
 *	rank_analysis_release(&a);
 *
 * It has two parts that never mix. compat is what the reference computes, field by
 * field: ranks aligned by their first samples, suspects with a confidence in
 * words. finding (finding.h) is what may be believed.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "crossrank/merging/rank_phases.h"
#include "crossrank/reading/reading.h"

/* More than so many missing ranks are counted and not listed. */
#define ANALYSIS_MAX_MISSING 10000
/* And more than so many other jobs. */
#define ANALYSIS_MAX_OTHERS 32

/* Records of it are there, too, and do not count. */
struct other_job {
	struct text job_id; /* s NULL: records that name none */
	uint64_t n_samples;
};

/* A rank that has samples; a->ranks is by rank. */
struct rank {
	int64_t rank;
	const struct stream *stream;
	const struct stream *own;   /* without what is stray; compat knows nothing of these two */
	const struct stream *total; /* the same of all its devices */
	int64_t offset_ns;	    /* of its first sample from the anchor's */
	uint64_t first_sample;	    /* its number among all events */
};

/* compat: where a rank first rose by more than the threshold. */
struct suspect {
	const struct rank *rank;
	const struct sample *at;
	__int128 aligned_ns;
	int64_t delta_bytes; /* the rise up to there */
	int64_t n_window;
	__int128 lead_ns;
	const char *confidence;
	struct phase_place phase;
};

struct first_cause;
struct facts;
struct note;

struct rank_analysis {
	struct telemetry *telemetry;
	struct arena arena;
	struct phases phases;
	struct text job_id;	  /* s NULL: none is named */
	struct other_job *others; /* by name */
	size_t n_others, n_others_all;
	int64_t world_size;
	int64_t declared_size; /* what most samples say; 1: none does */
	struct rank *ranks;
	size_t n_ranks;
	const struct rank **seen_order; /* the same by first_sample */
	int64_t *missing;
	size_t n_missing;
	uint64_t n_missing_all;
	int64_t median_interval_ns; /* 0: unknown */
	/* compat */
	struct note *notes;
	size_t n_notes;
	int64_t *few; /* ranks with fewer than two samples */
	size_t n_few;
	bool has_cluster_onset;
	__int128 cluster_onset_ns;
	struct suspect *suspects;
	size_t n_suspects;
	/* ours */
	struct first_cause *finding;
	struct facts *facts;
};

/* Borrows t, sorts it, and takes samples of other jobs than the most common one out of it. -ENOMEM.
 */
int rank_analysis_init(struct rank_analysis *a, struct telemetry *t);
void rank_analysis_release(struct rank_analysis *a);

/* ---- which samples count (rank_select.c) ---- */

/*
 * A stray record is of another process than the thousands of its rank: one file too many, or a
 * line of another run. It would leave no answer at all, so it is left out, and the text says so.
 * A rank is mixed where records of two processes take turns: two runs, or two jobs of one name. A
 * sum or an order made of them means nothing. A rank that was restarted is neither. reference/
 * knows none of this.
 */

uint64_t strays_count(const struct rank_analysis *a);

/*
 * How many ranks at the end of a->ranks are stray, too: no rank of the world that most samples tell
 * of, with a few records beside the many of the others.
 */
size_t strays_count_ranks(const struct rank_analysis *a);

/* " 2 records ... were left out."; nothing where there are none. */
void strays_add_text(struct buf *out, const struct rank_analysis *a);

/* The first rank that is mixed; NULL: none. */
const struct rank *mixed_find(const struct rank_analysis *a);

/* Inside: the steps of rank_analysis_init(). All -ENOMEM. */
int select_job(struct rank_analysis *a);       /* job_id, others; samples of others go */
int select_ranks(struct rank_analysis *a);     /* ranks, seen_order, world_size, missing */
int strays_leave_out(struct rank_analysis *a); /* own of each rank */
int devices_add_up(struct rank_analysis *a);   /* total of each rank: the sum over its devices */

/* ---- the aligned timeline ---- */

struct timeline_point {
	const struct sample *sample;
	const struct stream *stream; /* which has it */
	int64_t rank;
	__int128 aligned_ns;
};

/* Non-zero stops and is returned. */
typedef int timeline_fn(void *ctx, const struct timeline_point *point);

/* Calls fn for each sample of all ranks, by aligned time and rank. -ENOMEM. */
int analysis_walk_timeline(const struct rank_analysis *a, timeline_fn *fn, void *ctx);
