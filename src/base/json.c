#include "base/json.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"

/*
 * A snapshot of a thousand processes has thirty thousand numbers: printf() would
 * take most of the time that it takes to write one.
 */
#define DIGITS_MAX 20 /* of a uint64_t */

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
			    "25262728293031323334353637383940414243444546474849"
			    "50515253545556575859606162636465666768697071727374"
			    "75767778798081828384858687888990919293949596979899";

/* Writes the digits so that they stop before end. Returns where they begin. */
static char *put_digits(char *end, uint64_t v)
{
	for (; v >= 100; v /= 100)
		memcpy(end -= 2, &pairs[v % 100 * 2], 2);
	if (v >= 10)
		return memcpy(end - 2, &pairs[v * 2], 2);
	*--end = (char)('0' + v);
	return end;
}

static char *add_digits(char *at, uint64_t v)
{
	size_t n = 1;

	for (uint64_t power = 10; n < DIGITS_MAX && v >= power; power *= 10)
		n++;
	put_digits(at + n, v);
	return at + n;
}

static char *json_put_null(char *at)
{
	memcpy(at, "null", 4);
	return at + 4;
}

char *json_put_u64(char *at, uint64_t v)
{
	return u64_known(v) ? add_digits(at, v) : json_put_null(at);
}

char *json_put_i64(char *at, int64_t v)
{
	if (v < 0)
		*at++ = '-';
	return add_digits(at, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
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

/* From which size on so many decimals are too many: all digits together are 15 at most. */
static const struct scale {
	double below;
	uint64_t factor;
	size_t decimals;
} scales[] = { { 1e6, 1000000000, 9 }, { 1e9, 1000000, 6 }, { 1e12, 1000, 3 } };

/* "12.5" of 12500000000 with 9 decimals; at least one decimal stays. */
static char *add_decimal(char *at, uint64_t scaled, const struct scale *scale)
{
	uint64_t part = scaled % scale->factor;
	char *point = add_digits(at, scaled / scale->factor), *end = point + 1 + scale->decimals;

	memset(point, '0', 1 + scale->decimals);
	put_digits(end, part);
	*point = '.';
	while (end > point + 2 && end[-1] == '0')
		end--;
	return end;
}

/*
 * Most numbers have few decimals: bytes in MB, times in nanoseconds, percents. If
 * one is a whole number of at most 15 digits divided by a power of ten, these are
 * its shortest digits: both are exact as doubles, and division rounds correctly. NULL:
 * it is not, or would be written with an exponent.
 */
static char *add_short_decimal(char *at, double v)
{
	if (v < 1e-4)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(scales); i++) {
		uint64_t scaled;

		if (v >= scales[i].below)
			continue;
		scaled = (uint64_t)(v * (double)scales[i].factor + 0.5);
		if ((double)scaled / (double)scales[i].factor != v)
			return NULL;
		return add_decimal(at, scaled, &scales[i]);
	}
	return NULL;
}

/*
 * The same of less than a tenth of a millisecond, in seconds: "8.4e-05". A process that
 * only waits has used no more than that.
 */
static char *add_few_nanoseconds(char *at, double v)
{
	uint64_t ns = v > 0 && v < 1e-4 ? (uint64_t)(v * 1e9 + 0.5) : 0;
	char text[DIGITS_MAX], *end = text + sizeof(text), *begin;
	int exponent;

	if (ns == 0 || (double)ns / 1e9 != v)
		return NULL;
	begin = put_digits(end, ns);
	exponent = 10 - (int)(end - begin);
	while (end[-1] == '0')
		end--;
	*at++ = *begin++;
	if (begin < end)
		*at++ = '.';
	at = mempcpy(at, begin, (size_t)(end - begin));
	at = mempcpy(at, "e-0", 3);
	*at++ = (char)('0' + exponent);
	return at;
}

/* Round half to even, as printf() does. */
static uint64_t divide_rounded(uint64_t a, unsigned shift)
{
	uint64_t half = UINT64_C(1) << (shift - 1), rest = a & ((half << 1) - 1), q = a >> shift;

	return q + (rest > half || (rest == half && (q & 1)));
}

/*
 * Times of the present, in seconds: with ten digits before the point they have seven behind it,
 * too many for the above. Such a double is a whole number of 2^-bits: what is behind the
 * point fits into integers, and so does the test whether so many decimals tell it from its
 * neighbours. NULL: it is not of that size.
 */
static char *add_time(char *at, double v)
{
	static const struct scale times[] = { { 0, 10, 1 },	 { 0, 100, 2 },
					      { 0, 1000, 3 },	 { 0, 10000, 4 },
					      { 0, 100000, 5 },	 { 0, 1000000, 6 },
					      { 0, 10000000, 7 } };
	unsigned bits = v < 0x1p31 ? 22 : 21;
	uint64_t whole, part;

	if (v < 0x1p30 || v >= 0x1p32)
		return NULL;
	whole = (uint64_t)v;
	part = (uint64_t)((v - (double)whole) * (double)(UINT64_C(1) << bits));
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		uint64_t factor = times[i].factor, scaled = divide_rounded(part * factor, bits);
		uint64_t back = scaled << bits, exact = part * factor;

		if ((back > exact ? back - exact : exact - back) * 2 >= factor)
			continue; /* as near to another double */
		return add_decimal(at, whole * factor + scaled, &times[i]);
	}
	return NULL;
}

char *json_put_f64(char *at, double v)
{
	char *end;
	char text[40];

	if (!isfinite(v))
		return json_put_null(at);
	if (v == 0 && !signbit(v))
		return mempcpy(at, "0.0", 3);
	end = add_time(at, v);
	if (!end)
		end = add_short_decimal(at, v);
	if (!end)
		end = add_few_nanoseconds(at, v);
	if (end)
		return end;
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	json_fix_point(text);
	at = stpcpy(at, text);
	/* A whole number stays a float for readers that tell the two apart. */
	return strpbrk(text, ".e") ? at : stpcpy(at, ".0");
}

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

void json_init_object(struct json *j, struct buf *out)
{
	json_init(j, out);
	json_begin_object(j);
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

#define EACH_BYTE(c) (UINT64_C(0x0101010101010101) * (c))

/* Sets the top bit of a byte that is 0; of others only above one that is. */
static uint64_t find_zeros(uint64_t bytes)
{
	return (bytes - EACH_BYTE(1)) & ~bytes & EACH_BYTE(0x80);
}

/* Of eight bytes: none that is escaped, and none beyond ASCII. */
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
	while (i < n && (s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' && s[i] != '\\'))
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

void json_key_object(struct json *j, const char *key)
{
	json_key(j, key);
	json_begin_object(j);
}

void json_key_array(struct json *j, const char *key)
{
	json_key(j, key);
	json_begin_array(j);
}

void json_key_null(struct json *j, const char *key)
{
	json_key(j, key);
	json_none(j);
}
