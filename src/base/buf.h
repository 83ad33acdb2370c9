/*
 * buf - a growing string of bytes, always NUL-terminated.
 *
 * Appending never fails in a way the caller must check at once: when memory
 * runs out (or the size would pass INT_MAX) the buffer keeps what it has and
 * remembers, and buf_error() tells. That lets writers append in a row and
 * check once at the end.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct buf {
	char *data; /* never NULL: an empty string until something is added */
	size_t len; /* without the NUL */
	size_t cap; /* 0 while data is the shared empty string */
	bool failed;
};

extern char buf_empty[1];
#define BUF_INIT                       \
	{                              \
		buf_empty, 0, 0, false \
	}

void buf_release(struct buf *b);

/* Empties it and keeps its memory. */
void buf_reset(struct buf *b);

/* Makes room for n more bytes and the NUL. -ENOMEM when it cannot. */
int buf_reserve(struct buf *b, size_t n);

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);

/* Bytes as base64, with padding; and the other way: -EBADMSG where the text is none. */
void buf_add_base64(struct buf *b, const void *bytes, size_t n);
int buf_add_unbase64(struct buf *b, const char *text);

/* Cuts to n bytes; n beyond the end changes nothing. */
void buf_truncate(struct buf *b, size_t n);

/* 0, or -ENOMEM if an append was lost since the last reset. */
int buf_error(const struct buf *b);

/* Hands over the string (malloc'ed); the buffer is empty again. NULL if memory ran out. */
char *buf_detach(struct buf *b);
