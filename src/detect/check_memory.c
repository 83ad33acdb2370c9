#include <math.h>
#include <stdio.h>

#include "base/unknown.h"
#include "detect/checks.h"

/* ---- memory spike ----
 *
 * Its own memory (without the page cache) is memory_spike_threshold times what it was at the
 * beginning of the window, by memory_spike_floor_mb more, and a tenth more than it ever
 * was before the window: what goes up and down between the same two values is no news, and
 * neither is what jobs of its kind usually take, where that fits. What it takes while it starts up
 * (track_note.c) is told if memory could be full within 60 s; what it has then is no base later.
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
	double usual_mb = u64_to_mb(p->job->usual_rss_bytes);

	return p->memory_mb <= usual_mb * NEW_PEAK && /* false where it is unknown */
	       !(usual_mb >= checks_limit_mb(t, s));
}

static bool is_spike(const struct tick *t, const struct track *p, double before)
{
	const struct config_anomaly *c = t->config;

	return p->memory_mb - before >= c->memory_spike_floor_mb &&
	       (before <= 0 || p->memory_mb / before >= c->memory_spike_threshold);
}

/* Since it began to grow. */
struct rise {
	double at, from_mb; /* by the clock of the trail */
	double seconds, mb;
};

static struct rise find_rise(const struct tick *t, const struct track *p, double base)
{
	struct rise r = { .from_mb = base };

	levels_last_below(&p->trail->memory, base + t->config->memory_spike_floor_mb / 2, &r.at,
			  &r.from_mb); /* the base is one */
	r.seconds = t->now - p->born - r.at;
	r.mb = p->memory_mb - r.from_mb;
	return r;
}

/* The look at half of it, or the next: the one that it began with says nothing of what was since.
 * This one, where there is no other. */
static double half_way_mb(const struct track *p, const struct rise *r)
{
	double at = r->at, mb = r->from_mb, high;

	levels_until(&p->trail->memory, r->at + r->seconds / 2, &at, &mb);
	if (at > r->at)
		return mb;
	return levels_since(&p->trail->memory, nextafter(r->at, INFINITY), &at, &mb, &high)
		       ? mb
		       : p->memory_mb;
}

static bool goes_on(const struct track *p, const struct rise *r, double room_mb)
{
	if (r->mb >= SURE_SHARE * room_mb)
		return true;
	return r->seconds >= SPIKE_SURE_S &&
	       p->memory_mb - half_way_mb(p, r) >= STILL_RISING * r->mb;
}

/* What is told is what was judged: from the base on, since it last had hardly more than that. */
static void measure_growth(const struct tick *t, const struct track *p, const struct proc_sample *s,
			   double base, struct finding *f)
{
	const struct rise rise = find_rise(t, p, base);
	const double room_mb = checks_room_mb(t, s); /* NaN: nobody knows */
	double at = 0, least;
	char until[CHECKS_TIME_BYTES], since[CHECKS_TIME_BYTES];

	levels_last_below(&p->trail->memory, base + HARDLY_MORE * t->config->memory_spike_floor_mb,
			  &at, &least); /* the base is one */
	f->before = base;
	f->seconds_to_limit = room_mb * rise.seconds / rise.mb;
	f->severity = judge_spike(p->memory_mb - base, checks_limit_mb(t, s), f->seconds_to_limit,
				  goes_on(p, &rise, room_mb));
	snprintf(
		f->text, sizeof(f->text),
		"%s (pid %d) grew from %.0f MB to %.0f MB in %s (threshold: %g times and %.0f MB)%s%s",
		s->comm, (int)s->key.pid, base, p->memory_mb,
		checks_time(t->now - p->born - at, since), t->config->memory_spike_threshold,
		t->config->memory_spike_floor_mb,
		f64_known(f->seconds_to_limit) ? "; at its latest rate memory is full in " : "",
		f64_known(f->seconds_to_limit) ? checks_time(f->seconds_to_limit, until) : "");
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
	if (!is_spike(t, p, before))
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
 * is told after a third of a window if the line is nearly perfect.
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
#define DAY_S 86400

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

void check_memory_leak(const struct tick *t, const struct track *p, const struct proc_sample *s,
		       struct finding *f)
{
	const struct config_anomaly *c = t->config;
	const struct fit *fit = p->trail ? &p->trail->memory_fit : NULL;
	double window = c->memory_leak_window_seconds, growth;
	bool is_early;
	char until[CHECKS_TIME_BYTES], since[CHECKS_TIME_BYTES];

	if (!fit || fit->n == 0 || fit->span < LEAK_SPAN_EARLY * window || !f64_known(p->memory_mb))
		return;
	growth = fit->last - fit->first;
	f->stand = STAND_CLEAR;
	f->value = p->memory_mb;
	if (growth < c->memory_leak_floor_mb / 2 || is_usual(t, p, s))
		return;
	f->stand = STAND_BETWEEN;
	is_early = fit->span < LEAK_SPAN * window;
	if (growth < c->memory_leak_floor_mb || growth < LEAK_SHARE * fit->first ||
	    !(fit->r2 >= (is_early ? LEAK_R2_EARLY : LEAK_R2) && fit->rising >= LEAK_RISING &&
	      fit->largest_drop <= LEAK_DROP * (fit->last - fit->first)))
		return;
	f->seconds_to_limit = checks_room_mb(t, s) / fit->slope;
	if (is_early && !(f->seconds_to_limit <= c->memory_leak_horizon_seconds))
		return;
	f->stand = STAND_OVER;
	f->threshold = fit->first + c->memory_leak_floor_mb;
	f->before = fit->first;
	f->severity = judge_leak(f->seconds_to_limit, c->memory_leak_horizon_seconds,
				 LEAK_SPAN * window - fit->span);
	snprintf(f->text, sizeof(f->text),
		 "%s (pid %d) grows by %.1f MB a minute, from %.0f MB to %.0f MB in %s (threshold: "
		 "%.0f MB more)%s%s",
		 s->comm, (int)s->key.pid, fit->slope * 60, fit->first, f->value,
		 checks_time(t->now - p->born - fit->from, since), t->config->memory_leak_floor_mb,
		 f64_known(f->seconds_to_limit) ? "; at this rate memory is full in " : "",
		 f64_known(f->seconds_to_limit) ? checks_time(f->seconds_to_limit, until) : "");
}
