/*
 * look_cgroups - the cgroups of jobs: whose each is, and what is out of the ordinary there.
 */
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "detect/look.h"

/* The job of the first process in each: one walk through the processes. */
static void find_jobs(struct look *w)
{
	struct surroundings *s = &w->d->surroundings;
	struct cgroup_past *past;

	for (size_t i = 0; s->n_cgroups > 0 && i < w->snap->n_processes; i++) {
		const struct proc_sample *p = &w->snap->processes[i];

		past = p->job_id && p->cgroup ? surroundings_find_cgroup(s, p->cgroup) : NULL;
		if (past && past->job_seen != s->n_ticks)
			surroundings_set_job(s, past, p);
	}
}

/* ---- kills ---- */

/* One is inside of the other: then both count the same kills. */
static bool are_nested(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), shorter = n < m ? n : m;
	const char *longer = n < m ? b : a;

	return strncmp(a, b, shorter) == 0 && (longer[shorter] == '\0' || longer[shorter] == '/' ||
					       shorter == 0 || longer[shorter - 1] == '/');
}

/* Whether a job is in another one than this. */
static bool is_elsewhere(const struct surroundings *s, const struct cgroup_past *past,
			 const char *job_id)
{
	for (size_t i = 0; i < s->n_cgroups; i++)
		if (&s->cgroups[i] != past && strcmp(s->cgroups[i].job_id, job_id) == 0)
			return true;
	return false;
}

/* A short job is killed before anybody has seen which cgroup it is in. */
static uint64_t count_events(const struct look *w, const struct detect_news *news,
			     const struct cgroup_past *past)
{
	uint64_t n = news->n_kills_told;

	for (size_t i = 0; i < news->n_events; i++) {
		const char *job_id = news->events[i].job_id;

		if (news->events[i].type == EVENT_OOM &&
		    (!job_id || strcmp(job_id, past->job_id) == 0 ||
		     !is_elsewhere(&w->d->surroundings, past, job_id)))
			n++;
	}
	return n;
}

/* Those that cgroups above and below have counted, which came before it. */
static uint64_t count_nested(const struct look *w, size_t at)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w->n_killing; i++)
		if (are_nested(w->snap->cgroups[w->killing[i].at].path, w->snap->cgroups[at].path))
			n += w->killing[i].n;
	return n;
}

static void note_killing(struct look *w, size_t at, uint64_t n)
{
	if (!u64_known(n) || n == 0)
		return;
	w->n_cgroup_kills += n;
	if (w->n_killing < ARRAY_SIZE(w->killing))
		w->killing[w->n_killing++] = (struct killing){ at, n };
}

static void settle(struct look *w, const struct detect_news *news, size_t at,
		   struct cgroup_past *past)
{
	const struct cgroup_sample *c = &w->snap->cgroups[at];
	uint64_t n = u64_delta(c->oom_kills, past->oom_kills);

	w->tick.cgroup_kills =
		kills_settle(&past->kills, n, count_events(w, news, past) + count_nested(w, at),
			     w->tick.now, w->tick.step);
	past->oom_kills = c->oom_kills;
	note_killing(w, at, n);
}

/* ---- all of them ---- */

static void check_cgroup(struct look *w, const struct cgroup_sample *c,
			 const struct cgroup_past *past)
{
	const struct subject who = { .kind = OF_CGROUP,
				     .cgroup = c->path,
				     .job_id = past && past->job_id[0] ? past->job_id : NULL,
				     .attempt_id = past ? past->attempt_id : 0,
				     .sheet_num = SHEET_NONE,
				     .gpu = -1 };
	struct finding f;
	bool is_muted;

	for (size_t k = 0; k < n_checks; k++) {
		if (!checks[k].of_cgroup)
			continue;
		look_clear_finding(&f);
		checks[k].of_cgroup(&w->tick, c, &f);
		look_note(w, &checks[k], &who, &f, NULL, &is_muted);
	}
}

/* Its last processes have ended, and it with them. */
static void check_gone(struct look *w, const struct cgroup_past *past, uint64_t n_kills)
{
	struct cgroup_sample c;

	cgroup_sample_init(&c);
	c.path = past->path;
	w->tick.cgroup_kills = n_kills;
	check_cgroup(w, &c, past);
}

static void look_at_gone(struct look *w, const struct detect_news *news)
{
	struct surroundings *s = &w->d->surroundings;

	for (size_t i = 0; i < s->n_cgroups; i++) {
		struct cgroup_past *past = &s->cgroups[i];
		uint64_t n;

		if (past->seen == s->n_ticks || past->kills.n_counted == 0)
			continue;
		n = kills_settle(&past->kills, U64_UNKNOWN, count_events(w, news, past),
				 w->tick.now, w->tick.step);
		if (u64_known(n) && n > 0)
			check_gone(w, past, n);
	}
}

void look_at_last_kills(struct look *w)
{
	struct surroundings *s = &w->d->surroundings;

	for (size_t i = 0; i < s->n_cgroups; i++) {
		uint64_t n = kills_take_rest(&s->cgroups[i].kills);

		if (n > 0)
			check_gone(w, &s->cgroups[i], n);
	}
}

void look_at_cgroups(struct look *w, const struct detect_news *news)
{
	find_jobs(w);
	for (size_t i = 0; i < w->snap->n_cgroups; i++) {
		const struct cgroup_sample *c = &w->snap->cgroups[i];
		struct cgroup_past *past = surroundings_find_cgroup(&w->d->surroundings, c->path);

		w->tick.cgroup_kills = U64_UNKNOWN;
		w->tick.cgroup_stall = past ? past->stall : F64_UNKNOWN;
		if (past)
			settle(w, news, i, past);
		check_cgroup(w, c, past);
		if (past)
			past->stall = c->psi_memory.full.avg10;
	}
	look_at_gone(w, news);
}
