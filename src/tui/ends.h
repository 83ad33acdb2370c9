/*
 * ends - when anomalies of the record were over, also those whose end nobody wrote down.
 *
 * One that lasts is closed by who saw it begin. A run that was killed closes nothing; what it
 * saw ended with it at the latest.
 */
#ifndef PROCTOR_TUI_ENDS_H
#define PROCTOR_TUI_ENDS_H

#include "base/map.h"
#include "store/store.h"

/* All zeros is empty. */
struct ends {
	struct map attempts; /* when each ended */
};

void ends_release(struct ends *ends);

/* An attempt that has ended, or runs. -ENOMEM. */
int ends_add(struct ends *ends, const struct attempt *a);

/*
 * When it was told that it is over: of a kill that is when no other had followed, and until then it
 * counts. The row is one with its changes. U64_UNKNOWN: it lasts, as far as is known.
 */
uint64_t ends_of_anomaly(const struct ends *ends, const struct anomaly_row *row);

#endif
