/*
 * headcount - how many different processes samples have shown, and their CPU time,
 * in bounded memory.
 *
 * A process is told from another by pid, start time and boot. Where the start time
 * is unknown the pid decides. Up to HEADCOUNT_MAX are followed at a time; when there
 * are more, those that have not been seen for long are forgotten. One that comes
 * back after that, and those for which there is no room, are not counted: every
 * number is a lower bound.
 */
#ifndef PROCTOR_MODEL_HEADCOUNT_H
#define PROCTOR_MODEL_HEADCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/snapshot.h"

#define HEADCOUNT_MAX 65536

struct followed;

struct headcount {
	uint64_t n_processes;
	uint64_t n_pids; /* one that was used twice counts once; has no limit */

	/* The rest is its own. */
	char boot_id[BOOT_ID_BYTES];
	uint64_t tick;
	uint64_t cpu_ns;
	bool has_cpu;
	uint64_t *pids;	   /* a bit for each; the kernel gives memory to the parts that are used */
	struct map by_pid; /* -> index into followed */
	struct followed *followed;
	size_t n_followed, cap_followed;
	uint64_t swept_tick;
	uint64_t forgotten_ticks; /* the latest start of those forgotten; U64_UNKNOWN: none */
};

int headcount_init(struct headcount *h); /* -ENOMEM */
void headcount_release(struct headcount *h);

/* The next moment, not earlier than the one before. boot_id NULL or "": taken for the last one. */
void headcount_begin_tick(struct headcount *h, const char *boot_id);

/* A process was seen; cpu_ns: what it has used since its birth, or U64_UNKNOWN. -ENOMEM. */
int headcount_add(struct headcount *h, struct proc_key key, uint64_t cpu_ns);

/* Of each process the most that was seen, all together. U64_UNKNOWN: nothing was, or too much. */
uint64_t headcount_cpu_ns(const struct headcount *h);

#endif
