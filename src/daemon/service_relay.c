#include <errno.h>

#include "base/unknown.h"
#include "daemon/service_internal.h"
#include "daemon/tellers.h"

/*
 * What runners have written down of their processes, told on the bus, unless the kernel has told
 * it before; and kills for want of memory among it, for the next look for anomalies.
 */

void service_forget_ooms(struct service *s)
{
	s->ooms.n = 0;
	arena_reset(&s->ooms.arena);
}

void service_keep_news(struct service *s, const struct proc_event *ev, int64_t attempt_id)
{
	struct proc_event *kept;

	if (s->ooms.n == SERVICE_MAX_OOMS)
		service_tell_kills(s);
	if (s->ooms.n == SERVICE_MAX_OOMS)
		return;
	kept = &s->ooms.items[s->ooms.n];
	*kept = *ev;
	kept->attempt_id = attempt_id;
	kept->job_id = arena_strdup(&s->ooms.arena, ev->job_id);
	kept->details = arena_strdup(&s->ooms.arena, ev->details);
	if (!kept->job_id || !kept->details)
		return;
	s->ooms.n++;
	if (ev->type == EVENT_OOM)
		service_tell_kills_soon(s);
}

/*
 * Of some births and deaths the kernel has told us in vain: those of a process whose parent was not
 * known to be a job's by then.
 */
static void relay_one(struct service *s, const struct event_row *row)
{
	bool is_life = row->event.type == EVENT_SPAWN || row->event.type == EVENT_EXIT;

	if (row->event.type == EVENT_OOM)
		service_keep_news(s, &row->event, row->attempt_id);
	if (row->is_attached ||
	    (is_life && tellers_take(&s->life.told, BY_US, row->attempt_id, &row->event)))
		return;
	if (is_life && s->life.life)
		tellers_note(&s->life.told, BY_RUNNER, row->attempt_id, &row->event);
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
	int r;

	if (!s->store)
		return 0;
	service_drain_life(s); /* the kernel's news is older than what runners write of it */
	r = service_record_signals(s, err);
	if (r < 0)
		return r;
	if (!s->life.is_relaying)
		return begin_relay(s, err);
	return store_follow_events(s->store, NULL, &s->life.last_event_id, relay, s, err);
}
