/*
 * runner - executes a job's sheets, one after the other, and sees them end.
 *
 * It is the subreaper of everything it starts, so every orphan comes to it and
 * no exit status is lost. It passes signals on, keeps time limits, retries,
 * and leaves nothing running behind a sheet (unless told to). It measures
 * nothing: whoever owns it is told of each step through struct runner_ops.
 *
 * The command stays in proctor's own process group. So the terminal sends
 * Ctrl-C and Ctrl-Z to both; the runner does not pass those on, and a second
 * Ctrl-C kills the whole tree.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/mask.h"
#include "jobs/spawn.h"
#include "jobs/membership.h"
#include "model/job.h"

/*
 * The value of a queued SIGTERM (sigqueue) that ends the whole job: its processes
 * get SIGTERM, and what is left of them SIGKILL. A plain one goes to the command.
 */
#define RUNNER_CANCEL 0x50637472

struct runner;

/* A process that has ended and was waited for, with everything in it that was ever waited for. */
struct reaped {
	pid_t pid;
	int wait_status;
	struct rusage usage;	     /* its own and that of its waited-for descendants */
	uint64_t pre_exec_rss_bytes; /* see spawn.h; U64_UNKNOWN for those the runner did not start
				      */
};

/* What the owner is told, in this order for each sheet. All are required; ctx is the owner's. */
struct runner_ops {
	/* The wall clock, as it was when the run began and has gone on since: never set, never
	 * back. */
	uint64_t (*now)(void *ctx);
	/* Whether the next try has to wait: 0 starts it, else this is asked again after so many
	 * milliseconds (or when somebody ends the job). */
	uint64_t (*hold_ms)(void *ctx);
	/* A try begins; its processes come next. */
	void (*sheet_started)(void *ctx, const struct sheet_record *sheet);
	/* With holds_commands: a child is about to become the command, and waits until this
	 * returns. */
	void (*process_held)(void *ctx, pid_t pid);
	void (*process_started)(void *ctx, pid_t pid, int sheet_num, int rank, uint64_t wall_ns);
	/* The kernel has kept a command out of the job's cgroup, whose counts are no longer the
	 * job's. */
	void (*cgroup_failed)(void *ctx);
	/* A child of ours did not become the command, and is gone: it is not the job's. */
	void (*process_failed)(void *ctx, pid_t pid);
	/* pid is a zombie: the last chance to read it. */
	void (*process_ending)(void *ctx, pid_t pid);
	/* Returns when it died (wall clock), or U64_UNKNOWN. */
	uint64_t (*process_reaped)(void *ctx, const struct reaped *reaped);
	/* The time limit of the try is reached, and nothing was signalled yet: what the try was
	 * doing goes to why, and what held it up to ret. */
	void (*time_is_up)(void *ctx, struct buf *why, struct cause *ret);
	/*
	 * The command pid failed, and not because of us. What is known of the cause goes to why and
	 * ret. Returns OUTCOME_OOM if a process was killed for lack of memory, else
	 * OUTCOME_FAILURE.
	 */
	enum outcome (*explain_failure)(void *ctx, pid_t pid, struct exit_status status,
					struct buf *why, struct cause *ret);
	/* Names the process that has sent us a signal, into a text of so many bytes; "": unknown.
	 */
	void (*name_sender)(void *ctx, pid_t pid, char *text, size_t size);
	/* The tree is about to be signalled or counted: bring it up to date. */
	void (*rescan)(void *ctx);
	/* SIGKILL was sent to each known process of the tree: sends it to all others that the
	 * kernel counts as the job's. Returns how many there were. */
	size_t (*kill_rest)(void *ctx);
	/* The runner has sent a signal to end a member of the tree, at that moment. */
	void (*process_signalled)(void *ctx, pid_t pid, int sig, uint64_t wall_ns);
	/* The try is over: its last process ended at that moment (boot clock). Its usage may be
	 * filled in. */
	void (*sheet_ended)(void *ctx, struct sheet_record *sheet, uint64_t boot_ns);
	/* We are about to be stopped with the command (Ctrl-Z); false: have been continued. */
	void (*stopped)(void *ctx, bool is_stopped);
	/* The last sheet is over; the loop may be stopped. */
	void (*finished)(void *ctx);
};

struct runner_options {
	const struct job_spec *spec;	   /* with its job_id set; borrowed */
	const struct mask *mask;	   /* for the commands in the records; borrowed */
	bool hides_commands;		   /* the records have none: what to mask is not known */
	struct membership *members;	   /* borrowed */
	const struct inherited *inherited; /* what the commands are to find; copied */
	bool holds_commands;		   /* before they begin */
	struct spawn_cgroup cgroup; /* its files stay the owner's; without entries: there is none */
	bool is_traceable;	    /* see spawn.h */
	bool leave_background;
	uint64_t grace_ms;	/* how long background processes may take to end by themselves */
	uint64_t kill_after_ms; /* from SIGTERM to SIGKILL */
	const struct runner_ops *ops;
	void *ctx;
};

/* Becomes a subreaper and takes over the signals. */
int runner_new(struct loop *loop, const struct runner_options *options, struct runner **ret,
	       struct err *err);
struct runner *runner_free(struct runner *runner);

/* Starts the first sheet; the rest happens inside loop_run(). */
void runner_start(struct runner *runner);

/* What has to be done now and then: call it on every tick. */
void runner_look_after(struct runner *runner);

/* Ends the try that runs, as it is beyond a limit: why is the reason, in a sentence. */
void runner_stop(struct runner *runner, enum outcome outcome, const char *why);

/* Whether anything of the job runs, be it an orphan. */
bool runner_has_processes(struct runner *runner);

/* Whether this process has children of any kind, zombies included. */
bool runner_has_children(void);

/* ---- after (or during) the run ---- */

/* All tries so far, in the order they ran; owned by the runner. */
const struct sheet_record *runner_sheets(const struct runner *runner, size_t *ret_n);

/* NULL between sheets. */
const struct sheet_record *runner_current_sheet(const struct runner *runner);

struct runner_result {
	enum outcome outcome;
	const char *reason; /* owned by the runner */
	struct cause cause;
	struct exit_status status;
	int shell_status; /* what proctor run exits with */
	int last_completed_sheet;
	size_t n_ended_background; /* processes that outlived their sheet and were ended */
};

void runner_get_result(const struct runner *runner, struct runner_result *ret);
