/*
 * service_host_log - the daemon's own log, and which log a record belongs into.
 *
 * An attached tree has a log, which has all about it until its end. The daemon's own log has what
 * is of the host, and what the daemon alone knows of other attempts: signals, orphans and what
 * becomes of them. It is ingested as any other (store/ingest.h). Where it cannot be made, at each
 * tick it is tried again.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "daemon/follow/follow.h"

struct attached *attached_find(const struct service *s, int64_t attempt_id)
{
	struct attached *at = s->attached;

	while (at && at->attempt_id != attempt_id)
		at = at->next;
	return at;
}

void attached_flush(struct attached *at)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	if (at->n_pending == 0 || !at->log)
		return;
	record_write_list(&bytes, RECORD_LIST_EVENTS, at->pending, at->n_pending);
	attempt_log_append(at->log, RECORD_EVENTS, &bytes);
	at->n_pending = 0;
}

static void describe(void *ctx, struct buf *out)
{
	record_write_struct(out, &daemon_columns, ctx);
}

uint64_t service_tend_host_log(struct service *s)
{
	struct attempt self = { .uid = geteuid(),
				.started_wall_ns = clock_wall_ns(),
				.runner = s->record.key,
				.pid_ns = own_pid_ns() };
	const struct attempt_log_options options = { .db_path = s->database.path,
						     .a = &self,
						     .describe = describe,
						     .ctx = &s->record,
						     .is_host = true };
	struct err err = ERR_INIT;

	if (s->own.log && attempt_log_is_gone(s->own.log)) {
		s->n_records_lost += attempt_log_lost(s->own.log);
		s->own.log = attempt_log_close(s->own.log);
	}
	if (!s->own.log) {
		memcpy(self.boot_id, s->record.boot_id, sizeof(self.boot_id));
		if (attempt_log_open(&options, &s->own.log, &err) < 0 && !s->own.is_missing_logged)
			log_error("what is found out about the host is not recorded: %s", err.text);
		s->own.is_missing_logged = !s->own.log;
	}
	return s->own.log ? attempt_log_sync(s->own.log) : 0;
}

void service_close_host_log(struct service *s)
{
	struct err err = ERR_INIT;

	if (s->own.log)
		(void)attempt_log_end_host(s->own.log, clock_wall_ns(), clock_boot_ns(), &err);
	s->own.log = attempt_log_close(s->own.log);
}

bool service_log(struct service *s, int64_t attempt_id, enum record_type type,
		 const struct buf *record)
{
	struct attached *at = attempt_id ? attached_find(s, attempt_id) : NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct log_id about = { 0 };
	uint64_t uid;

	if (at && at->log) {
		attached_flush(at);
		attempt_log_append(at->log, type, record);
		return true;
	}
	if (!s->own.log || (attempt_id && !watch_log_of(s->watch, attempt_id, &about, &uid))) {
		s->n_records_lost++;
		return false;
	}
	buf_add(&out, about.bytes, sizeof(about.bytes));
	buf_add(&out, record->data, record->len);
	attempt_log_append(s->own.log, type, buf_error(record) < 0 ? record : &out);
	return true;
}

void service_log_anomaly(struct service *s, const struct episode *e, int change)
{
	CLEANUP(buf_release) struct buf record = BUF_INIT;

	record_write_anomaly(&record, e, change);
	(void)service_log(s, e->attempt_id, RECORD_ANOMALY, &record);
}

void service_log_event(struct service *s, int64_t attempt_id, const struct proc_event *ev)
{
	CLEANUP(buf_release) struct buf record = BUF_INIT;

	record_write_list(&record, RECORD_LIST_EVENTS, ev, 1);
	(void)service_log(s, attempt_id, RECORD_EVENTS, &record);
}
