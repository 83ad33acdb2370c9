/*
 * detect_history - what would have been found in what was recorded, with other thresholds.
 *
 * Each attempt is looked at by itself, as whoever recorded it saw it, and the host once.
 */
#ifndef PROCTOR_CLI_DETECT_HISTORY_H
#define PROCTOR_CLI_DETECT_HISTORY_H

#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "cli/detect_found.h"
#include "store/store.h"

struct detect_period {
	const char *job_id;		       /* NULL: all, and the host */
	uint64_t since_wall_ns, until_wall_ns; /* until 0: now */
};

int detect_history(struct store *store, const struct config_anomaly *config,
		   const struct detect_period *period, struct found_list *ret, struct err *err);

#endif
