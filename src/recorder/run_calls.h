/*
 * run_calls - the system calls of a job, as its own runner counts them.
 *
 * By eBPF where this user may, from the exec of each command on; by strace where
 * somebody has asked for it. Who lets the daemon count needs none of this.
 */
#ifndef PROCTOR_RECORDER_RUN_CALLS_H
#define PROCTOR_RECORDER_RUN_CALLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "recorder/recorder.h"
#include "jobs/jobs.h"
#include "model/job.h"
#include "model/snapshot.h"

struct run_calls;

/* What each process has called, as text: of 10,000 processes, mostly. */
#define RUN_CALLS_MAX_TEXT_BYTES (4 << 20)

/*
 * Takes the best rung that the options allow; loading eBPF takes some tenths of a second. *ret is
 * NULL where there is none, and err says why.
 */
void run_calls_open(const struct run_syscalls *options, struct membership *members,
		    struct run_calls **ret, struct err *err);
struct run_calls *run_calls_close(struct run_calls *c);

/* Whether commands have to allow that they are traced. */
bool run_calls_traces(const struct run_calls *c);

/*
 * Whether the kernel does not give programs of the job the rights of another user (setuid, setgid,
 * file capabilities), since who traces them has not got these.
 */
bool run_calls_withholds_rights(const struct run_calls *c);

/* This command has not begun, and waits: from now on it is counted. Failure is warned about once.
 */
void run_calls_begin(struct run_calls *c, pid_t pid);

/* Into each sample what is new since the last; by strace nobody knows before the end. */
void run_calls_fill(struct run_calls *c, struct snapshot *snap);

/* The sums of all its processes, what each of those listed in a has called, and what is wrong with
 * that, into a. */
void run_calls_end(struct run_calls *c, struct attempt *a);

struct rung run_calls_rung(const struct run_calls *c);

#endif
