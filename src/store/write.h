/*
 * write - what writing an attempt and taking one in have in common.
 */
#ifndef PROCTOR_STORE_WRITE_H
#define PROCTOR_STORE_WRITE_H

#include <stdint.h>

#include "model/job.h"
#include "store/query.h"

/* The rows that an attempt's names have. */
struct attempt_names {
	int64_t job;
	int64_t boot; /* 0: unknown */
};

/* All of it inside a transaction. Names that are not there are added. */
int attempt_intern(struct store *store, const struct attempt *a, struct attempt_names *ret,
		   struct err *err);
void attempt_bind_names(struct query *q, const struct attempt_names *names);

/* Returns with the new row's id and number. */
int attempt_add(struct store *store, const struct attempt *a, const struct attempt_names *names,
		int64_t *ret_id, int *ret_num, struct err *err);

/* How the one with a->id ended, and no more: what must not be lost. */
int attempt_write_end(struct store *store, const struct attempt *a, struct err *err);

#endif
