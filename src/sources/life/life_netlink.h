/*
 * life_netlink - what the rung on the proc connector keeps in mind: losses, owners, threads.
 */
#ifndef PROCTOR_SOURCES_LIFE_LIFE_NETLINK_H
#define PROCTOR_SOURCES_LIFE_LIFE_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "sources/life/life_wire.h"
#include "sources/sources.h"

/* ---- messages that the kernel dropped, counted by the gaps in their numbers ---- */

/* All zero is a good beginning. */
struct life_loss {
	struct life_loss_cpu {
		uint32_t next_seq;
		bool is_seen;
	} * cpus;
	size_t n_cpus;
	uint64_t missing;    /* not yet told */
	uint64_t told_early; /* told by life_loss_take() before the gap showed */
	bool has_overflow;
};

void life_loss_release(struct life_loss *loss);

/*
 * A message has come. The first of each CPU sets where counting begins. True if
 * some are missing right before it.
 */
bool life_loss_see(struct life_loss *loss, uint32_t cpu, uint32_t seq);

/* The socket said that it overflowed: something is missing, even if no gap shows it yet. */
void life_loss_overflow(struct life_loss *loss);

/* How many are missing since the last call. */
uint64_t life_loss_take(struct life_loss *loss);

/*
 * ---- the user that alone owns a followed process, by the proc connector ----
 *
 * Who starts another hands it on, and a program that is set-user-ID or set-group-ID makes its
 * process somebody else's as well, whatever it executes later. What is not known for sure is
 * unknown: after a loss that is everything. Three things are in no message: the saved user, so that
 * a process of root that has given away the two others and keeps that one looks like that user's;
 * the capabilities of a program's file; and who has really made a child that is to be its parent's
 * (CLONE_PARENT).
 */

/* All zero is a good beginning. */
struct life_owners {
	struct map by_pid; /* pid -> uid */
};

void life_owners_release(struct life_owners *o);

/* Messages were lost. */
void life_owners_forget(struct life_owners *o);

/* From now on, and who it starts. */
void life_owners_follow(struct life_owners *o, pid_t pid, uint64_t uid);

/* Takes the next message. */
void life_owners_feed(struct life_owners *o, const struct life_raw *raw);

/* Of a process that has ended, once: U64_UNKNOWN, or whose alone it was. */
uint64_t life_owners_take(struct life_owners *o, pid_t pid);

/*
 * ---- the death of a process, as distinct from the death of one of its threads ----
 *
 * The kernel reports the end of each thread. A process is over when its last
 * thread is, and that need not be the first one: the first may end early, and
 * when another thread executes a program, the kernel ends the first and lets the
 * other take over its id, which looks like a death and is none. So this counts
 * the threads it saw begin. Of processes older than itself it knows no threads
 * and takes the end of the first for the end.
 */

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
