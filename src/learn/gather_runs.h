/*
 * gather_runs - an attempt that is over, as runs to learn from.
 *
 * Peaks, times, counts and system calls are those of its accounting; where that is unknown or a
 * lower bound, samples may improve it (the profile below). Early values are read off its curve. The
 * snapshots have the state of the host meanwhile.
 *
 *	g = gather_new(&attempt);
 *	gather_add_snapshot(g, &snapshot);	for each one of the time it ran
 *	gather_finish(g, anomalies, &list);
 */
#ifndef PROCTOR_LEARN_GATHER_RUNS_H
#define PROCTOR_LEARN_GATHER_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "model/job.h"
#include "model/run_record.h"
#include "model/snapshot.h"

struct gather;

/* Borrows the attempt, which has ended, with its sheets, processes and series. NULL: no memory. */
struct gather *gather_new(const struct attempt *a);
struct gather *gather_free(struct gather *g);

/* In the order of time. -ENOMEM: some of it is not counted. */
int gather_add_snapshot(struct gather *g, const struct snapshot *snap);

/*
 * Appends the run to list (and, where there are several sheets, one for each): strings
 * go into its arena. anomalies: see run_record; NULL: nobody looked. -ENOMEM.
 */
int gather_finish(struct gather *g, const char *anomalies, struct run_list *list);

/*
 * ---- the profile of one job, in one pass over samples and events of any length ----
 *
 *	profile_begin_tick(p, boot_id);
 *	profile_add_sample(p, &sample);	for each process
 *	…
 *	profile_add_event(p, &event);
 *
 * Ticks come in the order of time, events whenever. Samples of other jobs are skipped. Attempts of
 * one job that run side by side have ticks of their own: their peaks are not added up.
 *
 * There are two sets of rules. By proctor's own a peak is the largest sum over the processes of a
 * tick. By those of the reference implementation (compat) it is the largest value of one process;
 * profile_write_json() writes that profile, key by key.
 *
 * Memory is bounded by the limits below. Beyond them less is counted, never more.
 */

#define PROFILE_MAX_PROCESSES 65536 /* that are followed at a time */
#define PROFILE_MAX_SHEETS 65536
#define PROFILE_MAX_SYSCALLS 1024 /* different names: more than any kernel has */
#define PROFILE_MAX_SYSCALL_BYTES 64

enum profile_rules { PROFILE_PROCTOR, PROFILE_COMPAT };

/* A process at a tick, as far as the profile needs it. */
struct profile_sample {
	const char *job_id; /* NULL: of no job */
	struct proc_key key;
	int sheet_num; /* SHEET_NONE: it counts for the job only */
	double rss_mb; /* no bytes: other programs record rounded parts of a MB */
	double cpu_percent;
	uint64_t cpu_ns; /* since its start */
	const struct syscall_share *syscalls;
	size_t n_syscalls;
};

struct profile;

/* Copies job_id. NULL: no memory. */
struct profile *profile_new(const char *job_id, enum profile_rules rules);
struct profile *profile_free(struct profile *p);

/*
 * The samples that follow are of the next tick. boot_id: that of the host then; with another boot
 * pids and start times begin again. NULL or "": not known, taken for the one before.
 */
void profile_begin_tick(struct profile *p, const char *boot_id);

/* Borrows sample during the call. -ENOMEM: some of it is not counted, the next may be. */
int profile_add_sample(struct profile *p, const struct profile_sample *sample);

/* A tick with all samples of the snapshot. */
int profile_add_snapshot(struct profile *p, const struct snapshot *s);

/* Process starts are counted. */
void profile_add_event(struct profile *p, const struct proc_event *ev);

/* The peak by the rules; NaN: none was sampled. */
double profile_peak_rss_mb(const struct profile *p);

/*
 * CPU time: of each process the most that was sampled, all together. CPU time used after the last
 * sample is missing, so it is a lower bound. NaN: none was sampled, or the sum does not fit.
 *
 * Processes are distinguished by pid, start time and boot; where the start time is unknown, by pid.
 * If more than PROFILE_MAX_PROCESSES are there, those without a recent sample are dropped. A
 * process that returns after that is not counted again.
 */
double profile_cpu_seconds(const struct profile *p);

/*
 * An object with the keys of the reference implementation, where unknown is 0 or empty. System
 * calls are the sums of their shares over all samples, in the order of first sight.
 */
void profile_write_json(struct json *j, const struct profile *p);

#endif
