/*
 * checks - one row for each thing that can be out of the ordinary.
 *
 * A check looks at one process, job, cgroup, GPU or the host, and says how it stands:
 * over its threshold, clear of it, in between (less than the threshold, but not so
 * much less that it is over), or unknown. What it needs and cannot see makes it
 * silent: it never guesses. It keeps nothing: what is remembered is in track.h and
 * in struct tick, and episode.h turns its answers into episodes. The rules, and how
 * severe each is, stand above each check; docs/anomalies.md tells them to users.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/map.h"
#include "detect/track.h"
#include "model/anomaly.h"
#include "model/snapshot.h"

struct host_past;
struct cgroup_past;

/*
 * A GPU at the last tick, and since when it is idle: its memory is held while it does nothing. NaN:
 * unknown, or it is not. What was measured once is lost when it is unknown, and not none.
 */
struct gpu_past {
	double idle, percent, celsius; /* percent of its memory in use */
	bool has_brakes, has_celsius;  /* that was known once */
};

/*
 * What a process alone does not show: who its zombies are, whether it has children to wait for, and
 * whether others like it go on.
 *
 * That takes another walk through the processes, which is only done when a zombie or a process
 * without progress is old enough to matter.
 */

/* Processes with the same parent and the same name. */
struct kin {
	uint64_t n, n_moving; /* of those that are no longer new */
	uint64_t n_all, n_busy;
};

/* All zeros is empty. */
struct relations {
	struct map by_kin; /* hash -> index */
	struct kin *kin;
	size_t n_kin, cap_kin;
};

/* What checks see of the host besides the snapshot. Times are seconds. */
struct tick {
	const struct config_anomaly *config;
	const struct snapshot *snap;
	const struct host_past *past;
	const struct relations *relations;
	double now;
	double step;	       /* since the last tick; NaN: this is the first */
	double swap_rate;      /* MB per second, in and out; NaN */
	uint64_t host_kills;   /* only known from the count (host_past.h); U64_UNKNOWN */
	uint64_t cgroup_kills; /* the same of the cgroup at hand */
	double cgroup_kills_before, host_kills_before; /* before, in what lasts */
	bool cgroup_kills_are_of_job;	  /* it has lost a process then, and is alone in it */
	const struct cgroup_past *cgroup; /* the one at hand; NULL: nothing is remembered of it */
	struct gpu_past gpu;		  /* the one at hand, as it was at the last tick */
};

enum stand { STAND_UNKNOWN, STAND_CLEAR, STAND_BETWEEN, STAND_OVER };

/* What a check says. Only stand and value count unless it is over; more is worse in another unit.
 */
struct finding {
	enum stand stand;
	enum severity severity;
	double value, threshold;
	double before;		 /* NaN */
	double seconds_to_limit; /* NaN */
	uint64_t n_times;	 /* since the last report; 0: it is one thing */
	bool is_usual;		 /* it is clear only as jobs of its kind do the same */
	bool is_no_other;	 /* more about what was reported before */
	const char *unit;	 /* of these values, where it is another than the check's; static */
	const char *other_unit;	 /* a check that looks at two things: the other; NULL */
	double other_value;	 /* NaN */
	char text[ANOMALY_TEXT_BYTES];
};

typedef void process_check(const struct tick *t, const struct track *p, const struct proc_sample *s,
			   struct finding *f);
typedef void job_check(const struct tick *t, const struct job_track *job, struct finding *f);
typedef void host_check(const struct tick *t, struct finding *f);
typedef void cgroup_check(const struct tick *t, const struct cgroup_sample *c, struct finding *f);
typedef void gpu_check(const struct tick *t, const struct gpu_sample *gpu, struct finding *f);

/* Exactly one of the functions is set. Rows of processes come first. */
struct check {
	enum anomaly_type type;
	const char *unit;
	bool lower_is_worse;
	bool is_moment;	   /* it happens and is over: clear as soon as it is not found again */
	size_t sees_after; /* who begins to look sees after so long that something was so all along,
			      and calls it clear before: offset of a double in struct
			      config_anomaly; 0: at once, or it says that it does not know */
	process_check *of_process;
	job_check *of_job;
	host_check *of_host;
	cgroup_check *of_cgroup;
	gpu_check *of_gpu;
};

extern const struct check checks[];
extern const size_t n_checks;

/* A process was killed by the kernel for want of memory: an event tells it, and no check. */
extern const struct check check_oom_event;
/* victim: what is remembered of it; NULL. */
void find_oom(const struct proc_event *ev, const struct track *victim, struct finding *f);

/* So many more of a job were killed, without episodes of their own; the last is the event's. */
void find_more_kills(uint64_t n, const struct proc_event *ev, struct finding *f);

/* Any of that type; and the unit that checks call so, which is static. NULL: there is none. */
const struct check *checks_of_type(enum anomaly_type type);
const char *checks_unit(const char *name);

/* The unit of checks that also look at pressure. */
#define CHECKS_WAITING "percent of the time waiting"

/* ---- for the checks ---- */

/* Appends to its text. */
__attribute__((format(printf, 2, 3))) void finding_add(struct finding *f, const char *format, ...);

/* "40 s", "12 min", "3.5 h", "2 days". */
struct time_text {
	char text[24];
};
struct time_text checks_time(double seconds);

/* checks.c */
process_check check_memory_spike, check_memory_leak;
/* check_process.c */
process_check check_runaway, check_stuck, check_io_wait;
process_check check_zombies, check_fds, check_threads, check_orphan;
job_check check_processes, check_job_zombies;
/* check_ranks.c */
job_check check_ranks;
/* check_host.c */
host_check check_host_memory, check_host_io, check_swap, check_host_oom;
cgroup_check check_cgroup_memory, check_cgroup_oom;
gpu_check check_gpu_memory, check_gpu_idle, check_gpu_hot, check_gpu_lost;
