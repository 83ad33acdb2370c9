/*
 * learned_columns - like tables.h, for what is learned from runs.
 */
#ifndef PROCTOR_STORE_LEARNED_COLUMNS_H
#define PROCTOR_STORE_LEARNED_COLUMNS_H

#include "store/columns.h"

extern const struct columns run_owner_columns; /* struct run_record: whose it is; only read */
extern const struct columns run_columns;       /* the rest of it */
extern const struct columns pattern_columns;   /* struct pattern */
extern const struct columns estimate_columns;  /* struct estimate */
extern const struct columns score_columns;     /* struct estimate_score */

#endif
