#include "tui/daemon_event.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "tui/feed.h"

#define MAX_EVENT_BYTES 16384 /* that are kept of one */

bool daemon_event_is_anomaly(const char *topic)
{
	return strncmp(topic, "monitor.", 8) == 0;
}

/* As they are coloured when they are replayed (feed_event.c). */
static bool is_bad_exit(const struct rpc_value *data)
{
	return rpc_value_i64(rpc_value_get(data, "exit_code"), 0) > 0 ||
	       rpc_value_i64(rpc_value_get(data, "signal_num"), -1) >= 0;
}

static enum event_kind kind_of(const char *topic, const struct rpc_value *data)
{
	static const char *const bad[] = { "failed", "cancelled", "process.oom", "process.kill",
					   "process.signal" };

	if (daemon_event_is_anomaly(topic))
		return EVENT_KIND_ANOMALY;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (strstr(topic, bad[i]))
			return EVENT_KIND_TROUBLE;
	if (strncmp(topic, "process.", 8) != 0)
		return EVENT_KIND_JOB;
	return strcmp(topic, "process.exit") == 0 && is_bad_exit(data) ? EVENT_KIND_TROUBLE
								       : EVENT_KIND_PROCESS;
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

static const char *text_of(const struct rpc_value *data, const char *key)
{
	return rpc_value_string(rpc_value_get(data, key));
}

/* The members that an event may have, in the order of a sentence. */
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

/* Of the job that is looked at, or of the host. */
static bool is_wanted(const struct scene *s, const struct rpc_value *data)
{
	const char *job_id = text_of(data, "job_id");

	return !s->job_id || !job_id || strcmp(job_id, s->job_id) == 0;
}

uint64_t daemon_event_ns(double seconds)
{
	return seconds > 0 && seconds < 1e10 ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN;
}

int daemon_event_number(const struct rpc_value *v, const char *key)
{
	int64_t n = rpc_value_i64(rpc_value_get(v, key), 0);

	return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

static struct scene_event event_of(const char *topic, double timestamp,
				   const struct rpc_value *data)
{
	const struct proc_key key = { (pid_t)rpc_value_i64(rpc_value_get(data, "pid"), 0),
				      rpc_value_u64(rpc_value_get(data, "start_ticks")) };
	const char *job_id = text_of(data, "job_id");

	return (struct scene_event){
		.wall_ns = daemon_event_ns(timestamp),
		.kind = kind_of(topic, data),
		.process = key.pid > 0 ? track_key_of_process(&key) : 0,
		.job = job_id ? track_key_of_job(job_id) : 0,
	};
}

/* An anomaly: what it is about is flagged from when it began until it is over. */
static void set_flag(struct scene *s, const struct scene_event *event, const struct rpc_value *data)
{
	const char *episode = text_of(data, "episode"), *description = text_of(data, "description");
	const char *type = text_of(data, "anomaly_type"), *severity = text_of(data, "severity");
	uint64_t peak_ns = daemon_event_ns(rpc_value_f64(rpc_value_get(data, "peak")));
	struct scene_flag flag = {
		.began_ns = daemon_event_ns(rpc_value_f64(rpc_value_get(data, "began"))),
		.ended_ns = daemon_event_ns(rpc_value_f64(rpc_value_get(data, "ended"))),
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

static void set_start(struct scene *s, const struct scene_event *event,
		      const struct rpc_value *data)
{
	int num = daemon_event_number(data, "sheet_num");
	uint64_t sheet;

	if (!event->job || num == 0)
		return;
	sheet = outline_key_of_sheet(text_of(data, "job_id"), daemon_event_number(data, "attempt"),
				     num);
	scene_set_start(s, sheet, event->wall_ns);
	scene_name_sheet(s, sheet, text_of(data, "name"));
}

/* What was asked for again may have been told before. */
static bool was_told(const struct scene *s, const struct scene_event *event)
{
	for (size_t i = 0; i < s->n_events; i++) {
		const struct scene_event *told = &s->events[i];

		if (told->wall_ns == event->wall_ns && strcmp(told->text, event->text) == 0)
			return true;
	}
	return false;
}

static void add_anomaly(struct buf *out, const struct rpc_value *data)
{
	const char *change = text_of(data, "change");

	if (change && strcmp(change, "began") != 0)
		buf_printf(out, "%s: ", change);
	feed_describe_anomaly(out, text_of(data, "description"), text_of(data, "anomaly_type"),
			      text_of(data, "severity"), text_of(data, "job_id"));
}

static void add_members(struct buf *out, const char *topic, const struct rpc_value *data,
			size_t *ret_which_at)
{
	const char *reason = text_of(data, "reason");

	buf_add_str(out, topic);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (!reason || !reason[0] || !members[i].is_in_reason)
			add_member(out, data, members[i].key, members[i].before);
		if (strcmp(members[i].key, "job_id") == 0)
			*ret_which_at = out->len;
	}
}

/* In one line, and all of it as JSON. */
static void describe(const char *topic, const struct rpc_value *data, struct scene_event *event,
		     struct buf *all)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	if (event->kind == EVENT_KIND_ANOMALY)
		add_anomaly(&text, data);
	else
		add_members(&text, topic, data, &event->which_at);
	json_init(&j, all);
	rpc_value_write(data, &j);
	snprintf(event->text, sizeof(event->text), "%s", buf_error(&text) == 0 ? text.data : topic);
	if (event->job && event->which_at > 0 && event->which_at <= strlen(event->text))
		event->attempt_num = daemon_event_number(data, "attempt");
	event->json = buf_error(all) == 0 && all->len < MAX_EVENT_BYTES ? all->data : NULL;
}

void daemon_event_tell(struct scene *s, const char *topic, double timestamp,
		       const struct rpc_value *data, bool is_again)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct scene_event event = event_of(topic, timestamp, data);

	if (!is_wanted(s, data))
		return;
	if (event.kind == EVENT_KIND_ANOMALY)
		set_flag(s, &event, data);
	if (strcmp(topic, "sheet.started") == 0)
		set_start(s, &event, data);
	describe(topic, data, &event, &all);
	if (!is_again || !was_told(s, &event))
		scene_add_event(s, &event);
}

void daemon_event_tell_loss(struct scene *s, uint64_t n)
{
	struct scene_event event = { .wall_ns = clock_wall_ns(), .kind = EVENT_KIND_TROUBLE };

	if (u64_known(n))
		snprintf(event.text, sizeof(event.text), "%llu event%s lost on the way here",
			 (unsigned long long)n, n == 1 ? " was" : "s were");
	else
		snprintf(event.text, sizeof(event.text), "events were lost on the way here");
	scene_add_event(s, &event);
}
