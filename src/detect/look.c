#include "detect/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/culprit.h"

void look_note_failure(struct look *w, int r)
{
	if (r < 0 && w->r == 0)
		w->r = r;
}

void look_release(struct look *w)
{
	map_release(&w->late.first);
	map_release(&w->by_pid);
}

void look_clear_finding(struct finding *f)
{
	f->stand = STAND_UNKNOWN;
	f->severity = SEVERITY_LOW;
	f->value = f->threshold = f->before = f->seconds_to_limit = F64_UNKNOWN;
	f->other_value = F64_UNKNOWN;
	f->unit = f->other_unit = NULL;
	f->n_times = 0;
	f->is_no_other = f->is_usual = false;
	f->text[0] = '\0';
}

void look_count(struct look *w, const struct check *check, const struct finding *f)
{
	struct detect_looks *looks = &w->d->looks[check->type];

	if (f->stand == STAND_UNKNOWN)
		looks->n_silent++;
	else
		looks->n_judged++;
	looks->n_usual += f->is_usual;
}

bool look_note(struct look *w, const struct check *check, const struct subject *who,
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

struct subject look_subject_of_process(const struct track *p, const struct proc_sample *s)
{
	return (struct subject){
		.kind = OF_PROCESS,
		.key = p->key,
		.job_id = p->job ? p->job->job_id : NULL,
		.attempt_id = p->job ? p->job->attempt_id : 0,
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
	struct subject who = look_subject_of_process(p, s);
	bool is_muted;

	bool is_worse = f->stand == STAND_OVER && f->severity > p->job->told[check->type].worst;

	if (p->is_dead && !(p->active & 1u << check->type))
		return; /* it was killed, and is not gone yet: nothing begins any more */
	if (p->muted & 1u << check->type && !is_worse) {
		set_bit(&p->muted, check->type, f->stand != STAND_CLEAR);
		return;
	}
	if (p->muted & 1u << check->type)
		episodes_take_back(&w->d->episodes, check->type, &who);
	set_bit(&p->active, check->type,
		look_note(w, check, &who, f, &p->job->told[check->type], &is_muted));
	set_bit(&p->muted, check->type, is_muted);
}

/* Two rows may be of one type, so a row that is silent must not clear what another began: the
 * rows of processes are all of different types. */
static void check_process(struct look *w, struct track *p, const struct proc_sample *s)
{
	struct finding f;

	for (const struct check *check = checks; check->of_process; check++) {
		look_clear_finding(&f);
		check->of_process(&w->tick, p, s, &f);
		look_count(w, check, &f);
		if (f.stand == STAND_OVER || (p->active | p->muted) & 1u << check->type)
			note_process(w, check, p, s, &f);
	}
}

/* One that nobody has waited for yet, and maybe never will: what lasted of it was over when it
 * ended. */
static bool has_ended(const struct track *p, const struct proc_sample *s)
{
	return p->is_dead && s->state == 'Z';
}

static void look_at_process(struct look *w, struct track *p, const struct proc_sample *s)
{
	if (!has_ended(p, s)) {
		check_process(w, p, s);
		return;
	}
	look_end_process(w, p);
	p->active = 0;
}

static void check_all_processes(struct look *w)
{
	for (size_t i = 0; i < w->snap->n_processes; i++) {
		const size_t at = w->d->track_of[i];

		if (at != TRACK_NONE)
			look_at_process(w, &w->d->tracks.items[at], &w->snap->processes[i]);
	}
}

/* ---- jobs ---- */

static void begin_jobs(struct look *w, const struct detect_news *news)
{
	struct tracks *ts = &w->d->tracks;
	struct job_track *job;

	ts->tick++;
	ts->n_left_out = 0;
	for (size_t i = 0; i < ts->n_jobs; i++) {
		ts->jobs[i]->n_zombies_before = ts->jobs[i]->n_zombies;
		ts->jobs[i]->n_processes = ts->jobs[i]->n_threads = 0;
		ts->jobs[i]->n_zombies = 0;
		ts->jobs[i]->cpu_percent = 0;
		ts->jobs[i]->user_limits = (struct limits){ 0 };
		ts->jobs[i]->cgroup_limit = U64_UNKNOWN;
		ts->jobs[i]->sheet_num = SHEET_NONE;
	}
	for (size_t i = 0; i < w->snap->n_progress; i++) {
		const struct job_progress *progress = &w->snap->progress[i];

		if (detect_tracks_job(ts, progress->job_id, progress->attempt_id, &job) < 0) {
			look_note_failure(w, -ENOMEM);
			continue;
		}
		job->seen_tick = ts->tick;
		job->sheet_num = progress->current_sheet;
	}
	for (size_t i = 0; i < news->n_usual; i++) {
		if (detect_tracks_job(ts, news->usual[i].job_id, news->usual[i].attempt_id, &job) <
		    0)
			continue;
		job->usual_cpu_percent = news->usual[i].cpu_percent;
		job->usual_wall_seconds = news->usual[i].wall_seconds;
		job->usual_cpu_seconds = news->usual[i].cpu_seconds;
		job->usual_rss_bytes = news->usual[i].rss_bytes;
	}
}

struct subject look_subject_of_job(const struct job_track *job)
{
	return (struct subject){
		.kind = OF_JOB,
		.job_id = job->job_id,
		.attempt_id = job->attempt_id,
		.sheet_num = job->sheet_num,
		.gpu = -1,
	};
}

void look_blame(struct subject *who, const struct track *culprit)
{
	if (!culprit)
		return;
	who->key = culprit->key;
	who->comm = culprit->comm;
	if (who->sheet_num == SHEET_NONE)
		who->sheet_num = culprit->sheet_num;
}

struct job_at_hand {
	struct tracks *tracks;
	const struct job_track *job;
};

static void blame_process(const void *ctx, struct subject *who)
{
	const struct job_at_hand *at = ctx;

	look_blame(who, culprit_of_processes(at->tracks, at->job));
}

static void check_job(struct look *w, const struct check *check, struct job_track *job)
{
	const struct job_at_hand at = { &w->d->tracks, job };
	struct subject who = look_subject_of_job(job);
	struct finding f;
	bool is_muted;

	look_clear_finding(&f);
	check->of_job(&w->tick, job, &f);
	look_count(w, check, &f);
	who.blame = check->of_job == check_processes ? blame_process : NULL;
	who.blame_ctx = &at;
	if (f.stand == STAND_OVER || job->active & 1u << check->type)
		set_bit(&job->active, check->type, look_note(w, check, &who, &f, NULL, &is_muted));
}

static void check_jobs(struct look *w)
{
	struct tracks *ts = &w->d->tracks;

	for (size_t i = 0; i < ts->n_jobs; i++) {
		struct job_track *job = ts->jobs[i];

		for (size_t k = 0; k < n_checks; k++)
			if (checks[k].of_job)
				check_job(w, &checks[k], job);
		if (job->active & 1u << ANOMALY_PROCESS_EXPLOSION)
			continue; /* how many there were before it is not to be forgotten */
		two_ago_add(&job->processes, w->tick.now, (double)job->n_processes,
			    w->d->config.memory_spike_window_seconds);
	}
}

/* ---- GPUs and the host ---- */

static void check_gpus(struct look *w)
{
	for (size_t i = 0; i < w->snap->n_gpus; i++) {
		const struct gpu_sample *gpu = &w->snap->gpus[i];
		const struct subject who = { .kind = OF_GPU,
					     .gpu = gpu->index,
					     .sheet_num = SHEET_NONE };
		struct finding f;
		bool is_muted;

		surroundings_see_gpu(&w->d->surroundings, gpu, &w->tick);
		for (size_t k = 0; k < n_checks; k++) {
			if (!checks[k].of_gpu)
				continue;
			look_clear_finding(&f);
			checks[k].of_gpu(&w->tick, gpu, &f);
			look_count(w, &checks[k], &f);
			look_note(w, &checks[k], &who, &f, NULL, &is_muted);
		}
	}
}

static void check_host(struct look *w)
{
	const struct subject who = { .kind = OF_HOST, .sheet_num = SHEET_NONE, .gpu = -1 };
	struct finding f;
	bool is_muted;

	w->tick.host_kills_told =
		episodes_peak(&w->d->episodes, &w->moment, ANOMALY_OOM_KILL, &who);
	for (size_t k = 0; k < n_checks; k++) {
		if (!checks[k].of_host)
			continue;
		look_clear_finding(&f);
		checks[k].of_host(&w->tick, &f);
		look_count(w, &checks[k], &f);
		look_note(w, &checks[k], &who, &f, NULL, &is_muted);
	}
}

/* ---- kills that only the host counts ---- */

static uint64_t count_kills(const struct look *w, const struct detect_news *news)
{
	uint64_t n = w->d->early.n + w->d->early.n_more + news->n_kills_elsewhere;

	for (size_t i = 0; i < news->n_events; i++)
		n += news->events[i].type == EVENT_OOM;
	return n;
}

/*
 * Each is in the count of the host. It is known by its event, or by the count of a cgroup that no
 * event explains: so that comes first, and the host's waits for a tick more. The last known count
 * is kept whatever happens in between: it only rises, and where it falls, who looked had read it
 * before the one who looked last.
 */
static void settle_kills(struct look *w, const struct detect_news *news)
{
	struct surroundings *s = &w->d->surroundings;
	uint64_t total = u64_max_known(w->snap->system.oom_kills_total, s->host_kills);
	uint64_t n = u64_known(w->snap->system.oom_kills_total) ? u64_delta(total, s->host_kills)
								: U64_UNKNOWN;
	double step = f64_known(w->tick.step) ? w->tick.step : 0;

	s->host_kills = total;
	w->tick.host_kills =
		kills_settle(&s->kills, n, count_kills(w, news) + w->n_cgroup_kills, w->tick.now,
			     w->tick.step, KILLS_EVENT_LATE_SECONDS + step);
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
	surroundings_see_cgroups(&d->surroundings, w->snap);
	update_tracks(w);
	look_note_failure(w, relations_find(&d->relations, &d->tracks, &w->tick, d->track_of));
	look_note_failure(w, episodes_meet(&d->episodes, &w->moment, &d->tracks));
	look_find_homes(w);
	check_all_processes(w);
	check_jobs(w);
	look_at_cgroups(w, news);
	detect_tracks_sweep(&d->tracks, w->snap->wall_ns, look_end_process, look_end_job, w);
}

void look_at_host(struct look *w, const struct detect_news *news)
{
	settle_kills(w, news);
	check_gpus(w);
	check_host(w);
}
