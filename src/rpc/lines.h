/*
 * lines - bytes as they come from a socket, cut into lines.
 *
 *	lines_add(&lines, bytes, n);
 *	while ((r = lines_next(&lines, &line, &len)) != 0)
 *		if (r > 0) … a line;  else … one was too long and is left out
 *
 * Of a line that is too long the rest is skipped up to its newline, and not kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct lines {
	size_t max_bytes;     /* of one line, without its newline */
	struct buf bytes;     /* that have come; those before at were taken */
	size_t at, n_scanned; /* from at to here is no newline */
	bool is_skipping;     /* what comes belongs to a line that is left out */
	size_t n_ended;	      /* newlines that were taken, also of lines that were left out */
};

#define LINES_INIT(max)                         \
	{                                       \
		(max), BUF_INIT, 0, 0, false, 0 \
	}

void lines_release(struct lines *l);

/* These have come. -ENOMEM: the connection's order is lost. */
int lines_add(struct lines *l, const char *bytes, size_t n);

/*
 * 1: a line, without its newline, valid until the next call. 0: no more has come than half a line.
 * -EMSGSIZE: the line that has begun is left out; this is returned once for it.
 */
int lines_next(struct lines *l, const char **ret_line, size_t *ret_len);

/* Whether the end of a line has come. */
bool lines_has_line(struct lines *l);

/* Whether nothing but half a line is there (or half of one that is skipped). */
bool lines_has_half(struct lines *l);

/* Bytes that wait. */
size_t lines_kept_bytes(const struct lines *l);

/* Hands over the line that lines_next() has just given: its memory, if it is all that is there.
 * -ENOMEM. */
int lines_take(struct lines *l, const char *line, size_t len, struct buf *ret);
