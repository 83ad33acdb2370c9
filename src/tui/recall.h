/*
 * recall - what is recorded of the memory of something, from before it was seen here.
 *
 * For the curve of what its user looks at more closely: samples go in, oldest first, as they come
 * from a daemon or from the record, and their sums go in front of the curve.
 */
#ifndef PROCTOR_TUI_RECALL_H
#define PROCTOR_TUI_RECALL_H

#include "tui/scene.h"

struct recall {
	uint64_t id; /* of the node */
	char job_id[JOB_ID_MAX + 1];
	int attempt_num, sheet_num, rank; /* as of the node: 0, SHEET_NONE, RANK_NONE are any */
	struct proc_key key;		  /* pid 0: of all processes */
	uint64_t since_wall_ns;		  /* what is older is not needed… */
	uint64_t until_wall_ns;		  /* …nor what is newer: that was seen */
	struct track_point points[TRACK_POINTS];
	size_t n;
	size_t n_read;	       /* samples that came, of the node or not… */
	uint64_t read_wall_ns; /* …and when the last of them was */
};

/* For this node; gap_ns lies between two samples of a process. False: nothing is recorded of such a
 * thing, or of too many processes for their sum to be worth it. */
bool recall_begin(struct recall *r, const struct scene *s, const struct node *node,
		  uint64_t gap_ns);

/* The next sample; one that is not of the node is left out. Of p its key, place and memory. */
void recall_add(struct recall *r, uint64_t wall_ns, int attempt_num, const struct proc_sample *p);

/* So much has been read that this one is to be left out, and all that is newer: where they were the
 * curve has a hole. Not in the midst of a moment, whose sum would be wrong. */
bool recall_is_full(const struct recall *r, uint64_t wall_ns);

/* Into the scene. */
void recall_end(const struct recall *r, struct scene *s);

#endif
