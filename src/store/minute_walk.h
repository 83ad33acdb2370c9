/*
 * minute_walk - minutes in the order of time or against it, one row after the other;
 * otherwise as minutes.h has them.
 */
#ifndef PROCTOR_STORE_MINUTE_WALK_H
#define PROCTOR_STORE_MINUTE_WALK_H

#include "store/minute_window.h"

struct minute_walk;

int minute_walk_open(struct store *store, const struct minute_filter *filter, bool newest_first,
		     struct minute_walk **ret, struct err *err);
void minute_walk_close(struct minute_walk **walk);

/* 1: the walk stands at the next row. 0: no more. */
int minute_walk_next(struct minute_walk *walk, struct err *err);

/* Its pointers live until the next step. */
const struct minute_row *minute_walk_row(const struct minute_walk *walk);
int64_t minute_walk_process(const struct minute_walk *walk); /* its row */

#endif
