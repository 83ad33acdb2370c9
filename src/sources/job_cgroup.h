/*
 * job_cgroup - the cgroup that a run makes for the processes of its attempt.
 *
 * The kernel counts there what samples can only estimate (the peak of the whole tree, CPU time of
 * processes that were never waited for), enforces limits, and shows every process of the job,
 * also one that has left its tree. (A process of root can leave the cgroup, as docker and sudo do.)
 *
 * The cgroup is a child of the caller's own, so every limit above the caller holds for the job too.
 * In v1 it is a folder in each of the hierarchies memory, pids, cpu and cpuacct; in v2 it is one
 * folder. v2 passes controllers on only where a cgroup has no processes of its own. So a caller
 * that wants limits gets a folder below an ancestor, if no cgroup on the way there has limits.
 *
 * A lock on the folder lasts as long as its maker lives. Folders without lock and without processes
 * are removed by the next caller that makes one beside them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/job.h"

struct job_cgroup;

/*
 * Makes one below root_fd's sys/fs/cgroup. Of the limits those are left that the kernel does not
 * enforce. A negative errno, and err has the reason in a sentence: there is none, and all limits
 * are left.
 */
int job_cgroup_new(int root_fd, struct job_limits *limits, struct job_cgroup **ret,
		   struct err *err);

/* Removes it, unless processes are left in it. NULL is fine. Returns NULL. */
struct job_cgroup *job_cgroup_free(struct job_cgroup *c);

/*
 * How a process gets into it: by "0" that it writes to each of these files, of which the number is
 * returned; or by clone3() with the folder, which is -1 in v1. They are open as long as c is.
 */
#define JOB_CGROUP_MAX_ENTRIES 4
size_t job_cgroup_entries(const struct job_cgroup *c, int ret_fds[JOB_CGROUP_MAX_ENTRIES],
			  int *ret_folder);

/* What the kernel has counted so far. */
void job_cgroup_read(const struct job_cgroup *c, struct cgroup_use *ret);

/* The OOM kills alone. */
uint64_t job_cgroup_count_oom(const struct job_cgroup *c);

/*
 * SIGKILL for all that is in it. Nothing there can start another process meanwhile, where the
 * kernel can prevent it. Call it again while it returns more than 0: a process in the middle of
 * a system call ends later. Returns how many there were, or -errno.
 */
int job_cgroup_kill(struct job_cgroup *c);
