/*
 * tally - adds up what a job used: exact numbers from births, deaths and
 * waits, sampled ones from snapshots, never one passed off as the other.
 *
 * Pure bookkeeping: it reads no file and no clock. The owner feeds it what
 * happens, in the order it happens. Memory is bounded: beyond the limits below,
 * processes, events and command lines are counted and no longer listed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/runner.h"
#include "model/job.h"
#include "model/snapshot.h"

#define TALLY_MAX_PROCESSES 50000
#define TALLY_MAX_EVENTS 20000
#define TALLY_MAX_NOTABLE_EVENTS 5000	/* on top: signals, failures, and the ends of commands */
#define TALLY_MAX_CALLS_BYTES (1 << 20) /* of calls that failed */
#define TALLY_MAX_COMMANDS 10000	/* different ones */

struct tally;

/*
 * job_id is borrowed. sees_births: the kernel tells of every fork from now on,
 * so the number of processes is exact (until tally_lost()). NULL: no memory.
 */
struct tally *tally_new(const char *job_id, bool sees_births);
struct tally *tally_free(struct tally *t);

/*
 * A try of a sheet begins. Moments of this kind are on CLOCK_BOOTTIME:
 * lengths are not upset when the wall clock is set. is_clean: nothing of the job
 * runs at this moment, so that all CPU time from here on is the sheet's own.
 */
void tally_begin_sheet(struct tally *t, uint64_t boot_ns, bool is_clean);

struct birth {
	pid_t pid, ppid;
	int sheet_num, rank;
	uint64_t wall_ns;
	const char *command; /* NULL: that of the parent */
	uint64_t uid;	     /* U64_UNKNOWN: that of the parent */
};

/* The kernel reported a birth; is_root: the runner has started a process of the job. */
void tally_birth(struct tally *t, const struct birth *birth, bool is_root);

/* The kernel told of an exec; command: the new one, NULL: not known. */
void tally_exec(struct tally *t, pid_t pid, const char *command);

/*
 * How a process ended, or what it had used by then, by the kernel's report to us or to the daemon
 * (by_daemon), in any order and any number of times. The process is found by pid and start time, or
 * by when it ended; one that is not listed is passed over.
 */
void tally_merge_end(struct tally *t, const struct proc_record *end, bool by_daemon);

/* How many have CPU time that is not exact; by_daemon: of those whose end it has reported. */
size_t tally_count_inexact(const struct tally *t, bool by_daemon);

/* Kernel events were dropped: what was exact is now a lower bound. */
void tally_lost(struct tally *t, uint64_t n);

/*
 * A process was waited for. zombie: what /proc said of it just before (its own
 * CPU time), and the I/O of it and of its waited-for descendants; values unknown
 * where they could not be read. Both clocks: now. Returns when it died, as far as known.
 */
uint64_t tally_reap(struct tally *t, const struct reaped *reaped, const struct proc_sample *zombie,
		    uint64_t wall_ns, uint64_t boot_ns);

/* proctor itself signalled it; details are copied. */
void tally_signal(struct tally *t, pid_t pid, int sheet_num, int sig, const char *details,
		  uint64_t wall_ns);

/* It lives on when the job is over, and nobody else tells of it. */
void tally_orphan(struct tally *t, const struct proc_key *key, uint64_t wall_ns);

/* The kernel killed it for lack of memory; or, where it ended by itself, who of the sheet was
 * killed last. */
void tally_oom(struct tally *t, pid_t pid, int sheet_num, const char *details, uint64_t wall_ns);

/* The details of the kill for want of memory that ended it; NULL: none is known. */
const char *tally_find_oom(const struct tally *t, pid_t pid);

/*
 * The daemon has reported a signal or an OOM kill. One for want of memory that is
 * known already is not added. The sheet is that of the process, if it is listed.
 */
void tally_merge_signal(struct tally *t, const struct proc_event *ev);

/* From now on: the memory of all processes with shared pages once, as a share of the sum, 0 to 1.
 */
void tally_set_share(struct tally *t, double share);

/* The job's processes at one tick (those with a job_id); gives the point for the charts. */
void tally_snapshot(struct tally *t, const struct snapshot *snap, int sheet_num,
		    struct series_point *ret);

/*
 * What the sheet's try used, from tally_begin_sheet() until then, and the whole
 * attempt. is_complete: nothing of it runs any more, so the sums are exact.
 */
void tally_end_sheet(struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret);
void tally_total(const struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret);

/* All events, oldest first; and those not stored yet, until tally_events_stored(). Owned by the
 * tally. */
const struct proc_event *tally_events(const struct tally *t, size_t *ret_n);
const struct proc_event *tally_pending_events(const struct tally *t, size_t *ret_n);
void tally_events_stored(struct tally *t);

/* All processes, in the order they were seen; owned by the tally. NULL: no memory. */
const struct proc_record *tally_processes(struct tally *t, size_t *ret_n);

/* What the numbers lack. */
struct tally_gaps {
	uint64_t gpu_ns;      /* so long the share of a GPU of some process was not told */
	uint64_t gpu_idle_ns; /* so long it was told, and not whether the process held memory */
	uint64_t n_processes, n_events; /* that were counted and not listed */
	uint64_t n_lost;		/* as of tally_lost() */
};
struct tally_gaps tally_gaps(const struct tally *t);
