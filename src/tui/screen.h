/*
 * screen - puts a grid on the terminal and tells which keys were pressed (ncursesw).
 *
 * The terminal is given back at the end, also when a signal ends the program or it
 * crashes; SIGKILL leaves no time for that ("reset" mends it). One at a time. While it is
 * ours nothing is written on it by way of stderr (aside.h).
 */
#ifndef PROCTOR_TUI_SCREEN_H
#define PROCTOR_TUI_SCREEN_H

#include "base/err.h"
#include "tui/grid.h"

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

/* Leaves the terminal to somebody else, and takes it again. */
void screen_pause(void);
void screen_resume(void);

#endif
