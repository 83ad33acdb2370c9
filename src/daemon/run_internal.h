/*
 * run_internal - what the parts of a run share.
 *
 * run.c sets up, run_ops.h hears the runner, run_life.h the kernel, run_tick.h looks and adds up;
 * record.h and its parts write down.
 */
#ifndef PROCTOR_DAEMON_RUN_INTERNAL_H
#define PROCTOR_DAEMON_RUN_INTERNAL_H

#include "base/loop.h"
#include "daemon/backlog.h"
#include "daemon/unsaved.h"
#include "daemon/around.h"
#include "daemon/call_steps.h"
#include "daemon/closer.h"
#include "daemon/daemon.h"
#include "daemon/evidence_trace.h"
#include "daemon/hold.h"
#include "daemon/lasting.h"
#include "daemon/link.h"
#include "daemon/maker.h"
#include "daemon/phase_box.h"
#include "daemon/run_calls.h"
#include "daemon/settler.h"
#include "daemon/told_kills.h"
#include "daemon/upkeep.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "sources/sources.h"
#include "store/store.h"

/* The curve of a run of a year still fits: beyond this two neighbours become one. */
#define SERIES_MAX_POINTS 65536

struct file_id {
	dev_t device;
	ino_t inode;
};

struct run {
	const struct run_options *options;
	struct inherited inherited;
	struct loop *loop;
	struct loop_timer *tick_timer;
	struct loop_timer *record_timer;
	struct loop_timer *drain_timer; /* while ticks wait that can be stored by now */
	struct loop_fd *life_watch;

	struct runner *runner;
	struct membership *members;
	struct tally *tally;
	struct collector *collector;  /* NULL: /proc cannot be read */
	struct gpus *gpus;	      /* NULL: there are none, or nobody wants to know */
	struct run_calls *calls;      /* NULL: the run does not count them */
	struct err calls_err;	      /* why not */
	struct call_steps call_steps; /* where a daemon does */
	bool asks_daemon;	   /* a daemon that may do more is to count them: not asked yet */
	bool is_daemon_asked;	   /* it was, and said that it does */
	bool is_counted_by_daemon; /* it has, from the first to the last */
	bool is_sampled_by_daemon; /* one has written ticks of the job */
	struct life *life;	   /* NULL: this machine does not tell */
	struct err life_err;	   /* why not */
	pid_t failed_pid;	   /* a child of ours that never became the command; 0 */
	int root_fd;
	struct snapshot snap;
	struct attempt *attempt;

	uint64_t boot_ns;	      /* when the run began */
	uint64_t sheet_boot_ns;	      /* when the sheet began */
	uint64_t ended_boot_ns;	      /* when the last command ended */
	struct oom_counts oom_before; /* when the sheet began */
	struct proc_sample zombie;    /* the process that is about to be waited for */
	struct io_counts waited;      /* I/O of all that was waited for before it, */
	bool leaves_out_threads;      /* without that of other threads of ours */
	struct series_point last_point;
	struct series_point *series;
	size_t n_series, cap_series;
	int done_sheets;

	bool forget_missing; /* no news of deaths, or some were lost: what a scan does not show is
			      * gone
			      */
	bool scan_failed;    /* said once */

	struct store *store; /* NULL: not open (yet) */
	struct maker *maker; /* while there is no database that can be used; NULL */
	bool is_maker_tried;
	struct settler *settler; /* until the end is written; NULL: the store waits for the disk */
	struct file_id store_file;
	bool is_replaced;     /* by another database than the first: that is noted */
	bool store_is_off;    /* it cannot be opened: do not try again */
	struct err store_err; /* the first loss, for the report; code 0: none */
	size_t n_sheets_stored;
	struct backlog backlog;
	struct unsaved unsaved;		/* anomalies that wait to be stored */
	struct lasting lasting;		/* those that are, and go on */
	struct told_kills told_kills;	/* by a daemon */
	bool is_handed_over;		/* to a daemon, which looks for anomalies */
	bool adopts;			/* a daemon is gone: what lasts by the record is ours */
	size_t n_events_judged;		/* of the tally's, in looks for anomalies */
	uint64_t waiting_since_boot_ns; /* since when nothing could be stored; U64_UNKNOWN */
	bool is_waiting_said;
	uint64_t end_boot_ns; /* until when the end may wait for others; 0: the run goes on */
	bool is_disk_said;    /* that it refuses what is recorded */
	bool is_slow_said;    /* that it takes long for it */

	struct link *link; /* to the daemon, which then records the ticks */
	bool is_untold;	   /* a daemon that should know the end of the job does not */
	struct hold hold;  /* a sheet that waits for its start */
	struct upkeep *upkeep;
	struct detect *detect;
	struct around around; /* when something last began */
	bool has_usual;
	struct detect_usual usual; /* what jobs of its kind do */
	struct closer closer;	   /* while something that began is looked at closer */
	struct evidence_trace trace;
	struct phase_box phases;
	struct jsonl *jsonl; /* NULL: no log of snapshots */
	uint64_t n_lines_missing;
};

#endif
