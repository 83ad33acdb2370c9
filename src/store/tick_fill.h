/*
 * tick_fill - a snapshot becomes the words of a tick.
 */
#ifndef PROCTOR_STORE_TICK_FILL_H
#define PROCTOR_STORE_TICK_FILL_H

#include <stddef.h>

#include "store/handle.h"

/* w->now, which is empty, from the record, with n of the listed processes. -ENOMEM. */
int tick_fill(struct tick_writing *w, const struct tick_record *record, size_t n);

#endif
