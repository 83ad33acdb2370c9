/*
 * spool - how an attempt ended, kept beside the database until that can be written.
 * Part of store.h.
 *
 * A runner knows how its job ended, whatever has become of the database: its disk is full,
 * somebody holds its lock, it is damaged. Then this is put into a small file that was made
 * while there was room (spool_file.h). Whoever opens the database next, also to read, takes
 * it in: exactly once, also if the attempt was not even begun there.
 */
#ifndef PROCTOR_STORE_SPOOL_H
#define PROCTOR_STORE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/job.h"

struct store;

/*
 * What store_finish_attempt() stores but processes, and of events (of a, here) only whom it has
 * left. path is the database's, which need not be there. If there is no room for all of it: without
 * these, sheets, notes and rungs.
 */
int store_keep_end(const char *path, const struct attempt *a, struct err *err);

/*
 * Takes in what was kept; store_open() does so itself. Who has the database open for long
 * asks now and then: it costs next to nothing if there is none. Waits for nobody: what cannot
 * be taken in now, as the database is locked, is later. Returns how many there were.
 */
int store_take_in(struct store *store, struct err *err);

/*
 * The file that damaged ends were moved to by this handle, since it was asked last. False, and
 * nothing is added, if there was none.
 */
bool store_tell_set_aside(struct store *store, struct buf *out);

/* All such files that lie beside the database: one of their names, and how many there are. */
size_t store_find_set_aside(const char *path, struct buf *out);

/* Whether something waits to be taken in. */
bool store_has_kept(const char *path);

#endif
