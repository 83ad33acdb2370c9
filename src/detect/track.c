#include "detect/track.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"
#include "detect/check_ranks.h"

static size_t place(const struct series *s, size_t i)
{
	return (s->first + i) % SERIES_POINTS;
}

static size_t last_place(const struct series *s)
{
	return place(s, s->n - 1u);
}

static void drop_first(struct series *s)
{
	s->first = (uint8_t)place(s, 1);
	s->n--;
}

static void append(struct series *s, double t, double v)
{
	size_t at;

	if (s->n == SERIES_POINTS)
		drop_first(s);
	at = place(s, s->n++);
	s->t[at] = (float)t;
	s->v[at] = (float)v;
}

static void drop_level(struct levels *l)
{
	l->high_before = fmaxf(l->high_before, l->high[l->first.first]);
	drop_first(&l->first);
}

static void levels_add(struct levels *l, double t, double v, double window)
{
	struct series *s = &l->first;

	while (s->n > 1 && t - (double)s->t[s->first] > window)
		drop_level(l);
	if (s->n > 0 && t - (double)s->t[last_place(s)] < window / (SERIES_POINTS - 1)) {
		l->high[last_place(s)] = fmaxf(l->high[last_place(s)], (float)v);
		return;
	}
	if (s->n == SERIES_POINTS)
		drop_level(l);
	append(s, t, v);
	l->high[last_place(s)] = (float)v;
}

bool levels_since(const struct levels *l, double since, double *ret_t, double *ret_v,
		  double *ret_high_before)
{
	const struct series *s = &l->first;
	float high = l->high_before;

	for (size_t i = 0; i < s->n; i++) {
		size_t at = place(s, i);

		if ((double)s->t[at] < since) {
			high = fmaxf(high, l->high[at]);
			continue;
		}
		*ret_t = (double)s->t[at];
		*ret_v = (double)s->v[at];
		*ret_high_before = (double)high;
		return true;
	}
	return false;
}

bool levels_latest(const struct levels *l, double until, double limit, double *ret_t, double *ret_v)
{
	const struct series *s = &l->first;

	for (size_t i = s->n; i > 0; i--) {
		size_t at = place(s, i - 1);

		if ((double)s->t[at] > until || (double)s->v[at] > limit)
			continue;
		*ret_t = (double)s->t[at];
		*ret_v = (double)s->v[at];
		return true;
	}
	return false;
}

static void open_part(struct floors *f, double t, double v)
{
	f->open_t = (float)t;
	f->open_v = (float)v;
}

static bool floors_add(struct floors *f, double t, double v, double window)
{
	struct series *s = &f->least;

	if (f->open_v < 0) {
		open_part(f, t, v);
		return false;
	}
	if (t - (double)f->open_t < window / SERIES_POINTS) {
		f->open_v = fminf(f->open_v, (float)v);
		return false;
	}
	while (s->n > 0 && t - (double)s->t[s->first] > window)
		drop_first(s);
	append(s, (double)f->open_t, (double)f->open_v);
	open_part(f, t, v);
	return true;
}

/* ---- the line ---- */

static void series_fit(const struct series *s, struct fit *ret)
{
	double t = 0, v = 0, tt = 0, vv = 0, tv = 0; /* means, and sums of products of deviations */
	struct fit fit = { 0 };
	size_t n_rising = 0;

	*ret = fit;
	if (s->n < 3)
		return;
	for (size_t i = 0; i < s->n; i++) {
		t += (double)s->t[place(s, i)] / s->n;
		v += (double)s->v[place(s, i)] / s->n;
	}
	for (size_t i = 0; i < s->n; i++) {
		double dt = (double)s->t[place(s, i)] - t;
		double dv = (double)s->v[place(s, i)] - v;

		tt += dt * dt;
		vv += dv * dv;
		tv += dt * dv;
	}
	if (!(tt > 0))
		return;
	fit.n = s->n;
	fit.from = (double)s->t[s->first];
	fit.span = (double)s->t[last_place(s)] - fit.from;
	fit.first = (double)s->v[s->first];
	fit.last = (double)s->v[last_place(s)];
	fit.slope = tv / tt;
	fit.r2 = vv > 0 ? tv * tv / (tt * vv) : 0;
	for (size_t i = 1; i < s->n; i++) {
		double step = (double)s->v[place(s, i)] - (double)s->v[place(s, i - 1)];

		n_rising += step >= 0;
		fit.largest_drop = fmax(fit.largest_drop, -step);
	}
	fit.rising = (double)n_rising / (s->n - 1);
	fit.late = (fit.last - (double)s->v[place(s, s->n / 2u)]) / (fit.last - fit.first);
	*ret = fit;
}

/* Less than this is what a process that sleeps uses to be asleep. */
#define PROGRESS_CPU_SHARE 0.001
/* Per second that it ran; less may be noise of a process that only turns in circles. */
#define WORK_BYTES 4096
#define WORK_FAULTS 64
/* Who gets less of a core than this shows nothing, however much it waits for one. */
#define STARVED_PERCENT 10

/* ---- two ago ---- */

void two_ago_add(struct two_ago *s, double t, double v, double window)
{
	if (s->n == 0) {
		s->t[0] = t;
		s->v[0] = (float)v;
		s->n = 1;
	} else if (t - s->t[s->n - 1] >= window) {
		if (s->n == 2) {
			s->t[0] = s->t[1];
			s->v[0] = s->v[1];
		}
		s->t[1] = t;
		s->v[1] = (float)v;
		s->n = 2;
	}
}

double two_ago_value(const struct two_ago *s)
{
	return s->n > 0 ? (double)s->v[0] : F64_UNKNOWN;
}

double two_ago_seconds(const struct two_ago *s, double t)
{
	return s->n > 0 ? t - s->t[0] : F64_UNKNOWN;
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

/* An unknown counter tells nothing: then nobody says that it stood still. */
static void note_progress(struct track *t, const struct proc_sample *p, double now, double before)
{
	uint64_t cpu_ns = used_ns(p), moved = moved_bytes(p), faults = p->minor_faults;
	uint64_t cpu = u64_delta(cpu_ns, t->cpu_ns), bytes = u64_delta(moved, t->moved_bytes);
	uint64_t touched = u64_delta(faults, t->faults);
	double step = now - before;
	/* Seconds in which it can have worked: it may have had to wait for a CPU. */
	double ran = u64_known(cpu) ? fmin(step, (double)cpu / 1e9) : step;

	if (!u64_known(cpu) || (double)cpu > step * 1e9 * PROGRESS_CPU_SHARE ||
	    (u64_known(bytes) && bytes > 0))
		t->progressed = now;
	if (u64_known(bytes) && bytes > 0 && t->in_state != now) /* else before it was in it */
		t->moved_in_state = true;
	if ((!u64_known(bytes) && !u64_known(touched)) ||
	    (u64_known(bytes) && (double)bytes > WORK_BYTES * ran) ||
	    (u64_known(touched) && (double)touched > WORK_FAULTS * ran))
		t->worked = now;
	t->cpu_ns = cpu_ns;
	t->moved_bytes = moved;
	t->faults = faults;
}

/* Who looks rarely needs a longer window to see a line. */
#define LINE_TICKS 8
/* To foresee how many files are open in so long, half of that is looked back. */
#define FD_LOOK_BACK 0.5

/*
 * A program takes what it needs when it starts: for half a window at least, and then until it has
 * grown by no more than an eighth of the floor in a sixth of a window; for two windows at most.
 */
#define START_WINDOWS 0.5
#define LONGEST_START_WINDOWS 2
#define CALM_WINDOWS (1.0 / 6)
#define CALM_FLOORS 0.125
/* Ticks are not to the moment: one that comes somewhat early is that of a sixth of a window ago. */
#define CALM_EARLY 0.1

static void note_start(struct track *t, const struct proc_sample *p,
		       const struct config_anomaly *config, double at)
{
	double age = f64_known(p->age_seconds) ? p->age_seconds : at;
	double window = config->memory_spike_window_seconds;
	double calm = CALM_WINDOWS * window, since, then;

	if (f64_known(t->trail->settled) || age < START_WINDOWS * window)
		return;
	if (age - at >= START_WINDOWS * window)
		t->trail->settled = 0; /* it was no longer new when it was first seen */
	else if (age >= LONGEST_START_WINDOWS * window)
		t->trail->settled = at;
	else if (levels_latest(&t->trail->memory, at - calm * (1 - CALM_EARLY), INFINITY, &since,
			       &then) &&
		 !(t->memory_mb - then > CALM_FLOORS * config->memory_spike_floor_mb))
		t->trail->settled = since; /* it has been calm for long enough */
}

/* The window at first, in windows of a leak; and seconds at last. */
#define SLOW_WINDOWS 2
#define SLOW_WINDOW_MAX_S 86400

/* Two parts become one: there is room for as many again. */
static void join_parts(struct slow_trail *slow)
{
	struct series *s = &slow->least.least, joined = { 0 };

	for (size_t i = 0; i < s->n; i += 2) {
		size_t next = place(s, i + 1 < s->n ? i + 1 : i);

		append(&joined, (double)s->t[place(s, i)],
		       fmin((double)s->v[place(s, i)], (double)s->v[next]));
	}
	*s = joined;
	slow->window *= 2;
}

/* Without memory for it, it is as if it were not there for long enough. */
static void note_slow(struct trail *trail, const struct config_anomaly *config, double at,
		      double mb)
{
	struct slow_trail *slow = trail->slow;
	const struct series *s;

	if (!slow && at >= config->memory_leak_window_seconds) {
		slow = trail->slow = calloc(1, sizeof(*slow));
		if (slow) {
			slow->least.open_v = -1;
			slow->window = SLOW_WINDOWS * config->memory_leak_window_seconds;
		}
	}
	if (!slow)
		return;
	s = &slow->least.least;
	if (s->n > 0 && at - (double)s->t[s->first] > slow->window &&
	    slow->window < SLOW_WINDOW_MAX_S)
		join_parts(slow);
	if (floors_add(&slow->least, at, mb, slow->window))
		series_fit(&slow->least.least, &slow->fit);
}

static void free_trail(struct track *t)
{
	if (t->trail)
		free(t->trail->slow);
	free(t->trail);
	t->trail = NULL;
}

static void note_trail(struct track *t, const struct proc_sample *p,
		       const struct config_anomaly *config, double now, double before)
{
	struct trail *trail = t->trail;
	double at = now - t->born;
	double ticks = LINE_TICKS * (now - before);
	double window = fmax(config->memory_leak_window_seconds, ticks);
	double fd_window = fmax(FD_LOOK_BACK * config->fd_exhaustion_horizon_seconds, ticks);

	if (f64_known(t->memory_mb)) {
		levels_add(&trail->memory, at, t->memory_mb, config->memory_spike_window_seconds);
		note_start(t, p, config, at);
		if (floors_add(&trail->least_memory, at, t->memory_mb, window))
			series_fit(&trail->least_memory.least, &trail->memory_fit);
		note_slow(trail, config, at, t->memory_mb);
	}
	if (u64_known(p->open_fds) &&
	    floors_add(&trail->least_fds, at, (double)p->open_fds, fd_window))
		series_fit(&trail->least_fds.least, &trail->fds_fit);
}

/*
 * A shell that is about to become the program it was to start: what it had is no part of a trend of
 * that. Later a new name may be one that a program gives itself, however often.
 */
#define EXEC_SECONDS 10

static void note_exec(struct track *t, const struct proc_sample *p, double now)
{
	if (t->born == now || now - t->born > EXEC_SECONDS ||
	    strncmp(t->comm, p->comm, sizeof(t->comm)) == 0)
		return;
	free_trail(t);
	t->most_mb = F64_UNKNOWN;
}

static int detect_track_note(struct track *t, const struct config_anomaly *config,
			     const struct proc_sample *p, double now, double before)
{
	bool is_new = t->born == now;
	uint64_t cpu_before_ns = t->cpu_ns;
	uint64_t waited_ns;
	double all_percent = 100 * (double)(u64_known(p->threads) ? p->threads : 1);
	double busy_from = fmax(before, t->born), span, mean;

	note_exec(t, p, now);
	memcpy(t->comm, p->comm, sizeof(t->comm));
	t->ppid = p->ppid;
	if (p->job_id)
		t->sheet_num = p->sheet_num;
	if (!is_new)
		t->n_zombies_before = t->n_zombies;
	t->n_zombies = t->n_children = 0;
	t->kin = -1;
	if (p->state != t->state) {
		t->state = p->state;
		t->in_state = now;
		t->moved_in_state = false;
	}
	note_progress(t, p, now, before);
	/* It was so when it was first seen here, and has not changed: so it has been for longer. */
	if (t->progressed == t->born)
		t->progressed = fmin(t->progressed, t->still_since); /* which may be NaN */
	if (t->in_state == t->born)
		t->in_state = fmin(t->in_state, t->in_state_since);
	t->still_since = t->in_state_since = F64_UNKNOWN;
	/*
	 * Where others run it may get half a core and want all of it. The kernel counts a wait when
	 * it is over, maybe more than the step was: no thread wants more than all the time.
	 */
	waited_ns = u64_delta(p->cpu_wait_ns, t->wait_ns);
	t->wanted_percent = p->cpu_percent;
	if (f64_known(p->cpu_percent) && now > before)
		t->wanted_seconds += p->cpu_percent / 100 * (now - before);
	if (u64_known(waited_ns) && now > before && p->cpu_percent >= STARVED_PERCENT) {
		t->wanted_percent += fmax(0, fmin((double)waited_ns / 1e7 / (now - before),
						  all_percent - p->cpu_percent));
		t->wanted_seconds += (double)waited_ns / 1e9;
	}
	t->wait_ns = p->cpu_wait_ns;
	/*
	 * A wait that is counted at the next tick is missing at this one: what it wanted in all of
	 * the duration counts where a single tick shows less.
	 */
	two_ago_add(&t->wanted, now - t->born, t->wanted_seconds, config->runaway_duration_seconds);
	span = two_ago_seconds(&t->wanted, now - t->born);
	mean = fmin(100 * (t->wanted_seconds - two_ago_value(&t->wanted)) / span, all_percent);
	if (span >= config->runaway_duration_seconds && mean >= config->runaway_cpu_threshold) {
		t->wanted_percent = f64_max_known(t->wanted_percent, mean);
		busy_from = now - span;
	}
	/* The percentage is of the time since the tick before, when it had used so much. */
	if (t->wanted_percent < config->runaway_cpu_threshold)
		t->calm_percent = t->wanted_percent;
	if (!(t->wanted_percent >= config->runaway_cpu_threshold))
		t->busy = F64_UNKNOWN;
	else if (!f64_known(t->busy)) {
		t->busy = busy_from;
		t->calm_cpu_ns = u64_known(cpu_before_ns) ? cpu_before_ns : t->cpu_ns;
	}
	t->memory_mb = own_memory_mb(p);
	t->most_mb = f64_max_known(t->most_mb, t->memory_mb);
	if (u64_known(p->threads) && !(t->active & 1u << ANOMALY_THREAD_EXPLOSION))
		two_ago_add(&t->threads, now - t->born, (double)p->threads,
			    config->memory_spike_window_seconds);
	if (!t->trail && !is_new) {
		t->trail = calloc(1, sizeof(*t->trail));
		if (!t->trail)
			return -ENOMEM;
		t->trail->least_memory.open_v = t->trail->least_fds.open_v = -1;
		t->trail->settled = F64_UNKNOWN;
	}
	if (t->trail)
		note_trail(t, p, config, now, before);
	return 0;
}

/* ---- limits ---- */

static void limits_add(struct limits *l, uint64_t limit)
{
	struct limit_count *vacant = NULL;

	for (size_t i = 0; i < LIMITS_COUNTED; i++) {
		struct limit_count *c = &l->of[i];

		if (c->n > 0 && c->limit == limit) {
			c->n++;
			return;
		}
		if (c->n == 0 && !vacant)
			vacant = c;
	}
	if (vacant) {
		*vacant = (struct limit_count){ limit, 1 };
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

static void free_job(struct job_track *job)
{
	free(job->job_id);
	rank_watch_free(job->ranks);
	free(job);
}

void detect_tracks_reset(struct tracks *ts)
{
	for (size_t i = 0; i < ts->n; i++)
		free_trail(&ts->items[i]);
	for (size_t i = 0; i < ts->n_jobs; i++)
		free_job(ts->jobs[i]);
	ts->n = ts->n_jobs = 0;
	map_clear(&ts->by_pid);
}

void detect_tracks_forget_past(struct tracks *ts, double now)
{
	for (size_t i = 0; i < ts->n; i++) {
		struct track *t = &ts->items[i];

		free_trail(t);
		t->born = t->progressed = t->worked = t->in_state = now;
		t->busy = t->memory_mb = t->wanted_percent = t->calm_percent = F64_UNKNOWN;
		t->still_since = t->in_state_since = F64_UNKNOWN;
		t->cpu_ns = t->wait_ns = t->moved_bytes = t->faults = U64_UNKNOWN;
		t->moved_in_state = false;
		t->threads.n = t->wanted.n = 0;
	}
	for (size_t i = 0; i < ts->n_jobs; i++) {
		ts->jobs[i]->processes.n = 0;
		ts->jobs[i]->ranks = rank_watch_free(ts->jobs[i]->ranks);
	}
}

void detect_tracks_release(struct tracks *ts)
{
	detect_tracks_reset(ts);
	free(ts->items);
	free(ts->jobs);
	map_release(&ts->by_pid);
	*ts = (struct tracks){ 0 };
}

/* ---- jobs ---- */

static bool is_job(const struct job_track *job, const char *job_id, int64_t attempt_id)
{
	return job->attempt_id == attempt_id && strcmp(job->job_id, job_id) == 0;
}

/* Few are judged by one observer. */
struct job_track *detect_tracks_find_job(const struct tracks *ts, const char *job_id,
					 int64_t attempt_id)
{
	for (size_t i = ts->n_jobs; i > 0; i--)
		if (is_job(ts->jobs[i - 1], job_id, attempt_id))
			return ts->jobs[i - 1];
	return NULL;
}

int detect_tracks_job(struct tracks *ts, const char *job_id, int64_t attempt_id,
		      struct job_track **ret)
{
	struct job_track *job = detect_tracks_find_job(ts, job_id, attempt_id);

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
			.usual = { NULL, attempt_id, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN,
				   U64_UNKNOWN },
		};
		if (!job->job_id) {
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
	**ret = (struct track){
		.key = p->key,
		.born = now,
		.memory_mb = F64_UNKNOWN,
		.most_mb = F64_UNKNOWN,
		.progressed = now,
		.worked = now,
		.busy = F64_UNKNOWN,
		.wanted_percent = F64_UNKNOWN,
		.calm_percent = F64_UNKNOWN,
		.still_since = F64_UNKNOWN,
		.in_state_since = F64_UNKNOWN,
		.n_zombies_before = U64_UNKNOWN,
		.in_state = now,
		.without_job = F64_UNKNOWN,
		.state = p->state,
		.kin = -1,
		.sheet_num = SHEET_NONE,
		.cpu_ns = U64_UNKNOWN,
		.wait_ns = U64_UNKNOWN,
		.moved_bytes = U64_UNKNOWN,
		.faults = U64_UNKNOWN,
		.calm_cpu_ns = U64_UNKNOWN,
	};
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

/* The last takes its place. */
static void remove_track(struct tracks *ts, size_t i)
{
	struct track *t = &ts->items[i];
	uint64_t at;

	if (t->job)
		t->job->n_tracks--;
	free_trail(t);
	if (map_get(&ts->by_pid, (uint64_t)t->key.pid, &at) && at == i)
		map_remove(&ts->by_pid, (uint64_t)t->key.pid);
	ts->n--;
	if (i == ts->n)
		return;
	*t = ts->items[ts->n];
	if (map_get(&ts->by_pid, (uint64_t)t->key.pid, &at) && at == ts->n)
		map_put(&ts->by_pid, (uint64_t)t->key.pid, i); /* replaces: needs no memory */
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
	if (!t->job) { /* without memory for its job: each that is followed has one */
		remove_track(ts, (size_t)(t - ts->items));
		return r;
	}
	if (r == 0)
		r = detect_track_note(t, config, p, now, before);
	if (r == 0)
		*ret = (size_t)(t - ts->items);
	return r;
}

void detect_tracks_sweep(struct tracks *ts, uint64_t wall_ns, track_gone_fn *gone,
			 job_gone_fn *job_gone, void *ctx)
{
	size_t n = 0;

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
	ts->n_jobs = n;
}
