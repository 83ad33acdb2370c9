/*
 * events - what those that read events of processes share.
 */
#ifndef PROCTOR_STORE_EVENTS_H
#define PROCTOR_STORE_EVENTS_H

#include "store/query.h"
#include "store/store.h"

/* So many are copied at a time, and told when nothing is locked any more. */
#define PAGE_EVENTS 256

/*
 * The row that the query stands on: whose it is, and the event's columns. 0: it makes no sense and
 * is left out (damage.h); id and time are those of the row all the same.
 */
int events_read_row(struct query *q, struct event_row *ret, struct arena *arena, struct err *err);

/* Inside a transaction; *ret stays as it is where there is none. */
int events_read_last_id(struct store *store, int64_t *ret, struct err *err);

#endif
