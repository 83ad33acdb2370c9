/*
 * failure - what SQLite says, as an errno and a sentence that helps.
 */
#ifndef PROCTOR_STORE_FAILURE_H
#define PROCTOR_STORE_FAILURE_H

#include "base/err.h"
#include "store/store.h"

#define ADVICE_DAMAGED \
	"run \"proctor doctor --repair\", which moves it aside so that a new one can begin; \"sqlite3 FILE .recover\" (or .dump) may still read what is in it"

/* The errno of the last failure on the handle; err gets a sentence with the path and what to do. */
int store_failure(struct store *store, struct err *err);

/* The errno for which the file or its folder cannot be written; 0 if they can. */
int store_write_obstacle(const char *path);

/* -EBADMSG: something in it (what) is not as it was written. */
int store_damaged(const struct store *store, const char *what, struct err *err);

/* -ENOMEM, with a sentence. */
int store_no_memory(const struct store *store, struct err *err);

#endif
