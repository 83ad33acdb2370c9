/*
 * width - how many columns of a terminal a character takes, whatever the user's locale is.
 *
 * As the C library knows it for UTF-8, which is what curses asks too: a table of our own would be
 * of another year than theirs.
 */
#ifndef PROCTOR_TUI_WIDTH_H
#define PROCTOR_TUI_WIDTH_H

#include <stddef.h>

/* Of the valid character s[0..n): 0 (joins the one before it, or is not seen), 1 or 2; -1: it is
 * none that can be shown. */
int width_of(const char *s, size_t n);

#endif
