/*
 * grid - a screen as text: cells of one character and a style each.
 *
 * Everything that is shown is drawn here first, by functions that know no
 * terminal. A test compares grids as text; screen.c puts one on the terminal.
 * Cells outside are left out, so no caller needs to know where the edge is.
 */
#pragma once

#include <stdarg.h>

#include "base/buf.h"
#include "base/macros.h"

enum style {
	STYLE_PLAIN,
	STYLE_DIM,
	STYLE_BOLD,
	STYLE_TITLE, /* of a panel, and of columns */
	STYLE_GOOD,
	STYLE_WARNING,
	STYLE_BAD,
	STYLE_BAR, /* of progress, CPU and memory */
	STYLES,
};

struct cell {
	char text[5]; /* one character of UTF-8; "" is a blank */
	unsigned char style;
	unsigned char selected; /* enum selected; 0: it is not */
	bool is_second;		/* column of the character before it, which takes two */
};

struct grid {
	int width, height;
	struct cell *cells;
};

#define GRID_INIT          \
	{                  \
		0, 0, NULL \
	}

/* Of this size from now on, and blank. -ENOMEM leaves it as it was. */
int grid_resize(struct grid *g, int width, int height);
void grid_release(struct grid *g);

/* -ENOMEM leaves it as it was. */
int grid_copy(struct grid *to, const struct grid *from);
void grid_clear(struct grid *g);

/* A part of the screen: x and y inside it count from its corner, and nothing is drawn beyond it. */
struct area {
	struct grid *grid;
	int x, y, width, height;
};

struct area grid_area(struct grid *g);

/* A part of it, cut where it ends. */
struct area area_part(const struct area *a, int x, int y, int width, int height);

void area_clear(const struct area *a);

/* Foreign text is made safe. Returns the column behind it. */
int area_put(const struct area *a, int x, int y, enum style style, const char *text);
int area_printf(const struct area *a, int x, int y, enum style style, const char *format, ...)
	PRINTF_LIKE(5, 6);

/* On as many rows as it takes, from x on, broken between words. Returns the row behind it. */
int area_put_wrapped(const struct area *a, int x, int y, enum style style, const char *text);

/* So that it ends at x + width; of one that is too long the beginning is lost. */
void area_put_right(const struct area *a, int x, int width, int y, enum style style,
		    const char *text);

/* The whole row is where the user is, or was in a panel that keys do not act on now. */
enum selected { SELECTED = 1, SELECTED_BEFORE };
void area_select_row(const struct area *a, int y, enum selected how);

/* A bar of so many columns, full to share (0 to 1, NaN: unknown). */
void area_bar(const struct area *a, int x, int y, int width, enum style style, double share);

/* One line of text for each row, without blanks at its end; selected rows begin with '>', or
 * with '|' where keys act on another panel. */
void grid_to_text(const struct grid *g, struct buf *out);
