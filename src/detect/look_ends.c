/*
 * look_ends - what is over with the process or the job that it was of.
 */
#include "detect/look.h"
#include "detect/running.h"

/* As somebody told, or when a look first showed it no more. */
static uint64_t end_of(const struct look *w, const struct track *p)
{
	if (p->died_wall_ns)
		return p->died_wall_ns;
	return p->missed_wall_ns ? p->missed_wall_ns : w->snap->wall_ns;
}

void look_end_process(void *ctx, const struct track *p)
{
	struct look *w = ctx;
	const struct subject who = look_subject_of_process(p, NULL);

	for (int type = 0; p->active && type < N_ANOMALY_TYPES; type++)
		if (p->active & 1u << type)
			look_note_failure(w, episodes_end(&w->d->episodes, &w->moment,
							  (enum anomaly_type)type, &who,
							  end_of(w, p), EPISODE_PROCESS_ENDED));
}

void look_end_job(void *ctx, const struct job_track *job)
{
	struct look *w = ctx;

	look_note_failure(w, episodes_end_job(&w->d->episodes, &w->moment, job, EPISODE_JOB_ENDED));
}

/* Of a process that is left nobody knows the end. */
void look_at_last_processes(struct look *w, bool leaves_processes)
{
	struct tracks *ts = &w->d->tracks;

	for (size_t i = 0; i < ts->n; i++) {
		struct track *p = &ts->items[i];

		p->missed_wall_ns = p->missed_wall_ns ? p->missed_wall_ns : w->snap->wall_ns;
		if (p->is_dead || !leaves_processes)
			look_end_process(w, p);
	}
}

void look_at_last_jobs(struct look *w)
{
	const struct tracks *ts = &w->d->tracks;

	for (size_t i = 0; i < ts->n_jobs; i++)
		look_end_job(w, ts->jobs[i]);
}

/* What lasts is looked at, and not who is there: that may be many more. */
static void end_dead_processes(struct look *w, const struct job_track *job)
{
	const struct episodes *es = &w->d->episodes;

	for (size_t i = 0; i < es->n; i++) {
		const struct running *r = es->items[i];
		const struct track *p;

		if (r->is_over || !r->is_of_process ||
		    !episode_is_of(&r->e, job->job_id, job->attempt_id))
			continue;
		p = detect_tracks_by_pid(&w->d->tracks, (pid_t)r->e.worst.pid);
		if (p && p->is_dead && p->key.start_ticks == r->e.worst.start_ticks)
			look_end_process(w, p);
	}
}

/* Both are forgotten with the next tick, which finds nothing of them that lasts. */
void look_at_left_job(struct look *w, const struct detect_job *left)
{
	const struct job_track *job =
		detect_tracks_find_job(&w->d->tracks, left->job_id, left->attempt_id);

	if (!job)
		return;
	end_dead_processes(w, job);
	look_end_job(w, job);
}
