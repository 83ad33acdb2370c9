/*
 * outline_nodes - the nodes of an outline: jobs, sheets and ranks as they are met, and processes.
 *
 * For outline.c, which adds them up and says which are shown. What a node hangs on comes before it.
 */
#ifndef PROCTOR_TUI_OUTLINE_NODES_H
#define PROCTOR_TUI_OUTLINE_NODES_H

#include "tui/outline.h"

/* All that a snapshot has, and the jobs that wait. -ENOMEM. */
int outline_add_nodes(struct outline *o, const struct snapshot *s, const struct tracks *tracks,
		      const struct outline_options *options);

/* Where the node is; -1: nowhere. */
int outline_at(const struct outline *o, uint64_t id);
int outline_first_attempt(const struct outline *o, uint64_t job); /* of track_key_of_job() */

#endif
