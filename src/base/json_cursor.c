#include "base/json_cursor.h"

#include <string.h>

#include "base/utf8.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"

#define NUMBER_BYTES 64 /* of the longest that is read: a double needs 24 */

void json_cursor_init(struct json_cursor *c, const char *text, size_t len)
{
	*c = (struct json_cursor){ .at = text, .end = text + len };
}

static void give_up(struct json_cursor *c)
{
	c->is_bad = true;
	c->at = c->end;
}

static void skip_blanks(struct json_cursor *c)
{
	while (c->at < c->end &&
	       (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
		c->at++;
}

/* The next character that is no blank; '\0': the text is over. */
static char peek(struct json_cursor *c)
{
	skip_blanks(c);
	return c->at < c->end ? *c->at : '\0';
}

static bool take(struct json_cursor *c, char wanted)
{
	if (peek(c) != wanted || wanted == '\0')
		return false;
	c->at++;
	return true;
}

/* ---- lists and objects ---- */

bool json_cursor_enter(struct json_cursor *c, char bracket)
{
	if (!take(c, bracket)) {
		json_cursor_skip(c);
		return false;
	}
	c->is_first = true;
	return true;
}

/* To the next member or element, over the comma; false: it was the last. */
static bool go_on(struct json_cursor *c, char closing)
{
	bool is_first = c->is_first;

	c->is_first = false;
	if (c->is_bad || take(c, closing))
		return false;
	if (!is_first && !take(c, ',')) {
		give_up(c);
		return false;
	}
	return true;
}

bool json_cursor_next_element(struct json_cursor *c)
{
	return go_on(c, ']');
}

/* A string as it stands there, without its quotes; NULL: it is none. */
static const char *take_raw(struct json_cursor *c, size_t *ret_len, bool *ret_has_escapes)
{
	const char *start, *p;

	if (!take(c, '"'))
		return NULL;
	*ret_has_escapes = false;
	start = c->at;
	for (p = start; p < c->end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < c->end) {
			*ret_has_escapes = true;
			p++;
		}
	if (p >= c->end) { /* it does not end */
		give_up(c);
		return NULL;
	}
	c->at = p + 1;
	*ret_len = (size_t)(p - start);
	return start;
}

bool json_cursor_next_key(struct json_cursor *c, const char **ret_key, size_t *ret_len)
{
	bool has_escapes;

	if (!go_on(c, '}'))
		return false;
	*ret_key = take_raw(c, ret_len, &has_escapes);
	if (*ret_key && take(c, ':'))
		return true;
	give_up(c);
	return false;
}

bool json_cursor_is(const char *key, size_t len, const char *name)
{
	return len == strlen(name) && memcmp(key, name, len) == 0;
}

/* ---- what is passed over ---- */

/* Inside a list or an object all is one to it but strings and brackets. */
static void skip_nested(struct json_cursor *c)
{
	size_t depth = 0, len;
	bool has_escapes;

	do {
		char ch = peek(c);

		if (ch == '"') {
			(void)take_raw(c, &len, &has_escapes);
			continue;
		}
		depth += ch == '{' || ch == '[';
		depth -= ch == '}' || ch == ']';
		if (ch == '\0')
			give_up(c);
		else
			c->at++;
	} while (depth > 0 && !c->is_bad);
}

void json_cursor_skip(struct json_cursor *c)
{
	const char *start;
	size_t len;
	bool has_escapes;

	switch (peek(c)) {
	case '"':
		(void)take_raw(c, &len, &has_escapes);
		break;
	case '{':
	case '[':
		skip_nested(c);
		break;
	default:
		for (start = c->at; c->at < c->end; c->at++)
			if (!ascii_is_alnum(*c->at) && *c->at != '-' && *c->at != '+' &&
			    *c->at != '.')
				break;
		if (c->at == start)
			give_up(c);
		break;
	}
}

void json_cursor_value(struct json_cursor *c, const char **ret_text, size_t *ret_len)
{
	skip_blanks(c);
	*ret_text = c->at;
	json_cursor_skip(c);
	*ret_len = c->is_bad ? 0 : (size_t)(c->at - *ret_text);
}

/* ---- numbers ---- */

/* The text of a number; 0: it is none, and passed over. */
static size_t take_number(struct json_cursor *c, const char **ret)
{
	char first = peek(c);

	*ret = c->at;
	json_cursor_skip(c);
	return (first == '-' || ascii_is_digit(first)) && !c->is_bad ? (size_t)(c->at - *ret) : 0;
}

/* Exact: both are whole numbers that a double holds, so one division rounds once. */
static bool parse_short(const char *s, size_t n, double *ret)
{
	static const double tens[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,	 1e6,  1e7,
				       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
	uint64_t digits = 0;
	size_t point = n, i = 0;

	if (n == 0 || n >= ARRAY_SIZE(tens) || !ascii_is_digit(s[0]) || !ascii_is_digit(s[n - 1]))
		return false;
	for (; i < n; i++) {
		if (s[i] == '.' && point == n)
			point = i;
		else if (ascii_is_digit(s[i]))
			digits = digits * 10 + (uint64_t)(s[i] - '0');
		else
			return false;
	}
	*ret = (double)digits / tens[point == n ? 0 : n - 1 - point];
	return true;
}

double json_cursor_f64(struct json_cursor *c)
{
	char copy[NUMBER_BYTES];
	const char *text;
	size_t n = take_number(c, &text);
	double v = F64_UNKNOWN;

	if (parse_short(text, n, &v) || n == 0 || n >= sizeof(copy))
		return v;
	memcpy(copy, text, n);
	copy[n] = '\0';
	return num_parse_f64(copy, &v) == 0 ? v : F64_UNKNOWN;
}

uint64_t json_cursor_u64(struct json_cursor *c)
{
	const char *text;
	size_t n = take_number(c, &text);
	uint64_t v;

	return num_parse_u64_n(text, n, &v) == 0 ? v : U64_UNKNOWN;
}

int64_t json_cursor_i64(struct json_cursor *c, int64_t otherwise)
{
	const char *text;
	size_t n = take_number(c, &text);
	bool is_negative = n > 0 && text[0] == '-';
	uint64_t v;

	if (num_parse_u64_n(text + is_negative, n - is_negative, &v) < 0 || v > INT64_MAX)
		return otherwise;
	return is_negative ? -(int64_t)v : (int64_t)v;
}

/* ---- strings ---- */

#define REPLACEMENT 0xfffd

static bool is_high(long v)
{
	return v >= 0xd800 && v <= 0xdbff;
}

static bool is_low(long v)
{
	return v >= 0xdc00 && v <= 0xdfff;
}

/* What stands behind "\u". Returns what is behind that. */
static const char *put_unicode(const char *s, const char *end, char **out)
{
	long v = utf8_read_hex4(s, end), low = -1;

	if (v < 0) {
		*(*out)++ = '?'; /* no room for more: only two bytes were taken */
		return s;
	}
	s += 4;
	if (is_high(v) && end - s >= 6 && s[0] == '\\' && s[1] == 'u')
		low = utf8_read_hex4(s + 2, end);
	if (is_high(v) && is_low(low)) {
		*out += utf8_put(*out, 0x10000U + ((unsigned)(v - 0xd800) << 10) +
					       (unsigned)(low - 0xdc00));
		return s + 6;
	}
	*out += utf8_put(*out, v == 0 || is_high(v) || is_low(v) ? REPLACEMENT : (unsigned)v);
	return s;
}

/*
 * The inside of a string as the text it stands for, into out of at least n + 1 bytes: no escape is
 * shorter than its text. Half a surrogate pair and a NUL become U+FFFD, an invalid escape '?'.
 */
static void unescape(const char *s, size_t n, char *out)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *end = s + n;

	while (s < end) {
		if (*s != '\\' || s + 1 == end) {
			*out++ = *s++;
		} else if (s[1] == 'u') {
			s = put_unicode(s + 2, end, &out);
		} else {
			const char *at = s[1] ? strchr(from, s[1]) : NULL;

			*out++ = at ? to[at - from] : s[1];
			s += 2;
		}
	}
	*out = '\0';
}

char *json_cursor_string(struct json_cursor *c, struct arena *arena)
{
	bool has_escapes = false;
	size_t n = 0;
	const char *raw;
	char *text;

	if (peek(c) != '"') {
		json_cursor_skip(c);
		return NULL;
	}
	raw = take_raw(c, &n, &has_escapes);
	if (!raw)
		return NULL;
	text = arena_strndup(arena, raw, n);
	if (text && has_escapes)
		unescape(raw, n, text);
	return text;
}
