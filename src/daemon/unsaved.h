/*
 * unsaved - anomalies on their way into the record.
 *
 * What cannot be written now, as the database is locked or its disk full, waits, and is written
 * before what comes after it: each change as it was told. It is bounded: the oldest go first, and
 * are counted.
 */
#ifndef PROCTOR_DAEMON_UNSAVED_H
#define PROCTOR_DAEMON_UNSAVED_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/evidence_trace.h"
#include "model/anomaly.h"
#include "store/store.h"

#define UNSAVED_MAX 256 /* about 10 KB each */

/* All zero: none waits. */
struct unsaved {
	struct waiting_episode *first, *last;
	size_t n;
	struct evidence_trace *trace; /* gets the name that its episode has in the record; NULL */
	struct late_evidence *late;   /* of one that is in the record; NULL: none waits */
	uint64_t n_lost; /* for want of room or memory, or that no database will ever take */
};

void unsaved_release(struct unsaved *w);

/* As store_tell_anomaly(); what fails waits, and *ret is left as it is. store NULL: all wait. */
int unsaved_write(struct unsaved *w, struct store *store, const struct anomaly_news *news,
		  struct anomaly_identity *ret, struct err *err);

/*
 * As store_set_evidence(), of one that may wait itself: then it goes with that. What the database
 * does not take now waits, the last of them.
 */
int unsaved_set_evidence(struct unsaved *w, struct store *store, const char *episode,
			 const struct anomaly_evidence *evidence, struct err *err);

/* The attempt is in the record now: those of a job that waited for it are of that. */
void unsaved_set_attempt(struct unsaved *w, int64_t attempt_id);

/* Those that wait, until the boot clock says so, at least one (U64_UNKNOWN: all). */
int unsaved_retry(struct unsaved *w, struct store *store, uint64_t until_boot_ns, struct err *err);

#endif
