/*
 * draw_detail - the parts of the detail panel: all that is known of what is selected, a process, a
 * job, or an event. Each draws from row y on and returns the row behind
 * what it drew.
 */
#ifndef PROCTOR_TUI_DRAW_DETAIL_H
#define PROCTOR_TUI_DRAW_DETAIL_H

#include "tui/draw.h"

#define DETAIL_LABEL_COLUMNS 14

/* What it is, and its value, on as many rows as that takes. */
int detail_line(const struct area *a, int y, const char *label, const char *text);

int detail_calls(const struct scene *s, const struct area *a, int y, const struct node *node);

int draw_process(const struct scene *s, const struct area *a, int y, const struct node *node);

/* A job, a sheet or a rank. */
int draw_group(const struct scene *s, const struct area *a, int y, const struct node *node);

/* All that was told of it. */
int draw_event(const struct scene *s, const struct area *a, int y, const struct scene_event *event);

#endif
