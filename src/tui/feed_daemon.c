/*
 * The feed of a daemon: a subscription to all of its topics, and questions.
 *
 * Nothing here waits: an answer is taken when it comes, and a daemon that hangs leaves the keys and
 * the screen alone.
 */
#include "tui/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"

#define SECOND_NS UINT64_C(1000000000)
#define LOOK_MS 1000		      /* at what may be late, and for one that is gone */
#define SEND_MS 200		      /* to connect, or to send a request: no more than a blink */
#define ACTIVE_NS (10 * SECOND_NS)    /* the ends of other users' jobs are not published to us */
#define AT_MOST_NS (SECOND_NS / 4)    /* so often, where sheets follow each other quickly */
#define BETWEEN_NS SECOND_NS	      /* where something may wait */
#define SILENT_NS (2 * SECOND_NS)     /* without an answer, and it is said */
#define REFUSED_NS (5 * SECOND_NS)    /* before what could not be had is asked for again */
#define GONE_NS (5 * SECOND_NS)	      /* without a daemon, and top collects by itself */
#define FIRST_GAP_NS (10 * SECOND_NS) /* between two snapshots, before there were two */
#define MAX_PAGES 8		      /* of samples, for one curve */

/* ---- snapshots and events ---- */

/* What is shown stays as it is. */
static bool is_paused(const struct daemon_feed *f)
{
	return f->scene->is_paused && f->scene->has_snap;
}

static void take_snapshot(struct daemon_feed *f, struct json_cursor *data)
{
	if (is_paused(f) || snapshot_from_json(data, &f->snap) < 0)
		return;
	scene_add_snapshot(f->scene, &f->snap); /* the next one may find memory again */
	f->has_changed = true;
}

static int on_snapshot(void *ctx, struct json_cursor *data)
{
	struct daemon_feed *f = ctx;
	uint64_t now = clock_boot_ns();

	if (!f->scene)
		return 0;
	f->gap_ns = f->came_boot_ns ? now - f->came_boot_ns : FIRST_GAP_NS;
	f->came_boot_ns = now;
	if (now - f->taken_boot_ns < f->interval_ns - f->interval_ns / 10)
		return 0; /* one that comes a little early is in time */
	f->taken_boot_ns = now;
	take_snapshot(f, data);
	return 0;
}

static void take_event(struct daemon_feed *f, const char *topic, uint64_t wall_ns,
		       const struct rpc_value *data, bool is_again)
{
	f->last_event_ns = u64_max_known(f->last_event_ns, wall_ns);
	f->is_count_old |= feed_is_anomaly(topic);
	f->are_jobs_old |= strncmp(topic, "job.", 4) == 0 || strncmp(topic, "sheet.", 6) == 0;
	feed_add_event(f->scene, topic, wall_ns, data, is_again);
	f->has_changed = true;
}

static int on_event(void *ctx, const struct rpc_value *params)
{
	struct daemon_feed *f = ctx;
	const char *topic = feed_text(params, "topic");
	uint64_t n = rpc_value_u64(rpc_value_get(params, "count"));
	struct scene_event lost = { .wall_ns = clock_wall_ns(), .kind = EVENT_KIND_TROUBLE };

	if (!topic || !f->scene)
		return 0;
	f->has_changed = true;
	if (strcmp(topic, "lost") != 0) {
		take_event(f, topic, feed_time(params, "timestamp"), rpc_value_get(params, "data"),
			   false);
		return 0;
	}
	if (u64_known(n))
		snprintf(lost.text, sizeof(lost.text), "%llu event%s lost on the way here",
			 (unsigned long long)n, n == 1 ? " was" : "s were");
	else
		snprintf(lost.text, sizeof(lost.text), "events were lost on the way here");
	scene_add_event(f->scene, &lost);
	return 0;
}

/* ---- answers ---- */

static void take_job(struct scene *s, const struct rpc_value *job)
{
	const char *job_id = feed_text(job, "job_id");
	const char *status = feed_text(job, "status");
	const char *why_held = feed_text(job, "why_held");
	int attempt_num = feed_number(job, "attempt"),
	    sheet_num = feed_number(job, "current_sheet");
	uint64_t key;

	if (!job_id)
		return;
	if (status && strcmp(status, "queued") == 0) {
		scene_add_waiting(s, job_id, rpc_value_u64(rpc_value_get(job, "uid")), 0,
				  feed_text(job, "why_queued"));
		return;
	}
	key = track_key_of_attempt(job_id, attempt_num);
	scene_set_start(s, key, feed_time(job, "started"));
	if (why_held)
		scene_add_waiting(s, job_id, U64_UNKNOWN, key, why_held);
	s->listed.n_jobs++;
	s->listed.n_sheets += sheet_num > 0;
	if (sheet_num > 0) { /* its beginning may be older than the events that the daemon keeps */
		key = outline_key_of_sheet(job_id, attempt_num, sheet_num);
		scene_set_start(s, key, feed_time(job, "current_sheet_started"));
		scene_name_sheet(s, key, feed_text(job, "current_sheet_name"));
	}
}

static void take_sample(struct recall *recall, const struct rpc_value *v)
{
	double rss_mb = rpc_value_f64(rpc_value_get(v, "rss_mb"));
	struct proc_sample p;

	proc_sample_init(&p);
	p.key.pid = feed_number(v, "pid");
	p.key.start_ticks = rpc_value_u64(rpc_value_get(v, "start_ticks"));
	p.sheet_num = (int)rpc_value_i64(rpc_value_get(v, "sheet_num"), SHEET_NONE);
	p.rank = (int)rpc_value_i64(rpc_value_get(v, "rank"), RANK_NONE);
	if (rss_mb >= 0 && rss_mb < 1e12)
		p.rss_bytes = (uint64_t)(rss_mb * (1 << 20));
	recall_add(recall, feed_time(v, "timestamp"), feed_number(v, "attempt"), &p);
}

/* A daemon that always has another page is not asked for ever. */
static void take_samples(struct daemon_feed *f, const struct rpc_value *result)
{
	const struct rpc_value *samples = rpc_value_get(result, "samples");
	uint64_t next_ns = rpc_value_u64(rpc_value_get(result, "next_ns"));

	for (size_t i = 0; i < rpc_value_len(samples); i++)
		take_sample(&f->recall, rpc_value_at(samples, i));
	f->wants_page = u64_known(next_ns) && next_ns > f->recall.since_wall_ns &&
			next_ns <= f->recall.until_wall_ns &&
			!recall_is_full(&f->recall, next_ns) && ++f->recall_pages < MAX_PAGES;
	if (f->wants_page) {
		f->recall.since_wall_ns = next_ns;
		return;
	}
	recall_end(&f->recall, f->scene);
	map_put(&f->scene->recalled, f->recall.id, 1); /* without memory it is asked again */
	f->has_changed = true;
}

static void take_answer(struct daemon_feed *f, enum question question, int r,
			const struct rpc_value *result, const struct err *err)
{
	const struct rpc_value *active;
	uint64_t n;

	result = r == 0 ? result : NULL;
	switch (question) {
	case ASK_SUBSCRIBE:
		if (r < 0)
			snprintf(f->trouble, sizeof(f->trouble), "%.*s",
				 (int)sizeof(f->trouble) - 1, err->text);
		return;
	/* What happened before; an anomaly that has cleared is older than when that was told. */
	case ASK_EVENTS:
		for (size_t i = 0; i < rpc_value_len(result); i++) {
			const struct rpc_value *data = rpc_value_at(result, i);
			const char *topic = feed_text(data, "event");
			uint64_t changed_ns = feed_time(data, "changed");

			if (topic)
				take_event(f, topic,
					   u64_known(changed_ns) ? changed_ns
								 : feed_time(data, "timestamp"),
					   data, true);
		}
		return;
	case ASK_TOP:
		if (result) {
			CLEANUP(buf_release) struct buf text = BUF_INIT;
			struct json_cursor c;
			struct json j;

			json_init(&j, &text);
			rpc_value_write(result, &j);
			json_cursor_init(&c, text.data, text.len);
			f->came_boot_ns = clock_boot_ns();
			f->gap_ns = FIRST_GAP_NS;
			take_snapshot(f, &c);
		}
		return;
	case ASK_ACTIVE:
		if (is_paused(f))
			return;
		active = rpc_value_get(result, "anomalies_active");
		n = rpc_value_is_list(active) ? rpc_value_len(active) : U64_UNKNOWN;
		if (f->job_id && u64_known(n))
			n = scene_count_flags(f->scene); /* it counts those of all jobs */
		f->has_changed |= n != f->scene->past.n_anomalies;
		f->scene->past.n_anomalies = n;
		return;
	case ASK_JOBS:
		if (!is_paused(f)) {
			scene_forget_waiting(f->scene);
			f->scene->listed.n_jobs = f->scene->listed.n_sheets = 0;
			f->scene->listed.wall_ns = result ? clock_wall_ns() : 0;
			for (size_t i = 0; i < rpc_value_len(result); i++)
				take_job(f->scene, rpc_value_at(result, i));
			scene_refresh(f->scene); /* the next snapshot may find memory again */
			f->has_changed = true;
		}
		return;
	case ASK_CANCEL: /* what it comes to will be seen */
		if (r < 0)
			scene_set_message(f->scene, "%s", err->text);
		f->has_changed = true;
		return;
	case ASK_SAMPLES: /* without them the curve begins where top did, until they come */
		if (result)
			take_samples(f, result);
		else
			f->refused_boot_ns = clock_boot_ns();
		return;
	case QUESTIONS:
		return;
	}
}

void daemon_feed_on_answer(void *ctx, uint64_t id, int r, const struct rpc_value *result,
			   const struct err *err)
{
	struct daemon_feed *f = ctx;

	for (size_t i = 0; i < QUESTIONS; i++) {
		if (f->asked[i].id != id)
			continue;
		f->asked[i].id = 0;
		take_answer(f, (enum question)i, r, result, err);
	}
}

/* ---- questions ---- */

static int ask(struct daemon_feed *f, enum question question, const char *method,
	       const char *params, struct err *err)
{
	uint64_t id, now = clock_boot_ns();
	int r = rpc_client_ask(f->client, method, params, &id, err);

	if (r == 0) {
		f->asked[question].id = id;
		f->asked[question].boot_ns = now;
	}
	return r;
}

static int connect_to(struct daemon_feed *f, struct err *err)
{
	const struct rpc_client_options options = {
		.timeout_ms = SEND_MS,
		.on_event = on_event,
		.text_topic = "snapshot",
		.on_text = on_snapshot,
		.on_answer = daemon_feed_on_answer,
		.ctx = f,
	};
	int r = rpc_client_open(&options, &f->client, err);
	char events[96] = "{\"limit\":4096}";

	memset(f->asked, 0, sizeof(f->asked));
	f->wants_page = false;
	f->tried_boot_ns = clock_boot_ns();
	/* All events that the daemon has, or since the last one that came: the newest may all be
	 * starts and exits, of which the scene keeps as many as there is room for beside others. */
	if (u64_known(f->last_event_ns))
		snprintf(events, sizeof(events), "{\"limit\":4096,\"since\":%.6f}",
			 (double)f->last_event_ns / 1e9);
	if (r == 0)
		r = ask(f, ASK_SUBSCRIBE, "events.subscribe", "{\"topics\":[\"*\"]}", err);
	if (r == 0)
		r = ask(f, ASK_EVENTS, "daemon.events", events, err);
	if (r == 0)
		r = ask(f, ASK_TOP, "daemon.top", NULL, err);
	if (r < 0)
		f->client = rpc_client_close(f->client);
	f->came_boot_ns = 0;
	f->is_count_old = f->are_jobs_old = true;
	return r;
}

/* One that is between two sheets may wait there, and no event says when that begins. */
static bool is_one_between(const struct scene *s)
{
	for (size_t i = 0; s->has_snap && i < s->snap.n_progress; i++)
		if (s->snap.progress[i].current_sheet == SHEET_NONE)
			return true;
	return false;
}

/* How many anomalies are going on, and which jobs there are. While the scene is paused, what was
 * listed then is shown, and asked for anew when the user goes on. */
static void ask_lists(struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns(), every_ns;

	if (is_paused(f)) {
		f->is_count_old = f->are_jobs_old = true;
		return;
	}
	if (!f->asked[ASK_ACTIVE].id &&
	    (f->is_count_old || now - f->counted_boot_ns >= ACTIVE_NS)) {
		f->is_count_old = false;
		f->counted_boot_ns = now;
		ask(f, ASK_ACTIVE, "resource.context", NULL, NULL);
	}
	every_ns = f->are_jobs_old ? AT_MOST_NS : is_one_between(f->scene) ? BETWEEN_NS : ACTIVE_NS;
	if (!f->asked[ASK_JOBS].id && (!f->listed_boot_ns || now - f->listed_boot_ns >= every_ns)) {
		f->are_jobs_old = false;
		f->listed_boot_ns = now;
		ask(f, ASK_JOBS, "job.list", NULL, NULL);
	}
}

static void ask_samples(struct daemon_feed *f)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;

	json_init_object(&j, &params);
	json_key_string(&j, "job_id", f->recall.job_id);
	if (f->recall.key.pid > 0)
		json_key_i64(&j, "pid", f->recall.key.pid);
	json_key_u64(&j, "since_ns", f->recall.since_wall_ns);
	json_key_u64(&j, "until_ns", f->recall.until_wall_ns);
	json_end_object(&j);
	f->wants_page = false;
	ask(f, ASK_SAMPLES, "job.samples", params.data, NULL); /* unsent, all is asked for anew */
}

static bool daemon_recall(void *ctx, struct scene *s, const struct node *node)
{
	struct daemon_feed *f = ctx;
	/* two may come at once, where something began between two ticks */
	uint64_t gap_ns = f->gap_ns > SECOND_NS ? f->gap_ns : SECOND_NS;

	if (!f->client || f->asked[ASK_SAMPLES].id || f->wants_page ||
	    (f->refused_boot_ns && clock_boot_ns() - f->refused_boot_ns < REFUSED_NS))
		return false;
	if (!recall_begin(&f->recall, s, node, gap_ns))
		return true;
	f->recall_pages = 0;
	ask_samples(f);
	return false;
}

/* ---- the state of the daemon ---- */

static void say_source(const struct daemon_feed *f, struct scene *s)
{
	pid_t pid = f->client ? rpc_client_daemon_pid(f->client) : 0;
	uint64_t now = clock_boot_ns(), silent_ns = 0;
	char who[32] = "daemon", how[64] = "";

	if (!f->client) {
		snprintf(s->source_note, sizeof(s->source_note), "%s: waiting for a daemon",
			 f->trouble[0] ? f->trouble : "the daemon is gone");
		return;
	}
	for (size_t i = 0; i < QUESTIONS; i++)
		if (f->asked[i].id && now - f->asked[i].boot_ns > silent_ns)
			silent_ns = now - f->asked[i].boot_ns;
	if (pid > 0)
		snprintf(who, sizeof(who), "daemon %d", (int)pid);
	if (silent_ns >= SILENT_NS)
		snprintf(how, sizeof(how), " has not answered for %llu s",
			 (unsigned long long)(silent_ns / SECOND_NS));
	snprintf(s->source_note, sizeof(s->source_note), "%s%s", who, how);
}

/* True: what is said of the daemon, or the age of a snapshot that is late, is not what it was. One
 * that is paused is as old as its user wants. */
static bool say_state(const struct daemon_feed *f, struct scene *s)
{
	uint64_t gap_ns = f->gap_ns > f->interval_ns ? f->gap_ns : f->interval_ns;
	uint64_t since_ns = f->came_boot_ns ? f->came_boot_ns : f->tried_boot_ns;
	uint64_t wall_ns = clock_wall_ns(), age = s->age_seconds;
	bool is_late = !f->client || clock_boot_ns() - since_ns > 2 * gap_ns + 2 * SECOND_NS;
	char before[SCENE_TEXT_BYTES];

	memcpy(before, s->source_note, sizeof(before));
	say_source(f, s);
	s->is_late = s->has_snap && is_late && !s->is_paused && wall_ns > s->snap.wall_ns;
	s->age_seconds = s->is_late ? (wall_ns - s->snap.wall_ns) / SECOND_NS : 0;
	return age != s->age_seconds || strcmp(before, s->source_note) != 0;
}

static int daemon_pump(void *ctx, struct scene *s, struct err *err)
{
	struct daemon_feed *f = ctx;
	struct err trouble = ERR_INIT;
	int r;

	f->scene = s;
	f->has_changed = false;
	if (!f->client && clock_boot_ns() - f->tried_boot_ns >= LOOK_MS * UINT64_C(1000000)) {
		r = connect_to(f, &trouble);
		snprintf(f->trouble, sizeof(f->trouble), "%.*s", (int)sizeof(f->trouble) - 1,
			 r < 0 && r != -ENOENT ? trouble.text : "");
	}
	if (f->client && rpc_client_listen(f->client, 0, NULL) != -ETIMEDOUT) {
		f->client = rpc_client_close(f->client);
		f->gone_boot_ns = f->tried_boot_ns = clock_boot_ns();
		f->trouble[0] = '\0';
		s->past.n_anomalies = U64_UNKNOWN;
		scene_forget_waiting(s);
		scene_refresh(s); /* rows point to them */
	}
	if (f->client)
		ask_lists(f);
	if (f->client && f->wants_page)
		ask_samples(f);
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
	json_init_object(&j, &params);
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

int feed_open_daemon(const struct tui_options *options, struct feed *ret, struct err *err)
{
	static const struct feed_ops ops = {
		.fd = daemon_fd,
		.pump = daemon_pump,
		.grant = daemon_grant,
		.recall = daemon_recall,
		.close = daemon_close,
	};
	struct daemon_feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->job_id = options->job_id;
	f->interval_ns = (uint64_t)(options->interval_seconds * 1e9);
	f->last_event_ns = U64_UNKNOWN;
	f->gap_ns = FIRST_GAP_NS;
	snapshot_init(&f->snap);
	r = connect_to(f, err);
	if (r < 0) {
		daemon_close(f);
		return r;
	}
	*ret = (struct feed){ &ops, f };
	return 0;
}
