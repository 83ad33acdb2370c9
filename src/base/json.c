#include "base/json.h"

#include <string.h>

#include "base/json_number.h"
#include "base/unknown.h"
#include "base/utf8.h"

void json_init(struct json *j, struct buf *out)
{
	j->out = out;
	j->need_comma = false;
}

/* Room for n bytes, to be written at the returned place; NULL: no memory. */
static char *make_room(struct buf *out, size_t n)
{
	if (out->cap - out->len <= n && buf_reserve(out, n) < 0)
		return NULL;
	return out->data + out->len;
}

static void end_at(struct buf *out, char *end)
{
	*end = '\0';
	out->len = (size_t)(end - out->data);
}

static void json_before_value(struct json *j)
{
	if (j->need_comma)
		buf_add_char(j->out, ',');
	j->need_comma = true;
}

/* Room for a value of at most n bytes, behind the comma that it may need; NULL: no memory. */
static char *make_value_room(struct json *j, size_t n)
{
	char *at = make_room(j->out, n + 1);

	if (at && j->need_comma)
		*at++ = ',';
	j->need_comma = true;
	return at;
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

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))

/* Sets the top bit of a byte that is 0; of others only above one that is. */
static uint64_t find_zeros(uint64_t bytes)
{
	return (bytes - EACH_BYTE(1)) & ~bytes & EACH_BYTE(0x80);
}

/* json_is_plain() for eight at once. */
static bool are_eight_plain(const char *s)
{
	uint64_t bytes;

	memcpy(&bytes, s, sizeof(bytes));
	return (((bytes - EACH_BYTE(0x20)) | bytes | (bytes + EACH_BYTE(1))) & EACH_BYTE(0x80)) ==
		       0 &&
	       find_zeros(bytes ^ EACH_BYTE('"')) == 0 && find_zeros(bytes ^ EACH_BYTE('\\')) == 0;
}

/* How many of the n bytes are plain before the first that is not. */
static size_t count_plain(const char *s, size_t n)
{
	size_t i = 0;

	while (n - i >= 8 && are_eight_plain(s + i))
		i += 8;
	while (i < n && json_is_plain((unsigned char)s[i]))
		i++;
	return i;
}

/* A string that needs no escapes, in quotes. Returns what is behind it. */
static char *put_plain(char *at, const char *s, size_t n)
{
	*at++ = '"';
	at = mempcpy(at, s, n);
	*at++ = '"';
	return at;
}

static void json_quote(struct buf *out, const char *s, size_t n)
{
	size_t run = count_plain(s, n), i = 0;

	if (run == n) { /* nearly all strings */
		char *at = make_room(out, n + 2);

		if (at)
			end_at(out, put_plain(at, s, n));
		return;
	}
	buf_add_char(out, '"');
	for (;; run = count_plain(s + i, n - i)) {
		size_t len;

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

/* In one go: half of what is written are keys. */
void json_key(struct json *j, const char *key)
{
	size_t n = strlen(key);
	char *at = count_plain(key, n) == n ? make_room(j->out, n + 4) : NULL;

	if (at) {
		if (j->need_comma)
			*at++ = ',';
		at = put_plain(at, key, n);
		*at++ = ':';
		end_at(j->out, at);
	} else {
		json_before_value(j);
		json_quote(j->out, key, n);
		buf_add_char(j->out, ':');
	}
	j->need_comma = false;
}

char *json_room(struct json *j, size_t n)
{
	return make_room(j->out, n);
}

void json_room_end(struct json *j, char *end, bool is_key)
{
	end_at(j->out, end);
	j->need_comma = !is_key;
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
	char *at = make_value_room(j, JSON_NUMBER_BYTES);

	if (at)
		end_at(j->out, json_put_u64(at, v));
}

void json_i64(struct json *j, int64_t v)
{
	char *at = make_value_room(j, JSON_NUMBER_BYTES);

	if (at)
		end_at(j->out, json_put_i64(at, v));
}

void json_f64(struct json *j, double v)
{
	char *at = make_value_room(j, JSON_NUMBER_BYTES);

	if (at)
		end_at(j->out, json_put_f64(at, v));
}

void json_bool(struct json *j, bool v)
{
	json_before_value(j);
	buf_add_str(j->out, v ? "true" : "false");
}

void json_none(struct json *j)
{
	char *at = make_value_room(j, JSON_NUMBER_BYTES);

	if (at)
		end_at(j->out, json_put_null(at));
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
