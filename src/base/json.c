#include "base/json.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
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

/* For what the compiler knows the length of. */
static inline void add_short(struct buf *out, const char *text, size_t n)
{
	char *at = make_room(out, n);

	if (!at)
		return;
	memcpy(at, text, n);
	end_at(out, at + n);
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

static void json_quote(struct buf *out, const char *s, size_t n)
{
	size_t i = 0;

	buf_add_char(out, '"');
	while (i < n) {
		size_t run = count_plain(s + i, n - i), len;

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
static void add_plain_key(struct json *j, const char *key, size_t n)
{
	char *at = j->out->data + j->out->len, *begin = at;

	if (j->need_comma)
		*at++ = ',';
	*at++ = '"';
	memcpy(at, key, n);
	at += n;
	*at++ = '"';
	*at++ = ':';
	*at = '\0';
	j->out->len += (size_t)(at - begin);
}

void json_key(struct json *j, const char *key)
{
	size_t n = strlen(key);

	if (count_plain(key, n) == n && buf_reserve(j->out, n + 4) == 0) {
		add_plain_key(j, key, n);
	} else {
		json_before_value(j);
		json_quote(j->out, key, n);
		buf_add_char(j->out, ':');
	}
	j->need_comma = false;
}

/* Always so many bytes, which are two moves; what is too much the value overwrites. */
void json_key_ready(struct json *j, const char text[JSON_KEY_BYTES], size_t n)
{
	size_t skip = j->need_comma ? 0 : 1;
	char *at = make_room(j->out, JSON_KEY_BYTES);

	j->need_comma = false;
	if (!at)
		return;
	memcpy(at, text + skip, JSON_KEY_BYTES - 1);
	end_at(j->out, at + n - skip);
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

static size_t count_digits(uint64_t v)
{
	size_t n = 1;

	for (uint64_t power = 10; n < DIGITS_MAX && v >= power; power *= 10)
		n++;
	return n;
}

static void add_digits(struct buf *out, uint64_t v)
{
	size_t n = count_digits(v);
	char *at = make_room(out, n);

	if (!at)
		return;
	put_digits(at + n, v);
	end_at(out, at + n);
}

void json_u64(struct json *j, uint64_t v)
{
	if (!u64_known(v)) {
		json_none(j);
		return;
	}
	json_before_value(j);
	add_digits(j->out, v);
}

void json_i64(struct json *j, int64_t v)
{
	json_before_value(j);
	if (v < 0)
		buf_add_char(j->out, '-');
	add_digits(j->out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
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
	int decimals;
} scales[] = { { 1e6, 1000000000, 9 }, { 1e9, 1000000, 6 }, { 1e12, 1000, 3 } };

/* "12.5" of 12500000000 with 9 decimals; at least one decimal stays. */
static void add_decimal(struct buf *out, uint64_t scaled, const struct scale *scale)
{
	size_t decimals = (size_t)scale->decimals;
	uint64_t part = scaled % scale->factor;
	char *at;

	add_digits(out, scaled / scale->factor);
	at = make_room(out, 1 + decimals);
	if (!at)
		return;
	*at = '.';
	for (size_t i = decimals; i > 0; i--, part /= 10)
		at[i] = (char)('0' + part % 10);
	while (decimals > 1 && at[decimals] == '0')
		decimals--;
	end_at(out, at + 1 + decimals);
}

/*
 * Most numbers have few decimals: bytes in MB, times in nanoseconds, percents. If
 * one is a whole number of at most 15 digits divided by a power of ten, these are
 * its shortest digits: both are exact as doubles, and division rounds correctly. False:
 * it is not, or would be written with an exponent.
 */
static bool add_short_decimal(struct buf *out, double v)
{
	if (v < 1e-4)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(scales); i++) {
		uint64_t scaled;

		if (v >= scales[i].below)
			continue;
		scaled = (uint64_t)(v * (double)scales[i].factor + 0.5);
		if ((double)scaled / (double)scales[i].factor != v)
			return false;
		add_decimal(out, scaled, &scales[i]);
		return true;
	}
	return false;
}

/*
 * The same of less than a tenth of a millisecond, in seconds: "8.4e-05". A process that
 * only waits has used no more than that.
 */
static bool add_few_nanoseconds(struct buf *out, double v)
{
	uint64_t ns = v > 0 && v < 1e-4 ? (uint64_t)(v * 1e9 + 0.5) : 0;
	char text[DIGITS_MAX], *end = text + sizeof(text), *begin;
	int exponent;

	if (ns == 0 || (double)ns / 1e9 != v)
		return false;
	begin = put_digits(end, ns);
	exponent = 10 - (int)(end - begin);
	while (end[-1] == '0')
		end--;
	buf_add_char(out, *begin++);
	if (begin < end)
		buf_add_char(out, '.');
	buf_add(out, begin, (size_t)(end - begin));
	buf_add(out, "e-0", 3);
	buf_add_char(out, (char)('0' + exponent));
	return true;
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
 * neighbours. False: it is not of that size.
 */
static bool add_time(struct buf *out, double v)
{
	static const struct scale times[] = { { 0, 10, 1 },	 { 0, 100, 2 },
					      { 0, 1000, 3 },	 { 0, 10000, 4 },
					      { 0, 100000, 5 },	 { 0, 1000000, 6 },
					      { 0, 10000000, 7 } };
	unsigned bits = v < 0x1p31 ? 22 : 21;
	uint64_t whole, part;

	if (v < 0x1p30 || v >= 0x1p32)
		return false;
	whole = (uint64_t)v;
	part = (uint64_t)((v - (double)whole) * (double)(UINT64_C(1) << bits));
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		uint64_t factor = times[i].factor, scaled = divide_rounded(part * factor, bits);
		uint64_t back = scaled << bits, exact = part * factor;

		if ((back > exact ? back - exact : exact - back) * 2 >= factor)
			continue; /* as near to another double */
		add_decimal(out, whole * factor + scaled, &times[i]);
		return true;
	}
	return false;
}

static void add_any_decimal(struct buf *out, double v)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	json_fix_point(text);
	buf_add_str(out, text);
	/* A whole number stays a float for readers that tell the two apart. */
	if (!strpbrk(text, ".e"))
		buf_add_str(out, ".0");
}

void json_f64(struct json *j, double v)
{
	if (!isfinite(v)) {
		json_none(j);
		return;
	}
	json_before_value(j);
	if (v == 0 && !signbit(v))
		add_short(j->out, "0.0", 3);
	else if (!add_time(j->out, v) && !add_short_decimal(j->out, v) &&
		 !add_few_nanoseconds(j->out, v))
		add_any_decimal(j->out, v);
}

void json_bool(struct json *j, bool v)
{
	json_before_value(j);
	buf_add_str(j->out, v ? "true" : "false");
}

void json_none(struct json *j)
{
	json_before_value(j);
	add_short(j->out, "null", 4);
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
