/*
 * link - a runner's connection to the daemon, if one runs.
 *
 * The runner records the job, whether a daemon is there or not. A daemon that has the folder of the
 * runner's log reads what is new there when it is notified. To another daemon, such as root's, the
 * job is a guest: the runner sends it the frames of its log (log_sender.h). A daemon can come and
 * go at any time.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "recorder/attempt_log.h"
#include "recorder/calls.h"
#include "model/job.h"

struct link;

/* What the kernel has reported to the daemon of our processes, and not to us. */
struct link_facts {
	const struct proc_record *ends; /* how they ended, and what they had used by then */
	size_t n_ends;
	const struct proc_event *events; /* signals and kills; without sheets */
	size_t n_events;
};

/* Called when some have come: from the loop, and from any function below that waits for the daemon.
 * They are valid during the call. */
typedef void link_facts_fn(void *ctx, const struct link_facts *facts);

/* Samples of our processes, as the daemon has read them at its last look (collector_take_feed()):
 * called as above. False: they are no use, and the daemon is to begin again. */
typedef bool link_samples_fn(void *ctx, const void *bytes, size_t n);

/* What it is about, as it is by now. */
struct link_job {
	const struct attempt *a;
	struct attempt_log *log; /* NULL: there is none */
	bool keeps_calls;	 /* its system calls are not the daemon's to count */
};

/* Looks for no daemon yet. job is borrowed. NULL: no memory. */
struct link *link_new(struct loop *loop, const struct link_job *job, link_facts_fn *facts_fn,
		      link_samples_fn *samples_fn, void *ctx);
struct link *link_free(struct link *link);

/*
 * Before the first command is started: opens the stream of facts, if a daemon of root is there. One
 * that does not answer within some milliseconds is not waited for. What we start from now on is
 * followed from its beginning. It opens with link_greet() else.
 */
void link_begin(struct link *link);

/* Of the daemon, and of the streams of facts that there have been. */
struct link_state {
	bool is_there;	   /* a daemon is, and has hello */
	bool is_guest;	   /* the job is one of that daemon, or was of the last one; or it may be */
	bool counts_calls; /* since link_ask_to_count(), and without a break */
	bool was_followed; /* a stream was open: it may be gone since */
	bool was_broken;   /* one was, and ended before the run did */
	bool began_late; /* a daemon was there and had not answered in time, at first or to hello */
	bool has_samples; /* some have come */
	bool is_rough;	  /* facts lack the last of what processes used, as without eBPF */
	bool sees_calls;  /* the daemon observes calls that fail */
	uint64_t
		n_lost; /* facts, for want of room on the way, or as the kernel had none for them */
	uint64_t n_withheld; /* those that are not for this user */
};
const struct link_state *link_state(const struct link *link);

/* Whether a daemon that has the runner's database is there, and looks at the job as well. */
bool link_is_shared(const struct link *link);

/* All that has happened so far has come by the return. The daemon is not waited for long. -ENOENT:
 * no stream is open. */
int link_barrier(struct link *link);

/*
 * Says that the job runs and where it is recorded, unless that was said, or tried less than some
 * seconds ago. Takes a few milliseconds at most.
 */
void link_greet(struct link *link);

/*
 * The same at once and with more patience: where this returns 0 the daemon counts the system calls
 * of all that we have started and will start. One of our own user is asked only if may_be_own. Else
 * err says why not.
 */
int link_ask_to_count(struct link *link, bool may_be_own, struct err *err);

/*
 * What processes of a guest have called so far: all (*ret_is_all), or those alone that have called
 * anything since this was asked last. -ENODATA: no daemon counts it; or it is our own,
 * whose next sample would have the same calls again. One that does not answer in time is not asked
 * again for a while.
 */
int link_take_counts(struct link *link, struct process_calls *ret, bool *ret_is_all);

/*
 * From now on we look at this interval: the daemon sends the samples of its looks, where it has
 * eBPF and does not look less often. It is asked once for each stream, without an answer.
 */
void link_want_samples(struct link *link, double interval_seconds);

/* A sheet that waits for its start. All zero: none does. */
struct hold {
	uint64_t since_boot_ns; /* it waits; 0: it does not */
	uint64_t until_boot_ns; /* it may start then, unless told otherwise */
	bool is_told;		/* that it waits, and why */
	bool is_silent;		/* the daemon, since a sheet has waited for it in vain */
};

/*
 * Whether the next sheet of a submitted job may start. 0: it may; else to be asked again after so
 * many milliseconds. Takes half a second at most.
 *
 * Under pressure (learn/admission.h) a sheet waits. The daemon is asked again every second
 * meanwhile, so that the sheet starts as soon as the pressure falls, and everybody can see why it
 * waits. A job does not depend on a daemon: where none is, nothing waits, and if it goes away
 * during the wait the sheet starts after the delay that was told last. One that is there and says
 * nothing is waited for once: until it has spoken again no other sheet waits for it.
 */
uint64_t link_hold_ms(struct link *link, struct hold *h);

/* There is something new in the log: nobody waits for an answer. Only a guest's daemon, to which
 * its log is sent, needs to hear of a tick. */
void link_tell_changed(struct link *link, bool is_tick);

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

/*
 * The last barrier: also the accounts of what has ended just now have come, if needs_accounts. A
 * process was killed (was_killed): it is waited for longer, and a stream that could not be opened
 * so far is opened for what the daemon has kept. -ENOENT, -ETIMEDOUT.
 */
int link_end_facts(struct link *link, bool needs_accounts, bool was_killed);

/*
 * What the daemon has counted of it, asked or not, once; is_wanted: somebody has asked, or it is
 * nowhere else. -ENOENT: none is there; -ENODATA: it has not.
 */
int link_take_calls(struct link *link, bool is_wanted, struct counted_calls *calls,
		    struct err *err);

/* What the daemon that follows us measures with, into the attempt, behind what the runner does. */
void link_name_rungs(const struct link *link, struct attempt *a);

/*
 * The job has ended, and that is recorded. Whoever had it as a guest knows by the
 * return; and also who could not be greeted so far, if is_awaited. False: such a daemon
 * is not there, or has not written it down.
 */
bool link_tell_end(struct link *link, bool is_awaited);

/*
 * Before the end is in the log, where a daemon should hear of it: holds the log, which others may
 * store and remove then. And after link_tell_end(): for late_word_leave(); NULL: it is gone.
 */
int link_open_log(struct link *link);
struct log_sender *link_take_log(struct link *link);

/* A daemon of our own user has written down what it knows of the job by the return. */
int link_await_record(struct link *link);
