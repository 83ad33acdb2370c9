#include "base/buf.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char buf_empty[1];

void buf_release(struct buf *b)
{
	if (b->cap)
		free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->cap)
		b->data[0] = '\0';
}

int buf_reserve(struct buf *b, size_t n)
{
	size_t need, cap;
	char *data;

	if (n > INT_MAX || b->len > INT_MAX - n) {
		b->failed = true;
		return -ENOMEM;
	}
	need = b->len + n + 1;
	if (need <= b->cap)
		return 0;
	cap = b->cap ? b->cap : 64;
	while (cap < need)
		cap *= 2;
	data = realloc(b->cap ? b->data : NULL, cap);
	if (!data) {
		b->failed = true;
		return -ENOMEM;
	}
	data[b->len] = '\0';
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
	if (n == 0 || (n >= b->cap - b->len && buf_reserve(b, n) < 0))
		return;
	memcpy(b->data + b->len, bytes, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
	if (b->cap - b->len <= 1 && buf_reserve(b, 1) < 0)
		return;
	b->data[b->len++] = c;
	b->data[b->len] = '\0';
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n > 0 && buf_reserve(b, (size_t)n) == 0) {
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	if (n < 0)
		b->failed = true;
	va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void buf_add_base64(struct buf *b, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);
		char four[4] = { base64[v >> 18], base64[v >> 12 & 63],
				 i + 1 < n ? base64[v >> 6 & 63] : '=',
				 i + 2 < n ? base64[v & 63] : '=' };

		buf_add(b, four, sizeof(four));
	}
}

int buf_add_unbase64(struct buf *b, const char *text)
{
	size_t n = strlen(text), len = b->len;

	for (size_t i = 0; i + 4 <= n; i += 4) {
		bool is_last = i + 4 == n;
		unsigned n_pads =
			is_last ? (unsigned)((text[i + 3] == '=') + (text[i + 2] == '=')) : 0;
		uint8_t three[3];
		uint32_t v = 0;

		for (unsigned k = 0; k < 4; k++) {
			const char *found = k < 4 - n_pads ? strchr(base64, text[i + k]) : base64;

			if (!found) {
				buf_truncate(b, len);
				return -EBADMSG;
			}
			v = v << 6 | (uint32_t)(found - base64);
		}
		three[0] = (uint8_t)(v >> 16);
		three[1] = (uint8_t)(v >> 8);
		three[2] = (uint8_t)v;
		buf_add(b, three, sizeof(three) - n_pads);
	}
	return n % 4 == 0 ? buf_error(b) : -EBADMSG;
}

void buf_truncate(struct buf *b, size_t n)
{
	if (n >= b->len)
		return;
	b->len = n;
	b->data[n] = '\0';
}

int buf_error(const struct buf *b)
{
	return b->failed ? -ENOMEM : 0;
}

char *buf_detach(struct buf *b)
{
	char *data;

	if (b->failed || buf_reserve(b, 0) < 0)
		return NULL;
	data = b->data;
	*b = (struct buf)BUF_INIT;
	return data;
}
