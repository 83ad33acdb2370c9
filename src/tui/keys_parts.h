/*
 * keys_parts - what the files that make up keys.h know of each other.
 */
#ifndef PROCTOR_TUI_KEYS_PARTS_H
#define PROCTOR_TUI_KEYS_PARTS_H

#include "tui/keys.h"

/* What the key does in a scene like this; NULL: nothing. */
const struct key_row *keys_find(const struct scene *s, int key);

/* While something lies over the panels all keys are its own: what is typed, chosen or answered. */
void keys_press_overlay(struct scene *s, int key);

/* ---- acts of the table that others need ---- */

/* To the next that matches what was searched for; from_here: this one will do. */
void keys_search_on(struct scene *s, int from_here);
void keys_toggle_fold(struct scene *s, int unused);
void keys_sort_by(struct scene *s, int sort);

/* Earlier (or later, below 0) by so many. */
void keys_scroll_events(struct scene *s, int events);

#endif
