/*
 * identity - where this process is, who another is, and who may see facts about it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "model/job.h"

/* ---- where this process is, as attempts are described: a pid says something only there ---- */

/* The name of the host. NULL: it cannot be told, or no memory. */
const char *own_host(struct arena *arena);

/* The inode of the pid namespace. U64_UNKNOWN: it cannot be told. */
uint64_t own_pid_ns(void);

/* ---- who a process is: whether it may be attached, and whose it is ---- */

struct process_facts {
	struct proc_key key;
	pid_t ppid;
	char state;
	bool is_kernel;	 /* a thread of the kernel's own */
	int wait_status; /* of a zombie, if we may know; -1: unknown */
	uid_t uid;	 /* real */
	bool is_pure;	 /* its effective, saved and file system user are the same */
};

/* -ESRCH: there is no such process (any more). Reads below root_fd. */
int process_facts_read(int root_fd, pid_t pid, struct process_facts *ret);

/* The text of proc/PID/stat and of proc/PID/status. -EINVAL: it is none. */
int process_facts_parse_stat(const char *text, struct process_facts *ret);
int process_facts_parse_status(const char *text, struct process_facts *ret);

/*
 * ---- whether facts about a process may leave the daemon for a user ----
 *
 * A program that is set-user-ID runs inside a user's job and is root's: the kernel keeps what it
 * reads, writes and calls from that user, and so does a daemon that knows it. Facts about a process
 * are for root and for the user whose alone the process is. They leave a daemon by a runner's
 * stream, by samples and by counts of system calls; what is withheld is counted there.
 *
 * uid: the user that would see it. owner: the user whose alone the process is, as the fact has it;
 * where that is U64_UNKNOWN, the kernel is asked for the owner of pid's files below root_fd. pid 0:
 * it cannot be asked, and the answer is no.
 */
bool may_see(uint64_t uid, uint64_t owner, int root_fd, pid_t pid);
