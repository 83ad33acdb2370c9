/*
 * retain - the stages of retention; see retention.h for what it is, retention.c for
 * their order.
 *
 * A stage works until it has nothing left (0) or the slice is over (1). It runs inside
 * a transaction that writes, unless retention.c says otherwise.
 */
#pragma once

#include "store/query.h"
#include "store/retention/retention.h"

/* A slice that is being worked at. */
struct slice {
	struct store *store;
	struct retention *run;
	uint64_t deadline_ns; /* on the boot clock */
	bool is_begun;	      /* something was done: however late it is, every slice does */
	bool is_for_room;     /* stop when the database is small enough */
};
typedef int stage_fn(struct slice *slice, struct err *err);
typedef int drop_fn(struct slice *slice, int64_t cutoff_ns, struct err *err);

/* Asked before each piece of work. 1: go on. 0: the time is up, or there is room enough. */
int slice_goes_on(struct slice *slice, struct err *err);

/* How many rows go between two looks at the clock: n_rows, or fewer where the disk is full. */
#define BATCH_ROWS 100
int64_t slice_batch(const struct slice *slice, int64_t n_rows);

/* What is older than the policy says for minutes begins before this. */
int64_t retain_minutes_cutoff(const struct retention *run);

/* What a statement without parameters counts. */
int retain_count(struct store *store, enum statement id, int64_t *ret, struct err *err);
int space_read(struct store *store, uint64_t *ret_file_bytes, uint64_t *ret_used_bytes,
	       struct err *err);

/* How many bytes are above max_bytes, with those beside the database. */
int space_over(struct store *store, const struct retention_policy *policy, uint64_t beside_bytes,
	       uint64_t *ret, struct err *err);

/* What counts beside the database: logs that wait for it, and the log of snapshots. */
uint64_t space_beside(const struct store *store, const struct retention_policy *policy);

/*
 * SQLite's own log. It does not count: removing rows makes it longer, and while somebody
 * reads it cannot be shortened. So nothing is ever removed because of it.
 */
uint64_t space_of_wal(const struct store *store);

/* What shows an anomaly at full resolution is copied to it (retain_evidence.c): where to begin, and
 * doing it. Not inside a transaction. */
stage_fn retain_find_evidence, retain_keep_evidence;

/* Samples of folds that ended before the cutoff, or were begun, become minutes (retain_roll.c). */
drop_fn retain_roll;

/* Rows that go when they are old: retain_drop.c. */
struct old_rows {
	enum statement id; /* deletes the oldest ?2 rows before ?1, and returns a time of each */
	int64_t batch;	   /* so many at once */
	const char *gone;  /* the key of meta that says up to when they are gone; NULL: none does */
	size_t n_dropped;  /* in struct retention_result */
};
int retain_drop_rows(struct slice *slice, const struct old_rows *rows, int64_t before,
		     struct err *err);
extern const struct old_rows retain_events;

/* Curves of reports: the same, but for peaks that nothing else tells. */
drop_fn retain_drop_curves;

/* For room: what age removes, of any age, as long as there is too little. */
int room_drop(struct slice *slice, drop_fn *fn, const struct old_rows *rows, struct err *err);
stage_fn room_begin, room_logs, room_count_owners, room_owner, room_owner_done, room_many_events,
	room_minutes, room_events, room_phases, room_processes, room_attempts, room_end;
