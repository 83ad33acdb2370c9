/*
 * run_internal - what the parts of a run share.
 *
 * run.c sets up, looks and adds up, run_ops.c gets the reports of runner and kernel. record.c
 * appends what happens to the log and notifies a daemon, record_anomalies.c what is wrong with the
 * job's processes, record_end.c the end.
 */
#pragma once

#include "base/loop.h"
#include "recorder/attempt_log.h"
#include "recorder/recorder.h"
#include "recorder/link.h"
#include "recorder/phase_box.h"
#include "recorder/time_sampler.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "sources/sources.h"
#include "store/store.h"

#define WATCH_MS 250 /* between two samples that watch limits */

/* The curve of a run of a year still fits: beyond this two neighbours become one. */
#define SERIES_MAX_POINTS 65536

/* Who counts the system calls: run_calls.c. */
struct run_counting {
	bool is_own;		 /* the run does, */
	struct syscalls *ebpf;	 /* by this; NULL: by strace, */
	struct strace **straces; /* one for each command */
	size_t n_straces, cap_straces;
	struct counted_calls calls;
	struct err err;		     /* why the run does not, or not by eBPF */
	struct err trouble;	     /* the first while it does; code 0: none */
	bool is_warned;		     /* of what strace takes from the job */
	struct process_calls before; /* by the last sample, where a daemon counts them */
	bool asks_daemon;	     /* a daemon that may do more is to count them: not asked yet */
	bool is_daemon_asked;	     /* it was, and answered that it does */
	bool is_by_daemon;	     /* it has, from the first to the last */
};

/* Starts and ends of processes, as the kernel reports them. */
struct run_births {
	struct life *life; /* NULL: this machine does not report them */
	struct err err;	   /* why not */
	struct loop_fd *watch;
	struct loop_timer *timer; /* until it is looked at again */
	bool has_any, has_own;	  /* those that were read last: some, some of the job */
	pid_t failed_pid;	  /* a child of ours that never became the command; 0 */
	/* No news of deaths, or some were lost: what a scan does not show is gone. */
	bool forget_missing;
};

/*
 * The daemon's samples. Once looks are an interval apart they wait for them, for half an interval
 * more; and are by /proc where none came.
 */
struct run_feed {
	bool is_steady;		 /* looks are that far apart */
	bool is_fresh;		 /* the next look is of those that came last */
	uint64_t came_boot_ns;	 /* when any came; 0: never */
	uint64_t looked_boot_ns; /* the last look began */
};

/* The process that is about to be waited for. */
struct run_ending {
	struct oom_counts oom_before; /* when the sheet began */
	struct proc_sample zombie;
	struct io_counts waited; /* I/O of all that was waited for before it, */
	bool leaves_out_threads; /* without that of other threads of ours */
};

/* The job at each tick. */
struct run_curve {
	struct series_point last;
	struct series_point *points;
	size_t n, cap;
	uint64_t share_boot_ns; /* shared pages are measured again from then on; 0: none were */
};

/* A process that stores what the logs have. */
struct run_storing {
	pid_t pid;	  /* 0: there is none */
	uint64_t boot_ns; /* when the last one was started, or we were */
	uint64_t bytes;	  /* of the log, then */
};

/* What of the run is in its log. */
struct run_recording {
	struct err err;	  /* the first loss, for the report; code 0: none */
	bool is_replaced; /* by another log than the first: that is noted */
	size_t n_sheets;
	uint64_t renewed_boot_ns;	 /* when what lasts was last recorded as it is */
	struct loop_timer *events_timer; /* events are recorded soon */
	bool is_soon;			 /* by it */
	uint64_t events_due_boot_ns;	 /* the next time not before this */
};

/* Looks for anomalies. */
struct run_watching {
	struct around around; /* when something last began */
	bool has_asked_usual;
	bool has_usual;
	struct detect_usual usual; /* what jobs of its kind do */
	struct closer closer;	   /* while something that began is looked at closer */
	struct evidence_trace trace;
	size_t n_events_judged; /* of the tally's */
};

/* Kills for want of memory that other runs have recorded: what the host has counted is not
 * all this run's to explain. */
struct run_kills {
	uint64_t host_count;	/* at the last tick; U64_UNKNOWN: there was none */
	uint64_t until_boot_ns; /* until then the record is looked at */
	uint64_t since_wall_ns; /* for kills from then on */
	uint64_t n;		/* new at the last look */
	struct map counted;	/* of each episode, by its name: how many */
};

struct run_containing {
	struct job_cgroup *cgroup; /* NULL: the job has none, */
	struct err err;		   /* for this reason */
	struct job_limits watched; /* by samples, as the kernel does not enforce them */
};

struct run {
	const struct run_options *options;
	struct inherited inherited;
	struct loop *loop;
	struct loop_timer *tick_timer;
	struct loop_timer *record_timer;
	struct runner *runner;
	struct membership *members;
	struct run_containing containing;
	struct tally *tally;
	struct collector *collector; /* NULL: /proc cannot be read */
	struct gpus *gpus;	     /* NULL: there are none, or the options do not want them */
	int root_fd;
	struct snapshot snap;
	struct attempt *attempt;
	uint64_t boot_ns;	/* when the run began */
	uint64_t sheet_boot_ns; /* when the sheet began */
	uint64_t ended_boot_ns; /* when the last command ended */
	int done_sheets;
	bool scan_failed;	       /* logged once */
	struct link_job job;	       /* with the log; that is NULL: nothing is recorded */
	struct link *link;	       /* to the daemon */
	bool is_untold;		       /* a daemon that should know the end of the job does not: */
	struct log_sender *untold_log; /* NULL: it is gone */
	struct hold hold;
	struct detect *detect;
	struct phase_box phases;
	struct jsonl *jsonl; /* NULL: no log of snapshots */
	uint64_t n_lines_missing;
	struct run_counting counting;
	struct time_sampler times;
	struct run_births births;
	struct run_feed feed;
	struct run_ending ending;
	struct run_curve curve;
	struct wait_state *waits; /* of the processes, when the time of a try was up */
	size_t n_waits;
	struct run_storing storing;
	struct run_recording recording;
	struct run_watching watching;
	struct run_kills kills;
};

/* ---- run.c ---- */

/*
 * The time that a run records, in nanoseconds since 1970: the wall clock as it was when the run
 * began, gone on with the boot clock. What is recorded stays in order and keeps its distances when
 * the clock is set.
 */
uint64_t run_now(const struct run *run);

/* A moment of the wall clock of now, on the run's; unknown stays unknown. */
uint64_t run_time_of(const struct run *run, uint64_t wall_ns);

/*
 * One look at the processes of a run, and when the next one is. Collect, assign to the job, add up,
 * record, show: at a sheet's beginning often, later every interval, and sooner while something that
 * began is looked at closer. A look that fails is logged once, and the next one tries again.
 */

/* A sheet begins: looks come often again, until run->tick_timer is stopped. */
void run_start_ticks(struct run *run);

/*
 * Which processes there are, of all the host if at_all, and which of them are ours: run->snap and
 * run->members. False: they could not be looked at.
 */
bool run_scan(struct run *run, bool at_all);

/* Samples of a daemon, for link_new(). */
bool run_take_samples(void *ctx, const void *bytes, size_t n);

int run_current_sheet(const struct run *run); /* SHEET_NONE: between two sheets */

/* To whoever shows it, as of the last look. */
void run_show_progress(struct run *run, enum progress_state state);

/* ---- run_ops.c ---- */

/* What a run does when its runner reports that something began or ended; ctx is the struct run. */
extern const struct runner_ops run_ops;

/*
 * What the kernel reports of births and deaths, into the run's tree and tally. Where it does not
 * report to this user, or no longer, run->births.life is NULL, run->births.err says why, and what a
 * scan does not show is gone (run->births.forget_missing).
 */
void run_life_open(struct run *run);

/* What the kernel reports to the daemon, into the same; for link_new(). */
void run_take_facts(void *ctx, const struct link_facts *facts);

/* Takes in all that was reported so far: before a scan, and before somebody is waited for. */
void run_life_drain(struct run *run);

/* The kernel's counts of OOM kills; of the job's own cgroup, where it has one. */
void run_read_oom(const struct run *run, struct oom_counts *ret);

/* ---- explain.c: why a try ended as it did ---- */

/* Its time is up, and its processes were just looked for: adds what the one that explains most was
 * doing. */
void explain_time_limit(struct run *run, struct buf *why, struct cause *ret);

/* "; it was waiting for …": what that look has shown of this process, if anything. */
void explain_signalled(const struct run *run, pid_t pid, struct buf *out);

/*
 * The process of a failed command's tree whose failure was passed on, parent by parent; NULL: the
 * command failed by itself, or it is not known when it ended. is_from_outside: whether the signal
 * that killed a process came from outside of the job.
 */
typedef bool explain_outside_fn(void *ctx, const struct proc_record *killed);
const struct proc_record *explain_first_failed(const struct proc_record *all, size_t n, pid_t root,
					       explain_outside_fn *is_from_outside, void *ctx);

/* See struct runner_ops. */
enum outcome explain_failure(struct run *run, pid_t pid, struct exit_status status,
			     uint64_t wall_ns, struct buf *why, struct cause *ret);

/* "backup.sh (pid 4711)", or "". */
void explain_sender(const struct run *run, pid_t pid, char *text, size_t size);

/* A try is over: records the processes that were OOM-killed although the try did not fail by it. */
void explain_kills(struct run *run, const struct sheet_record *sheet, uint64_t wall_ns);

/*
 * ---- record.c: the attempt in its log, from its beginning on ----
 *
 * The log is made before the first command is started, and nothing here opens the database for
 * writing. What the disk refuses waits in memory (attempt_log.h); what is lost is logged once, and
 * the report has it too; the job goes on in any case.
 */

/* What is known of the attempt before anything runs. */
void record_describe(struct run *run);

/* Makes the log. */
void record_open(struct run *run);

/* The sheets that have begun or ended since; a daemon is notified. */
void record_now(struct run *run);

/* A sheet began or ended: it is recorded soon. */
void record_sheet_soon(struct run *run);

/* The snapshot, its point, the events since the last tick and phases; and the log's line. */
void record_tick(struct run *run, const struct series_point *point);

/* The events since the last time, and the marks that the job's processes have left. */
void record_events(struct run *run);

/* The same in some tenths of a second, for a daemon that is there and publishes them. */
void record_events_soon(struct run *run);

/* One record. Without a log: nothing. */
void record_append(struct run *run, enum record_type type, const struct buf *bytes);

/*
 * Another process stores what the logs have, and removes what is old: for a run that lasts, where
 * no daemon does so, and for who is about to read. Does not wait for it.
 */
void record_store_aside(struct run *run);

/* To read what is stored so far; NULL: there is none, or it cannot be read now. */
struct store *record_open_store(const struct run *run);

/* ---- a daemon (link.h) ---- */

/*
 * Before the first command: what it starts is followed from its beginning, where a daemon can.
 */
void record_begin(struct run *run);

/* There is something new in the log. */
void record_tell_changed(struct run *run);

/* Before the end is in the log: who may have to send it holds it. */
void record_prepare_end(struct run *run);

/* The end, which is in the log by now. Who should hear of it and has not: run->is_untold. */
void record_tell_end(struct run *run);

/* ---- record_anomalies.c ---- */

/* Those of the host are left to a daemon of our own user, where there is one. */

/* In run->snap and the events that were not looked at yet. */
void record_look_for_anomalies(struct run *run);

/* The job is over: what lasts ends, and a last kill for want of memory is found. */
void record_end_anomalies(struct run *run);

/* ---- record_end.c ---- */

/* What may measure here. Once, while the command runs: the end does not wait for it. */
void record_probe(struct run *run);

/* Completes the attempt with everything that is known at its end, records it and tells a daemon. */
struct runner_result;
void record_end(struct run *run, const struct runner_result *result);

/*
 * ---- run_calls.c: who counts the system calls ----
 *
 * The run itself, by eBPF where this user may, from the exec of each command on, or by strace where
 * it was asked for; a daemon of root, which may where the run may not, and which has started the
 * run if it was submitted; or none, and run->counting.err has the reason.
 */
void run_counting_open(struct run *run);
void run_counting_close(struct run *run);

/* Whether commands have to allow that they are traced. */
bool run_counting_traces(const struct run *run);

/*
 * This command has not begun, and waits: from now on it is counted. The first time a daemon is
 * asked, if run->counting.asks_daemon. Failure is warned about once.
 */
void run_counting_begin(struct run *run, pid_t pid);

/* Into each sample what was counted since the last; by strace, or of none, it stays unknown. */
void run_counting_fill(struct run *run);

/* Into the attempt: the sums, what each of its processes has called, and what is wrong with that.
 */
void run_counting_end(struct run *run);
struct rung run_counting_rung(const struct run *run);
