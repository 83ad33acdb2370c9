/*
 * ascii - letters and digits, whatever the locale says.
 *
 * isalpha() and tolower() follow the user's language (in Turkish the small form
 * of 'I' is not 'i'); names in files and command lines do not.
 */
#ifndef PROCTOR_BASE_ASCII_H
#define PROCTOR_BASE_ASCII_H

#include <stdbool.h>

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

#endif
