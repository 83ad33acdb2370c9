/*
 * sections - the records of all ranks, cut where a rank's program was started again.
 *
 * Another pid or session that takes the place of the one before is another start: it loads again,
 * and who does that first has caused nothing. Each section has its own start-up (startup.h).
 * A multiplying that only a start-up would explain is believed to be one where most ranks do it
 * after their own starts.
 */
#ifndef PROCTOR_CROSSRANK_SECTIONS_H
#define PROCTOR_CROSSRANK_SECTIONS_H

#include "crossrank/analysis.h"
#include "crossrank/startup.h"

struct section {
	size_t rank;	      /* its number */
	struct stream stream; /* a part of the rank's */
	struct startup start;
	bool is_again;	 /* not the first of its rank */
	int64_t born_ns; /* its program was started; its first sample where nobody tells */
};

struct section_list {
	struct section *items; /* by rank, then by time */
	size_t n;
};

/* Freed with sections_release(), also when it fails. -ENOMEM. */
int sections_find(const struct rank_analysis *a, struct section_list *ret);
void sections_release(struct section_list *list);

#endif
