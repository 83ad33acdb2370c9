#include "detect/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

void look_note_failure(struct look *w, int r)
{
	if (r < 0 && w->r == 0)
		w->r = r;
}

static void clear_finding(struct finding *f)
{
	f->stand = STAND_UNKNOWN;
	f->severity = SEVERITY_LOW;
	f->value = f->threshold = f->before = f->seconds_to_limit = F64_UNKNOWN;
	f->text[0] = '\0';
}

/* Whether an episode lasts. */
static bool note(struct look *w, const struct check *check, const struct subject *who,
		 const struct finding *f, struct told *told, bool *ret_muted)
{
	int r = episodes_note(&w->d->episodes, &w->moment, check, who, f, told, ret_muted);

	look_note_failure(w, r);
	return r > 0;
}

/* ---- processes ---- */

static int reserve_tracks(struct detect *d, size_t n)
{
	size_t *grown;

	if (n <= d->cap_track_of)
		return 0;
	grown = reallocarray(d->track_of, n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	d->track_of = grown;
	d->cap_track_of = n;
	return 0;
}

static void update_tracks(struct look *w)
{
	struct detect *d = w->d;
	double before = f64_known(w->tick.step) ? w->tick.now - w->tick.step : w->tick.now;

	for (size_t i = 0; i < w->snap->n_processes; i++)
		look_note_failure(w, detect_tracks_update(&d->tracks, &d->config,
							  &w->snap->processes[i], w->tick.now,
							  before, &d->track_of[i]));
}

static struct subject process_subject(const struct track *p, const struct proc_sample *s)
{
	return (struct subject){
		.kind = OF_PROCESS,
		.key = p->key,
		.job_id = p->job ? p->job->job_id : NULL,
		.comm = s ? s->comm : NULL,
		.sheet_num = p->sheet_num,
		.gpu = -1,
	};
}

static void set_bit(uint32_t *bits, enum anomaly_type type, bool is_set)
{
	*bits = is_set ? *bits | 1u << type : *bits & ~(1u << type);
}

static void note_process(struct look *w, const struct check *check, struct track *p,
			 const struct proc_sample *s, const struct finding *f)
{
	struct subject who = process_subject(p, s);
	bool is_muted;

	if (p->muted & 1u << check->type) {
		set_bit(&p->muted, check->type, f->stand != STAND_CLEAR);
		return;
	}
	set_bit(&p->active, check->type,
		note(w, check, &who, f, &p->job->told[check->type], &is_muted));
	set_bit(&p->muted, check->type, is_muted);
}

/* Two rows may be of one type, so a row that is silent must not clear what another began: the
 * rows of processes are all of different types. */
static void check_process(struct look *w, struct track *p, const struct proc_sample *s)
{
	struct finding f;

	for (const struct check *check = checks; check->of_process; check++) {
		clear_finding(&f);
		check->of_process(&w->tick, p, s, &f);
		if (f.stand == STAND_OVER || (p->active | p->muted) & 1u << check->type)
			note_process(w, check, p, s, &f);
	}
}

static void check_all_processes(struct look *w)
{
	for (size_t i = 0; i < w->snap->n_processes; i++)
		if (w->d->track_of[i] != TRACK_NONE)
			check_process(w, &w->d->tracks.items[w->d->track_of[i]],
				      &w->snap->processes[i]);
}

/* ---- jobs ---- */

static void begin_jobs(struct look *w, const struct detect_news *news)
{
	struct tracks *ts = &w->d->tracks;
	struct job_track *job;

	ts->tick++;
	ts->n_left_out = 0;
	for (size_t i = 0; i < ts->n_jobs; i++) {
		ts->jobs[i]->n_processes = ts->jobs[i]->n_zombies = 0;
		ts->jobs[i]->cpu_percent = 0;
	}
	for (size_t i = 0; i < w->snap->n_progress; i++)
		if (detect_tracks_job(ts, w->snap->progress[i].job_id, &job) == 0)
			job->seen_tick = ts->tick;
		else
			look_note_failure(w, -ENOMEM);
	for (size_t i = 0; i < news->n_usual; i++) {
		if (detect_tracks_job(ts, news->usual[i].job_id, &job) < 0)
			continue;
		job->usual_cpu_percent = news->usual[i].cpu_percent;
		job->usual_rss_bytes = news->usual[i].rss_bytes;
	}
}

static void check_job(struct look *w, const struct check *check, struct job_track *job)
{
	const struct subject who = {
		.kind = OF_JOB, .job_id = job->job_id, .sheet_num = SHEET_NONE, .gpu = -1
	};
	struct finding f;
	bool is_muted;

	clear_finding(&f);
	check->of_job(&w->tick, job, &f);
	if (f.stand == STAND_OVER || job->active & 1u << check->type)
		set_bit(&job->active, check->type, note(w, check, &who, &f, NULL, &is_muted));
}

static void check_jobs(struct look *w)
{
	struct tracks *ts = &w->d->tracks;

	for (size_t i = 0; i < ts->n_jobs; i++) {
		struct job_track *job = ts->jobs[i];

		for (size_t k = 0; k < n_checks; k++)
			if (checks[k].of_job)
				check_job(w, &checks[k], job);
		two_ago_add(&job->processes, w->tick.now, (double)job->n_processes,
			    w->d->config.memory_spike_window_seconds);
	}
}

/* ---- what is no longer there ---- */

static void on_track_gone(void *ctx, const struct track *p)
{
	struct look *w = ctx;
	const struct subject who = process_subject(p, NULL);

	for (int type = 0; p->active && type < N_ANOMALY_TYPES; type++)
		if (p->active & 1u << type)
			look_note_failure(w, episodes_end(&w->d->episodes, &w->moment,
							  (enum anomaly_type)type, &who,
							  "the process ended"));
}

static void on_job_gone(void *ctx, const struct job_track *job)
{
	struct look *w = ctx;
	const struct subject who = { .kind = OF_JOB, .job_id = job->job_id };

	for (int type = 0; job->active && type < N_ANOMALY_TYPES; type++)
		if (job->active & 1u << type)
			look_note_failure(w, episodes_end(&w->d->episodes, &w->moment,
							  (enum anomaly_type)type, &who,
							  "the job ended"));
}

/* ---- cgroups, GPUs and the host ---- */

/* The job of the first process in it. */
static const char *job_of_cgroup(const struct snapshot *s, const char *path)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].job_id && s->processes[i].cgroup &&
		    strcmp(s->processes[i].cgroup, path) == 0)
			return s->processes[i].job_id;
	return NULL;
}

static void check_cgroups(struct look *w)
{
	for (size_t i = 0; i < w->snap->n_cgroups; i++) {
		const struct cgroup_sample *c = &w->snap->cgroups[i];
		struct subject who = {
			.kind = OF_CGROUP, .cgroup = c->path, .sheet_num = SHEET_NONE, .gpu = -1
		};
		struct finding f;
		bool is_muted;

		w->tick.new_cgroup_kills = surroundings_new_kills(&w->d->surroundings, c);
		for (size_t k = 0; k < n_checks; k++) {
			if (!checks[k].of_cgroup)
				continue;
			clear_finding(&f);
			checks[k].of_cgroup(&w->tick, c, &f);
			if (f.stand == STAND_OVER)
				who.job_id = job_of_cgroup(w->snap, c->path);
			note(w, &checks[k], &who, &f, NULL, &is_muted);
		}
		/* The cgroups above it, and the host, count the same kills. */
		if (u64_known(w->tick.new_cgroup_kills))
			w->tick.n_oom_events += w->tick.new_cgroup_kills;
	}
}

static void check_gpus(struct look *w)
{
	for (size_t i = 0; i < w->snap->n_gpus; i++) {
		const struct gpu_sample *gpu = &w->snap->gpus[i];
		const struct subject who = { .kind = OF_GPU,
					     .gpu = gpu->index,
					     .sheet_num = SHEET_NONE };
		struct finding f;
		bool is_muted;

		w->tick.gpu_idle = surroundings_gpu_idle(&w->d->surroundings, gpu, w->tick.now);
		for (size_t k = 0; k < n_checks; k++) {
			if (!checks[k].of_gpu)
				continue;
			clear_finding(&f);
			checks[k].of_gpu(&w->tick, gpu, &f);
			note(w, &checks[k], &who, &f, NULL, &is_muted);
		}
	}
}

static void check_host(struct look *w)
{
	const struct subject who = { .kind = OF_HOST, .sheet_num = SHEET_NONE, .gpu = -1 };
	struct finding f;
	bool is_muted;

	for (size_t k = 0; k < n_checks; k++) {
		if (!checks[k].of_host)
			continue;
		clear_finding(&f);
		checks[k].of_host(&w->tick, &f);
		note(w, &checks[k], &who, &f, NULL, &is_muted);
	}
}

/* ---- events ---- */

static void note_kill(struct look *w, const struct proc_event *ev)
{
	const struct subject who = {
		.kind = OF_PROCESS,
		.key = ev->key,
		.job_id = ev->job_id,
		.sheet_num = ev->sheet_num,
		.gpu = -1,
	};
	struct job_track *job = NULL;
	struct finding f;
	bool is_muted;

	if (ev->job_id && detect_tracks_job(&w->d->tracks, ev->job_id, &job) < 0)
		look_note_failure(w, -ENOMEM);
	clear_finding(&f);
	find_oom(ev, &f);
	note(w, &check_oom_event, &who, &f, job ? &job->told[ANOMALY_OOM_KILL] : NULL, &is_muted);
}

/* A kill that is known may be counted by the host at this tick or at the next. */
void look_at_kills(struct look *w, const struct detect_news *news)
{
	uint64_t n = 0;

	for (size_t i = 0; i < news->n_events; i++) {
		if (news->events[i].type != EVENT_OOM)
			continue;
		n++;
		if (w->d->scope & DETECT_JOBS)
			note_kill(w, &news->events[i]);
	}
	w->tick.n_oom_events += n;
	w->d->surroundings.n_oom_events = n;
}

/* ---- all of it ---- */

void look_at_jobs(struct look *w, const struct detect_news *news)
{
	struct detect *d = w->d;

	begin_jobs(w, news);
	if (reserve_tracks(d, w->snap->n_processes) < 0) {
		look_note_failure(w, -ENOMEM);
		return;
	}
	update_tracks(w);
	look_note_failure(w, relations_find(&d->relations, &d->tracks, &w->tick, d->track_of));
	check_all_processes(w);
	check_jobs(w);
	check_cgroups(w);
	detect_tracks_sweep(&d->tracks, on_track_gone, on_job_gone, w);
}

void look_at_host(struct look *w)
{
	check_gpus(w);
	check_host(w);
}
