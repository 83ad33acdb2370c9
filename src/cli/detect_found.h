/*
 * detect_found - the episodes that a search of the record has found, each once.
 */
#ifndef PROCTOR_CLI_DETECT_FOUND_H
#define PROCTOR_CLI_DETECT_FOUND_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "detect/detect.h"
#include "model/anomaly.h"

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

/* As it is now: one of that name is replaced. -ENOMEM. */
int found_list_keep(struct found_list *list, int attempt_num, const struct episode *e);

/* By when they began. */
void found_list_sort(struct found_list *list);

/* What could not be judged, or not fully, a line each, and why; nothing where all could. */
void found_list_add_unjudged(const struct found_list *list, struct buf *out);

#endif
