/*
 * feed_daemon - what a daemon tells: a subscription to all of its topics.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "rpc/rpc.h"
#include "tui/feed.h"
#include "tui/snapshot_json.h"

#define RETRY_MS 1000
#define CALL_MS 3000
#define MAX_EVENT_BYTES 16384 /* that are kept of one */
#define EVENTS_BEFORE "{\"limit\":50}"
#define ACTIVE_NS UINT64_C(10000000000) /* of others' jobs nobody tells us when one is over */

struct daemon_feed {
	uint64_t interval_ns;	   /* at least so long between two that are shown */
	uint64_t taken_boot_ns;	   /* when the last one was */
	struct rpc_client *client; /* NULL: gone; looked for again */
	struct scene *scene;	   /* while it is pumped */
	struct snapshot snap;
	bool has_changed;
	bool has_told_before;	  /* what happened before top began */
	bool is_count_old;	  /* something began, or is over */
	uint64_t counted_boot_ns; /* when those that are going on were counted */
};

/* ---- what comes ---- */

static void take_snapshot(struct daemon_feed *f, struct json_cursor *data)
{
	if (f->scene->is_paused || snapshot_from_json(data, &f->snap) < 0)
		return;
	scene_add_snapshot(f->scene, &f->snap); /* the next one may find memory again */
	f->has_changed = true;
}

/* One that comes a little early is in time. */
static bool is_due(const struct daemon_feed *f)
{
	return clock_boot_ns() - f->taken_boot_ns >= f->interval_ns - f->interval_ns / 10;
}

static int on_snapshot(void *ctx, struct json_cursor *data)
{
	struct daemon_feed *f = ctx;

	if (f->scene && is_due(f)) {
		f->taken_boot_ns = clock_boot_ns();
		take_snapshot(f, data);
	}
	return 0;
}

static enum event_kind kind_of(const char *topic)
{
	if (strncmp(topic, "monitor.", 8) == 0)
		return EVENT_KIND_ANOMALY;
	if (strstr(topic, "failed") || strstr(topic, "cancelled") || strstr(topic, "oom") ||
	    strstr(topic, "kill"))
		return EVENT_KIND_TROUBLE;
	return strncmp(topic, "process.", 8) == 0 ? EVENT_KIND_PROCESS : EVENT_KIND_JOB;
}

static void add_member(struct buf *out, const struct rpc_value *data, const char *key,
		       const char *format)
{
	const char *text = rpc_value_string(rpc_value_get(data, key));
	uint64_t number = rpc_value_u64(rpc_value_get(data, key));
	char shown[32];

	if ((!text || !text[0]) && !u64_known(number))
		return;
	snprintf(shown, sizeof(shown), "%llu", (unsigned long long)number);
	buf_add_str(out, format);
	buf_add_str(out, text ? text : shown);
}

/* The members that an event may have, in the order of a sentence. */
static const struct {
	const char *key, *before;
} members[] = {
	{ "change", " " },
	{ "anomaly_type", ": " },
	{ "severity", ", " },
	{ "pid", " pid " },
	{ "job_id", " of " },
	{ "sheet_num", ", sheet " },
	{ "exit_code", ": exit code " },
	{ "signal", ": signal " },
	{ "signal_num", ": signal " },
	{ "reason", ": " },
	{ "description", ": " },
	{ "details", ": " },
};

static const char *text_of(const struct rpc_value *data, const char *key)
{
	return rpc_value_string(rpc_value_get(data, key));
}

/* Of the job that is looked at, or of the host. */
static bool is_wanted(const struct scene *s, const struct rpc_value *data)
{
	const char *job_id = text_of(data, "job_id");

	return !s->job_id || !job_id || strcmp(job_id, s->job_id) == 0;
}

static struct scene_event event_of(const char *topic, double timestamp,
				   const struct rpc_value *data)
{
	const struct proc_key key = { (pid_t)rpc_value_i64(rpc_value_get(data, "pid"), 0),
				      rpc_value_u64(rpc_value_get(data, "start_ticks")) };
	const char *job_id = text_of(data, "job_id"), *change = text_of(data, "change");

	return (struct scene_event){
		.wall_ns = timestamp > 0 && timestamp < 1e10 ? (uint64_t)(timestamp * 1e9)
							     : U64_UNKNOWN,
		.kind = kind_of(topic),
		.is_over = change && strcmp(change, "cleared") == 0,
		.process = key.pid > 0 ? track_key_of_process(&key) : 0,
		.job = job_id ? track_key_of_job(job_id) : 0,
	};
}

static void take_event(struct daemon_feed *f, const char *topic, double timestamp,
		       const struct rpc_value *data)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct scene_event event = event_of(topic, timestamp, data);
	struct json j;

	if (!is_wanted(f->scene, data))
		return;
	if (event.kind == EVENT_KIND_ANOMALY)
		f->is_count_old = true;
	buf_add_str(&text, topic);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		add_member(&text, data, members[i].key, members[i].before);
	json_init(&j, &all);
	rpc_value_write(data, &j);
	snprintf(event.text, sizeof(event.text), "%s", text.data);
	event.json = buf_error(&all) == 0 && all.len < MAX_EVENT_BYTES ? all.data : NULL;
	scene_add_event(f->scene, &event);
}

static int on_event(void *ctx, const struct rpc_value *params)
{
	struct daemon_feed *f = ctx;
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	const struct rpc_value *data = rpc_value_get(params, "data");

	if (!topic || !f->scene || strcmp(topic, "lost") == 0)
		return 0;
	take_event(f, topic, rpc_value_f64(rpc_value_get(params, "timestamp")), data);
	f->has_changed = true;
	return 0;
}

/* ---- the connection ---- */

static int subscribe(struct daemon_feed *f, struct err *err)
{
	const struct rpc_client_options options = {
		.timeout_ms = CALL_MS,
		.on_event = on_event,
		.text_topic = "snapshot",
		.on_text = on_snapshot,
		.ctx = f,
	};
	int r = rpc_client_open(&options, &f->client, err);

	if (r == 0)
		r = rpc_client_call(f->client, "events.subscribe", "{\"topics\":[\"*\"]}", NULL,
				    err);
	if (r < 0)
		f->client = rpc_client_close(f->client);
	return r;
}

/* The first is asked for: the daemon may look but every few minutes. */
static void take_first(struct daemon_feed *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rpc_value *value = NULL;
	struct json_cursor c;
	struct json j;

	if (rpc_client_call(f->client, "daemon.top", NULL, &value, NULL) == 0) {
		json_init(&j, &text);
		rpc_value_write(value, &j);
		json_cursor_init(&c, text.data, text.len);
		take_snapshot(f, &c);
	}
	rpc_value_free(value);
	f->has_changed = true;
}

/* When it was told: an anomaly that has cleared is older. */
static double time_of(const struct rpc_value *data)
{
	double changed = rpc_value_f64(rpc_value_get(data, "changed"));

	return f64_known(changed) ? changed : rpc_value_f64(rpc_value_get(data, "timestamp"));
}

/* What happened before; a daemon that began just now has nothing to tell. */
static void take_events_before(struct daemon_feed *f)
{
	struct rpc_value *list = NULL;

	if (rpc_client_call(f->client, "daemon.events", EVENTS_BEFORE, &list, NULL) < 0)
		return;
	for (size_t i = 0; i < rpc_value_len(list); i++) {
		const struct rpc_value *data = rpc_value_at(list, i);
		const char *topic = text_of(data, "event");

		if (topic)
			take_event(f, topic, time_of(data), data);
	}
	rpc_value_free(list);
}

/* How many anomalies are going on. */
static void count_active(struct daemon_feed *f, struct scene *s)
{
	struct rpc_value *value = NULL;
	const struct rpc_value *active;
	uint64_t now = clock_boot_ns();

	if (!f->is_count_old && now - f->counted_boot_ns < ACTIVE_NS)
		return;
	f->is_count_old = false;
	f->counted_boot_ns = now;
	s->n_anomalies = U64_UNKNOWN;
	if (rpc_client_call(f->client, "resource.context", NULL, &value, NULL) == 0) {
		active = rpc_value_get(value, "anomalies_active");
		if (rpc_value_is_list(active))
			s->n_anomalies = rpc_value_len(active);
	}
	rpc_value_free(value);
	f->has_changed = true;
}

static void say_source(const struct daemon_feed *f, struct scene *s)
{
	pid_t pid = f->client ? rpc_client_daemon_pid(f->client) : 0;

	if (!f->client)
		snprintf(s->source_note, sizeof(s->source_note),
			 "the daemon is gone: waiting for another");
	else if (pid > 0)
		snprintf(s->source_note, sizeof(s->source_note), "daemon %d", (int)pid);
	else
		snprintf(s->source_note, sizeof(s->source_note), "daemon");
}

static int daemon_pump(void *ctx, struct scene *s, struct err *err)
{
	struct daemon_feed *f = ctx;
	int r;

	(void)err;
	f->scene = s;
	f->has_changed = false;
	if (!f->client && subscribe(f, NULL) == 0)
		s->has_snap = false;
	if (f->client && !f->has_told_before) {
		f->has_told_before = true;
		take_events_before(f);
	}
	if (f->client && !s->has_snap)
		take_first(f);
	r = f->client ? rpc_client_listen(f->client, 0, NULL) : -ETIMEDOUT;
	if (r != -ETIMEDOUT)
		f->client = rpc_client_close(f->client);
	if (f->client)
		count_active(f, s);
	else
		s->n_anomalies = U64_UNKNOWN;
	say_source(f, s);
	f->scene = NULL;
	return f->has_changed || r != -ETIMEDOUT;
}

static int daemon_fd(void *ctx)
{
	struct daemon_feed *f = ctx;

	return f->client ? rpc_client_fd(f->client) : -1;
}

static int daemon_timeout(void *ctx, const struct scene *s)
{
	struct daemon_feed *f = ctx;

	return f->client && s->has_snap ? -1 : RETRY_MS;
}

static int daemon_grant(void *ctx, struct scene *s, const struct wish *wish, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct daemon_feed *f = ctx;
	struct json j;
	int r;

	if (wish->kind != WISH_CANCEL_JOB)
		return -EOPNOTSUPP;
	if (!f->client)
		return err_set(err, -ENOTCONN, "no daemon runs that could cancel it");
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", wish->job_id);
	json_end_object(&j);
	f->scene = s;
	r = rpc_client_call(f->client, "job.cancel", params.data, NULL, err);
	f->scene = NULL;
	return r;
}

static void daemon_close(void *ctx)
{
	struct daemon_feed *f = ctx;

	rpc_client_close(f->client);
	snapshot_release(&f->snap);
	free(f);
}

static const struct feed_ops daemon_ops = {
	.fd = daemon_fd,
	.timeout_ms = daemon_timeout,
	.pump = daemon_pump,
	.grant = daemon_grant,
	.close = daemon_close,
};

int feed_open_daemon(const struct tui_options *options, struct feed *ret, struct err *err)
{
	struct daemon_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->interval_ns = (uint64_t)(options->interval_seconds * 1e9);
	snapshot_init(&f->snap);
	r = subscribe(f, err);
	if (r < 0) {
		daemon_close(f);
		return r;
	}
	*ret = (struct feed){ &daemon_ops, f };
	return 0;
}
