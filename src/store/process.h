/*
 * process - a process as its row has it, and what it was called before.
 */
#ifndef PROCTOR_STORE_PROCESS_H
#define PROCTOR_STORE_PROCESS_H

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

#endif
