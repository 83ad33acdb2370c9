/*
 * learn_plan - when the runs are to be analysed next.
 *
 * The first time after one interval, then again and again. After a failure it is
 * tried again soon. Times are of a clock that nobody sets.
 */
#ifndef PROCTOR_DAEMON_LEARN_PLAN_H
#define PROCTOR_DAEMON_LEARN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define LEARN_RETRY_NS UINT64_C(60000000000)

struct learn_plan {
	uint64_t interval_ns;
	uint64_t since_ns; /* when the last one ended; before that, when we began */
	bool is_failing;
};

void learn_plan_begin(struct learn_plan *p, unsigned interval_minutes, uint64_t now_ns);

/* From now on; what has passed since the last one counts. */
void learn_plan_set_interval(struct learn_plan *p, unsigned interval_minutes);

/* 0: it is due. */
uint64_t learn_plan_wait_ns(const struct learn_plan *p, uint64_t now_ns);

/* One has ended. True if that is news: it fails now and did not before, or the other way. */
bool learn_plan_note_end(struct learn_plan *p, bool has_failed, uint64_t now_ns);

#endif
