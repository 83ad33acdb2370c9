/*
 * service_follow - what the processes of jobs do.
 *
 * Births, deaths, signals and system calls as the kernel tells of them; jobs that something else
 * started; and what lives on of those that are over.
 */
#pragma once

#include "daemon/service_internal.h"

struct job_params;

/* ---- service_life.c: what the kernel reports, in one direction ---- */

struct life_ops {
	void (*event)(struct service *s, const struct life_event *ev);
	void (*drained)(struct service *s); /* those that had come */
	membership_fn *missing; /* no look shows it any more, and its exit was not reported */
};

/* Where the kernel does not tell of births and deaths this is no failure. */
int service_open_life(struct service *s, const struct life_ops *ops, struct err *err);
void service_close_life(struct service *s);

/* Takes what the kernel has told: before each look, so that nothing of it is old. */
void service_drain_life(struct service *s);

/* The kernel sends the last usage of each process from now on. At a tick it ceases, if no job needs
 * it. */
void service_want_accounts(struct service *s);
void service_settle_accounts(struct service *s);

/* The kernel reports an account when it has done with the process, some milliseconds after its end:
 * what has not come by then is lost. */
#define ACCOUNT_COMES_NS UINT64_C(300000000)

/* ---- service_members.c ---- */

extern const struct life_ops service_life_ops;

/* A job that was not known before: from now on its runner's children are its own. */
void service_expect_births(struct service *s, const struct watched *job);

/* A stage of a tick: what the look has shown. */
int service_settle_life(struct service *s, struct err *err);

/* Whose a process is, or what it runs: it or one of its ancestors is known. NULL: nobody's. */
struct watched *service_job_of(struct service *s, pid_t pid);

typedef void descendants_fn(void *ctx, pid_t pid);

/*
 * The processes that a process has started, and those that they have. Calls fn for each, parents
 * before their children, and before it is looked which children it has: what fn marks so that its
 * children inherit it misses none. pid itself is left out. Reads below root_fd; where the kernel
 * does not list children (CONFIG_PROC_CHILDREN) there are none.
 */
void descendants_each(int root_fd, pid_t pid, descendants_fn *fn, void *ctx);

/* ---- service_signals.c ---- */

/* A signal or an OOM kill. Of a process that is nobody's so far it is kept for some seconds. */
void service_note_signal(struct service *s, const struct life_event *ev);

/* More is known of whose the processes are: also of those that something has happened to. */
void service_place_signals(struct service *s);

/* The job is over, or we are: how many are not listed is recorded. */
void service_end_signals_of(struct service *s, struct watched *job);

/* ---- service_syscalls.c ---- */

/* Loads what counts them on another thread, and sets which rung it will be. */
void service_begin_calls(struct service *s);

/*
 * A job begins: what its processes call is counted from now on, where that can be. With the first
 * one that takes some tenths of a second, for which nobody is kept waiting.
 */
void service_count_calls_of(struct service *s, struct watched *job);

/* Its runner waits for that. False: it cannot be. */
bool service_count_calls_now(struct service *s, struct watched *job);

/* It is over: what they have called in all is recorded. */
void service_sum_calls_of(struct service *s, struct watched *job);
void service_give_times_of(struct service *s, struct watched *job, struct attempt *a);

/* Its runner does that, or nobody is to: what was counted so far is dropped. */
void service_leave_calls_of(struct service *s, struct watched *job);

/*
 * Its runner asks for them: what each process that lives has called so far, for its samples, of
 * those that have called anything since it was told or of all; or at its end everything, to record
 * it, and we cease to count. Into the open object.
 */
void service_write_calls_of(struct service *s, struct watched *job, bool is_final, bool wants_all,
			    struct json *j);

/* A stage of a tick: into the samples what is new. */
int service_count_calls(struct service *s, struct err *err);

/* While logs are open. */
void service_close_syscalls(struct service *s);

/*
 * ---- service_stream.c: the kernel's facts about the processes of a runner, sent to it as they
 * come ----
 *
 * The runner records its job. To root's daemon the kernel reports more than to the runner's user:
 * what each process had used when it ended, signals with their senders, kills for want of memory. A
 * runner opens its stream before the first command starts, and before its attempt is known: until
 * then what it starts is marked with a number of its own. The stream ends with the connection.
 *
 * A message has some facts, and how many there were before it: so the runner knows how many it has
 * missed, if the connection had no room for all. A barrier is answered when the kernel has reported
 * the last of what has ended; the runner waits for it once, at its end.
 */

/* A process that has ended and whose account is still to come. */
struct awaited_account {
	struct proc_key key;
	uint64_t died_wall_ns;
};

struct stream {
	struct service *service;
	struct rpc_subscriber *line;
	int64_t mark;	     /* of what it starts, until the attempt is known */
	int64_t attempt_id;  /* 0: it is not known yet */
	uint64_t outer_mark; /* of the run that this one runs in; 0 */
	char *job_id;	     /* as its runner says; NULL */
	struct proc_key runner;
	uint64_t uid;

	/* To be sent: */
	struct proc_record *ends;
	size_t n_ends, cap_ends;
	struct proc_event *events;
	size_t n_events, cap_events;
	struct arena arena; /* their texts */
	struct signal_list signals;

	uint64_t n_facts;		 /* sent so far */
	uint64_t n_withheld;		 /* ends of others than uid, or of unknown owners */
	uint64_t n_lost_before;		 /* events of the kernel, of any process */
	struct awaited_account *awaited; /* in the order of their ends */
	size_t n_awaited, cap_awaited;
	struct barrier *barrier; /* NULL: the runner does not wait */

	uint64_t samples_every_ns; /* 0: none are wanted */
	uint64_t sampled_boot_ns;  /* of those that were sent last */
	struct feed_sender samples;
	pid_t *pids; /* of its processes, at this tick */
	size_t n_pids, cap_pids;
	struct stream *next;
};

/* By the attempt or by the mark; NULL: there is none. */
struct stream *stream_find(const struct service *s, int64_t id);

/* The stream of this runner; NULL. */
struct stream *stream_of_runner(const struct service *s, pid_t pid);

/* Whether the runner is there to record what is sent. */
bool stream_is_read(const struct stream *st);

/* A signal or a kill; the texts are copied. */
void stream_add_event(struct stream *st, const struct proc_event *ev);

/* How many processes of runners have ended before that without their account. */
uint64_t stream_count_unaccounted(const struct service *s, uint64_t before_wall_ns);

/* Makes the caller's connection its stream, if it is a runner that can hear more by it; job_id may
 * be NULL. And the members of an answer to that. */
bool service_open_stream(struct service *s, struct rpc_call *call, const char *job_id);
void service_write_stream(const struct service *s, struct json *j, bool follows);

/* The attempt of its runner is known. */
void service_bind_stream(struct service *s, const struct watched *job);

/* Hangs up on all of them: a runner that lives connects again. */
void service_forget_streams(struct service *s);

/* A process has ended (member: what is known of it, or NULL), and its account has come; those of
 * other processes are passed over. */
void service_note_job_death(struct service *s, const struct job_member *member,
			    const struct life_event *ev);
void service_complete_job_death(struct service *s, const struct life_event *ev);

/* Sends what was noted since the last time. */
void service_send_facts(struct service *s);

/* A stage of a tick: sends each runner that wants it what the look has shown of its job. */
int service_send_samples(struct service *s, struct err *err);

/* Whether who is below this runner and marked so is of another run there; runner_mark is what the
 * runner itself is marked with. */
bool service_is_inside(struct service *s, uint64_t mark, const struct proc_key *runner,
		       uint64_t runner_mark);

/* Whose processes were marked so; 0: of an attempt that is not known, or no longer. */
int64_t service_attempt_of_mark(struct service *s, uint64_t mark);

/* ---- service_attached.c: jobs that something else started ---- */

/* Events are appended many at a time: at each tick, and when there are so many. */
#define ATTACHED_PENDING 64

struct attached {
	struct service *service;
	int64_t attempt_id;
	struct attempt begin;	 /* as it began, for the log */
	struct attempt_log *log; /* NULL: it is not opened yet, or has its end */
	uint64_t uid;
	struct proc_key root;
	int pidfd; /* of the root; -1: it is gone */
	struct loop_fd *watch;
	struct loop_timer *timer;
	bool is_recalled;	     /* its log is open, and who was recorded is known */
	bool has_all_births;	     /* since it was attached */
	bool was_gone;		     /* when we came back */
	uint64_t n_lost_before;	     /* of the kernel's news */
	struct exit_status status;   /* of the root; { -1, -1 }: not known (yet) */
	uint64_t last_death_wall_ns; /* 0: none is known */
	uint64_t cancelled_boot_ns;  /* 0: it was not */
	uint64_t check_ms;	     /* until the next look, from then on */
	struct deaths deaths;
	uint64_t n_withheld; /* ends that are not among them: nobody may hear of them */
	struct proc_event pending[ATTACHED_PENDING];
	size_t n_pending;
	uint64_t n_events_lost; /* as there was no log, and no more room above */
	struct attached *next;
};

/* Makes a log for what begins with this attempt, whose strings are taken over, and follows it. */
int attached_begin(struct service *s, struct attempt *a, struct attached **ret, struct err *err);

/* A job of that kind was found: it began, or is of a daemon before us. */
void service_follow_attached(struct service *s, const struct watched *job);

/* An event of such a job, for its log. */
void service_note_attached(struct service *s, const struct watched *job,
			   const struct proc_event *ev);

/* Before a look is assigned: who was noted down as theirs is theirs. */
void service_recall_attached(struct service *s);

/* A stage of a tick: ends those of which nothing is left. */
int service_settle_attached(struct service *s, struct err *err);

/* What the kernel tells of an end, and later of all that was used, if it is of such a job. */
void service_note_death(struct service *s, const struct job_member *member,
			const struct life_event *ev);
void service_complete_death(struct service *s, const struct life_event *ev);

/*
 * Appends to the log of each what the last look has shown. The longest wait for the disk that is
 * under way, or was the last of one, is added to *ret_disk_wait_ns.
 */
int service_record_attached(struct service *s, uint64_t *ret_disk_wait_ns, struct err *err);

/* Appends a look between two ticks, at the processes of this job alone. */
void service_record_closer(struct service *s, const struct watched *job,
			   const struct snapshot *snap, const struct series_point *point);

/* SIGTERM for all of its processes, and SIGKILL for what is left. */
int service_cancel_attached(struct service *s, struct watched *job, struct err *err);
void service_release_attached(struct service *s);

/* ---- service_host_log.c: into the log of an attached tree, or else into the daemon's own ---- */

/* NULL: no such attempt is followed. And appends its events that wait. */
struct attached *attached_find(const struct service *s, int64_t attempt_id);
void attached_flush(struct attached *at);

/* At each tick: makes it, and begins to wait for the disk. Returns how long that takes. */
uint64_t service_tend_host_log(struct service *s);
void service_close_host_log(struct service *s); /* the daemon stops */

/* A record about this attempt (0: the host). False: it has no log, and the record is lost. */
bool service_log(struct service *s, int64_t attempt_id, enum record_type type,
		 const struct buf *record);

/* change: an enum episode_change, or RECORD_RENEWED. */
void service_log_anomaly(struct service *s, const struct episode *e, int change);
void service_log_event(struct service *s, int64_t attempt_id, const struct proc_event *ev);

/* ---- service_orphans.c ---- */

/* The runner has recorded that this process outlives its job. */
void service_follow_orphan(struct service *s, const struct watched *job,
			   const struct proc_event *ev);

/* A job is over: what lives on of it are its orphans. (watch.h keeps its id for the snapshot.) */
void service_leave_job(struct service *s, const struct watched *job);

/*
 * A stage of a tick. When a database was opened, what lives on of those jobs is looked for whose
 * runners were gone by then. It waits for children of the daemon's own, too.
 */
int service_look_for_orphans(struct service *s, struct err *err);

/*
 * Ends what lives on of the peer's job that is meant, or where there is none of others' that the
 * peer may control: SIGTERM, and SIGKILL for what is left. -ENOENT: nothing does.
 */
int service_cancel_orphans(struct service *s, const struct rpc_peer *peer,
			   const struct job_params *params);

/* A process has died, as the kernel tells: if it was an orphan, that is noted. */
void service_note_orphan_death(struct service *s, const struct life_event *ev);
