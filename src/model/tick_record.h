/*
 * tick_record - one tick of an attempt, as the bytes of a frame (RECORD_TICK).
 *
 * A tick is the values of the host, the attempt's point and the samples of its processes: all that
 * store_write_tick() stores of a snapshot. The first tick after a key (RECORD_BEGIN) is whole, and
 * one now and then; each later one has what differs from that one, not from the one before it.
 *
 * What a process is called (command, sheet, rank, cgroup, ...) is a description. Descriptions have
 * numbers, from 1 at each whole tick, and stand in the tick that first needs them; who is called
 * something else from then on has another one. So a tick that is lost costs itself, and those up to
 * the next whole one that need a description which it had.
 *
 * Bytes may be damaged or hostile: no byte outside them is looked at.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "model/job.h"
#include "model/snapshot.h"

/* Of one log. */
struct tick_writer;
struct tick_writer *tick_writer_new(void);		     /* NULL: no memory */
struct tick_writer *tick_writer_free(struct tick_writer *w); /* NULL is fine. Returns NULL. */

/* A RECORD_BEGIN was written: the next tick is whole. So is the first. */
void tick_writer_begin_key(struct tick_writer *w);

/*
 * Those processes of the snapshot that have a job_id, whichever it is. out is reset first.
 * point NULL: the attempt has none. After -ENOMEM the next is whole. Where the frame could not be
 * appended to the log, a key has to follow, as for any frame that is lost (log_wants_key()).
 */
int tick_writer_write(struct tick_writer *w, const struct snapshot *snap,
		      const struct series_point *point, struct buf *out);

/* Of one log, from a RECORD_BEGIN on. */
struct tick_decoder;
struct tick_decoder *tick_decoder_new(void);			/* NULL: no memory */
struct tick_decoder *tick_decoder_free(struct tick_decoder *d); /* NULL is fine. Returns NULL. */

/* All that it reads is another user's: texts are made printable. */
void tick_decoder_distrust(struct tick_decoder *d);

/* A RECORD_BEGIN was read. */
void tick_decoder_begin_key(struct tick_decoder *d);

/*
 * ret is reset first; all its processes are of this job. ret_point is all unknown where the attempt
 * has none. ret and ret_point NULL: the tick is stored already, and only what later ones need of it
 * is kept. -EBADMSG: ret is empty; later ones that refer to it are refused too. -ENOMEM.
 */
int tick_decoder_read(struct tick_decoder *d, const void *bytes, size_t n, const char *job_id,
		      struct snapshot *ret, struct series_point *ret_point);
