/*
 * store_writer - writes attempts and daemons straight into a database, as tests of readers need
 * them. The program itself stores what logs have (store/ingest.h), by the same parts.
 */
#ifndef PROCTOR_TESTS_STORE_WRITER_H
#define PROCTOR_TESTS_STORE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/job.h"
#include "store/store.h"

/* Sets a->id and a->attempt_num. Nothing waits for the disk. */
int store_begin_attempt(struct store *store, struct attempt *a, struct err *err);

/* How it ended, its processes, notes and the events left over; its ticks are folded. */
int store_finish_attempt(struct store *store, const struct attempt *a,
			 const struct proc_event *events, size_t n_events, struct err *err);

/* Sets d->id. */
int store_begin_daemon(struct store *store, struct daemon_record *d, struct err *err);
int store_end_daemon(struct store *store, const struct daemon_record *d, uint64_t wall_ns,
		     struct err *err);

#endif
