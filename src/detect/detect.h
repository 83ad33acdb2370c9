/*
 * detect - from what is measured at each tick to what is out of the ordinary: when it begins,
 * when it gets worse and when it is over.
 *
 *	struct detect *d = detect_new(&config.anomaly, DETECT_ALL);
 *
 *	at each tick:
 *		const struct detect_news news = { .snap = &snap, .events = …, .n_events = … };
 *		struct detect_changes changes;
 *
 *		r = detect_tick(d, &news, &changes);
 *		for (i = 0; i < changes.n; i++)
 *			publish and store changes.items[i]
 *
 * It looks at the processes of jobs; of a tick with none it sees the host and its GPUs. It
 * keeps what it needs of earlier ticks itself: nothing of a snapshot is used after the call.
 * The cost is linear in the processes, and what is kept is bounded (track.h, episode.h).
 * The checks are in checks.h; compat.h has those of the reference implementation, for
 * comparison.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "detect/compat.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/snapshot.h"

struct detect;

/* What to look at: bits. */
enum detect_scope {
	DETECT_HOST = 1, /* the host and its GPUs */
	DETECT_JOBS = 2, /* jobs, their processes and their cgroups */
	DETECT_ALL = 3,
};

/* Copies the thresholds. NULL: no memory. */
struct detect *detect_new(const struct config_anomaly *config, enum detect_scope scope);
struct detect *detect_free(struct detect *d); /* NULL is fine. Returns NULL. */

/* Other thresholds from now on. What lasts goes on. */
void detect_configure(struct detect *d, const struct config_anomaly *config);

/*
 * Another scope from now on. Active episodes of the host go on with its new observer: no changes
 * of them are reported here any more.
 */
void detect_set_scope(struct detect *d, enum detect_scope scope);

/*
 * Goes on, from the next tick, with an episode that another observer began and the record has as
 * active, under its name: its checks make it worse and end it. attempt_id is that of the samples
 * here. What it borrows is copied. -EINVAL: it cannot be followed; -ENOSPC, -ENOMEM.
 */
int detect_adopt(struct detect *d, const struct episode *e);

/* What jobs of this kind usually do at most, where that is known. */
struct detect_usual {
	const char *job_id;
	int64_t attempt_id;  /* as the samples have it */
	double cpu_percent;  /* the whole job; NaN */
	double wall_seconds; /* how long they take; NaN */
	double cpu_seconds;  /* that they use in all; NaN */
	uint64_t rss_bytes;  /* its largest process; U64_UNKNOWN */
};

struct detect_news {
	const struct snapshot *snap;
	const struct proc_event *events; /* since the last tick: OOM kills, ends of processes, and
					    who is left of a job */
	size_t n_events;
	uint64_t n_kills_elsewhere; /* OOM kills since the last tick that another observer has
				       reported: they explain counts, and are not repeated */
	/* Whether another observer judges this job: then its processes are passed over. NULL: none
	 * does. */
	bool (*is_judged_elsewhere)(void *ctx, int64_t attempt_id);
	void *ctx;
	const struct detect_usual *usual; /* of jobs that run; may be left out at most ticks */
	size_t n_usual;
};

struct detect_change {
	enum episode_change change;
	const struct episode *episode;
};

struct detect_changes {
	const struct detect_change *items; /* with their episodes: until the next call */
	size_t n;
};

/*
 * The next moment. One that is not later than the last is passed over; after a reboot all
 * that was remembered is forgotten, and after a long time without a look what was so before.
 * -ENOMEM: some of it was not looked at; the changes so far are there.
 */
int detect_tick(struct detect *d, const struct detect_news *news, struct detect_changes *ret);

/*
 * OOM kills between two ticks, which are reported at once: the events of that kind in the news,
 * whose snapshot is that of the last tick with the time of now. All else waits for the next tick,
 * where these do not come again. -ENOMEM as above.
 */
int detect_note_kills(struct detect *d, const struct detect_news *news, struct detect_changes *ret);

/* One attempt, as the samples have it. */
struct detect_job {
	const char *job_id;
	int64_t attempt_id;
};

/* What is known of the end, by who looks at nothing more. */
struct detect_ending {
	uint64_t wall_ns; /* of the job; U64_UNKNOWN: it goes on, and nobody looks any more */
	const struct proc_event *events; /* since the last tick: ends of processes */
	size_t n_events;
	bool leaves_processes; /* some live on */
};

/*
 * There will be no more ticks: all active episodes end at the time of the last one. A kill that was
 * counted and waited for its event begins and ends here. ending: NULL, or what is known of the end.
 * Then what is of a process ends with that, by its event or, where none is left, with the job; what
 * is of the job when that ended.
 */
int detect_end_job(struct detect *d, const struct detect_ending *ending,
		   struct detect_changes *ret);

/*
 * One of the jobs is over, and the others are looked at as before: what is of it, and of those of
 * its processes that the events tell of, ends as above and not with the next tick. Who is left goes
 * on.
 */
int detect_leave_job(struct detect *d, const struct detect_job *job,
		     const struct detect_ending *ending, struct detect_changes *ret);

/*
 * What the host is doing, as an episode that begins has it. Takes as long as there are processes.
 * Of a snapshot of one job only the values of the host count. Where the memory of some is unknown
 * top_rss has the others, and knows_rss is false.
 */
void detect_describe_host(const struct snapshot *snap, struct anomaly_host *ret);

/* The i-th episode that lasts, oldest first; NULL: there are no more. */
const struct episode *detect_active(const struct detect *d, size_t i);

/* Whether one that lasts is of a process with this pid: when that ended is worth telling. */
bool detect_follows(const struct detect *d, pid_t pid);

/* Processes at the last tick, and episodes ever, for which there was no room. */
uint64_t detect_count_left_out(const struct detect *d);

/* How often checks of this type could say something, and how often what they need was unknown. */
struct detect_looks {
	uint64_t n_judged, n_silent;
	uint64_t n_usual; /* that something was so, and not told, as jobs of its kind do the same */
};
struct detect_looks detect_looks_of(const struct detect *d, enum anomaly_type type);
