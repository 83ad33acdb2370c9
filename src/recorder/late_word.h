/*
 * late_word - the rest of a guest's log, and its end, sent to a daemon that comes back.
 *
 * The daemon that keeps a copy of the log (daemon/methods/service_guest.c) was killed, or did not
 * answer, when the job ended: in its own record the job would stay without an end. So a small
 * process holds the log and asks for a daemon every second, and ends when that has it, or after an
 * hour. In the user's own record the end is in any case.
 */
#ifndef PROCTOR_RECORDER_LATE_WORD_H
#define PROCTOR_RECORDER_LATE_WORD_H

#include <stdbool.h>

#include "recorder/log_sender.h"
#include "model/job.h"

/*
 * Leaves it with a process that holds no other files and folders than the log's. Of a submitted job
 * (stays) that process is ourselves, and this returns when it is done: nobody waits for us, and a
 * service manager would end what we leave behind. sender is taken over; NULL: the log is gone.
 */
void late_word_leave(const struct attempt *a, struct log_sender *sender, bool stays);

#endif
