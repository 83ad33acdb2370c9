/*
 * account - the sums of one try of a sheet, or of a whole attempt, and what may
 * be claimed about them.
 */
#ifndef PROCTOR_JOBS_ACCOUNT_H
#define PROCTOR_JOBS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

#include "jobs/gpu_time.h"
#include "jobs/runner.h"
#include "model/job.h"
#include "model/snapshot.h"

struct account {
	struct usage usage;
	uint64_t started_boot_ns;
	uint64_t last_reap_boot_ns;	 /* U64_UNKNOWN: nothing was waited for yet */
	uint64_t sampled_peak_rss_bytes; /* largest simultaneous sum in a sample */
	uint64_t sampled_hwm_bytes;	 /* largest VmHWM in a sample */
	uint64_t reaped_rss_bytes; /* largest ru_maxrss that says something about the command */
	uint64_t reaped_rss_limit_bytes; /* largest that does not: true peaks are not above it */
	uint64_t sampled_user_ns;	 /* of all processes, each at its last sample */
	uint64_t sampled_system_ns;
	struct gpu_time gpu;
	bool has_unreadable_io;
	bool has_unwaited; /* a parent that ignores SIGCHLD: what its children used is lost to wait4
			    */
};

/* Begins anew at that moment (U64_UNKNOWN: not yet). */
void account_begin(struct account *a, uint64_t boot_ns);

/* One more process was born, and so many live now. */
void account_add_spawn(struct account *a, uint64_t n_living);

/* A process was waited for; zombie as for tally_reap(). */
void account_add_reaped(struct account *a, const struct reaped *reaped,
			const struct proc_sample *zombie);

/* What all processes of a tick did with GPUs; since_ns: since the tick before, or U64_UNKNOWN. */
void account_add_gpu_tick(struct account *a, const struct gpu_use *use, uint64_t since_ns);

/* A tick; hwm_bytes: the largest VmHWM among the processes seen. */
void account_add_tick(struct account *a, const struct series_point *point, uint64_t hwm_bytes);

/* What a process used between two samples, or since its birth. */
void account_add_sampled_cpu(struct account *a, const struct proc_record *before,
			     const struct proc_sample *now);

/*
 * The usage so far, each number with its evidence. sees_births: every birth was
 * told; is_complete: nothing of it runs any more.
 */
void account_settle(const struct account *a, uint64_t boot_ns, bool sees_births, bool is_complete,
		    struct usage *ret);

/* Whether ru_maxrss says something about the command, and not about us before exec. */
bool account_is_own_peak(const struct reaped *reaped);

uint64_t account_timeval_ns(struct timeval tv);

#endif
