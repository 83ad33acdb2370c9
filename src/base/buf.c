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
	char *out;

	if (buf_reserve(b, (n + 2) / 3 * 4) < 0)
		return;
	out = b->data + b->len;
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);

		*out++ = base64[v >> 18];
		*out++ = base64[v >> 12 & 63];
		*out++ = i + 1 < n ? base64[v >> 6 & 63] : '=';
		*out++ = i + 2 < n ? base64[v & 63] : '=';
	}
	b->len = (size_t)(out - b->data);
	*out = '\0';
}

int buf_add_unbase64(struct buf *b, const char *text)
{
	size_t n = strlen(text), n_pads;
	uint8_t value_of[256], *out;

	n_pads = n >= 4 ? (size_t)(text[n - 1] == '=') + (text[n - 1] == '=' && text[n - 2] == '=')
			: 0;
	if (n % 4 != 0)
		return -EBADMSG;
	if (buf_reserve(b, n / 4 * 3) < 0)
		return -ENOMEM;
	memset(value_of, 64, sizeof(value_of));
	for (uint8_t i = 0; i < 64; i++)
		value_of[(uint8_t)base64[i]] = i;
	out = (uint8_t *)b->data + b->len;
	for (size_t i = 0; i < n; i += 4) {
		uint32_t v = 0, odd = 0;

		for (size_t k = i; k < i + 4; k++) {
			uint8_t value = k < n - n_pads ? value_of[(uint8_t)text[k]] : 0;

			odd |= value & 64;
			v = v << 6 | (value & 63);
		}
		if (odd) {
			b->data[b->len] = '\0';
			return -EBADMSG;
		}
		*out++ = (uint8_t)(v >> 16);
		*out++ = (uint8_t)(v >> 8);
		*out++ = (uint8_t)v;
	}
	b->len += n / 4 * 3 - n_pads;
	b->data[b->len] = '\0';
	return 0;
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
