/*
 * admit - whether a job may start now.
 *
 * What the running jobs may still come to need, what the new one is expected to
 * need, and the pressure the host is under already must leave room. Jobs without
 * a history count with what they use: nobody knows more.
 */
#ifndef PROCTOR_LEARN_ADMIT_H
#define PROCTOR_LEARN_ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learn/pressure.h"
#include "model/estimate.h"

#define ADMIT_REASON_BYTES 192

enum admit_decision { ADMIT, ADMIT_DELAY, ADMIT_REJECT };
const char *admit_name(enum admit_decision decision); /* "admit", "delay", "reject" */

struct admit_running {
	double rss_mb;				    /* now; NaN: unknown, taken for 0 */
	double estimated_peak_mb;		    /* NaN: no data */
	double estimated_wall_seconds, age_seconds; /* NaN: unknown */
};

struct admit_question {
	const struct estimate *job;
	const struct admit_running *running;
	size_t n_running;
	const struct pressure *pressure;
	double limit_mb, used_mb; /* of the host's memory; NaN: unknown */
};

struct admit_answer {
	enum admit_decision decision;
	unsigned delay_seconds; /* ask again then; or, admitted, wait so long before a sheet */
	double headroom_mb;	/* that is left with the job; NaN: cannot be told */
	bool is_for_good;	/* rejected, and will be for as long as the limit stays */
	char reason[ADMIT_REASON_BYTES];
};

void admit_decide(const struct admit_question *question, struct admit_answer *ret);

#endif
