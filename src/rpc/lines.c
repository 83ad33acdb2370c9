#include "rpc/lines.h"

#include <errno.h>
#include <string.h>

/* Memory that is kept from line to line; there may be hundreds of clients. */
#define KEEP_BYTES 4096

void lines_release(struct lines *l)
{
	buf_release(&l->bytes);
	*l = (struct lines)LINES_INIT(l->max_bytes);
}

/* What was taken goes. */
static void drop_taken(struct lines *l)
{
	size_t rest = l->bytes.len - l->at;

	if (rest == 0 && l->bytes.cap > KEEP_BYTES)
		buf_release(&l->bytes);
	else if (l->at > 0)
		memmove(l->bytes.data, l->bytes.data + l->at, rest);
	buf_truncate(&l->bytes, rest);
	l->n_scanned -= l->n_scanned < l->at ? l->n_scanned : l->at;
	l->at = 0;
}

int lines_add(struct lines *l, const char *bytes, size_t n)
{
	drop_taken(l);
	buf_add(&l->bytes, bytes, n);
	return buf_error(&l->bytes);
}

bool lines_has_line(struct lines *l)
{
	const char *end = NULL;

	if (l->at > 0 && l->at == l->bytes.len)
		drop_taken(l); /* who goes on to be idle holds nothing */
	if (l->n_scanned < l->at)
		l->n_scanned = l->at;
	if (l->n_scanned < l->bytes.len)
		end = memchr(l->bytes.data + l->n_scanned, '\n', l->bytes.len - l->n_scanned);
	l->n_scanned = end ? (size_t)(end - l->bytes.data) : l->bytes.len;
	return end != NULL;
}

int lines_next(struct lines *l, const char **ret_line, size_t *ret_len)
{
	for (;;) {
		bool has_end = lines_has_line(l), was_skipping = l->is_skipping;
		size_t start = l->at, len = l->n_scanned - start;

		if (!has_end && (was_skipping || len <= l->max_bytes)) {
			l->at = was_skipping ? l->n_scanned : start;
			drop_taken(l);
			return 0;
		}
		l->at = l->n_scanned + has_end;
		l->n_ended += has_end;
		l->is_skipping = !has_end;
		if (was_skipping)
			continue;
		if (len > l->max_bytes)
			return -EMSGSIZE;
		*ret_line = l->bytes.data + start;
		*ret_len = len;
		return 1;
	}
}

bool lines_has_half(struct lines *l)
{
	return l->is_skipping || (!lines_has_line(l) && l->bytes.len > l->at);
}

size_t lines_kept_bytes(const struct lines *l)
{
	return l->bytes.len - l->at;
}

int lines_take(struct lines *l, const char *line, size_t len, struct buf *ret)
{
	if (line == l->bytes.data && l->at == l->bytes.len) {
		buf_truncate(&l->bytes, len);
		*ret = l->bytes;
		l->bytes = (struct buf)BUF_INIT;
		l->at = l->n_scanned = 0;
	} else {
		buf_add(ret, line, len);
	}
	return buf_error(ret);
}
