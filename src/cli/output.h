/*
 * output - where the data of a verb goes: stdout or a file, piece by piece.
 *
 *	CLEANUP(output_release) struct output out = OUTPUT_INIT;
 *
 *	r = output_open(&out, path, &err);
 *	…append rows to out.buf, and after each: r = output_pass(&out);
 *	return output_end(&out, r, &err);
 *
 * A file (0600; for_others: as the umask has it; or as the one of ours that it replaces) appears
 *under its name when it is whole: until then it is another one beside it, which a failure or a
 *signal to end (INT, TERM, HUP) takes away again. What is no regular file (a pipe, a device) is
 *written as it is.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "model/anomaly.h"
#include "report/doc/doc.h"

struct output {
	struct buf buf;
	int fd;
	bool for_others;    /* set before output_open(): the file is for programs of other users */
	char *path;	    /* NULL: not a file that gets its name at the end */
	char *path_for_now; /* until then */
	bool never_waits; /* set before output_open(): a slow reader gets the rest at the end… */
	FILE *kept;	  /* …from here; NULL while it keeps up */
	sigset_t held;	  /* signals that wait until nothing is left behind */
};

#define OUTPUT_INIT                       \
	{                                 \
		.buf = BUF_INIT, .fd = -1 \
	}

/* path NULL or "-": stdout. From here on a closed pipe is a failed write, and no signal. */
int output_open(struct output *out, const char *path, struct err *err);
void output_release(struct output *out); /* what was not ended is taken away */

/* Whether a person looks at it. */
bool output_is_terminal(const struct output *out);

/* Writes what is there once it is worth a call. -EINTR: asked to end. */
int output_pass(struct output *out);

/* Writes what is there at once, for who reads along. */
int output_flush(struct output *out);

/*
 * The last step of a verb. r is what came of the others: 0, or negative, with err
 * set unless it was a write that failed. Writes the rest and gives the file its
 * name, and releases all. Returns the exit status, and has said what went wrong, unless it is that
 * nobody reads on ("| head").
 */
int output_end(struct output *out, int r, struct err *err);

/*
 * ---- lister: the rows of a verb, as a table for people or as JSON ----
 *
 *	struct lister l = LISTER_INIT(json ? LISTER_ARRAY : LISTER_TABLE, columns);
 *
 *	r = lister_open(&l, &err);
 *	…add the cells of a row to l.table, or an object to l.json, and then: r = lister_pass(&l);
 *	return lister_end(&l, r, "nothing was recorded", &err);
 */
enum lister_form {
	LISTER_TABLE,
	LISTER_ARRAY,	/* one, of objects */
	LISTER_OBJECTS, /* an object each */
	LISTER_BARE,	/* the caller writes into out.buf */
};

struct lister {
	enum lister_form form;
	struct output out;
	struct table table;
	struct json json;
	uint64_t n_rows;
};

#define LISTER_INIT(form_, columns_)                                              \
	{                                                                         \
		.form = form_, .out = OUTPUT_INIT, .table = TABLE_INIT(columns_), \
	}

int lister_open(struct lister *l, struct err *err);
int lister_pass(struct lister *l);
int lister_flush(struct lister *l); /* for who reads along; the heading too */

/* As output_end(). none: what is said where a table has no row; NULL: nothing. */
int lister_end(struct lister *l, int r, const char *none, struct err *err);
void lister_release(struct lister *l);

/* ---- cells ---- */

/* "2026-11-15 03:45:08.123", local time. */
void add_moment(struct buf *out, uint64_t wall_ns);

/* "12"; "-" for what is not above 0. */
void add_positive(struct buf *out, int n);

/* "12.3"; "-" for an unknown one. */
void add_decimal(struct buf *out, double v);

/* An anomaly: when it began, how long it lasted, how bad, what, whose. attempt_num 0: of none. */
extern const struct table_column anomaly_list_columns[7];
int lister_add_anomaly(struct lister *l, const struct episode *e, int attempt_num);
