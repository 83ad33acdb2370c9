/*
 * beside - whether the files that SQLite keeps beside a database can be written.
 *
 * SQLite makes the log (-wal) and its index (-shm) with the mode that the database has at that
 * moment. Who reads one that is read-only leaves them so, and nobody could write from then on,
 * whatever mode the database has later.
 */
#ifndef PROCTOR_STORE_BESIDE_H
#define PROCTOR_STORE_BESIDE_H

#include "base/err.h"

/* For a database that may be written: those that are ours get its mode. -EACCES: another's. */
int beside_make_writable(const char *path, struct err *err);

/* The same question, and nothing is changed: 0 also where the next who writes will mend it. */
int beside_check(const char *path, struct err *err);

#endif
