/*
 * open_fold_internal - what open_fold.c has read, for open_fold_tell.c to tell.
 */
#ifndef PROCTOR_STORE_OPEN_FOLD_INTERNAL_H
#define PROCTOR_STORE_OPEN_FOLD_INTERNAL_H

#include "store/damage.h"
#include "store/open_fold.h"
#include "store/process.h"

#define NO_ROW 255

/* A process of a fold, and its rows. */
struct fold_process {
	struct process process;
	uint8_t row_of[CODEC_ROWS]; /* of each tick of the fold; NO_ROW */
	uint64_t (*rows)[SAMPLE_WORDS];
	struct fold_calls *calls; /* NULL: nobody counted them, or they were not asked for */
};

/* Of what is damaged no more is known than of the whole fold: when it was. */
int open_fold_leave_out(struct store *store, const struct open_fold *fold, enum damage_kind kind,
			int64_t id, uint64_t n, struct err *err);

#endif
