#include "base/json.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "base/utf8.h"

void json_init(struct json *j, struct buf *out)
{
	j->out = out;
	j->need_comma = false;
}

static void json_before_value(struct json *j)
{
	if (j->need_comma)
		buf_add_char(j->out, ',');
	j->need_comma = true;
}

static void json_open(struct json *j, char c)
{
	json_before_value(j);
	buf_add_char(j->out, c);
	j->need_comma = false;
}

static void json_close(struct json *j, char c)
{
	buf_add_char(j->out, c);
	j->need_comma = true;
}

void json_begin_object(struct json *j)
{
	json_open(j, '{');
}

void json_end_object(struct json *j)
{
	json_close(j, '}');
}

void json_begin_array(struct json *j)
{
	json_open(j, '[');
}

void json_end_array(struct json *j)
{
	json_close(j, ']');
}

static void json_escape(struct buf *out, unsigned char c)
{
	switch (c) {
	case '"':
		buf_add_str(out, "\\\"");
		break;
	case '\\':
		buf_add_str(out, "\\\\");
		break;
	case '\n':
		buf_add_str(out, "\\n");
		break;
	case '\t':
		buf_add_str(out, "\\t");
		break;
	default:
		buf_printf(out, "\\u%04x", c);
	}
}

static bool json_is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void json_quote(struct buf *out, const char *s, size_t n)
{
	size_t i = 0;

	buf_add_char(out, '"');
	while (i < n) {
		size_t run = 0, len;

		while (i + run < n && json_is_plain((unsigned char)s[i + run]))
			run++;
		buf_add(out, s + i, run);
		i += run;
		if (i == n)
			break;
		len = utf8_char_len(s + i, n - i);
		if (len == 0)
			buf_add_str(out, "\\ufffd");
		else if (len == 1)
			json_escape(out, (unsigned char)s[i]);
		else
			buf_add(out, s + i, len);
		i += len ? len : 1;
	}
	buf_add_char(out, '"');
}

void json_key(struct json *j, const char *key)
{
	json_before_value(j);
	json_quote(j->out, key, strlen(key));
	buf_add_char(j->out, ':');
	j->need_comma = false;
}

void json_str_n(struct json *j, const char *s, size_t n)
{
	json_before_value(j);
	json_quote(j->out, s, n);
}

void json_str(struct json *j, const char *s)
{
	if (s)
		json_str_n(j, s, strlen(s));
	else
		json_none(j);
}

void json_u64(struct json *j, uint64_t v)
{
	if (!u64_known(v)) {
		json_none(j);
		return;
	}
	json_before_value(j);
	buf_printf(j->out, "%llu", (unsigned long long)v);
}

void json_i64(struct json *j, int64_t v)
{
	json_before_value(j);
	buf_printf(j->out, "%lld", (long long)v);
}

/* In some languages printf() writes 0,5. */
static void json_fix_point(char *text)
{
	const char *point = nl_langinfo(RADIXCHAR);
	char *at = strcmp(point, ".") == 0 ? NULL : strstr(text, point);

	if (!at)
		return;
	*at = '.';
	memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
}

void json_f64(struct json *j, double v)
{
	char text[40];

	if (!isfinite(v)) {
		json_none(j);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	json_fix_point(text);
	json_before_value(j);
	buf_add_str(j->out, text);
	/* A whole number stays a float for readers that tell the two apart. */
	if (!strpbrk(text, ".e"))
		buf_add_str(j->out, ".0");
}

void json_bool(struct json *j, bool v)
{
	json_before_value(j);
	buf_add_str(j->out, v ? "true" : "false");
}

void json_none(struct json *j)
{
	json_before_value(j);
	buf_add_str(j->out, "null");
}

void json_raw(struct json *j, const char *json, size_t n)
{
	json_before_value(j);
	buf_add(j->out, json, n);
}

void json_key_string(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_key_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

void json_key_i64(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_i64(j, v);
}

void json_key_int(struct json *j, const char *key, int v)
{
	json_key_u64(j, key, v < 0 ? U64_UNKNOWN : (uint64_t)v);
}

void json_key_f64(struct json *j, const char *key, double v)
{
	json_key(j, key);
	json_f64(j, v);
}

void json_key_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}

void json_key_null(struct json *j, const char *key)
{
	json_key(j, key);
	json_none(j);
}
