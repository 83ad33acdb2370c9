/*
 * outline_rows - the nodes of an outline in the order in which they are shown.
 *
 * For outline.c, which has made them and knows which pass the filter. All return -ENOMEM where
 * there is no memory left.
 */
#ifndef PROCTOR_TUI_OUTLINE_ROWS_H
#define PROCTOR_TUI_OUTLINE_ROWS_H

#include "tui/outline.h"

/* After the sums, which are of containers alone: processes below those that started them. */
int outline_hang_below_parents(struct outline *o);

/* What is folded has no rows below it, and is walked through all the same. */
int outline_list_tree(struct outline *o, const struct outline_options *options);

/* Processes alone, without what they belong to. */
int outline_list_processes(struct outline *o, const struct outline_options *options);

#endif
