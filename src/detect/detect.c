#include "detect/detect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/evaluate.h"

struct detect *detect_new(const struct config_anomaly *config, enum detect_scope scope)
{
	struct detect *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->config = *config;
	d->scope = scope;
	host_past_init(&d->host_past);
	return d;
}

struct detect *detect_free(struct detect *d)
{
	if (!d)
		return NULL;
	detect_tracks_release(&d->tracks);
	map_release(&d->relations.by_kin);
	free(d->relations.kin);
	host_past_release(&d->host_past);
	episodes_release(&d->episodes);
	free(d->track_of);
	free(d);
	return NULL;
}

void detect_configure(struct detect *d, const struct config_anomaly *config)
{
	d->config = *config;
}

void detect_set_scope(struct detect *d, enum detect_scope scope)
{
	d->scope = scope;
	for (size_t i = 0; !(scope & DETECT_HOST) && i < d->episodes.n; i++)
		d->episodes.items[i]->is_over |= !d->episodes.items[i]->e.worst.job_id;
}

int detect_adopt(struct detect *d, const struct episode *e)
{
	return episodes_adopt(&d->episodes, &d->config, e);
}

/* ---- the tick as a whole ---- */

/* Boot time, which never jumps; wall time where a recording has no other. */
static uint64_t time_of(const struct snapshot *s)
{
	return s->boot_ns != 0 && u64_known(s->boot_ns) ? s->boot_ns : s->wall_ns;
}

/* After a reboot pids and start times are those of others. */
static void begin_boot(struct evaluation *w)
{
	struct detect *d = w->d;

	if (!w->snap->boot_id[0] || strcmp(d->boot_id, w->snap->boot_id) == 0)
		return;
	if (d->last_ns != 0 && d->boot_id[0])
		evaluation_fail(w, episodes_end_all(&d->episodes, &w->tick, EPISODE_BOOTED));
	detect_tracks_reset(&d->tracks);
	host_past_release(&d->host_past);
	host_past_init(&d->host_past);
	d->last_ns = 0;
	d->last_step = 0;
	memcpy(d->boot_id, w->snap->boot_id, sizeof(d->boot_id));
}

/* Returns the first failure. */
static int hand_out(const struct evaluation *w, struct detect_changes *ret)
{
	*ret = (struct detect_changes){ w->d->episodes.changes, w->d->episodes.n_changes };
	return w->r;
}

/*
 * Much longer than usual without a tick: the host slept, or the daemon was stopped. A state that
 * was seen before and after need not have lasted in between.
 */
#define GAP_SECONDS 60
#define GAP_STEPS 10

static void forget_past(struct evaluation *w)
{
	detect_tracks_forget_past(&w->d->tracks, w->tick.now);
	host_past_forget(&w->d->host_past);
	w->d->last_step = 0;
}

/* False: this moment was evaluated already. */
static bool take_step(struct evaluation *w, uint64_t now_ns)
{
	struct detect *d = w->d;
	double step;

	if (d->last_ns != 0 && now_ns < d->last_ns &&
	    (double)(d->last_ns - now_ns) / 1e9 > GAP_SECONDS) {
		/* Only of a recording without another clock than the wall's. */
		evaluation_fail(
			w, episodes_end_all(&w->d->episodes, &w->tick, "the clock was set back"));
		forget_past(w);
		w->d->last_ns = 0;
	}
	if (d->last_ns == 0)
		return true;
	if (now_ns <= d->last_ns)
		return false;
	step = (double)(now_ns - d->last_ns) / 1e9;
	if (d->last_step > 0 && step > fmax(GAP_SECONDS, GAP_STEPS * d->last_step)) {
		forget_past(w);
		return true;
	}
	d->last_step = w->tick.step = step;
	return true;
}

static struct evaluation begin_evaluation(struct detect *d, const struct snapshot *snap,
					  uint64_t now_ns)
{
	double now = (double)now_ns / 1e9;

	episodes_begin_tick(&d->episodes);
	return (struct evaluation){
		.d = d,
		.snap = snap,
		.tick = { .config = &d->config,
			  .snap = snap,
			  .now = now,
			  .step = F64_UNKNOWN,
			  .relations = &d->relations },
	};
}

int detect_tick(struct detect *d, const struct detect_news *news, struct detect_changes *ret)
{
	uint64_t now_ns = time_of(news->snap);
	struct evaluation w = begin_evaluation(d, news->snap, now_ns);

	*ret = (struct detect_changes){ 0 };
	begin_boot(&w);
	if (!take_step(&w, now_ns))
		return 0;
	host_past_begin(&d->host_past, &d->config, &w.tick);
	if (d->scope & DETECT_JOBS) {
		evaluate_events(&w, news);
		evaluate_jobs(&w, news);
	}
	if (d->scope & DETECT_HOST)
		evaluate_host(&w, news);
	else /* kills that the host has counted are reported by another observer */
		d->host_past.host_kills =
			u64_max_known(w.snap->system.oom_kills_total, d->host_past.host_kills);
	evaluation_fail(&w, episodes_end_tick(&d->episodes, &w.tick));
	d->early = (struct early_kills){ 0 };
	map_release(&w.by_pid);
	host_past_end(&d->host_past, &w.tick);
	d->last_ns = now_ns;
	d->last_wall_ns = news->snap->wall_ns;
	return hand_out(&w, ret);
}

int detect_note_kills(struct detect *d, const struct detect_news *news, struct detect_changes *ret)
{
	struct evaluation w = begin_evaluation(d, news->snap, time_of(news->snap));

	if (d->scope & DETECT_JOBS)
		evaluate_kills(&w, news);
	return hand_out(&w, ret);
}

#define AFTER_LAST_NS 1000000 /* what began at the last tick may end now */

/* After the last tick, of which nothing is known any more but its time. */
static struct evaluation begin_last_evaluation(struct detect *d, struct snapshot *last)
{
	snapshot_init(last);
	last->wall_ns = d->last_wall_ns;
	memcpy(last->boot_id, d->boot_id, sizeof(last->boot_id));
	return begin_evaluation(d, last, d->last_ns + AFTER_LAST_NS);
}

/* The job and its processes are forgotten with the next tick, which finds nothing of them that
 * lasts. */
int detect_leave_job(struct detect *d, const struct detect_job *left,
		     const struct detect_ending *ending, struct detect_changes *ret)
{
	struct snapshot last;
	struct evaluation w = begin_last_evaluation(d, &last);
	const struct job_track *job =
		detect_tracks_find_job(&d->tracks, left->job_id, left->attempt_id);

	if (u64_known(ending->wall_ns)) /* which may be before the last tick */
		last.wall_ns = ending->wall_ns;
	evaluate_deaths(&w, ending->events, ending->n_events);
	/* Active episodes, and not processes: there are far fewer. */
	for (size_t i = 0; job && i < d->episodes.n; i++) {
		const struct running *r = d->episodes.items[i];
		const struct track *p;

		if (r->is_over || !r->is_of_process ||
		    !episode_is_of(&r->e, job->job_id, job->attempt_id))
			continue;
		p = detect_tracks_by_pid(&d->tracks, (pid_t)r->e.worst.pid);
		if (p && p->is_dead && p->key.start_ticks == r->e.worst.start_ticks)
			evaluate_process_end(&w, p);
	}
	if (job)
		evaluate_job_end(&w, job);
	return hand_out(&w, ret);
}

/* Episodes end at the time of the snapshot: here that of the job's end. */
static void end_job(struct evaluation *w, const struct detect_ending *ending, struct snapshot *last)
{
	struct tracks *ts = &w->d->tracks;

	evaluate_deaths(w, ending->events, ending->n_events);
	last->wall_ns = u64_max_known(ending->wall_ns, w->d->last_wall_ns);
	for (size_t i = 0; i < ts->n; i++) {
		struct track *p = &ts->items[i];

		p->missed_wall_ns = p->missed_wall_ns ? p->missed_wall_ns : last->wall_ns;
		if (p->is_dead ||
		    !ending->leaves_processes) /* the end of one that is left is unknown */
			evaluate_process_end(w, p);
	}
	for (size_t i = 0; u64_known(ending->wall_ns) && i < ts->n_jobs; i++)
		evaluate_job_end(w, ts->jobs[i]);
	last->wall_ns = w->d->last_wall_ns;
}

int detect_end_job(struct detect *d, const struct detect_ending *ending, struct detect_changes *ret)
{
	struct snapshot last;
	struct evaluation w = begin_last_evaluation(d, &last);

	evaluate_last_kills(&w);
	if (ending)
		end_job(&w, ending, &last);
	evaluation_fail(&w, episodes_end_all(&d->episodes, &w.tick, EPISODE_UNWATCHED));
	detect_tracks_reset(&d->tracks);
	return hand_out(&w, ret);
}

const struct episode *detect_active(const struct detect *d, size_t i)
{
	const struct episodes *es = &d->episodes;

	for (size_t k = 0; k < es->n; k++)
		if (!es->items[k]->is_over && i-- == 0)
			return &es->items[k]->e;
	return NULL;
}

bool detect_follows(const struct detect *d, pid_t pid)
{
	for (size_t i = 0; i < d->episodes.n; i++) {
		const struct running *r = d->episodes.items[i];

		if (!r->is_over && r->is_of_process && r->e.worst.pid == pid)
			return true;
	}
	return false;
}

struct detect_looks detect_looks_of(const struct detect *d, enum anomaly_type type)
{
	return d->looks[type];
}

uint64_t detect_count_left_out(const struct detect *d)
{
	return d->tracks.n_left_out + d->episodes.n_dropped;
}
