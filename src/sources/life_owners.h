/*
 * life_owners - whose alone processes are, of those that are followed, as the proc connector tells.
 *
 * Who starts another hands it on, and a program that is set-user-ID or set-group-ID makes its
 * process somebody else's as well, whatever it executes later. What is not known for sure is
 * unknown: after a loss that is everything. Three things are in no message: the saved user, so that
 * a process of root that has given away the two others and keeps that one looks like that user's;
 * the capabilities of a program's file; and who has really made a child that is to be its parent's
 * (CLONE_PARENT).
 */
#ifndef PROCTOR_SOURCES_LIFE_OWNERS_H
#define PROCTOR_SOURCES_LIFE_OWNERS_H

#include "base/map.h"
#include "sources/life_wire.h"

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

#endif
