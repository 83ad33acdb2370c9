/*
 * watch - the jobs of this host that are running, as the database has them.
 *
 * Whoever runs a job writes there that it began, how far it is and how it ended:
 * so a daemon that was killed finds them all again, and those that ended in the
 * meantime with their true end. What has changed since the last look is told.
 */
#ifndef PROCTOR_DAEMON_WATCH_H
#define PROCTOR_DAEMON_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "bus/bus.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "model/run_record.h"
#include "model/job.h"
#include "store/store.h"

struct watched {
	char *job_id;	   /* as long as it is watched, while those in a change */
	struct attempt a;  /* as it was at the last look, with its sheets */
	bool is_uncounted; /* nobody but its runner is to count its system calls */
	size_t n_processes;
	size_t n_living;	   /* of these, without zombies */
	struct series_point point; /* of the last tick */
	struct series_point lived; /* of the last before it that showed processes */
	bool was_seen;		   /* at this look */
	bool is_awaited;	   /* word of its end: its runner is gone */
	struct watched *next;	   /* of those that are over */
	int runner_fd;		   /* a pidfd of its runner; -1: there is none */
	bool is_estimated;
	struct estimate estimate; /* of what it will need at most */
	bool has_usual;
	struct detect_usual usual; /* what jobs of its kind do; its job_id is that above */
	uint64_t held_boot_ns;	   /* when its runner last asked for a sheet that waits; 0 */
	char why_held[160];
	size_t n_held_told; /* before which try that was told, from 1; 0: never */
};

/* sheet is NULL for a job. Called inside watch_look(). */
typedef void watch_fn(void *ctx, enum change change, const struct watched *job,
		      const struct sheet_record *sheet);

struct watch;

struct watch *watch_new(watch_fn *fn, void *ctx); /* NULL: no memory */
struct watch *watch_free(struct watch *w);

/*
 * Whether how an attempt ended, whose runner is gone, may still be told (with the ctx of the
 * above): for so long it is watched as one that runs. Without this nothing is waited for.
 */
typedef bool watch_word_fn(void *ctx, const struct attempt *a);
void watch_set_word_check(struct watch *w, watch_word_fn *fn);

/*
 * Looks at the database. Jobs of other hosts and boots are left out. One whose row makes no sense
 * is watched as it was before for as long as its runner lives, or not at all.
 */
int watch_look(struct watch *w, struct store *store, struct err *err);

/*
 * Those that were over at a look stay in memory until this: a snapshot may have
 * their names. To be called when it has not any more.
 */
void watch_drop_ended(struct watch *w);

/*
 * As watch_look(), if anything was written since the last look through this handle, or
 * a runner is gone.
 */
int watch_glance(struct watch *w, struct store *store, struct err *err);

/* The database is gone: tells of each job that nobody knows its end, and begins anew. */
void watch_forget(struct watch *w);

/*
 * The sheet of a process that was born then. A runner writes down that a sheet has
 * begun a moment after its first process has: what is younger than the last look and that
 * moment may be of a sheet that is not known yet, and is SHEET_NONE; what an ancestor of it is
 * of, it is of too (membership_inherit_sheets()).
 */
int watch_sheet_at(const struct watch *w, const struct watched *job, uint64_t born_wall_ns);

/* Those that run, oldest first; valid until the next look. */
struct watched **watch_jobs(struct watch *w, size_t *ret_n);

/* NULL: it does not run. Of a job that runs twice the older one. */
struct watched *watch_find_of(struct watch *w, const char *job_id, uint64_t uid);
struct watched *watch_find_attempt(struct watch *w, int64_t id);

/* What this process runs; of what was attached, the job whose root it is. NULL: nothing. */
struct watched *watch_find_runner(struct watch *w, const struct proc_key *runner);

#endif
