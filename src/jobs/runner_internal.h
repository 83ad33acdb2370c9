/*
 * runner_internal - what the two parts of the runner share.
 *
 * runner.c begins and ends tries, reaps and says how they went, signals.c passes
 * signals on and ends trees.
 */
#pragma once

#include <signal.h>

#include "jobs/runner.h"
#include "jobs/spawn.h"

/* Why a try is being ended by us. */
enum stop_cause { STOP_NONE, STOP_TIMEOUT, STOP_RANK_FAILED, STOP_CANCELLED, STOP_LIMIT };

enum runner_phase {
	PHASE_IDLE,
	PHASE_RUNNING,	/* some root process of the try lives */
	PHASE_DRAINING, /* all roots have ended, what they left behind is being ended */
	PHASE_FINISHED,
};

/* A process that the runner started itself: a command, or one rank of it. */
struct root {
	struct rank_record rank; /* rank RANK_NONE for a command that has none */
	bool is_running;
	bool was_told_to_end; /* we had sent it a signal while it ran */
	uint64_t ended_boot_ns;
	uint64_t pre_exec_rss_bytes;
};

struct runner {
	struct loop *loop;
	struct runner_options options;
	struct inherited inherited;
	sigset_t taken; /* signals that come through signal_fd */
	int signal_fd;
	struct loop_fd *signal_watch;
	struct loop_timer *timeout_timer;
	struct loop_timer *grace_timer;
	struct loop_timer *kill_timer;
	struct loop_timer
		*step_timer; /* starts the next try from the loop, not from inside a callback */

	enum runner_phase phase;
	size_t sheet_index;
	struct root *roots;
	size_t n_roots;
	uint64_t last_death_wall_ns,
		last_death_boot_ns; /* in this try, of any process; unknown: none */
	enum stop_cause stop_cause;
	enum outcome limit_outcome;
	const char *doing;    /* what the try was doing when its time was up, or the limit that
				 it exceeded; NULL */
	bool is_ending;	      /* the tree has been told to end */
	bool gave_terminal;   /* a root in a group of its own has it */
	bool gave_up;	      /* … and something of it does not */
	unsigned kill_rounds; /* SIGKILL passes over the tree so far */
	unsigned terminal_interrupts;
	int cancel_signal;  /* 0: nobody asked to end the job */
	char canceller[96]; /* the process that did: "backup.sh (pid 4711)"; "": not known */
	bool is_cancelled;  /* who did has said that the whole job is meant: "proctor cancel" */

	struct sheet_record *records;
	size_t n_records, cap_records;
	struct arena arena; /* strings and ranks of the records, and the result's reason */

	struct runner_result result;
};

/* The root that has this pid and runs; NULL: none. */
static inline struct root *runner_find_root(struct runner *r, pid_t pid)
{
	for (size_t i = 0; i < r->n_roots; i++)
		if (r->roots[i].is_running && r->roots[i].rank.pid == pid)
			return &r->roots[i];
	return NULL;
}

/* The record of the try that runs now. */
static inline struct sheet_record *runner_record(struct runner *r)
{
	return &r->records[r->n_records - 1];
}

/* The owner's wall clock: it is never set during a run. */
static inline uint64_t runner_now(const struct runner *r)
{
	return r->options.ops->now(r->options.ctx);
}

/* Of the try that runs now, or is next. */
static inline const struct sheet_spec *runner_spec(const struct runner *r)
{
	return &r->options.spec->sheets[r->sheet_index];
}

static inline bool runner_is_failed(struct exit_status status)
{
	return status.signal >= 0 || status.exit_code > 0;
}

/* runner.c */

/* What runs may have changed: the try may be over. */
void runner_on_children_changed(struct runner *r);

void runner_reap(struct runner *r);

/* signals.c */
int runner_take_signals(struct runner *r, struct err *err);
void runner_release_signals(struct runner *r);
/* SIGTERM to the whole tree now, SIGKILL after a while, until nothing is left. Returns how many got
 * it. */
size_t runner_end_tree(struct runner *r, enum stop_cause cause);
/* SIGKILL to the whole tree now, and again until nothing is left. */
void runner_kill_tree(struct runner *r, enum stop_cause cause);
