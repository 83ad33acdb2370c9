#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/track.h"

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

void detect_track_begin(struct track *t, const struct proc_sample *p, double now)
{
	*t = (struct track){
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
		.sheet_num = SHEET_NONE,
		.cpu_ns = U64_UNKNOWN,
		.wait_ns = U64_UNKNOWN,
		.moved_bytes = U64_UNKNOWN,
		.faults = U64_UNKNOWN,
		.calm_cpu_ns = U64_UNKNOWN,
	};
}

void detect_track_forget(struct track *t, double now)
{
	free(t->trail);
	t->trail = NULL;
	t->born = t->progressed = t->worked = t->in_state = now;
	t->busy = t->memory_mb = t->wanted_percent = t->calm_percent = F64_UNKNOWN;
	t->still_since = t->in_state_since = F64_UNKNOWN;
	t->cpu_ns = t->wait_ns = t->moved_bytes = t->faults = U64_UNKNOWN;
	t->moved_in_state = false;
	t->threads.n = 0;
}

/* Seconds of the step in which it can have worked: it may have had to wait for a CPU. */
static double ran_seconds(uint64_t cpu, double step)
{
	return u64_known(cpu) ? fmin(step, (double)cpu / 1e9) : step;
}

/* An unknown counter tells nothing: then nobody says that it stood still. */
static void note_progress(struct track *t, const struct proc_sample *p, double now, double before)
{
	uint64_t cpu_ns = used_ns(p), moved = moved_bytes(p), faults = p->minor_faults;
	uint64_t cpu = u64_delta(cpu_ns, t->cpu_ns), bytes = u64_delta(moved, t->moved_bytes);
	uint64_t touched = u64_delta(faults, t->faults);
	double step = now - before, ran = ran_seconds(cpu, step);

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

static void note_state(struct track *t, const struct proc_sample *p, double now)
{
	if (p->state == t->state)
		return;
	t->state = p->state;
	t->in_state = now;
	t->moved_in_state = false;
}

/* It was so when it was first seen here, and has not changed: so it has been for longer. */
static void note_past(struct track *t)
{
	if (t->progressed == t->born)
		t->progressed = fmin(t->progressed, t->still_since); /* which may be NaN */
	if (t->in_state == t->born)
		t->in_state = fmin(t->in_state, t->in_state_since);
	t->still_since = t->in_state_since = F64_UNKNOWN;
}

/*
 * Where others run it may get half a core and want all of it. The kernel counts a wait when it is
 * over, maybe more than the step was: no thread wants more than all the time.
 */
static void note_wanted(struct track *t, const struct proc_sample *p, double now, double before)
{
	uint64_t waited_ns = u64_delta(p->cpu_wait_ns, t->wait_ns);
	double most = 100 * (double)(u64_known(p->threads) ? p->threads : 1) - p->cpu_percent;

	t->wanted_percent = p->cpu_percent;
	if (u64_known(waited_ns) && now > before && p->cpu_percent >= STARVED_PERCENT)
		t->wanted_percent += fmax(0, fmin((double)waited_ns / 1e7 / (now - before), most));
	t->wait_ns = p->cpu_wait_ns;
}

/* The percentage is of the time since the tick before, when it had used so much. */
static void note_busy(struct track *t, double threshold, double before, uint64_t cpu_ns)
{
	if (t->wanted_percent < threshold)
		t->calm_percent = t->wanted_percent;
	if (!(t->wanted_percent >= threshold))
		t->busy = F64_UNKNOWN;
	else if (!f64_known(t->busy)) {
		t->busy = fmax(before, t->born);
		t->calm_cpu_ns = u64_known(cpu_ns) ? cpu_ns : t->cpu_ns;
	}
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

/* Since when it has been calm for long enough; NaN: it has not, or too little was seen. */
static double find_calm(const struct track *t, const struct config_anomaly *config, double at)
{
	double calm = CALM_WINDOWS * config->memory_spike_window_seconds;
	double since, then;

	if (!levels_until(&t->trail->memory, at - calm * (1 - CALM_EARLY), &since, &then) ||
	    t->memory_mb - then > CALM_FLOORS * config->memory_spike_floor_mb)
		return F64_UNKNOWN;
	return since;
}

static void note_start(struct track *t, const struct proc_sample *p,
		       const struct config_anomaly *config, double at)
{
	double age = f64_known(p->age_seconds) ? p->age_seconds : at;
	double window = config->memory_spike_window_seconds;

	if (f64_known(t->trail->settled) || age < START_WINDOWS * window)
		return;
	if (age - at >= START_WINDOWS * window)
		t->trail->settled = 0; /* it was no longer new when it was first seen */
	else if (age >= LONGEST_START_WINDOWS * window)
		t->trail->settled = at;
	else
		t->trail->settled = find_calm(t, config, at);
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
	}
	if (u64_known(p->open_fds) &&
	    floors_add(&trail->least_fds, at, (double)p->open_fds, fd_window))
		series_fit(&trail->least_fds.least, &trail->fds_fit);
}

static int start_trail(struct track *t)
{
	t->trail = calloc(1, sizeof(*t->trail));
	if (!t->trail)
		return -ENOMEM;
	floors_init(&t->trail->least_memory);
	floors_init(&t->trail->least_fds);
	t->trail->settled = F64_UNKNOWN;
	return 0;
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
	free(t->trail);
	t->trail = NULL;
	t->most_mb = F64_UNKNOWN;
}

int detect_track_note(struct track *t, const struct config_anomaly *config,
		      const struct proc_sample *p, double now, double before)
{
	bool is_new = t->born == now;
	uint64_t cpu_before_ns = t->cpu_ns;

	note_exec(t, p, now);
	memcpy(t->comm, p->comm, sizeof(t->comm));
	t->ppid = p->ppid;
	if (p->job_id)
		t->sheet_num = p->sheet_num;
	if (!is_new)
		t->n_zombies_before = t->n_zombies;
	t->n_zombies = t->n_children = t->n_like = t->n_like_moving = 0;
	note_state(t, p, now);
	note_progress(t, p, now, before);
	note_past(t);
	note_wanted(t, p, now, before);
	note_busy(t, config->runaway_cpu_threshold, before, cpu_before_ns);
	t->memory_mb = own_memory_mb(p);
	t->most_mb = f64_max_known(t->most_mb, t->memory_mb);
	if (u64_known(p->threads) && !(t->active & 1u << ANOMALY_THREAD_EXPLOSION))
		two_ago_add(&t->threads, now - t->born, (double)p->threads,
			    config->memory_spike_window_seconds);
	if (!t->trail && !is_new && start_trail(t) < 0)
		return -ENOMEM;
	if (t->trail)
		note_trail(t, p, config, now, before);
	return 0;
}
