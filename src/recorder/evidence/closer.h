/*
 * closer - a closer look at one job for a while, as often as an anomaly wants it.
 *
 * One job at a time, and only so many looks in a minute: what flaps does not make the
 * looking expensive.
 */
#ifndef PROCTOR_RECORDER_EVIDENCE_CLOSER_H
#define PROCTOR_RECORDER_EVIDENCE_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/detect.h"

#define CLOSER_PER_MINUTE 3

struct closer {
	int64_t attempt_id; /* whose processes are looked at, while it lasts */
	double interval_seconds;
	uint64_t until_boot_ns;	 /* 0: nobody was looked at yet */
	uint64_t minute_boot_ns; /* when the minute began that n_in_minute is of */
	unsigned n_in_minute;
};

/* True: this job is looked at closer from now on, or was so already. */
bool closer_begin(struct closer *c, const struct detect_wish *wish, int64_t attempt_id,
		  uint64_t now_boot_ns);

bool closer_is_on(const struct closer *c, uint64_t now_boot_ns);

/*
 * How long to wait for the next look, if the last one took cost_ns of CPU: never so short that
 * the looking takes more than a fiftieth of a core.
 */
uint64_t closer_wait_ms(const struct closer *c, uint64_t cost_ns);

#endif
