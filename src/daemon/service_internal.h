/*
 * service_internal - what the parts of the daemon share.
 *
 * service.c is the life of it, service_tick.c what it does at each tick,
 * service_config.c what it is told to be; each service_*.c with a table of methods
 * answers those.
 */
#ifndef PROCTOR_DAEMON_SERVICE_INTERNAL_H
#define PROCTOR_DAEMON_SERVICE_INTERNAL_H

#include "base/loop.h"
#include "base/map.h"
#include "base/settings.h"
#include "bus/bus.h"
#include "daemon/around.h"
#include "daemon/aside.h"
#include "daemon/backlog.h"
#include "daemon/settler.h"
#include "daemon/cadence.h"
#include "daemon/daemon.h"
#include "daemon/evidence_trace.h"
#include "daemon/lasting.h"
#include "daemon/learner.h"
#include "daemon/queue.h"
#include "daemon/service.h"
#include "daemon/signal_room.h"
#include "daemon/tellers.h"
#include "daemon/unowned.h"
#include "daemon/unsaved.h"
#include "daemon/upkeep.h"
#include "daemon/watch.h"
#include "daemon/watchdog.h"
#include "detect/detect.h"
#include "jobs/jobs.h"
#include "learn/learn.h"
#include "rpc/rpc.h"
#include "sources/sources.h"
#include "store/store.h"

#define SERVICE_STAGES 16

struct stage_state {
	uint64_t n_failed;
	bool is_failing;
};

/* What the last tick cost, and all of them. */
struct tick_stats {
	uint64_t n_ticks, n_skipped;
	uint64_t n_lines_lost, n_lines_said; /* snapshots that the log of them lacks */
	uint64_t cpu_ns;		     /* of the last one */
	uint64_t lag_ns;		     /* how late the last one began */
	uint64_t disk_wait_ns;		     /* settler_check() at the last one */
	double load;			     /* share of one core, of the last ticks */
	double other_load; /* of all else that was done between them: requests, learning, GPUs */
	uint64_t cpu_before_ns, boot_before_ns; /* at the end of the last tick; 0: there was none */
	bool is_costly_otherwise;		/* said once */
	unsigned n_since_change;
	struct stage_state stages[SERVICE_STAGES];
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

#define SERVICE_MAX_OOMS 32

/* Who was killed, as the kernel told it: the record, through which kills come, has no names. */
struct killed_name {
	struct proc_key key;
	char comm[EVENT_COMM_BYTES];
};

/* Kills for want of memory, for the next look for anomalies. A runner may have told of one itself:
 * then the record knows it already. */
struct oom_news {
	struct proc_event items[SERVICE_MAX_OOMS];
	size_t n;
	struct arena arena;			    /* their strings */
	struct killed_name names[SERVICE_MAX_OOMS]; /* the last of them */
	size_t next_name;
};

#define SERVICE_MAX_EXITS 64

/* Ends of processes of which something lasts, for the next look for anomalies. */
struct exit_news {
	struct proc_event items[SERVICE_MAX_EXITS];
	size_t n;
};

/* Changes of anomalies that were told on the bus. */
struct anomaly_relay {
	struct map told;       /* which: a hash of each */
	int64_t last_id;       /* of those in the record, the last that was looked at */
	uint64_t from_wall_ns; /* of those that were there before, these too; 0: none */
	bool is_relaying;
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
	struct err why_not;
	struct loop_fd *watch;
	struct loop_timer *timer; /* until it is drained */
	struct members *members;
	struct map
		known_since; /* attempt -> from which moment on its births and deaths were told */
	struct tellers told; /* those that were told once and will be twice */
	uint64_t n_taken;    /* from the kernel */
	uint64_t n_told, n_lost;
	uint64_t n_unaccounted; /* ends of jobs that are over: see service_count_unaccounted() */
	int64_t last_event_id;	/* of those that runners write down, the last that was told */
	uint64_t relay_from_wall_ns; /* of those that were there before, these too; 0: none */
	bool is_relaying;
};

/* Signals and OOM kills of the jobs' processes. */
struct signals_state {
	struct waiting_event *items; /* to be written down */
	size_t n;
	struct signal_room room;
	struct unlisted *unlisted; /* of each attempt the last one, and how many there were */
	uint64_t n_unlisted;	   /* of all */
	struct unowned unowned;
};

/* System calls of the jobs' processes. */
struct syscalls_state {
	struct syscalls *syscalls; /* NULL: no job was watched yet, or it cannot be */
	struct loop_timer *timer;  /* NULL: none was set yet */
	bool is_refused;	   /* it cannot */
	struct job_calls *jobs;	   /* that are counted */
	struct syscalls_lost lost; /* of all jobs */
	struct job_calls *no_job;  /* is looked at in place of one that is not there: NULL */
	struct map by_attempt;	   /* the same: attempt -> its address */
	unsigned time_every;	   /* one call in so many is timed */
	uint64_t n_totals_lost;	   /* jobs whose sums could not be written down */
	size_t n_text_bytes;	   /* of what each process has called, of all jobs */
	uint64_t read_due_boot_ns; /* before this nothing is read for a runner's samples */
};

struct service {
	const struct service_options *options;
	const struct config *config; /* in force: that of the options until it is read again */
	const struct paths *paths;   /* the same; only the log moves while the daemon runs */
	struct settings *reloaded;   /* where they are then; NULL before */
	struct reload_state reload;
	uint64_t read_gid; /* of the group that may read; U64_UNKNOWN: there is none */
	struct watchdog watchdog;
	struct loop *loop;
	struct loop_timer *tick_timer;
	struct loop_timer *kills_timer; /* NULL: none was told between two ticks */
	struct loop_fd *signal_watch;
	int signal_fd;
	int root_fd;

	struct service_gpus gpus;
	struct collector *collector;
	struct collector *between; /* for looks between two ticks; NULL: there was none yet */
	struct assigner *assigner;
	struct snapshot snap; /* the last one */
	bool has_snap;
	struct system_sample host_before; /* at the tick before that */
	bool has_host_before;
	struct watch *watch;
	struct store *store;	     /* NULL: not open; tried again at each tick */
	struct settler *settler;     /* waits for the disk in its place; NULL: nobody does */
	struct err store_err;	     /* why not, the last time */
	struct err record_err;	     /* why the last tick could not be stored; code 0: it was… */
	uint64_t record_err_boot_ns; /* …since when */
	dev_t store_device;	     /* which file it is */
	ino_t store_inode;
	uint64_t store_seen_wall_ns; /* when it was last in its place; 0: it was never looked for */
	struct daemon_record record;
	struct jsonl *jsonl;
	struct bus *bus;
	struct rpc_server *server;
	bool is_unreachable;	    /* its socket is gone, and cannot be made anew: said */
	bool is_queue_gone;	    /* the same of its folder */
	struct rpc_method *methods; /* of all parts */
	size_t n_methods;
	struct pressure pressure;
	struct detect *detect;
	struct fast_look *fast; /* at a job in which something began; NULL before */
	struct evidence_trace trace;
	struct oom_news ooms;
	struct exit_news exits;
	struct queue *queue;
	uid_t queue_uid;		/* whose job was started last */
	struct loop_timer *queue_timer; /* a look at it between two ticks */
	struct upkeep *upkeep;
	struct unsaved unsaved; /* anomalies that wait to be stored */
	struct lasting lasting; /* those that are, and go on */
	struct around around;	/* when one last began */
	struct anomaly_relay anomaly_relay;
	uint64_t adopt_until_ns; /* so long those of the host are adopted, by the boot clock; 0 */
	struct backlog backlog;	 /* ticks that do */
	uint64_t n_lost_told;	 /* of those that it had no room for */
	struct learner *learner;
	struct aside *aside;		/* for calls that take long */
	struct aside *submitter;	/* for jobs that are submitted: they wait for no report */
	struct submit_task *submits;	/* that it has, or will have */
	struct learn_call *learn_calls; /* clients that wait for an analysis */
	struct life_state life;
	struct signals_state signals;
	struct syscalls_state syscalls;
	struct orphans *orphans;
	struct loop_timer *memory_timer;  /* NULL: nothing large was ever over */
	bool gives_back;		  /* when it is due */
	struct loop_timer *orphans_timer; /* while some are cancelled; NULL: none ever were */
	struct attempt_list lost;	  /* that had no end when we began */
	size_t n_lost_left;		  /* of these, to be looked at, the newest first */
	struct phase_marks *phases;	  /* that wait to be written down */
	uint64_t n_orphans_found, n_orphans_unlisted, n_reaped;
	struct attached *attached;     /* jobs that nobody runs */
	struct job_deaths *job_deaths; /* of the processes of runners */
	int64_t n_begun;	       /* runners that have said so before they were known */
	int64_t attached_here;	       /* the last that we have attached ourselves */
	struct attach_wish *wishes;    /* to attach one, until the database can be written */
	struct loop_timer *wish_timer; /* NULL: none had to wait yet */
	struct waiter *waiters;	       /* clients that wait for the end of a job */
	struct guest *guests;	       /* runners that hold the line */
	struct map guest_due_ns;       /* by uid: see service_share.c */
	struct map sheet_due_ns;       /* the same of their sheets */
	struct map life_due_ns;	       /* and of their processes */
	struct recent *recent;	       /* the last events */
	struct subscription *subscriptions;
	struct rendered *rendered;
	struct buf snapshot_json; /* the last snapshot, for those who see all of it */
	bool has_snapshot_json;	  /* and not of the one before */

	struct assign_root *roots; /* one for each job that was watched at the last tick */
	uint64_t *root_uids;	   /* whose those are */
	size_t *n_of;
	size_t cap_roots;

	uint64_t started_boot_ns;
	double interval_seconds; /* in force: more than configured while ticks cost too much */
	struct cadence cadence;	 /* when the next tick is due */
	struct tick_stats stats;
	struct rung rungs[SOURCES_MAX_RUNGS];
	char rung_reasons[SOURCES_MAX_RUNGS][512]; /* of those that were set */
	size_t n_rungs;
	struct arena arena; /* of those that a run would get */
};

/* ---- service.c ---- */

/* What daemon.status tells of this measurement from now on. The reason is copied. */
void service_set_rung(struct service *s, struct rung taken);

/* ---- service_socket.c ---- */

/* From now on it is looked after. */
int service_watch_socket(struct service *s, struct err *err);

/* ---- service_tick.c ---- */

int service_begin_ticks(struct service *s, struct err *err);

/* For store_set_alive_check(); on any thread. */
enum store_alive service_check_alive(void *ctx, const struct attempt *a);

/* From now on, whatever ticks have cost so far. */
void service_set_interval(struct service *s, double seconds);

/* A look at the processes out of turn. CPU percents are of the time since the last of these. */
void service_rescan(struct service *s);

/* Adds what a process uses to what its job does. */
void service_add_to_point(struct series_point *point, const struct proc_sample *p);

/* Which sheet those are of that have none yet: what is started for one has its number in its
 * environment, before anybody has written down that it began. */
void service_ask_sheets(struct service *s, struct watched *const *jobs);

/* Writes down what the last look has shown, also out of turn. */
void service_record_now(struct service *s);

/* A look at the database out of turn: somebody says that something has changed. */
void service_look(struct service *s);

/* ---- service_backlog.c ---- */

/* Stores ticks that wait, until the boot clock says so (U64_UNKNOWN: all). 1: more wait. */
int service_drain_backlog(struct service *s, uint64_t until_boot_ns, struct err *err);

/* All of them, at the end: with the patience that the store has by now. */
void service_store_waiting(struct service *s);

/* ---- service_forget.c ---- */

/*
 * The database is gone, and with it the attempts that the numbers are of: in another one the same
 * numbers are others' jobs. The store is closed already.
 */
void service_forget_attempts(struct service *s);

/* ---- service_gpus.c ---- */

/* Before there are threads. */
void service_open_gpus(struct service *s);
void service_close_gpus(struct service *s);

/* After a tick: a change of who answers, or of what is wrong, is logged and shown. */
void service_watch_gpus(struct service *s);

/* CPU time of the process that asks the drivers since the last call. */
uint64_t service_take_gpu_cpu_ns(struct service *s);

/* ---- service_queue.c ---- */

int service_open_queue(struct service *s, struct err *err);

/* Whether it was started, and there is no database that would tell what becomes of it. */
bool service_is_unfollowed(const struct service *s, const struct queued *job);

/* Whether the attempt is what became of it. */
bool service_is_attempt_of(const struct queued *job, const struct attempt *a);

/*
 * Whether an attempt of it is in the database: it is over if it is not watched (any more). Of one
 * that is not followed: whether its end was told, or its runner is gone.
 */
bool service_has_run(struct service *s, const struct queued *job);

/* It has not begun, and never will: that is recorded, and who waits for it is told. */
void service_cancel_queued(struct service *s, struct queued *job, const struct rpc_peer *peer);

/* Starts what may start, and clears away what is over. */
void service_run_queue(struct service *s);

/* A job has ended: the next one need not wait for the next tick. */
void service_run_queue_soon(struct service *s);

/* The daemon ends: what is over is cleared away. */
void service_leave_queue(struct service *s);

/* ---- service_learn.c ---- */

int service_begin_learning(struct service *s, struct err *err);

/* Takes over what the configuration says. */
void service_configure_learning(struct service *s);

/* ---- service_estimate.c: what a job will need ---- */

/* What names a job that is not there yet: a file's text, or a command. */
struct estimate_params {
	const char *file;
	const struct rpc_value *command;
	uint64_t sheet;	      /* 0: not given */
	uint64_t input_bytes; /* of the files that it names, as the caller says; U64_UNKNOWN */
};

/* A question that can be asked aside. */
struct estimate_task {
	char *file; /* its text; NULL: spec is there already */
	struct job_spec spec;
	struct mask
		*mask; /* of the question; a reference, as the one in force may change meanwhile */
	struct learning_question question;
	struct learning_answer answer;
};

/* -EINVAL, -ENOMEM. */
int service_estimate_task(struct service *s, const struct rpc_peer *peer,
			  const struct estimate_params *params, struct estimate_task **ret,
			  struct err *err);

/* Both take a struct estimate_task: see struct aside_answer. */
int estimate_task_work(void *ctx, struct store *store, struct err *err);
void estimate_task_free(void *ctx); /* NULL is fine */

/* What is asked about a job that is not there yet. All is borrowed. */
struct learning_question service_ask_about(const struct service *s, const struct job_spec *spec,
					   uid_t uid, uint64_t input_bytes);

/* Of one that will run as this user. */
int service_estimate_spec(struct service *s, const struct job_spec *spec, uid_t uid,
			  uint64_t input_bytes, struct learning_answer *ret, struct err *err);

/* Whether it was never asked, or long ago. */
bool service_needs_estimate(const struct queued *job);
void service_estimate_queued(struct service *s, struct queued *job);
void service_keep_estimate(struct queued *job, const struct estimate *e);

/* Of those that run and were not asked about so far: at most max of them are looked up. How many.
 */
size_t service_estimate_running(struct service *s, size_t max);

/* ---- service_aside.c: calls whose answers take long ---- */

struct aside_answer {
	/* On another thread: touches nothing but what is in ctx. */
	int (*work)(void *ctx, struct store *store, struct err *err);
	/* In the loop, if that was well: writes the result. */
	int (*write)(void *ctx, struct service *s, struct rpc_call *call, struct err *err);
	void (*release)(void *ctx);
};

/* What a method returns whose answer comes so. Takes over ctx, also where it fails. */
int service_answer_aside(struct service *s, struct rpc_call *call, const struct aside_answer *how,
			 void *ctx, struct err *err);

/* ---- service_room.c ---- */

/* Whether a job with this estimate fits beside those that run. -ENOMEM. */
int service_judge_room(struct service *s, const struct estimate *e, struct admit_answer *ret);

/* ---- service_config.c ---- */

/* The one in force; NULL: none is wanted. Who keeps it takes a reference (mask_ref()). */
const struct mask *service_mask(const struct service *s);

/* One for looks between two ticks. */
int service_make_collector(const struct service *s, struct collector **ret, struct err *err);

/* Takes over what the options say. */
int service_configure(struct service *s, struct err *err);

/* Reads the configuration again. A bad one is refused, and the old one stays. */
void service_reload(struct service *s);
void service_release_config(struct service *s);

/* ---- service_access.c: who may see what ---- */

/* Root, and the user that the daemon runs as: they may do everything. */
bool service_is_owner(const struct rpc_peer *peer);

/* Those, and the group that may read. */
bool service_reads_all(const struct service *s, const struct rpc_peer *peer);

/* A job of this user. */
bool service_may_read(const struct service *s, const struct rpc_peer *peer, uint64_t uid);
bool service_may_control(const struct rpc_peer *peer, uint64_t uid);

enum service_right { SERVICE_READ, SERVICE_CONTROL };

/*
 * The job of that name (NULL: of any) that the peer runs itself: its process is the runner, and not
 * one that has got its pid since, or the peer's pid since it connected. NULL: there is none.
 */
struct watched *service_find_own_job(struct service *s, const struct rpc_peer *peer,
				     const char *job_id);

/* Whose a process is, or what it runs: it or one of its ancestors is known. NULL: nobody's. */
struct watched *service_job_of(struct service *s, pid_t pid);

/* ---- service_admit.c: work that has not begun ---- */

/* Why the next sheet of a job waits; NULL: it does not. */
const char *service_why_held(const struct watched *job);

/* Jobs of which a sheet waits. */
size_t service_count_held(struct service *s);

/* What names a job in a call. */
struct job_params {
	const char *job_id;
	uint64_t attempt; /* 0: the last; for job.cancel all that run */
	uint64_t uid;	  /* whose; U64_UNKNOWN: see service_find_job() */
	bool only_queued; /* one that waits, and none that runs */
};

#define JOB_PARAMS_INIT           \
	{                         \
		.uid = UINT64_MAX \
	}

int service_read_job(const struct rpc_call *call, struct job_params *ret, struct err *err);

/* One that runs, or one that waits (or whose runner is just starting). */
struct found_job {
	struct watched *watched;
	struct queued *queued;
};

/*
 * False: there is none. Of jobs of one name the peer's own comes first, and then one
 * that runs; what the peer has no right to is as if it were not there.
 */
bool service_find_job(struct service *s, const struct rpc_peer *peer,
		      const struct job_params *params, enum service_right right,
		      struct found_job *ret);

/*
 * -EINVAL: several users have such a job, none of them is the peer, and the peer has the right to
 * more than one: err names them. Who means to end one does not mean any.
 */
int service_check_meant(struct service *s, const struct rpc_peer *peer,
			const struct job_params *params, enum service_right right, struct err *err);

/*
 * The same, in the database: the number of the attempt that is meant, where num 0 is
 * the peer's last, or where there is none the last of whom the peer may read.
 * -ENOENT.
 */
int service_find_attempt(struct service *s, const struct rpc_peer *peer, const char *job_id,
			 uint64_t num, int *ret_num, struct err *err);

/* Whether the database is open, or is only locked most likely: then it will be. */
bool service_may_have_store(const struct service *s);

/* -EBUSY: the database is not open. */
int service_need_store(struct service *s, struct err *err);

/* ---- methods: what it answers; each table ends with a row without a name ---- */

extern const struct rpc_method service_status_methods[]; /* the daemon itself */
extern const struct rpc_method service_config_methods[];
extern const struct rpc_method service_view_methods[];	    /* snapshots, contexts */
extern const struct rpc_method service_subscribe_methods[]; /* events, as they happen */
extern const struct rpc_method service_recent_methods[];    /* the last events */
extern const struct rpc_method service_recorded_methods[];  /* what was recorded, by pages */
extern const struct rpc_method service_job_methods[];
extern const struct rpc_method service_submit_methods[];
extern const struct rpc_method service_attach_methods[];
extern const struct rpc_method service_phase_methods[];
extern const struct rpc_method service_wait_methods[];
extern const struct rpc_method service_admit_methods[];
extern const struct rpc_method service_learn_methods[];
extern const struct rpc_method service_estimate_methods[];
extern const struct rpc_method service_hello_methods[]; /* for runners */
extern const struct rpc_method service_guest_methods[];
extern const struct rpc_method service_late_methods[];

/* From now on the last events are kept; those of processes as they are told to this. */
int service_keep_events(struct service *s, struct err *err);
void service_keep_process_event(struct service *s, const struct proc_event *ev, int attempt_num,
				uint64_t uid);

/* An event has been published: what was rendered of it is of no more use. */
void service_forget_rendered(struct service *s);

/* Before each look: what guests have told and could not be written down is tried again. */
void service_tend_guests(struct service *s);
void service_drop_guests(struct service *s);

/* Hangs up on all of them: who is still there says hello again. */
void service_hang_up_guests(struct service *s);

/* ---- service_late.c ---- */

/*
 * Whether the runner of an attempt, which is lost, may have left word of its end: beside a database
 * that could not be written, until it can be, or with somebody who tells it in a moment (that of
 * a guest, while the daemon is new).
 */
bool service_expects_word(const struct service *s, const struct attempt *a);

/* The job is over: who waits for it is told. */
void service_answer_waiters(struct service *s, const struct watched *job);

/* It was cancelled while it was queued: the same. */
void service_answer_dropped(struct service *s, const struct queued *job);

/* It is over while there is no database: as its runner told, or (it is gone) nobody can tell how.
 */
void service_answer_unrecorded(struct service *s, const struct queued *job, struct attempt *told);
void service_answer_unknown(struct service *s, const struct queued *job);

/* ---- service_life.c ---- */

/* Where the kernel does not tell of births and deaths this is no failure. */
int service_open_life(struct service *s, struct err *err);
void service_close_life(struct service *s);

/* Takes what the kernel has told: before each look, so that nothing of it is old. */
void service_drain_life(struct service *s);

/* Whose all processes are, for service_forget_attempts(); the kernel's marks are set anew. */
void service_forget_life(struct service *s);

/* ---- service_members.c ---- */

/* A job that was not known before: from now on its runner's children are its own. */
void service_expect_births(struct service *s, const struct watched *job);

/* A stage of a tick: what the look has shown. */
int service_settle_life(struct service *s, struct err *err);

/* ---- service_relay.c ---- */

/* A stage of a tick: what runners have written down. */
int service_relay_events(struct service *s, struct err *err);

/* For the next look for anomalies; kills do not wait for that. */
void service_keep_news(struct service *s, const struct proc_event *ev, int64_t attempt_id);

/* The kernel has told of this kill, with the name, which is to be in the news of it. */
void service_name_killed(struct service *s, const struct proc_event *ev);

/* They have been looked at. */
void service_forget_ooms(struct service *s);

/* ---- service_signals.c ---- */

/* A signal or an OOM kill. Of a process that is nobody's so far it is kept for some seconds. */
void service_note_signal(struct service *s, const struct life_event *ev);

/* What nobody else writes down, to be written with the signals. False: there is no room. */
bool service_keep_event(struct service *s, const struct proc_event *ev, int64_t attempt_id,
			uint64_t uid);

/* More is known of whose the processes are: also of those that something has happened to. */
void service_place_signals(struct service *s);

/* Those of an attempt that were written down: an array, for who runs it and has another record. */
void service_list_signals_of(struct service *s, const char *job_id, int64_t attempt_id,
			     struct json *j);

/* Writes down and tells what there is: a kill is not to wait for the next tick. */
void service_tell_signals(struct service *s);

/* Into the database. What cannot be written now is tried again. */
int service_record_signals(struct service *s, struct err *err);

/* The job is over. */
void service_end_signals_of(struct service *s, int64_t attempt_id);
void service_forget_signals(struct service *s); /* all that wait */
void service_close_signals(struct service *s);	/* while the store is open */

/* ---- service_syscalls.c ---- */

/* Which rung it is, or will be. */
void service_describe_calls(struct service *s);

/*
 * A job begins: what its processes call is counted from now on, where that can be. With the first
 * one that takes some tenths of a second, for which nobody is kept waiting.
 */
void service_count_calls_of(struct service *s, const struct watched *job);

/* Its runner waits for that. False: it cannot be. */
bool service_count_calls_now(struct service *s, const struct watched *job);

/* It is over: what they have called in all is to be written down, which is not done inside a look.
 */
void service_sum_calls_of(struct service *s, const struct watched *job);

/* Its runner does that, or nobody is to: what was counted so far is dropped. */
void service_leave_calls_of(struct service *s, struct watched *job);

/* Whether they are counted now. */
bool service_counts_calls_of(struct service *s, int64_t attempt_id);

/* Takes in what was counted, of all jobs. What the kernel side had no room for is noted. */
int service_read_calls(struct service *s);

/*
 * Its runner asks for them, at its end: into the open object. We cease to count, and write them
 * down as well if is_kept, that is where the runner's record is not ours.
 */
void service_tell_calls_of(struct service *s, int64_t attempt_id, bool is_kept, struct json *j);

int service_record_calls(struct service *s, struct err *err);

/* A stage of a tick: into the samples what is new. */
int service_count_calls(struct service *s, struct err *err);

/* While the store is open. */
void service_close_syscalls(struct service *s);

/* Of all jobs, unwritten; it begins anew with the next. */
void service_forget_calls(struct service *s);

/* ---- service_counts.c ---- */

/* Its runner asks for what each of its processes has called so far: into the open object. */
void service_tell_counts_of(struct service *s, int64_t attempt_id, struct json *j);

/* Whether the user of a job may hear what this process of it has called. */
bool service_may_tell_calls(const struct service *s, uint64_t uid, const struct syscall_process *p);

/* ---- service_deaths.c: what the processes of a runner had used by their ends ---- */

struct deaths;

/* From now on, until it is dropped; of a runner that may hear of them itself only what it cannot.
 */
void service_keep_deaths_of(struct service *s, const struct watched *job);
void service_drop_deaths_of(struct service *s, int64_t attempt_id);
void service_forget_deaths(struct service *s); /* of all */

/* A process has ended (member: what is known of it, or NULL), and its last word; who is of no such
 * job is passed over. */
void service_note_job_death(struct service *s, const struct member *member,
			    const struct life_event *ev);
void service_complete_job_death(struct service *s, const struct life_event *ev);

/*
 * Its runner asks: it is answered as soon as the kernel has said the last of them, or might have.
 * By the number of the attempt, or of service_find_begun(). It is not made to wait for longer than
 * patience_ms.
 */
void service_tell_deaths_of(struct service *s, int64_t id, uint64_t patience_ms,
			    struct rpc_call *call);

/* What the caller has said that it begins, where nobody has heard of its attempt; 0: nothing. */
int64_t service_find_begun(const struct service *s, const struct rpc_peer *peer);

/* Whether who is below this runner and marked so is of another run there; runner_mark is what the
 * runner itself is marked with. */
bool service_is_inside(struct service *s, uint64_t mark, const struct proc_key *runner,
		       uint64_t runner_mark);

/* Whose processes were marked so; 0: of an attempt that is not known, or no longer. */
int64_t service_attempt_of_mark(struct service *s, uint64_t mark);

/* The job of this user that runs what is marked so, as its runner said when it began; NULL. */
const char *service_begun_job(struct service *s, uint64_t mark, uint64_t uid);

/*
 * How many processes of jobs have ended without the kernel's last word on what they used.
 * U64_UNKNOWN: it has none for us. What is about to be released is counted by
 * service_leave_deaths().
 */
uint64_t service_count_unaccounted(const struct service *s);
void service_leave_deaths(struct service *s, const struct deaths *deaths);

/* Now and then: who has begun and is gone. */
void service_tend_deaths(struct service *s);

extern const struct rpc_method service_deaths_methods[];

/* The last words are asked of the kernel while somebody needs them. */
void service_want_accounts(struct service *s);

/* ---- service_memory.c ---- */

/*
 * Something large is over: in some seconds its memory goes back to the system, also what lies
 * between that of others, which malloc would keep for the next.
 */
void service_give_back_soon(struct service *s);

/* ---- service_attached.c: jobs that something else started ---- */

/* The sum over all of them. */
size_t service_count_attached(const struct service *s, size_t (*count)(const struct deaths *d));

/*
 * A process was born. If it is of such a job, that it belongs there is remembered, as its parent
 * may be gone at the next look, and its start time is set: true.
 */
bool service_keep_birth(struct service *s, struct member *born);

/* An event of such a job, to be written down with the next tick. */
void service_note_attached(struct service *s, const struct watched *job,
			   const struct proc_event *ev);

/* A job of that kind began, or was found again. */
void service_follow_attached(struct service *s, const struct watched *job);

/* Before a look is assigned: who was noted down as theirs is theirs. */
void service_recall_attached(struct service *s);

/* A stage of a tick: ends those of which nothing is left. */
int service_settle_attached(struct service *s, struct err *err);

/* What waits to be written, all of it; and it was. */
/* What the kernel tells of an end, and later of all that was used, if it is of such a job. */
void service_note_death(struct service *s, const struct member *member,
			const struct life_event *ev);
void service_complete_death(struct service *s, const struct life_event *ev);

int service_gather_events(struct service *s, struct proc_event **ret, size_t *ret_n);
void service_events_stored(struct service *s);

/* SIGTERM for all of its processes, and SIGKILL for what is left. */
int service_cancel_attached(struct service *s, struct watched *job, struct err *err);
void service_release_attached(struct service *s);

/* ---- service_anomalies.c ---- */

/* A stage of a tick. */
int service_detect(struct service *s, struct err *err);

/* On the bus and into the record. What cannot be written now waits. */
int service_tell_changes(struct service *s, const struct detect_changes *changes, struct err *err);

/* Nobody will look any more: all that lasts is over, as far as anybody knows. */
void service_end_anomalies(struct service *s);

/* ---- service_anomaly_ends.c ---- */

/* A process has ended, as somebody tells: noted if something lasts of it. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns);

/* A job is over, and all that was told of its processes is known. */
void service_end_anomalies_of(struct service *s, const struct watched *job);

/* ---- service_adopt.c ---- */

/* Before a look for anomalies. */
void service_adopt_anomalies(struct service *s);

/* There are OOM kills among the news: they are told now, and make room for others. */
void service_tell_kills(struct service *s);

/* The same when the loop has its next turn. */
void service_tell_kills_soon(struct service *s);

/* ---- service_anomaly_relay.c ---- */

/* A stage of a tick: what anybody has written down of anomalies since. */
int service_relay_anomalies(struct service *s, struct err *err);

/* As service_publish_anomaly(), unless that was told before. */
void service_tell_anomaly(struct service *s, const struct episode *e, enum episode_change change,
			  uint64_t uid);

/* Another database is in its place. */
void service_forget_anomalies(struct service *s);
void service_release_anomalies(struct service *s);

/* ---- service_around.c ---- */

/* For one that began: who has the most memory, where the tick does not know it of all processes. It
 * is read once for all that begin at a tick. */
void service_look_around(struct service *s, struct anomaly_host *host);

/* ---- service_closer.c ---- */

/*
 * For one that began: what is found out about its culprit; and its job, if there is one, is looked
 * at closer for a while. False: nothing, and nobody looks.
 */
bool service_find_evidence(struct service *s, const struct detect_change *change,
			   const struct watched *job, struct anomaly_evidence *ret);

/* Writes down a trace that has ended. At each tick; and, with its end, when we leave. */
void service_note_trace(struct service *s);
void service_end_trace(struct service *s);

void service_stop_closer(struct service *s); /* until something begins again */
void service_release_closer(struct service *s);

/* ---- service_orphans.c ---- */

/* A job is over: what lives on of it are its orphans. (watch.h keeps its id for the snapshot.) */
void service_leave_job(struct service *s, const struct watched *job);

/*
 * The database was opened: whose runners were gone by then are no jobs that could be watched, and
 * what lives on of them is looked for at the next ticks.
 */
void service_recall_lost(struct service *s);
void service_release_lost(struct service *s);

/* A stage of a tick. It waits for children of the daemon's own, too. */
int service_look_for_orphans(struct service *s, struct err *err);

/*
 * Ends what lives on of the peer's job that is meant, or where there is none of others' that the
 * peer may control: SIGTERM, and SIGKILL for what is left. -ENOENT: nothing does.
 */
int service_cancel_orphans(struct service *s, const struct rpc_peer *peer,
			   const struct job_params *params);

/* A process has died, as the kernel tells: if it was an orphan, that is noted. */
void service_note_orphan_death(struct service *s, const struct life_event *ev);

/* Keys of daemon.status. */
void service_write_orphans(struct json *j, const struct service *s);

/* ---- service_marks.c: phases that wait to be written down, many at a time ---- */

int service_open_phases(struct service *s, struct err *err);
void service_close_phases(struct service *s); /* while the store is open */

/* Those that wait were of a database that is gone: they fail. */
void service_forget_marks(struct service *s);

/* It is answered when it is written. -EBUSY: too many wait. */
int service_add_mark(struct service *s, struct rpc_call *call, const struct watched *job,
		     const struct phase_mark *mark, struct err *err);

/* Those that wait, at once: somebody is about to read the record. */
void service_write_marks(struct service *s);

/* So many never came, as their sender says. */
void service_add_lost_marks(struct service *s, const struct watched *job, uint64_t n);
uint64_t service_count_lost_marks(const struct service *s); /* of all jobs */

/* So many came from a process of no job that is known, and nobody was told. */
void service_add_unplaced_marks(struct service *s, uint64_t n);
uint64_t service_count_unplaced_marks(const struct service *s);

/* ---- service_view.c ---- */

/* The last snapshot as JSON, for those who see all of it; made once for all of them. */
const struct buf *service_snapshot_json(struct service *s);

/* What one user sees of it. -ENOMEM. */
int service_write_shown(const struct service *s, uid_t uid, struct json *j);

/* ---- service_events.c ---- */

/* Whose an event of a job of this user is: where nobody knows that, it is for who sees all. */
uid_t service_event_owner(uint64_t uid);

/* Of a job of this user, see service_event_owner(). What has failed to be written is not told. */
void service_publish(struct service *s, enum topic topic, uint64_t wall_ns, uint64_t uid,
		     const struct buf *json);

/* Something happened to a process of a job. */
void service_tell_process(struct service *s, const struct proc_event *ev, int attempt_num,
			  uint64_t uid);

/* Tells of a change of a job on the bus. For watch_new(). */
void service_tell_change(void *ctx, enum change change, const struct watched *job,
			 const struct sheet_record *sheet);
void service_tell_queued(struct service *s, const struct queued *job);

/* The pressure holds up a job of the queue, or the next sheet of one that runs. */
void service_tell_held_up(struct service *s, const struct queued *job);
void service_tell_held(struct service *s, const struct watched *job);
void service_tell_snapshot(struct service *s);
/* uid: whose job it is of; U64_UNKNOWN: of none, or nobody knows. */
void service_publish_anomaly(struct service *s, const struct episode *e, enum episode_change change,
			     uint64_t uid);

/*
 * An object: of the process, or of the host where p is NULL. The peer counts for the host's
 * alone: which jobs' anomalies it may know of.
 */
void service_write_context(struct json *j, const struct service *s, const struct rpc_peer *peer,
			   const struct proc_sample *p);

#endif
