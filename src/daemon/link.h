/*
 * link - a runner's connection to the daemon, if one runs.
 *
 * As long as it is there, and the daemon says so, the daemon writes the ticks of
 * the job. When it breaks, for whatever reason, the runner does so again by
 * itself: a daemon can come and go at any time.
 */
#ifndef PROCTOR_DAEMON_LINK_H
#define PROCTOR_DAEMON_LINK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"
#include "model/job.h"

struct link;

/* Looks for no daemon yet. NULL: no memory. */
struct link *link_new(struct loop *loop);
struct link *link_free(struct link *link);

/*
 * Says that the attempt runs and is recorded in this file, unless that was said, or
 * tried less than some seconds ago. Takes a few milliseconds at most.
 */
void link_greet(struct link *link, const struct attempt *a, dev_t device, ino_t inode);

/* Whether the daemon writes the ticks. */
bool link_records(const struct link *link);

/* Something about the job has changed in the database. Nobody waits for an answer. */
void link_tell_changed(struct link *link);

#endif
