/*
 * disk - files in memory that fail as real ones do.
 *
 * What is written is seen by all at once, and is on the "disk" after a sync, or by chance. A power
 * cut leaves a random part of what was not synced: writes in any order, torn at sectors; names that
 * were made or removed, or not. A failing sync loses a random part for good, while it is still
 * seen.
 */
#ifndef PROCTOR_TESTS_SIMULATE_DISK_H
#define PROCTOR_TESTS_SIMULATE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/log.h"

struct disk;

struct dice {
	uint64_t state;
};
uint64_t dice_roll(struct dice *dice);
bool dice_chance(struct dice *dice, unsigned one_in); /* 0: never */
size_t dice_below(struct dice *dice, size_t n);

/* A process that uses the disk. Calls of one that is dead do nothing and fail. */
struct actor {
	struct disk *disk;
	bool is_dead;
	unsigned kill_one_in;	    /* calls; 0: it is not killed */
	void (*between)(void *ctx); /* other processes may run within any call */
	void *ctx;
};

struct disk *disk_new(struct dice *dice);
void disk_free(struct disk *disk);
struct log_fs disk_fs(struct actor *actor);

/* The locks and files of a process that ended. */
void disk_end(struct disk *disk, struct actor *actor);
void disk_cut_power(struct disk *disk);
void disk_set_room(struct disk *disk, size_t bytes); /* for what is not reserved */
void disk_set_sync_failures(struct disk *disk, unsigned one_in);
bool disk_holds_lock(struct disk *disk, const struct actor *actor);
size_t disk_count_files(struct disk *disk);

#endif
