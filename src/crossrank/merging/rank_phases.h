/*
 * rank_phases - which phase of the workload a rank was in at a moment.
 *
 * Phases nest per thread. They are replayed by (time, sequence, scope id); one that
 * never ends lasts as long as its session has records. Where several threads, or
 * spans of one thread that do not nest, disagree, the answer is all of them.
 */
#pragma once

#include "crossrank/reading/reading.h"

struct span {
	const struct boundary *opened;
	struct text thread_name; /* of who closed it */
	int64_t end_ns;
	bool is_open; /* nothing closed it */
};

/* The spans of one rank in one session are beside each other, by (start, end). */
struct phases {
	struct telemetry *telemetry;
	struct span *spans;
	size_t n;
};

/* Borrows t. -ENOMEM. */
int phases_init(struct phases *p, struct telemetry *t);
void phases_release(struct phases *p);

/* The first of those of a rank's session, and their number; session_id NULL matches nothing. */
const struct span *phases_of(const struct phases *p, struct text session_id, int64_t rank,
			     size_t *ret_n);

/* Where a moment lay, or a time that may be any of several. */
struct phase_place {
	const struct span *only; /* the one phase; NULL: several, or none */
	struct text *paths;	 /* each once, in order; the telemetry's */
	size_t n_paths;		 /* 0: no phase was active */
	struct text
		likely; /* of several paths that of the span that began last; s NULL: one path */
	/* phases_resolve_between() alone: */
	bool is_crossed;  /* a phase begins or ends in that time */
	bool may_be_none; /* in a part of it there is no phase */
};

/* -ENOMEM. */
int phases_resolve(const struct phases *p, int64_t timestamp_ns, struct text session_id,
		   int64_t rank, struct phase_place *ret);

/*
 * Of a moment that is between low_ns and high_ns, most likely at middle_ns. Where a phase begins or
 * ends in between, the answer is all phases it may be (PHASES_MAX_BETWEEN, or fewer); likely is
 * then the one that begins nearest to the middle, as a program enters a phase and works in it, or
 * else the last. -ENOMEM.
 */
#define PHASES_MAX_BETWEEN 64
struct phase_time {
	int64_t low_ns, middle_ns, high_ns;
};
int phases_resolve_between(const struct phases *p, const struct phase_time *time,
			   struct text session_id, int64_t rank, struct phase_place *ret);
