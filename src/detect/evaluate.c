#include "detect/evaluate.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "detect/check_ranks.h"

void evaluation_fail(struct evaluation *w, int r)
{
	if (r < 0 && w->r == 0)
		w->r = r;
}

void finding_clear(struct finding *f)
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

void evaluation_count(struct evaluation *w, const struct check *check, const struct finding *f)
{
	struct detect_looks *looks = &w->d->looks[check->type];

	if (f->stand == STAND_UNKNOWN)
		looks->n_silent++;
	else
		looks->n_judged++;
	looks->n_usual += f->is_usual;
}

bool evaluation_note(struct evaluation *w, const struct check *check, const struct subject *who,
		     const struct finding *f, struct burst *burst, bool *ret_muted)
{
	int r = episodes_note(&w->d->episodes, &w->tick, check, who, f, burst, ret_muted);

	evaluation_fail(w, r);
	return r > 0;
}

static struct subject subject_of_process(const struct track *p, const struct proc_sample *s)
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

static struct subject subject_of_job(const struct job_track *job)
{
	return (struct subject){
		.kind = OF_JOB,
		.job_id = job->job_id,
		.attempt_id = job->attempt_id,
		.sheet_num = job->sheet_num,
		.gpu = -1,
	};
}

/* ---- relations ---- */

/* Whoever did something so long ago, or at the last two ticks, goes on; never one that is still. */
#define MOVING_SECONDS 30
#define STILL_SHARE 0.9
#define BUSY_LIKE 0.5

static bool is_old_zombie(const struct tick *t, const struct track *p)
{
	return p->state == 'Z' && t->now - p->in_state >= t->config->zombie_duration_seconds;
}

static bool is_still(const struct tick *t, const struct track *p)
{
	return p->state != 'Z' && u64_known(p->cpu_ns) &&
	       t->now - p->progressed >= t->config->stuck_duration_seconds;
}

/* Busy for long enough to be told of, or, of others, for half as long. */
static bool is_busy(const struct tick *t, const struct track *p, double share)
{
	return t->now - p->busy >= share * t->config->runaway_duration_seconds; /* or it is NaN */
}

static uint64_t kin_key(const struct track *p, const struct proc_sample *s)
{
	uint64_t h = hash_bytes(HASH_INIT, &p->ppid, sizeof(p->ppid));

	return hash_bytes(h, s->comm, strnlen(s->comm, sizeof(s->comm)));
}

/* -1: no memory. */
static int find_kin(struct relations *r, uint64_t key)
{
	uint64_t i;

	if (map_get(&r->by_kin, key, &i))
		return (int)i;
	if (ARRAY_RESERVE(r->kin, r->cap_kin, r->n_kin + 1) < 0 ||
	    map_put(&r->by_kin, key, r->n_kin) < 0)
		return -1;
	r->kin[r->n_kin] = (struct kin){ 0 };
	return (int)r->n_kin++;
}

static bool is_moving(const struct tick *t, const struct track *p)
{
	double still = t->config->stuck_duration_seconds;
	double recent = fmin(MOVING_SECONDS, still / 2);

	if (f64_known(t->step))
		recent = fmax(recent, 2 * t->step);
	return t->now - p->progressed <= fmin(recent, still * STILL_SHARE);
}

/* Fills in what the tracks say of this tick. track_of: of each process of the tick. -ENOMEM. */
static int relations_find(struct relations *r, struct tracks *ts, const struct tick *t,
			  const size_t *track_of)
{
	const struct snapshot *s = t->snap;
	bool is_needed = false;

	for (size_t i = 0; !is_needed && i < ts->n; i++)
		is_needed = ts->items[i].seen_tick == ts->tick &&
			    (is_old_zombie(t, &ts->items[i]) || is_still(t, &ts->items[i]) ||
			     is_busy(t, &ts->items[i], 1));
	if (!is_needed)
		return 0;
	map_clear(&r->by_kin);
	r->n_kin = 0;
	for (size_t i = 0; i < s->n_processes; i++) {
		struct track *p = track_of[i] == TRACK_NONE ? NULL : &ts->items[track_of[i]];
		struct track *parent = p ? detect_tracks_by_pid(ts, p->ppid) : NULL;
		bool has_parent = parent && parent->seen_tick == ts->tick;
		struct kin *kin;

		if (!p)
			continue;
		/* The parent of a zombie is to blame; of one outside, the job has the count. */
		if (is_old_zombie(t, p) && has_parent) {
			parent->n_zombies++;
		} else if (is_old_zombie(t, p) && p->job) {
			p->job->n_zombies++;
			p->job->zombie_parent = p->ppid;
		} else if (p->state != 'Z' && has_parent) {
			parent->n_children++;
		}
		if (p->state == 'Z')
			continue;
		p->kin = find_kin(r, kin_key(p, &s->processes[i]));
		if (p->kin < 0)
			return -ENOMEM;
		kin = &r->kin[p->kin];
		kin->n_all++;
		kin->n_busy += is_busy(t, p, BUSY_LIKE);
		/* One that is new has not gone on while others stood still. */
		if (t->now - p->born < t->config->stuck_duration_seconds)
			continue;
		kin->n++;
		kin->n_moving += is_moving(t, p);
	}
	return 0;
}

/* ---- culprits ---- */

static bool is_there(const struct tracks *ts, const struct track *p)
{
	return p->seen_tick == ts->tick && p->state != 'Z';
}

/* Without memory some are not counted. */
static uint64_t count_child(struct map *children, pid_t parent)
{
	uint64_t n = 0;

	map_get(children, (uint64_t)parent, &n);
	return map_put(children, (uint64_t)parent, n + 1) < 0 ? 0 : n + 1;
}

/*
 * The process most to blame for what is of a job: that with the most children there, at least two;
 * NULL: there is none. Found once, when that begins, as the next one.
 */
static const struct track *culprit_of_processes(struct tracks *ts, const struct job_track *job)
{
	CLEANUP(map_release) struct map children = MAP_INIT;
	const struct track *worst = NULL;
	uint64_t most = 1;

	for (size_t i = 0; i < ts->n; i++) {
		const struct track *p = &ts->items[i], *parent;
		uint64_t n = p->job == job && is_there(ts, p) ? count_child(&children, p->ppid) : 0;

		if (n <= most)
			continue;
		parent = detect_tracks_by_pid(ts, p->ppid);
		if (!parent || parent->job != job || !is_there(ts, parent))
			continue;
		worst = parent;
		most = n;
	}
	return worst;
}

/* ---- what is over with its process or job ---- */

void evaluate_process_end(void *ctx, const struct track *p)
{
	struct evaluation *w = ctx;
	const struct subject who = subject_of_process(p, NULL);
	const uint64_t end_ns = p->died_wall_ns	    ? p->died_wall_ns
				: p->missed_wall_ns ? p->missed_wall_ns
						    : w->snap->wall_ns;

	for (enum anomaly_type type = 0; p->active && type < N_ANOMALY_TYPES; type++)
		if (p->active & 1u << type)
			evaluation_fail(
				w, episodes_end(&w->d->episodes, &w->tick, type, &who, end_ns));
}

void evaluate_job_end(void *ctx, const struct job_track *job)
{
	struct evaluation *w = ctx;

	evaluation_fail(w, episodes_end_job(&w->d->episodes, &w->tick, job));
}

/* ---- processes ---- */

static void set_bit(uint32_t *bits, enum anomaly_type type, bool is_set)
{
	*bits = is_set ? *bits | 1u << type : *bits & ~(1u << type);
}

static void note_process(struct evaluation *w, const struct check *check, struct track *p,
			 const struct proc_sample *s, const struct finding *f)
{
	struct subject who = subject_of_process(p, s);
	bool is_worse = f->stand == STAND_OVER && f->severity > p->job->bursts[check->type].worst;
	bool is_muted;

	if (p->is_dead && !(p->active & 1u << check->type))
		return; /* it was killed, and is not gone yet: nothing begins any more */
	if (p->muted & 1u << check->type && !is_worse) {
		set_bit(&p->muted, check->type, f->stand != STAND_CLEAR);
		return;
	}
	if (p->muted & 1u << check->type)
		episodes_take_back(&w->d->episodes, check->type, &who);
	set_bit(&p->active, check->type,
		evaluation_note(w, check, &who, f, &p->job->bursts[check->type], &is_muted));
	set_bit(&p->muted, check->type, is_muted);
}

static void evaluate_process(struct evaluation *w, struct track *p, const struct proc_sample *s)
{
	struct finding f;

	if (p->is_dead && s->state == 'Z') {
		/* A zombie, maybe for ever: its episodes ended with it. */
		evaluate_process_end(w, p);
		p->active = 0;
		return;
	}
	/* Two rows may be of one type, so a row that is silent must not clear what another
	 * began: the rows of processes are all of different types. */
	for (const struct check *check = checks; check->of_process; check++) {
		finding_clear(&f);
		check->of_process(&w->tick, p, s, &f);
		evaluation_count(w, check, &f);
		if (f.stand == STAND_OVER || (p->active | p->muted) & 1u << check->type)
			note_process(w, check, p, s, &f);
	}
}

/* ---- jobs ---- */

static bool is_elsewhere(const struct detect_news *news, int64_t attempt_id)
{
	return news->is_judged_elsewhere && news->is_judged_elsewhere(news->ctx, attempt_id);
}

static void begin_jobs(struct evaluation *w, const struct detect_news *news)
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

		if (is_elsewhere(news, progress->attempt_id))
			continue;
		if (detect_tracks_job(ts, progress->job_id, progress->attempt_id, &job) < 0) {
			evaluation_fail(w, -ENOMEM);
			continue;
		}
		job->seen_tick = ts->tick;
		job->sheet_num = progress->current_sheet;
	}
	for (size_t i = 0; i < news->n_usual; i++) {
		if (detect_tracks_job(ts, news->usual[i].job_id, news->usual[i].attempt_id, &job) <
		    0)
			continue;
		job->usual = news->usual[i];
		job->usual.job_id = NULL; /* borrowed */
	}
}

void subject_blame(struct subject *who, const struct track *culprit)
{
	if (!culprit)
		return;
	who->key = culprit->key;
	who->comm = culprit->comm;
	if (who->sheet_num == SHEET_NONE)
		who->sheet_num = culprit->sheet_num;
}

static void check_job(struct evaluation *w, const struct check *check, struct job_track *job)
{
	struct subject who = subject_of_job(job);
	struct finding f;

	finding_clear(&f);
	check->of_job(&w->tick, job, &f);
	evaluation_count(w, check, &f);
	if (f.stand != STAND_OVER && !(job->active & 1u << check->type))
		return;
	if (f.stand == STAND_OVER &&
	    episodes_would_begin(&w->d->episodes, &w->tick, check->type, &who)) {
		if (check->of_job == check_processes)
			subject_blame(&who, culprit_of_processes(&w->d->tracks, job));
		if (check->of_job == check_ranks)
			rank_watch_blame(job->ranks, &who);
	}
	set_bit(&job->active, check->type, evaluation_note(w, check, &who, &f, NULL, NULL));
}

/* ---- GPUs and the host ---- */

/* ---- all of it ---- */

void evaluate_jobs(struct evaluation *w, const struct detect_news *news)
{
	struct detect *d = w->d;
	double before = f64_known(w->tick.step) ? w->tick.now - w->tick.step : w->tick.now;
	int64_t attempt_id = INT64_MIN;
	bool is_left_out = false;
	struct tracks *ts;

	begin_jobs(w, news);
	if (ARRAY_RESERVE(d->track_of, d->cap_track_of, w->snap->n_processes) < 0) {
		evaluation_fail(w, -ENOMEM);
		return;
	}
	host_past_see_cgroups(&d->host_past, w->snap);
	for (size_t i = 0; i < w->snap->n_processes; i++) {
		const struct proc_sample *p = &w->snap->processes[i];

		if (p->job_id && p->attempt_id != attempt_id) {
			attempt_id = p->attempt_id;
			is_left_out = is_elsewhere(news, attempt_id);
		}
		d->track_of[i] = TRACK_NONE;
		if (p->job_id && is_left_out)
			continue;
		evaluation_fail(w, detect_tracks_update(&d->tracks, &d->config, p, w->tick.now,
							before, &d->track_of[i]));
		if (d->track_of[i] != TRACK_NONE && p->job_id && p->rank != RANK_NONE) {
			struct track *track = &d->tracks.items[d->track_of[i]];

			evaluation_fail(w, rank_watch_add(&track->job->ranks, p));
		}
	}
	evaluation_fail(w, relations_find(&d->relations, &d->tracks, &w->tick, d->track_of));
	evaluation_fail(w, episodes_meet(&d->episodes, &w->tick, &d->tracks));
	evaluate_homes(w);
	for (size_t i = 0; i < w->snap->n_processes; i++) {
		const size_t at = d->track_of[i];

		if (at != TRACK_NONE)
			evaluate_process(w, &d->tracks.items[at], &w->snap->processes[i]);
	}
	ts = &w->d->tracks;
	for (size_t i = 0; i < ts->n_jobs; i++) {
		struct job_track *job = ts->jobs[i];

		if (job->ranks)
			evaluation_fail(w, rank_watch_end_tick(job->ranks, &w->tick));
		for (size_t k = 0; k < n_checks; k++)
			if (checks[k].of_job)
				check_job(w, &checks[k], job);
		if (job->active & 1u << ANOMALY_PROCESS_EXPLOSION)
			continue; /* how many there were before it is not to be forgotten */
		two_ago_add(&job->processes, w->tick.now, (double)job->n_processes,
			    w->d->config.memory_spike_window_seconds);
	}
	evaluate_cgroups(w, news);
	detect_tracks_sweep(&d->tracks, w->snap->wall_ns, evaluate_process_end, evaluate_job_end,
			    w);
}

void evaluate_host(struct evaluation *w, const struct detect_news *news)
{
	struct host_past *s = &w->d->host_past;
	uint64_t total = u64_max_known(w->snap->system.oom_kills_total, s->host_kills);
	uint64_t n = u64_known(w->snap->system.oom_kills_total) ? u64_delta(total, s->host_kills)
								: U64_UNKNOWN;
	uint64_t n_known = w->d->early.n + w->d->early.n_more + news->n_kills_elsewhere;
	double step = f64_known(w->tick.step) ? w->tick.step : 0;
	const struct subject host = { .kind = OF_HOST, .sheet_num = SHEET_NONE, .gpu = -1 };
	const struct episode *told;
	struct finding f;

	/*
	 * The count of the host has every kill. A kill is known by its event, or by the count of a
	 * cgroup that no event explains: so that comes first, and the host's waits for a tick more.
	 * The last known count is kept whatever happens in between: it only rises, and where it
	 * falls, the snapshot was read before the previous one.
	 */
	for (size_t i = 0; i < news->n_events; i++)
		n_known += news->events[i].type == EVENT_OOM;
	s->host_kills = total;
	w->tick.host_kills = kills_settle(&s->kills, n, n_known + w->n_cgroup_kills, w->tick.now,
					  w->tick.step, KILLS_EVENT_LATE_SECONDS + step);
	for (size_t i = 0; i < w->snap->n_gpus; i++) {
		const struct gpu_sample *gpu = &w->snap->gpus[i];
		const struct subject who = { .kind = OF_GPU,
					     .gpu = gpu->index,
					     .sheet_num = SHEET_NONE };

		host_past_see_gpu(s, gpu, &w->tick);
		for (size_t k = 0; k < n_checks; k++) {
			if (!checks[k].of_gpu)
				continue;
			finding_clear(&f);
			checks[k].of_gpu(&w->tick, gpu, &f);
			evaluation_count(w, &checks[k], &f);
			evaluation_note(w, &checks[k], &who, &f, NULL, NULL);
		}
	}
	told = episodes_last(&w->d->episodes, &w->tick, ANOMALY_OOM_KILL, &host);
	w->tick.host_kills_before = told ? told->peak_value : 0;
	for (size_t k = 0; k < n_checks; k++) {
		if (!checks[k].of_host)
			continue;
		finding_clear(&f);
		checks[k].of_host(&w->tick, &f);
		evaluation_count(w, &checks[k], &f);
		evaluation_note(w, &checks[k], &host, &f, NULL, NULL);
	}
}

/* ---- events since the last tick: OOM kills, exits and orphans ---- */

/* As it was at the last tick. A runner knows the pid of its child, and not when it began. */
static const struct track *find_victim(struct evaluation *w, const struct proc_event *ev)
{
	const struct track *p = detect_tracks_by_pid(&w->d->tracks, ev->key.pid);

	if (!p || !ev->job_id || strcmp(p->job->job_id, ev->job_id) != 0 ||
	    p->job->attempt_id != ev->attempt_id)
		return NULL;
	return !u64_known(ev->key.start_ticks) || ev->key.start_ticks == p->key.start_ticks ? p
											    : NULL;
}

/* By the clock of the ticks; now, where nobody knows. */
static double moment_of(const struct evaluation *w, const struct proc_event *ev)
{
	double ago = u64_to_seconds(u64_delta(w->snap->wall_ns, ev->wall_ns));

	return w->tick.now - (f64_known(ago) ? ago : 0);
}

static void note_kill(struct evaluation *w, const struct proc_event *ev)
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
		evaluation_fail(w, -ENOMEM);
	finding_clear(&f);
	find_oom(ev, victim, &f);
	kills_is_late(&w->d->host_past.kills, w->tick.now, at);
	if (evaluate_late_kill(w, ev, at, &f))
		return;
	evaluation_note(w, &check_oom_event, &who, &f, job ? &job->bursts[ANOMALY_OOM_KILL] : NULL,
			&is_muted);
	if (is_muted) { /* not lost: those without an episode of their own have one of the job */
		const struct subject of_job = subject_of_job(job);

		finding_clear(&f);
		find_more_kills(++job->n_more_kills, ev, &f);
		evaluation_note(w, &check_oom_event, &of_job, &f, NULL, NULL);
	}
}

/* A runner knows its child by the pid alone: after the last look none but who was there has it. */
static bool is_death_of(const struct evaluation *w, const struct proc_event *ev,
			const struct track *p)
{
	if (u64_known(ev->key.start_ticks))
		return p->key.start_ticks == ev->key.start_ticks;
	return u64_known(ev->wall_ns) && ev->wall_ns >= w->d->last_wall_ns &&
	       p->seen_tick == w->d->tracks.tick;
}

/* Who is known to have ended is not waited for. */
static void note_death(struct evaluation *w, const struct proc_event *ev)
{
	struct track *p = detect_tracks_by_pid(&w->d->tracks, ev->key.pid);

	if (!p || !is_death_of(w, ev, p))
		return;
	p->is_dead = true;
	if (u64_known(ev->wall_ns))
		p->died_wall_ns = ev->wall_ns;
}

void evaluate_deaths(struct evaluation *w, const struct proc_event *events, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (events[i].type == EVENT_EXIT || events[i].type == EVENT_OOM)
			note_death(w, &events[i]);
}

/* It may have been so short that no look has shown it. */
static void note_sigkill(struct evaluation *w, const struct proc_event *ev)
{
	struct job_track *job;

	if (!ev->job_id || ev->status.signal != SIGKILL)
		return;
	if (detect_tracks_job(&w->d->tracks, ev->job_id, ev->attempt_id, &job) < 0)
		evaluation_fail(w, -ENOMEM);
	else
		job->lost_tick = w->d->tracks.tick + 1; /* which is about to begin */
}

/* Made when it is first asked for: a tick that has such events may have many. */
static const struct proc_sample *find_sample(struct evaluation *w, const struct proc_key *key)
{
	const struct proc_sample *p;
	uint64_t at;

	for (size_t i = 0; !w->has_by_pid && i < w->snap->n_processes; i++)
		evaluation_fail(w, map_put(&w->by_pid, (uint64_t)w->snap->processes[i].key.pid, i));
	w->has_by_pid = true;
	if (!map_get(&w->by_pid, (uint64_t)key->pid, &at))
		return NULL;
	p = &w->snap->processes[at];
	return p->key.start_ticks == key->start_ticks ? p : NULL;
}

void evaluate_kills(struct evaluation *w, const struct detect_news *news)
{
	for (size_t i = 0; i < news->n_events; i++) {
		const struct proc_event *ev = &news->events[i];

		if (ev->type != EVENT_OOM)
			continue;
		note_kill(w, ev);
		note_death(w, ev);
		/* The counts of the next tick have it, and no event does then. */
		if (ev->job_id && w->d->early.n < EVALUATION_EARLY)
			w->d->early.jobs[w->d->early.n++] =
				host_past_hash_job(ev->job_id, ev->attempt_id);
		else
			w->d->early.n_more++;
	}
}

void evaluate_events(struct evaluation *w, const struct detect_news *news)
{
	for (size_t i = 0; i < news->n_events; i++) {
		const struct proc_event *ev = &news->events[i];

		if (ev->type == EVENT_OOM)
			note_kill(w, ev);
		if (ev->type == EVENT_ORPHAN) {
			/* A job that is shorter than a tick may leave who is not. */
			const struct proc_sample *p = ev->job_id ? find_sample(w, &ev->key) : NULL;

			if (p && u64_known(p->key.start_ticks))
				evaluation_fail(w,
						detect_tracks_adopt(&w->d->tracks, p, ev,
								    w->tick.now, moment_of(w, ev)));
		}
		if (ev->type == EVENT_OOM || ev->type == EVENT_EXIT)
			note_death(w, ev);
		if (ev->type == EVENT_EXIT)
			note_sigkill(w, ev);
	}
}
