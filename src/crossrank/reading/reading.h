/*
 * reading - telemetry from files, folders and pipes into memory.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "crossrank/reading/event_reader.h"
#include "crossrank/reading/telemetry.h"

/* A record that was refused. */
struct fault {
	const char *file;
	uint64_t line;
	enum reason reason;
	bool is_cut;	   /* the end of the file cut it: nothing but that line is lost */
	struct text field; /* for which field; s NULL: for none. Valid inside the call only */
};

/* "FILE:LINE: lacks a field that every record has: pid (missing_field)", on one line. */
void fault_add_text(struct buf *out, const struct fault *fault);

/* Non-zero stops reading and is returned. */
typedef int intake_fault_fn(void *ctx, const struct fault *fault);

struct intake {
	struct telemetry *telemetry; /* NULL: only check */
	intake_fault_fn *on_fault;
	void *ctx;
	/* Counted along. */
	uint64_t n_files, n_valid, n_invalid, n_cut;
	uint64_t n_empty;	/* files without any record */
	struct buf first_empty; /* the name of the first one */
	/* Inside. */
	struct event_reader reader;
};

void intake_init(struct intake *r, struct telemetry *t, intake_fault_fn *on_fault, void *ctx);
void intake_release(struct intake *r);

/*
 * Reads a file; "-" is standard input; of a folder all files below it whose names
 * end as those of telemetry do (.jsonl, .ndjson, .json, .csv, and these with .gz or .zst), in
 * the order of their names, through up to 16 folders in each other. A negative errno: it could not
 * be read, and err says so.
 */
int intake_read(struct intake *r, const char *path, struct err *err);

/* The same for bytes that are there already; name says what they are, as a file's does. */
int intake_read_fd(struct intake *r, int fd, const char *name, struct err *err);
