/*
 * evidence - what is found out about the culprit when an anomaly begins.
 */
#ifndef PROCTOR_RECORDER_EVIDENCE_EVIDENCE_H
#define PROCTOR_RECORDER_EVIDENCE_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mask.h"
#include "model/anomaly.h"
#include "model/snapshot.h"
#include "recorder/evidence/around.h"
#include "recorder/evidence/closer.h"
#include "recorder/evidence/evidence_trace.h"

/* Where to look; all of it borrowed. */
struct evidence_from {
	int root_fd;
	const struct mask *mask;     /* NULL: names are shown as they are */
	const struct snapshot *snap; /* in which it began */
	uint64_t uid;		     /* who will be told */
};

/*
 * The open files and the system calls of the episode's process. What nobody can tell stays
 * unknown. False: nothing was found out, as it is of no process, or that is gone, or is not for
 * that user to hear of (may_see.h).
 */
bool evidence_gather(const struct evidence_from *from, const struct episode *e,
		     struct anomaly_evidence *ret);

#endif
