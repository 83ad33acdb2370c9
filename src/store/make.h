/*
 * make - a database where there is none.
 *
 * All tables are made in memory and come to the disk with one sync, and then get their name:
 * SQLite's own way takes a dozen, and who records may wait for each. Where that cannot be done the
 * file is made empty, and opening it makes the tables.
 */
#ifndef PROCTOR_STORE_MAKE_H
#define PROCTOR_STORE_MAKE_H

#include "base/err.h"

/* 1: with all tables. 0: empty; or something has the name already, which is left as it is. */
int make_database(const char *path, struct err *err);

#endif
