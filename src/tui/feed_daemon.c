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
#include "tui/daemon_feed.h"
#include "tui/feed.h"

#define SECOND_NS UINT64_C(1000000000)
#define LOOK_MS 1000		   /* at what may be late, and for one that is gone */
#define SEND_MS 200		   /* to connect, or to hand over a request: no more than a blink */
#define ACTIVE_NS (10 * SECOND_NS) /* of others' jobs nobody tells us when one is over */
#define AT_MOST_NS (SECOND_NS / 4) /* so often, where sheets follow each other quickly */
#define BETWEEN_NS SECOND_NS	   /* where something may wait */
#define SILENT_NS (2 * SECOND_NS)  /* without an answer, and it is said */
#define REFUSED_NS (5 * SECOND_NS) /* before what could not be had is asked for again */
#define GONE_NS (5 * SECOND_NS)	   /* without a daemon, and top looks by itself */

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

/* All that the daemon has, or since the last one that came: the newest of them may all be births
 * and deaths, of which the scene keeps as many as there is room for beside the others. */
static int ask_events(struct daemon_feed *f, struct err *err)
{
	char params[96];

	if (f64_known(f->last_event_seconds))
		snprintf(params, sizeof(params), "{\"limit\":4096,\"since\":%.6f}",
			 f->last_event_seconds);
	else
		snprintf(params, sizeof(params), "{\"limit\":4096}");
	return ask(f, ASK_EVENTS, "daemon.events", params, err);
}

static int connect_to(struct daemon_feed *f, struct err *err)
{
	const struct rpc_client_options options = {
		.timeout_ms = SEND_MS,
		.on_event = daemon_feed_on_event,
		.text_topic = "snapshot",
		.on_text = daemon_feed_on_snapshot,
		.on_answer = daemon_feed_on_answer,
		.ctx = f,
	};
	int r = rpc_client_open(&options, &f->client, err);

	memset(f->asked, 0, sizeof(f->asked));
	f->wants_page = false;
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

/* What was listed then is shown until the user goes on, and asked for anew. */
static bool is_held(struct daemon_feed *f)
{
	if (!f->scene->is_paused || !f->scene->has_snap)
		return false;
	f->is_count_old = f->are_jobs_old = true;
	return true;
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

/* One that is between two sheets may wait there, and nobody tells when that begins. */
static bool is_one_between(const struct scene *s)
{
	for (size_t i = 0; s->has_snap && i < s->snap.n_progress; i++)
		if (s->snap.progress[i].current_sheet == SHEET_NONE)
			return true;
	return false;
}

static void ask_jobs(struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns();
	uint64_t every_ns = f->are_jobs_old	       ? AT_MOST_NS
			    : is_one_between(f->scene) ? BETWEEN_NS
						       : ACTIVE_NS;

	if (f->asked[ASK_JOBS].id || (f->listed_boot_ns && now - f->listed_boot_ns < every_ns))
		return;
	f->are_jobs_old = false;
	f->listed_boot_ns = now;
	ask(f, ASK_JOBS, "job.list", NULL, NULL);
}

/* ---- the past of something ---- */

static int ask_samples(struct daemon_feed *f)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;

	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", f->recall.job_id);
	if (f->recall.key.pid > 0)
		json_key_i64(&j, "pid", f->recall.key.pid);
	json_key_u64(&j, "since_ns", f->recall.since_wall_ns);
	json_key_u64(&j, "until_ns", f->recall.until_wall_ns);
	json_end_object(&j);
	return ask(f, ASK_SAMPLES, "job.samples", params.data, NULL);
}

static void ask_next_page(struct daemon_feed *f)
{
	if (!f->wants_page)
		return;
	f->wants_page = false;
	ask_samples(f); /* if it cannot be sent all of it is asked for anew */
}

/* Two may come at once, where something began between two ticks. */
static uint64_t usual_gap_ns(const struct daemon_feed *f)
{
	return f->gap_ns > SECOND_NS ? f->gap_ns : SECOND_NS;
}

static bool daemon_recall(void *ctx, struct scene *s, const struct node *node)
{
	struct daemon_feed *f = ctx;

	if (!f->client || f->asked[ASK_SAMPLES].id || f->wants_page ||
	    (f->refused_boot_ns && clock_boot_ns() - f->refused_boot_ns < REFUSED_NS))
		return false;
	if (!recall_begin(&f->recall, s, node, usual_gap_ns(f)))
		return true;
	f->recall_pages = 0;
	ask_samples(f);
	return false;
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
	snprintf(f->trouble, sizeof(f->trouble), "%.*s", DAEMON_TROUBLE_BYTES - 1,
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
	if (f->client && !is_held(f)) {
		ask_active(f);
		ask_jobs(f);
	}
	if (f->client)
		ask_next_page(f);
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
	if (wish->attempt_num > 0)
		json_key_i64(&j, "attempt", wish->attempt_num);
	if (u64_known(wish->uid))
		json_key_u64(&j, "uid", wish->uid);
	if (wish->is_queued)
		json_key_bool(&j, "queued", true);
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
	.recall = daemon_recall,
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
	f->gap_ns = DAEMON_FIRST_GAP_NS;
	snapshot_init(&f->snap);
	r = connect_to(f, err);
	if (r < 0) {
		daemon_close(f);
		return r;
	}
	*ret = (struct feed){ &daemon_ops, f };
	return 0;
}
