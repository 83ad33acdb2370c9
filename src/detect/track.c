#include "detect/track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

/* Less than this is what a process that sleeps uses to be asleep. */
#define PROGRESS_CPU_SHARE 0.001
/* Per second; less may be noise of a process that only turns in circles. */
#define WORK_BYTES 4096
#define WORK_FAULTS 64

/* ---- two ago ---- */

void two_ago_add(struct two_ago *s, double t, double v, double window)
{
	if (s->n == 0) {
		s->t[0] = (float)t;
		s->v[0] = (float)v;
		s->n = 1;
	} else if (t - (double)s->t[s->n - 1] >= window) {
		if (s->n == 2) {
			s->t[0] = s->t[1];
			s->v[0] = s->v[1];
		}
		s->t[1] = (float)t;
		s->v[1] = (float)v;
		s->n = 2;
	}
}

double two_ago_value(const struct two_ago *s)
{
	return s->n > 0 ? (double)s->v[0] : F64_UNKNOWN;
}

/* ---- the tables ---- */

static void free_job(struct job_track *job)
{
	free(job->job_id);
	free(job);
}

void tracks_reset(struct tracks *ts)
{
	for (size_t i = 0; i < ts->n; i++)
		free(ts->items[i].trail);
	for (size_t i = 0; i < ts->n_jobs; i++)
		free_job(ts->jobs[i]);
	ts->n = ts->n_jobs = 0;
	map_clear(&ts->by_pid);
	map_clear(&ts->by_job);
}

void tracks_release(struct tracks *ts)
{
	tracks_reset(ts);
	free(ts->items);
	free(ts->jobs);
	map_release(&ts->by_pid);
	map_release(&ts->by_job);
	*ts = (struct tracks){ 0 };
}

/* Doubles the room of an array when it is full. */
static int make_room(void **items, size_t n, size_t *cap, size_t size)
{
	size_t grown = *cap ? *cap * 2 : 64;
	void *moved;

	if (n < *cap)
		return 0;
	moved = reallocarray(*items, grown, size);
	if (!moved)
		return -ENOMEM;
	*items = moved;
	*cap = grown;
	return 0;
}

/* ---- jobs ---- */

/* Another job may have the same hash: then the next number is its own. */
static uint64_t job_key(const struct tracks *ts, const char *job_id, struct job_track **ret)
{
	uint64_t key = UINT64_C(0xcbf29ce484222325), i;

	for (const char *c = job_id; *c; c++)
		key = (key ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	for (*ret = NULL; map_get(&ts->by_job, key, &i); key++)
		if (strcmp(ts->jobs[i]->job_id, job_id) == 0) {
			*ret = ts->jobs[i];
			break;
		}
	return key;
}

static struct job_track *new_job(const char *job_id)
{
	struct job_track *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->job_id = strdup(job_id);
	job->usual_cpu_percent = F64_UNKNOWN;
	job->usual_rss_bytes = U64_UNKNOWN;
	if (job->job_id)
		return job;
	free(job);
	return NULL;
}

int tracks_job(struct tracks *ts, const char *job_id, struct job_track **ret)
{
	struct job_track *job;
	uint64_t key = job_key(ts, job_id, &job);

	if (!job) {
		if (make_room((void **)&ts->jobs, ts->n_jobs, &ts->cap_jobs, sizeof(*ts->jobs)) < 0)
			return -ENOMEM;
		job = new_job(job_id);
		if (!job || map_put(&ts->by_job, key, ts->n_jobs) < 0) {
			if (job)
				free_job(job);
			return -ENOMEM;
		}
		ts->jobs[ts->n_jobs++] = job;
	}
	*ret = job;
	return 0;
}

static void join_job(struct track *p, struct job_track *job)
{
	if (p->job)
		p->job->n_tracks--;
	job->n_tracks++;
	p->job = job;
}

/* ---- a process ---- */

static uint64_t moved_bytes(const struct proc_sample *p)
{
	return u64_add_known(u64_add_known(p->rchar, p->wchar),
			     u64_add_known(p->read_bytes, p->write_bytes));
}

static uint64_t used_ns(const struct proc_sample *p)
{
	return u64_known(p->cpu_ns) ? p->cpu_ns : u64_add(p->user_ns, p->system_ns);
}

/* Pages of files come and go with what else the host does; what is swapped out is still there. */
static double own_memory_mb(const struct proc_sample *p)
{
	uint64_t own = u64_add_known(p->rss_anon_bytes, p->rss_shmem_bytes);

	if (!u64_known(p->rss_anon_bytes))
		return u64_to_mb(p->rss_bytes);
	return u64_to_mb(u64_add_known(own, p->swap_bytes));
}

static void begin_track(struct track *t, const struct proc_sample *p, double now)
{
	*t = (struct track){
		.key = p->key,
		.born = now,
		.memory_mb = F64_UNKNOWN,
		.progressed = now,
		.worked = now,
		.busy = F64_UNKNOWN,
		.in_state = now,
		.without_job = F64_UNKNOWN,
		.state = p->state,
		.cpu_ns = U64_UNKNOWN,
		.moved_bytes = U64_UNKNOWN,
		.faults = U64_UNKNOWN,
	};
}

/* An unknown counter tells nothing: then nobody says that it stood still. */
static void note_progress(struct track *t, const struct proc_sample *p, double now, double before)
{
	uint64_t cpu_ns = used_ns(p), moved = moved_bytes(p), faults = p->minor_faults;
	uint64_t cpu = u64_delta(cpu_ns, t->cpu_ns), bytes = u64_delta(moved, t->moved_bytes);
	uint64_t touched = u64_delta(faults, t->faults);
	double step = now - before;

	if (!u64_known(cpu) || (double)cpu > step * 1e9 * PROGRESS_CPU_SHARE ||
	    (u64_known(bytes) && bytes > 0))
		t->progressed = now;
	if (u64_known(bytes) && bytes > 0)
		t->moved_in_state = true;
	if ((!u64_known(bytes) && !u64_known(touched)) ||
	    (u64_known(bytes) && (double)bytes >= WORK_BYTES * step) ||
	    (u64_known(touched) && (double)touched >= WORK_FAULTS * step))
		t->worked = now;
	t->cpu_ns = cpu_ns;
	t->moved_bytes = moved;
	t->faults = faults;
}

static void note_state(struct track *t, const struct proc_sample *p, double now)
{
	if (p->state == t->state)
		return;
	t->state = p->state;
	t->in_state = now;
	t->moved_in_state = false;
}

/* The percentage is of the time since the tick before. */
static void note_busy(struct track *t, const struct proc_sample *p, double threshold, double before)
{
	if (!(p->cpu_percent >= threshold))
		t->busy = F64_UNKNOWN;
	else if (!f64_known(t->busy))
		t->busy = fmax(before, t->born);
}

/* Who looks rarely needs a longer window to see a line. */
#define LINE_TICKS 8

static void note_trail(struct track *t, const struct proc_sample *p,
		       const struct config_anomaly *config, double now, double before)
{
	struct trail *trail = t->trail;
	double at = now - t->born;
	double window = fmax(config->memory_leak_window_seconds, LINE_TICKS * (now - before));

	if (f64_known(t->memory_mb)) {
		levels_add(&trail->memory, at, t->memory_mb, config->memory_spike_window_seconds);
		if (floors_add(&trail->least_memory, at, t->memory_mb, window))
			series_fit(&trail->least_memory.least, &trail->memory_fit);
	}
	if (u64_known(p->open_fds) &&
	    floors_add(&trail->least_fds, at, (double)p->open_fds, window))
		series_fit(&trail->least_fds.least, &trail->fds_fit);
}

static int start_trail(struct track *t)
{
	t->trail = calloc(1, sizeof(*t->trail));
	if (!t->trail)
		return -ENOMEM;
	floors_init(&t->trail->least_memory);
	floors_init(&t->trail->least_fds);
	return 0;
}

static int update(struct track *t, const struct config_anomaly *config, const struct proc_sample *p,
		  double now, double before)
{
	bool is_new = t->born == now;

	t->ppid = p->ppid;
	t->sheet_num = p->sheet_num;
	t->n_zombies = t->n_children = t->n_like = t->n_like_moving = 0;
	note_state(t, p, now);
	note_progress(t, p, now, before);
	note_busy(t, p, config->runaway_cpu_threshold, before);
	t->memory_mb = own_memory_mb(p);
	if (u64_known(p->threads))
		two_ago_add(&t->threads, now - t->born, (double)p->threads,
			    config->memory_spike_window_seconds);
	if (!t->trail && !is_new && start_trail(t) < 0)
		return -ENOMEM;
	if (t->trail)
		note_trail(t, p, config, now, before);
	return 0;
}

/* ---- all of them ---- */

struct track *tracks_by_pid(struct tracks *ts, pid_t pid)
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
	if (make_room((void **)&ts->items, ts->n, &ts->cap, sizeof(*ts->items)) < 0 ||
	    map_put(&ts->by_pid, (uint64_t)p->key.pid, ts->n) < 0)
		return -ENOMEM;
	*ret = &ts->items[ts->n++];
	begin_track(*ret, p, now);
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
	if (!job || strcmp(job->job_id, p->job_id) != 0)
		r = tracks_job(ts, p->job_id, &job);
	if (r < 0)
		return r;
	if (job != t->job)
		join_job(t, job);
	t->without_job = F64_UNKNOWN;
	job->seen_tick = ts->tick;
	job->n_processes++;
	if (f64_known(p->cpu_percent))
		job->cpu_percent += p->cpu_percent;
	return 0;
}

int tracks_update(struct tracks *ts, const struct config_anomaly *config,
		  const struct proc_sample *p, double now, double before, size_t *ret)
{
	struct track *t;
	int r = 0;

	*ret = TRACK_NONE;
	if (!u64_known(p->key.start_ticks))
		return 0;
	t = tracks_by_pid(ts, p->key.pid);
	if (t && t->key.start_ticks != p->key.start_ticks)
		t = NULL;
	if (!t && !p->job_id)
		return 0;
	if (!t)
		r = add(ts, p, now, &t);
	if (r < 0 || !t)
		return r;
	t->seen_tick = ts->tick;
	r = find_job(ts, p, t, now);
	if (r == 0)
		r = update(t, config, p, now, before);
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

/* Keys that follow a removed one would not be found any more: so all are entered anew. */
static void index_jobs(struct tracks *ts)
{
	struct job_track *found;

	map_clear(&ts->by_job);
	for (size_t i = 0; i < ts->n_jobs; i++) {
		uint64_t key = job_key(ts, ts->jobs[i]->job_id, &found);

		map_put(&ts->by_job, key, i); /* there was room for more */
	}
}

static void sweep_jobs(struct tracks *ts, job_gone_fn *job_gone, void *ctx)
{
	size_t n = 0;

	for (size_t i = 0; i < ts->n_jobs; i++) {
		struct job_track *job = ts->jobs[i];

		if (job->seen_tick == ts->tick || job->n_tracks > 0) {
			ts->jobs[n++] = job;
			continue;
		}
		job_gone(ctx, job);
		free_job(job);
	}
	if (n == ts->n_jobs)
		return;
	ts->n_jobs = n;
	index_jobs(ts);
}

void tracks_sweep(struct tracks *ts, track_gone_fn *gone, job_gone_fn *job_gone, void *ctx)
{
	for (size_t i = ts->n; i > 0; i--) {
		if (ts->items[i - 1].seen_tick == ts->tick)
			continue;
		gone(ctx, &ts->items[i - 1]);
		remove_track(ts, i - 1);
	}
	sweep_jobs(ts, job_gone, ctx);
}
