#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/checks.h"

/* ---- runaway process ----
 *
 * runaway_cpu_threshold or more of a core for runaway_duration_seconds without a break and without
 * a sign of work: it read, wrote and touched no new memory to speak of all that time. What it
 * waited for a core that others had counts as used, if it got a tenth of one. With such signs it
 * is only told after ten times as long. A job that uses no more CPU than those of its kind usually
 * do (a quarter more is allowed) works as it should, on however many cores, unless the process has
 * been busy for twice as long as such a job takes, or has used twice the CPU time meanwhile that
 * such a job uses in all: one that was busy for a moment does not make it usual for long.
 *
 *	high	twice what jobs of its kind use
 *	medium	ten times as long without a sign of work
 *	low	otherwise
 */
#define LONG_FACTOR 10
#define USUAL_FACTOR 1.25
#define UNUSUAL_FACTOR 2

/* False where nothing is known. */
static bool is_usual_work(const struct track *p, double busy_seconds)
{
	const struct job_track *job = p->job;
	double used_seconds = u64_to_seconds(u64_delta(p->cpu_ns, p->calm_cpu_ns));

	return job->cpu_percent <= USUAL_FACTOR * job->usual_cpu_percent &&
	       !(busy_seconds > UNUSUAL_FACTOR * job->usual_wall_seconds) &&
	       !(used_seconds > UNUSUAL_FACTOR * job->usual_cpu_seconds);
}

/* "; such jobs use 110 % at most" where that is known. */
static const char *usual_text(const struct job_track *job, char text[64])
{
	text[0] = '\0';
	if (f64_known(job->usual_cpu_percent))
		snprintf(text, 64, "; jobs of its kind use %.0f %% at most",
			 job->usual_cpu_percent);
	return text;
}

static enum severity judge_runaway(const struct tick *t, const struct track *p, double circling)
{
	if (p->job->cpu_percent >= UNUSUAL_FACTOR * p->job->usual_cpu_percent)
		return SEVERITY_HIGH;
	if (circling >= LONG_FACTOR * t->config->runaway_duration_seconds)
		return SEVERITY_MEDIUM;
	return SEVERITY_LOW;
}

static void add_text(struct finding *f, const char *more)
{
	size_t n = strlen(f->text);

	snprintf(f->text + n, sizeof(f->text) - n, "%s", more);
}

/* Each thread waits for itself, so of several it may be more than all of the time. */
static void describe_wait(double percent, uint64_t n_threads, char text[64])
{
	if (n_threads == 1)
		snprintf(text, 64, " and waited for one in %.0f %% of the time",
			 fmin(percent, 100));
	else
		snprintf(text, 64, " and its threads waited for one, %.1f s in a second together",
			 percent / 100);
}

/* What it waited for a core is told where that makes the difference. */
static void describe_use(const struct tick *t, const struct track *p, const struct proc_sample *s,
			 double seconds, struct finding *f)
{
	char shown[CHECKS_TIME_BYTES], waited[64] = "";

	if (s->cpu_percent < t->config->runaway_cpu_threshold)
		describe_wait(p->wanted_percent - s->cpu_percent, s->threads, waited);
	snprintf(f->text, sizeof(f->text),
		 "%s (pid %d) has used %.0f %% of a core%s, for %s (threshold: %.0f %%)", s->comm,
		 (int)s->key.pid, s->cpu_percent, waited, checks_time(seconds, shown),
		 t->config->runaway_cpu_threshold);
}

void check_runaway(const struct tick *t, const struct track *p, const struct proc_sample *s,
		   struct finding *f)
{
	double duration = t->config->runaway_duration_seconds, seconds = t->now - p->busy;
	double circling = t->now - fmax(p->busy, p->worked);
	char usual[64];
	bool is_usual;

	if (!f64_known(s->cpu_percent))
		return;
	f->stand = STAND_CLEAR;
	f->value = p->wanted_percent;
	if (!f64_known(p->busy))
		return;
	is_usual = is_usual_work(p, seconds);
	f->stand = is_usual ? STAND_CLEAR : STAND_BETWEEN;
	if (circling < duration && seconds < LONG_FACTOR * duration)
		return;
	f->is_usual = is_usual;
	if (is_usual)
		return;
	f->stand = STAND_OVER;
	f->threshold = t->config->runaway_cpu_threshold;
	f->before = p->calm_percent;
	f->severity = judge_runaway(t, p, circling);
	describe_use(t, p, s, seconds, f);
	add_text(f, circling < duration ? "" : ", and has read, written and touched nothing new");
	add_text(f, usual_text(p->job, usual));
}

/* ---- stuck process ----
 *
 * One of:
 *  - in state D (waiting for the kernel) at every look for io_stall_duration_seconds, and not a
 *    byte has moved: medium, and high after ten times as long;
 *  - stopped (T) for stuck_duration_seconds: low;
 *  - no CPU and no byte for stuck_duration_seconds, without children that it could be waiting
 *    for, while most of those that are like it (same parent, same program) go on: low, medium
 *    after twice as long. A rank of a parallel sheet waits for nobody but the others: medium,
 *    high after twice as long.
 */
static void find_stuck(const struct tick *t, const struct track *p, const struct proc_sample *s,
		       double since, double duration, const char *what, struct finding *f)
{
	char shown[CHECKS_TIME_BYTES], limit[CHECKS_TIME_BYTES];

	f->value = t->now - since;
	f->threshold = duration;
	f->stand = f->value >= duration ? STAND_OVER : STAND_BETWEEN;
	snprintf(f->text, sizeof(f->text), "%s (pid %d) %s for %s (threshold: %s)", s->comm,
		 (int)p->key.pid, what, checks_time(f->value, shown), checks_time(duration, limit));
}

static void find_stopped_still(const struct tick *t, const struct track *p,
			       const struct proc_sample *s, struct finding *f)
{
	double duration = t->config->stuck_duration_seconds;
	bool is_rank = s->rank >= 0;

	if (t->now - p->progressed < duration || p->n_children > 0 ||
	    p->n_like_moving * 2 < p->n_like || p->n_like_moving == 0)
		return;
	find_stuck(t, p, s, p->progressed, duration,
		   "has used no CPU and moved no byte, while others like it go on,", f);
	f->severity = f->value >= 2 * duration ? SEVERITY_MEDIUM : SEVERITY_LOW;
	if (is_rank)
		f->severity++;
}

void check_stuck(const struct tick *t, const struct track *p, const struct proc_sample *s,
		 struct finding *f)
{
	double wait = t->config->io_stall_duration_seconds;

	if (s->state == '?' || s->state == 'Z' || s->state == 'X' ||
	    (s->state != 'T' && !u64_known(p->moved_bytes)))
		return; /* who cannot see bytes does not know that none has moved */
	f->stand = STAND_CLEAR;
	f->value = 0;
	if (s->state == 'D' && !p->moved_in_state) {
		find_stuck(t, p, s, p->in_state, wait, "waits for the kernel and moves no byte", f);
		f->severity = f->value >= LONG_FACTOR * wait ? SEVERITY_HIGH : SEVERITY_MEDIUM;
	} else if (s->state == 'T') {
		find_stuck(t, p, s, p->in_state, t->config->stuck_duration_seconds,
			   "has been stopped", f);
		f->severity = SEVERITY_LOW;
	} else if (u64_known(p->cpu_ns)) {
		find_stopped_still(t, p, s, f);
	}
}

/* ---- I/O stall of a process ----
 *
 * In state D at every look for io_stall_duration_seconds, though some bytes move: medium
 * after ten times as long, else low. (Where none moves it is stuck.)
 */
void check_io_wait(const struct tick *t, const struct track *p, const struct proc_sample *s,
		   struct finding *f)
{
	double wait = t->config->io_stall_duration_seconds;

	if (s->state == '?')
		return;
	f->stand = STAND_CLEAR;
	f->value = 0;
	if (s->state != 'D' || !p->moved_in_state)
		return;
	find_stuck(t, p, s, p->in_state, wait, "has done nothing but wait for I/O", f);
	f->severity = f->value >= LONG_FACTOR * wait ? SEVERITY_MEDIUM : SEVERITY_LOW;
}
