/*
 * queue_file - a queued job as a file: a line that says what and whose it is, and
 * the job file as it came. What its name ends with says whether it was started.
 */
#ifndef PROCTOR_DAEMON_QUEUE_QUEUE_FILE_H
#define PROCTOR_DAEMON_QUEUE_QUEUE_FILE_H

#include "daemon/queue/queue.h"

#define QUEUE_WAITING ".yaml"
#define QUEUE_STARTED ".started"
#define QUEUE_FILE_MAX_BYTES (16 << 20)

/* Whether the name is that of a queued job. */
bool queue_file_is_one(const char *name);

/* Complete and safe on the disk when it returns, or not there. -EMSGSIZE: it is too large. */
int queue_file_write(const char *path, const struct submission *job, uint64_t id, uint64_t wall_ns,
		     struct err *err);

/* -EBADMSG, -EINVAL: it is none of ours. */
int queue_file_read(const char *path, struct queued **ret, struct err *err);
void queued_free(struct queued **job);

#endif
