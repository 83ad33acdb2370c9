#include "bus/bus.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "base/unknown.h"
#include "base/utf8.h"

/* ---- topics ---- */

#define EVERYTHING "*"

/* What a topic is called, and the pattern of the family it belongs to (NULL: none). */
static const struct {
	const char *name;
	const char *family;
} table[] = {
	[TOPIC_SNAPSHOT] = { "snapshot", NULL },
	[TOPIC_ANOMALY] = { "monitor.anomaly", "monitor.*" },
	[TOPIC_SHEET_STARTED] = { "sheet.started", "sheet.*" },
	[TOPIC_SHEET_COMPLETED] = { "sheet.completed", "sheet.*" },
	[TOPIC_SHEET_FAILED] = { "sheet.failed", "sheet.*" },
	[TOPIC_JOB_QUEUED] = { "job.queued", "job.*" },
	[TOPIC_JOB_HELD] = { "job.held", "job.*" },
	[TOPIC_JOB_STARTED] = { "job.started", "job.*" },
	[TOPIC_JOB_COMPLETED] = { "job.completed", "job.*" },
	[TOPIC_JOB_FAILED] = { "job.failed", "job.*" },
	[TOPIC_JOB_CANCELLED] = { "job.cancelled", "job.*" },
	[TOPIC_PROCESS_SPAWN] = { "process.spawn", "process.*" },
	[TOPIC_PROCESS_EXIT] = { "process.exit", "process.*" },
	[TOPIC_PROCESS_SIGNAL] = { "process.signal", "process.*" },
	[TOPIC_PROCESS_KILL] = { "process.kill", "process.*" },
	[TOPIC_PROCESS_OOM] = { "process.oom", "process.*" },
	[TOPIC_PROCESS_ORPHAN] = { "process.orphan", "process.*" },
	[TOPIC_PHASE_ENTER] = { "phase.enter", "phase.*" },
	[TOPIC_PHASE_EXIT] = { "phase.exit", "phase.*" },
	[TOPIC_PATTERN] = { "learn.pattern", "learn.*" },
};

_Static_assert(ARRAY_SIZE(table) == N_TOPICS, "every topic has a row");
_Static_assert(N_TOPICS <= sizeof(unsigned) * CHAR_BIT, "every topic has a bit");

const char *topic_name(enum topic topic)
{
	return table[topic].name;
}

static int refuse(const char *pattern, struct err *err)
{
	CLEANUP(buf_release) struct buf all = BUF_INIT;
	struct suggest s = suggest_for(pattern);
	char quoted[UTF8_QUOTED_BYTES];

	for (size_t i = 0; i < N_TOPICS; i++) {
		suggest_offer(&s, table[i].name);
		if (table[i].family)
			suggest_offer(&s, table[i].family);
	}
	utf8_quote(pattern, quoted);
	if (s.best)
		return err_set(err, -EINVAL, "no topic %s; did you mean '%s'?", quoted, s.best);
	for (size_t i = 0; i < N_TOPICS; i++)
		buf_printf(&all, "%s%s", i == 0 ? "" : ", ", table[i].name);
	return err_set(err, -EINVAL, "no topic %s; there are %s", quoted, all.data);
}

int topics_add(const char *pattern, unsigned *topics, struct err *err)
{
	unsigned chosen = 0;

	for (size_t i = 0; i < N_TOPICS; i++)
		if (strcmp(pattern, EVERYTHING) == 0 || strcmp(pattern, table[i].name) == 0 ||
		    (table[i].family && strcmp(pattern, table[i].family) == 0))
			chosen |= topic_bit((enum topic)i);
	if (!chosen)
		return refuse(pattern, err);
	*topics |= chosen;
	return 0;
}

/* ---- changes ---- */

enum topic change_topic(enum change change, const struct attempt *a,
			const struct sheet_record *sheet)
{
	switch (change) {
	case CHANGE_JOB_STARTED:
		return TOPIC_JOB_STARTED;
	case CHANGE_SHEET_STARTED:
		return TOPIC_SHEET_STARTED;
	case CHANGE_SHEET_ENDED:
		return sheet->outcome == OUTCOME_SUCCESS ? TOPIC_SHEET_COMPLETED
							 : TOPIC_SHEET_FAILED;
	case CHANGE_JOB_ENDED:
		break;
	}
	if (a->outcome == OUTCOME_CANCELLED)
		return TOPIC_JOB_CANCELLED;
	return a->outcome == OUTCOME_SUCCESS ? TOPIC_JOB_COMPLETED : TOPIC_JOB_FAILED;
}

uint64_t change_time(enum change change, const struct attempt *a, const struct sheet_record *sheet)
{
	switch (change) {
	case CHANGE_JOB_STARTED:
		return a->started_wall_ns;
	case CHANGE_SHEET_STARTED:
		return sheet->started_wall_ns;
	case CHANGE_SHEET_ENDED:
		return sheet->ended_wall_ns;
	case CHANGE_JOB_ENDED:
		return a->ended_wall_ns;
	}
	return U64_UNKNOWN;
}

/* A beginning is written as it was, also when the end is known by now. */
static void write_job(struct json *j, const struct attempt *a, bool is_begun)
{
	struct attempt job = *a;

	if (is_begun) {
		job.is_running = true;
		job.is_lost = false;
		job.outcome = OUTCOME_NONE;
		job.status = (struct exit_status){ -1, -1 };
		job.reason = NULL;
		job.ended_wall_ns = U64_UNKNOWN;
	}
	json_key_string(j, "command", job.command);
	json_key_string(j, "status", attempt_status_name(&job));
	json_key_string(j, "outcome", outcome_name(job.outcome));
	json_key_int(j, "exit_code", job.status.exit_code);
	json_key_int(j, "signal", job.status.signal);
	json_key_string(j, "reason", job.reason);
	json_key_bool(j, "lost", job.is_lost);
	json_key_f64(j, "started", u64_to_seconds(job.started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(job.ended_wall_ns));
}

static void write_sheet(struct json *j, const struct sheet_record *sheet, bool is_begun)
{
	const struct exit_status none = { -1, -1 }, status = is_begun ? none : sheet->status;

	json_key_i64(j, "sheet_num", sheet->num);
	json_key_i64(j, "try", sheet->try_num);
	json_key_string(j, "name", sheet->name);
	json_key_string(j, "command", sheet->command);
	json_key_string(j, "outcome", outcome_name(is_begun ? OUTCOME_NONE : sheet->outcome));
	json_key_int(j, "exit_code", status.exit_code);
	json_key_int(j, "signal", status.signal);
	json_key_string(j, "reason", is_begun ? NULL : sheet->reason);
	json_key_f64(j, "started", u64_to_seconds(sheet->started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(is_begun ? U64_UNKNOWN : sheet->ended_wall_ns));
}

void change_write_fields(struct json *j, enum change change, const struct attempt *a,
			 const struct sheet_record *sheet)
{
	json_key_string(j, "event", topic_name(change_topic(change, a, sheet)));
	json_key_f64(j, "timestamp", u64_to_seconds(change_time(change, a, sheet)));
	json_key_string(j, "job_id", a->job_id);
	json_key_i64(j, "attempt", a->attempt_num);
	if (sheet)
		write_sheet(j, sheet, change == CHANGE_SHEET_STARTED);
	else
		write_job(j, a, change == CHANGE_JOB_STARTED);
}

/* ---- recent ---- */

struct kept {
	struct event event; /* owns its json */
	struct kept *older, *newer;
};

struct owner {
	uid_t uid;
	size_t n, n_bytes;
};

struct recent {
	struct kept *oldest, *newest;
	size_t n, max_events;
	size_t n_bytes, max_bytes;
	struct owner *owners; /* each has an event */
	size_t n_owners, cap_owners;
};

struct recent *recent_new(size_t max_events, size_t max_bytes)
{
	struct recent *recent = calloc(1, sizeof(*recent));

	if (!recent)
		return NULL;
	recent->max_events = max_events;
	recent->max_bytes = max_bytes;
	return recent;
}

static void kept_free(struct kept *kept)
{
	if (kept)
		free((char *)kept->event.json);
	free(kept);
}

struct recent *recent_free(struct recent *recent)
{
	struct kept *newer;

	if (!recent)
		return NULL;
	for (struct kept *kept = recent->oldest; kept; kept = newer) {
		newer = kept->newer;
		kept_free(kept);
	}
	free(recent->owners);
	free(recent);
	return NULL;
}

/* ---- whose they are ---- */

/* NULL: no memory. */
static struct owner *find_owner(struct recent *recent, uid_t uid)
{
	for (size_t i = 0; i < recent->n_owners; i++)
		if (recent->owners[i].uid == uid)
			return &recent->owners[i];
	if (ARRAY_RESERVE(recent->owners, recent->cap_owners, recent->n_owners + 1) < 0)
		return NULL;
	recent->owners[recent->n_owners] = (struct owner){ .uid = uid };
	return &recent->owners[recent->n_owners++];
}

/* Shares of both bounds, as one number can pass either. */
static double share_of(const struct recent *recent, const struct owner *owner)
{
	double events = (double)owner->n / (double)recent->max_events;
	double bytes = (double)owner->n_bytes / (double)recent->max_bytes;

	return events > bytes ? events : bytes;
}

static struct owner *find_largest(struct recent *recent)
{
	struct owner *largest = &recent->owners[0];

	for (size_t i = 1; i < recent->n_owners; i++)
		if (share_of(recent, &recent->owners[i]) > share_of(recent, largest))
			largest = &recent->owners[i];
	return largest;
}

static void drop_oldest_of(struct recent *recent, struct owner *owner)
{
	struct kept *kept = recent->oldest;

	while (kept->event.owner != owner->uid)
		kept = kept->newer;
	*(kept->older ? &kept->older->newer : &recent->oldest) = kept->newer;
	*(kept->newer ? &kept->newer->older : &recent->newest) = kept->older;
	recent->n--;
	recent->n_bytes -= kept->event.len;
	owner->n--;
	owner->n_bytes -= kept->event.len;
	if (owner->n == 0)
		*owner = recent->owners[--recent->n_owners];
	kept_free(kept);
}

void recent_add(struct recent *recent, const struct event *ev)
{
	struct owner *owner;
	struct kept *kept;

	if (ev->len > recent->max_bytes)
		return;
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return;
	kept->event = *ev;
	kept->event.json = strndup(ev->json, ev->len);
	while (recent->n == recent->max_events || recent->n_bytes + ev->len > recent->max_bytes)
		drop_oldest_of(recent, find_largest(recent));
	owner = kept->event.json ? find_owner(recent, ev->owner) : NULL;
	if (!owner) {
		kept_free(kept);
		return;
	}
	kept->older = recent->newest;
	*(recent->newest ? &recent->newest->newer : &recent->oldest) = kept;
	recent->newest = kept;
	owner->n++;
	owner->n_bytes += ev->len;
	recent->n++;
	recent->n_bytes += ev->len;
}

/* ---- reading ---- */

/* The event is the first member of what is kept. */
const struct event *recent_newest(const struct recent *recent)
{
	return (const struct event *)recent->newest;
}

const struct event *recent_older(const struct event *ev)
{
	return (const struct event *)((const struct kept *)ev)->older;
}

const struct event *recent_newer(const struct event *ev)
{
	return (const struct event *)((const struct kept *)ev)->newer;
}
