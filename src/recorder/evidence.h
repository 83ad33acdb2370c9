/*
 * evidence - what is found out about the culprit when an anomaly begins, and about the host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/mask.h"
#include "model/anomaly.h"
#include "model/snapshot.h"

/* ---- the culprit ---- */

/* Where to look; all of it borrowed. */
struct evidence_from {
	int root_fd;
	const struct mask *mask;     /* NULL: names are shown as they are */
	const struct snapshot *snap; /* in which it began */
	uint64_t uid;		     /* the user who will read it */
	const char *state_dir;	     /* files of traces go into its folder "traces" */
	double trace_seconds;	     /* 0: no trace is wanted */
	pid_t *looked; /* as of child_ask(); NULL: what the process does is not looked at */
};

/*
 * The open files and the system calls of the episode's process. What nobody can tell stays
 * unknown. False: nothing was found out, as it is of no process, or that is gone, or is not for
 * that user to hear of (identity.h).
 */
bool evidence_gather(const struct evidence_from *from, const struct episode *e,
		     struct anomaly_evidence *ret);

/*
 * ---- who has the most memory of all processes ----
 *
 * A tick without eBPF reads the memory of nobody but jobs, as it costs a file of each process.
 */

/* All zero: nobody has looked. */
struct around {
	uint64_t boot_ns; /* the tick that it is of */
	size_t n_top_rss;
	struct anomaly_process top_rss[ANOMALY_TOP];
};

/* By the processes of the snapshot, in which the memory that is unknown is filled in. */
void around_look(int root_fd, struct snapshot *all, uint64_t boot_ns, struct around *ret);

/* Makes it what is told. */
void around_tell(const struct around *around, struct anomaly_host *host);

/*
 * ---- a short trace of a culprit, made by "proctor trace" in a process of its own ----
 *
 * A process that is traced is tens of times slower, so nobody gets one who has not asked for it
 * (anomaly.evidence_trace_seconds). There is one at a time, for a tenth of the time at most, among
 * all that look and have the folder in common, which a lock in it sees to. Neither proctor itself
 * is traced nor what somebody else traces. The culprit is let go of however we end.
 */

#define EVIDENCE_TRACE_BYTES (UINT64_C(4) << 20)
#define EVIDENCE_TRACE_FILES 32 /* the newest are kept */

/* All zeros: none was made yet. */
struct evidence_trace {
	pid_t tracer; /* 0: none runs */
	pid_t ended;  /* the last one */
	int tracer_fd;
	int lock_fd;		/* while one runs */
	uint64_t next_boot_ns;	/* the next may begin */
	uint64_t stuck_boot_ns; /* one that still runs hangs, and is killed */
	char episode[EPISODE_NAME_BYTES];
	struct anomaly_evidence evidence; /* of the episode, with the file */
};

/*
 * Begins a trace of the episode's process; evidence is what else is known of it. -EAGAIN: not
 * now, one runs or was made just before, maybe by another; -EINVAL: none is wanted, or it is of no
 * process, or of proctor; -ESRCH: that is gone; -EPERM: it is not for that user to hear of; else
 * what failed. err, which may be NULL, says it, and so does the evidence where one is wanted.
 */
int evidence_trace_begin(struct evidence_trace *t, const struct evidence_from *from,
			 const struct episode *e, struct anomaly_evidence *evidence,
			 struct err *err);

/*
 * Whether one has ended since the last call. Then evidence.trace is its file, or "" where
 * nothing could be traced, as evidence.trace_missing says, and ended the pid that the tracer had.
 */
bool evidence_trace_has_ended(struct evidence_trace *t);

/* Asks one that runs to let go and waits a little. Returns as evidence_trace_has_ended(). */
bool evidence_trace_stop(struct evidence_trace *t);
