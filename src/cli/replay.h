/*
 * replay - recorded snapshots and events as text for people, frame by frame.
 *
 *	struct replay *replay = replay_new(&buf, &options);
 *
 *	replay_event(replay, …); replay_other(replay, …); replay_snapshot(replay, …);	by time
 *	replay_end(replay);
 *
 * A frame stands for so much time, or for what of it is replayed, and says: the host
 * as it was last, each job at its most, what happened, and the busiest processes, each
 * as it was when it was busiest. Where several attempts of a job are known each counts
 * apart. Kept is one frame, and one line per attempt, however long the recording.
 * Appends to buf, which the caller empties as it likes; memory failure shows in
 * buf_error().
 */
#ifndef PROCTOR_CLI_REPLAY_H
#define PROCTOR_CLI_REPLAY_H

#include "base/buf.h"
#include "cli/twins.h"
#include "store/store.h"

struct replay;

/* What is replayed, from when to when, and of which attempts; they are borrowed, and may be added
 * to before the first snapshot. */
struct replay_options {
	uint64_t frame_ns;
	uint64_t since_wall_ns, until_wall_ns;
	const struct twins *twins; /* NULL: jobs are known by their names alone */
};

/* NULL when memory runs out. */
struct replay *replay_new(struct buf *out, const struct replay_options *options);
struct replay *replay_free(struct replay *replay); /* NULL is fine. Returns NULL. */

int replay_snapshot(struct replay *replay, const struct snapshot *snap); /* -ENOMEM */
int replay_event(struct replay *replay, const struct event_row *row);	 /* -ENOMEM */

/* What happened to a job, a sheet or a phase, or was out of the ordinary: a line of its own. */
int replay_other(struct replay *replay, uint64_t wall_ns, const char *text,
		 size_t len); /* -ENOMEM */

/* The last frame, and each job at its most over all of them; nothing if there was nothing. */
void replay_end(struct replay *replay);

#endif
