/*
 * feed_daemon - what a daemon tells: a subscription to all of its topics.
 *
 * Nothing here waits for it: what is asked is answered when the answer comes, and a daemon that
 * hangs leaves the keys and the screen alone.
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
#include "tui/daemon_event.h"
#include "tui/feed.h"
#include "tui/snapshot_json.h"

#define SECOND_NS UINT64_C(1000000000)
#define LOOK_MS 1000		   /* at what may be late, and for one that is gone */
#define SEND_MS 200		   /* to connect, or to hand over a request: no more than a blink */
#define ACTIVE_NS (10 * SECOND_NS) /* of others' jobs nobody tells us when one is over */
#define SILENT_NS (2 * SECOND_NS)  /* without an answer, and it is said */
#define FIRST_GAP_NS (10 * SECOND_NS) /* between two snapshots, before there were two */
#define GONE_NS (5 * SECOND_NS)	      /* without a daemon, and top looks by itself */

#define TROUBLE_BYTES 160

/* What is asked, one of each at a time. */
enum question {
	ASK_SUBSCRIBE,
	ASK_EVENTS, /* those that nobody told us */
	ASK_TOP,    /* the daemon may look but every few minutes */
	ASK_ACTIVE,
	ASK_JOBS, /* since when they run, and those that wait */
	ASK_CANCEL,
	QUESTIONS,
};

struct asked {
	uint64_t id; /* 0: nothing is under way */
	uint64_t boot_ns;
};

struct daemon_feed {
	const char *job_id;
	uint64_t interval_ns;	   /* at least so long between two that are shown */
	uint64_t taken_boot_ns;	   /* when the last one was */
	uint64_t came_boot_ns;	   /* the last one that came, shown or not */
	uint64_t gap_ns;	   /* between that and the one before */
	uint64_t gone_boot_ns;	   /* since when there is none */
	struct rpc_client *client; /* NULL: gone; looked for again */
	uint64_t tried_boot_ns;	   /* when it was */
	struct asked asked[QUESTIONS];
	struct scene *scene; /* while it is pumped */
	struct snapshot snap;
	bool has_changed;
	double last_event_seconds;   /* NaN: none came yet */
	bool is_count_old;	     /* something began, or is over */
	uint64_t counted_boot_ns;    /* when those that are going on were asked for */
	bool are_jobs_old;	     /* one began, or is over */
	uint64_t listed_boot_ns;     /* when they were asked for */
	char trouble[TROUBLE_BYTES]; /* why it cannot be reached; "" */
};

/* ---- what comes ---- */

static void take_snapshot(struct daemon_feed *f, struct json_cursor *data)
{
	if ((f->scene->is_paused && f->scene->has_snap) || snapshot_from_json(data, &f->snap) < 0)
		return;
	scene_add_snapshot(f->scene, &f->snap); /* the next one may find memory again */
	f->has_changed = true;
}

/* One that comes a little early is in time. */
static bool is_due(const struct daemon_feed *f)
{
	return clock_boot_ns() - f->taken_boot_ns >= f->interval_ns - f->interval_ns / 10;
}

static void note_coming(struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns();

	f->gap_ns = f->came_boot_ns ? now - f->came_boot_ns : FIRST_GAP_NS;
	f->came_boot_ns = now;
}

static int on_snapshot(void *ctx, struct json_cursor *data)
{
	struct daemon_feed *f = ctx;

	if (!f->scene)
		return 0;
	note_coming(f);
	if (is_due(f)) {
		f->taken_boot_ns = clock_boot_ns();
		take_snapshot(f, data);
	}
	return 0;
}

static void take_event(struct daemon_feed *f, const char *topic, double timestamp,
		       const struct rpc_value *data, bool is_again)
{
	if (!(timestamp <= f->last_event_seconds))
		f->last_event_seconds = timestamp;
	f->is_count_old |= daemon_event_is_anomaly(topic);
	f->are_jobs_old |= strncmp(topic, "job.", 4) == 0;
	daemon_event_tell(f->scene, topic, timestamp, data, is_again);
	f->has_changed = true;
}

static int on_event(void *ctx, const struct rpc_value *params)
{
	struct daemon_feed *f = ctx;
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	const struct rpc_value *data = rpc_value_get(params, "data");

	if (!topic || !f->scene)
		return 0;
	if (strcmp(topic, "lost") == 0)
		daemon_event_tell_loss(f->scene, rpc_value_u64(rpc_value_get(params, "count")));
	else
		take_event(f, topic, rpc_value_f64(rpc_value_get(params, "timestamp")), data,
			   false);
	f->has_changed = true;
	return 0;
}

/* ---- answers ---- */

static void answer_subscribe(struct daemon_feed *f, int r, const struct rpc_value *result,
			     const struct err *err)
{
	(void)result;
	if (r < 0)
		snprintf(f->trouble, sizeof(f->trouble), "%.*s", TROUBLE_BYTES - 1, err->text);
}

/* When it was told: an anomaly that has cleared is older. */
static double time_of(const struct rpc_value *data)
{
	double changed = rpc_value_f64(rpc_value_get(data, "changed"));

	return f64_known(changed) ? changed : rpc_value_f64(rpc_value_get(data, "timestamp"));
}

/* What happened before; a daemon that began just now has nothing to tell. */
static void answer_events(struct daemon_feed *f, int r, const struct rpc_value *result,
			  const struct err *err)
{
	(void)err;
	for (size_t i = 0; r == 0 && i < rpc_value_len(result); i++) {
		const struct rpc_value *data = rpc_value_at(result, i);
		const char *topic = rpc_value_string(rpc_value_get(data, "event"));

		if (topic)
			take_event(f, topic, time_of(data), data, true);
	}
}

static void answer_top(struct daemon_feed *f, int r, const struct rpc_value *result,
		       const struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json_cursor c;
	struct json j;

	(void)err;
	if (r < 0)
		return;
	json_init(&j, &text);
	rpc_value_write(result, &j);
	json_cursor_init(&c, text.data, text.len);
	note_coming(f);
	f->gap_ns = FIRST_GAP_NS;
	take_snapshot(f, &c);
}

static void answer_active(struct daemon_feed *f, int r, const struct rpc_value *result,
			  const struct err *err)
{
	const struct rpc_value *active = rpc_value_get(result, "anomalies_active");
	uint64_t n = r == 0 && rpc_value_is_list(active) ? rpc_value_len(active) : U64_UNKNOWN;

	(void)err;
	if (f->job_id && u64_known(n))
		n = scene_count_flags(f->scene); /* it counts those of all jobs */
	f->has_changed |= n != f->scene->n_anomalies;
	f->scene->n_anomalies = n;
}

static void take_job(struct daemon_feed *f, const struct rpc_value *job)
{
	const char *job_id = rpc_value_string(rpc_value_get(job, "job_id"));
	const char *status = rpc_value_string(rpc_value_get(job, "status"));
	double started = rpc_value_f64(rpc_value_get(job, "started"));

	if (!job_id)
		return;
	if (status && strcmp(status, "queued") == 0)
		scene_add_queued(f->scene, job_id,
				 rpc_value_string(rpc_value_get(job, "why_queued")));
	else if (started > 0 && started < 1e10)
		scene_set_start(f->scene, track_key_of_job(job_id), (uint64_t)(started * 1e9));
}

static void answer_jobs(struct daemon_feed *f, int r, const struct rpc_value *result,
			const struct err *err)
{
	(void)err;
	scene_forget_queued(f->scene);
	for (size_t i = 0; r == 0 && i < rpc_value_len(result); i++)
		take_job(f, rpc_value_at(result, i));
	scene_refresh(f->scene); /* the next snapshot may find memory again */
	f->has_changed = true;
}

static void answer_cancel(struct daemon_feed *f, int r, const struct rpc_value *result,
			  const struct err *err)
{
	(void)result;
	if (r == 0)
		return; /* what it comes to will be seen */
	scene_say(f->scene, err->text);
	f->has_changed = true;
}

typedef void answer_fn(struct daemon_feed *f, int r, const struct rpc_value *result,
		       const struct err *err);

static answer_fn *const answers[QUESTIONS] = {
	[ASK_SUBSCRIBE] = answer_subscribe,
	[ASK_EVENTS] = answer_events,
	[ASK_TOP] = answer_top,
	[ASK_ACTIVE] = answer_active,
	[ASK_JOBS] = answer_jobs,
	[ASK_CANCEL] = answer_cancel,
};

static void on_answer(void *ctx, uint64_t id, int r, const struct rpc_value *result,
		      const struct err *err)
{
	struct daemon_feed *f = ctx;

	for (size_t i = 0; i < QUESTIONS; i++) {
		if (f->asked[i].id != id)
			continue;
		f->asked[i].id = 0;
		answers[i](f, r, result, err);
	}
}

/* ---- questions ---- */

static int ask(struct daemon_feed *f, enum question question, const char *method,
	       const char *params, struct err *err)
{
	struct asked asked = { .boot_ns = clock_boot_ns() };
	int r = rpc_client_ask(f->client, method, params, &asked.id, err);

	if (r == 0)
		f->asked[question] = asked;
	return r;
}

/* The newest, or all since the last one that came. */
static int ask_events(struct daemon_feed *f, struct err *err)
{
	char params[96];

	if (f64_known(f->last_event_seconds))
		snprintf(params, sizeof(params), "{\"limit\":4096,\"since\":%.6f}",
			 f->last_event_seconds);
	else
		snprintf(params, sizeof(params), "{\"limit\":%d}", SCENE_EVENTS);
	return ask(f, ASK_EVENTS, "daemon.events", params, err);
}

static int connect_to(struct daemon_feed *f, struct err *err)
{
	const struct rpc_client_options options = {
		.timeout_ms = SEND_MS,
		.on_event = on_event,
		.text_topic = "snapshot",
		.on_text = on_snapshot,
		.on_answer = on_answer,
		.ctx = f,
	};
	int r = rpc_client_open(&options, &f->client, err);

	memset(f->asked, 0, sizeof(f->asked));
	f->tried_boot_ns = clock_boot_ns();
	if (r == 0)
		r = ask(f, ASK_SUBSCRIBE, "events.subscribe", "{\"topics\":[\"*\"]}", err);
	if (r == 0)
		r = ask_events(f, err);
	if (r == 0)
		r = ask(f, ASK_TOP, "daemon.top", NULL, err);
	if (r < 0)
		f->client = rpc_client_close(f->client);
	f->came_boot_ns = 0;
	f->is_count_old = f->are_jobs_old = true;
	return r;
}

/* How many anomalies are going on. */
static void ask_active(struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns();

	if (f->asked[ASK_ACTIVE].id || (!f->is_count_old && now - f->counted_boot_ns < ACTIVE_NS))
		return;
	f->is_count_old = false;
	f->counted_boot_ns = now;
	ask(f, ASK_ACTIVE, "resource.context", NULL, NULL);
}

static void ask_jobs(struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns();

	if (f->asked[ASK_JOBS].id || (!f->are_jobs_old && now - f->listed_boot_ns < ACTIVE_NS))
		return;
	f->are_jobs_old = false;
	f->listed_boot_ns = now;
	ask(f, ASK_JOBS, "job.list", NULL, NULL);
}

/* ---- how it is ---- */

/* For how long the oldest question has no answer, in seconds; 0: not for long. */
static uint64_t silent_seconds(const struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns(), longest = 0;

	for (size_t i = 0; i < QUESTIONS; i++)
		if (f->asked[i].id && now - f->asked[i].boot_ns > longest)
			longest = now - f->asked[i].boot_ns;
	return longest >= SILENT_NS ? longest / SECOND_NS : 0;
}

static void say_source(const struct daemon_feed *f, struct scene *s)
{
	pid_t pid = f->client ? rpc_client_daemon_pid(f->client) : 0;
	uint64_t silent = f->client ? silent_seconds(f) : 0;
	char who[32] = "daemon", how[64] = "";

	if (!f->client) {
		snprintf(s->source_note, sizeof(s->source_note), "%s: waiting for a daemon",
			 f->trouble[0] ? f->trouble : "the daemon is gone");
		return;
	}
	if (pid > 0)
		snprintf(who, sizeof(who), "daemon %d", (int)pid);
	if (silent > 0)
		snprintf(how, sizeof(how), " has not answered for %llu s",
			 (unsigned long long)silent);
	snprintf(s->source_note, sizeof(s->source_note), "%s%s", who, how);
}

/* A snapshot that is older than it should be; one that is paused is as old as its user wants. */
static void say_age(const struct daemon_feed *f, struct scene *s)
{
	uint64_t gap = f->gap_ns > f->interval_ns ? f->gap_ns : f->interval_ns;
	uint64_t since = f->came_boot_ns ? f->came_boot_ns : f->tried_boot_ns;
	uint64_t wall_ns = clock_wall_ns();
	bool is_late = !f->client || clock_boot_ns() - since > 2 * gap + 2 * SECOND_NS;

	s->is_late = s->has_snap && is_late && !s->is_paused && wall_ns > s->snap.wall_ns;
	s->age_seconds = s->is_late ? (wall_ns - s->snap.wall_ns) / SECOND_NS : 0;
}

static void hang_up(struct daemon_feed *f, struct scene *s)
{
	f->client = rpc_client_close(f->client);
	f->gone_boot_ns = f->tried_boot_ns = clock_boot_ns();
	f->trouble[0] = '\0';
	s->n_anomalies = U64_UNKNOWN;
	scene_forget_queued(s);
	scene_refresh(s); /* rows point to them */
}

static void try_again(struct daemon_feed *f)
{
	struct err trouble = ERR_INIT;
	int r;

	if (clock_boot_ns() - f->tried_boot_ns < LOOK_MS * UINT64_C(1000000))
		return;
	r = connect_to(f, &trouble);
	snprintf(f->trouble, sizeof(f->trouble), "%.*s", TROUBLE_BYTES - 1,
		 r < 0 && r != -ENOENT ? trouble.text : "");
}

/* True: what is said of the daemon is not what it was. */
static bool say_state(const struct daemon_feed *f, struct scene *s)
{
	char before[SCENE_TEXT_BYTES];
	uint64_t age = s->age_seconds;

	memcpy(before, s->source_note, sizeof(before));
	say_source(f, s);
	say_age(f, s);
	return age != s->age_seconds || strcmp(before, s->source_note) != 0;
}

static int daemon_pump(void *ctx, struct scene *s, struct err *err)
{
	struct daemon_feed *f = ctx;

	f->scene = s;
	f->has_changed = false;
	if (!f->client)
		try_again(f);
	if (f->client && rpc_client_listen(f->client, 0, NULL) != -ETIMEDOUT)
		hang_up(f, s);
	if (f->client) {
		ask_active(f);
		ask_jobs(f);
	}
	f->has_changed |= say_state(f, s);
	f->scene = NULL;
	if (!f->client && clock_boot_ns() - f->gone_boot_ns > GONE_NS && !s->is_paused)
		return err_set(err, -ENOENT, "no daemon runs any more");
	return f->has_changed;
}

static int daemon_fd(void *ctx)
{
	struct daemon_feed *f = ctx;

	return f->client ? rpc_client_fd(f->client) : -1;
}

static int daemon_timeout(void *ctx, const struct scene *s)
{
	(void)ctx;
	(void)s;
	return LOOK_MS;
}

static int daemon_grant(void *ctx, struct scene *s, const struct wish *wish, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct daemon_feed *f = ctx;
	struct json j;

	(void)s;
	if (wish->kind != WISH_CANCEL_JOB)
		return -EOPNOTSUPP;
	if (!f->client)
		return err_set(err, -ENOTCONN, "no daemon runs that could cancel it");
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", wish->job_id);
	json_end_object(&j);
	return ask(f, ASK_CANCEL, "job.cancel", params.data, err);
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
	f->job_id = options->job_id;
	f->interval_ns = (uint64_t)(options->interval_seconds * 1e9);
	f->last_event_seconds = F64_UNKNOWN;
	f->gap_ns = FIRST_GAP_NS;
	snapshot_init(&f->snap);
	r = connect_to(f, err);
	if (r < 0) {
		daemon_close(f);
		return r;
	}
	*ret = (struct feed){ &daemon_ops, f };
	return 0;
}
