/*
 * learner - learns from what has ended while a loop goes on with its work.
 *
 * Attempts that have ended become runs soon after, before their samples are too old
 * to be kept; every so often all runs are analysed. Both happen on another thread
 * with a handle of its own on the database, one at a time, so that no tick waits.
 * A failure is logged when it begins and when it is over, and all is tried again.
 */
#ifndef PROCTOR_DAEMON_LEARNER_H
#define PROCTOR_DAEMON_LEARNER_H

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "daemon/learning.h"

struct learner;

/* Both are called inside the loop, and not after learner_leave(). */
struct learner_listener {
	/* Something new is believed, or no more: see learn_news.h for uid. */
	void (*on_news)(void *ctx, const struct pattern *pattern, uint64_t uid);
	/* An analysis has ended. Of one that has failed l is NULL, and err says why. */
	void (*on_analysis)(void *ctx, uint64_t num, const struct learning *l,
			    const struct err *err);
	void *ctx;
};

struct learner_options {
	struct loop *loop;
	const char *db; /* borrowed */
	struct learner_listener listener;
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

#endif
