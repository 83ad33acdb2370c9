/*
 * record - what is recorded of an attempt, as bytes.
 *
 * A struct becomes the values of its columns, one behind the other: numbers of seven bits a byte,
 * texts with their length, unknown as one byte of 0. How many columns and bytes there are stands
 * before them, and columns are only ever added behind the last: a program that has fewer passes
 * over the rest, one that has more leaves those as they were initialised.
 *
 * Writing goes to a buf, which remembers that memory ran out. Reading goes through a record_reader,
 * which remembers the first error: after that everything reads as 0 or nothing. Bytes may be
 * damaged or hostile: -EBADMSG then, and no byte outside them is looked at.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/anomaly.h"
#include "model/columns.h"
#include "model/job.h"

/*
 * The type of a frame of an attempt's log (log/log.h), and the functions that make its bytes. A
 * reader passes over types that it does not know.
 */
enum record_type {
	RECORD_BEGIN = 1, /* record_write_begin(), and record_write_sheets() of those so far.
			     Flagged LOG_KEY: readers may begin here, and the next tick is whole */
	RECORD_SHEETS,	  /* record_write_sheets_changed() */
	RECORD_TICK,	  /* tick_record.h; flagged LOG_TICK */
	RECORD_EVENTS,	  /* record_write_list(RECORD_LIST_EVENTS) */
	RECORD_PHASES, /* record_write_phases(), and record_write_number() of those that are lost */
	RECORD_ANOMALY,	 /* record_write_anomaly() */
	RECORD_EVIDENCE, /* record_write_evidence() */
	RECORD_DETAILS,	 /* record_write_details(), before the end */
	RECORD_END,	 /* record_write_final(), in the slot of the end */
	RECORD_HOST,	 /* instead of RECORD_BEGIN: the log is a daemon's own, and begins with
			    record_write_struct(daemon_columns). All other records of such a log begin
			    with the id of the attempt's log that they are about (RECORD_ABOUT_BYTES,
			    all 0: the host). RECORD_END has when the daemon stopped, as a number */
	RECORD_CALLS,	 /* record_write_details(): system calls alone, which are added */
};

#define RECORD_ABOUT_BYTES 16

/* ---- structs ---- */

struct record_reader {
	const uint8_t *p, *end; /* borrowed */
	struct arena *arena;	/* owns what is read */
	int error;		/* 0, -EBADMSG or -ENOMEM */
	/* Of another user: texts are made printable and cut to this, and a few bytes are not many
	 * things. 0: they are our own user's. */
	size_t text_max;
};

#define RECORD_FOREIGN_TEXT 1000
#define RECORD_FOREIGN_JSON 65536 /* of texts that are JSON: evidence, and what a host did */

void record_write_number(struct buf *out, uint64_t v);
uint64_t record_read_number(struct record_reader *r);

void record_write_struct(struct buf *out, const struct columns *columns, const void *from);
/* to is initialised: fields that were not written stay. */
void record_read_struct(struct record_reader *r, const struct columns *columns, void *to);

/* ---- lists of them ---- */

enum record_list {
	RECORD_LIST_RANKS,     /* struct rank_record */
	RECORD_LIST_PROCESSES, /* struct proc_record */
	RECORD_LIST_EVENTS,    /* struct proc_event */
	RECORD_LIST_RUNGS,     /* struct rung */
	RECORD_LIST_NOTES,     /* struct unknown_note */
	RECORD_LIST_SYSCALLS,  /* struct syscall_use */
	N_RECORD_LISTS,
};

void record_write_list(struct buf *out, enum record_list list, const void *items, size_t n);
/* NULL and 0: none, or an error. */
void *record_read_list(struct record_reader *r, enum record_list list, size_t *ret_n);

/* With their usage and ranks. */
void record_write_sheets(struct buf *out, const struct sheet_record *sheets, size_t n);
struct sheet_record *record_read_sheets(struct record_reader *r, size_t *ret_n);

/* A process has entered a phase or left one. The names are valid (phase_name_is_valid()). */
struct phase_change {
	bool is_exit; /* pid and name are those of who entered it */
	struct phase_record phase;
};

void record_write_phases(struct buf *out, const struct phase_change *items, size_t n);
/* NULL and 0: none, or an error. */
struct phase_change *record_read_phases(struct record_reader *r, size_t *ret_n);

/* ---- an attempt ---- */

/* Its job, boot and number, all that is known when it begins, and how far it is. */
void record_write_begin(struct buf *out, const struct attempt *a);
void record_read_begin(struct record_reader *r, struct attempt *a);

/* How far the attempt is, and some of its sheets. Reading sets a->sheets to those alone. */
void record_write_sheets_changed(struct buf *out, const struct attempt *a,
				 const struct sheet_record *sheets, size_t n);
void record_read_sheets_changed(struct record_reader *r, struct attempt *a);

/*
 * What is known at its end alone: a->processes (with the system calls of each), a->rungs,
 * a->unknowns, a->syscalls, and why the system calls are not all (NULL: they are). Reading replaces
 * the four lists.
 */
void record_write_details(struct buf *out, const struct attempt *a, const char *why_not_all_calls);
void record_read_details(struct record_reader *r, struct attempt *a, const char **ret_why);

/* How it ended and what it used, and all sheets if there is room for them. */
void record_write_final(struct buf *out, const struct attempt *a, bool with_sheets);
void record_read_end(struct record_reader *r, struct attempt *a); /* the sheets are left */
void record_read_final(struct record_reader *r, struct attempt *a);

/* ---- anomalies ---- */

enum { RECORD_RENEWED = N_EPISODE_CHANGES }; /* instead of a change: it lasts, with other numbers */

/* change: an enum episode_change, or RECORD_RENEWED. The attempt_id is left out. */
void record_write_anomaly(struct buf *out, const struct episode *e, int change);
/*
 * e is overwritten; its texts are in the arena, its evidence is *evidence or NULL. On failure
 * (r->error, which is returned) e is all unknown.
 */
int record_read_anomaly(struct record_reader *r, struct episode *e,
			struct anomaly_evidence *evidence, int *ret_change);

/* More evidence of the episode with this name. */
void record_write_evidence(struct buf *out, const char *episode_name,
			   const struct anomaly_evidence *evidence);
/* Returns r->error; on failure the name is NULL. */
int record_read_evidence(struct record_reader *r, const char **ret_name,
			 struct anomaly_evidence *ret);
