/*
 * jsonl_tail - a reader of the log of snapshots (store/jsonl/jsonl.h), as other programs may have
 * one: tests of the writers show with it that such a reader misses nothing.
 */
#ifndef PROCTOR_TESTS_JSONL_TAIL_H
#define PROCTOR_TESTS_JSONL_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "store/jsonl/jsonl.h"

/*
 * jsonl_tail - the lines of a log, followed while it is written.
 *
 * Each line comes once, in the order of the log, and whole: what has no newline
 * yet comes later. A file that is rotated is read to its end before the next
 * one, whatever its name is by then. The log keeps three files; if a reader falls
 * further behind, the next line says that something before it was lost.
 *
 * A reader takes no lock, so that no writer ever waits for it. It polls: who
 * wants to follow calls again after a while. A log that is not there is waited for.
 */

struct jsonl_tail;

enum jsonl_start {
	JSONL_OLDEST, /* all that is kept */
	JSONL_END,    /* what is written from now on */
};

struct jsonl_line {
	const char *text; /* with a NUL for the newline; valid until the next call */
	size_t len;
	bool is_after_loss; /* lines before it were deleted unread, how many cannot be known; or
			       may have been, as the file they would be in is no longer there */
};

/* -EACCES, -ELOOP (a link), -EBADMSG (no plain file)…: cannot be read. */
int jsonl_tail_open(const char *path, enum jsonl_start start, struct jsonl_tail **ret,
		    struct err *err);
struct jsonl_tail *jsonl_tail_close(struct jsonl_tail *tail); /* NULL is fine. Returns NULL. */

/*
 * 1: *ret is the next line. 0: there is none yet. -EBADMSG: a line longer than
 * JSONL_LINE_MAX_BYTES, which no proctor has written.
 */
int jsonl_tail_next(struct jsonl_tail *tail, struct jsonl_line *ret, struct err *err);

#endif
