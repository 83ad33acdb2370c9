#include "detect/checks.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "detect/host_past.h"

#define SEES_AFTER(field) .sees_after = offsetof(struct config_anomaly, field)

const struct check checks[] = {
	{ ANOMALY_MEMORY_SPIKE, "MB", .of_process = check_memory_spike },
	{ ANOMALY_MEMORY_LEAK, "MB", .of_process = check_memory_leak },
	{ ANOMALY_RUNAWAY_PROCESS, "percent of a core", .of_process = check_runaway },
	{ ANOMALY_STUCK_PROCESS, "seconds", SEES_AFTER(stuck_duration_seconds),
	  .of_process = check_stuck },
	{ ANOMALY_IO_STALL, "seconds", .of_process = check_io_wait },
	{ ANOMALY_ZOMBIE, "zombies", SEES_AFTER(zombie_duration_seconds),
	  .of_process = check_zombies },
	{ ANOMALY_FD_EXHAUSTION, "open files", SEES_AFTER(fd_exhaustion_horizon_seconds),
	  .of_process = check_fds },
	{ ANOMALY_THREAD_EXPLOSION, "threads", .of_process = check_threads },
	{ ANOMALY_ORPHAN, "seconds", .of_process = check_orphan },
	{ ANOMALY_PROCESS_EXPLOSION, "processes", .of_job = check_processes },
	{ ANOMALY_ZOMBIE, "zombies", SEES_AFTER(zombie_duration_seconds),
	  .of_job = check_job_zombies },
	{ ANOMALY_RANK_DIVERGED, "MB", .of_job = check_ranks },
	{ ANOMALY_MEMORY_PRESSURE, ANOMALY_UNIT_AVAILABLE, .lower_is_worse = true,
	  .of_host = check_host_memory },
	{ ANOMALY_IO_STALL, "percent of the time", .of_host = check_host_io },
	{ ANOMALY_SWAP_STORM, "MB per second", .of_host = check_swap },
	{ ANOMALY_OOM_KILL, "kills", .is_moment = true, .of_host = check_host_oom },
	{ ANOMALY_MEMORY_PRESSURE, "percent of its limit", .of_cgroup = check_cgroup_memory },
	{ ANOMALY_OOM_KILL, "kills", .is_moment = true, .of_cgroup = check_cgroup_oom },
	{ ANOMALY_GPU_MEMORY, "percent", .of_gpu = check_gpu_memory },
	{ ANOMALY_GPU_IDLE, "seconds", .of_gpu = check_gpu_idle },
	{ ANOMALY_GPU_HOT, "degrees C", .of_gpu = check_gpu_hot },
	{ ANOMALY_GPU_LOST, "GPUs", .of_gpu = check_gpu_lost },
};
const size_t n_checks = ARRAY_SIZE(checks);

const struct check check_oom_event = { ANOMALY_OOM_KILL, "kills", .is_moment = true };

const struct check *checks_of_type(enum anomaly_type type)
{
	for (size_t k = 0; k < n_checks; k++)
		if (checks[k].type == type)
			return &checks[k];
	return NULL;
}

const char *checks_unit(const char *name)
{
	for (size_t k = 0; name && k < n_checks; k++)
		if (strcmp(checks[k].unit, name) == 0)
			return checks[k].unit;
	return name && strcmp(name, CHECKS_WAITING) == 0 ? CHECKS_WAITING : NULL;
}

/* The cgroup of the process, if it has a limit; NULL. */
static const struct cgroup_sample *find_limited(const struct tick *t, const struct proc_sample *s)
{
	const struct cgroup_past *past =
		s->cgroup ? host_past_find_cgroup(t->past, s->cgroup) : NULL;
	const struct cgroup_sample *c =
		past && past->at < t->snap->n_cgroups ? &t->snap->cgroups[past->at] : NULL;

	if (!c || !u64_known(c->memory_max_bytes) || c->memory_max_bytes == MEMORY_UNLIMITED)
		return NULL;
	return c;
}

/* All memory that the process may ever have: of the host or its cgroup. NaN: unknown. */
static double checks_limit_mb(const struct tick *t, const struct proc_sample *s)
{
	double total = u64_to_mb(t->snap->system.memory_total_bytes);
	const struct cgroup_sample *c = find_limited(t, s);

	return c ? fmin(total, u64_to_mb(c->memory_max_bytes)) : total;
}

/* Memory that the process can still get: of the host and of its cgroup. NaN: unknown. */
static double checks_room_mb(const struct tick *t, const struct proc_sample *s)
{
	double room = u64_to_mb(t->snap->system.memory_available_bytes);
	const struct cgroup_sample *c = find_limited(t, s);

	if (!c || !u64_known(c->memory_current_bytes))
		return room;
	return fmin(room,
		    fmax(0, u64_to_mb(c->memory_max_bytes) - u64_to_mb(c->memory_current_bytes)));
}

void finding_add(struct finding *f, const char *format, ...)
{
	const size_t n = strlen(f->text);
	va_list args;

	va_start(args, format);
	vsnprintf(f->text + n, sizeof(f->text) - n, format, args);
	va_end(args);
}

struct time_text checks_time(double seconds)
{
	struct time_text t;

	if (seconds < 1)
		snprintf(t.text, sizeof(t.text), "%.2g s", seconds);
	else if (seconds < 120)
		snprintf(t.text, sizeof(t.text), "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(t.text, sizeof(t.text), "%.0f min", seconds / 60);
	else if (seconds < 172800)
		snprintf(t.text, sizeof(t.text), "%.1f h", seconds / 3600);
	else
		snprintf(t.text, sizeof(t.text), "%.0f days", fmin(seconds / 86400, 99999));
	return t;
}

/* "; at this rate memory is full in 5 min"; what is less than a second away has come. */
static void add_full(struct finding *f, const char *which)
{
	if (f->seconds_to_limit < 1)
		finding_add(f, "; memory is full");
	else if (f64_known(f->seconds_to_limit))
		finding_add(f, "; at %s rate memory is full in %s", which,
			    checks_time(f->seconds_to_limit).text);
}

/* ---- memory spike ----
 *
 * Its own memory (without the page cache) is memory_spike_threshold times what it was at the
 * beginning of the window, by memory_spike_floor_mb more, and a tenth more than it ever
 * was before the window: what goes up and down between the same two values is no news, and
 * neither is what jobs of its kind usually take, where that fits. What it takes while it starts up
 * is told if memory could be full within 60 s; what it has then is no base later.
 *
 *	critical	at this rate memory is full within 15 s
 *	high		within 60 s
 *	medium		it took a tenth of what it may have: of the host's memory, or of the limit
 *			of its cgroup
 *	low		otherwise
 *
 * The first two only of what is medium and goes on: for 8 s and at two looks, a quarter of it in
 * the later half of these, or until it has taken half as much as there is left. Who loads its data
 * is done by then.
 * The rate is that since it began to grow, which may be later than the beginning of the window:
 * from where it had taken half the floor. All else is told from that beginning on, which is what
 * was judged.
 */
#define NEW_PEAK 1.1
#define SPIKE_CRITICAL_S 15
#define SPIKE_HIGH_S 60
#define SPIKE_SURE_S 8
#define STILL_RISING 0.25
#define SURE_SHARE 0.5
#define LARGE_SHARE 0.1
#define HARDLY_MORE 0.125  /* of the floor: no process has the same all the time */
#define LONGEST_TICK_S 300 /* what lies further back is no sudden growth */

static enum severity judge_spike(double growth_mb, double limit_mb, double seconds_to_limit,
				 bool goes_on)
{
	if (!(growth_mb >= LARGE_SHARE * limit_mb))
		return SEVERITY_LOW;
	if (!goes_on)
		return SEVERITY_MEDIUM;
	if (seconds_to_limit <= SPIKE_CRITICAL_S)
		return SEVERITY_CRITICAL;
	return seconds_to_limit <= SPIKE_HIGH_S ? SEVERITY_HIGH : SEVERITY_MEDIUM;
}

/* What does not fit here is no comfort, however often it did elsewhere. */
static bool is_usual(const struct tick *t, const struct track *p, const struct proc_sample *s)
{
	double usual_mb = u64_to_mb(p->job->usual.rss_bytes);

	return p->memory_mb <= usual_mb * NEW_PEAK && /* false where it is unknown */
	       !(usual_mb >= checks_limit_mb(t, s));
}

/* Since it began to grow. */
struct rise {
	double at, from_mb; /* by the clock of the trail */
	double seconds, mb;
};

static bool goes_on(const struct track *p, const struct rise *r, double room_mb)
{
	double at = r->at, mb = r->from_mb, high;

	if (r->mb >= SURE_SHARE * room_mb)
		return true;
	/* The look at half of it, or the next: the one that it began with says nothing of what was
	 * since. This one, where there is no other. */
	levels_latest(&p->trail->memory, r->at + r->seconds / 2, INFINITY, &at, &mb);
	if (!(at > r->at) &&
	    !levels_since(&p->trail->memory, nextafter(r->at, INFINITY), &at, &mb, &high))
		mb = p->memory_mb;
	return r->seconds >= SPIKE_SURE_S && p->memory_mb - mb >= STILL_RISING * r->mb;
}

/* What is told is what was judged: from the base on, since it last had hardly more than that. */
static void measure_growth(const struct tick *t, const struct track *p, const struct proc_sample *s,
			   double base, struct finding *f)
{
	struct rise rise = { .from_mb = base };
	const double room_mb = checks_room_mb(t, s); /* NaN: nobody knows */
	double at = 0, least;

	/* The base is one that lies below each of these two. */
	levels_latest(&p->trail->memory, INFINITY, base + t->config->memory_spike_floor_mb / 2,
		      &rise.at, &rise.from_mb);
	levels_latest(&p->trail->memory, INFINITY,
		      base + HARDLY_MORE * t->config->memory_spike_floor_mb, &at, &least);
	rise.seconds = t->now - p->born - rise.at;
	rise.mb = p->memory_mb - rise.from_mb;
	f->before = base;
	f->seconds_to_limit = room_mb * rise.seconds / rise.mb;
	f->severity = judge_spike(p->memory_mb - base, checks_limit_mb(t, s), f->seconds_to_limit,
				  goes_on(p, &rise, room_mb));
	finding_add(
		f,
		"%s (pid %d) grew from %.0f MB to %.0f MB in %s (threshold: %g times and %.0f MB)",
		s->comm, (int)s->key.pid, base, p->memory_mb,
		checks_time(t->now - p->born - at).text, t->config->memory_spike_threshold,
		t->config->memory_spike_floor_mb);
	add_full(f, "its latest");
}

void check_memory_spike(const struct tick *t, const struct track *p, const struct proc_sample *s,
			struct finding *f)
{
	const struct config_anomaly *c = t->config;
	bool is_starting = !p->trail || !f64_known(p->trail->settled);
	double at, before, high_before, seconds;

	if (!p->trail || !f64_known(p->memory_mb) ||
	    !levels_since(&p->trail->memory, is_starting ? 0 : p->trail->settled, &at, &before,
			  &high_before))
		return;
	seconds = t->now - p->born - at;
	f->stand = STAND_CLEAR;
	f->value = p->memory_mb;
	if (seconds > fmax(c->memory_spike_window_seconds, LONGEST_TICK_S) ||
	    p->memory_mb - before < c->memory_spike_floor_mb / 2 ||
	    p->memory_mb < high_before * NEW_PEAK || is_usual(t, p, s))
		return;
	f->stand = STAND_BETWEEN;
	if (p->memory_mb - before < c->memory_spike_floor_mb ||
	    (before > 0 && p->memory_mb / before < c->memory_spike_threshold))
		return;
	f->threshold = fmax(before * c->memory_spike_threshold, before + c->memory_spike_floor_mb);
	measure_growth(t, p, s, before, f);
	if (is_starting && !(f->severity > SEVERITY_LOW && f->seconds_to_limit <= SPIKE_HIGH_S))
		return;
	f->stand = STAND_OVER;
}

/* ---- memory leak ----
 *
 * The least it had in each part of memory_leak_window_seconds lies on a rising line: nine
 * tenths of a window long, grown by memory_leak_floor_mb and a twentieth, the line
 * explains 85 % of what happened, at most three in ten steps fall, and none by more than a
 * fifth of the growth. So what is given back now and then does not count, and what is
 * loaded once does not either. One that reaches its limit within the horizon
 * is told after a third of a window if the line is nearly perfect. The same of all that
 * was seen, from two windows up to a day, where a third of the growth came in the later half:
 * so what grows by less than that in a window is found as well, later.
 *
 *	critical	memory is full within a tenth of memory_leak_horizon_seconds
 *	high		within it
 *	medium		within a day
 *	low		later, or nobody knows when
 *
 * The first two are a step less while less than a window was seen and memory lasts for the rest.
 */
#define LEAK_SPAN 0.9
#define LEAK_SPAN_EARLY 0.33
#define LEAK_R2 0.85
#define LEAK_R2_EARLY 0.97
#define LEAK_RISING 0.7
#define LEAK_DROP 0.2
#define LEAK_SHARE 0.05
#define LEAK_LATE 0.35 /* of what it grew in all; what fills up grows less and less */
#define DAY_S 86400
#define SLOW_SLOPE (1.0 / 60) /* MB a second; less is told by the hour */

/* unseen: seconds of the window. */
static enum severity judge_leak(double seconds_to_limit, double horizon, double unseen)
{
	bool can_wait = unseen > 0 && seconds_to_limit > unseen;

	if (seconds_to_limit <= horizon / 10)
		return can_wait ? SEVERITY_HIGH : SEVERITY_CRITICAL;
	if (seconds_to_limit <= horizon)
		return can_wait ? SEVERITY_MEDIUM : SEVERITY_HIGH;
	return seconds_to_limit <= DAY_S ? SEVERITY_MEDIUM : SEVERITY_LOW;
}

static bool is_line(const struct config_anomaly *c, const struct fit *fit, double r2)
{
	double growth = fit->last - fit->first;

	return growth >= c->memory_leak_floor_mb && growth >= LEAK_SHARE * fit->first &&
	       fit->r2 >= r2 && fit->rising >= LEAK_RISING &&
	       fit->largest_drop <= LEAK_DROP * growth;
}

/* Over hours; it does not go on for as long as all of that is remembered. */
static enum stand stand_of_slow(const struct config_anomaly *c, const struct fit *fit)
{
	if (fit->span < c->memory_leak_window_seconds || !(fit->late >= LEAK_LATE / 2) ||
	    fit->last - fit->first < c->memory_leak_floor_mb / 2)
		return STAND_CLEAR;
	return is_line(c, fit, LEAK_R2) && fit->late >= LEAK_LATE ? STAND_OVER : STAND_BETWEEN;
}

void check_memory_leak(const struct tick *t, const struct track *p, const struct proc_sample *s,
		       struct finding *f)
{
	const struct config_anomaly *c = t->config;
	const struct fit *fit = p->trail ? &p->trail->memory_fit : NULL;
	const struct fit *slow = fit && p->trail->slow ? &p->trail->slow->fit : NULL;
	enum stand slowly = slow ? stand_of_slow(c, slow) : STAND_CLEAR;
	double window = c->memory_leak_window_seconds;
	bool is_early, is_over;

	if (!fit || fit->n == 0 || fit->span < LEAK_SPAN_EARLY * window || !f64_known(p->memory_mb))
		return;
	is_early = fit->span < LEAK_SPAN * window;
	is_over = is_line(c, fit, is_early ? LEAK_R2_EARLY : LEAK_R2);
	f->stand = STAND_CLEAR;
	f->value = p->memory_mb;
	if ((fit->last - fit->first < c->memory_leak_floor_mb / 2 && slowly == STAND_CLEAR) ||
	    is_usual(t, p, s))
		return;
	f->stand = STAND_BETWEEN;
	if (!is_over && slowly != STAND_OVER)
		return;
	if (!is_over) {
		fit = slow;
		is_early = false;
	}
	f->seconds_to_limit = checks_room_mb(t, s) / fit->slope;
	if (is_early && !(f->seconds_to_limit <= c->memory_leak_horizon_seconds))
		return;
	f->stand = STAND_OVER;
	f->threshold = fit->first + c->memory_leak_floor_mb;
	f->before = fit->first;
	f->severity = judge_leak(f->seconds_to_limit, c->memory_leak_horizon_seconds,
				 LEAK_SPAN * window - fit->span);
	finding_add(f,
		    "%s (pid %d) grows by %.1f MB %s, from %.0f MB to %.0f MB in %s (threshold: "
		    "%.0f MB more)",
		    s->comm, (int)s->key.pid, fit->slope * (fit->slope < SLOW_SLOPE ? 3600 : 60),
		    fit->slope < SLOW_SLOPE ? "an hour" : "a minute", fit->first, f->value,
		    checks_time(t->now - p->born - fit->from).text,
		    t->config->memory_leak_floor_mb);
	add_full(f, "this");
}
