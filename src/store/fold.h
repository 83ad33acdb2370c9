/*
 * fold - ticks of an attempt become a fold: one chunk per process, column by
 * column, which takes a tenth of the room.
 */
#ifndef PROCTOR_STORE_FOLD_H
#define PROCTOR_STORE_FOLD_H

#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

/* So many ticks, or so many bytes of them (what many processes bring), make a fold. */
#define FOLD_TICKS 120
#define FOLD_BYTES (4 << 20)

/* A chunk's id is fold << CHUNK_BITS | process. */
#define CHUNK_BITS 30
#define CHUNK_PROCESS_MAX ((INT64_C(1) << CHUNK_BITS) - 1)

/* Folds the oldest ticks of the attempt, at most FOLD_TICKS. Inside a transaction. */
int fold_some(struct store *store, int64_t attempt_id, struct err *err);

/* All of them. */
int fold_all(struct store *store, int64_t attempt_id, struct err *err);

#endif
