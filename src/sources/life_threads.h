/*
 * life_threads - tells the death of a process from the death of one of its threads.
 *
 * The kernel reports the end of each thread. A process is over when its last
 * thread is, and that need not be the first one: the first may end early, and
 * when another thread executes a program, the kernel ends the first and lets the
 * other take over its id, which looks like a death and is none. So this counts
 * the threads it saw begin. Of processes older than itself it knows no threads
 * and takes the end of the first for the end.
 */
#ifndef PROCTOR_SOURCES_LIFE_THREADS_H
#define PROCTOR_SOURCES_LIFE_THREADS_H

#include <stdbool.h>

#include "base/map.h"
#include "sources/life_loss.h"
#include "sources/life_wire.h"
#include "sources/sources.h"

struct life_threads {
	struct map extra;     /* pid -> threads beside the first, and whether that has ended */
	unsigned n_forgotten; /* how often all of it was */
};

#define LIFE_THREADS_INIT   \
	{                   \
		MAP_INIT, 0 \
	}

void life_threads_release(struct life_threads *t);

/* Messages were lost: counts that may be wrong are worse than none. Once per loss is enough. */
void life_threads_forget(struct life_threads *t);

/*
 * Takes the next message, after noting its number in loss: where some are
 * missing before it, it forgets. True if the message tells of a whole process:
 * then *ret says what (all but wall_ns).
 */
bool life_threads_feed(struct life_threads *t, struct life_loss *loss, const struct life_raw *raw,
		       struct life_event *ret);

#endif
