#include "detect/detect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/unknown.h"
#include "detect/checks.h"
#include "detect/episode.h"
#include "detect/relations.h"
#include "detect/surroundings.h"
#include "detect/track.h"

struct detect {
	struct config_anomaly config;
	enum detect_scope scope;
	char boot_id[BOOT_ID_BYTES];
	uint64_t last_ns; /* by the clock that counts; 0: there was no tick */
	uint64_t last_wall_ns;
	struct tracks tracks;
	struct relations relations;
	struct surroundings surroundings;
	struct episodes episodes;
	size_t *track_of; /* of each process of the tick */
	size_t cap_track_of;
	struct detect_change *changes;
	size_t cap_changes;
};

struct detect *detect_new(const struct config_anomaly *config, enum detect_scope scope)
{
	struct detect *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->config = *config;
	d->scope = scope;
	surroundings_init(&d->surroundings);
	return d;
}

struct detect *detect_free(struct detect *d)
{
	if (!d)
		return NULL;
	tracks_release(&d->tracks);
	relations_release(&d->relations);
	surroundings_release(&d->surroundings);
	episodes_release(&d->episodes);
	free(d->track_of);
	free(d->changes);
	free(d);
	return NULL;
}

void detect_configure(struct detect *d, const struct config_anomaly *config)
{
	d->config = *config;
}

/* ---- one tick ---- */

/* What the steps of a tick hand on. */
struct work {
	struct detect *d;
	const struct snapshot *snap;
	struct tick tick;
	struct moment moment;
	int r; /* the first failure */
};

static void note_failure(struct work *w, int r)
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
static bool note(struct work *w, const struct check *check, const struct subject *who,
		 const struct finding *f, struct told *told, bool *ret_muted)
{
	int r = episodes_note(&w->d->episodes, &w->moment, check, who, f, told, ret_muted);

	note_failure(w, r);
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

static void update_tracks(struct work *w)
{
	struct detect *d = w->d;
	double before = f64_known(w->tick.step) ? w->tick.now - w->tick.step : w->tick.now;

	for (size_t i = 0; i < w->snap->n_processes; i++)
		note_failure(w, tracks_update(&d->tracks, &d->config, &w->snap->processes[i],
					      w->tick.now, before, &d->track_of[i]));
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

static void note_process(struct work *w, const struct check *check, struct track *p,
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
static void check_process(struct work *w, struct track *p, const struct proc_sample *s)
{
	struct finding f;

	for (const struct check *check = checks; check->of_process; check++) {
		clear_finding(&f);
		check->of_process(&w->tick, p, s, &f);
		if (f.stand == STAND_OVER || (p->active | p->muted) & 1u << check->type)
			note_process(w, check, p, s, &f);
	}
}

static void check_all_processes(struct work *w)
{
	for (size_t i = 0; i < w->snap->n_processes; i++)
		if (w->d->track_of[i] != TRACK_NONE)
			check_process(w, &w->d->tracks.items[w->d->track_of[i]],
				      &w->snap->processes[i]);
}

/* ---- jobs ---- */

static void begin_jobs(struct work *w, const struct detect_news *news)
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
		if (tracks_job(ts, w->snap->progress[i].job_id, &job) == 0)
			job->seen_tick = ts->tick;
		else
			note_failure(w, -ENOMEM);
	for (size_t i = 0; i < news->n_usual; i++) {
		if (tracks_job(ts, news->usual[i].job_id, &job) < 0)
			continue;
		job->usual_cpu_percent = news->usual[i].cpu_percent;
		job->usual_rss_bytes = news->usual[i].rss_bytes;
	}
}

static void check_job(struct work *w, const struct check *check, struct job_track *job)
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

static void check_jobs(struct work *w)
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
	struct work *w = ctx;
	const struct subject who = process_subject(p, NULL);

	for (int type = 0; p->active && type < N_ANOMALY_TYPES; type++)
		if (p->active & 1u << type)
			note_failure(w, episodes_end(&w->d->episodes, &w->moment,
						     (enum anomaly_type)type, &who,
						     "the process ended"));
}

static void on_job_gone(void *ctx, const struct job_track *job)
{
	struct work *w = ctx;
	const struct subject who = { .kind = OF_JOB, .job_id = job->job_id };

	for (int type = 0; job->active && type < N_ANOMALY_TYPES; type++)
		if (job->active & 1u << type)
			note_failure(w,
				     episodes_end(&w->d->episodes, &w->moment,
						  (enum anomaly_type)type, &who, "the job ended"));
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

static void check_cgroups(struct work *w)
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

static void check_gpus(struct work *w)
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

static void check_host(struct work *w)
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

static void note_kill(struct work *w, const struct proc_event *ev)
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

	if (ev->job_id && tracks_job(&w->d->tracks, ev->job_id, &job) < 0)
		note_failure(w, -ENOMEM);
	clear_finding(&f);
	find_oom(ev, &f);
	note(w, &check_oom_event, &who, &f, job ? &job->told[ANOMALY_OOM_KILL] : NULL, &is_muted);
}

/* A kill that is known may be counted by the host at this tick or at the next. */
static void note_kills(struct work *w, const struct detect_news *news)
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

/* ---- the tick as a whole ---- */

/* Boot time, which never jumps; wall time where a recording has no other. */
static uint64_t time_of(const struct snapshot *s)
{
	return s->boot_ns != 0 && u64_known(s->boot_ns) ? s->boot_ns : s->wall_ns;
}

/* After a reboot pids and start times are those of others. */
static void begin_boot(struct work *w)
{
	struct detect *d = w->d;

	if (!w->snap->boot_id[0] || strcmp(d->boot_id, w->snap->boot_id) == 0)
		return;
	if (d->last_ns != 0 && d->boot_id[0])
		note_failure(w, episodes_end_all(&d->episodes, &w->moment, "the host was booted"));
	tracks_reset(&d->tracks);
	surroundings_release(&d->surroundings);
	surroundings_init(&d->surroundings);
	d->last_ns = 0;
	memcpy(d->boot_id, w->snap->boot_id, sizeof(d->boot_id));
}

static void look_at_jobs(struct work *w, const struct detect_news *news)
{
	struct detect *d = w->d;

	begin_jobs(w, news);
	if (reserve_tracks(d, w->snap->n_processes) < 0) {
		note_failure(w, -ENOMEM);
		return;
	}
	update_tracks(w);
	note_failure(w, relations_find(&d->relations, &d->tracks, &w->tick, d->track_of));
	check_all_processes(w);
	check_jobs(w);
	check_cgroups(w);
	tracks_sweep(&d->tracks, on_track_gone, on_job_gone, w);
}

static int reserve_changes(struct detect *d, size_t n)
{
	struct detect_change *grown;

	if (n <= d->cap_changes)
		return 0;
	grown = reallocarray(d->changes, n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	d->changes = grown;
	d->cap_changes = n;
	return 0;
}

static struct detect_wish wish_for(const struct detect *d, const struct changed *c)
{
	const struct detect_wish none = { F64_UNKNOWN, 0 };

	if (c->change != EPISODE_BEGAN || !c->episode->worst.job_id)
		return none;
	return (struct detect_wish){ d->config.evidence_interval_seconds,
				     d->config.evidence_duration_seconds };
}

static int hand_out(struct detect *d, struct detect_changes *ret)
{
	const struct episodes *es = &d->episodes;

	if (reserve_changes(d, es->n_changes) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < es->n_changes; i++)
		d->changes[i] =
			(struct detect_change){ es->changes[i].change, es->changes[i].episode,
						wish_for(d, &es->changes[i]) };
	*ret = (struct detect_changes){ d->changes, es->n_changes };
	return 0;
}

static void look(struct work *w, const struct detect_news *news)
{
	struct detect *d = w->d;

	surroundings_begin(&d->surroundings, &d->config, &w->tick);
	note_kills(w, news);
	if (d->scope & DETECT_JOBS)
		look_at_jobs(w, news);
	if (d->scope & DETECT_HOST) {
		check_gpus(w);
		check_host(w);
	}
	note_failure(w, episodes_end_tick(&d->episodes, &w->moment));
	surroundings_end(&d->surroundings, &w->tick);
}

int detect_tick(struct detect *d, const struct detect_news *news, struct detect_changes *ret)
{
	uint64_t now_ns = time_of(news->snap);
	struct work w = {
		.d = d,
		.snap = news->snap,
		.tick = { .config = &d->config,
			  .snap = news->snap,
			  .now = (double)now_ns / 1e9,
			  .step = F64_UNKNOWN },
		.moment = { &d->config, news->snap, (double)now_ns / 1e9 },
	};
	int r;

	*ret = (struct detect_changes){ 0 };
	episodes_begin_tick(&d->episodes);
	begin_boot(&w);
	if (d->last_ns != 0 && now_ns <= d->last_ns)
		return 0;
	if (d->last_ns != 0)
		w.tick.step = (double)(now_ns - d->last_ns) / 1e9;
	look(&w, news);
	d->last_ns = now_ns;
	d->last_wall_ns = news->snap->wall_ns;
	r = hand_out(d, ret);
	return w.r < 0 ? w.r : r;
}

int detect_end(struct detect *d, struct detect_changes *ret)
{
	struct snapshot last = { .wall_ns = d->last_wall_ns };
	const struct moment m = { &d->config, &last, (double)d->last_ns / 1e9 };
	int r;

	episodes_begin_tick(&d->episodes);
	r = episodes_end_all(&d->episodes, &m, "nobody looks any more");
	tracks_reset(&d->tracks);
	return r < 0 ? r : hand_out(d, ret);
}

const struct episode *detect_active(const struct detect *d, size_t i)
{
	return episodes_at(&d->episodes, i);
}

uint64_t detect_count_left_out(const struct detect *d)
{
	return d->tracks.n_left_out + d->episodes.n_untold;
}
