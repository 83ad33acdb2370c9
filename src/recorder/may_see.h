/*
 * may_see - whether facts about a process may leave the daemon for a user.
 *
 * A program that is set-user-ID runs inside a user's job and is root's: the kernel keeps what it
 * reads, writes and calls from that user, and so does a daemon that knows it. Facts about a process
 * are for root and for the user whose alone the process is. They leave a daemon by a runner's
 * stream, by samples and by counts of system calls; what is withheld is counted there.
 */
#ifndef PROCTOR_RECORDER_MAY_SEE_H
#define PROCTOR_RECORDER_MAY_SEE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * uid: the user that would see it. owner: the user whose alone the process is, as the fact has it;
 * where that is U64_UNKNOWN, the kernel is asked for the owner of pid's files below root_fd. pid 0:
 * it cannot be asked, and the answer is no.
 */
bool may_see(uint64_t uid, uint64_t owner, int root_fd, pid_t pid);

#endif
