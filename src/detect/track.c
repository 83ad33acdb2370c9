#include "detect/track.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

/* ---- limits ---- */

/* Its own, or one that is free; NULL: all are of others. */
static struct limit_count *find_place(struct limits *l, uint64_t limit)
{
	struct limit_count *vacant = NULL;

	for (size_t i = 0; i < LIMITS_COUNTED; i++) {
		struct limit_count *c = &l->of[i];

		if (c->n > 0 && c->limit == limit)
			return c;
		if (c->n == 0 && !vacant)
			vacant = c;
	}
	return vacant;
}

static void limits_add(struct limits *l, uint64_t limit)
{
	struct limit_count *c = find_place(l, limit);

	if (c) {
		c->limit = limit;
		c->n++;
		return;
	}
	for (size_t i = 0; i < LIMITS_COUNTED; i++)
		l->of[i].n--;
	l->n_taken_off++;
}

uint64_t limits_of_half(const struct limits *l, uint64_t n_all)
{
	uint64_t least = U64_UNKNOWN; /* the largest */

	for (size_t i = 0; i < LIMITS_COUNTED; i++) {
		const struct limit_count *c = &l->of[i];

		if (c->n > 0 && c->limit < least && 2 * (c->n + l->n_taken_off) >= n_all)
			least = c->limit;
	}
	return least;
}

/* ---- the tables ---- */

/* ---- the tables ---- */

static void free_job(struct job_track *job)
{
	free(job->job_id);
	free(job);
}

void detect_tracks_reset(struct tracks *ts)
{
	for (size_t i = 0; i < ts->n; i++)
		free(ts->items[i].trail);
	for (size_t i = 0; i < ts->n_jobs; i++)
		free_job(ts->jobs[i]);
	ts->n = ts->n_jobs = 0;
	map_clear(&ts->by_pid);
	map_clear(&ts->by_job);
}

void detect_tracks_forget_past(struct tracks *ts, double now)
{
	for (size_t i = 0; i < ts->n; i++)
		detect_track_forget(&ts->items[i], now);
	for (size_t i = 0; i < ts->n_jobs; i++)
		ts->jobs[i]->processes.n = 0;
}

void detect_tracks_release(struct tracks *ts)
{
	detect_tracks_reset(ts);
	free(ts->items);
	free(ts->jobs);
	map_release(&ts->by_pid);
	map_release(&ts->by_job);
	*ts = (struct tracks){ 0 };
}

/* ---- jobs ---- */

static bool is_job(const struct job_track *job, const char *job_id, int64_t attempt_id)
{
	return job->attempt_id == attempt_id && strcmp(job->job_id, job_id) == 0;
}

/* Another job may have the same hash: then the next number is its own. */
static uint64_t job_key(const struct tracks *ts, const char *job_id, int64_t attempt_id,
			struct job_track **ret)
{
	uint64_t key = hash_bytes(HASH_INIT, &attempt_id, sizeof(attempt_id)), i;

	key = hash_bytes(key, job_id, strlen(job_id));
	for (*ret = NULL; map_get(&ts->by_job, key, &i); key++)
		if (is_job(ts->jobs[i], job_id, attempt_id)) {
			*ret = ts->jobs[i];
			break;
		}
	return key;
}

int detect_tracks_job(struct tracks *ts, const char *job_id, int64_t attempt_id,
		      struct job_track **ret)
{
	struct job_track *job;
	uint64_t key = job_key(ts, job_id, attempt_id, &job);

	if (!job) {
		if (ARRAY_RESERVE(ts->jobs, ts->cap_jobs, ts->n_jobs + 1) < 0)
			return -ENOMEM;
		job = calloc(1, sizeof(*job));
		if (!job)
			return -ENOMEM;
		*job = (struct job_track){
			.job_id = strdup(job_id),
			.attempt_id = attempt_id,
			.n_zombies_before = U64_UNKNOWN,
			.cgroup_limit = U64_UNKNOWN,
			.sheet_num = SHEET_NONE,
			.usual_cpu_percent = F64_UNKNOWN,
			.usual_wall_seconds = F64_UNKNOWN,
			.usual_cpu_seconds = F64_UNKNOWN,
			.usual_rss_bytes = U64_UNKNOWN,
		};
		if (!job->job_id || map_put(&ts->by_job, key, ts->n_jobs) < 0) {
			free_job(job);
			return -ENOMEM;
		}
		ts->jobs[ts->n_jobs++] = job;
	}
	*ret = job;
	return 0;
}

struct job_track *detect_tracks_find_job(const struct tracks *ts, const char *job_id,
					 int64_t attempt_id)
{
	struct job_track *job;

	job_key(ts, job_id, attempt_id, &job);
	return job;
}

bool detect_tracks_has_lost(const struct tracks *ts, const char *job_id, int64_t attempt_id,
			    uint64_t since_tick)
{
	const struct job_track *job = detect_tracks_find_job(ts, job_id, attempt_id);

	return !job || job->lost_tick >= since_tick;
}

static void join_job(struct track *p, struct job_track *job)
{
	if (p->job)
		p->job->n_tracks--;
	job->n_tracks++;
	p->job = job;
}

/* ---- all of them ---- */

struct track *detect_tracks_by_pid(struct tracks *ts, pid_t pid)
{
	uint64_t i;

	return map_get(&ts->by_pid, (uint64_t)pid, &i) ? &ts->items[i] : NULL;
}

/* A place for it. The one before with its pid, if any, is left to the sweep. */
static int add(struct tracks *ts, const struct proc_sample *p, double now, struct track **ret)
{
	if (ts->n >= TRACK_MAX) {
		ts->n_left_out++;
		*ret = NULL;
		return 0;
	}
	if (ARRAY_RESERVE(ts->items, ts->cap, ts->n + 1) < 0 ||
	    map_put(&ts->by_pid, (uint64_t)p->key.pid, ts->n) < 0)
		return -ENOMEM;
	*ret = &ts->items[ts->n++];
	detect_track_begin(*ret, p, now);
	return 0;
}

int detect_tracks_adopt(struct tracks *ts, const struct proc_sample *p,
			const struct proc_event *left, double now, double since)
{
	struct track *t = detect_tracks_by_pid(ts, p->key.pid);
	struct job_track *job;
	int r;

	if (t && t->key.start_ticks == p->key.start_ticks) {
		if (!p->job_id) {
			/* The job ended before the tick that has first shown it so. */
			if (!f64_known(t->without_job) || since < t->without_job)
				t->without_job = since;
		}
		return 0;
	}
	if (t)
		t->is_dead = true;
	r = detect_tracks_job(ts, left->job_id, left->attempt_id, &job);
	if (r == 0)
		r = add(ts, p, now, &t);
	if (r < 0 || !t)
		return r;
	join_job(t, job);
	t->sheet_num = left->sheet_num;
	t->without_job = since;
	return 0;
}

/* Which job it is of now; false: of none, and it never was. */
static int find_job(struct tracks *ts, const struct proc_sample *p, struct track *t, double now)
{
	struct job_track *job = t->job;
	int r = 0;

	if (!p->job_id) {
		if (!f64_known(t->without_job))
			t->without_job = now;
		return 0;
	}
	if (!job || !is_job(job, p->job_id, p->attempt_id))
		r = detect_tracks_job(ts, p->job_id, p->attempt_id, &job);
	if (r < 0)
		return r;
	if (job != t->job)
		join_job(t, job);
	t->without_job = F64_UNKNOWN;
	job->seen_tick = ts->tick;
	job->n_processes++;
	job->n_threads += u64_known(p->threads) && p->threads > 0 ? p->threads : 1;
	if (job->sheet_num == SHEET_NONE)
		job->sheet_num = p->sheet_num;
	if (p->uid != 0 && p->process_limit < FD_LIMIT_UNLIMITED) /* unknown is larger yet */
		limits_add(&job->user_limits, p->process_limit);
	if (f64_known(p->cpu_percent))
		job->cpu_percent += p->cpu_percent;
	return 0;
}

int detect_tracks_update(struct tracks *ts, const struct config_anomaly *config,
			 const struct proc_sample *p, double now, double before, size_t *ret)
{
	struct track *t;
	int r = 0;

	*ret = TRACK_NONE;
	if (!u64_known(p->key.start_ticks))
		return 0;
	/*
	 * Snapshots show them in the same order as a rule: then it is the one behind the last, and
	 * the map, which is in no cache any more since the last tick, need not be waited for. A
	 * dead one may have left its pid to another.
	 */
	t = ts->next < ts->n ? &ts->items[ts->next] : NULL;
	if (!t || t->key.pid != p->key.pid || t->is_dead)
		t = detect_tracks_by_pid(ts, p->key.pid);
	if (t)
		ts->next = (size_t)(t - ts->items) + 1;
	if (t && t->seen_tick == ts->tick)
		return 0; /* a pid stands in a snapshot once, unless the record is damaged */
	if (t && t->key.start_ticks != p->key.start_ticks) {
		t->is_dead = true;
		t = NULL;
	}
	if (!t && !p->job_id)
		return 0;
	if (!t)
		r = add(ts, p, now, &t);
	if (r < 0 || !t)
		return r;
	t->seen_tick = ts->tick;
	t->missed_wall_ns = 0;
	if (p->state == 'Z' && t->state != 'Z')
		t->job->lost_tick = ts->tick; /* it is there until somebody waits for it */
	r = find_job(ts, p, t, now);
	if (r == 0)
		r = detect_track_note(t, config, p, now, before);
	if (r == 0)
		*ret = (size_t)(t - ts->items);
	return r;
}

/* The last takes its place. */
static void remove_track(struct tracks *ts, size_t i)
{
	struct track *t = &ts->items[i];
	uint64_t at;

	if (t->job)
		t->job->n_tracks--;
	free(t->trail);
	if (map_get(&ts->by_pid, (uint64_t)t->key.pid, &at) && at == i)
		map_remove(&ts->by_pid, (uint64_t)t->key.pid);
	ts->n--;
	if (i == ts->n)
		return;
	*t = ts->items[ts->n];
	if (map_get(&ts->by_pid, (uint64_t)t->key.pid, &at) && at == ts->n)
		map_put(&ts->by_pid, (uint64_t)t->key.pid, i); /* replaces: needs no memory */
}

void detect_tracks_sweep(struct tracks *ts, uint64_t wall_ns, track_gone_fn *gone,
			 job_gone_fn *job_gone, void *ctx)
{
	size_t n = 0;
	struct job_track *found;

	for (size_t i = ts->n; i > 0; i--) {
		struct track *t = &ts->items[i - 1];

		if (t->seen_tick == ts->tick)
			continue;
		if (t->missed_wall_ns == 0) {
			t->missed_wall_ns = wall_ns;
			t->job->lost_tick = ts->tick;
		}
		if (!t->is_dead && t->trail && ts->tick - t->seen_tick <= TRACK_GRACE_TICKS)
			continue;
		gone(ctx, t);
		remove_track(ts, i - 1);
	}
	/* What is of the job itself is over with it, though some that were its own may be left. */
	for (size_t i = 0; i < ts->n_jobs; i++) {
		struct job_track *job = ts->jobs[i];

		if (job->seen_tick != ts->tick)
			job_gone(ctx, job);
		if (job->seen_tick == ts->tick || job->n_tracks > 0)
			ts->jobs[n++] = job;
		else
			free_job(job);
	}
	if (n == ts->n_jobs)
		return;
	ts->n_jobs = n;
	/* Keys that follow a removed one would not be found any more: so all are entered anew. */
	map_clear(&ts->by_job);
	for (size_t i = 0; i < ts->n_jobs; i++) {
		const struct job_track *job = ts->jobs[i];
		uint64_t key = job_key(ts, job->job_id, job->attempt_id, &found);

		map_put(&ts->by_job, key, i); /* there was room for more */
	}
}
