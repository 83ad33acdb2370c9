#include <string.h>
#include <unistd.h>

#include "base/unknown.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/*
 * What runners have recorded is published when watch_look() reads it: events of their processes and
 * anomalies of their jobs. OOM kills are for the next look for anomalies.
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

/* ---- what runners have recorded ---- */

/*
 * A runner of another user may record anything: ends are the kernel's to report then, and a kill
 * names its process in full.
 */
void service_publish_event(void *ctx, const struct watched *job, const struct proc_event *ev)
{
	struct service *s = ctx;
	bool is_own = job->a.uid == geteuid();

	if (ev->type == EVENT_OOM && (is_own || u64_known(ev->key.start_ticks)))
		service_keep_news(s, ev, job->a.id);
	if (ev->type == EVENT_EXIT && is_own)
		service_note_exit(s, &ev->key, ev->wall_ns);
	if (ev->type == EVENT_ORPHAN)
		service_follow_orphan(s, job, ev);
	s->life.n_told += ev->type == EVENT_SPAWN || ev->type == EVENT_EXIT;
	service_tell_process(s, ev, job->a.attempt_num, job->a.uid);
}

/* Who outlives a job the daemon judges. */
void service_publish_recorded_anomaly(void *ctx, const struct watched *job, const struct episode *e,
				      enum episode_change change)
{
	if (e->worst.type != ANOMALY_ORPHAN)
		service_publish_anomaly(ctx, e, change, job->a.uid);
}
