#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

/*
 * failure - what SQLite says, as an errno and a sentence that helps.
 */

#define ADVICE_DAMAGED \
	"run \"proctor doctor --repair\", which moves it aside so that a new one can begin; \"sqlite3 FILE .recover\" (or .dump) may still read what is in it"

/* The errno of the last failure on the handle; err gets a sentence with the path and what to do. */
int store_failure(struct store *store, struct err *err);

/* The errno for which the file or its folder cannot be written; 0 if they can. */
int store_write_obstacle(const char *path);

/* -EBADMSG: something in it (what) is not as it was written. */
int store_damaged(const struct store *store, const char *what, struct err *err);

/* -ENOMEM, with a sentence. */
int store_no_memory(const struct store *store, struct err *err);

/*
 * damage - what of the recorded bytes makes no sense, while the rest is read.
 *
 * Who meets such a piece says so here and goes on without it; store_tell_damage() is
 * where it comes out. On a connection of others there is nobody to tell: their statement
 * fails instead.
 */

enum damage_kind {
	DAMAGED_TICKS,	 /* id: of the tick, or of a fold for all of its ticks */
	DAMAGED_SAMPLES, /* of a process; id: of the chunk, or of the tick */
	DAMAGED_THINGS,	 /* the host's values, GPUs, progress and cgroups of a tick; id: of the tick
			  */
	DAMAGED_CURVE,	 /* the points of an attempt in a fold; id: of the fold */
	DAMAGED_MINUTES, /* of a process in an hour; id: of the rollup */
	DAMAGED_EVENTS,	 /* of an attempt's processes, or of a type that a newer version has */
	DAMAGED_ANOMALIES, /* the same */
	DAMAGED_ATTEMPTS,  /* id: of the attempt; 0: not even that can be read */
	N_DAMAGE_KINDS,
};

struct damage {
	enum damage_kind kind;
	int64_t id;	  /* of the row: however often it is met, it is counted once */
	int64_t recorder; /* the attempt that it is of; 0: unknown */
	uint64_t n;
	int64_t first_ns, last_ns;
};

/* All that was met and not told yet; zeroed at first. */
struct damages {
	struct damage *items;
	size_t n, cap;
	uint64_t n_more; /* that there was no room for */
};
void damages_release(struct damages *d);

/* 0: go on without it. -EBADMSG: fail. */
int damage_leave_out(struct store *store, const struct damage *d, struct err *err);

/* Whether all of it may be what a newer version has written: no damage to this file is certain. */
bool damages_may_be_newer(const struct damages *d);

/* Takes over what another list has. */
void damages_add(struct damages *d, const struct damages *more);

/* In words: "3 ticks of job j, attempt 1 (from … to …)". Inside a transaction. */
void damages_write(struct store *store, const struct damages *d, struct buf *out);
