#include <stdio.h>

#include "base/buf.h"
#include "report/report.h"
#include "tui/feed.h"

static enum event_kind kind_of(const struct proc_event *event)
{
	bool is_bad = event->type == EVENT_OOM || event->type == EVENT_KILL ||
		      event->type == EVENT_SIGNAL ||
		      (event->type == EVENT_EXIT &&
		       (event->status.signal >= 0 || event->status.exit_code > 0));

	return is_bad ? EVENT_KIND_TROUBLE : EVENT_KIND_PROCESS;
}

void feed_tell_process_event(struct scene *s, const struct proc_event *event)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	buf_printf(&text, "%s pid %d", event_type_name(event->type), (int)event->key.pid);
	if (event->job_id)
		buf_printf(&text, " of %s", event->job_id);
	if (event->type == EVENT_EXIT) {
		buf_add_str(&text, ": ");
		report_add_status(&text, event->status);
	}
	if (event->details && event->details[0])
		buf_printf(&text, " (%s)", event->details);
	scene_add_event(s, event->wall_ns, kind_of(event), text.data);
}

void feed_tell_anomaly(struct scene *s, const struct episode *e)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	buf_printf(&text, "%s, %s", anomaly_type_name(e->worst.type),
		   severity_name(e->worst.severity));
	if (e->worst.job_id)
		buf_printf(&text, " of %s", e->worst.job_id);
	buf_printf(&text, ": %s", e->worst.text);
	if (buf_error(&text) == 0)
		scene_add_event(s, e->began_wall_ns, EVENT_KIND_ANOMALY, text.data);
}
