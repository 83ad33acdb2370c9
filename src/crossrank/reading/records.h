/*
 * records - takes a file apart into the texts of its records, with their lines.
 *
 * Knows JSON Lines, a JSON array, an object with the array "events", one record
 * alone, and CSV, whose rows come out as JSON. What it is the name says
 * (.jsonl, .ndjson, .csv, with .gz or .zst behind it), else its beginning. Memory is one
 * record, however long the file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "crossrank/reading/event.h"

/* ---- a file's bytes, taken out of gzip or zstd (input.c) ---- */

struct input;

/* Owns fd from here on, also when it fails. */
int input_open(int fd, struct input **ret);
struct input *input_close(struct input *in); /* NULL is fine. Returns NULL. */

/* At most n bytes; 0 at the end, also where damage is it. */
ssize_t input_read(struct input *in, char *to, size_t n);

/* How compressed data ended, once there are no more; what is not compressed is whole. */
enum input_end {
	INPUT_WHOLE,
	INPUT_CUT, /* before they are whole: all that came out is good */
	/* Some of what came out just before may be wrong, or what follows it is something else than
	   zeros: nobody knows how much is lost. */
	INPUT_DAMAGED,
	INPUT_LARGE_WINDOW, /* it takes more than 128 MiB to take out any of it */
};
enum input_end input_end(const struct input *in);

/* ---- its records ---- */

/* What a record is at most. */
#define RECORDS_MAX_BYTES (16u << 20)
#define RECORDS_MAX_LINES 4096 /* of one that has several */

struct record_text {
	const char *text;
	size_t n;
	uint64_t line;	    /* where it begins, from 1 */
	enum reason reason; /* not REASON_NONE: there is no text, and this is why */
	bool is_last;	    /* nothing ends it but the end of the file, which may have cut it */
	const char *field;  /* the column that is why; NULL: none is */
};

/* What a file's name says of it, with or without .gz or .zst. JSON may be of any kind. */
enum records_hint { HINT_NONE, HINT_LINES, HINT_CSV, HINT_JSON };
enum records_hint records_hint_of(const char *name);

struct records;

/* Reads from in, which the caller closes behind it. name: the file's. */
int records_open(struct input *in, const char *name, struct records **ret);
struct records *records_close(struct records *r); /* NULL is fine. Returns NULL. */

/* 1 and the next, valid until the next call; 0: no more. Blank lines are left out. */
int records_next(struct records *r, struct record_text *ret);

/* ---- inside: records.c and csv_rows.c ---- */

struct records {
	struct input *in;
	int (*next)(struct records *r, struct record_text *ret);
	char *data;
	size_t begin, end, cap; /* what was read and not yet given lies between the two */
	uint64_t line;		/* of data[begin] */
	bool at_end;		/* of the input */
	/* elements */
	bool wants_comma, is_done;
	struct buf around; /* what stands before and behind the array, as one JSON text */
	/* CSV */
	struct buf row;
	struct csv_column *columns;
	size_t n_columns;
	struct record_text heading_fault; /* if any: no row below it can be a record */
};

/* Reads more. 1: there is more; 0: the end; -EFBIG: the record is longer than allowed. */
int records_fill(struct records *r);

/* Takes n bytes as given, and their lines as passed. */
void records_skip(struct records *r, size_t n);

/* To the beginning of the next line, however far it is. 1; 0: there is none. */
int records_skip_line(struct records *r);

/* Reads the heading. */
int csv_begin(struct records *r);
void csv_release(struct records *r);

struct csv_column {
	char *name;
	int field; /* -1: none of version 2 */
};
