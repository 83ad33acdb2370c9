/*
 * proctor.h - talks to the proctor daemon of this host.
 *
 *	struct proctor *p = proctor_new();
 *	char *json = NULL;
 *
 *	if (proctor_open(p, NULL) < 0 || proctor_report(p, "nightly", 0, &json) < 0)
 *		fprintf(stderr, "%s\n", proctor_error(p));
 *	else
 *		puts(json);
 *	proctor_free_text(json);
 *	proctor_free(p);
 *
 * cc program.c $(pkg-config --cflags --libs libproctor)
 *
 * JSON goes in and comes out as text: UTF-8, one line, NUL-terminated. What the
 * fields mean is in proctor's documentation; new ones may be added to any answer.
 * A number that could not be measured is null, never 0.
 *
 * Errors. A function that returns int returns 0 (or a count), or a negative errno,
 * and then proctor_error() is one sentence about it. Where the daemon said no:
 * -ENOSYS it has no such method, -EINVAL the params are wrong, -ENOENT there is no
 * such job or process, -EACCES this user may not, -EBUSY not now, -EEXIST it is
 * there already, -EMSGSIZE too large, -ESHUTDOWN it is ending, -EIO it failed
 * inside. Where nothing was said: -ETIMEDOUT no answer in time, -ECONNRESET the
 * daemon is gone, -ENOTCONN not open (any more), -EBADMSG what came is no answer.
 *
 * Time. No function waits longer than the time it is given, or than that of
 * proctor_set_timeout(); to read the JSON of a large answer comes on top.
 *
 * Threads. A struct proctor is for one thread at a time. Two of them share nothing:
 * a thread that listens and one that asks have one each. The environment is read in
 * proctor_open() and for phases, as getenv() does.
 *
 * Fork. A child leaves its parent's connection alone: what would use it returns
 * -EBADFD there. proctor_open() and proctor_free() close the child's copy only. The
 * socket is closed by exec.
 *
 * Signals. None are sent, handled or blocked (no SIGPIPE). A handler that runs
 * meanwhile does not end a wait: who wants that waits a while at a time, or polls
 * proctor_fd().
 */
#ifndef PROCTOR_PROCTOR_H
#define PROCTOR_PROCTOR_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a connection ---- */

struct proctor;

/* Of the library: "0.1.0". The daemon's is in proctor_status(). */
const char *proctor_version(void);

/* Not yet connected. NULL: no memory; all functions bear that, and return -EINVAL. */
struct proctor *proctor_new(void);

/* Closes it. NULL is fine. Returns NULL. Not inside a proctor_event_fn. */
struct proctor *proctor_free(struct proctor *p);

/* For proctor_open() and for calls; 10,000 at first. Below 0: for ever. */
void proctor_set_timeout(struct proctor *p, int timeout_ms);

/*
 * Connects. path is that of a socket; NULL: the first daemon of PROCTOR_HOME's, the
 * user's (XDG_RUNTIME_DIR) and the system's (/run/proctor). Again: anew, and without
 * the subscription. -ENOENT: no daemon runs. -EPERM: whoever listens is neither
 * root nor this user.
 */
int proctor_open(struct proctor *p, const char *path);

/* About the last function that failed, "" if the last one did not. May quote the daemon. */
const char *proctor_error(const struct proctor *p);

/* What the daemon said: its JSON-RPC code (-32601…) or 0, and its data as JSON or NULL. */
long long proctor_error_code(const struct proctor *p);
const char *proctor_error_data(struct proctor *p);

/* ---- asking ---- */

/*
 * Calls a method. params is a JSON object or list on one line; NULL: none. *ret_json
 * is the result, to be freed with proctor_free_text(), or NULL if this fails;
 * ret_json may be NULL. After -ETIMEDOUT the connection can still be used.
 */
int proctor_call(struct proctor *p, const char *method, const char *params, char **ret_json);

/* NULL is fine. */
void proctor_free_text(char *text);

/* The same for methods by name. ret_json is that of proctor_call(). */

int proctor_status(struct proctor *p, char **ret_json);
int proctor_top(struct proctor *p, char **ret_json);  /* the latest snapshot */
int proctor_jobs(struct proctor *p, char **ret_json); /* that run or wait for their turn */

/* The last events, oldest first; of one job, or (NULL) of all. limit 0: as many as is usual. */
int proctor_events(struct proctor *p, const char *job_id, int limit, char **ret_json);

/* Of its latest attempt where attempt is 0. */
int proctor_report(struct proctor *p, const char *job_id, int attempt, char **ret_json);

/* What a process of a job uses now; pid 0: the host. */
int proctor_context(struct proctor *p, pid_t pid, char **ret_json);

/* Whether a scheduler should start something now. params as in proctor_call(). */
int proctor_admit(struct proctor *p, const char *params, char **ret_json);

/* What a command (NULL after its last word) or the text of a job file is expected to need. */
int proctor_estimate(struct proctor *p, const char *const *argv, char **ret_json);
int proctor_estimate_file(struct proctor *p, const char *job_file, char **ret_json);

/*
 * Hands in a job: the text of a job file, to be run in the current folder. job_id
 * NULL: the file's, or one that is made up; the answer has it.
 */
int proctor_submit(struct proctor *p, const char *job_file, const char *job_id, char **ret_json);

/* Its processes get SIGTERM, then SIGKILL. Returns when that has begun. */
int proctor_cancel(struct proctor *p, const char *job_id, char **ret_json);

/* Waits until a job is over, for timeout_ms and not for that of proctor_set_timeout(). */
int proctor_wait(struct proctor *p, const char *job_id, int timeout_ms, char **ret_json);

/*
 * Marks that this process begins or ends a phase of its job's work. Where it is not
 * open, as proctor_open() found no daemon, the job's runner is told instead: it says nothing
 * of what comes of it. -ENOTCONN: there is none either.
 */
int proctor_phase_enter(struct proctor *p, const char *name);
int proctor_phase_exit(struct proctor *p, const char *name);

/* ---- events ---- */

/* All of it is the library's, and valid during the callback. Fields may be added at the end. */
struct proctor_event {
	const char *topic;	   /* "job.completed", or "lost" */
	double timestamp;	   /* unix seconds; NaN: not told */
	const char *data;	   /* JSON */
	unsigned long long n_lost; /* "lost": so many events were, for this client was too slow */
};

/*
 * Called inside proctor_listen() only. It may call all functions but proctor_free()
 * with the same struct proctor: events that come meanwhile are kept. Non-zero ends
 * proctor_listen() early.
 */
typedef int proctor_event_fn(void *ctx, const struct proctor_event *event);

/*
 * From now on events come, until the connection ends. topics are patterns with commas
 * between them: "job.*,sheet.failed"; "*" is everything. ctx is borrowed. -EALREADY:
 * a connection has one subscription. After -ETIMEDOUT open it anew.
 */
int proctor_subscribe(struct proctor *p, const char *topics, proctor_event_fn *fn, void *ctx);

/*
 * Waits until there is an event, and hands over all that are there. timeout_ms
 * below 0: for ever. Returns how many were handed over; 0: none came in time.
 */
int proctor_listen(struct proctor *p, int timeout_ms);

/*
 * To poll for reading. Events may have been read along with an answer or with
 * another event: before you poll, proctor_listen(p, 0) until it returns 0.
 */
int proctor_fd(const struct proctor *p);

#ifdef __cplusplus
}
#endif

#endif
