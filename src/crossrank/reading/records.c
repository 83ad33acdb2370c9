#include "crossrank/reading/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/reading/event.h"
#include "crossrank/reading/jtree.h"

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
		char *data = r->cap < RECORDS_MAX_BYTES ? realloc(r->data, cap) : NULL;

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
	return n == 0 ||
	       (((unsigned char)s[0] <= ' ' || (unsigned char)s[0] >= 0x80) && text_is_blank(s, n));
}

static int records_next_line(struct records *r, struct record_text *ret)
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
	if (more != -EFBIG)
		return more;
	/* The line is too long to be a record: it is passed over, however long. */
	*ret = (struct record_text){ .line = r->line, .reason = REASON_TOO_LONG };
	more = records_skip_line(r);
	return more < 0 ? more : 1;
}

/* ---- elements ---- */

/*
 * The elements of a JSON array, one at a time: of the array that the document is, or
 * of "events" in the object that it is. What stands around that array is kept and checked
 * when all is read, so that a file with a fault at its end is not called valid. A quote or brace
 * too few makes one element of all that follow: such a one is told, and reading goes on with the
 * next line that begins like an element.
 */
static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* How far a value was looked through. */
struct extent {
	size_t n, n_lines;
	int depth;
	bool is_in_text;
};

/* Goes on to the comma or the closing bracket that is not its own. False: that is not in s[0..n),
 * or behind max_lines. */
static bool find_end(const char *s, size_t n, char closing, size_t max_lines, struct extent *e)
{
	for (; e->n < n && e->n_lines < max_lines; e->n++) {
		char c = s[e->n];

		e->n_lines += c == '\n';
		if (e->is_in_text) {
			e->n += c == '\\';
			e->is_in_text = c != '"';
			continue;
		}
		if (c == '"')
			e->is_in_text = true;
		else if (e->depth == 0 && (c == ',' || c == closing))
			return true;
		else if (c == '{' || c == '[')
			e->depth++;
		else if ((c == '}' || c == ']') && e->depth > 0)
			e->depth--;
	}
	return false;
}

/* ---- where the first element is ---- */

static const char *skip_space(const char *s, const char *end)
{
	while (s < end && is_space(*s))
		s++;
	return s;
}

/* Behind the '[' of "events" in the object that begins at s; NULL: it has none, or too far away. */
static const char *find_events(const char *s, const char *end)
{
	static const char *const words[] = { "\"events\"", ":", "[" };

	for (;;) {
		struct extent member = { 0 };
		const char *at = ++s; /* behind the brace, or a comma */
		size_t i = 0;

		for (; i < ARRAY_SIZE(words); i++) {
			size_t n = strlen(words[i]);

			at = skip_space(at, end);
			if ((size_t)(end - at) < n || memcmp(at, words[i], n) != 0)
				break;
			at += n;
		}
		if (i == ARRAY_SIZE(words))
			return at;
		if (!find_end(s, (size_t)(end - s), '}', SIZE_MAX, &member) || s[member.n] != ',')
			return NULL;
		s += member.n;
	}
}

/* ---- one after the other ---- */

/* The byte that is next but white space; 0 at the end. */
static int peek(struct records *r, char *ret)
{
	for (;;) {
		int more;

		while (r->begin < r->end && is_space(r->data[r->begin]))
			records_skip(r, 1);
		if (r->begin < r->end) {
			*ret = r->data[r->begin];
			return 1;
		}
		more = records_fill(r);
		if (more <= 0)
			return more;
	}
}

/* All that is left. 0; -EFBIG: it is longer than a record may be. */
static int fill_all(struct records *r)
{
	int more = 1;

	while (more > 0)
		more = records_fill(r);
	return more;
}

/* What follows the array, with what came before it, is one JSON text without the elements. */
static int check_rest(struct records *r, struct record_text *ret)
{
	int more = fill_all(r);

	r->is_done = true;
	if (more < 0 && more != -EFBIG)
		return more;
	*ret = (struct record_text){ .line = r->line,
				     .reason = more < 0 ? REASON_TOO_LONG : REASON_BAD_JSON };
	if (r->around.len == 1)
		buf_add_char(&r->around, ']'); /* which is_stray_bracket() took */
	buf_add(&r->around, r->data + r->begin, r->end - r->begin);
	if (buf_error(&r->around) < 0)
		return -ENOMEM;
	return more < 0 || !utf8_is_valid(r->around.data, r->around.len) ||
	       !jtree_is_valid(r->around.data, r->around.len);
}

static int bad_end(struct records *r, struct record_text *ret)
{
	r->is_done = true;
	*ret = (struct record_text){ .line = r->line, .reason = REASON_BAD_JSON, .is_last = true };
	return 1;
}

/* To the next line that begins like an element, or like the end of the array. 1; 0: none does. */
static int find_next_start(struct records *r)
{
	char c = '\0';
	int more;

	do {
		more = records_skip_line(r);
		if (more > 0)
			more = peek(r, &c);
	} while (more > 0 && c != '{' && c != ']');
	return more;
}

/* Tells the element at begin, which is of n bytes, as a fault, and looks for the next. */
static int tell_broken(struct records *r, enum reason reason, size_t n, struct record_text *ret)
{
	bool is_cut = reason == REASON_BAD_JSON && r->at_end && r->begin + n == r->end &&
		      jtree_is_cut(r->data + r->begin, n);
	int more;

	*ret = (struct record_text){ .line = r->line, .reason = reason };
	more = find_next_start(r);
	if (more < 0)
		return more;
	ret->is_last = more == 0 && is_cut;
	r->is_done = more == 0;
	r->wants_comma = false;
	return 1;
}

static int take_element(struct records *r, struct record_text *ret)
{
	struct extent e = { 0 };
	bool is_whole;
	int more = 1;

	while (more > 0 && e.n_lines < RECORDS_MAX_LINES &&
	       !find_end(r->data + r->begin, r->end - r->begin, ']', RECORDS_MAX_LINES, &e)) {
		/* An escape may have led past what was there. */
		e.n = e.n < r->end - r->begin ? e.n : r->end - r->begin;
		if (e.n_lines < RECORDS_MAX_LINES)
			more = records_fill(r);
	}
	if (more < 0 && more != -EFBIG)
		return more;
	*ret = (struct record_text){
		.text = r->data + r->begin, .n = e.n, .line = r->line, .is_last = more == 0
	};
	if (more < 0)
		return tell_broken(r, REASON_TOO_LONG, e.n, ret);
	/* Cut in its middle it is one fault; cut behind it, the missing bracket is. */
	is_whole =
		(more > 0 && !memchr(ret->text, '\n', ret->n)) || jtree_is_valid(ret->text, ret->n);
	if (!is_whole)
		return tell_broken(r, REASON_BAD_JSON, e.n, ret);
	r->wants_comma = true;
	records_skip(r, ret->n);
	return 1;
}

/* A bracket that something follows is none of the array's. */
static bool is_stray_bracket(struct records *r)
{
	char c = '\0';

	if (r->around.len != 1)
		return false;
	records_skip(r, 1);
	return peek(r, &c) > 0 && c == ',';
}

/* The document is one record: all of it, to the end. */
static int records_next_whole(struct records *r, struct record_text *ret)
{
	int more = fill_all(r);

	r->is_done = true;
	if (more < 0 && more != -EFBIG)
		return more;
	*ret = (struct record_text){ .text = r->data + r->begin,
				     .n = r->end - r->begin,
				     .line = r->line,
				     .reason = more < 0 ? REASON_TOO_LONG : REASON_NONE,
				     .is_last = true };
	return 1;
}

static int elements_next(struct records *r, struct record_text *ret)
{
	char c = '\0';
	int more = peek(r, &c);

	if (more > 0 && c == ']' && is_stray_bracket(r))
		return tell_broken(r, REASON_BAD_JSON, 0, ret);
	if (more > 0 && c == ']')
		return check_rest(r, ret);
	if (more > 0 && r->wants_comma) {
		records_skip(r, 1); /* the comma: nothing else ends an element but a bracket */
		more = peek(r, &c);
	}
	if (more <= 0)
		return more < 0 ? more : bad_end(r, ret);
	return take_element(r, ret);
}

/* Moves to the first element of a document of that kind, or to the one record that it is. */
static void elements_begin(struct records *r)
{
	const char *begin = r->data + r->begin, *end = r->data + r->end;
	const char *first = skip_space(begin, end), *at = NULL;
	bool is_spread = false;

	if (first < end && *first == '[')
		at = first + 1;
	else if (first < end && *first == '{')
		at = find_events(first, end);
	if (at) {
		r->next = elements_next;
		buf_add(&r->around, first, (size_t)(at - first));
		records_skip(r, (size_t)(at - begin));
		return;
	}
	/* A record over several lines, as printed for people, has nothing behind its brace. */
	for (const char *s = first + 1;
	     first < end && *first == '{' && s < end && is_space(*s) && !is_spread; s++)
		is_spread = *s == '\n';
	if (is_spread) {
		r->next = records_next_whole;
		records_skip(r, (size_t)(first - begin));
	}
}

/* ---- which format ---- */

enum records_hint records_hint_of(const char *name)
{
	static const struct {
		const char *end;
		enum records_hint hint;
	} ends[] = {
		{ ".jsonl", HINT_LINES },
		{ ".ndjson", HINT_LINES },
		{ ".csv", HINT_CSV },
		{ ".json", HINT_JSON },
	};
	size_t n = strlen(name);

	if (n > 3 && strcasecmp(name + n - 3, ".gz") == 0)
		n -= 3;
	else if (n > 4 && strcasecmp(name + n - 4, ".zst") == 0)
		n -= 4;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t len = strlen(ends[i].end);

		if (n > len && strncasecmp(name + n - len, ends[i].end, len) == 0)
			return ends[i].hint;
	}
	return HINT_NONE;
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
	enum records_hint hint = records_hint_of(name);

	if (hint == HINT_CSV || (hint != HINT_LINES && looks_like_csv(r)))
		return csv_begin(r);
	if (hint != HINT_LINES)
		elements_begin(r);
	return 0;
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
	r->data = malloc(FIRST_BYTES);
	if (!r->data)
		more = -ENOMEM;
	/* A pipe gives little at a time: enough to see what it is. */
	while (more > 0 && r->end < FIRST_BYTES / 2)
		more = records_fill(r);
	/* Programs of Windows begin texts of any kind with one. */
	if (r->end >= strlen(BYTE_ORDER_MARK) &&
	    memcmp(r->data, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		r->begin = strlen(BYTE_ORDER_MARK);
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
	return r->is_done ? 0 : r->next(r, ret);
}
