#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "tui/daemon_event.h"
#include "tui/daemon_feed.h"
#include "tui/snapshot_json.h"

/* ---- what comes ---- */

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

/* One that comes a little early is in time. */
static bool is_due(const struct daemon_feed *f)
{
	return clock_boot_ns() - f->taken_boot_ns >= f->interval_ns - f->interval_ns / 10;
}

static void note_coming(struct daemon_feed *f)
{
	uint64_t now = clock_boot_ns();

	f->gap_ns = f->came_boot_ns ? now - f->came_boot_ns : DAEMON_FIRST_GAP_NS;
	f->came_boot_ns = now;
}

int daemon_feed_on_snapshot(void *ctx, struct json_cursor *data)
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
	f->are_jobs_old |= strncmp(topic, "job.", 4) == 0 || strncmp(topic, "sheet.", 6) == 0;
	daemon_event_tell(f->scene, topic, timestamp, data, is_again);
	f->has_changed = true;
}

int daemon_feed_on_event(void *ctx, const struct rpc_value *params)
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
		snprintf(f->trouble, sizeof(f->trouble), "%.*s", DAEMON_TROUBLE_BYTES - 1,
			 err->text);
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
	f->gap_ns = DAEMON_FIRST_GAP_NS;
	take_snapshot(f, &c);
}

static void answer_active(struct daemon_feed *f, int r, const struct rpc_value *result,
			  const struct err *err)
{
	const struct rpc_value *active = rpc_value_get(result, "anomalies_active");
	uint64_t n = r == 0 && rpc_value_is_list(active) ? rpc_value_len(active) : U64_UNKNOWN;

	(void)err;
	if (is_paused(f))
		return;
	if (f->job_id && u64_known(n))
		n = scene_count_flags(f->scene); /* it counts those of all jobs */
	f->has_changed |= n != f->scene->n_anomalies;
	f->scene->n_anomalies = n;
}

static uint64_t time_member(const struct rpc_value *v, const char *key)
{
	return daemon_event_ns(rpc_value_f64(rpc_value_get(v, key)));
}

/* Its beginning may be older than what the daemon tells of. */
static void take_sheet(struct daemon_feed *f, const char *job_id, int attempt_num,
		       const struct rpc_value *job)
{
	int num = daemon_event_number(job, "current_sheet");
	uint64_t sheet = outline_key_of_sheet(job_id, attempt_num, num);

	if (num == 0)
		return;
	scene_set_start(f->scene, sheet, time_member(job, "current_sheet_started"));
	scene_name_sheet(f->scene, sheet,
			 rpc_value_string(rpc_value_get(job, "current_sheet_name")));
}

static void take_held(struct daemon_feed *f, uint64_t key, const struct rpc_value *job)
{
	const char *why = rpc_value_string(rpc_value_get(job, "why_held"));

	if (why)
		scene_add_held(f->scene, key, why);
}

static void take_job(struct daemon_feed *f, const struct rpc_value *job)
{
	const char *job_id = rpc_value_string(rpc_value_get(job, "job_id"));
	const char *status = rpc_value_string(rpc_value_get(job, "status"));
	int attempt_num = daemon_event_number(job, "attempt");

	if (!job_id)
		return;
	if (status && strcmp(status, "queued") == 0) {
		scene_add_queued(f->scene, job_id, rpc_value_u64(rpc_value_get(job, "uid")),
				 rpc_value_string(rpc_value_get(job, "why_queued")));
		return;
	}
	scene_set_start(f->scene, track_key_of_attempt(job_id, attempt_num),
			time_member(job, "started"));
	take_sheet(f, job_id, attempt_num, job);
	take_held(f, track_key_of_attempt(job_id, attempt_num), job);
	f->scene->listed_jobs++;
	f->scene->listed_sheets += daemon_event_number(job, "current_sheet") > 0;
}

static void answer_jobs(struct daemon_feed *f, int r, const struct rpc_value *result,
			const struct err *err)
{
	(void)err;
	if (is_paused(f))
		return;
	scene_forget_queued(f->scene);
	f->scene->listed_jobs = f->scene->listed_sheets = 0;
	f->scene->listed_ns = r == 0 ? clock_wall_ns() : 0;
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

static struct proc_sample sample_of(const struct rpc_value *v)
{
	double rss_mb = rpc_value_f64(rpc_value_get(v, "rss_mb"));
	struct proc_sample p;

	proc_sample_init(&p);
	p.key.pid = daemon_event_number(v, "pid");
	p.key.start_ticks = rpc_value_u64(rpc_value_get(v, "start_ticks"));
	p.sheet_num = (int)rpc_value_i64(rpc_value_get(v, "sheet_num"), SHEET_NONE);
	p.rank = (int)rpc_value_i64(rpc_value_get(v, "rank"), RANK_NONE);
	if (rss_mb >= 0 && rss_mb < 1e12)
		p.rss_bytes = (uint64_t)(rss_mb * (1 << 20));
	return p;
}

#define MAX_PAGES 8 /* of samples, for one curve */

/* True: there is more, from then on. */
static bool has_more(struct daemon_feed *f, uint64_t next_ns)
{
	struct recall *r = &f->recall;

	if (!u64_known(next_ns) || next_ns <= r->since_wall_ns || next_ns > r->until_wall_ns ||
	    recall_is_full(r, next_ns) || ++f->recall_pages >= MAX_PAGES)
		return false;
	r->since_wall_ns = next_ns;
	return true;
}

static void take_samples(struct daemon_feed *f, const struct rpc_value *samples)
{
	for (size_t i = 0; i < rpc_value_len(samples); i++) {
		const struct rpc_value *v = rpc_value_at(samples, i);
		const struct proc_sample p = sample_of(v);

		recall_add(&f->recall, time_member(v, "timestamp"),
			   daemon_event_number(v, "attempt"), &p);
	}
}

/* Without them the curve begins where top did, until they are asked for again. */
static void answer_samples(struct daemon_feed *f, int r, const struct rpc_value *result,
			   const struct err *err)
{
	(void)err;
	if (r < 0) {
		f->refused_boot_ns = clock_boot_ns();
		return;
	}
	take_samples(f, rpc_value_get(result, "samples"));
	f->wants_page = has_more(f, rpc_value_u64(rpc_value_get(result, "next_ns")));
	if (f->wants_page)
		return;
	recall_end(&f->recall, f->scene);
	map_put(&f->scene->recalled, f->recall.id, 1); /* without memory it is asked again */
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
	[ASK_SAMPLES] = answer_samples,
};

void daemon_feed_on_answer(void *ctx, uint64_t id, int r, const struct rpc_value *result,
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
