/*
 * evaluate_cgroups - the cgroups of jobs: whose each is, and what is out of the ordinary there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "detect/evaluate.h"

/* What others have taken of it is not there for the job. */
static void bound_job(const struct evaluation *w, const struct cgroup_past *past, size_t track)
{
	const struct cgroup_sample *c = past->at != SIZE_MAX ? &w->snap->cgroups[past->at] : NULL;
	struct job_track *job = track != TRACK_NONE ? w->d->tracks.items[track].job : NULL;
	bool lasts = job && job->active & 1u << ANOMALY_PROCESS_EXPLOSION;
	uint64_t limit;

	/* Where others fill it, it is not the job that does. What counts there is threads. */
	if (!c || !job || !u64_known(c->pids_current) || !u64_known(c->pids_max) ||
	    c->pids_max == PIDS_UNLIMITED || job->n_threads < c->pids_current / (lasts ? 4 : 2))
		return;
	limit = c->pids_max > c->pids_current ? c->pids_max - c->pids_current : 0;
	limit += job->n_processes;     /* which are what is judged */
	if (limit < job->cgroup_limit) /* unknown is the largest */
		job->cgroup_limit = limit;
}

static void set_job(const struct host_past *s, struct cgroup_past *past,
		    const struct proc_sample *p)
{
	const uint64_t job = host_past_hash_job(p->job_id, p->attempt_id);

	snprintf(past->job_id, sizeof(past->job_id), "%s", p->job_id);
	past->attempt_id = p->attempt_id;
	past->sheet_before = past->job == job ? past->sheet_num : SHEET_NONE;
	past->job = job;
	past->sheet_num = p->sheet_num;
	past->job_seen = s->n_ticks;
}

/* The job of the first process in each: one walk through the processes, most of which are in the
 * same as the one before. */
void evaluate_homes(struct evaluation *w)
{
	struct host_past *s = &w->d->host_past;
	struct cgroup_past *past = NULL;
	const char *path = NULL;

	for (size_t i = 0; s->n_cgroups > 0 && i < w->snap->n_processes; i++) {
		const struct proc_sample *p = &w->snap->processes[i];

		if (!p->job_id || !p->cgroup)
			continue;
		if (!path || strcmp(path, p->cgroup) != 0)
			past = host_past_find_cgroup(s, p->cgroup);
		path = p->cgroup;
		if (past && past->job_seen != s->n_ticks)
			set_job(s, past, p);
		else if (past && !past->is_shared)
			past->is_shared = !(strcmp(past->job_id, p->job_id) == 0 &&
					    past->attempt_id == p->attempt_id);
		if (past)
			bound_job(w, past, w->d->track_of[i]);
	}
}

/* ---- kills ---- */

static bool is_inside(const char *cgroup, const char *path)
{
	size_t n = strlen(path);

	return cgroup && strncmp(cgroup, path, n) == 0 &&
	       (cgroup[n] == '\0' || cgroup[n] == '/' || n == 0 || path[n - 1] == '/');
}

/* May have been in any cgroup of that job. One of a job whose cgroup is not known: in any at all.
 */
static void add_kill(struct evaluation *w, uint64_t job)
{
	struct host_past *s = &w->d->host_past;
	bool is_known = false;

	for (size_t i = 0; i < s->n_cgroups; i++) {
		s->cgroups[i].n_events += s->cgroups[i].job == job;
		is_known |= s->cgroups[i].job == job;
	}
	w->n_anywhere += !is_known;
}

/* Kills that have events. */
static void count_events(struct evaluation *w, const struct detect_news *news)
{
	const struct early_kills *early = &w->d->early;

	for (size_t i = 0; i < w->d->host_past.n_cgroups; i++)
		w->d->host_past.cgroups[i].n_events = 0;
	w->n_anywhere = early->n_more;
	for (size_t i = 0; i < early->n; i++)
		add_kill(w, early->jobs[i]);
	for (size_t i = 0; i < news->n_events; i++) {
		const struct proc_event *ev = &news->events[i];

		if (ev->type == EVENT_OOM && ev->job_id)
			add_kill(w, host_past_hash_job(ev->job_id, ev->attempt_id));
		else if (ev->type == EVENT_OOM)
			w->n_anywhere++;
	}
}

/*
 * A runner sees none but its own processes, so it does not know who else is in the cgroup. But a
 * job that has lost no process since a look before the count rose was not killed.
 */
static bool are_kills_of_job(const struct evaluation *w, const struct cgroup_past *past)
{
	const struct job_track *job =
		detect_tracks_find_job(&w->d->tracks, past->job_id, past->attempt_id);

	return past->job_id[0] && !past->is_shared && (!job || job->lost_tick + 1 >= past->rose);
}

/* That may have been in this one; those of other jobs only if it has lost no process itself. */
static uint64_t count_known(const struct evaluation *w, const struct detect_news *news,
			    const struct cgroup_past *past)
{
	return w->n_anywhere + past->n_events +
	       (are_kills_of_job(w, past) ? 0 : news->n_kills_elsewhere);
}

/* Those that cgroups above and below have counted, which came before it. */
static uint64_t count_nested(const struct evaluation *w, const char *path)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w->n_killing; i++)
		if (is_inside(w->snap->cgroups[w->killing[i].at].path, path) ||
		    is_inside(path, w->snap->cgroups[w->killing[i].at].path))
			n += w->killing[i].n;
	return n;
}

/* The last known count is kept while it cannot be read. */
static uint64_t settle(struct evaluation *w, const struct detect_news *news, size_t at,
		       struct cgroup_past *past)
{
	const struct cgroup_sample *c = &w->snap->cgroups[at];
	uint64_t n = u64_delta(c->oom_kills, past->oom_kills), n_new;

	if (u64_known(n) && n > 0 && past->kills.n_counted == 0) {
		/* Who was killed since the look before was mostly there then: the next sheet may
		 * have begun. */
		past->rose = w->d->tracks.tick;
		past->killed_sheet =
			past->sheet_before != SHEET_NONE ? past->sheet_before : past->sheet_num;
	}
	n_new = kills_settle(&past->kills, n, count_known(w, news, past) + count_nested(w, c->path),
			     w->tick.now, w->tick.step, KILLS_EVENT_LATE_SECONDS);
	if (u64_known(n_new))
		w->n_cgroup_kills += n_new;
	if (u64_known(c->oom_kills))
		past->oom_kills = c->oom_kills;
	if (u64_known(n) && n > 0 && w->n_killing < ARRAY_SIZE(w->killing))
		w->killing[w->n_killing++] = (struct killing){ at, n };
	return n_new;
}

static struct subject subject_of(const char *path, const struct cgroup_past *past)
{
	return (struct subject){ .kind = OF_CGROUP,
				 .cgroup = past ? past->hash : host_past_hash_path(path),
				 .job_id = past && past->job_id[0] ? past->job_id : NULL,
				 .attempt_id = past ? past->attempt_id : 0,
				 .sheet_num = SHEET_NONE,
				 .gpu = -1 };
}

static struct subject of_nobody(struct subject who)
{
	who.job_id = NULL;
	who.attempt_id = 0;
	who.sheet_num = SHEET_NONE;
	return who;
}

/* Those that are not known to be the job's are nobody's. */
static struct subject subject_of_kills(const struct evaluation *w, const char *path,
				       const struct cgroup_past *past)
{
	struct subject who = subject_of(path, past);

	if (!w->tick.cgroup_kills_are_of_job)
		return of_nobody(who);
	who.sheet_num = past->killed_sheet;
	return who;
}

bool evaluate_late_kill(struct evaluation *w, const struct proc_event *ev, double at,
			struct finding *f)
{
	struct host_past *s = &w->d->host_past;
	const struct check *kill_check = checks;
	uint64_t job = ev->job_id ? host_past_hash_job(ev->job_id, ev->attempt_id) : 0;

	while (kill_check->of_cgroup != check_cgroup_oom)
		kill_check++;
	for (size_t i = 0; ev->job_id && i < s->n_cgroups; i++) {
		struct cgroup_past *past = &s->cgroups[i];
		const struct subject who = subject_of(past->path, past);

		if (past->kills.n_reported == 0 || past->job != job ||
		    !kills_is_late(&past->kills, w->tick.now, at))
			continue;
		if (!past->reported_of_job)
			return false; /* reported without a job, and the job's after all */
		f->is_no_other = true;
		evaluation_note(w, kill_check, &who, f, NULL, NULL);
		return true;
	}
	return false;
}

/* ---- all of them ---- */

/*
 * What is of a cgroup in which several jobs are is of none of them, unless it was told of one when
 * that was alone in it.
 */
static struct subject subject_of_pressure(struct evaluation *w, const struct cgroup_sample *c,
					  const struct cgroup_past *past)
{
	const struct subject who = subject_of(c->path, past);

	if (!past || !past->is_shared ||
	    episodes_last(&w->d->episodes, &w->tick, ANOMALY_MEMORY_PRESSURE, &who))
		return who;
	return of_nobody(who);
}

/* The process with the most memory in the cgroup, or below it. */
static const struct track *culprit_of_cgroup(const struct evaluation *w, const char *path)
{
	const struct detect *d = w->d;
	const struct track *worst = NULL;

	for (size_t i = 0; i < w->snap->n_processes; i++) {
		const struct track *p =
			d->track_of[i] == TRACK_NONE ? NULL : &d->tracks.items[d->track_of[i]];

		if (p && f64_known(p->memory_mb) && is_inside(w->snap->processes[i].cgroup, path) &&
		    (!worst || p->memory_mb > worst->memory_mb))
			worst = p;
	}
	return worst;
}

static void check_cgroup(struct evaluation *w, const struct cgroup_sample *c,
			 const struct cgroup_past *past)
{
	struct subject of_cgroup = subject_of_pressure(w, c, past);
	const struct subject of_kills = subject_of_kills(w, c->path, past);
	const struct episode *told;
	struct finding f;

	w->tick.cgroup = past;
	if (u64_known(w->tick.cgroup_kills) && w->tick.cgroup_kills > 0) {
		told = episodes_last(&w->d->episodes, &w->tick, ANOMALY_OOM_KILL, &of_kills);
		w->tick.cgroup_kills_before = told ? told->peak_value : 0;
	}
	for (size_t k = 0; k < n_checks; k++) {
		if (!checks[k].of_cgroup)
			continue;
		finding_clear(&f);
		checks[k].of_cgroup(&w->tick, c, &f);
		evaluation_count(w, &checks[k], &f);
		if (checks[k].of_cgroup == check_cgroup_oom) {
			evaluation_note(w, &checks[k], &of_kills, &f, NULL, NULL);
			continue;
		}
		if (f.stand == STAND_OVER &&
		    episodes_would_begin(&w->d->episodes, &w->tick, checks[k].type, &of_cgroup))
			subject_blame(&of_cgroup, culprit_of_cgroup(w, c->path));
		evaluation_note(w, &checks[k], &of_cgroup, &f, NULL, NULL);
	}
}

/* So many are reported; U64_UNKNOWN, or 0: none. */
static void judge_kills(struct evaluation *w, struct cgroup_past *past, uint64_t n_kills)
{
	w->tick.cgroup_kills = n_kills;
	w->tick.cgroup_kills_are_of_job = are_kills_of_job(w, past);
	if (u64_known(n_kills) && n_kills > 0)
		past->reported_of_job = w->tick.cgroup_kills_are_of_job;
}

/* Its last processes have ended, and it with them. */
static void check_gone(struct evaluation *w, struct cgroup_past *past, uint64_t n_kills)
{
	struct cgroup_sample c;

	cgroup_sample_init(&c);
	c.path = past->path;
	judge_kills(w, past, n_kills);
	check_cgroup(w, &c, past);
}

void evaluate_last_kills(struct evaluation *w)
{
	struct host_past *s = &w->d->host_past;

	for (size_t i = 0; i < s->n_cgroups; i++) {
		uint64_t n = s->cgroups[i].kills.n_counted;

		s->cgroups[i].kills = (struct kill_ledger){ 0 };
		if (n > 0)
			check_gone(w, &s->cgroups[i], n);
	}
}

void evaluate_cgroups(struct evaluation *w, const struct detect_news *news)
{
	struct host_past *s = &w->d->host_past;

	count_events(w, news);
	for (size_t i = 0; i < w->snap->n_cgroups; i++) {
		const struct cgroup_sample *c = &w->snap->cgroups[i];
		struct cgroup_past *past = host_past_find_cgroup(&w->d->host_past, c->path);

		w->tick.cgroup_kills = U64_UNKNOWN;
		w->tick.cgroup_kills_are_of_job = false;
		if (past)
			judge_kills(w, past, settle(w, news, i, past));
		check_cgroup(w, c, past);
		if (past) {
			past->stall = c->psi_memory.full.avg10;
			past->has_psi |= f64_known(past->stall);
		}
	}
	for (size_t i = 0; i < s->n_cgroups; i++) {
		struct cgroup_past *past = &s->cgroups[i];
		uint64_t n;

		if (past->seen == s->n_ticks || past->kills.n_counted == 0)
			continue;
		n = kills_settle(&past->kills, U64_UNKNOWN, count_known(w, news, past), w->tick.now,
				 w->tick.step, KILLS_EVENT_LATE_SECONDS);
		if (!u64_known(n) || n == 0)
			continue;
		w->n_cgroup_kills += n;
		check_gone(w, past, n);
	}
}
