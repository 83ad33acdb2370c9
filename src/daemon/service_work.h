/*
 * service_work - work that has not begun, and answers that take long.
 *
 * The queue and what lets a job of it start, questions that are answered aside, and who waits.
 */
#pragma once

#include "daemon/methods/methods.h"
#include "query/query.h"

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

/* ---- service_learn.c ---- */

int service_begin_learning(struct service *s, struct err *err);

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

/* ---- service_guest.c ---- */

/*
 * Whether the end of an attempt, which is lost, may still come: that of a guest, while the daemon
 * is new, from a courier.
 */
bool service_expects_word(const struct service *s, const struct attempt *a);

/* The job is over: who waits for it is told. */
void service_answer_waiters(struct service *s, const struct watched *job);

/* It was cancelled while it was queued: the same. */
void service_answer_dropped(struct service *s, const struct queued *job);
