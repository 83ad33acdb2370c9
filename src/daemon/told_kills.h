/*
 * told_kills - OOM kills of a run that its daemon has written down, for a runner that looks for
 * anomalies itself: the kernel tells the daemon who it was, and a runner only that there was one.
 *
 * Runs beside it tell of kills as well, which it finds in the count of the host, or of a cgroup
 * that they share: so many there were that need not be told again.
 *
 * The record is asked only when the host has counted a kill, and for some seconds after that.
 */
#ifndef PROCTOR_DAEMON_TOLD_KILLS_H
#define PROCTOR_DAEMON_TOLD_KILLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/store.h"

#define TOLD_KILLS_MAX 32

/* Begins as TOLD_KILLS_INIT. */
struct told_kills {
	struct proc_event items[TOLD_KILLS_MAX]; /* since the last look */
	size_t n;
	uint64_t n_elsewhere;	/* that other runs have told of since the last look */
	uint64_t host_kills;	/* the last known count; U64_UNKNOWN */
	uint64_t since_wall_ns; /* when it last rose */
	uint64_t until_boot_ns; /* so long the record is asked; 0: not at all */
	struct map known;	/* hashes of who was killed: a pid may be used again */
	struct map told;	/* hash of the name of an episode of another run -> its kills */
	struct arena arena;	/* of the strings */
};

#define TOLD_KILLS_INIT                                                         \
	{                                                                       \
		.host_kills = U64_UNKNOWN, .known = MAP_INIT, .told = MAP_INIT, \
		.arena = ARENA_INIT                                             \
	}

void told_kills_release(struct told_kills *t);

/* A kill that the runner knows of itself: no news. */
void told_kills_know(struct told_kills *t, const struct proc_key *key);

/* At each tick: forgets what the last look has found. True: the record is to be looked at. */
bool told_kills_are_due(struct told_kills *t, const struct attempt *a, const struct snapshot *snap);

/* What the record has of the attempt and of others. store NULL: it is tried at the next tick. */
void told_kills_look(struct told_kills *t, struct store *store, const struct attempt *a);

#endif
