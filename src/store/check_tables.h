/*
 * check_tables - how much of a damaged database is: which of its tables, and which are whole.
 */
#ifndef PROCTOR_STORE_CHECK_TABLES_H
#define PROCTOR_STORE_CHECK_TABLES_H

#include "base/buf.h"

struct store;

/*
 * Adds a sentence about it, such as "1 of its 28 tables is, chunks (samples), and the others can
 * still be read"; nothing where the tables cannot be told, or an interrupt ends it.
 */
void check_tables_tell(struct store *store, struct buf *out);

#endif
