/*
 * account - the sums of one try of a sheet, or of a whole attempt, and what may
 * be claimed about them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

#include "jobs/runner.h"
#include "model/job.h"
#include "model/snapshot.h"

/*
 * ---- how long GPUs worked for somebody, and how long they were held in vain ----
 *
 * It is made of ticks, and at some of them the share is not told: a driver that does not
 * know it, one that fails for a while. Sums over the rest are said only where the rest is
 * the larger part, of the whole time and of the time in which memory was held. Only what was
 * before the first reading, which comes after a second or two, is taken to have been like it.
 * Who does nothing and may hold memory, of which nobody tells, may be idle: that time is in
 * neither sum, and must be the smaller part of that in which memory was held.
 */

/* All 0 at first. */
struct gpu_time {
	uint64_t busy_ns, idle_ns;
	/* With and without a share that was told; [1]: of it, while memory was held. */
	uint64_t seen_ns[2], blind_ns[2];
	uint64_t idle_untold_ns; /* with a share, and without whether memory was held in vain */
};

/* What somebody did with GPUs at a tick. */
struct gpu_use {
	uint64_t held_bytes;
	double percent; /* 100 = one GPU */
	/* Of which memory is held in vain; two of a process count twice. */
	double idle_devices;
	bool idle_is_least; /* of a sum: somebody's is not in it, as nobody tells of it */
};

/* Of a process; where nobody tells it by device, all that it holds are idle, as one, or none. */
struct gpu_use gpu_use_of(const struct proc_sample *p);

/* A tick; since_ns: since the one before, U64_UNKNOWN: there was none. */
void gpu_time_add(struct gpu_time *t, const struct gpu_use *use, uint64_t since_ns);

/* U64_UNKNOWN: not enough was told. */
uint64_t gpu_time_busy_ns(const struct gpu_time *t);
uint64_t gpu_time_idle_ns(const struct gpu_time *t);

/* ---- the sums ---- */

struct account {
	struct usage usage;
	uint64_t started_boot_ns;
	uint64_t last_reap_boot_ns;	    /* U64_UNKNOWN: nothing was waited for yet */
	uint64_t sampled_peak_rss_bytes;    /* largest simultaneous sum in a sample */
	uint64_t sampled_peak_memory_bytes; /* the same with shared pages once */
	uint64_t sampled_hwm_bytes;	    /* largest VmHWM in a sample */
	uint64_t reaped_rss_bytes; /* largest ru_maxrss that says something about the command */
	uint64_t reaped_rss_limit_bytes; /* largest that does not: true peaks are not above it */
	uint64_t parts_user_ns;		 /* of all processes that are listed, each by itself */
	uint64_t parts_system_ns;
	struct gpu_time gpu;
	bool has_shared; /* some pages were seen to be shared */
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

/* A tick; hwm_bytes: the largest VmHWM among the processes seen; gpu: what they all did with GPUs;
 * since_ns: since the tick before, or U64_UNKNOWN. */
void account_add_tick(struct account *a, const struct series_point *point, uint64_t hwm_bytes,
		      const struct gpu_use *gpu, uint64_t since_ns);

/*
 * The usage so far, each number with its evidence. sees_births: every birth was
 * told; is_complete: nothing of it runs any more.
 */
void account_settle(const struct account *a, uint64_t boot_ns, bool sees_births, bool is_complete,
		    struct usage *ret);

/* Whether ru_maxrss says something about the command, and not about us before exec. */
bool account_is_own_peak(const struct reaped *reaped);

uint64_t account_timeval_ns(struct timeval tv);

/*
 * ---- the largest of several peaks that came one after the other ----
 *
 * The sheets of a job run one after the other, and so do the tries of a sheet. The
 * largest of their peaks is exact only if none of the others can have been larger.
 */

struct peaks {
	uint64_t bytes; /* of those that are exact, sampled or lower bounds */
	enum evidence evidence;
	uint64_t limit_bytes; /* of those that are upper bounds */
	bool all_exact;	      /* but for the upper bounds */
};

void peaks_init(struct peaks *p);

/* One more; U64_UNKNOWN: there was one, and nobody knows how high. */
void peaks_add(struct peaks *p, uint64_t bytes, enum evidence evidence);

/* Both unknown if nothing is known. */
void peaks_settle(const struct peaks *p, uint64_t *ret_bytes, enum evidence *ret_evidence);
