/*
 * profile_accumulator - the profile of one job from samples and events, in one
 * pass over a history of any length.
 *
 *	profile_accumulator_begin_tick(acc, boot_id);
 *	profile_accumulator_add_sample(acc, &sample);	for each process
 *	…
 *	profile_accumulator_add_event(acc, &event);
 *	profile_accumulator_finish(acc, &profile);
 *
 * Ticks come in the order of time, events whenever. What belongs to another job,
 * or to none, is skipped. How old a row is does not matter. Attempts of one job that
 * run side by side have ticks of their own: their peaks are not added up.
 *
 *  - peak_rss_mb: the largest sum over the processes of a tick, of the job and of each
 *    sheet; so is max_cpu_pct of a sheet. By the rules of compat the largest of one
 *    process. A process of no sheet counts for the job only.
 *  - total_cpu_seconds: of each process the most that was seen, since it counts from
 *    its birth. What was used after the last sample is missing: a lower bound.
 *  - process_spawn_count: the spawn events.
 *  - unique_pid_count, unique_process_count: those in samples; events add none.
 *  - syscall_hotspots: the sum of each call's share over all samples, added up in the
 *    order they come, not rounded and not cut to the largest.
 *
 * Memory is bounded by the limits below and that of model/headcount.h. Beyond them
 * less is seen, never more: all that they touch is a lower bound.
 */
#ifndef PROCTOR_MODEL_PROFILE_ACCUMULATOR_H
#define PROCTOR_MODEL_PROFILE_ACCUMULATOR_H

#include <stddef.h>
#include <stdint.h>

#include "model/job.h"
#include "model/profile.h"
#include "model/snapshot.h"

#define PROFILE_MAX_SHEETS 65536
#define PROFILE_MAX_SYSCALLS 1024 /* different names: more than any kernel has */
#define PROFILE_MAX_SYSCALL_BYTES 64

/* What the profile wants to know of a process at a tick. */
struct profile_sample {
	const char *job_id; /* NULL: of no job */
	struct proc_key key;
	int sheet_num;
	double rss_mb; /* no bytes: what others have recorded is rounded to parts of a MB */
	double cpu_percent;
	uint64_t cpu_ns;		      /* since its birth */
	const struct syscall_share *syscalls; /* NULL: nobody counted them */
	size_t n_syscalls;
};

/* Borrows from p. No system calls: they are measured beside the sample. */
void profile_sample_from(const struct proc_sample *p, struct profile_sample *ret);

struct profile_accumulator;

/* Copies job_id. NULL: no memory. */
struct profile_accumulator *profile_accumulator_new(const char *job_id, enum profile_rules rules);
struct profile_accumulator *profile_accumulator_free(struct profile_accumulator *acc);

/*
 * The samples that follow are of the next moment. boot_id: that of the host then;
 * with another boot pids and start times begin anew. NULL or "": not known, taken
 * for the one before.
 */
void profile_accumulator_begin_tick(struct profile_accumulator *acc, const char *boot_id);

/* Borrows sample during the call. -ENOMEM: some of it is not counted, the next may be. */
int profile_accumulator_add_sample(struct profile_accumulator *acc,
				   const struct profile_sample *sample);

/* A tick with all samples of the snapshot. */
int profile_accumulator_add_snapshot(struct profile_accumulator *acc, const struct snapshot *s);

void profile_accumulator_add_event(struct profile_accumulator *acc, const struct proc_event *ev);

/*
 * The profile as of now; more may be added afterwards. ret is overwritten (release
 * what it held before), and untouched on failure. -ENOMEM.
 */
int profile_accumulator_finish(const struct profile_accumulator *acc, struct job_profile *ret);

#endif
