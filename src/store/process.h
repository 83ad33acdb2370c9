/*
 * process - a process as its row has it, what it was called before, and the processes that a
 * filter wants.
 */
#ifndef PROCTOR_STORE_PROCESS_H
#define PROCTOR_STORE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "store/query.h"

struct process_image;

struct process {
	int64_t id;
	int attempt_num;
	int64_t attempt_id;
	struct proc_sample last;      /* what the row has, the rest unknown; strings in the arena */
	struct process_image *images; /* oldest first; mostly none */
};

/* The query stands at p.id of WALK_CHUNKS or WALK_PROCESS. */
int process_read(struct query *q, struct arena *arena, struct process *ret, struct err *err);

/* As it was called at this tick. */
void process_at(const struct process *p, int64_t tick_id, struct proc_sample *ret);

/* The processes that a filter by job and pid wants, by their rows. */
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
