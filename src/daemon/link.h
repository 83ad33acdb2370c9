/*
 * link - a runner's connection to the daemon, if one runs.
 *
 * The runner records the job, whether a daemon is there or not. A daemon that has the folder of the
 * runner's log reads what is new there when it is notified. To another daemon, such as root's, the
 * job is a guest: the runner sends it the frames of its log (log_sender.h). A daemon can come and
 * go at any time.
 */
#ifndef PROCTOR_DAEMON_LINK_H
#define PROCTOR_DAEMON_LINK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "daemon/attempt_log.h"
#include "daemon/told_calls.h"
#include "model/job.h"

struct link;

/* Looks for no daemon yet. NULL: no memory. */
struct link *link_new(struct loop *loop);
struct link *link_free(struct link *link);

/* The attempt as it is by now. */
struct link_job {
	const struct attempt *a;
	const struct attempt_log *log; /* NULL: there is none */
	bool keeps_calls;	       /* its system calls are not the daemon's to count */
	bool wants_calls;	       /* they are, before it answers */
};

/*
 * Before the first command is started: a daemon of root that is there follows all that we start
 * from now on, so that the first of them have exact ends as well. One that does not answer within
 * some milliseconds is not waited for. It is told which job it is: whom that has signalled may be
 * asked before its attempt is known.
 */
void link_begin(struct link *link, const char *job_id);

/* Whether one does, and nothing else was said to it yet. */
bool link_has_begun(const struct link *link);

/* Whether one did then; it may be gone since. */
bool link_was_followed(const struct link *link);

/* Whether one was there and had not answered by then, or when it was greeted. */
bool link_began_late(const struct link *link);

/*
 * Says that the job runs and where it is recorded, unless that was said, or tried
 * less than some seconds ago. Takes a few milliseconds at most. A daemon of our own
 * user is only told to look, now and at each change, until is_lasting.
 */
void link_greet(struct link *link, const struct link_job *job, bool is_lasting);

/*
 * The same to a daemon of another user, that is root's, at once and with more patience: where this
 * returns 0 it counts the system calls of all that we have started and will start. One of our own
 * user, which finds the attempt in our database, is asked if may_be_own, and greeted later. Else
 * err says why not.
 */
int link_ask_to_count(struct link *link, const struct link_job *job, bool may_be_own,
		      struct err *err);

/* Whether it does, since link_ask_to_count() and without a break. */
bool link_counts_calls(const struct link *link);

/*
 * What each process of a guest has called so far. -ENODATA: no daemon counts it; or it is our own,
 * whose next sample would have the same calls again. One that does not answer in time is not asked
 * again for a while.
 */
int link_take_counts(struct link *link, struct process_calls *ret);

/* Whether the daemon has seen that the kernel killed this process of the job for want of memory: in
 * its words. One that does not answer at once has not. */
bool link_saw_oom_kill(struct link *link, pid_t pid, struct buf *why);

/* Whether a daemon is, and has heard of us. */
bool link_is_there(const struct link *link);

/* Whether the job is a guest of the daemon, or was when there last was one. */
bool link_is_guest(const struct link *link);

/* Whether a daemon that has the runner's database is there, and looks at the job as well. */
bool link_is_shared(const struct link *link);

/* There is something new in the log: nobody waits for an answer. The second is for a guest alone,
 * as others need not hear of ticks. */
void link_tell_changed(struct link *link);
void link_send(struct link *link);

/* The log was closed: another is to be told of. */
void link_leave_log(struct link *link);

/* ---- the job is over ---- */

/*
 * Its last process is gone, run_ns after the first was started. A daemon that does not answer
 * delays all that is below by no more than a tenth of that (half a second at most, 5 ms at least)
 * and half a second, together: the tenth is for what nobody has asked for. What it has not said by
 * then is -ETIMEDOUT. What the caller does in between takes nothing of it.
 */
void link_begin_end(struct link *link, uint64_t run_ns);

/* Greets whatever was tried before, and a daemon of our own user has looked by the return. */
void link_greet_at_once(struct link *link, const struct link_job *job);

/*
 * What the daemon has counted of it, asked or not, once; is_wanted: somebody has asked, or it is
 * nowhere else. -ENOENT: none is there; -ENODATA: it has not.
 */
int link_take_calls(struct link *link, bool is_wanted, struct told_calls *calls, struct err *err);

struct link_deaths {
	struct proc_record *items;
	size_t n;
	uint64_t n_unlisted; /* the daemon had no room for so many more */
	uint64_t n_withheld; /* so many more were not their user's alone */
	uint64_t n_lost; /* of the kernel's news on processes, of whomever: some may be missing */
	bool is_rough;	 /* by the daemon's rung none of them is exact */
	bool is_late;	 /* it has not answered in time */
	bool is_refused; /* it has said that it has none, or could not be asked */
};

/*
 * What the processes of the job had used by their ends, as the daemon was told; into the arena.
 * None where there is no daemon, or it is told no more than we are.
 */
void link_take_deaths(struct link *link, struct arena *arena, struct link_deaths *ret);

/*
 * Calls fn for each signal and OOM kill of a guest's processes that the daemon has seen so far;
 * what it gets is valid during the call only. Of our own daemon, which writes them down itself,
 * there are none.
 */
typedef void link_signal_fn(void *ctx, const struct proc_event *ev);
int link_take_signals(struct link *link, link_signal_fn *fn, void *ctx);

/*
 * What the daemon measures with, into the attempt, behind what the runner does. One that was late
 * before is not asked.
 */
int link_take_rungs(struct link *link, struct attempt *a);

/*
 * The job has ended, and that is recorded. Whoever had it as a guest knows by the
 * return; and also who could not be greeted so far, if is_awaited. False: such a daemon
 * is not there, or has not written it down.
 */
bool link_tell_end(struct link *link, const struct link_job *job, bool is_awaited);

/*
 * Before the end is in the log, where a daemon should hear of it: holds the log, which others may
 * store and remove then. And after link_tell_end(): for late_word.h; NULL: it is gone.
 */
int link_open_log(struct link *link, const struct link_job *job);
struct log_sender *link_take_log(struct link *link);

/* A daemon of our own user has written down what it knows of the job by the return. */
int link_await_record(struct link *link);

#endif
