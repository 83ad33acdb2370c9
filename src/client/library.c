/*
 * library - libproctor: the daemon's socket for programs that are not proctor.
 *
 * <proctor/proctor.h> is its manual. First the connection and its events, then
 * the calls by name. No other name is visible outside than those in libproctor.map.
 */
#include <errno.h>
#include <fcntl.h>
#include <proctor/proctor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "rpc/rpc.h"

/*
 * Events that were read and are not yet handed over: they come in while an answer is awaited. Only
 * the newest are kept; the number of lost ones is reported before the next one.
 */
#define EVENT_QUEUE_MAX 4096
#define EVENT_QUEUE_MAX_BYTES ((size_t)64 << 20) /* the newest is kept however large it is */

struct queued_event {
	struct queued_event *next;
	double timestamp; /* unix seconds, or NaN */
	uint64_t n_lost;  /* of a notice that events were lost, else 0 */
	size_t bytes;	  /* of all of it */
	const char *data; /* JSON, behind the topic */
	char topic[];
};

struct event_queue {
	struct queued_event *first, *last;
	size_t n, bytes;
	uint64_t n_lost_unreported;
};

struct proctor {
	struct rpc_client *rpc; /* NULL: not open */
	pid_t opened_by;	/* a forked child has the same socket, and must not use it */
	int timeout_ms;		/* below 0: for ever */
	struct err err;		/* of the last function */
	bool was_answered;	/* err is what the daemon said */
	struct buf error_data;	/* for proctor_error_data() */
	proctor_event_fn *fn;	/* NULL: nothing is subscribed */
	void *ctx;
	struct event_queue events;
};

/* ---- events that wait ---- */

/* To be freed. NULL: no memory. */
static struct queued_event *event_new(const char *topic, const char *data, double timestamp,
				      uint64_t n_lost)
{
	size_t n_topic = strlen(topic) + 1, n_data = strlen(data) + 1;
	size_t bytes = sizeof(struct queued_event) + n_topic + n_data;
	struct queued_event *event = malloc(bytes);

	if (!event)
		return NULL;
	*event = (struct queued_event){ .timestamp = timestamp, .n_lost = n_lost, .bytes = bytes };
	event->data = memcpy(event->topic + n_topic, data, n_data);
	memcpy(event->topic, topic, n_topic);
	return event;
}

static struct queued_event *notice_new(uint64_t n_lost)
{
	char data[48];

	snprintf(data, sizeof(data), "{\"count\":%llu}", (unsigned long long)n_lost);
	return event_new("lost", data, F64_UNKNOWN, n_lost);
}

/* The queue has one. */
static struct queued_event *take_first(struct event_queue *q)
{
	struct queued_event *event = q->first;

	q->first = event->next;
	if (!q->first)
		q->last = NULL;
	q->n--;
	q->bytes -= event->bytes;
	return event;
}

/* A notice stands for those it tells of. */
static void drop_first(struct event_queue *q)
{
	CLEANUP(free_ptr) struct queued_event *event = take_first(q);

	q->n_lost_unreported += event->n_lost ? event->n_lost : 1;
}

/* Forgets all of it. */
static void event_queue_release(struct event_queue *q)
{
	while (q->first)
		drop_first(q);
	*q = (struct event_queue){ 0 };
}

/* Takes over the event. Where there was no memory for it (NULL), it or those it tells of are lost.
 */
static void event_queue_push(struct event_queue *q, struct queued_event *event, uint64_t n_lost)
{
	if (!event) {
		q->n_lost_unreported += n_lost ? n_lost : 1;
		return;
	}
	*(q->last ? &q->last->next : &q->first) = event;
	q->last = event;
	q->n++;
	q->bytes += event->bytes;
	while (q->n > EVENT_QUEUE_MAX || (q->n > 1 && q->bytes > EVENT_QUEUE_MAX_BYTES))
		drop_first(q);
}

/* The oldest, or a notice of how many were lost before it, to be freed. NULL: there is none. */
static struct queued_event *event_queue_pop(struct event_queue *q)
{
	struct queued_event *notice =
		q->n_lost_unreported ? notice_new(q->n_lost_unreported) : NULL;

	if (notice) {
		q->n_lost_unreported = 0;
		return notice;
	}
	return q->first ? take_first(q) : NULL; /* without memory the notice comes the next time */
}

/* ---- events come in ---- */

/* The handler of the rpc_client for events: they go into the queue. 1: there is one in it now. */
static int client_take_event(void *ctx, const struct rpc_value *params)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct proctor *p = ctx;
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	uint64_t n_lost = rpc_value_u64(rpc_value_get(params, "count"));
	struct queued_event *event;
	struct json j;

	if (!p->fn || !topic)
		return 0; /* not subscribed, or no event */
	if (strcmp(topic, "lost") != 0) {
		json_init(&j, &text);
		rpc_value_write(rpc_value_get(params, "data"), &j);
		event = buf_error(&text) < 0
				? NULL
				: event_new(topic, text.data,
					    rpc_value_f64(rpc_value_get(params, "timestamp")), 0);
		n_lost = 0;
	} else if (u64_known(n_lost) && n_lost > 0) {
		event = notice_new(n_lost); /* lost before they came here */
	} else {
		return 0;
	}
	event_queue_push(&p->events, event, n_lost);
	return 1;
}

/* ---- the connection ---- */

#define DEFAULT_TIMEOUT_MS 10000

const char *proctor_version(void)
{
	return PROCTOR_VERSION;
}

struct proctor *proctor_new(void)
{
	struct proctor *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->timeout_ms = DEFAULT_TIMEOUT_MS;
	p->error_data = (struct buf)BUF_INIT;
	return p;
}

/* Of a forked child it is the copy that is closed: the parent's stays. */
static void disconnect(struct proctor *p)
{
	p->rpc = rpc_client_close(p->rpc);
	p->fn = NULL;
	event_queue_release(&p->events);
}

struct proctor *proctor_free(struct proctor *p)
{
	if (!p)
		return NULL;
	disconnect(p);
	buf_release(&p->error_data);
	free(p);
	return NULL;
}

/* Below 0: RPC_FOREVER. */
static uint64_t client_timeout(int timeout_ms)
{
	return timeout_ms < 0 ? RPC_FOREVER : (uint64_t)timeout_ms;
}

void proctor_set_timeout(struct proctor *p, int timeout_ms)
{
	if (!p)
		return;
	p->timeout_ms = timeout_ms;
	if (p->rpc)
		rpc_client_set_timeout(p->rpc, client_timeout(timeout_ms));
}

static void forget_error(struct proctor *p)
{
	p->err = (struct err)ERR_INIT;
	p->was_answered = false;
}

int proctor_open(struct proctor *p, const char *path)
{
	struct rpc_client_options options = {
		.path = path,
		.on_event = client_take_event,
		.ctx = p,
	};
	int r;

	if (!p)
		return -EINVAL;
	forget_error(p);
	disconnect(p);
	options.timeout_ms = p->timeout_ms == 0 ? 1 : client_timeout(p->timeout_ms);
	r = rpc_client_open(&options, &p->rpc, &p->err);
	p->opened_by = getpid();
	return r;
}

/* What every function does first. -EINVAL, -ENOTCONN, -EBADFD: it cannot be used. */
static int client_begin(struct proctor *p)
{
	if (!p)
		return -EINVAL;
	forget_error(p);
	if (!p->rpc)
		return err_set(&p->err, -ENOTCONN, "not connected: proctor_open() comes first");
	if (p->opened_by != getpid())
		return err_set(&p->err, -EBADFD,
			       "the connection is that of process %d, which this one was forked "
			       "from: open another",
			       (int)p->opened_by);
	return 0;
}

int proctor_fd(const struct proctor *p)
{
	return p && p->rpc ? rpc_client_fd(p->rpc) : -ENOTCONN;
}

/* ---- errors ---- */

const char *proctor_error(const struct proctor *p)
{
	return p ? p->err.text : "no memory left for a connection";
}

long long proctor_error_code(const struct proctor *p)
{
	return p && p->was_answered ? rpc_client_error_code(p->rpc) : 0;
}

const char *proctor_error_data(struct proctor *p)
{
	const struct rpc_value *data = p && p->was_answered ? rpc_client_error_data(p->rpc) : NULL;
	struct json j;

	if (!data)
		return NULL;
	buf_reset(&p->error_data);
	json_init(&j, &p->error_data);
	rpc_value_write(data, &j);
	return buf_error(&p->error_data) < 0 ? NULL : p->error_data.data;
}

/* ---- calls ---- */

static void cleanup_value(struct rpc_value **value)
{
	*value = rpc_value_free(*value);
}

int proctor_call(struct proctor *p, const char *method, const char *params, char **ret_json)
{
	CLEANUP(cleanup_value) struct rpc_value *value = NULL;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	int r = client_begin(p);
	struct json j;

	if (ret_json)
		*ret_json = NULL;
	if (r < 0)
		return r;
	if (!method)
		return err_set(&p->err, -EINVAL, "no method is named");
	r = rpc_client_call(p->rpc, method, params, &value, &p->err);
	p->was_answered = r < 0 && rpc_client_error_code(p->rpc) != 0;
	if (r < 0 || !ret_json)
		return r;
	json_init(&j, &text);
	rpc_value_write(value, &j);
	*ret_json = buf_detach(&text);
	return *ret_json ? 0 : err_set(&p->err, -ENOMEM, "no memory left for what the daemon said");
}

void proctor_free_text(char *text)
{
	free(text);
}

/* ---- subscribing ---- */

int proctor_subscribe(struct proctor *p, const char *topics, proctor_event_fn *fn, void *ctx)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	int r = client_begin(p);
	struct json j;

	if (r < 0)
		return r;
	if (!topics || !fn)
		return err_set(&p->err, -EINVAL, "a subscription has topics and a callback");
	if (p->fn)
		return err_set(&p->err, -EALREADY,
			       "this connection has a subscription: open another for more");
	/* "a.*, b" becomes {"topics":["a.*","b"]}. */
	json_init_object(&j, &params);
	json_key_array(&j, "topics");
	for (;;) {
		size_t n;

		topics += strspn(topics, ", ");
		n = strcspn(topics, ", ");
		if (n == 0)
			break;
		json_str_n(&j, topics, n);
		topics += n;
	}
	json_end_array(&j);
	json_end_object(&j);
	if (buf_error(&params) < 0)
		return err_set(&p->err, -ENOMEM, "no memory left to subscribe");
	r = proctor_call(p, "events.subscribe", params.data, NULL);
	if (r < 0)
		return r;
	p->fn = fn;
	p->ctx = ctx;
	return 0;
}

/* ---- events are handed over ---- */

#define LISTEN_MAX 1024 /* events handed over by one call, however many come */

int proctor_listen(struct proctor *p, int timeout_ms)
{
	int n = 0, r = client_begin(p);
	bool goes_on = true;

	if (r == 0 && !p->fn)
		r = err_set(&p->err, -EINVAL, "nothing is subscribed");
	if (r < 0)
		return r;
	while (goes_on && n < LISTEN_MAX && p->rpc && p->fn) {
		CLEANUP(free_ptr) struct queued_event *queued = NULL;
		struct proctor_event event;

		if (!p->events.first && p->events.n_lost_unreported == 0) {
			r = rpc_client_listen(p->rpc, client_timeout(n == 0 ? timeout_ms : 0),
					      &p->err);
			if (r == -ETIMEDOUT) {
				p->err = (struct err)
					ERR_INIT; /* that nothing happens is no failure */
				r = 0;
			}
			if (r <= 0)
				break;
		}
		n++;
		queued = event_queue_pop(&p->events);
		if (!queued)
			continue;
		event = (struct proctor_event){
			.topic = queued->topic,
			.timestamp = queued->timestamp,
			.data = queued->data,
			.n_lost = queued->n_lost,
		};
		/* The callback may ask and listen by itself: nothing of p is held meanwhile. */
		goes_on = p->fn(p->ctx, &event) == 0;
	}
	/* The next call returns why there are no more. */
	return n > 0 ? n : r;
}

/* ---- params ---- */

/* An object that is written member by member. */
struct params {
	struct buf text;
	struct json j;
};

static void params_begin(struct params *params)
{
	params->text = (struct buf)BUF_INIT;
	json_init_object(&params->j, &params->text);
}

static void params_release(struct params *params)
{
	buf_release(&params->text);
}

static int call_with(struct proctor *p, const char *method, struct params *params, char **ret_json)
{
	if (ret_json)
		*ret_json = NULL;
	json_end_object(&params->j);
	if (p && buf_error(&params->text) < 0)
		return err_set(&p->err, -ENOMEM, "no memory left to ask");
	return proctor_call(p, method, params->text.data, ret_json);
}

/* A string that must be there: the daemon refuses null. */
static int call_with_string(struct proctor *p, const char *method, const char *key,
			    const char *value, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	json_key_string(&params.j, key, value);
	return call_with(p, method, &params, ret_json);
}

/* ---- the daemon ---- */

int proctor_status(struct proctor *p, char **ret_json)
{
	return proctor_call(p, "daemon.status", NULL, ret_json);
}

int proctor_top(struct proctor *p, char **ret_json)
{
	return proctor_call(p, "daemon.top", NULL, ret_json);
}

int proctor_context(struct proctor *p, pid_t pid, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	if (pid != 0)
		json_key_i64(&params.j, "pid", pid);
	return call_with(p, "resource.context", &params, ret_json);
}

int proctor_admit(struct proctor *p, const char *params, char **ret_json)
{
	return proctor_call(p, "admit", params, ret_json);
}

int proctor_estimate(struct proctor *p, const char *const *argv, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	json_key_array(&params.j, "command");
	for (size_t i = 0; argv && argv[i]; i++)
		json_str(&params.j, argv[i]);
	json_end_array(&params.j);
	return call_with(p, "estimate", &params, ret_json);
}

int proctor_estimate_file(struct proctor *p, const char *job_file, char **ret_json)
{
	return call_with_string(p, "estimate", "file", job_file, ret_json);
}

/* ---- jobs ---- */

int proctor_jobs(struct proctor *p, char **ret_json)
{
	return proctor_call(p, "job.list", NULL, ret_json);
}

int proctor_events(struct proctor *p, const char *job_id, int limit, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	if (limit != 0)
		json_key_i64(&params.j, "limit", limit);
	if (job_id)
		json_key_string(&params.j, "job_id", job_id);
	return call_with(p, "daemon.events", &params, ret_json);
}

int proctor_report(struct proctor *p, const char *job_id, int attempt, char **ret_json)
{
	CLEANUP(params_release) struct params params;

	params_begin(&params);
	json_key_string(&params.j, "job_id", job_id);
	if (attempt != 0)
		json_key_i64(&params.j, "attempt", attempt);
	return call_with(p, "job.report", &params, ret_json);
}

int proctor_submit(struct proctor *p, const char *job_file, const char *job_id, char **ret_json)
{
	CLEANUP(params_release) struct params params;
	CLEANUP(free_ptr) char *folder = getcwd(NULL, 0);

	params_begin(&params);
	json_key_string(&params.j, "file", job_file);
	json_key_string(&params.j, "workdir", folder ? folder : "/");
	if (job_id)
		json_key_string(&params.j, "job_id", job_id);
	return call_with(p, "job.submit", &params, ret_json);
}

int proctor_cancel(struct proctor *p, const char *job_id, char **ret_json)
{
	return call_with_string(p, "job.cancel", "job_id", job_id, ret_json);
}

int proctor_wait(struct proctor *p, const char *job_id, int timeout_ms, char **ret_json)
{
	CLEANUP(params_release) struct params params;
	int usual_ms = p ? p->timeout_ms : 0, r;

	params_begin(&params);
	json_key_string(&params.j, "job_id", job_id);
	if (timeout_ms > 0) /* else the daemon would wait on, and count it */
		json_key_f64(&params.j, "timeout_seconds", timeout_ms / 1000.0);
	proctor_set_timeout(p, timeout_ms);
	r = call_with(p, "job.wait", &params, ret_json);
	proctor_set_timeout(p, usual_ms);
	return r;
}

/* ---- phases ---- */

/* A line for the job's runner, which looks for them in a file if there is no daemon. */
static int write_to_box(struct proctor *p, const char *path, const char *what, const char *name)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	CLEANUP(close_fd) int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	struct json j;

	if (fd < 0)
		return err_set(&p->err, -ENOTCONN, "no daemon runs, and no runner of a job");
	json_init_object(&j, &line);
	json_key_string(&j, "method", "phase");
	json_key_object(&j, "params");
	json_key_string(&j, what, name);
	json_key_i64(&j, "pid", getpid());
	json_key_f64(&j, "at", (double)clock_wall_ns() / 1e9);
	json_end_object(&j);
	json_end_object(&j);
	buf_add_char(&line, '\n');
	if (buf_error(&line) < 0)
		return err_set(&p->err, -ENOMEM, "out of memory");
	if (write(fd, line.data, line.len) != (ssize_t)line.len)
		return err_set(&p->err, -EIO, "the job's runner cannot be told of the phase");
	return 0;
}

static int mark_phase(struct proctor *p, const char *what, const char *name)
{
	int r = call_with_string(p, "phase", what, name, NULL);
	const char *path = r == -ENOTCONN && name ? getenv("PROCTOR_PHASES") : NULL;

	return path ? write_to_box(p, path, what, name) : r;
}

int proctor_phase_enter(struct proctor *p, const char *name)
{
	return mark_phase(p, "enter", name);
}

int proctor_phase_exit(struct proctor *p, const char *name)
{
	return mark_phase(p, "exit", name);
}
