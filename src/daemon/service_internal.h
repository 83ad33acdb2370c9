/*
 * service_internal - what the parts of the daemon share.
 *
 * service.c is its life, service_tick.c what it does at each tick, service_config.c its settings.
 * The other parts have folders of their own: follow/ (processes of jobs), anomaly/, queue/ (jobs
 * that have not begun) and methods/ (what is answered and published, and to whom).
 */
#pragma once

#include <pthread.h>

#include "base/loop.h"
#include "base/map.h"
#include "base/config.h"
#include "bus/bus.h"
#include "recorder/recorder.h"
#include "daemon/aside.h"
#include "daemon/daemon.h"
#include "daemon/signal_list.h"
#include "daemon/learner.h"
#include "daemon/queue/queue.h"
#include "daemon/watch.h"
#include "daemon/notify.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "learn/learn.h"
#include "rpc/rpc.h"
#include "sources/sources.h"
#include "store/store.h"
#include "web/web.h"

#define SERVICE_STAGES 16

/* What the last tick cost, and all of them. */
struct tick_stats {
	uint64_t n_ticks, n_skipped;
	uint64_t n_lines_lost, n_lines_said; /* snapshots that the log of them lacks */
	uint64_t cpu_ns;		     /* of the last one */
	uint64_t lag_ns;		     /* how late the last one began */
	uint64_t disk_wait_ns;		     /* the longest that is under way, or was the last */
	uint64_t log_wait_ns;		     /* for the slowest log of an attached tree, then */
	double load;			     /* share of one core, of the last ticks */
	double other_load; /* of all else that was done between them: requests, learning, GPUs */
	uint64_t cpu_before_ns, boot_before_ns; /* at the end of the last tick; 0: there was none */
	bool is_costly_otherwise;		/* said once */
	unsigned n_since_change;
	bool is_failing[SERVICE_STAGES]; /* each stage of a tick */
};

/* Who reads GPUs, and what was said of it last. */
struct service_gpus {
	struct gpus *reader; /* NULL: there are none, or nobody wants to know */
	struct loop_fd *watch;
	uint64_t cpu_ns;	 /* of its process, counted in so far */
	uint64_t logged_boot_ns; /* since then so many lines: */
	unsigned n_logged;
	uint64_t looked_boot_ns; /* while there are none: when it was looked for some */
	char rung[64], note[512];
};

#define SERVICE_MAX_KILLS 32
#define SERVICE_MAX_EXITS 64

/* Another thread waits for the disk (store_sweep()). */
struct sweep {
	bool is_under_way;
	uint64_t began_boot_ns, last_ns; /* when, and how long the last one took */
	uint64_t followed_wall_ns;	 /* what logs had by then was read */
	struct store_swept swept;	 /* by it; not to be looked at while it is under way */
};

/* When the configuration was read, and what came of the last wish to read it again. */
struct reload_state {
	uint64_t loaded_wall_ns;
	uint64_t refused_wall_ns; /* 0: none was refused since then */
	struct err why;		  /* it was */
};

/* Births and deaths of the jobs' processes. */
struct life_state {
	struct life *life; /* NULL: the kernel does not tell us */
	const struct life_ops *ops;
	struct loop_fd *watch;
	struct loop_timer *timer; /* until it is drained */
	uint64_t n_taken;	  /* from the kernel */
	uint64_t n_told, n_lost;
	uint64_t n_unaccounted; /* ends of jobs that are over without the kernel's last word on what
				 * they used */
};

/* Signals and OOM kills of the jobs' processes. */
struct signals_state {
	uint64_t n_unlisted; /* of all jobs */
	bool has_new_owners; /* more is known of whose the processes are */
	struct unowned unowned;
};

/* System calls of the jobs' processes. */
struct syscalls_state {
	struct syscalls *syscalls; /* NULL: not loaded yet, or it cannot be */
	bool is_begun, is_taken;   /* its loading; what came of that */
	pthread_mutex_t loading;   /* of the three below, until is_taken */
	struct syscalls *loaded;
	struct err err;		   /* why not */
	bool is_loaded;		   /* or cannot be */
	size_t n_jobs;		   /* that are counted */
	struct syscalls_lost lost; /* of all jobs */
	unsigned time_every;	   /* one call in so many is timed */
	uint64_t n_totals_lost;	   /* jobs whose sums could not be written down */
	size_t n_text_bytes;	   /* of what each process has called, of all jobs */
	uint64_t read_due_boot_ns; /* before this nothing is read for a runner's samples */
};

/* Guests (methods/service_guest.c). */
struct guests {
	struct guest *first;
	struct map due_ns;	    /* by uid: the share of each */
	int copies_fd;		    /* the folder of logs, for copies of theirs; -1 */
	struct loop_timer *timer;   /* what they have sent is looked at; NULL: nothing was */
	bool is_look_planned;	    /* by it */
	uint64_t next_look_boot_ns; /* not before this */
};

/* Marks of phases (methods/service_phase.c). */
struct service_phases {
	uint64_t n_lost;     /* that never came, as their senders say, of all attempts */
	uint64_t n_unplaced; /* from a process of no job that is known, of which nobody was told */
	uint64_t retry_boot_ns; /* marks are logged until then; 0: they are stored */
};

/* The database, beside its handle. */
struct service_database {
	const char *path;	     /* of the options: a daemon keeps it */
	struct err err;		     /* why not, the last time */
	struct err record_err;	     /* why the last tick could not be stored; code 0: it was… */
	uint64_t record_err_boot_ns; /* …since when */
	struct sweep sweep;
	struct err ingest_err; /* why logs could not be stored at the last look; code 0 */
	dev_t device;	       /* which file it is */
	ino_t inode;
	unsigned n_opened;	   /* how often one was */
	uint64_t ingested_boot_ns; /* when what logs have was last stored; 0: never */
	bool is_ingest_due;	   /* before its time */
};

/* The log of the daemon itself. */
struct service_own_log {
	struct attempt_log *log; /* its own; NULL: it could not be made yet */
	bool is_missing_logged;
};

/* Anomalies that begin, last and end. */
struct service_watching {
	struct fast_look *fast; /* at a job in which something began; NULL before */
	struct evidence_trace trace;
	int64_t traced_attempt; /* whose the episode is that is traced; 0: the host's */
	/* Since the last look for anomalies: OOM kills, and ends of processes of which something
	 * lasts. */
	struct proc_event kills[SERVICE_MAX_KILLS], exits[SERVICE_MAX_EXITS];
	size_t n_kills, n_exits;
	struct arena kill_texts;
	struct loop_timer *kills_timer; /* NULL: none was told between two ticks */
	uint64_t renewed_boot_ns;	/* when what lasts was last recorded as it is */
	struct around around;		/* when one last began */
	uint64_t adopt_until_ns; /* so long those of the host are adopted, by the boot clock; 0 */
};

/* Jobs that are submitted, and that wait. */
struct service_starting {
	uid_t queue_uid;		/* whose job was started last */
	struct loop_timer *queue_timer; /* a look at it between two ticks */
	struct rlimit files;		/* for runners: as we found it */
	bool is_queue_gone;		/* the same of its folder */
	struct aside *submitter;	/* for jobs that are submitted: they wait for no report */
	struct submit_task *submits;	/* that it has, or will have */
};

/* Processes that outlive their jobs. */
struct service_leftovers {
	struct orphans *orphans;
	struct loop_timer *timer; /* while some are cancelled; NULL: none ever were */
	struct attempt_list lost; /* that had no end when we began */
	size_t n_lost_left;	  /* of these, to be looked at, the newest first */
	unsigned n_recalled;	  /* of database.n_opened: what that one has was looked for */
	uint64_t n_found;
	uint64_t n_unlisted;
	uint64_t n_reaped;
};

/* Clients that wait or follow. */
struct service_clients {
	struct waiter *waiters; /* that wait for the end of a job, or for an analysis */
	struct recent *recent;	/* the last events */
	struct subscription *subscriptions;
	struct buf snapshot_json; /* the last snapshot, for those who see all of it */
	bool has_snapshot_json;	  /* and not of the one before */
};

/* What each measurement takes. */
struct service_rungs {
	struct rung rungs[SOURCES_MAX_RUNGS];
	char reasons[SOURCES_MAX_RUNGS][512]; /* of those that were set */
	size_t n;
	struct arena arena; /* of those that a run would get */
};

/* The configuration, as it was read last. */
struct service_settings {
	const struct service_options *options;
	const struct config *config; /* in force: that of the options until it is read again */
	const struct paths *paths;   /* the same; only the log moves while the daemon runs */
	struct settings *reloaded;   /* where they are then; NULL before */
	const struct mask *mask;     /* in force; NULL: none is wanted. Who keeps it takes a
				      * reference (mask_ref()) */
	struct reload_state reload;
	uint64_t read_gid; /* of the group that may read; U64_UNKNOWN: there is none */
};

/* Looks at the host. */
struct service_scan {
	struct collector *collector;
	struct collector *between; /* for looks between two ticks; NULL: there was none yet */
	struct membership *membership;
	struct snapshot snap; /* the last one */
	bool has_snap;
	struct system_sample host_before; /* at the tick before that */
	bool has_host_before;
};

/* Streams of facts to runners. */
struct service_streams {
	struct stream *first; /* of runners (service_stream.h) */
	int64_t n_opened;     /* that were ever opened */
};

/* When the next tick is due. */
struct service_ticking {
	struct loop_timer *timer;
	struct cadence cadence; /* when the next tick is due */
	uint64_t started_boot_ns;
};

struct service {
	struct watchdog watchdog;
	struct loop *loop;
	int root_fd;
	struct service_gpus gpus;
	struct watch *watch;
	struct store *store; /* NULL: not open; tried again at each tick */
	struct daemon_record record;
	struct jsonl *jsonl;
	struct rpc_server *server;
	struct web *web;    /* NULL: there is no page, and… */
	struct err web_err; /* …why, if one was wanted */
	struct pressure pressure;
	struct detect *detect;
	struct queue *queue;
	struct upkeep *upkeep;
	struct learner *learner;
	struct aside *aside; /* for calls that take long */
	struct life_state life;
	struct signals_state signals;
	struct syscalls_state syscalls;
	struct service_phases phases;
	struct attached *attached; /* jobs that nobody runs */
	uint64_t n_records_lost;   /* of those that are over */
	struct guests guests;	   /* runners that send us their logs */
	double interval_seconds;   /* in force: more than configured while ticks cost too much */
	struct tick_stats stats;
	struct service_database database;
	struct service_own_log own;
	struct service_watching anomaly;
	struct service_starting starting;
	struct service_leftovers leftovers;
	struct service_clients clients;
	struct service_rungs ladder;
	struct service_settings settings;
	uint64_t trim_boot_ns; /* when freed memory goes back to the system; 0: nothing is due */
	struct service_scan scan;
	struct service_streams facts;
	bool is_unreachable; /* its socket is gone, and cannot be made anew: said */
	int signals_fd;	     /* signals to the daemon */
	struct service_ticking ticking;
};

/* ---- service_tick.c ---- */

int service_begin_ticks(struct service *s, struct err *err);

/* From now on, whatever ticks have cost so far. */
void service_set_interval(struct service *s, double seconds);

/* ---- service_scan.c: stages of a tick ---- */

int service_collect(struct service *s, struct err *err); /* what the processes of the host do */
int service_assign(struct service *s, struct err *err);	 /* whose they are */
int service_judge(struct service *s, struct err *err);	 /* how the host and the daemon are */

/* The same out of turn. CPU percents are of the time since the last of these. */
void service_rescan(struct service *s);

/* Adds what a process uses to what its job does. */
void service_add_to_point(struct series_point *point, const struct proc_sample *p);

/* How the tracker of processes knows a job. */
struct membership_job service_membership_of(const struct watched *job);

/* ---- service_store.c ---- */

/* Reads what recorders have logged: one of them says that something has changed. */
void service_look(struct service *s);

/* A stage of a tick: what logs have becomes rows of the database. */
int service_ingest_if_due(struct service *s, struct err *err);

/* The same at once. */
void service_take_in(struct service *s);

/* For who is about to read the database: it is open, and has what logs have by now, if another
 * process does not hold it. -EBUSY: it is not open. */
int service_need_store(struct service *s, struct err *err);

/* Whether the database is open, or is only locked most likely: then it will be. */
bool service_may_have_store(const struct service *s);

/* A stage of a tick: another thread waits for the disk and removes logs that are stored. */
int service_settle_disk(struct service *s, struct err *err);

/* The number that the daemon has for the attempt of this row of the database; 0: it has no log. */
int64_t service_attempt_of_row(struct service *s, int64_t row);

/* For store_set_alive_check(); on any thread. */
enum store_alive service_check_alive(void *ctx, const struct attempt *a);

/* ---- service_gpus.c ---- */

/* What daemon.status tells of this measurement from now on. The reason is copied. */
void service_set_rung(struct service *s, struct rung taken);

/* Before there are threads. */
void service_open_gpus(struct service *s);
void service_close_gpus(struct service *s);

/* After a tick: a change of who answers, or of what is wrong, is logged and shown. */
void service_watch_gpus(struct service *s);

/* CPU time of the process that asks the drivers since the last call. */
uint64_t service_take_gpu_cpu_ns(struct service *s);

/* ---- service_config.c ---- */

/* Takes over what the options say. */
int service_configure(struct service *s, struct err *err);

/* Reads the configuration again. A bad one is refused, and the old one stays. True: it has another
 * interval. */
bool service_reload(struct service *s);
void service_release_config(struct service *s);
