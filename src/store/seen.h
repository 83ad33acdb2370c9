/*
 * seen - which row each process has: a tick touches the processes table only for those that are
 * new or have changed.
 */
#ifndef PROCTOR_STORE_SEEN_H
#define PROCTOR_STORE_SEEN_H

#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

/*
 * The row of this process, made or brought up to date if need be. Inside a transaction; if that
 * fails, what is remembered of it is wrong: seen_forget().
 */
int seen_process(struct store *store, int64_t attempt_id, const struct proc_sample *p,
		 int64_t *ret_id, struct err *err);

void seen_forget(struct store *store);
void seen_release(struct store *store);

#endif
