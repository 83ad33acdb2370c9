/*
 * detect_history - what would have been found in what was recorded, with other thresholds.
 *
 * Each attempt is looked at by itself, as whoever recorded it saw it, and the host once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "detect/detect.h"
#include "model/anomaly.h"
#include "store/store.h"

struct found {
	int attempt_num; /* 0: of none */
	struct episode episode;
};

/* All zeros is empty. */
struct found_list {
	struct found **items; /* by when they began */
	size_t n, cap;
	uint64_t n_snapshots; /* that were looked at */
	struct detect_looks looks[N_ANOMALY_TYPES];
};

void found_list_release(struct found_list *list);

/* What could not be judged, or not fully, a line each, and why; nothing where all could: who reads
 * nothing of a type is to know whether there was nothing. */
void found_list_log_unjudged(const struct found_list *list);

struct detect_period {
	const char *job_id;		       /* NULL: all, and the host */
	uint64_t since_wall_ns, until_wall_ns; /* until 0: now */
};

int detect_history(struct store *store, const struct config_anomaly *config,
		   const struct detect_period *period, struct found_list *ret, struct err *err);
