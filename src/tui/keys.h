/*
 * keys - what each key does to a scene.
 *
 * A table; the help page is made from it. What only the owner can do (quitting,
 * signals, tracing, steps of a replay) is left in scene.wish.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tui/scene.h"

/* Keys that are no character; those are themselves. */
enum tui_key {
	TUI_KEY_NONE = 0,
	TUI_KEY_ENTER = '\n',
	TUI_KEY_CTRL_L = 12,
	TUI_KEY_ESCAPE = 27,
	TUI_KEY_UP = 0x1000,
	TUI_KEY_DOWN,
	TUI_KEY_LEFT,
	TUI_KEY_RIGHT,
	TUI_KEY_PAGE_UP,
	TUI_KEY_PAGE_DOWN,
	TUI_KEY_HOME,
	TUI_KEY_END,
	TUI_KEY_BACKSPACE,
	TUI_KEY_F1,
	TUI_KEY_F3,
	TUI_KEY_F4,
	TUI_KEY_F6,
	TUI_KEY_F9,
	TUI_KEY_F10,
	TUI_KEY_WHEEL_UP,
	TUI_KEY_WHEEL_DOWN,
};

struct key_row {
	int keys[3];	   /* 0: no more */
	const char *shown; /* in the help */
	const char *help;
	void (*act)(struct scene *s, int argument);
	int argument;
	bool for_replay;
};

/* What can be sent to a process, by the key that chooses it. The first is the usual. */
struct key_signal {
	int key, signal;
	const char *name;
};

#define KEYS_SIGNALS 6
extern const struct key_signal keys_signals[KEYS_SIGNALS];
const char *keys_signal_name(int signal); /* of one of them */

extern const struct key_row keys_rows[];
extern const size_t keys_n_rows;

/* The rows are made anew then. */
void keys_press(struct scene *s, int key);

/* A click on a row of the screen selects what is there, a job, a process or an event; a second one
 * unfolds or folds it. One on the title of a column sorts by it. */
void keys_click(struct scene *s, int x, int y);

/* TUI_KEY_WHEEL_UP or _DOWN there: of the timeline it scrolls that, elsewhere it is a key. */
void keys_wheel(struct scene *s, int key, int y);
