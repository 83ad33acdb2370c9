/*
 * width - how many columns of a terminal a character takes, whatever the locale says.
 *
 * wcwidth() knows that of the user's locale alone, and a screen that is compared as text must not
 * depend on it.
 */
#ifndef PROCTOR_TUI_WIDTH_H
#define PROCTOR_TUI_WIDTH_H

#include <stddef.h>

/* Of the valid character s[0..n): 0 (joins the one before it, or is not seen), 1 or 2. */
int width_of(const char *s, size_t n);

#endif
