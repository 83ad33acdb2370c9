/*
 * patience - waiting for another writer, no longer than the owner allows.
 *
 * It is for a whole call: what one lock has used up is not there for the next.
 */
#ifndef PROCTOR_STORE_PATIENCE_H
#define PROCTOR_STORE_PATIENCE_H

#include <stdbool.h>

#include "store/store.h"

#define PATIENCE_DEFAULT_MS 5000

void patience_renew(struct store *store); /* a call begins */

/* Sleeps for about a millisecond; false without doing so when the patience is used up. */
bool patience_wait(struct store *store);

#endif
