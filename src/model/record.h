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
#ifndef PROCTOR_MODEL_RECORD_H
#define PROCTOR_MODEL_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "model/columns.h"
#include "model/job.h"

/* struct attempt, by when it is known */
extern const struct columns attempt_begin_columns;    /* when it begins */
extern const struct columns clock_columns;	      /* of its host, then */
extern const struct columns attempt_progress_columns; /* with each sheet */
extern const struct columns attempt_end_columns;      /* when it ends; with usage_columns */

extern const struct columns usage_columns;   /* struct usage */
extern const struct columns daemon_columns;  /* struct daemon_record */
extern const struct columns sheet_columns;   /* struct sheet_record; with usage_columns */
extern const struct columns rank_columns;    /* struct rank_record */
extern const struct columns process_columns; /* struct proc_record */
extern const struct columns event_columns;   /* struct proc_event */
extern const struct columns phase_columns;   /* struct phase_record */
extern const struct columns rung_columns;    /* struct rung */
extern const struct columns unknown_columns; /* struct unknown_note */
extern const struct columns syscall_columns; /* struct syscall_use */

/* ---- structs ---- */

struct record_reader {
	const uint8_t *p, *end; /* borrowed */
	struct arena *arena;	/* owns what is read */
	int error;		/* 0, -EBADMSG or -ENOMEM */
};

void record_write_number(struct buf *out, uint64_t v);
uint64_t record_read_number(struct record_reader *r);

void record_write_struct(struct buf *out, const struct columns *columns, const void *from);
/* to is initialised: fields that were not written stay. */
void record_read_struct(struct record_reader *r, const struct columns *columns, void *to);

/* ---- lists of them ---- */

enum record_list {
	RECORD_RANKS,	  /* struct rank_record */
	RECORD_PROCESSES, /* struct proc_record */
	RECORD_EVENTS,	  /* struct proc_event */
	RECORD_PHASES,	  /* struct phase_record */
	RECORD_RUNGS,	  /* struct rung */
	RECORD_NOTES,	  /* struct unknown_note */
	RECORD_SYSCALLS,  /* struct syscall_use */
	N_RECORD_LISTS,
};

void record_write_list(struct buf *out, enum record_list list, const void *items, size_t n);
/* NULL and 0: none, or an error. */
void *record_read_list(struct record_reader *r, enum record_list list, size_t *ret_n);

/* With their usage and ranks. */
void record_write_sheets(struct buf *out, const struct sheet_record *sheets, size_t n);
struct sheet_record *record_read_sheets(struct record_reader *r, size_t *ret_n);

/* ---- an attempt ---- */

/* Its job, boot and number, all that is known when it begins, and how far it is. */
void record_write_begin(struct buf *out, const struct attempt *a);
void record_read_begin(struct record_reader *r, struct attempt *a);

/* How it ended and what it used: without sheets and lists. */
void record_write_end(struct buf *out, const struct attempt *a);
void record_read_end(struct record_reader *r, struct attempt *a);

#endif
