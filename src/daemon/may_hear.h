/*
 * may_hear - nobody but root hears what processes of others have done, whoever has started them.
 *
 * A program that is set-user-ID runs inside a user's job and is root's: the kernel keeps what it
 * reads, writes and calls from that user, and so does a daemon that knows it.
 */
#ifndef PROCTOR_DAEMON_MAY_HEAR_H
#define PROCTOR_DAEMON_MAY_HEAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* uid: who would hear. owner: whose alone it was; U64_UNKNOWN: nobody knows. */
bool may_hear(uint64_t uid, uint64_t owner);

/* The same of a process that is there, as the kernel says below root_fd of whose its files are. */
bool may_hear_of(int root_fd, uint64_t uid, pid_t pid);

#endif
