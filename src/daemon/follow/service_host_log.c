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
	struct err err = ERR_INIT;

	if (s->own.log && attempt_log_is_gone(s->own.log)) {
		s->n_records_lost += attempt_log_lost(s->own.log);
		s->own.log = attempt_log_close(s->own.log);
	}
	if (!s->own.log) {
		memcpy(self.boot_id, s->record.boot_id, sizeof(self.boot_id));
		if (attempt_log_open_host(s->database.path, &self, describe, &s->record,
					  &s->own.log, &err) < 0 &&
		    !s->own.is_missing_logged)
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

/* The log of what is about this attempt (0: the host), and in out how its records begin there.
 * NULL: there is none, and the record is lost. */
static struct attempt_log *find_log(struct service *s, int64_t attempt_id, struct buf *out)
{
	struct attached *at = attempt_id ? attached_find(s, attempt_id) : NULL;
	struct log_id about = { 0 };
	uint64_t uid;

	if (at && at->log) {
		attached_flush(at);
		return at->log;
	}
	if (!s->own.log || (attempt_id && !watch_log_of(s->watch, attempt_id, &about, &uid))) {
		s->n_records_lost++;
		return NULL;
	}
	buf_add(out, about.bytes, sizeof(about.bytes));
	return s->own.log;
}

void service_log_anomaly(struct service *s, const struct episode *e, int change)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt_log *log = find_log(s, e->attempt_id, &out);

	record_write_anomaly(&out, e, change);
	if (log)
		attempt_log_append(log, RECORD_ANOMALY, &out);
}

void service_log_evidence(struct service *s, int64_t attempt_id, const char *episode,
			  const struct anomaly_evidence *evidence)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt_log *log = find_log(s, attempt_id, &out);

	record_write_evidence(&out, episode, evidence);
	if (log)
		attempt_log_append(log, RECORD_EVIDENCE, &out);
}

bool service_log_event(struct service *s, int64_t attempt_id, const struct proc_event *ev)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt_log *log = find_log(s, attempt_id, &out);

	record_write_list(&out, RECORD_LIST_EVENTS, ev, 1);
	if (log)
		attempt_log_append(log, RECORD_EVENTS, &out);
	return log != NULL;
}

void service_log_lost_phases(struct service *s, int64_t attempt_id, uint64_t n)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt_log *log = find_log(s, attempt_id, &out);

	record_write_phases(&out, NULL, 0);
	record_write_number(&out, n);
	if (log)
		attempt_log_append(log, RECORD_PHASES, &out);
}

bool service_log_calls(struct service *s, const struct attempt *a, const char *why_not_all)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt_log *log = find_log(s, a->id, &out);

	record_write_details(&out, a, why_not_all);
	if (log)
		attempt_log_append(log, RECORD_CALLS, &out);
	return log != NULL;
}
