/*
 * backlog - ticks that could not be stored yet: the database was locked, or its
 * disk full. They wait here, copied, and are stored before those that come after
 * them. It is bounded: the oldest go first, and are counted.
 */
#ifndef PROCTOR_DAEMON_BACKLOG_H
#define PROCTOR_DAEMON_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

#define BACKLOG_MAX_TICKS 600
#define BACKLOG_MAX_BYTES (8 << 20) /* a daemon has 24 MB in all; one tick may be larger */

struct waiting_tick {
	struct snapshot snap;	   /* of the jobs alone */
	struct tick_record record; /* of that; of its attempts only id and job_id are known */
	size_t bytes;		   /* that it takes, about */
	struct waiting_tick *next;
};

struct backlog {
	struct waiting_tick *first, *last;
	size_t n, bytes;
	uint64_t n_lost; /* for want of room */
};

void backlog_release(struct backlog *b);

/* Without its events. One that cannot be copied is lost, and counted. */
void backlog_add(struct backlog *b, const struct tick_record *record);

/*
 * Hands them out, oldest first and at least one, until the boot clock says so (U64_UNKNOWN: all):
 * whoever stores them has other things to do in time. 1: there are more. 0: there are none. A
 * failure of fn is returned, and that one waits on.
 */
typedef int backlog_fn(void *ctx, const struct tick_record *record, struct err *err);
int backlog_drain(struct backlog *b, uint64_t until_boot_ns, backlog_fn *fn, void *ctx,
		  struct err *err);

#endif
