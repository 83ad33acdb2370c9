/*
 * upkeep - keeps the database small while something else goes on: retention
 * (store/retention/retention.h), in short slices between ticks, at most once an hour. Where all
 * together is above max_bytes, at the beginning or under a new policy, or far above it, it does not
 * wait so long.
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"
#include "base/config.h"
#include "store/store.h"

struct upkeep;

/* Does nothing yet. jsonl_path (NULL or "": none) is borrowed. NULL: no memory. */
struct upkeep *upkeep_new(struct loop *loop, const struct config_retention *policy,
			  const char *jsonl_path);
struct upkeep *upkeep_free(struct upkeep *u);

/* From now on, also for what is going on. */
void upkeep_set_policy(struct upkeep *u, const struct config_retention *policy,
		       const char *jsonl_path);

/*
 * The database could not be opened or begun, for this error: on a full disk rotated logs above
 * max_bytes go, for which nobody needs it. True: some did, so that it can be tried again.
 */
bool upkeep_make_room(const struct upkeep *u, const char *db_path, int error);

/*
 * At every tick: begins if it is due, and ingests logs (store_take_in()). The store is used until
 * upkeep_leave().
 */
void upkeep_look(struct upkeep *u, struct store *store);

/* So much was above max_bytes when it was looked for last, a minute ago at most; or unknown. */
uint64_t upkeep_over_bytes(const struct upkeep *u);

/* Until when nothing goes for its age, as the clock has jumped ahead; 0: it has not. */
uint64_t upkeep_held_until_ns(const struct upkeep *u);

/* The store is about to be closed. What is left is done by who comes next. */
void upkeep_leave(struct upkeep *u);

/*
 * For a run, which opens no database: another process stores what all logs of it have, and does
 * what is due. Returns its pid; it ends by itself, within a minute, and whoever is not about to end
 * waits for it. -errno: there is none.
 */
pid_t upkeep_run_aside(const char *db_path, const struct config_retention *policy,
		       const char *jsonl_path);

/* What the configuration says, as the store takes it. */
struct retention_policy upkeep_policy(const struct config_retention *policy,
				      const char *jsonl_path);
