/*
 * process_set - the processes that a filter by job and pid wants, by their rows.
 */
#ifndef PROCTOR_STORE_PROCESS_SET_H
#define PROCTOR_STORE_PROCESS_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "store/store.h"

struct process_set {
	bool is_filtered; /* false: all processes are wanted, and none is listed */
	int64_t job;	  /* its row; 0: any */
	int64_t *ids;	  /* ascending */
	size_t n, cap;
};

void process_set_release(struct process_set *set);

/* job_id NULL and pid 0 are any. The set is zeroed. */
int process_set_find(struct process_set *set, struct store *store, const char *job_id, pid_t pid,
		     struct err *err);

bool process_set_has(const struct process_set *set, int64_t process);

/* Whether those that are wanted are better looked for one by one than among all. */
bool process_set_is_small(const struct process_set *set);

#endif
