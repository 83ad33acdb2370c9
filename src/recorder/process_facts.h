/*
 * process_facts - who a process is: for deciding whether it may be attached, and for
 * finding whose it is.
 */
#ifndef PROCTOR_RECORDER_PROCESS_FACTS_H
#define PROCTOR_RECORDER_PROCESS_FACTS_H

#include <stdbool.h>

#include "model/job.h"

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

#endif
