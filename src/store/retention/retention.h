/*
 * retention - what becomes of what is old: minutes instead of samples, then
 * nothing; and the space is given back. Part of store.h.
 *
 *	struct retention run;
 *
 *	store_retain_begin(&run, &policy, clock_wall_ns());
 *	while ((r = store_retain_step(store, &run, err)) > 0)
 *		…what else has to be done, such as a tick…
 *
 * How a job ended, what it and its processes used and its phases stay, however old they are.
 * Only max_bytes takes that, as the last of all, and never of an attempt that may still
 * run, nor of the newest. Several may do this at once, and any of them may be
 * killed: what is in minutes is not in samples any more, and nothing is in both or
 * in neither.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/job.h"

struct store;

struct retention_policy {
	unsigned full_resolution_hours; /* every sample */
	unsigned downsampled_days;	/* a row per process and minute; the curves of reports */
	unsigned events_days;
	/*
	 * Of the database, the logs beside it (store_take_in()) and the log of snapshots with its
	 * rotated files, together; 0: no limit. Not of SQLite's own log, which comes and goes.
	 */
	uint64_t max_bytes;
	const char *jsonl_path; /* NULL: no such log */
};

#define RETENTION_POLICY_DEFAULT                                                       \
	{                                                                              \
		.full_resolution_hours = 24, .downsampled_days = 7, .events_days = 30, \
		.max_bytes = UINT64_C(1) << 30,                                        \
	}

/* What was removed, and what it brought. */
struct retention_result {
	uint64_t n_samples; /* that became minutes, or would be too old for those too */
	uint64_t n_folds;   /* wholly: so many times up to 120 ticks of the host */
	uint64_t n_minutes; /* rows of up to 60 */
	uint64_t n_curves;  /* pieces of up to 120 points, for charts */
	uint64_t n_events;
	uint64_t n_anomalies;
	uint64_t n_seconds; /* of anomalies that stay: what they had at full resolution; here… */
	uint64_t n_phases;  /* of attempts that ended */
	uint64_t n_processes;		    /* the same */
	uint64_t n_attempts;		    /* …and up to here for max_bytes alone */
	uint64_t n_daemons;		    /* whose anomalies and events are gone as well */
	uint64_t n_logs;		    /* files that the log of snapshots was rotated to */
	uint64_t n_damaged;		    /* things that made no sense, and are gone */
	uint64_t bytes_before, bytes_after; /* of the file; U64_UNKNOWN until then */
	uint64_t beside_bytes;		    /* of all else that counts; U64_UNKNOWN until then */
	uint64_t wal_bytes;		    /* of SQLite's log, which does not count; the same */
	uint64_t over_bytes;		    /* above max_bytes, and nothing more may be removed */
};

/*
 * What else there is to tell whether the wall clock is right. It may jump years ahead, and then
 * all there is would look old.
 */
struct retention_clock {
	uint64_t boot_ns; /* U64_UNKNOWN: the wall clock is believed */
	char boot_id[BOOT_ID_BYTES];
	bool is_synchronised; /* with another clock: the wall clock is believed */
};
struct retention_clock retention_clock_now(void);

/* For who makes a database: what the clocks say then. SQLite's result code. */
struct sqlite3;
int retention_note_clock(struct sqlite3 *db);

/* A run of it. Who looks at the result may do so at any time. */
struct retention {
	struct retention_policy policy;
	uint64_t now_wall_ns;
	uint64_t slice_ns; /* how long a slice works, at most; RETENTION_SLICE_MS, or what is set */
	uint64_t work_ns;  /* how long the next one does: less where the disk is slow */
	int64_t batch_rows; /* that go at once, at most: fewer where the disk is full… */
	bool met_full;	    /* …and was so for the last slice as well */
	unsigned stage;	    /* retention.c */
	/* remove until the database has no more than these; U64_UNKNOWN: any */
	uint64_t target_bytes;
	int64_t after_attempt; /* those up to it have been looked at */
	int64_t after_anomaly; /* the same, of those that began then: */
	int64_t after_anomaly_ns;
	int64_t after_recorder; /* the same, of those whose ticks cannot be folded */
	/* Whose records there are: of users with the most, about how many bytes. Rows up to
	 * after_owned of a table are added. */
	struct retention_owner {
		int64_t uid; /* negative: unused */
		uint64_t n_bytes;
		bool is_done; /* has given what is too much */
	} owners[32];
	uint64_t n_owned_bytes; /* of all */
	size_t owned_table;
	int64_t after_owned;
	uint64_t n_event_bytes; /* among them */
	int64_t owner;		/* whose records go; negative: anybody's */
	unsigned owner_stage;	/* from which on the next owner's go */
	uint64_t room_bytes;	/* target_bytes of all, while it is that of an owner */
	int64_t after_fold_ns;	/* of the owner none is older */
	uint64_t n_folds_due;	/* at the beginning, for who shows progress */
	bool is_dry;		/* on a copy: no file is removed… */
	uint64_t dropped_bytes; /* …but those that would be do not count */
	bool is_cut_short;
	unsigned n_full; /* times that the disk was, since something was done last */
	struct err full; /* why it was cut short */
	struct retention_clock clock;
	/* nothing goes for its age until then, as the wall clock has jumped ahead; 0: it has not */
	uint64_t held_until_ns;
	struct retention_result result;
};

/*
 * Touches nothing yet. With a clock, what goes for its age stays while the wall clock has moved
 * further than it can have, for a week or until it goes back. max_bytes is kept to all the same.
 */
void store_retain_begin(struct retention *run, const struct retention_policy *policy,
			uint64_t now_wall_ns, const struct retention_clock *clock);

/* Until when the last run has decided to do so; 0: not. */
int store_read_retention_hold(struct store *store, uint64_t now_wall_ns, uint64_t *ret,
			      struct err *err);

/*
 * A part of it, of about run->slice_ns, in one transaction. Others can write while it waits
 * for the disk. One that took longer than RETENTION_LIMIT_MS with that is followed by shorter
 * ones, so it is mostly no more than that. 1: there is more. 0: all is done, and noted. -EBUSY:
 * another writes right now; like any other failure it leaves what was done before, and the next
 * call goes on. It does not wait. Who calls it again at once keeps others from writing: a pause of
 * RETENTION_PAUSE_MS lets them. -ENOSPC, -EDQUOT: even removing takes some room; who goes on with
 * the same run gets slices that are as small as can be, and may do with what the log has of the
 * disk. -EACCES…: the store was opened for reading.
 */
#define RETENTION_SLICE_MS 10
#define RETENTION_LIMIT_MS 25
#define RETENTION_PAUSE_MS 5
int store_retain_slice(struct store *store, struct retention *run, struct err *err);

/*
 * A slice, for all who do this. A full disk is asked for less and less, then rotated logs that are
 * too much go, then what was removed is given back; -ENOSPC or -EDQUOT is returned when there is
 * nothing left to try, and begin the next run with more room if there was something to give back.
 */
int store_retain_step(struct store *store, struct retention *run, struct err *err);
bool retention_is_full(int error);

/*
 * 1: it is an hour since it was done, or never was, and others find for ten minutes that it is not.
 * A time that is yet to come is no time. for_room, for who has found too much: also when it is a
 * minute since it was done, and as far as can be told nobody is at it.
 */
int store_claim_retention(struct store *store, bool for_room, uint64_t now_wall_ns,
			  struct err *err);

/* How many bytes are above max_bytes right now. */
int store_read_over(struct store *store, const struct retention_policy *policy, uint64_t *ret,
		    struct err *err);

/* Who claimed it leaves before all is done: it is due for the next one. */
int store_return_retention(struct store *store, uint64_t now_wall_ns, struct err *err);

/*
 * Where the disk is so full that the database cannot be opened: removes rotated logs of snapshots,
 * the oldest first, as long as all files together are above max_bytes. How many.
 */
uint64_t store_drop_logs(const char *db_path, const struct retention_policy *policy);

/* What would be removed: a run on a copy of the database, whose result is in *ret. */
int store_preview_retention(struct store *store, const struct retention_policy *policy,
			    uint64_t now_wall_ns, const struct retention_clock *clock,
			    struct retention *ret, struct err *err);
