#include "crossrank/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/macros.h"
#include "crossrank/bulk.h"
#include "crossrank/event.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define FIRST_BYTES (1u << 20)

int records_fill(struct records *r)
{
	ssize_t n;

	if (r->at_end)
		return 0;
	if (r->begin > 0) {
		memmove(r->data, r->data + r->begin, r->end - r->begin);
		r->end -= r->begin;
		r->begin = 0;
	}
	if (r->end == r->cap) {
		size_t cap = r->cap * 2;
		char *data =
			r->cap < RECORDS_MAX_BYTES ? realloc(r->data, cap + BULK_PADDING) : NULL;

		if (!data)
			return r->cap < RECORDS_MAX_BYTES ? -ENOMEM : -EFBIG;
		r->data = data;
		r->cap = cap;
	}
	n = input_read(r->in, r->data + r->end, r->cap - r->end);
	if (n < 0)
		return (int)n;
	r->at_end = n == 0;
	r->end += (size_t)n;
	memset(r->data + r->end, 0, BULK_PADDING);
	return n > 0;
}

void records_skip(struct records *r, size_t n)
{
	const char *from = r->data + r->begin, *end = from + n;

	while ((from = memchr(from, '\n', (size_t)(end - from)))) {
		r->line++;
		from++;
	}
	r->begin += n;
}

/* ---- lines ---- */

int records_skip_line(struct records *r)
{
	for (;;) {
		const char *newline = memchr(r->data + r->begin, '\n', r->end - r->begin);
		int more;

		if (newline) {
			r->begin = (size_t)(newline + 1 - r->data);
			r->line++;
			return 1;
		}
		r->begin = r->end;
		more = records_fill(r);
		if (more <= 0)
			return more;
	}
}

/* The line is too long to be a record: it is passed over, however long. */
static int skip_line(struct records *r, struct record_text *ret)
{
	int more;

	*ret = (struct record_text){ .line = r->line, .reason = REASON_TOO_LONG };
	more = records_skip_line(r);
	return more < 0 ? more : 1;
}

/* The length up to the newline or the end. 1; 0: nothing is left. */
static int find_line(struct records *r, size_t *ret_n)
{
	size_t seen = 0;

	for (;;) {
		char *from = r->data + r->begin;
		char *newline = memchr(from + seen, '\n', r->end - r->begin - seen);
		int more;

		if (newline) {
			*ret_n = (size_t)(newline - from);
			return 1;
		}
		*ret_n = seen = r->end - r->begin;
		more = records_fill(r);
		if (more <= 0)
			return more < 0 ? more : seen > 0;
	}
}

static bool is_blank_line(const char *s, size_t n)
{
	return n == 0 || ((unsigned char)s[0] <= ' ' && text_is_blank(s, n)) ||
	       ((unsigned char)s[0] >= 0x80 && text_is_blank(s, n));
}

int records_next_line(struct records *r, struct record_text *ret)
{
	size_t n;
	int more;

	while ((more = find_line(r, &n)) > 0) {
		const char *text = r->data + r->begin;
		bool has_end = r->begin + n < r->end;

		*ret = (struct record_text){
			.text = text, .n = n, .line = r->line, .is_last = !has_end
		};
		r->begin += n + has_end;
		r->line += has_end;
		if (!is_blank_line(text, n))
			return 1;
	}
	return more == -EFBIG ? skip_line(r, ret) : more;
}

/* ---- which format ---- */

static bool ends_with(const char *name, size_t n, const char *suffix)
{
	size_t len = strlen(suffix);

	return n > len && strncasecmp(name + n - len, suffix, len) == 0;
}

enum hint { HINT_NONE, HINT_LINES, HINT_CSV };

static enum hint hint_of(const char *name)
{
	size_t n = strlen(name);

	if (ends_with(name, n, ".gz"))
		n -= 3;
	else if (ends_with(name, n, ".zst"))
		n -= 4;
	if (ends_with(name, n, ".jsonl") || ends_with(name, n, ".ndjson"))
		return HINT_LINES;
	return ends_with(name, n, ".csv") ? HINT_CSV : HINT_NONE;
}

/* Tabs and semicolons separate tables, too: no CSV, but that is to be told of the heading alone. */
static bool has_separator(const char *s, size_t n)
{
	return memchr(s, ',', n) || memchr(s, '\t', n) || memchr(s, ';', n);
}

/* A heading begins with a name, which JSON does not. */
static bool looks_like_csv(const struct records *r)
{
	const char *s = r->data + r->begin;
	const char *newline = memchr(s, '\n', r->end - r->begin);
	size_t n = newline ? (size_t)(newline - s) : r->end - r->begin;

	return n > 0 && (ascii_is_alpha(s[0]) || s[0] == '"') && has_separator(s, n) &&
	       memmem(s, n, "timestamp", 9);
}

static int choose_format(struct records *r, const char *name)
{
	enum hint hint = hint_of(name);

	if (hint == HINT_CSV || (hint == HINT_NONE && looks_like_csv(r)))
		return csv_begin(r);
	if (hint == HINT_NONE && elements_begin(r))
		r->next = elements_next;
	return 0;
}

/* Programs of Windows begin texts of any kind with one. */
static void skip_byte_order_mark(struct records *r)
{
	if (r->end >= strlen(BYTE_ORDER_MARK) &&
	    memcmp(r->data, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		r->begin = strlen(BYTE_ORDER_MARK);
}

int records_open(struct input *in, const char *name, struct records **ret)
{
	struct records *r = calloc(1, sizeof(*r));
	int more = 1;

	if (!r)
		return -ENOMEM;
	*r = (struct records){ .in = in,
			       .next = records_next_line,
			       .cap = FIRST_BYTES,
			       .line = 1,
			       .around = BUF_INIT,
			       .row = BUF_INIT };
	r->data = malloc(FIRST_BYTES + BULK_PADDING);
	if (!r->data)
		more = -ENOMEM;
	/* A pipe gives little at a time: enough to see what it is. */
	while (more > 0 && r->end < FIRST_BYTES / 2)
		more = records_fill(r);
	skip_byte_order_mark(r);
	if (more >= 0)
		more = choose_format(r, name);
	if (more < 0) {
		records_close(r);
		return more;
	}
	*ret = r;
	return 0;
}

struct records *records_close(struct records *r)
{
	if (!r)
		return NULL;
	csv_release(r);
	buf_release(&r->around);
	buf_release(&r->row);
	free(r->data);
	free(r);
	return NULL;
}

int records_next(struct records *r, struct record_text *ret)
{
	return r->next(r, ret);
}
