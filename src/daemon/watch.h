/*
 * watch - the jobs of this host that are running, as their logs have them.
 *
 * The recorder of a job appends to its log that it began, how far it is, what happened to its
 * processes and how it ended. A look reads what is new in each log of the folder and reports each
 * record once, in its order. So a daemon that was killed finds all jobs again, and what locks or
 * fills the database delays nothing here.
 *
 * What had happened before the first look is not reported, but for jobs that still run: that they
 * began, and their sheets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "bus/bus.h"
#include "daemon/signal_list.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "log/log.h"
#include "model/anomaly.h"
#include "model/run_record.h"
#include "model/job.h"

/* An anomaly of a job that lasts, by the records of its log. */
struct active_anomaly {
	char name[EPISODE_NAME_BYTES];
	enum anomaly_type type;
};

struct watched {
	char *job_id;	   /* as long as it is watched, while those in a change */
	struct log_id log; /* which has its records */
	bool is_copy;	   /* that of a guest: hostile */
	bool has_log;	   /* nobody has removed it, as far as a look was through */
	/* As of the last look, with its sheets. Its id is the daemon's own for it, which no other
	 * attempt ever has. */
	struct attempt a;
	struct active_anomaly *active;
	size_t n_active, cap_active;
	struct signal_list signals; /* that its record has, of those that no runner records */
	struct job_calls *calls;    /* that are counted (service_syscalls.c) */
	bool is_uncounted;	    /* nobody but its runner is to count its system calls */
	size_t n_processes;
	size_t n_living;	   /* of these, without zombies */
	struct series_point point; /* of the last tick */
	struct series_point lived; /* of the last before it that showed processes */
	bool is_awaited;	   /* its runner is gone, and its end may still come */
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

/* Called inside watch_look(), which they must not call. */
struct watch_ops {
	/* sheet is NULL for a job. */
	void (*change)(void *ctx, enum change change, struct watched *job,
		       const struct sheet_record *sheet);
	/* What a runner has recorded: of attached trees the daemon itself is the recorder. */
	void (*event)(void *ctx, const struct watched *job, const struct proc_event *ev);
	void (*anomaly)(void *ctx, const struct watched *job, const struct episode *e,
			enum episode_change change);
	/* Whether the end of a guest, whose runner is gone, may still come: for so long it is
	 * watched as one that runs. */
	bool (*expects_end)(void *ctx, const struct attempt *a);
};

struct watch;

/* Of the logs of this database, whose path is borrowed. NULL: no memory. */
struct watch *watch_new(const char *db_path, const struct watch_ops *ops, void *ctx);
struct watch *watch_free(struct watch *w);

/*
 * Reads what is new. Jobs of other hosts and boots are left out. While w has looked and is not
 * freed, no other process removes logs of the folder, and store_sweep() none that w may lack.
 */
int watch_look(struct watch *w, struct err *err);

/* When the last look began; 0: there was none. */
uint64_t watch_looked_wall_ns(const struct watch *w);

/*
 * Those that were over at a look stay in memory until this: a snapshot may have
 * their names. To be called when it has not any more.
 */
void watch_drop_ended(struct watch *w);

/*
 * The sheet of a process that was born then. A runner writes down that a sheet has
 * begun a moment after its first process has: what is younger than the last look and that
 * moment may be of a sheet that is not known yet, and is SHEET_NONE; what an ancestor of it is
 * of, it is of too (membership_inherit_sheets()).
 */
int watch_sheet_at(const struct watch *w, const struct watched *job, uint64_t born_wall_ns);

/* Those that run, in the order in which they were found; valid until the next look. */
struct watched **watch_jobs(struct watch *w, size_t *ret_n);

/* NULL: it does not run. Of a job that runs twice the older one. */
struct watched *watch_find_of(struct watch *w, const char *job_id, uint64_t uid);
struct watched *watch_find_attempt(struct watch *w, int64_t id);

struct watched *watch_find_log(struct watch *w, const struct log_id *id);
struct watched *watch_find_submission(struct watch *w, uint64_t submission);

/*
 * The log of an attempt, also when that is over, and whose it is: of the last many thousands.
 * False: it is not known (any more). And the id of the attempt that has this log: the one that it
 * has or, where no look has shown it, a new one. -ENOMEM.
 */
bool watch_log_of(const struct watch *w, int64_t id, struct log_id *ret, uint64_t *ret_uid);
int64_t watch_id_of(struct watch *w, const struct log_id *log, uint64_t uid);

/* What this process runs; of what was attached, the job whose root it is. NULL: nothing. */
struct watched *watch_find_runner(struct watch *w, const struct proc_key *runner);
