/*
 * spool_record - how an attempt ended, as the bytes that wait in the spool (spool.h).
 *
 * It has what store_begin_attempt() and store_finish_attempt() write, but for processes, and of the
 * events those of processes that live on. The bytes are those of model/record.h.
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
