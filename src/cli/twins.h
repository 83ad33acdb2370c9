/*
 * twins - how jobs are named where several attempts of one name are told of: "train#2".
 */
#ifndef PROCTOR_CLI_TWINS_H
#define PROCTOR_CLI_TWINS_H

#include "base/map.h"
#include "model/job.h"

/* All zeros is empty. */
struct twins {
	struct map nums; /* by attempt id */
	struct map jobs; /* by name: how many attempts */
};

#define TWINS_NAME_BYTES (JOB_ID_MAX + 16)

void twins_release(struct twins *t);

/* One more attempt that is told of; twice is once. -ENOMEM. */
int twins_add(struct twins *t, const struct attempt *a);

/* The number of an attempt; 0: it is not known. */
int twins_num(const struct twins *t, int64_t attempt_id);

/* The job, with its number behind it where there are others. In room, or job_id itself. t may be
 * NULL: then nothing is known of others. */
const char *twins_name(const struct twins *t, const char *job_id, int attempt_num,
		       char room[TWINS_NAME_BYTES]);

#endif
