/*
 * methods - what the daemon answers and publishes, to whom, and work that has not begun.
 *
 * Who may see what; the tables of methods; snapshots, events and phases. The queue and what lets a
 * job of it start, questions that are answered aside, and who waits.
 */
#pragma once

#include "daemon/service_internal.h"
#include "query/query.h"

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

/* ---- methods: what it answers (the table is in service.c) ---- */

rpc_method_fn method_daemon_config, method_daemon_events, method_daemon_status, method_daemon_stop,
	method_daemon_top, method_daemon_top_stream, method_admit, method_estimate,
	method_correlate, method_events_subscribe, method_resource_context, method_job_anomalies,
	method_job_attach, method_job_attempts, method_job_cancel, method_job_events,
	method_job_list, method_job_outcome, method_job_report, method_job_samples,
	method_job_series, method_job_submit, method_job_wait, method_learn_patterns,
	method_mark_phase, method_runner_barrier, method_runner_calls, method_runner_changed,
	method_runner_frames, method_runner_hello, method_runner_samples, method_runner_stream,
	method_web_link;

/* After each look. */
void service_tend_guests(struct service *s);
void service_drop_guests(struct service *s);

/* ---- service_view.c ---- */

/* The last snapshot as JSON, for those who see all of it; made once for all of them. */
const struct buf *service_snapshot_json(struct service *s);

/* What one user sees of it. -ENOMEM. */
int service_write_shown(const struct service *s, uid_t uid, struct json *j);

/* An object: what the job, or this sheet of it, uses at the moment. */
void service_write_change_context(struct json *j, const struct service *s,
				  const struct watched *job, const struct sheet_record *sheet);

/*
 * An object: of the process, or of the host where p is NULL. The peer counts for the host's
 * alone: which jobs' anomalies it may know of.
 */
void service_write_context(struct json *j, const struct service *s, const struct rpc_peer *peer,
			   const struct proc_sample *p);

/* ---- service_events.c ---- */

/* The last events are kept, of everything that happens; a snapshot is none of that. */
#define RECENT_EVENTS 4096
#define RECENT_BYTES (4 << 20)

/* Of a job of this user; U64_UNKNOWN: nobody knows whose it is, and it is for who sees all. What
 * has failed to be written is not published. */
void service_publish(struct service *s, enum topic topic, uint64_t wall_ns, uint64_t uid,
		     const struct buf *json);

/* Something happened to a process of a job. */
void service_tell_process(struct service *s, const struct proc_event *ev, int attempt_num,
			  uint64_t uid);

/* Tells of a change of a job on the bus. */
void service_tell_change(struct service *s, enum change change, const struct watched *job,
			 const struct sheet_record *sheet);
void service_tell_queued(struct service *s, const struct queued *job);

/* The pressure holds up a job of the queue (attempt_num -1), or the next sheet of one that runs. */
void service_tell_held(struct service *s, const char *job_id, int attempt_num, uint64_t uid,
		       const char *why);
void service_tell_snapshot(struct service *s);
/* uid: whose job it is of; U64_UNKNOWN: of none, or nobody knows. */
void service_publish_anomaly(struct service *s, const struct episode *e, enum episode_change change,
			     uint64_t uid);

/* ---- service_guest.c: runners whose logs are in another folder ---- */

/* Whether this user may have one more job that others record or start. -EBUSY: not now. -ENOMEM. */
int guest_check_share(struct service *s, const struct rpc_peer *peer, struct err *err);

/*
 * Whether the end of an attempt, which is lost, may still come: that of a guest, while the daemon
 * is new, from a courier.
 */
bool service_expects_word(void *service, const struct attempt *a);

/* ---- service_queue.c ---- */

int service_open_queue(struct service *s, struct err *err);

/* The attempt is over: if it came from the queue, its file goes. */
void service_end_queued(struct service *s, const struct watched *job);

/* It has not begun, and never will: that is recorded, and who waits for it is told. */
void service_cancel_queued(struct service *s, struct queued *job, const struct rpc_peer *peer);

/* Starts what may start, and clears away what is over. */
void service_run_queue(struct service *s);

/* A job has ended: the next one need not wait for the next tick. */
void service_run_queue_soon(struct service *s);

/* ---- service_estimate.c: what a job will need, and whether it fits ---- */

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
	struct mask *mask; /* of the question; a reference, as another may be in force meanwhile */
	struct learning_question question;
	struct learning_answer answer;
};

/* -EINVAL, -ENOMEM. */
int service_estimate_task(struct service *s, const struct rpc_peer *peer,
			  const struct estimate_params *params, struct estimate_task **ret,
			  struct err *err);

/* On any thread; errors name the file so. */
int estimate_task_parse(struct estimate_task *task, const char *name, struct err *err);
void estimate_task_free(struct estimate_task *task); /* NULL is fine */

void service_estimate_queued(struct service *s, struct queued *job);
void service_keep_estimate(struct queued *job, const struct estimate *e);

/* Of those that run and were not asked about so far: at most max of them are looked up. How many.
 */
size_t service_estimate_running(struct service *s, size_t max);

/* Whether a job with this estimate fits beside those that run. -ENOMEM. */
int service_judge_room(struct service *s, const struct estimate *e, struct admit_answer *ret);

/* Why the next sheet of a job waits; NULL: it does not. */
const char *service_why_held(const struct watched *job);

/* Jobs of which a sheet waits. */
size_t service_count_held(struct service *s);

/* ---- aside.c: calls whose answers take long ---- */

struct aside_answer {
	/* On another thread: touches nothing but what is in ctx. Writes the result, one JSON value.
	 */
	int (*work)(void *ctx, struct store *store, struct buf *ret_json, struct err *err);
	/* In the loop, if that was well: writes the result instead; NULL. */
	int (*write)(void *ctx, struct service *s, struct rpc_call *call, struct err *err);
	void (*release)(void *ctx);
};

/* What a method returns whose answer comes so. Takes over ctx, also where it fails. */
int service_answer_aside(struct service *s, struct rpc_call *call, const struct aside_answer *how,
			 void *ctx, struct err *err);

/* ---- service_access.c: which job is meant ---- */

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

/* Whether the attempt of a queued job runs. */
bool service_has_begun(struct service *s, const struct queued *job);

/* ---- service_wait.c ---- */

int service_begin_learning(struct service *s, struct err *err);

/* The job is over: who waits for it is told. */
void service_answer_waiters(struct service *s, const struct watched *job);

/* It was cancelled while it was queued: the same. */
void service_answer_dropped(struct service *s, const struct queued *job);
