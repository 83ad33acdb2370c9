/*
 * retain - the stages of retention; see retention.h for what it is, retention.c for
 * their order.
 *
 * A stage works until it has nothing left (0) or the slice is over (1). It runs inside
 * a transaction that writes.
 */
#ifndef PROCTOR_STORE_RETAIN_H
#define PROCTOR_STORE_RETAIN_H

#include "store/query.h"
#include "store/retention.h"

/* A slice that is being worked at. */
struct slice {
	struct store *store;
	struct retention *run;
	uint64_t deadline_ns; /* on the boot clock */
	bool is_begun;	      /* something was done: however late it is, every slice does */
	bool is_for_room;     /* stop when the database is small enough */
};
typedef int stage_fn(struct slice *slice, struct err *err);

/* Asked before each piece of work. 1: go on. 0: the time is up, or there is room enough. */
int slice_goes_on(struct slice *slice, struct err *err);

/* How many rows go between two looks at the clock: n_rows, or fewer where the disk is full. */
#define BATCH_ROWS 100
int64_t slice_batch(const struct slice *slice, int64_t n_rows);

/* Times in the file's integers. What is older than an age begins before it. */
int64_t retain_cutoff_ns(uint64_t now_wall_ns, unsigned n, uint64_t unit_ns);
int64_t retain_full_cutoff(const struct retention *run);
int64_t retain_minutes_cutoff(const struct retention *run);
int64_t retain_curves_cutoff(const struct retention *run); /* not before their samples */
int64_t retain_events_cutoff(const struct retention *run);

/* Whether the wall clock is believed (retain_clock.c). Not inside a transaction. */
stage_fn retain_judge_clock;

/* For who makes a database: what the clocks say then. SQLite's result code. */
int retain_note_clock(sqlite3 *db);
/* Inside a transaction: sets run->held_until_ns as that would, and notes nothing. */
int retain_foresee_hold(struct store *store, struct retention *run, struct err *err);

/* What shows an anomaly at full resolution is copied to it (retain_evidence.c): where to begin, and
 * doing it. The same. */
stage_fn retain_find_evidence, retain_keep_evidence;

/* Keys of meta: the largest id that a tick has had, of those that are gone… */
#define META_LAST_TICK "last_tick"
/* …and since when there are all: "events_gone_ns", "curves_gone_ns". */
#define META_EVENTS_GONE "events_gone_ns"
#define META_ANOMALIES_GONE "anomalies_gone_ns"
#define META_SECONDS_KEPT "seconds_kept_ns" /* retain_keep_evidence() has seen all by then */
#define META_CURVES_GONE "curves_gone_ns"
#define META_RETAINED "retained_ns" /* when all this was done last */
int meta_read(struct store *store, const char *key, int64_t *ret, struct err *err); /* 0: unset */
int meta_write(struct store *store, const char *key, int64_t value, struct err *err);
int meta_raise(struct store *store, const char *key, int64_t value, struct err *err);

/* What a statement without parameters counts. */
int retain_count(struct store *store, enum statement id, int64_t *ret, struct err *err);
int space_read(struct store *store, uint64_t *ret_file_bytes, uint64_t *ret_used_bytes,
	       struct err *err);

/* What counts beside the database: what waits for it, and the log of snapshots. */
uint64_t space_beside(const struct store *store, const struct retention_policy *policy);

/*
 * SQLite's own log. It does not count: removing rows makes it longer, and while somebody
 * reads it cannot be shortened. So nothing is ever removed because of it.
 */
uint64_t space_of_wal(const struct store *store);

/* ---- by age ---- */

/* Samples of folds that ended before the cutoff, or were begun, become minutes (retain_roll.c). */
int retain_roll(struct slice *slice, int64_t cutoff_ns, struct err *err);

/* What ended before the cutoff goes (retain_drop.c). */
int retain_drop_minutes(struct slice *slice, int64_t cutoff_ns, struct err *err);
int retain_drop_curves(struct slice *slice, int64_t cutoff_ns, struct err *err);
int retain_drop_events(struct slice *slice, int64_t cutoff_ns, struct err *err);
int retain_drop_anomalies(struct slice *slice, int64_t cutoff_ns, struct err *err);
/* Of those that are over, only; the seconds of others that began before go alone. */
int retain_drop_over_anomalies(struct slice *slice, int64_t cutoff_ns, struct err *err);
int retain_drop_seconds(struct slice *slice, int64_t cutoff_ns, struct err *err);

/* ---- for room (retain_room.c): in this order, and only while there is too little ---- */

stage_fn room_begin, room_logs, room_count_events, room_many_events, room_samples, room_minutes,
	room_curves, room_seconds, room_events, room_anomalies, room_phases, room_processes,
	room_attempts, room_end;

#endif
