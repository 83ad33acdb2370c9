/*
 * learner - learns from what has ended while a loop goes on with its work.
 *
 * Attempts that have ended become runs soon after, before their samples are too old
 * to be kept; every so often all runs are analysed. Both happen on another thread
 * with a handle of its own on the database, one at a time, so that no tick waits.
 * A failure is logged when it begins and when it is over, and all is tried again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "query/query.h"

struct learner;

/* Both functions are called inside the loop, and not after learner_leave(). */
struct learner_options {
	struct loop *loop;
	const char *db; /* borrowed */
	/* A pattern is new, or has another state: see struct learning_change. */
	void (*on_news)(void *ctx, const struct pattern *pattern, uint64_t uid);
	/* An analysis has ended. Of one that has failed l is NULL, and err says why. */
	void (*on_analysis)(void *ctx, uint64_t num, const struct learning *l,
			    const struct err *err);
	void *ctx;
	unsigned interval_minutes;
	size_t min_jobs; /* see learning_init() */
};

/* Begins with what has ended while nobody looked. NULL: no memory. */
struct learner *learner_new(const struct learner_options *options);

void learner_set(struct learner *l, unsigned interval_minutes, size_t min_jobs);

/* An attempt has ended. */
void learner_note_end(struct learner *l);

/* An analysis of all that has ended by now, at once. Returns its number for on_analysis. */
uint64_t learner_analyze_now(struct learner *l);

/* From now on nothing is begun or told; what goes on ends as soon as it can. NULL is fine. */
void learner_leave(struct learner *l);

/* After loop_free(), which waits for what goes on. NULL is fine. Returns NULL. */
struct learner *learner_free(struct learner *l);

/* ---- when the next analysis is due ---- */

/*
 * The first one is due after one interval, each other one interval after the last, and after a
 * failure soon. Times are of a clock that is never set.
 */
#define LEARN_RETRY_NS UINT64_C(60000000000)

struct learn_plan {
	uint64_t interval_ns; /* may change: the time since the last one counts */
	uint64_t since_ns;    /* the end of the last one; before the first, the beginning */
	bool is_failing;
};

void learn_plan_begin(struct learn_plan *p, unsigned interval_minutes, uint64_t now_ns);

/* 0: it is due. */
uint64_t learn_plan_wait_ns(const struct learn_plan *p, uint64_t now_ns);

/* One has ended. Returns whether it has failed and the one before has not, or the other way. */
bool learn_plan_note_end(struct learn_plan *p, bool has_failed, uint64_t now_ns);
