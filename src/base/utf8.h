/*
 * utf8 - text from outside made safe to print, cut and store.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define UTF8_MAX_BYTES 4 /* of one character */

/* Length in bytes of the valid character at s (at most n bytes there), or 0 if it is not valid. */
size_t utf8_char_len(const char *s, size_t n);

bool utf8_is_valid(const char *s, size_t n);

/* The code point of a valid character of so many bytes. */
unsigned utf8_code_point(const char *s, size_t len);

/* Writes a code point, half a surrogate pair too, and returns its length. */
size_t utf8_put(char *to, unsigned c);

/* The number that the four hexadecimal digits at s are; -1: there are none before end. */
long utf8_read_hex4(const char *s, const char *end);

/* The largest length <= max at which s[0..n) can be cut without splitting a character. */
size_t utf8_cut(const char *s, size_t n, size_t max);

/* Number of terminal columns is taken as one per character: characters in s[0..n). */
size_t utf8_count(const char *s, size_t n);

/*
 * Appends the character at s (at most n bytes there, n > 0) as it may be shown:
 * a blank for a newline or tab, '?' for any other control character, which could
 * command the terminal, for what turns the direction of text, and for what is not UTF-8. Returns
 * the bytes it took from s.
 */
size_t utf8_add_shown(struct buf *out, const char *s, size_t n);

/* All n bytes of it. */
void utf8_add_text(struct buf *out, const char *s, size_t n);

#define UTF8_QUOTED_BYTES 96

/* Foreign text for a message: 'text', cut after 64 bytes, as it may be shown. Returns quoted. */
const char *utf8_quote(const char *text, char quoted[UTF8_QUOTED_BYTES]);

/*
 * ---- letters and digits, whatever the locale is ----
 *
 * isalpha() and tolower() follow the user's language (in Turkish the small form
 * of 'I' is not 'i'); names in files and command lines do not.
 */

static inline bool ascii_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool ascii_is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static inline bool ascii_is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool ascii_is_alpha(char c)
{
	return ascii_is_lower(c) || ascii_is_upper(c);
}

static inline bool ascii_is_alnum(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c);
}

static inline char ascii_to_lower(char c)
{
	return ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

/* 0x00 to 0x1f and DEL; newlines and tabs are among them. */
static inline bool ascii_is_control(char c)
{
	return ((unsigned char)c < 0x20) || c == 0x7f;
}
