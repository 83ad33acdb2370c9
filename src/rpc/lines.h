/*
 * lines - bytes as they come from a socket, cut into lines.
 *
 *	while ((r = lines_next(&lines, &bytes, &n, &line, &len)) != 0)
 *		if (r > 0) … a line;  else … one was too long and is left out
 *
 * A line that is whole in the bytes is not copied. Of one that is too long the
 * rest is skipped up to its newline, and not kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct lines {
	size_t max_bytes; /* of one line, without its newline */
	struct buf partial;
	bool is_whole;	  /* partial is the line that was given last */
	bool is_skipping; /* what comes belongs to a line that is left out */
	size_t n_ended;	  /* newlines that have come, also of lines that were left out */
};

#define LINES_INIT(max)                          \
	{                                        \
		(max), BUF_INIT, false, false, 0 \
	}

void lines_release(struct lines *l);

/*
 * Takes from *bytes, of which there are *n, and moves both on. 1: a line, without
 * its newline, valid until the next call. 0: all was taken. -EMSGSIZE, -ENOMEM:
 * the line that has begun is left out; this is said once for it.
 */
int lines_next(struct lines *l, const char **bytes, size_t *n, const char **ret_line,
	       size_t *ret_len);

/* Whether half a line is there (or half of one that is skipped). */
bool lines_has_half(const struct lines *l);

/* Bytes that are kept of half a line. */
size_t lines_kept_bytes(const struct lines *l);

/*
 * Hands over the line that lines_next() has just given, if it was put together
 * here (every line longer than the bytes of one call was). False: it was not.
 */
bool lines_take(struct lines *l, struct buf *ret);
