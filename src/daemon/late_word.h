/*
 * late_word - how a guest's job ended, told to a daemon that comes back.
 *
 * The daemon that had the job as a guest (guest.h) was killed, or did not answer, when
 * the job ended: in the daemon's own record it would stay without an end. So the word
 * is left with a small process that asks for the daemon every second, and ends when it
 * has told, or after an hour. In the user's own record the end is in any case.
 */
#ifndef PROCTOR_DAEMON_LATE_WORD_H
#define PROCTOR_DAEMON_LATE_WORD_H

#include <stdbool.h>

#include "model/job.h"

/*
 * Leaves it with a process that holds none of our files and folders. Of a submitted job (stays)
 * that process is ourselves, and this returns when it is done: nobody waits for us, and a
 * service manager would end what we leave behind.
 */
void late_word_leave(const struct attempt *a, bool stays);

#endif
