/*
 * membership - which process belongs to which job, sheet and rank.
 *
 * One tracker for all who ask: the runner (its own job), the daemon (all jobs of the host), `top`
 * without a daemon and `snapshot` (the jobs that the record lists). A job has a root: its runner,
 * whose descendants belong to the job (orphans too: the runner is their subreaper), or a process
 * that was attached, which belongs to it itself. Of jobs inside jobs the nearest root counts.
 *
 * The tracker is fed with two things, in any order, and either may be missing:
 * - scans (membership_scan()): a snapshot with some or all processes. A process that is not a
 * member yet is one if its parent is; every scan is linear in its processes, whatever the jobs.
 * - starts and exits (membership_start(), membership_exit()) as the kernel reports them, some with
 *   pids alone. They are idempotent. A program that is executed changes nothing.
 *
 * A process is (pid, start time); the boot is always this one. One that only a start has shown has
 * no start time until a scan shows it. A pid with another start time is another process, and so is
 * one that is born again. Members stay members when their parents end, whoever inherits them. An
 * exit that comes before its start leaves a member that no scan shows, and that is forgotten like
 * all that are missing (enum membership_missing).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/snapshot.h"

#define MEMBERSHIP_MAX_ENDED 256
#define MEMBERSHIP_MAX_DEAD                                                  \
	65536 /* beyond so many between two scans they are forgotten at once \
	       */

enum membership_root {
	MEMBERSHIP_SELF,     /* this process is the runner: recognised by its pid alone */
	MEMBERSHIP_RUNNER,   /* another process, in the snapshot, is the runner */
	MEMBERSHIP_ATTACHED, /* the root belongs to the job itself */
};

struct membership_job {
	enum membership_root kind;
	struct proc_key root;
	const char *job_id; /* borrowed until the next membership_set_jobs() */
	int64_t attempt_id; /* tells jobs apart, from one membership_set_jobs() to the next */
	int sheet_num;	    /* of the root's children, and of an attached root */
};

struct job_member {
	struct proc_key key; /* start_ticks may be unknown until a scan has shown it */
	int64_t attempt_id;
	int sheet_num;
	int rank;
	uint64_t born_wall_ns; /* U64_UNKNOWN */
	bool is_told;	       /* its start was reported, or is recorded already */
	bool is_dead;	       /* of another runner's job: starts of its children may still come */
	unsigned long round;   /* of the last scan that has shown it */
};

struct membership;

struct membership *membership_new(void); /* NULL: no memory */

/* The same, of one job, which this process runs. job_id is borrowed. */
struct membership *membership_new_own(const char *job_id, pid_t runner_pid);
struct membership *membership_free(struct membership *m);

/* ---- jobs ---- */

/*
 * These are the jobs from now on; the list is copied. Members of other jobs are forgotten at the
 * next scan, unless they belong to one of these. -ENOMEM: there are none.
 */
int membership_set_jobs(struct membership *m, const struct membership_job *jobs, size_t n);

/* One more of them. -ENOMEM. */
int membership_add_job(struct membership *m, const struct membership_job *job);

/* The sheet that runs now, of the first job. */
void membership_set_sheet(struct membership *m, int sheet_num);

/* The job is over: its processes are nobody's, and another may have its number. */
void membership_forget_job(struct membership *m, int64_t attempt_id);

/* ---- processes that belong ---- */

/*
 * It belongs to the job, whoever its parent is: a process that the runner has started, one that was
 * noted down earlier, or whose start was told. start_ticks may be unknown. -ENOMEM.
 */
int membership_add(struct membership *m, const struct job_member *member);

/*
 * A start at this moment; the child's start_ticks may be unknown. Returns the child, or NULL if it
 * belongs to no job. One that a scan was quicker to show stays as it is. *ret_is_new (may be NULL):
 * its start was not told before. Valid until the tracker changes.
 */
const struct job_member *membership_start(struct membership *m, pid_t parent,
					  const struct proc_key *child, uint64_t wall_ns,
					  bool *ret_is_new);

/* An exit, of a child of parent: true if it belonged to one. */
bool membership_exit(struct membership *m, pid_t pid, pid_t parent);

/* NULL: not a member that lives. Valid until the tracker changes. */
const struct job_member *membership_find(const struct membership *m, pid_t pid);

/* The attempt that a process belongs to or is the root of, by its pid alone; 0: none. */
int64_t membership_attempt_of(const struct membership *m, pid_t pid);

/*
 * The pids of all members, and of up to MEMBERSHIP_MAX_ENDED that have ended and may be zombies, as
 * their parent has not waited for them; valid until the tracker changes. NULL: there are no
 * members, or no memory.
 */
const pid_t *membership_pids(struct membership *m, size_t *ret_n);

/* ---- strangers: children of the runner that are not of the job ---- */

/*
 * All members that this snapshot shows were there before the job began (a shell that started a
 * helper and then became proctor by exec): strangers, with all that they start. To be called before
 * the first command is started. Returns how many, or -ENOMEM.
 */
int membership_note_strangers(struct membership *m, struct snapshot *snap);
/* One that the runner has started for itself: not of the job either. -ENOMEM. */
int membership_add_stranger(struct membership *m, pid_t pid);
bool membership_is_stranger(const struct membership *m, pid_t pid);
bool membership_has_strangers(const struct membership *m);
void membership_forget_stranger(struct membership *m, pid_t pid);

/* ---- scans ---- */

/*
 * What becomes of members that a scan does not show. Where the kernel tells of exits they stay for
 * one more scan: a child that was born and ended between two scans is known by its parent alone,
 * and the news of its start may still wait in the queue when the parent is gone from /proc. By the
 * next scan (the queue is emptied before each) that news has come; who is missing twice is gone,
 * and its pid may be another's.
 */
enum membership_missing { MEMBERSHIP_KEEP_ONCE, MEMBERSHIP_FORGET_MISSING };

/*
 * Sets job_id, attempt_id and sheet_num of the snapshot's processes (and rank, of jobs that this
 * process runs), clears those of others, and learns new members by their parents. A new member has
 * the sheet and the rank of its parent. A zombie is marked, and never becomes a member: it will do
 * nothing any more, and its exit was told. n_of: how many processes each job has here; NULL: not
 * wanted. -ENOMEM: as far as it got.
 */
int membership_scan(struct membership *m, struct snapshot *snap, enum membership_missing missing,
		    size_t *n_of);

/* Of the last scan: which of its processes has this pid, or -1. */
int membership_index(const struct membership *m, pid_t pid);

/* Of the last scan: the number of the job that its process i belongs to, or -1. */
int membership_owner(const struct membership *m, size_t i);

/*
 * After that, where the caller has set other sheets: each process of the same snapshot that has
 * none is of the sheet of the nearest ancestor in its job that has one.
 */
void membership_inherit_sheets(const struct membership *m, struct snapshot *snap);

/* Members that the last scan has shown, of this sheet (SHEET_NONE: of any). fn does not change the
 * tracker. */
typedef void membership_fn(void *ctx, const struct job_member *member);
size_t membership_count_seen(const struct membership *m, int sheet_num);
void membership_each_seen(const struct membership *m, membership_fn *fn, void *ctx);

/* All of an attempt that live. */
void membership_each_of(const struct membership *m, int64_t attempt_id, membership_fn *fn,
			void *ctx);

/* Those that the last scan has shown and whose start was not told: it is from now on. */
void membership_each_untold(struct membership *m, membership_fn *fn, void *ctx);

/* Called inside membership_scan() for each that is missing and whose exit was not told. */
void membership_on_missing(struct membership *m, membership_fn *fn, void *ctx);
