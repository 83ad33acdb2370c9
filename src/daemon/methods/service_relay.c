#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/*
 * What runners have recorded, published once, when it is in the database: events of their
 * processes and anomalies of their jobs. OOM kills among the events are for the next look for
 * anomalies.
 */

void service_forget_ooms(struct service *s)
{
	s->anomaly.ooms.n = 0;
	arena_reset(&s->anomaly.ooms.arena);
}

void service_name_killed(struct service *s, const struct proc_event *ev)
{
	struct killed_name *name = &s->anomaly.ooms.names[s->anomaly.ooms.next_name];

	name->key = ev->key;
	memcpy(name->comm, ev->comm, sizeof(name->comm));
	s->anomaly.ooms.next_name = (s->anomaly.ooms.next_name + 1) % SERVICE_MAX_OOMS;
}

/* A runner may know the pid of its child alone: then the last that had it. */
static bool is_same(const struct proc_key *a, const struct proc_key *b)
{
	return a->pid == b->pid && (a->start_ticks == b->start_ticks ||
				    !u64_known(a->start_ticks) || !u64_known(b->start_ticks));
}

static void add_name(const struct service *s, struct proc_event *ev)
{
	for (size_t i = 1; i <= SERVICE_MAX_OOMS && !ev->comm[0]; i++) {
		size_t at = (s->anomaly.ooms.next_name + SERVICE_MAX_OOMS - i) % SERVICE_MAX_OOMS;

		if (is_same(&s->anomaly.ooms.names[at].key, &ev->key))
			memcpy(ev->comm, s->anomaly.ooms.names[at].comm, sizeof(ev->comm));
	}
}

void service_keep_news(struct service *s, const struct proc_event *ev, int64_t attempt_id)
{
	struct proc_event *kept;

	if (s->anomaly.ooms.n == SERVICE_MAX_OOMS)
		service_tell_kills(s);
	if (s->anomaly.ooms.n == SERVICE_MAX_OOMS)
		return;
	kept = &s->anomaly.ooms.items[s->anomaly.ooms.n];
	*kept = *ev;
	kept->attempt_id = attempt_id;
	add_name(s, kept);
	kept->job_id = arena_strdup(&s->anomaly.ooms.arena, ev->job_id);
	kept->details = arena_strdup(&s->anomaly.ooms.arena, ev->details);
	if (!kept->job_id || !kept->details)
		return;
	s->anomaly.ooms.n++;
	if (ev->type == EVENT_OOM)
		service_tell_kills_soon(s);
}

/*
 * What happens to attached trees is published when it is noted. A runner of another user may record
 * anything: ends are the kernel's to report then, and a kill names its process in full.
 */
static void relay_one(struct service *s, const struct event_row *row)
{
	bool is_own = row->uid == geteuid();

	if (row->event.type == EVENT_OOM && (is_own || u64_known(row->event.key.start_ticks)))
		service_keep_news(s, &row->event, row->attempt_id);
	if (row->event.type == EVENT_EXIT && is_own)
		service_note_exit(s, &row->event.key, row->event.wall_ns);
	if (row->is_attached)
		return;
	s->life.n_told += row->event.type == EVENT_SPAWN || row->event.type == EVENT_EXIT;
	service_tell_process(s, &row->event, row->attempt_num, row->uid);
}

static int relay(void *ctx, const struct event_row *row)
{
	struct service *s = ctx;

	s->life.last_event_id = row->id;
	relay_one(s, row);
	return 0;
}

/* What was written since, relay() tells. */
static int relay_early(void *ctx, const struct event_row *row)
{
	struct service *s = ctx;

	if (row->id <= s->life.last_event_id)
		relay_one(s, row);
	return 0;
}

/*
 * From the moment that the database was opened; where it came in place of another, from when that
 * was last there.
 */
static int begin_relay(struct service *s, struct err *err)
{
	const struct event_filter early = { .since_wall_ns = s->life.relay_from_wall_ns };
	int r = store_follow_events(s->store, NULL, &s->life.last_event_id, NULL, s, err);

	if (r == 0 && early.since_wall_ns)
		r = store_read_events(s->store, &early, relay_early, s, err);
	if (r == 0)
		s->life.relay_from_wall_ns = 0;
	s->life.is_relaying = r == 0;
	return r;
}

int service_relay_events(struct service *s, struct err *err)
{
	if (!s->store)
		return 0;
	if (s->own.has_news)
		(void)store_take_in(s->store, NULL);
	s->own.has_news = false;
	if (!s->life.is_relaying)
		return begin_relay(s, err);
	return store_follow_events(s->store, NULL, &s->life.last_event_id, relay, s, err);
}

/* ---- anomalies ---- */

/* Of the host, of attached trees and of orphans the daemon has published them itself. */
static int relay_anomaly(void *ctx, const struct anomaly_change_row *row)
{
	struct service *s = ctx;
	const struct episode *e = &row->episode;

	s->anomaly.relay.last_id = row->id;
	if (e->attempt_id != 0 && !row->is_attached && e->worst.type != ANOMALY_ORPHAN &&
	    row->moment.wall_ns >= s->anomaly.relay.from_wall_ns)
		service_publish_anomaly(s, e, row->moment.change, row->uid);
	return 0;
}

/*
 * From the moment that the database was opened; where it came in place of another, from when that
 * was last there.
 */
int service_relay_anomalies(struct service *s, struct err *err)
{
	struct anomaly_relay *a = &s->anomaly.relay;
	bool is_told = a->is_relaying || a->from_wall_ns != 0;
	int r = s->store ? store_follow_anomalies(s->store, &a->last_id,
						  is_told ? relay_anomaly : NULL, s, err)
			 : 0;

	if (!s->store || r < 0)
		return r;
	a->is_relaying = true;
	a->from_wall_ns = 0;
	return 0;
}

void service_forget_anomalies(struct service *s)
{
	s->anomaly.relay = (struct anomaly_relay){ .from_wall_ns = s->database.seen_wall_ns };
}
