/*
 * profile - what a job used, in the few numbers that jobs are compared by.
 *
 * Each number says where it came from. profile_from_attempt() has the exact ones,
 * model/profile_accumulator.h those that samples tell; profile_improve() puts
 * the better of two in place of the other.
 *
 * There are two sets of rules. By proctor's own a peak is the largest sum over
 * the processes of a tick, and what nobody measured is unknown. By those of the
 * reference implementation (compat) a peak is the largest value of one process, and
 * unknown reads as 0 or empty.
 */
#ifndef PROCTOR_MODEL_PROFILE_H
#define PROCTOR_MODEL_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "model/job.h"

enum profile_rules { PROFILE_PROCTOR, PROFILE_COMPAT };

/* Percent of the time in system calls; a hotspot is the sum over samples, so it passes 100. */
struct syscall_share {
	const char *name;
	double pct;
};

/* All tries of a sheet together. */
struct sheet_profile {
	int num;
	double peak_rss_mb;
	enum evidence peak_rss_evidence;
	double max_cpu_pct; /* sampled, wherever it is from; 100 = one core */
};

struct job_profile {
	const char *job_id;
	double peak_rss_mb;
	enum evidence peak_rss_evidence;
	double total_cpu_seconds;
	enum evidence cpu_evidence;
	uint64_t process_spawn_count; /* births, however short the life */
	enum evidence spawn_evidence;

	/*
	 * Pids are reused. Different pids are counted because the reference
	 * implementation counts them: one that was used twice counts once. The processes
	 * are told apart by pid and start time; where that is unknown, by pid.
	 */
	uint64_t unique_pid_count;
	enum evidence unique_pid_evidence;
	uint64_t unique_process_count;
	enum evidence unique_process_evidence;

	/* In the order of first sight, which sums over many jobs depend on. Evidence
	 * unknown: nobody looked; lower bound: there are more than are listed. */
	struct syscall_share *hotspots;
	size_t n_hotspots;
	enum evidence hotspot_evidence;
	struct sheet_profile *sheets;
	size_t n_sheets;
	enum evidence sheet_evidence;

	struct arena arena; /* owns the arrays and the strings */
};

/* All unknown. */
void profile_init(struct job_profile *p);
void profile_release(struct job_profile *p);

/* Copies. -ENOMEM leaves those that it has. */
int profile_set_hotspots(struct job_profile *p, const struct syscall_share *shares, size_t n,
			 enum evidence evidence);

/*
 * What an attempt's own accounting says. Of one that still runs or was lost that is
 * the sheets that have ended, and little else. ret is overwritten (release what it
 * held before), and untouched on failure. -ENOMEM.
 */
int profile_from_attempt(const struct attempt *a, struct job_profile *ret);

/*
 * Takes over from other, which is about the same job by the same rules, what p does
 * not know, what is exact there and not in p, and of two that are not exact the
 * larger: what was seen was there. Sheets are taken one by one. -ENOMEM: only some.
 */
int profile_improve(struct job_profile *p, const struct job_profile *other);

/*
 * An object with the keys of the reference implementation; by proctor's rules also
 * unique_process_count, and evidence{} here and in each sheet.
 */
void profile_write_json(struct json *j, const struct job_profile *p, enum profile_rules rules);

#endif
