/*
 * spool_record - how an attempt ended, as the bytes that wait in the spool (spool.h).
 *
 * What store_begin_attempt() and store_finish_attempt() write of it, but for processes and events
 * other than those of whom it has left. A record says which columns it has: what it lacks is
 * unknown, what is not known here is left out.
 */
#ifndef PROCTOR_STORE_SPOOL_RECORD_H
#define PROCTOR_STORE_SPOOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "model/job.h"

/* is_bare: without sheets, notes, rungs and whom it has left. -ENOMEM. */
int spool_record_write(const struct attempt *a, bool is_bare, struct buf *out);

/*
 * Into one that attempt_init() has made, and attempt_release() ends. -EBADMSG: no record of this
 * format. -ENOMEM.
 */
int spool_record_read(const void *bytes, size_t len, struct attempt *ret);

#endif
