/*
 * write - what writing an attempt and taking one in have in common.
 */
#ifndef PROCTOR_STORE_WRITE_H
#define PROCTOR_STORE_WRITE_H

#include <stdint.h>

#include "store/query.h"

/* The id of the row with this text, which is added if there is none. Inside a transaction. */
int text_intern(struct store *store, enum statement find, enum statement add, const char *text,
		int64_t *ret, struct err *err);

#endif
