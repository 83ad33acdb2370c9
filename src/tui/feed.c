#include "tui/feed.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/unknown.h"

#define MAX_EVENT_BYTES 16384 /* that are kept of one */

/* ---- events as JSON ---- */

uint64_t feed_time_ns(double seconds)
{
	return seconds > 0 && seconds < 1e10 ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

int feed_number(const struct rpc_value *v, const char *key)
{
	int64_t n = rpc_value_i64(rpc_value_get(v, key), 0);

	return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

bool feed_is_anomaly(const char *topic)
{
	return strncmp(topic, "monitor.", 8) == 0;
}

static const char *text_of(const struct rpc_value *data, const char *key)
{
	return rpc_value_string(rpc_value_get(data, key));
}

static uint64_t time_of(const struct rpc_value *data, const char *key)
{
	return feed_time_ns(rpc_value_f64(rpc_value_get(data, key)));
}

static enum event_kind kind_of(const char *topic, const struct rpc_value *data)
{
	static const char *const bad[] = { "failed", "cancelled", "process.oom", "process.kill",
					   "process.signal" };

	if (feed_is_anomaly(topic))
		return EVENT_KIND_ANOMALY;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (strstr(topic, bad[i]))
			return EVENT_KIND_TROUBLE;
	if (strncmp(topic, "process.", 8) != 0)
		return EVENT_KIND_JOB;
	if (strcmp(topic, "process.exit") == 0 &&
	    (rpc_value_i64(rpc_value_get(data, "exit_code"), 0) > 0 ||
	     rpc_value_i64(rpc_value_get(data, "signal_num"), -1) >= 0))
		return EVENT_KIND_TROUBLE;
	return EVENT_KIND_PROCESS;
}

/* "it grows by 60 MB a minute (memory_leak, high, of train)": the reason comes first, as there may
 * be no room for more. */
static void describe_anomaly(struct buf *out, const struct rpc_value *data)
{
	const char *change = text_of(data, "change"), *text = text_of(data, "description");
	const char *type = text_of(data, "anomaly_type");

	if (change && strcmp(change, "began") != 0)
		buf_printf(out, "%s: ", change);
	buf_printf(out, "%s (%s", text && text[0] ? text : "anomaly", type ? type : "-");
	if (text_of(data, "severity"))
		buf_printf(out, ", %s", text_of(data, "severity"));
	if (text_of(data, "job_id"))
		buf_printf(out, ", of %s", text_of(data, "job_id"));
	buf_add_char(out, ')');
}

/* The topic, and the members that an event may have in the order of a sentence. */
static void describe(struct buf *out, const char *topic, const struct rpc_value *data,
		     size_t *ret_which_at)
{
	static const struct {
		const char *key, *before;
		bool is_in_reason; /* the reason says it too */
	} members[] = {
		{ "pid", " pid ", false },	    { "job_id", " of ", false },
		{ "sheet_num", ", sheet ", false }, { "exit_code", ": exit code ", true },
		{ "signal", ": signal ", true },    { "signal_num", ": signal ", true },
		{ "reason", ": ", false },	    { "description", ": ", false },
		{ "details", ": ", false },
	};
	const char *reason = text_of(data, "reason");

	buf_add_str(out, topic);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const char *text = text_of(data, members[i].key);
		uint64_t number = rpc_value_u64(rpc_value_get(data, members[i].key));

		if (reason && reason[0] && members[i].is_in_reason)
			continue;
		if (text && text[0])
			buf_printf(out, "%s%s", members[i].before, text);
		else if (u64_known(number))
			buf_printf(out, "%s%llu", members[i].before, (unsigned long long)number);
		if (strcmp(members[i].key, "job_id") == 0)
			*ret_which_at = out->len;
	}
	if (strncmp(topic, "phase.", 6) == 0 && text_of(data, "name"))
		buf_printf(out, ": %s", text_of(data, "name"));
}

/* What an anomaly is about is flagged from when it began until it is over. */
static void set_flag(struct scene *s, const struct scene_event *event, const struct rpc_value *data)
{
	const char *episode = text_of(data, "episode"), *description = text_of(data, "description");
	const char *type = text_of(data, "anomaly_type"), *severity = text_of(data, "severity");
	uint64_t peak_ns = time_of(data, "peak");
	struct scene_flag flag = {
		.began_ns = time_of(data, "began"),
		.ended_ns = time_of(data, "ended"),
		.told_ns = u64_known(peak_ns) ? peak_ns : event->wall_ns, /* the text is of then */
		.process = event->process,
		.job = event->job,
	};

	if (!episode)
		return;
	flag.id = scene_flag_id(episode);
	snprintf(flag.text, sizeof(flag.text), "%s", description ? description : "-");
	snprintf(flag.kind, sizeof(flag.kind), "%s, %s", type ? type : "-",
		 severity ? severity : "-");
	scene_set_flag(s, &flag);
}

static bool is_in_timeline(const struct scene *s, const struct scene_event *event)
{
	for (size_t i = 0; i < s->n_events; i++)
		if (s->events[i].wall_ns == event->wall_ns &&
		    s->events[i].process == event->process &&
		    strcmp(s->events[i].text, event->text) == 0)
			return true;
	return false;
}

void feed_add_event(struct scene *s, const char *topic, uint64_t wall_ns,
		    const struct rpc_value *data, bool is_again)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	const struct proc_key key = { (pid_t)rpc_value_i64(rpc_value_get(data, "pid"), 0),
				      rpc_value_u64(rpc_value_get(data, "start_ticks")) };
	const char *job_id = text_of(data, "job_id");
	int sheet_num = feed_number(data, "sheet_num");
	struct scene_event event = {
		.wall_ns = wall_ns,
		.kind = kind_of(topic, data),
		.process = key.pid > 0 ? track_key_of_process(&key) : 0,
		.job = job_id ? track_key_of_job(job_id) : 0,
	};
	struct json j;

	if (s->job_id && job_id && strcmp(job_id, s->job_id) != 0)
		return;
	if (strcmp(topic, "sheet.started") == 0 && job_id && sheet_num > 0) {
		uint64_t sheet =
			outline_key_of_sheet(job_id, feed_number(data, "attempt"), sheet_num);

		scene_set_start(s, sheet, wall_ns);
		scene_name_sheet(s, sheet, text_of(data, "name"));
	}
	if (event.kind == EVENT_KIND_ANOMALY) {
		set_flag(s, &event, data);
		describe_anomaly(&text, data);
	} else {
		describe(&text, topic, data, &event.which_at);
	}
	snprintf(event.text, sizeof(event.text), "%s", buf_error(&text) == 0 ? text.data : topic);
	if (event.job && event.which_at > 0 && event.which_at <= strlen(event.text))
		event.attempt_num = feed_number(data, "attempt");
	json_init(&j, &all);
	rpc_value_write(data, &j);
	event.json = buf_error(&all) == 0 && all.len < MAX_EVENT_BYTES ? all.data : NULL;
	if (!is_again || !is_in_timeline(s, &event))
		scene_add_event(s, &event);
}

/* ---- events of the database: in the words in which the bus has them ---- */

static void tell_json(struct scene *s, const char *topic, uint64_t wall_ns, const struct buf *json,
		      bool is_again)
{
	static const struct rpc_value_limits limits = { 64, 100000 };
	struct rpc_value *data = NULL;

	if (buf_error(json) < 0 || rpc_value_parse(json->data, json->len, &limits, &data, NULL) < 0)
		return; /* without memory it is left out */
	feed_add_event(s, topic, wall_ns, data, is_again);
	rpc_value_free(data);
}

void feed_add_process_event(struct scene *s, const struct proc_event *event)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	char topic[64];
	struct json j;

	if (s->is_text && (event->type == EVENT_SPAWN ||
			   (event->type == EVENT_EXIT && event->status.exit_code <= 0 &&
			    event->status.signal < 0)))
		return; /* text has no births and quiet deaths: there may be millions */
	snprintf(topic, sizeof(topic), "process.%s", event_type_name(event->type));
	json_init(&j, &all);
	proc_event_write_json(&j, event);
	tell_json(s, topic, event->wall_ns, &all, false);
}

void feed_add_change(struct scene *s, enum change change, const struct attempt *a,
		     const struct sheet_record *sheet, bool is_again)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct json j;

	json_init(&j, &all);
	json_begin_object(&j);
	change_write_fields(&j, change, a, sheet);
	json_end_object(&j);
	tell_json(s, topic_name(change_topic(change, a, sheet)), change_time(change, a, sheet),
		  &all, is_again);
}

void feed_add_phase(struct scene *s, const struct phase_row *row, bool is_exit)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct json j;

	json_init(&j, &all);
	json_begin_object(&j);
	json_key_string(&j, "job_id", row->job_id);
	json_key_i64(&j, "attempt", row->attempt_num);
	phase_record_write_fields(&j, &row->phase);
	json_end_object(&j);
	tell_json(s, topic_name(is_exit ? TOPIC_PHASE_EXIT : TOPIC_PHASE_ENTER),
		  is_exit ? row->phase.left_wall_ns : row->phase.entered_wall_ns, &all, false);
}

int feed_each_change(const struct attempt *a, feed_change_fn *fn, void *ctx)
{
	int r = attempt_has_begun(a) ? fn(ctx, CHANGE_JOB_STARTED, a, NULL) : 0;

	for (size_t i = 0; r == 0 && i < a->n_sheets; i++) {
		r = fn(ctx, CHANGE_SHEET_STARTED, a, &a->sheets[i]);
		if (r == 0 && u64_known(a->sheets[i].ended_wall_ns))
			r = fn(ctx, CHANGE_SHEET_ENDED, a, &a->sheets[i]);
	}
	if (r == 0 && u64_known(a->ended_wall_ns))
		r = fn(ctx, CHANGE_JOB_ENDED, a, NULL);
	return r;
}

void feed_note_start(struct scene *s, enum change change, const struct attempt *a,
		     const struct sheet_record *sheet, int attempt_num)
{
	uint64_t wall_ns = change_time(change, a, sheet);

	if (change == CHANGE_JOB_STARTED) {
		scene_set_start(s, track_key_of_attempt(a->job_id, attempt_num), wall_ns);
	} else if (change == CHANGE_SHEET_STARTED) {
		uint64_t key = outline_key_of_sheet(a->job_id, attempt_num, sheet->num);

		scene_set_start(s, key, wall_ns);
		scene_name_sheet(s, key, sheet->name);
	}
}

/* ---- anomalies of the database ---- */

uint64_t feed_anomaly_end(const struct anomaly_row *row, uint64_t attempt_end_ns)
{
	const struct episode_moment *last =
		row->n_changes > 0 ? &row->changes[row->n_changes - 1] : NULL;
	uint64_t cleared_ns = last && last->change == EPISODE_CLEARED ? last->wall_ns : U64_UNKNOWN;

	return u64_known(row->episode.ended_wall_ns)
		       ? u64_max_known(row->episode.ended_wall_ns, cleared_ns)
		       : attempt_end_ns;
}

/* In the words of the last change up to then, and while it lasted; where none is noted, as it was
 * last. */
static void recall_episode(const struct anomaly_row *row, uint64_t until_ns, uint64_t ended_ns,
			   struct episode *ret)
{
	episode_copy(ret, &row->episode);
	for (size_t i = row->n_changes; i-- > 0;)
		if (row->changes[i].change != EPISODE_CLEARED &&
		    (i == 0 || row->changes[i].wall_ns <= until_ns)) {
			episode_recall(ret, &row->changes[i]);
			break;
		}
	ret->ended_wall_ns = ended_ns;
}

static void tell_episode(struct scene *s, const struct episode *e, enum episode_change change,
			 bool is_again)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	uint64_t wall_ns = episode_change_time(e, change);
	struct json j;

	json_init(&j, &all);
	episode_write_event(&j, e, change, wall_ns);
	tell_json(s, "monitor.anomaly", wall_ns, &all, is_again);
}

/* With times that JSON would round. */
static void flag_episode(struct scene *s, const struct episode *e)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
	struct scene_flag flag = {
		.id = scene_flag_id(e->name),
		.began_ns = e->began_wall_ns,
		.ended_ns = e->ended_wall_ns,
		.told_ns = e->peak_wall_ns,
		.process = e->worst.has_pid ? track_key_of_process(&key) : 0,
		.job = e->worst.job_id ? track_key_of_job(e->worst.job_id) : 0,
	};

	snprintf(flag.text, sizeof(flag.text), "%s", e->worst.text);
	snprintf(flag.kind, sizeof(flag.kind), "%s, %s", anomaly_type_name(e->worst.type),
		 severity_name(e->worst.severity));
	scene_set_flag(s, &flag);
}

static bool is_within(uint64_t wall_ns, uint64_t after_ns, uint64_t until_ns)
{
	return wall_ns > after_ns && wall_ns <= until_ns;
}

void feed_add_anomaly(struct scene *s, const struct anomaly_row *row, uint64_t ended_ns,
		      uint64_t told_ns, uint64_t until_ns, bool is_again)
{
	struct episode e;

	if (ended_ns <= told_ns || row->episode.began_wall_ns > until_ns)
		return; /* it was over by then, or is still to come */
	if (is_within(row->episode.began_wall_ns, told_ns, until_ns)) {
		recall_episode(row, row->episode.began_wall_ns, ended_ns, &e);
		tell_episode(s, &e, EPISODE_BEGAN, is_again);
	}
	for (size_t i = 0; i < row->n_changes; i++) {
		if (row->changes[i].change != EPISODE_ESCALATED ||
		    !is_within(row->changes[i].wall_ns, told_ns, until_ns))
			continue;
		recall_episode(row, row->changes[i].wall_ns, ended_ns, &e);
		tell_episode(s, &e, EPISODE_ESCALATED, is_again);
	}
	if (is_within(ended_ns, told_ns, until_ns)) {
		episode_copy(&e, &row->episode);
		if (row->n_changes > 0 &&
		    row->changes[row->n_changes - 1].change == EPISODE_CLEARED)
			episode_recall(&e, &row->changes[row->n_changes - 1]);
		if (!u64_known(e.ended_wall_ns))
			e.ended_wall_ns = ended_ns;
		tell_episode(s, &e, EPISODE_CLEARED, is_again);
	}
	recall_episode(row, until_ns, ended_ns, &e);
	flag_episode(s, &e);
}

/* ---- recall ---- */

#define MAX_SAMPLES 1024 /* that are read for one curve: a megabyte or so of a daemon's answers */
#define MAX_READ 16384	 /* of more processes than there are now */
#define LEAST_POINTS 8	 /* fewer are no curve */

bool recall_begin(struct recall *r, const struct scene *s, const struct node *node, uint64_t gap_ns)
{
	size_t n = node->p || node->n_processes == 0 ? 1 : node->n_processes;
	size_t points = MAX_SAMPLES / n < TRACK_POINTS ? MAX_SAMPLES / n : TRACK_POINTS;
	const struct track *track = tracks_find(&s->tracks, node->id);
	uint64_t seen_ns = track && track->n > 0 ? track_wall_ns(track, 0) : s->snap.wall_ns;
	uint64_t span_ns = points * gap_ns;

	if (!node->job_id || node->queued || points < LEAST_POINTS)
		return false;
	*r = (struct recall){
		.id = node->id,
		.attempt_num = node->attempt_num,
		.sheet_num = node->sheet_num,
		.rank = node->rank,
		.since_wall_ns = seen_ns > span_ns ? seen_ns - span_ns : 1,
		.until_wall_ns = seen_ns - 1,
	};
	if (node->p)
		r->key = node->p->key;
	snprintf(r->job_id, sizeof(r->job_id), "%s", node->job_id);
	return true;
}

/* A process is known by itself, whatever sheet it was in. */
static bool is_recalled(const struct recall *r, int attempt_num, const struct proc_sample *p)
{
	if (r->key.pid)
		return p->key.pid == r->key.pid && p->key.start_ticks == r->key.start_ticks;
	return (r->attempt_num == 0 || attempt_num == r->attempt_num) &&
	       (r->sheet_num == SHEET_NONE || p->sheet_num == r->sheet_num) &&
	       (r->rank == RANK_NONE || p->rank == r->rank);
}

void recall_add(struct recall *r, uint64_t wall_ns, int attempt_num, const struct proc_sample *p)
{
	r->n_read++;
	r->read_wall_ns = wall_ns;
	if (wall_ns > r->until_wall_ns || !u64_known(p->rss_bytes) ||
	    !is_recalled(r, attempt_num, p))
		return;
	if (r->n == 0 || r->points[r->n - 1].wall_ns != wall_ns) {
		if (r->n == TRACK_POINTS)
			memmove(r->points, r->points + 1, --r->n * sizeof(*r->points));
		r->points[r->n++] = (struct track_point){ wall_ns, 0 };
	}
	r->points[r->n - 1].rss_bytes += (double)p->rss_bytes;
}

bool recall_is_full(const struct recall *r, uint64_t wall_ns)
{
	return r->n_read >= MAX_READ && wall_ns != r->read_wall_ns;
}

void recall_end(const struct recall *r, struct scene *s)
{
	tracks_put_before(&s->tracks, r->id, r->points, r->n);
}
