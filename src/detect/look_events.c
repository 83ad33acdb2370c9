/*
 * look_events - what happened since the last tick: who was killed for want of memory, who has
 * ended, and who is left of a job.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/look.h"

/* As it was at the last tick. A runner knows the pid of its child, and not when it began. */
static const struct track *find_victim(struct look *w, const struct proc_event *ev)
{
	const struct track *p = detect_tracks_by_pid(&w->d->tracks, ev->key.pid);

	if (!p || !ev->job_id || strcmp(p->job->job_id, ev->job_id) != 0 ||
	    p->job->attempt_id != ev->attempt_id)
		return NULL;
	return !u64_known(ev->key.start_ticks) || ev->key.start_ticks == p->key.start_ticks ? p
											    : NULL;
}

/* None of them is lost: those that are not told one by one are one episode of the job. */
static void note_more_kills(struct look *w, struct job_track *job, const struct proc_event *ev)
{
	const struct subject who = look_subject_of_job(job);
	struct finding f;
	bool is_muted;

	look_clear_finding(&f);
	find_more_kills(++job->n_more_kills, ev, &f);
	look_note(w, &check_oom_event, &who, &f, NULL, &is_muted);
}

/* By the clock of the ticks; now, where nobody knows. */
static double moment_of(const struct look *w, const struct proc_event *ev)
{
	double ago = u64_to_seconds(u64_delta(w->snap->wall_ns, ev->wall_ns));

	return w->tick.now - (f64_known(ago) ? ago : 0);
}

static void note_kill(struct look *w, const struct proc_event *ev)
{
	double at = moment_of(w, ev);
	const struct track *victim = find_victim(w, ev);
	const struct subject who = {
		.kind = OF_PROCESS,
		.key = victim ? victim->key : ev->key,
		.job_id = ev->job_id,
		.attempt_id = ev->attempt_id,
		.comm = victim ? victim->comm : ev->comm,
		.sheet_num = ev->sheet_num,
		.gpu = -1,
	};
	struct job_track *job = NULL;
	struct finding f;
	bool is_muted;

	if (ev->job_id && detect_tracks_job(&w->d->tracks, ev->job_id, ev->attempt_id, &job) < 0)
		look_note_failure(w, -ENOMEM);
	look_clear_finding(&f);
	find_oom(ev, victim, &f);
	kills_is_late(&w->d->surroundings.kills, w->tick.now, at);
	if (look_note_late(w, ev, at, &f))
		return;
	look_note(w, &check_oom_event, &who, &f, job ? &job->told[ANOMALY_OOM_KILL] : NULL,
		  &is_muted);
	if (is_muted)
		note_more_kills(w, job, ev);
}

/* A runner knows its child by the pid alone: after the last look none but who was there has it. */
static bool is_death_of(const struct look *w, const struct proc_event *ev, const struct track *p)
{
	if (u64_known(ev->key.start_ticks))
		return p->key.start_ticks == ev->key.start_ticks;
	return u64_known(ev->wall_ns) && ev->wall_ns >= w->d->last_wall_ns &&
	       p->seen_tick == w->d->tracks.tick;
}

/* Who is known to have ended is not waited for. */
static void note_death(struct look *w, const struct proc_event *ev)
{
	struct track *p = detect_tracks_by_pid(&w->d->tracks, ev->key.pid);

	if (!p || !is_death_of(w, ev, p))
		return;
	p->is_dead = true;
	if (u64_known(ev->wall_ns))
		p->died_wall_ns = ev->wall_ns;
}

void look_at_deaths(struct look *w, const struct proc_event *events, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (events[i].type == EVENT_EXIT || events[i].type == EVENT_OOM)
			note_death(w, &events[i]);
}

/* It may have been so short that no look has shown it. */
static void note_sigkill(struct look *w, const struct proc_event *ev)
{
	struct job_track *job;

	if (!ev->job_id || ev->status.signal != SIGKILL)
		return;
	if (detect_tracks_job(&w->d->tracks, ev->job_id, ev->attempt_id, &job) < 0)
		look_note_failure(w, -ENOMEM);
	else
		job->lost_tick = w->d->tracks.tick + 1; /* which is about to begin */
}

/* Made when it is first asked for: a tick that has such events may have many. */
static const struct proc_sample *find_sample(struct look *w, const struct proc_key *key)
{
	const struct proc_sample *p;
	uint64_t at;

	for (size_t i = 0; !w->has_by_pid && i < w->snap->n_processes; i++)
		look_note_failure(w,
				  map_put(&w->by_pid, (uint64_t)w->snap->processes[i].key.pid, i));
	w->has_by_pid = true;
	if (!map_get(&w->by_pid, (uint64_t)key->pid, &at))
		return NULL;
	p = &w->snap->processes[at];
	return p->key.start_ticks == key->start_ticks ? p : NULL;
}

/* A job that is shorter than a tick may leave who is not. */
static void note_left(struct look *w, const struct proc_event *ev)
{
	const struct proc_sample *p = ev->job_id ? find_sample(w, &ev->key) : NULL;

	if (p && u64_known(p->key.start_ticks))
		look_note_failure(w, detect_tracks_adopt(&w->d->tracks, p, ev, w->tick.now,
							 moment_of(w, ev)));
}

/* The counts of the next tick have it, and no event does then. */
static void remember_early(struct early_kills *early, const struct proc_event *ev)
{
	if (ev->job_id && early->n < LOOK_EARLY)
		early->jobs[early->n++] = look_hash_job(ev->job_id, ev->attempt_id);
	else
		early->n_more++;
}

void look_at_kills(struct look *w, const struct detect_news *news)
{
	for (size_t i = 0; i < news->n_events; i++) {
		const struct proc_event *ev = &news->events[i];

		if (ev->type != EVENT_OOM)
			continue;
		note_kill(w, ev);
		note_death(w, ev);
		remember_early(&w->d->early, ev);
	}
	look_release(w);
}

void look_at_events(struct look *w, const struct detect_news *news)
{
	for (size_t i = 0; i < news->n_events; i++) {
		const struct proc_event *ev = &news->events[i];

		if (ev->type == EVENT_OOM)
			note_kill(w, ev);
		if (ev->type == EVENT_ORPHAN)
			note_left(w, ev);
		if (ev->type == EVENT_OOM || ev->type == EVENT_EXIT)
			note_death(w, ev);
		if (ev->type == EVENT_EXIT)
			note_sigkill(w, ev);
	}
}
