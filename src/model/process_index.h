/*
 * process_index - which number each process has, and whether it is still called the same.
 *
 * Who writes ticks gives each process a number, and describes it once. All zero is empty.
 */
#ifndef PROCTOR_MODEL_PROCESS_INDEX_H
#define PROCTOR_MODEL_PROCESS_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/snapshot.h"

struct process_entry {
	uint64_t key;	      /* of pid and start */
	uint64_t fingerprint; /* of its description */
	int64_t number;
};

struct process_index {
	struct process_entry *items;
	size_t n, cap;
	size_t next;	     /* behind the one that was found last */
	struct map index_of; /* key -> place in items */
};

void process_index_release(struct process_index *index);
void process_index_clear(struct process_index *index); /* keeps its memory */

/* NULL: it is not there. Valid until the next is added. */
struct process_entry *process_index_find(struct process_index *index, struct proc_key key);

/*
 * One that is not there yet. A key that no process of Linux can have is passed over: it is never
 * found. -ENOMEM.
 */
int process_index_add(struct process_index *index, struct proc_key key, uint64_t fingerprint,
		      int64_t number);

uint64_t fingerprint_number(uint64_t h, uint64_t v);

/* Of all that exec, a launcher or a new sheet can change about a process. h: HASH_INIT, or what
 * else it is of. */
uint64_t process_fingerprint(uint64_t h, const struct proc_sample *p);

#endif
