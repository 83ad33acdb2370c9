/*
 * screen - puts a grid on the terminal and tells which keys were pressed (ncursesw).
 *
 * The terminal is given back at the end, also when a signal ends the program or it
 * crashes; SIGKILL leaves no time for that ("reset" mends it). One at a time. While it is
 * ours nothing is written on it by way of stderr (aside_begin()).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "tui/screen_grid.h"

/* -ENOTTY: stdin or stdout is no terminal. -ENOTSUP: it is one that cannot place text. */
int screen_open(struct err *err);
void screen_close(void);

void screen_size(int *ret_width, int *ret_height);

/* shown is what was given to it last: rows that are as they were are left alone. */
void screen_show(const struct grid *g, const struct grid *shown);

/* The next time all of it, whatever the terminal shows. */
void screen_redraw(void);

enum screen_event { SCREEN_NOTHING, SCREEN_KEY, SCREEN_CLICK, SCREEN_WHEEL, SCREEN_RESIZED };

/* A key (keys.h), or where was clicked; of the wheel both. */
struct screen_input {
	int key;
	int x, y;
};

/* What came next, without waiting. */
enum screen_event screen_read(struct screen_input *ret);

/* Leaves the terminal to another program, and takes it again. */
void screen_pause(void);
void screen_resume(void);

/*
 * ---- aside: keeps text on stderr out of a picture that is on the same terminal ----
 *
 * While it is on, lines of the log and of libraries wait in a pipe, to be read and shown where
 * there is room for them; unread ones are written to stderr at its end. A stderr that is no
 * terminal is left alone. One at a time. screen.c begins and ends it.
 */

/* Where it cannot be done (no descriptors left) stderr stays as it is. */
void aside_begin(void);

/* The last line that was written since the last call, without "proctor: "; false: none was. */
bool aside_read(char *ret, size_t size);

/* stderr is itself again. May be called by a handler of signals, and where nothing was begun. */
void aside_end(void);
