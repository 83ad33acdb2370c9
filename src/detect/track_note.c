#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/track.h"

/* Less than this is what a process that sleeps uses to be asleep. */
#define PROGRESS_CPU_SHARE 0.001
/* Per second; less may be noise of a process that only turns in circles. */
#define WORK_BYTES 4096
#define WORK_FAULTS 64

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
		.progressed = now,
		.worked = now,
		.busy = F64_UNKNOWN,
		.calm_percent = F64_UNKNOWN,
		.n_zombies_before = U64_UNKNOWN,
		.in_state = now,
		.without_job = F64_UNKNOWN,
		.state = p->state,
		.sheet_num = SHEET_NONE,
		.cpu_ns = U64_UNKNOWN,
		.moved_bytes = U64_UNKNOWN,
		.faults = U64_UNKNOWN,
	};
}

void detect_track_forget(struct track *t, double now)
{
	free(t->trail);
	t->trail = NULL;
	t->born = t->progressed = t->worked = t->in_state = now;
	t->busy = t->memory_mb = t->calm_percent = F64_UNKNOWN;
	t->cpu_ns = t->moved_bytes = t->faults = U64_UNKNOWN;
	t->moved_in_state = false;
	t->threads.n = 0;
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
	if (p->cpu_percent < threshold)
		t->calm_percent = p->cpu_percent;
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

int detect_track_note(struct track *t, const struct config_anomaly *config,
		      const struct proc_sample *p, double now, double before)
{
	bool is_new = t->born == now;

	memcpy(t->comm, p->comm, sizeof(t->comm));
	t->ppid = p->ppid;
	if (p->job_id)
		t->sheet_num = p->sheet_num;
	if (!is_new)
		t->n_zombies_before = t->n_zombies;
	t->n_zombies = t->n_children = t->n_like = t->n_like_moving = 0;
	note_state(t, p, now);
	note_progress(t, p, now, before);
	note_busy(t, p, config->runaway_cpu_threshold, before);
	t->memory_mb = own_memory_mb(p);
	if (u64_known(p->threads) && !(t->active & 1u << ANOMALY_THREAD_EXPLOSION))
		two_ago_add(&t->threads, now - t->born, (double)p->threads,
			    config->memory_spike_window_seconds);
	if (!t->trail && !is_new && start_trail(t) < 0)
		return -ENOMEM;
	if (t->trail)
		note_trail(t, p, config, now, before);
	return 0;
}
