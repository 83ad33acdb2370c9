/*
 * recorder - records an attempt, from its first moment to its last, into a log of its own.
 *
 * run_job() is the runner: it starts the commands of a job, looks at their processes and appends
 * what it finds to the log. It works without a daemon; one that is there is a better source of
 * facts (link.h). Start reading at run_tick() in run.c. The daemon records attached trees
 * with the same parts, which are public below.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "base/mask.h"
#include "model/job.h"
#include "recorder/attached_sum.h"
#include "recorder/attempt_log.h"
#include "recorder/cadence.h"
#include "recorder/calls.h"
#include "recorder/evidence.h"
#include "recorder/identity.h"
#include "recorder/phase_box.h"
#include "recorder/time_sampler.h"
#include "recorder/upkeep.h"
#include "store/store.h"

/* How long a call inside a loop may wait for another writer. */
#define LOOP_PATIENCE_MS 20

enum progress_state {
	PROGRESS_RUNNING,
	PROGRESS_PAUSED, /* stopped with Ctrl-Z: the terminal is somebody else's for a while */
	PROGRESS_FINISHED,
};

/* How far a running job is, for a progress bar. */
struct run_progress {
	const struct sheet_record *sheet; /* NULL: between sheets */
	int total_sheets;
	int done_sheets;
	uint64_t elapsed_ns;
	uint64_t rss_bytes; /* at the last tick; U64_UNKNOWN before the first */
	double cpu_percent;
	enum progress_state state;
};
typedef void run_progress_fn(void *ctx, const struct run_progress *progress);

enum run_syscalls_how {
	RUN_SYSCALLS_DEFAULT, /* nobody has said anything: as a daemon does, if there is one */
	RUN_SYSCALLS_AUTO,
	RUN_SYSCALLS_EBPF,
	RUN_SYSCALLS_STRACE,
	RUN_SYSCALLS_OFF,
};

/* How a run counts the system calls of its job; what somebody asks for comes first. */
struct run_syscalls {
	enum run_syscalls_how how;
	bool may_ebpf;	     /* the configuration allows it */
	bool may_strace;     /* and wants this where nothing better is */
	unsigned time_every; /* by eBPF: one call in so many is timed, by chance; 0, 1: all are */
};

struct run_options {
	const struct job_spec *spec; /* with its job_id set */
	const char *command;	     /* what the records say was run; masked */
	const struct mask *mask;
	const char *state_dir; /* where traces go */
	const char *db_path;   /* NULL: nothing is recorded, and why_no_db says why */
	const char *why_no_db;
	const char *jsonl_path; /* the log of snapshots; NULL: none is written */
	uint64_t jsonl_max_bytes;
	const struct config_anomaly *anomaly;	  /* what is out of the ordinary */
	const struct config_retention *retention; /* how long what is recorded is kept */
	bool is_submitted;   /* a daemon has started it, and wants to hear of it in any case. Under
			      * pressure its sheets wait (link.h); the first has waited already */
	uint64_t submission; /* which one it was submitted as; U64_UNKNOWN */
	bool is_for_other;   /* that daemon is another user's, and does not share our database */
	bool is_read_back; /* the caller reads the record: a daemon that writes there is awaited, as
			    * it is where there are anomalies */
	bool is_quiet;	   /* nothing is printed about its recording */
	const char *why_no_output; /* what its commands print is lost; NULL: it goes somewhere */
	const char *slips;	   /* lines: settings that gave way to their defaults; NULL: none */
	double interval_seconds;
	bool reads_gpus;
	struct run_syscalls syscalls;
	bool makes_cgroup; /* for the job, where this user may */
	bool captures;	   /* what its processes print is kept, in part */
	bool leave_background;
	double grace_seconds; /* for background processes to end by themselves */
	double kill_after_seconds;
	run_progress_fn *progress; /* NULL: nobody is looking */
	void *progress_ctx;
};

/*
 * Runs the job to its end and fills ret with everything about it (its pointers
 * live in its arena). ret_shell_status is what proctor should exit with. Fails
 * only if nothing could be started, with signals and limits as they were before;
 * trouble with measuring or recording is
 * warned about once and never ends the job.
 */
int run_job(const struct run_options *options, struct attempt *ret, int *ret_shell_status,
	    struct err *err);

/* A submitted job that cannot even begin, with why. */
struct refusal {
	const char *job_id, *command, *reason;
	const char *db_path; /* NULL: nothing is recorded */
	uint64_t submission;
	bool is_for_other; /* as in struct run_options */
};

/* It has failed: that is recorded, and told to the daemon that waits for it. */
void run_record_refusal(const struct refusal *refusal);

/* For store_set_alive_check(): whether the runner of an attempt still lives, as seen from here. */
enum store_alive daemon_check_alive(void *ctx, const struct attempt *a);
