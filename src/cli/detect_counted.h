/*
 * detect_counted - OOM kills that only the counts of jobs' cgroups tell of, as a search of the
 * record finds them: the host has counted each of them, too.
 */
#ifndef PROCTOR_CLI_DETECT_COUNTED_H
#define PROCTOR_CLI_DETECT_COUNTED_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/anomaly.h"

/* So many were told at that moment. */
struct counted {
	uint64_t wall_ns, n;
};

/* All zeros is empty. */
struct counted_list {
	struct counted *items;
	size_t n, cap;
	struct map seen; /* hash of an episode's name -> how many it tells of */
};

void counted_list_release(struct counted_list *list);

/* Those that the episode tells of by now, and did not before. Others than such kills are passed
 * over. -ENOMEM. */
int counted_list_note(struct counted_list *list, const struct episode *e);

/* By time, when all are noted. */
void counted_list_sort(struct counted_list *list);

/* How many are up to that moment, from the next on. */
uint64_t counted_list_take(const struct counted_list *list, size_t *next, uint64_t wall_ns);

#endif
