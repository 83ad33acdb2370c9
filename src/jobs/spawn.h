/*
 * spawn - starts one command so that it finds the world as if proctor were not there.
 *
 * Signal mask, ignored signals and file limit are those that proctor itself was
 * started with; no file descriptor of ours is open in it; process group,
 * session and terminal are unchanged; and it has read and written nothing yet.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/job.h"

/* What proctor was started with, noted before it changed anything. */
struct inherited {
	sigset_t mask;
	sigset_t ignored;
	struct rlimit nofile;
};

void inherited_note(struct inherited *ret);

/* Puts it all back, for what is about to exec. */
void inherited_restore(const struct inherited *inherited);

/* Ways into the cgroup of the job. */
struct spawn_cgroup {
	int folder_fd;	  /* of v2: the child is made in it; -1 */
	int entry_fds[4]; /* "0" written to each moves the writer; in v2 where that is not possible
			   */
	size_t n_entries;
};

struct spawn_request {
	const struct sheet_spec *sheet;
	int rank; /* RANK_NONE: no RANK variables */
	const char *job_id;
	const struct inherited *inherited;
	/*
	 * Called while the child waits, with nothing left to do but to become the command, or is
	 * stopped by somebody on its way there; NULL: it does not wait.
	 */
	void (*held)(void *ctx, pid_t pid);
	void *ctx;
	const struct spawn_cgroup *cgroup; /* NULL: the job has none */
	bool is_traceable; /* by who called us and all that they start, also where only ancestors
			      may (Yama) */
};

struct spawned {
	pid_t pid; /* of the command, or of the child that failed to become it; -1: there was none
		    */
	/*
	 * The child's own high-water mark before exec. The kernel carries it over
	 * into ru_maxrss, so a ru_maxrss that is not above it says nothing about
	 * the command itself.
	 */
	uint64_t pre_exec_rss_bytes;
	bool is_outside; /* of the job's cgroup: the kernel has refused it */
	int exit_code;	 /* when the command could not be run: 127 not found, 126 otherwise */
};

/*
 * 0: the command runs as ret->pid. -errno: it could not be executed, err says
 * why, and ret->exit_code is what a shell would give. The failed child has been
 * waited for.
 */
int spawn_command(const struct spawn_request *request, struct spawned *ret, struct err *err);
