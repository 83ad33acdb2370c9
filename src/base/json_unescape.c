#include "base/json_unescape.h"

#include <stdbool.h>
#include <string.h>

#include "base/ascii.h"

static int hex_of(char c)
{
	if (ascii_is_digit(c))
		return c - '0';
	c = ascii_to_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hexadecimal digits; -1. */
static long read_hex(const char *s, const char *end)
{
	long v = 0;

	if (end - s < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_of(s[i]);

		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

static char *put_utf8(char *out, unsigned long v)
{
	if (v < 0x80) {
		*out++ = (char)v;
		return out;
	}
	if (v < 0x800) {
		*out++ = (char)(0xc0 | v >> 6);
	} else {
		if (v < 0x10000) {
			*out++ = (char)(0xe0 | v >> 12);
		} else {
			*out++ = (char)(0xf0 | v >> 18);
			*out++ = (char)(0x80 | (v >> 12 & 0x3f));
		}
		*out++ = (char)(0x80 | (v >> 6 & 0x3f));
	}
	*out++ = (char)(0x80 | (v & 0x3f));
	return out;
}

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
	long v = read_hex(s, end), low = -1;

	if (v < 0) {
		*(*out)++ = '?'; /* no room for more: only two bytes were taken */
		return s;
	}
	s += 4;
	if (is_high(v) && end - s >= 6 && s[0] == '\\' && s[1] == 'u')
		low = read_hex(s + 2, end);
	if (is_high(v) && is_low(low)) {
		*out = put_utf8(*out, 0x10000UL + ((unsigned long)(v - 0xd800) << 10) +
					      (unsigned long)(low - 0xdc00));
		return s + 6;
	}
	*out = put_utf8(*out, v == 0 || is_high(v) || is_low(v) ? REPLACEMENT : (unsigned long)v);
	return s;
}

static char escaped(char c)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *at = c ? strchr(from, c) : NULL;

	return at ? to[at - from] : c;
}

void json_unescape(const char *s, size_t n, char *out)
{
	const char *end = s + n;

	while (s < end) {
		if (*s != '\\' || s + 1 == end) {
			*out++ = *s++;
		} else if (s[1] == 'u') {
			s = put_unicode(s + 2, end, &out);
		} else {
			*out++ = escaped(s[1]);
			s += 2;
		}
	}
	*out = '\0';
}
