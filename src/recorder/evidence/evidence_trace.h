/*
 * evidence_trace - a short trace of a culprit, made by "proctor trace" in a process of its own.
 *
 * A process that is traced is tens of times slower, so nobody gets one who has not asked for it
 * (anomaly.evidence_trace_seconds). There is one at a time, for a tenth of the time at most, among
 * all that look and have the folder in common, which a lock in it sees to; of
 * EVIDENCE_TRACE_BYTES at most, and the newest EVIDENCE_TRACE_FILES are kept. Neither
 * proctor itself is traced nor what somebody else traces. The culprit is let go of
 * however we end.
 */
#ifndef PROCTOR_RECORDER_EVIDENCE_EVIDENCE_TRACE_H
#define PROCTOR_RECORDER_EVIDENCE_EVIDENCE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/anomaly.h"

#define EVIDENCE_TRACE_BYTES (UINT64_C(4) << 20)
#define EVIDENCE_TRACE_FILES 32

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

struct evidence_trace_plan {
	int root_fd;
	const char *state_dir; /* files go into its folder "traces" */
	double seconds;	       /* 0: no trace is wanted */
	uint64_t uid;	       /* who will be told of it */
};

/*
 * Begins a trace of the episode's process; evidence is what else is known of it. -EAGAIN: not
 * now, one runs or was made just before, maybe by another; -EINVAL: none is wanted, or it is of no
 * process, or of proctor; -ESRCH: that is gone; -EPERM: it is not for that user to hear of; else
 * what failed. err, which may be NULL, says it, and so does the evidence where one is wanted.
 */
int evidence_trace_begin(struct evidence_trace *t, const struct evidence_trace_plan *plan,
			 const struct episode *e, struct anomaly_evidence *evidence,
			 struct err *err);

/*
 * Whether one has ended since the last call. Then evidence.trace is its file, or "" where
 * nothing could be traced, as evidence.trace_missing says, and ended the pid that the tracer had.
 */
bool evidence_trace_has_ended(struct evidence_trace *t);

/* Asks one that runs to let go and waits a little. Returns as evidence_trace_has_ended(). */
bool evidence_trace_stop(struct evidence_trace *t);

#endif
