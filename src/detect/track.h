/*
 * track - what is remembered of each process of a job, and of each job, from tick to tick.
 *
 * A process is told by pid and start time: a pid that comes back with another one is
 * another process, and one whose start time is unknown is not followed at all. What
 * is no longer there is forgotten: at once if somebody said that it ended, else after
 * TRACK_GRACE_TICKS, as a snapshot may miss a process. Memory is bounded by TRACK_MAX processes,
 * each of fixed size; those beyond are counted and left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/map.h"
#include "detect/detect.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/snapshot.h"

/*
 * ---- a value over a window of time ----
 *
 * In as many numbers as fit into a cache line or two: at most SERIES_POINTS are kept.
 * Times are seconds since whatever the owner counts from, and never go back.
 */

#define SERIES_POINTS 32

/* Points in a ring. All zeros is empty. */
struct series {
	float t[SERIES_POINTS], v[SERIES_POINTS];
	uint8_t first, n;
};

/* The first value of each part of the window, and the largest. All zeros is empty. */
struct levels {
	struct series first;
	float high[SERIES_POINTS];
	float high_before; /* the largest of those that are older than the window; 0: none is */
};

/* The earliest at this time or later, and the largest before that; false: there is none. */
bool levels_since(const struct levels *l, double since, double *ret_t, double *ret_v,
		  double *ret_high_before);

/* The latest at this time or earlier whose value is no larger than this; false: there is none. */
bool levels_latest(const struct levels *l, double until, double limit, double *ret_t,
		   double *ret_v);

/*
 * The least of each of SERIES_POINTS parts of the window: what a process always has,
 * whatever it takes and gives back in between.
 */
struct floors {
	struct series least;
	float open_t, open_v; /* the part that is not over yet; open_v < 0: nothing is in it */
};

/* A straight line through the points. */
struct fit {
	size_t n;
	double from;	     /* time of the first */
	double span;	     /* seconds from the first to the last */
	double first, last;  /* values */
	double late;	     /* share of what it grew that it grew in the later half */
	double slope;	     /* per second */
	double r2;	     /* share of the variance that the line explains */
	double rising;	     /* share of the steps that do not fall */
	double largest_drop; /* of one step */
};

/*
 * Which limit most processes of a job have, of whatever each has set for itself.
 *
 * A few of them are counted at a time: where there are more, one of each and the one that finds no
 * place are taken off together. What half of them have is left over from that, and its count is
 * short by no more than how often it was done.
 */
#define LIMITS_COUNTED 8

/* All zeros is empty. */
struct limits {
	struct limit_count {
		uint64_t limit, n; /* 0: the place is free */
	} of[LIMITS_COUNTED];
	uint64_t n_taken_off;
};

/*
 * The least that at least half of so many have, or U64_UNKNOWN. Where there are more than
 * LIMITS_COUNTED different ones it may be one that only seven in eighteen have.
 */
uint64_t limits_of_half(const struct limits *l, uint64_t n_all);

#define TRACK_MAX 65536
#define TRACK_GRACE_TICKS 2

/* A value now and about a window ago, in four numbers. */
struct two_ago {
	double t[2];
	float v[2];
	uint8_t n;
};

/* How many began of late, and the worst of them: for who would tell too many. */
struct burst {
	double since;
	unsigned n;
	enum severity worst;
};

struct rank_watch;

/* One attempt: jobs of two users may have one name. */
struct job_track {
	char *job_id;
	int64_t attempt_id;	   /* as the samples have it */
	uint64_t seen_tick;	   /* it runs, or has processes */
	uint64_t n_tracks;	   /* processes that were its own, and are there */
	uint64_t n_processes;	   /* at this tick */
	uint64_t n_threads;	   /* of these, one each where that is unknown */
	struct limits user_limits; /* of processes, for those that are not root's */
	uint64_t cgroup_limit;	   /* what it has, and there is room for; U64_UNKNOWN */
	uint64_t n_zombies;	   /* at this tick, that nobody of the job can wait for */
	uint64_t n_zombies_before; /* at the last tick; U64_UNKNOWN */
	pid_t zombie_parent;
	int sheet_num;	 /* that it is in, or one of its processes */
	uint32_t active; /* a bit for each type of anomaly of the job itself that lasts */
	struct two_ago processes;
	double cpu_percent;	   /* sum of what is known at this tick */
	struct detect_usual usual; /* without its job_id */
	struct rank_watch *ranks;  /* check_ranks.h; NULL: it has none */
	struct burst bursts[N_ANOMALY_TYPES];
	uint64_t n_more_kills; /* that were not told one by one */
	uint64_t lost_tick;    /* the last that had one of its processes no more; 0: none */
};

/*
 * The same over all of its life, in parts that become longer with it: what grows slowly shows in
 * hours. At most a day is looked back.
 */
struct slow_trail {
	struct floors least;
	struct fit fit;
	double window; /* seconds that the parts have room for */
};

/* What takes more room, of those that are there for more than a moment. Values: MB, files. */
struct trail {
	struct slow_trail *slow; /* of memory; NULL: it has not been there for long enough */

	struct levels memory;
	struct floors least_memory, least_fds;
	struct fit memory_fit, fds_fit;
	double settled; /* since when it has started up, as the times of memory; NaN: it has not */
};

struct track {
	struct proc_key key;
	uint64_t seen_tick;
	uint64_t missed_wall_ns; /* the first tick that did not show it; 0: the last one did */
	uint64_t died_wall_ns;	 /* as somebody told; 0: nobody has */
	struct job_track *job;	 /* the last it belonged to; never NULL */
	char comm[COMM_BYTES];
	int sheet_num; /* while it has a job, and of the last it had */
	pid_t ppid;
	uint32_t active;  /* a bit for each type of anomaly that lasts */
	uint32_t muted;	  /* those that are counted elsewhere */
	double born;	  /* when it was first seen */
	double memory_mb; /* that it does not share with the page cache; NaN */
	double most_mb;	  /* of that, the most that a look has shown; NaN */
	struct two_ago threads;

	/* Since when, in seconds; NaN: not so, or unknown. */
	double progressed; /* last used CPU or moved bytes */
	double worked;	   /* last moved bytes or touched new memory, in earnest */
	double busy;	   /* over the threshold without a break */
	double in_state;
	double without_job;
	double wanted_percent; /* of a core: what it used, and what it waited for one; NaN */
	double wanted_seconds; /* the same, of all ticks that were seen */
	struct two_ago wanted;
	double calm_percent; /* the same, when it last was below the threshold; NaN */

	/* By who looked before, if the next look shows that it is still so; NaN. */
	double still_since, in_state_since;
	char state;
	bool is_dead;	     /* somebody said so, or its pid is another's */
	bool moved_in_state; /* some bytes, while it was in this state */

	uint64_t cpu_ns, wait_ns, moved_bytes, faults; /* at the last tick; U64_UNKNOWN */
	uint64_t calm_cpu_ns; /* that it had used when it became busy; U64_UNKNOWN */

	uint64_t n_zombies_before; /* at the last tick; U64_UNKNOWN */

	/* At this tick, where somebody asked for them. */
	uint64_t n_zombies, n_children;
	int kin;	     /* of struct relations; -1: not known */
	struct trail *trail; /* NULL: it is new */
};

struct tracks {
	struct map by_pid; /* -> index */
	struct track *items;
	size_t n, cap;
	size_t next; /* behind the one that was updated last */
	struct job_track **jobs;
	size_t n_jobs, cap_jobs;
	uint64_t tick;
	uint64_t n_left_out; /* at this tick */
};

void detect_tracks_release(struct tracks *ts);

/* Forgets everything. */
void detect_tracks_reset(struct tracks *ts);

/* Nobody looked for a while: only who is there is still known, and what lasts. */
void detect_tracks_forget_past(struct tracks *ts, double now);

#define TRACK_NONE SIZE_MAX

/*
 * What the sample adds to what is known; ret is its index, or TRACK_NONE where it is
 * not followed. Indices hold until the next sweep. -ENOMEM.
 */
int detect_tracks_update(struct tracks *ts, const struct config_anomaly *config,
			 const struct proc_sample *p, double now, double before, size_t *ret);

/* Left of a job that was over before any tick has shown it with its job; since then. -ENOMEM. */
int detect_tracks_adopt(struct tracks *ts, const struct proc_sample *p,
			const struct proc_event *left, double now, double since);

/* The job, made where it is new. -ENOMEM. */
int detect_tracks_job(struct tracks *ts, const char *job_id, int64_t attempt_id,
		      struct job_track **ret);

/* NULL: it is not known. */
struct job_track *detect_tracks_find_job(const struct tracks *ts, const char *job_id,
					 int64_t attempt_id);

/* The one with this pid; NULL: it is not followed. */
struct track *detect_tracks_by_pid(struct tracks *ts, pid_t pid);

/* Forgets those that are no longer shown, by the tick at this time. fn is told before. */
typedef void track_gone_fn(void *ctx, const struct track *p);
typedef void job_gone_fn(void *ctx, const struct job_track *job);
void detect_tracks_sweep(struct tracks *ts, uint64_t wall_ns, track_gone_fn *gone,
			 job_gone_fn *job_gone, void *ctx);

/* ---- one process ---- */

void two_ago_add(struct two_ago *s, double t, double v, double window);
/* NaN: not known for that long. */
double two_ago_value(const struct two_ago *s);
/* How long ago that was, at time t; NaN. */
double two_ago_seconds(const struct two_ago *s, double t);
