/*
 * service_anomaly_ends - when processes and jobs of which something lasts have ended, as the kernel
 * or their runners tell: that is when it was over, and not when a tick does not show them any more.
 */
#include <errno.h>

#include "base/alive.h"
#include "base/log.h"
#include "base/unknown.h"
#include "daemon/service_anomaly.h"

/* A runner knows its child by the pid alone. */
static bool is_same(const struct proc_key *a, const struct proc_key *b)
{
	return a->pid == b->pid && (a->start_ticks == b->start_ticks ||
				    !u64_known(a->start_ticks) || !u64_known(b->start_ticks));
}

static struct proc_event *find_exit(struct exit_news *exits, const struct proc_key *key)
{
	for (size_t i = 0; i < exits->n; i++)
		if (is_same(&exits->items[i].key, key))
			return &exits->items[i];
	return NULL;
}

/* Of those that there is no room for it is seen by looking. What a runner says is what is in the
 * record, and comes after the kernel's news. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns)
{
	struct proc_event *ev;

	if (!detect_follows(s->detect, key->pid))
		return;
	ev = find_exit(&s->exits, key);
	if (ev)
		ev->wall_ns = wall_ns;
	else if (s->exits.n < SERVICE_MAX_EXITS)
		s->exits.items[s->exits.n++] = (struct proc_event){
			.wall_ns = wall_ns, .key = *key, .type = EVENT_EXIT, .status = { -1, -1 }
		};
}

/* Where nobody has told when, it was with its job at the latest. */
static void note_gone(struct service *s, const struct episode *e, uint64_t wall_ns)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
	struct proc_event *ev = find_exit(&s->exits, &key);

	if (!u64_known(key.start_ticks) || proc_is_alive("", key.pid, key.start_ticks))
		return;
	if (ev && ev->wall_ns >= e->began_wall_ns)
		ev->key = key;
	else
		service_note_exit(s, &key, wall_ns);
}

static void note_all_gone(struct service *s, const struct attempt *a)
{
	const struct episode *e;

	for (size_t i = 0; (e = detect_active(s->detect, i)); i++)
		if (e->attempt_id == a->id && e->worst.has_pid)
			note_gone(s, e, a->ended_wall_ns);
}

/* One that nobody knows the end of goes when the ticks do not show it any more. */
void service_end_anomalies_of(struct service *s, const struct watched *job)
{
	const struct detect_job left = { job->job_id, job->a.id };
	struct detect_ending ending = { .wall_ns = job->a.ended_wall_ns };
	struct detect_changes changes = { 0 };

	if (!u64_known(job->a.ended_wall_ns))
		return;
	note_all_gone(s, &job->a);
	ending.events = s->exits.items;
	ending.n_events = s->exits.n;
	if (detect_leave_job(s->detect, &left, &ending, &changes) < 0)
		log_warning("not all anomalies of job %s are recorded as over: no memory left",
			    job->job_id);
	s->exits.n = 0;
	service_record_changes(s, &changes);
}
