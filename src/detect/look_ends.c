/*
 * look_ends - what is over with the process or the job that it was of.
 */
#include "detect/look.h"

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

/* Both are forgotten with the next tick, which finds nothing of them that lasts. */
void look_at_left_job(struct look *w, const struct detect_job *left)
{
	struct tracks *ts = &w->d->tracks;
	const struct job_track *job = detect_tracks_find_job(ts, left->job_id, left->attempt_id);

	for (size_t i = 0; job && i < ts->n; i++)
		if (ts->items[i].job == job && ts->items[i].is_dead)
			look_end_process(w, &ts->items[i]);
	if (job)
		look_end_job(w, job);
}
