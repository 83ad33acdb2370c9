#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t utf8_char_len(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;

	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		return n >= 2 && is_tail(p[1]) ? 2 : 0;
	if (p[0] >= 0xe0 && p[0] <= 0xef) {
		if (n < 3 || !is_tail(p[1]) || !is_tail(p[2]))
			return 0;
		if (p[0] == 0xe0 && p[1] < 0xa0)
			return 0; /* overlong */
		if (p[0] == 0xed && p[1] > 0x9f)
			return 0; /* surrogate */
		return 3;
	}
	if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		if (n < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
			return 0;
		if (p[0] == 0xf0 && p[1] < 0x90)
			return 0; /* overlong */
		if (p[0] == 0xf4 && p[1] > 0x8f)
			return 0; /* beyond U+10FFFF */
		return 4;
	}
	return 0;
}

bool utf8_is_valid(const char *s, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_char_len(s + i, n - i);
		if (len == 0)
			return false;
	}
	return true;
}

unsigned utf8_code_point(const char *s, size_t len)
{
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	unsigned c = (unsigned char)s[0] & first_bits[len];

	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)s[i] & 0x3f);
	return c;
}

size_t utf8_put(char *to, unsigned c)
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = len; i-- > 1; c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(len == 1 ? c : (0xf00U >> len & 0xf0) | c);
	return len;
}

long utf8_read_hex4(const char *s, const char *end)
{
	long v = 0;

	if (end - s < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char digit = ascii_to_lower(s[i]);

		if (ascii_is_digit(digit))
			v = v * 16 + digit - '0';
		else if (digit >= 'a' && digit <= 'f')
			v = v * 16 + digit - 'a' + 10;
		else
			return -1;
	}
	return v;
}

size_t utf8_cut(const char *s, size_t n, size_t max)
{
	size_t cut = n < max ? n : max;
	size_t start = cut;

	if (cut == n)
		return n;
	while (start > 0 && cut - start < 3 && is_tail((unsigned char)s[start]))
		start--;
	/* s[cut] continues a character that began at start: cut before it. */
	if (start < cut && utf8_char_len(s + start, n - start) > cut - start)
		return start;
	return cut;
}

size_t utf8_count(const char *s, size_t n)
{
	size_t count = 0;

	while (n > 0) {
		size_t len = utf8_char_len(s, n);

		len = len ? len : 1;
		s += len;
		n -= len;
		count++;
	}
	return count;
}

/*
 * U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069: they turn round what stands behind
 * them, so that it reads as something else. U+2028 and U+2029 end a line.
 */
static bool is_turning(const char *s, size_t len)
{
	unsigned c = len >= 2 ? utf8_code_point(s, len) : 0;

	return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

size_t utf8_add_shown(struct buf *out, const char *s, size_t n)
{
	size_t len = utf8_char_len(s, n);
	/* U+0080 to U+009F are control characters too: some terminals obey them. */
	bool is_c1 = len == 2 && s[0] == '\xc2' && (unsigned char)s[1] < 0xa0;

	if (s[0] == '\n' || s[0] == '\t')
		buf_add_char(out, ' ');
	else if (len == 0 || is_c1 || ascii_is_control(s[0]) || is_turning(s, len))
		buf_add_char(out, '?');
	else
		buf_add(out, s, len);
	return len ? len : 1;
}

void utf8_add_text(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n;)
		i += utf8_add_shown(out, s + i, n - i);
}

const char *utf8_quote(const char *text, char quoted[UTF8_QUOTED_BYTES])
{
	CLEANUP(buf_release) struct buf safe = BUF_INIT;
	size_t n = strlen(text), cut = utf8_cut(text, n, 64);

	utf8_add_text(&safe, text, cut);
	snprintf(quoted, UTF8_QUOTED_BYTES, "'%s%s'", safe.data, cut < n ? "…" : "");
	return quoted;
}
