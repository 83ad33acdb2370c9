/*
 * signal_room - which of the signals that a job's processes get are listed in its record.
 *
 * A storm of them is worth a few lines, and must not take the room of the one that ends the job:
 * the same signal, from the same sender to the same process, is listed some times, one that was
 * not seen before when others have no room any more, and a kill when neither has.
 */
#ifndef PROCTOR_DAEMON_SIGNAL_ROOM_H
#define PROCTOR_DAEMON_SIGNAL_ROOM_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/map.h"
#include "model/job.h"

#define SIGNAL_ROOM_SAME 20	  /* of the same kind */
#define SIGNAL_ROOM_REPEATED 1000 /* of an attempt, unless it is the first of its kind */
#define SIGNAL_ROOM_FIRST 2000	  /* of an attempt, unless it kills */
#define SIGNAL_ROOM_KILLS 3000	  /* of an attempt */

/* All zero is a good beginning. */
struct signal_room {
	struct map n_of;   /* attempt -> how many are listed */
	struct map n_same; /* the hash of a kind -> how many there were */
};

void signal_room_release(struct signal_room *room);

/* True: it is to be listed, and takes its place. */
bool signal_room_take(struct signal_room *room, int64_t attempt_id, const struct proc_event *ev,
		      pid_t sender);

/* The attempt is over. */
void signal_room_forget(struct signal_room *room, int64_t attempt_id);

#endif
