#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "tui/feed.h"

static enum event_kind kind_of(const struct proc_event *event)
{
	bool is_bad = event->type == EVENT_OOM || event->type == EVENT_KILL ||
		      event->type == EVENT_SIGNAL ||
		      (event->type == EVENT_EXIT &&
		       (event->status.signal >= 0 || event->status.exit_code > 0));

	return is_bad ? EVENT_KIND_TROUBLE : EVENT_KIND_PROCESS;
}

static uint64_t key_of_job(const char *job_id)
{
	return job_id ? track_key_of_job(job_id) : 0;
}

/* Cut where it is too long. */
static void add_event(struct scene *s, struct scene_event *event, const struct buf *text,
		      struct buf *json)
{
	if (buf_error(text) < 0)
		return;
	snprintf(event->text, sizeof(event->text), "%s", text->data);
	if (event->which_at > strlen(event->text))
		event->attempt_num = 0; /* it is cut before */
	event->json = buf_error(json) == 0 ? json->data : NULL;
	scene_add_event(s, event);
}

/* In the words in which a daemon's are told (daemon_event.c). */
static void describe_process_event(struct buf *out, const struct proc_event *event)
{
	buf_printf(out, "process.%s pid %d", event_type_name(event->type), (int)event->key.pid);
	if (event->job_id)
		buf_printf(out, " of %s", event->job_id);
	if (event->sheet_num != SHEET_NONE)
		buf_printf(out, ", sheet %d", event->sheet_num);
	if (event->status.exit_code >= 0)
		buf_printf(out, ": exit code %d", event->status.exit_code);
	if (event->status.signal >= 0)
		buf_printf(out, ": signal %d", event->status.signal);
	if (event->details && event->details[0])
		buf_printf(out, ": %s", event->details);
}

void feed_tell_process_event(struct scene *s, const struct proc_event *event)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct json j;

	describe_process_event(&text, event);
	json_init(&j, &all);
	proc_event_write_json(&j, event);
	add_event(s,
		  &(struct scene_event){ .wall_ns = event->wall_ns,
					 .kind = kind_of(event),
					 .process = track_key_of_process(&event->key),
					 .job = key_of_job(event->job_id) },
		  &text, &all);
}

static enum event_kind kind_of_topic(enum topic topic)
{
	return topic == TOPIC_JOB_FAILED || topic == TOPIC_JOB_CANCELLED ||
			       topic == TOPIC_SHEET_FAILED
		       ? EVENT_KIND_TROUBLE
		       : EVENT_KIND_JOB;
}

void feed_tell_change(struct scene *s, enum change change, const struct attempt *a,
		      const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	enum topic topic = change_topic(change, a, sheet);
	bool is_end = change == CHANGE_JOB_ENDED || change == CHANGE_SHEET_ENDED;
	const char *reason = !is_end ? NULL : sheet ? sheet->reason : a->reason;
	size_t which_at;
	struct json j;

	buf_printf(&text, "%s of %s", topic_name(topic), a->job_id);
	which_at = text.len;
	if (sheet)
		buf_printf(&text, ", sheet %d", sheet->num);
	if (reason && reason[0])
		buf_printf(&text, ": %s", reason);
	json_init(&j, &all);
	json_begin_object(&j);
	change_write_fields(&j, change, a, sheet);
	json_end_object(&j);
	add_event(s,
		  &(struct scene_event){ .wall_ns = change_time(change, a, sheet),
					 .kind = kind_of_topic(topic),
					 .job = key_of_job(a->job_id),
					 .attempt_num = a->attempt_num,
					 .which_at = which_at },
		  &text, &all);
}

void feed_describe_anomaly(struct buf *out, const char *text, const char *type,
			   const char *severity, const char *job_id)
{
	buf_printf(out, "%s (%s", text && text[0] ? text : "anomaly", type ? type : "-");
	if (severity)
		buf_printf(out, ", %s", severity);
	if (job_id)
		buf_printf(out, ", of %s", job_id);
	buf_add_char(out, ')');
}

static void describe(struct buf *out, const struct episode *e)
{
	feed_describe_anomaly(out, e->worst.text, anomaly_type_name(e->worst.type),
			      severity_name(e->worst.severity), e->worst.job_id);
}

static uint64_t key_of_culprit(const struct episode *e)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };

	return e->worst.has_pid ? track_key_of_process(&key) : 0;
}

void feed_flag_anomaly(struct scene *s, const struct episode *e)
{
	struct scene_flag flag = {
		.id = scene_flag_id(e->name),
		.began_ns = e->began_wall_ns,
		.ended_ns = e->ended_wall_ns,
		.told_ns = e->peak_wall_ns,
		.process = key_of_culprit(e),
		.job = key_of_job(e->worst.job_id),
	};

	snprintf(flag.text, sizeof(flag.text), "%s", e->worst.text);
	snprintf(flag.kind, sizeof(flag.kind), "%s, %s", anomaly_type_name(e->worst.type),
		 severity_name(e->worst.severity));
	scene_set_flag(s, &flag);
}

void feed_recall_episode(const struct anomaly_row *row, uint64_t until_ns, struct episode *ret)
{
	episode_copy(ret, &row->episode);
	for (size_t i = row->n_changes; i-- > 0;)
		if (row->changes[i].change != EPISODE_CLEARED &&
		    (i == 0 || row->changes[i].wall_ns <= until_ns)) {
			episode_recall(ret, &row->changes[i]);
			return;
		}
}

void feed_recall_end(const struct anomaly_row *row, struct episode *ret)
{
	episode_copy(ret, &row->episode);
	if (row->n_changes > 0 && row->changes[row->n_changes - 1].change == EPISODE_CLEARED)
		episode_recall(ret, &row->changes[row->n_changes - 1]);
}

void feed_tell_anomaly(struct scene *s, const struct episode *e, enum episode_change change)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	uint64_t wall_ns = episode_change_time(e, change);
	struct json j;

	feed_flag_anomaly(s, e);
	if (change != EPISODE_BEGAN)
		buf_printf(&text, "%s: ", episode_change_name(change));
	describe(&text, e);
	json_init(&j, &all);
	episode_write_event(&j, e, change, wall_ns);
	add_event(s,
		  &(struct scene_event){
			  .wall_ns = wall_ns,
			  .kind = EVENT_KIND_ANOMALY,
			  .process = key_of_culprit(e),
			  .job = key_of_job(e->worst.job_id),
		  },
		  &text, &all);
}
