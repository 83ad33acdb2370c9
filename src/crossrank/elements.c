/*
 * The elements of a JSON array, one at a time: of the array that the document is, or
 * of "events" in the object that it is. What stands around that array is kept and checked
 * when all is read, so that a file with a fault at its end is not called valid.
 */
#include "crossrank/records.h"

#include <errno.h>
#include <string.h>

#include "crossrank/bulk.h"
#include "crossrank/jtree.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- where the first element is ---- */

struct cursor {
	const char *at, *end;
};

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && is_space(*c->at))
		c->at++;
}

/* Behind the text that begins at the cursor; false: it does not end here. */
static bool skip_text(struct cursor *c)
{
	for (c->at++; c->at < c->end; c->at++) {
		if (*c->at == '\\')
			c->at++;
		else if (*c->at == '"')
			return ++c->at <= c->end;
	}
	return false;
}

/* Behind a value of an object: at its comma or brace. */
static bool skip_value(struct cursor *c)
{
	int depth = 0;

	while (c->at < c->end) {
		char ch = *c->at;

		if (ch == '"') {
			if (!skip_text(c))
				return false;
			continue;
		}
		if (depth == 0 && (ch == ',' || ch == '}'))
			return true;
		depth += ch == '{' || ch == '[';
		depth -= ch == '}' || ch == ']';
		c->at++;
	}
	return false;
}

/* The cursor is behind '{': moves it behind the '[' of "events". */
static bool find_events(struct cursor *c)
{
	static const char name[] = "\"events\"";

	for (;;) {
		const char *key;
		bool is_events;

		skip_space(c);
		key = c->at;
		if (c->at >= c->end || *c->at != '"' || !skip_text(c))
			return false;
		is_events = (size_t)(c->at - key) == sizeof(name) - 1 &&
			    memcmp(key, name, sizeof(name) - 1) == 0;
		skip_space(c);
		if (c->at >= c->end || *c->at++ != ':')
			return false;
		skip_space(c);
		if (is_events && c->at < c->end && *c->at == '[') {
			c->at++;
			return true;
		}
		if (!skip_value(c) || *c->at++ != ',')
			return false;
	}
}

/* A record over several lines: as printed for people, with nothing behind its brace. */
static bool is_spread_record(const struct records *r, const char *brace)
{
	const char *end = r->data + r->end, *s = brace + 1;

	while (s < end && *s != '\n' && is_space(*s))
		s++;
	return s < end && *s == '\n';
}

bool elements_begin(struct records *r)
{
	struct cursor c = { r->data + r->begin, r->data + r->end };
	const char *first;

	skip_space(&c);
	first = c.at;
	if (c.at >= c.end || (*c.at != '[' && *c.at != '{'))
		return false;
	c.at++;
	if (*first == '{' && !find_events(&c)) {
		if (!is_spread_record(r, first))
			return false;
		c.at = first;
		r->is_single = true;
	} else {
		buf_add(&r->around, first, (size_t)(c.at - first));
	}
	records_skip(r, (size_t)(c.at - (r->data + r->begin)));
	return true;
}

/* ---- one after the other ---- */

/* Where the element at begin ends: at a comma or bracket that is not its own. */
struct extent {
	size_t n;
	int depth;
	bool is_in_text;
};

static bool find_end(const struct records *r, struct extent *e)
{
	const char *s = r->data + r->begin;
	size_t n = r->end - r->begin;

	for (; e->n < n; e->n++) {
		char c = s[e->n];

		if (e->is_in_text) {
			if (c == '\\')
				e->n++;
			else if (c == '"')
				e->is_in_text = false;
			continue;
		}
		if (c == '"')
			e->is_in_text = true;
		else if (e->depth == 0 && (c == ',' || c == ']'))
			return true;
		else if (c == '{' || c == '[')
			e->depth++;
		else if ((c == '}' || c == ']') && e->depth > 0)
			e->depth--;
	}
	return false;
}

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

/* What follows the array, with what came before it, is one JSON text without the elements. */
static int check_rest(struct records *r, struct record_text *ret)
{
	int more = 1;

	ret->line = r->line;
	r->is_done = true;
	while (more > 0) {
		if (r->around.len + (r->end - r->begin) > RECORDS_MAX_BYTES)
			more = -EFBIG;
		else
			buf_add(&r->around, r->data + r->begin, r->end - r->begin);
		r->begin = r->end;
		if (more > 0)
			more = records_fill(r);
	}
	if (more == 0 && buf_error(&r->around) < 0)
		more = -ENOMEM;
	if (more < 0 && more != -EFBIG)
		return more;
	if (more == 0 && bulk_is_utf8(r->around.data, r->around.len) &&
	    jtree_is_valid(r->around.data, r->around.len))
		return 0;
	ret->reason = more < 0 ? REASON_TOO_LONG : REASON_BAD_JSON;
	return 1;
}

static int bad_end(struct records *r, struct record_text *ret)
{
	r->is_done = true;
	*ret = (struct record_text){ .line = r->line, .reason = REASON_BAD_JSON, .is_last = true };
	return 1;
}

static int take_element(struct records *r, struct record_text *ret)
{
	struct extent e = { 0 };
	int more = 1;

	while (more > 0 && !find_end(r, &e)) {
		/* An escape may have led past what was there. */
		e.n = e.n < r->end - r->begin ? e.n : r->end - r->begin;
		more = records_fill(r);
	}
	if (more == -EFBIG) {
		*ret = (struct record_text){ .line = r->line, .reason = REASON_TOO_LONG };
		r->is_done = true;
		return 1;
	}
	if (more < 0)
		return more;
	*ret = (struct record_text){ r->data + r->begin, e.n, r->line, REASON_NONE, more == 0 };
	r->wants_comma = true;
	/* Cut in its middle it is one fault; cut behind it, the missing bracket is. */
	r->is_done = more == 0 && !jtree_is_valid(ret->text, ret->n);
	return 1;
}

/* The document is one record: all of it, to the end. */
static int take_all(struct records *r, struct record_text *ret)
{
	int more = 1;

	r->is_done = true;
	while (more > 0)
		more = records_fill(r);
	if (more < 0 && more != -EFBIG)
		return more;
	*ret = (struct record_text){ r->data + r->begin, r->end - r->begin, r->line,
				     more < 0 ? REASON_TOO_LONG : REASON_NONE, true };
	return 1;
}

int elements_next(struct records *r, struct record_text *ret)
{
	char c = '\0';
	int more;

	*ret = (struct record_text){ 0 };
	if (r->is_done)
		return 0;
	if (r->is_single)
		return take_all(r, ret);
	more = peek(r, &c);
	if (more > 0 && c == ']')
		return check_rest(r, ret);
	if (more > 0 && r->wants_comma) {
		records_skip(r, 1); /* the comma: nothing else ends an element but a bracket */
		more = peek(r, &c);
	}
	if (more <= 0)
		return more < 0 ? more : bad_end(r, ret);
	more = take_element(r, ret);
	if (more > 0)
		records_skip(r, ret->n);
	return more;
}
