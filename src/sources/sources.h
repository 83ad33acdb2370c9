/*
 * sources - reads what the kernel says and fills snapshots with it.
 *
 * The collector reads below a root directory fd, so a captured tree is as good
 * as the live machine. A process that vanishes while it is read is left out, a
 * file that is missing or forbidden leaves its values unknown, and nothing
 * aborts a snapshot. Not thread-safe: one collector, one thread.
 *
 *	collector_scan(c, snap);      the host, and of every process what stat says
 *	tree_assign(tree, snap);      (jobs/) which belong to a job
 *	collector_fill(c, snap, …);   everything else, for those asked for
 */
#ifndef PROCTOR_SOURCES_SOURCES_H
#define PROCTOR_SOURCES_SOURCES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/mask.h"
#include "model/job.h"
#include "model/snapshot.h"

struct collector;

struct collector_options {
	int root_fd;		 /* "/" or a captured tree; borrowed for the collector's life */
	const struct mask *mask; /* borrowed; NULL shows command lines as they are */
	long clock_ticks;	 /* per second; 0: this machine's */
	long page_bytes;	 /* 0: this machine's */
	uint64_t (*now_boot_ns)(void); /* NULL: the real clock; a captured tree brings its own */
	uint64_t (*now_wall_ns)(void);
};

int collector_new(const struct collector_options *options, struct collector **ret, struct err *err);
struct collector *collector_free(struct collector *c);

/*
 * Empties the snapshot, then fills the host's values and one sample per
 * process with what proc/PID/stat gives: identity, parent, state, comm, CPU
 * times and percent, faults, threads, age. Fails only without /proc or memory.
 */
int collector_scan(struct collector *c, struct snapshot *s, struct err *err);

/*
 * The rest (command, memory, I/O, switches, fds, limits, user, cgroup) for the
 * processes in scope. Processes that have vanished since the scan keep what
 * they have.
 */
int collector_fill(struct collector *c, struct snapshot *s, enum snapshot_scope scope);

/* ---- births and deaths, as the kernel tells them ---- */

enum life_type { LIFE_FORK, LIFE_EXEC, LIFE_EXIT };

struct life_event {
	enum life_type type;
	pid_t pid;	  /* of the process (thread group), never of a single thread */
	pid_t parent_pid; /* LIFE_FORK, LIFE_EXIT: of the parent; else 0 */
	uint64_t wall_ns;
	int wait_status; /* LIFE_EXIT: as wait4() would give it */
};

struct life;
typedef void life_handler(void *ctx, const struct life_event *ev);

/*
 * Begins to listen: from here on every fork, exec and exit of the host is
 * queued. -EPERM, -EOPNOTSUPP…: not on this machine or not for this user, and
 * err says why in one sentence.
 */
int life_open(struct life **ret, struct err *err);
struct life *life_close(struct life *life);

/* Becomes readable when events wait. */
int life_fd(const struct life *life);

/* Hands over all that wait, oldest first. Returns how many events the kernel had to drop (0: none
 * lost), or -errno. */
int64_t life_drain(struct life *life, life_handler *fn, void *ctx);

/* ---- what works here ---- */

#define SOURCES_MAX_RUNGS 8

/*
 * The rung that this user gets on this machine for each measurement, and why
 * not a better one. Fills up to SOURCES_MAX_RUNGS rows, returns how many. The
 * strings are constants or live in the arena.
 */
size_t sources_probe_rungs(int root_fd, struct arena *arena, struct rung *ret);

#endif
