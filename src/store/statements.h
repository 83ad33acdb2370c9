/*
 * statements - every SQL statement that is run after opening, in one table.
 */
#ifndef PROCTOR_STORE_STATEMENTS_H
#define PROCTOR_STORE_STATEMENTS_H

#include "base/buf.h"

enum statement {
#define STATEMENT(name_, ...) STATEMENT_##name_,
#include "store/statements.def"
	STATEMENT_COUNT
};

/* Appends the statement as SQLite gets it. */
void statement_write(enum statement id, struct buf *out);

#endif
