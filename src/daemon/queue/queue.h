/*
 * queue - jobs that were handed to the daemon and wait for their turn.
 *
 * A job is a file (0600) in a folder of its own until it has ended: the job file
 * as it came, behind a line that says whose it is. So a daemon that is killed
 * finds them all again. The runner that executes a job gets the file as its stdin,
 * holds a lock on it for as long as it lives, and lives on whatever happens to the
 * daemon. It is the runner, right before it begins, that marks the file as started: so a
 * daemon that is killed in between leaves a job that waits.
 *
 * A job runs as the user who has submitted it. Only root's daemon can do that for
 * others: see user.h for what their runners get.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/path.h"
#include "learn/learn.h"
#include "model/run_record.h"
#include "model/snapshot.h"

struct queued {
	char *job_id;
	char *stem; /* its path, but for the end that says whether it was started */
	char *workdir;
	char *name; /* of the job file, where it came from */
	uid_t uid;  /* who runs it */
	size_t n_bytes;
	uint64_t submitted_wall_ns;
	uint64_t submission;	  /* its attempt has the same (model/job.h) */
	uint64_t input_bytes;	  /* of the files that it names, as its submitter says */
	bool is_started;	  /* a runner has it, or had it */
	bool was_executed;	  /* we have seen the runner begin */
	bool is_cancelled;	  /* since then */
	struct proc_key runner;	  /* which it is; unknown start_ticks: a daemon before started it */
	int start_fd;		  /* of one that is on its way: see detach.h; -1 */
	uint64_t started_boot_ns; /* since when we know that */
	uint64_t not_before_ns;	  /* by CLOCK_BOOTTIME: back-pressure */
	bool is_held_told;	  /* that it is held up by that, since it is */
	struct estimate estimate; /* of what it will need, when that was last asked */
	uint64_t estimated_boot_ns;	 /* 0: never */
	char reason[ADMIT_REASON_BYTES]; /* why it waits; "": it does not */
};

struct queue;

/* What runners get. All is borrowed. */
struct queue_owner {
	const char
		*db_path; /* where those of our own user record; NULL: as they find it configured */
	const struct rlimit *files; /* their limit on open files; NULL: ours */
};

/*
 * Finds what is in the folder. The owner makes it if need be, and -EADDRINUSE: another daemon has
 * it. Else (NULL) it is looked at beside a daemon or without. -ENOENT: there is no such folder.
 */
int queue_open(const char *folder, const struct queue_owner *owner, struct queue **ret,
	       struct err *err);

/*
 * 1: somebody had removed the folder, or put another in its place: it is there again, and ours.
 * What was in it is lost, and what is in it now is for the next daemon. 0: nothing was amiss. Else
 * it is still not there, as queue_open() says, and can be tried again.
 */
int queue_renew(struct queue *q, struct err *err);
struct queue *queue_close(struct queue *q); /* what waits stays in the folder */

/* So much of one user who is not ours may wait or run. */
#define QUEUE_USER_MAX_JOBS 256
#define QUEUE_USER_MAX_BYTES (64 << 20)

#define QUEUE_FILE_MAX_BYTES (16 << 20)

/*
 * A new job, in three steps, as writing takes its time. First it is made, with a submission, the
 * time and a place, and its caller sets what it is (its strings are freed with it). NULL: err says
 * why.
 */
struct queued *queue_reserve(const struct queue *q, struct err *err);

/* Then its file, complete and safe on the disk or not there; on any thread. -EMSGSIZE: it is too
 * large. */
int queue_write(struct queued *job, const char *file, size_t len, struct err *err);

/* And it waits: takes over the job. Where it fails, job and file are gone. -EEXIST: a job of that
 * name and user waits already. -EBUSY: the user has too many. */
int queue_take(struct queue *q, struct queued *job, struct err *err);
void queued_free(struct queued **job);

#define QUEUE_PATH_BYTES (PATH_BYTES + 256)

/* Where its file is now. */
void queued_path(const struct queued *job, char path[QUEUE_PATH_BYTES]);

/* Oldest first; NULL at the end. Valid until the queue changes. */
struct queued *queue_at(struct queue *q, size_t i);
struct queued *queue_find(struct queue *q, const char *job_id, uid_t uid);

/*
 * A runner of its own, which is nobody's child, begins with it. Output of our own
 * user's jobs goes to log_folder, that of others to the same below their own state
 * folder. -ENOENT, -EACCES, …: it never will, as err says; -EAGAIN, -ENOMEM: not now. That it was
 * started is not safe from a power cut before io_sync_folder_of() of its path.
 */
int queue_start(struct queue *q, struct queued *job, const char *log_folder, struct err *err);

/*
 * Of one that was started: 0: its runner has begun, as far as we can know. 1: it is still on its
 * way. Else it never will be, or not now, as above: it waits again.
 */
int queue_check_start(struct queued *job, struct err *err);

/* Whether its runner still has it. */
bool queue_is_held(const struct queued *job);

/* Waits again: it was never run. */
int queue_put_back(struct queued *job, struct err *err);

/* It is over, or nobody wants it any more: the file is removed. */
void queue_drop(struct queue *q, struct queued *job);

/*
 * The job file as it came, in the text of a queue's file, and which submission it is (U64_UNKNOWN:
 * it does not say).
 */
const char *queue_file_job(const char *text, size_t len, uint64_t *ret_submission);

/* What the name of its file ends with. */
#define QUEUE_WAITING ".yaml"
#define QUEUE_STARTED ".started"

/*
 * ---- whose job is next ----
 *
 * Users take turns, and within one user the first comes first: the second job of one user
 * comes after the first of each other, however long it has waited. What a user has
 * running counts as turns that were had.
 */

/*
 * The jobs that wait, next first; freed by the caller. last_uid is whose turn it was: of users
 * who have had as many, the next one by number comes first. -ENOMEM.
 */
int turns_take(struct queue *q, uid_t last_uid, struct queued ***ret, size_t *ret_n);
