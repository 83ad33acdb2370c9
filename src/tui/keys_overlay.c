/*
 * Keys while something lies over the panels: what is typed, the menu of sorts, the answer to a
 * question, and the pages of help.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tui/keys_parts.h"

/* ---- typing ---- */

static void take_input(struct scene *s)
{
	if (s->overlay == OVERLAY_FILTER) {
		snprintf(s->filter, sizeof(s->filter), "%s", s->input);
	} else {
		snprintf(s->search, sizeof(s->search), "%s", s->input);
		keys_search_on(s, true);
	}
	s->overlay = OVERLAY_NONE;
}

/* Where the last character of n bytes begins. */
static size_t last_char(const char *text, size_t n)
{
	size_t at = n - 1;

	while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	return at;
}

static void type(struct scene *s, int key)
{
	size_t n = strlen(s->input);

	if (key == TUI_KEY_ENTER)
		take_input(s);
	else if (key == TUI_KEY_ESCAPE)
		s->overlay = OVERLAY_NONE;
	else if (key == TUI_KEY_BACKSPACE || key == 127 || key == 8)
		s->input[n > 0 ? last_char(s->input, n) : 0] = '\0';
	else if (key >= ' ' && key < 256 && key != 127 && n + 1 < sizeof(s->input))
		memcpy(s->input + n, (char[]){ (char)key, '\0' }, 2); /* byte by byte */
}

/* The keys that sort do so here too. */
static void choose_sort(struct scene *s, int key)
{
	const struct key_row *row = keys_find(s, key);

	if (key == TUI_KEY_LEFT || key == TUI_KEY_UP)
		s->menu_at = s->menu_at > 0 ? s->menu_at - 1 : SORTS - 1;
	else if (key == TUI_KEY_RIGHT || key == TUI_KEY_DOWN || key == TUI_KEY_F6)
		s->menu_at = s->menu_at + 1 < SORTS ? s->menu_at + 1 : 0;
	else
		s->overlay = OVERLAY_NONE;
	if (key == TUI_KEY_ENTER)
		s->sort = s->menu_at;
	else if (row && row->act == keys_sort_by)
		keys_sort_by(s, row->argument);
}

const struct key_signal keys_signals[KEYS_SIGNALS] = {
	{ 't', SIGTERM, "TERM" }, { 'i', SIGINT, "INT" },   { 'h', SIGHUP, "HUP" },
	{ 'k', SIGKILL, "KILL" }, { 's', SIGSTOP, "STOP" }, { 'c', SIGCONT, "CONT" },
};

const char *keys_signal_name(int signal)
{
	for (size_t i = 0; i < KEYS_SIGNALS; i++)
		if (keys_signals[i].signal == signal)
			return keys_signals[i].name;
	return "?";
}

/* Another signal for a process: the question is asked anew. */
static bool choose_signal(struct scene *s, int key)
{
	for (size_t i = 0; s->wish.kind == WISH_SIGNAL && i < KEYS_SIGNALS; i++)
		if (keys_signals[i].key == key) {
			s->wish.signal = keys_signals[i].signal;
			return true;
		}
	return false;
}

/* Only a plain yes will do: a letter too many, meant for the rows, ends nothing. */
static void confirm(struct scene *s, int key)
{
	if (choose_signal(s, key))
		return;
	s->overlay = OVERLAY_NONE;
	if (key != 'y')
		s->wish.kind = WISH_NONE;
}

static void turn_help(struct scene *s, int key)
{
	if (key == TUI_KEY_ESCAPE || key == 'q' || ++s->help_page >= s->help_pages)
		s->overlay = OVERLAY_NONE;
}

void keys_press_overlay(struct scene *s, int key)
{
	switch (s->overlay) {
	case OVERLAY_FILTER:
	case OVERLAY_SEARCH:
		type(s, key);
		return;
	case OVERLAY_CONFIRM:
		confirm(s, key);
		return;
	case OVERLAY_SORT:
		choose_sort(s, key);
		return;
	case OVERLAY_HELP:
		turn_help(s, key);
		return;
	case OVERLAY_NONE:
		return;
	}
}
