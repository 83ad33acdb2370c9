/*
 * bytes - an amount of memory for people: "312 MB", "1.5 GB". A MB has 1024 x 1024 bytes.
 */
#ifndef PROCTOR_BASE_BYTES_H
#define PROCTOR_BASE_BYTES_H

#include <stdint.h>

#include "base/buf.h"

/* "-" for U64_UNKNOWN. */
void bytes_add_text(struct buf *out, uint64_t bytes);

#endif
