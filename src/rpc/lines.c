#include "rpc/lines.h"

#include <errno.h>
#include <string.h>

/* Memory that is kept from line to line; there may be hundreds of clients. */
#define KEEP_BYTES 4096

void lines_release(struct lines *l)
{
	buf_release(&l->partial);
}

static void forget_partial(struct lines *l)
{
	if (l->partial.cap > KEEP_BYTES)
		buf_release(&l->partial);
	else
		buf_reset(&l->partial);
	l->is_whole = false;
}

int lines_next(struct lines *l, const char **bytes, size_t *n, const char **ret_line,
	       size_t *ret_len)
{
	if (l->is_whole)
		forget_partial(l);
	while (*n > 0) {
		const char *start = *bytes, *end = memchr(start, '\n', *n);
		size_t k = end ? (size_t)(end - start) : *n;
		int r = 0;

		/* With the newline, if there is one. */
		*bytes += k + (end != NULL);
		*n -= k + (end != NULL);
		l->n_ended += end != NULL;
		if (l->is_skipping) {
			l->is_skipping = !end;
			continue;
		}
		if (end && l->partial.len == 0 && k <= l->max_bytes) {
			*ret_line = start;
			*ret_len = k;
			return 1;
		}
		r = l->partial.len + k > l->max_bytes ? -EMSGSIZE : 0;
		if (r == 0) {
			buf_add(&l->partial, start, k);
			r = buf_error(&l->partial);
		}
		if (r < 0) {
			forget_partial(l);
			l->is_skipping = !end;
			return r;
		}
		if (end) {
			l->is_whole = true;
			*ret_line = l->partial.data;
			*ret_len = l->partial.len;
			return 1;
		}
	}
	return 0;
}

bool lines_has_half(const struct lines *l)
{
	return l->is_skipping || (l->partial.len > 0 && !l->is_whole);
}

size_t lines_kept_bytes(const struct lines *l)
{
	return l->is_whole ? 0 : l->partial.len;
}

bool lines_take(struct lines *l, struct buf *ret)
{
	if (!l->is_whole)
		return false;
	*ret = l->partial;
	l->partial = (struct buf)BUF_INIT;
	l->is_whole = false;
	return true;
}
