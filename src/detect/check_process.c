#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/checks.h"

/* ---- runaway process ----
 *
 * runaway_cpu_threshold or more of a core for runaway_duration_seconds, at every look or on
 *average, and without a sign of work: it read, wrote and touched no new memory to speak of all that
 *time. What it waited for a core that others had counts as used, if it got a tenth of one. With
 *such signs it is only told after ten times as long. Where half of those that are like it (same
 *parent, same program) are as busy, it works as they do. A job that uses no more CPU than those of
 *its kind usually do (a quarter more is allowed) works as it should, on however many cores, unless
 *the process has been busy for twice as long as such a job takes, or has used twice the CPU time
 *meanwhile that such a job uses in all: one that was busy for a moment does not make it usual for
 *long.
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

	return job->cpu_percent <= USUAL_FACTOR * job->usual.cpu_percent &&
	       !(busy_seconds > UNUSUAL_FACTOR * job->usual.wall_seconds) &&
	       !(used_seconds > UNUSUAL_FACTOR * job->usual.cpu_seconds);
}

/* Those like it, itself among them; none where nobody asked. */
static struct kin kin_of(const struct tick *t, const struct track *p)
{
	return p->kin >= 0 ? t->relations->kin[p->kin] : (struct kin){ 0 };
}

void check_runaway(const struct tick *t, const struct track *p, const struct proc_sample *s,
		   struct finding *f)
{
	double duration = t->config->runaway_duration_seconds, seconds = t->now - p->busy;
	double circling = t->now - fmax(p->busy, p->worked);
	const struct kin kin = kin_of(t, p);
	bool is_usual;
	char waited[64] = "";

	if (!f64_known(s->cpu_percent))
		return;
	f->stand = STAND_CLEAR;
	f->value = p->wanted_percent;
	if (!f64_known(p->busy))
		return;
	/* Half of the others: it is busy itself, as all are that are judged. */
	is_usual = is_usual_work(p, seconds) ||
		   (seconds >= duration && kin.n_all > 1 && 2 * kin.n_busy > kin.n_all);
	f->stand = is_usual ? STAND_CLEAR : STAND_BETWEEN;
	if (circling < duration && seconds < LONG_FACTOR * duration)
		return;
	f->is_usual = is_usual;
	if (is_usual)
		return;
	f->stand = STAND_OVER;
	f->threshold = t->config->runaway_cpu_threshold;
	f->before = p->calm_percent;
	f->severity = p->job->cpu_percent >= UNUSUAL_FACTOR * p->job->usual.cpu_percent
			      ? SEVERITY_HIGH
		      : circling >= LONG_FACTOR * duration ? SEVERITY_MEDIUM
							   : SEVERITY_LOW;
	/* What it waited for a core is told where that makes the difference. */
	if (s->cpu_percent < t->config->runaway_cpu_threshold) {
		/* Each thread waits for itself, so of several it may be more than all of the time.
		 */
		double percent = p->wanted_percent - s->cpu_percent;

		if (s->threads == 1)
			snprintf(waited, 64, " and waited for one in %.0f %% of the time",
				 fmin(percent, 100));
		else
			snprintf(waited, 64,
				 " and its threads waited for one, %.1f s in a second together",
				 percent / 100);
	}
	finding_add(f, "%s (pid %d) has used %.0f %% of a core%s, for %s (threshold: %.0f %%)",
		    s->comm, (int)s->key.pid, s->cpu_percent, waited, checks_time(seconds).text,
		    t->config->runaway_cpu_threshold);
	if (circling >= duration)
		finding_add(f, ", and has read, written and touched nothing new");
	if (f64_known(p->job->usual.cpu_percent))
		finding_add(f, "; jobs of its kind use %.0f %% at most", p->job->usual.cpu_percent);
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
	f->value = t->now - since;
	f->threshold = duration;
	f->stand = f->value >= duration ? STAND_OVER : STAND_BETWEEN;
	finding_add(f, "%s (pid %d) %s for %s (threshold: %s)", s->comm, (int)p->key.pid, what,
		    checks_time(f->value).text, checks_time(duration).text);
}

void check_stuck(const struct tick *t, const struct track *p, const struct proc_sample *s,
		 struct finding *f)
{
	double wait = t->config->io_stall_duration_seconds;
	double duration = t->config->stuck_duration_seconds;
	const struct kin kin = kin_of(t, p);

	if (s->state == '?' || s->state == 'Z' || s->state == 'X' ||
	    (s->state != 'T' && !u64_known(p->moved_bytes)))
		return; /* who cannot see bytes does not know that none has moved */
	f->stand = STAND_CLEAR;
	f->value = 0;
	if (s->state == 'D' && !p->moved_in_state) {
		find_stuck(t, p, s, p->in_state, wait, "waits for the kernel and moves no byte", f);
		f->severity = f->value >= LONG_FACTOR * wait ? SEVERITY_HIGH : SEVERITY_MEDIUM;
	} else if (s->state == 'T') {
		find_stuck(t, p, s, p->in_state, duration, "has been stopped", f);
		f->severity = SEVERITY_LOW;
	} else if (u64_known(p->cpu_ns) && t->now - p->progressed >= duration &&
		   p->n_children == 0 && kin.n_moving > 0 &&
		   kin.n_moving * 2 >= kin.n - 1) { /* of the others: it does not move */
		find_stuck(t, p, s, p->progressed, duration,
			   "has used no CPU and moved no byte, while others like it go on,", f);
		f->severity = f->value >= 2 * duration ? SEVERITY_MEDIUM : SEVERITY_LOW;
		if (s->rank >= 0)
			f->severity++;
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

/* ---- zombies ----
 *
 * Children that ended zombie_duration_seconds ago or earlier and that their parent has not
 * waited for. The parent is to blame. Each keeps a pid: low, medium from 10, high
 * from 100, critical from 1,000.
 */
static void find_zombies(uint64_t n, uint64_t before, struct finding *f)
{
	f->value = (double)n;
	f->before = u64_known(before) ? (double)before : F64_UNKNOWN;
	f->threshold = 1;
	f->stand = n > 0 ? STAND_OVER : STAND_CLEAR;
	f->severity = n >= 1000	 ? SEVERITY_CRITICAL
		      : n >= 100 ? SEVERITY_HIGH
		      : n >= 10	 ? SEVERITY_MEDIUM
				 : SEVERITY_LOW;
}

static void add_zombies(const struct tick *t, uint64_t n, struct finding *f)
{
	finding_add(f, " has not waited for %llu %s that ended %s ago or earlier",
		    (unsigned long long)n, n == 1 ? "child" : "children",
		    checks_time(t->config->zombie_duration_seconds).text);
}

void check_zombies(const struct tick *t, const struct track *p, const struct proc_sample *s,
		   struct finding *f)
{
	find_zombies(p->n_zombies, p->n_zombies_before, f);
	if (f->stand != STAND_OVER)
		return;
	finding_add(f, "%s (pid %d)", s->comm, (int)s->key.pid);
	add_zombies(t, p->n_zombies, f);
}

void check_job_zombies(const struct tick *t, const struct job_track *job, struct finding *f)
{
	find_zombies(job->n_zombies, job->n_zombies_before, f);
	if (f->stand != STAND_OVER)
		return;
	finding_add(f, "pid %d, which is not of the job,", (int)job->zombie_parent);
	add_zombies(t, job->n_zombies, f);
}

/* ---- open files ----
 *
 * fd_exhaustion_percent of the process's own limit (RLIMIT_NOFILE) are open, or at the rate at
 * which they grow (steadily, and a tenth of the limit is open) all will be within
 * fd_exhaustion_horizon_seconds.
 *
 *	critical	98 % are open
 *	high		fd_exhaustion_percent are open, or all within a fifth of the horizon and
 *			half are, or it has gone on for half the horizon: what opens its files
 *			when it begins grows steadily, too, and is not told at more than
 *	medium		all within the horizon
 */
#define FD_CRITICAL 0.98
#define FD_TREND_SHARE 0.1
#define FD_TREND_R2 0.9
#define FD_TREND_POINTS 6    /* of 32 in half the horizon */
#define FD_SURE_OPEN 0.5     /* of the limit… */
#define FD_SURE_HORIZON 0.45 /* …or so long: half, less the part that is not over */
#define FD_CLEAR 0.9	     /* of the threshold */

/* NaN: they do not grow steadily. */
static double seconds_to_full(const struct track *p, double open, double limit)
{
	const struct fit *fit = p->trail ? &p->trail->fds_fit : NULL;

	if (!fit || fit->n < FD_TREND_POINTS || fit->r2 < FD_TREND_R2 || fit->slope <= 0 ||
	    fit->largest_drop > 0 || open < FD_TREND_SHARE * limit)
		return F64_UNKNOWN;
	return fmax(0, limit - open) / fit->slope; /* some may be from before the limit */
}

static enum severity judge_fds(const struct config_anomaly *c, const struct track *p, double share,
			       double seconds)
{
	double horizon = c->fd_exhaustion_horizon_seconds;

	if (share >= FD_CRITICAL)
		return SEVERITY_CRITICAL;
	if (share * 100 >= c->fd_exhaustion_percent)
		return SEVERITY_HIGH;
	if (seconds <= horizon / 5 &&
	    (share >= FD_SURE_OPEN || p->trail->fds_fit.span >= FD_SURE_HORIZON * horizon))
		return SEVERITY_HIGH;
	return SEVERITY_MEDIUM;
}

void check_fds(const struct tick *t, const struct track *p, const struct proc_sample *s,
	       struct finding *f)
{
	const struct config_anomaly *c = t->config;
	double open = (double)s->open_fds, limit = (double)s->fd_limit, seconds;

	if (!u64_known(s->open_fds) || !u64_known(s->fd_limit) ||
	    s->fd_limit == FD_LIMIT_UNLIMITED || s->fd_limit == 0)
		return;
	seconds = seconds_to_full(p, open, limit);
	f->value = open;
	f->threshold = limit * c->fd_exhaustion_percent / 100;
	f->stand = open < f->threshold * FD_CLEAR ? STAND_CLEAR : STAND_BETWEEN;
	if (open < f->threshold && !(seconds <= c->fd_exhaustion_horizon_seconds))
		return;
	f->stand = STAND_OVER;
	f->seconds_to_limit = seconds;
	f->before = p->trail && p->trail->fds_fit.n ? p->trail->fds_fit.first : F64_UNKNOWN;
	f->severity = judge_fds(c, p, open / limit, seconds);
	finding_add(f, "%s (pid %d) has %.0f of at most %.0f files open (threshold: %.0f", s->comm,
		    (int)s->key.pid, f->value, (double)s->fd_limit, f->threshold);
	if (f->value < f->threshold) /* what was judged then */
		finding_add(f, ", or all within %s",
			    checks_time(c->fd_exhaustion_horizon_seconds).text);
	finding_add(f, ")");
	if (!f64_known(seconds))
		return;
	finding_add(f, ", %.0f of them since %s ago",
		    p->trail->fds_fit.last - p->trail->fds_fit.first,
		    checks_time(p->trail->fds_fit.span).text);
	if (seconds > 0)
		finding_add(f, "; at this rate all are open in %s", checks_time(seconds).text);
	else
		finding_add(f, "; there can be no more");
}

/* ---- threads, and processes of a job ----
 *
 * As many as the threshold, and four times as many as one or two windows
 * (memory_spike_window_seconds) ago: medium, high from four times the threshold, critical
 * from sixteen times. It is over when they are fewer than three quarters of the threshold.
 * Many that are always there are how it works. Of a job whose user may have fewer processes
 * (RLIMIT_NPROC, the least that at least half of them have), or for which there is less room in its
 * cgroup (pids.max, if the job has half of the threads there), it is nine tenths of these: the
 * limit stops it before.
 */
#define EXPLOSION_FACTOR 4
#define LIMIT_SHARE 0.9
#define FEW_ENOUGH 0.75

/* Of what lasts nothing new is said where nobody knows what was before. */
static void find_explosion(double n, double before, double limit, bool lasts, struct finding *f)
{
	f->value = n;
	f->threshold = limit;
	f->before = before;
	f->stand = n < FEW_ENOUGH * limit ? STAND_CLEAR : STAND_BETWEEN;
	if (n >= limit && f64_known(before) && (lasts || n >= EXPLOSION_FACTOR * before))
		f->stand = STAND_OVER;
	f->severity = n >= 16 * limit  ? SEVERITY_CRITICAL
		      : n >= 4 * limit ? SEVERITY_HIGH
				       : SEVERITY_MEDIUM;
}

void check_threads(const struct tick *t, const struct track *p, const struct proc_sample *s,
		   struct finding *f)
{
	bool lasts = p->active & 1u << ANOMALY_THREAD_EXPLOSION;

	if (!u64_known(s->threads))
		return;
	find_explosion((double)s->threads, two_ago_value(&p->threads),
		       (double)t->config->thread_explosion_threads, lasts, f);
	if (f->stand == STAND_OVER)
		finding_add(
			f,
			"%s (pid %d) went from %.0f to %.0f threads within the last %s (threshold: %.0f)",
			s->comm, (int)s->key.pid, f->before, f->value,
			checks_time(two_ago_seconds(&p->threads, t->now - p->born)).text,
			f->threshold);
}

/* ret_whose: ", as its user may have 30", or "" where nothing stops it. */
static double process_threshold(const struct tick *t, const struct job_track *job, char *ret_whose,
				size_t size)
{
	double most = (double)t->config->process_explosion_processes;
	/* a program that allows itself none, and a few such among others, stop nobody else */
	uint64_t of_user = limits_of_half(&job->user_limits, job->n_processes);
	bool is_cgroup = job->cgroup_limit < of_user; /* unknown is the largest */
	uint64_t limit = is_cgroup ? job->cgroup_limit : of_user;

	ret_whose[0] = '\0';
	if (!u64_known(limit) || ceil(LIMIT_SHARE * (double)limit) >= most)
		return most;
	snprintf(ret_whose, size,
		 is_cgroup ? ", as its cgroup has room for %llu" : ", as its user may have %llu",
		 (unsigned long long)limit);
	return ceil(LIMIT_SHARE * (double)limit);
}

void check_processes(const struct tick *t, const struct job_track *job, struct finding *f)
{
	bool lasts = job->active & 1u << ANOMALY_PROCESS_EXPLOSION;
	char whose[64];

	find_explosion((double)job->n_processes, two_ago_value(&job->processes),
		       process_threshold(t, job, whose, sizeof(whose)), lasts, f);
	if (f->stand == STAND_OVER)
		finding_add(
			f,
			"the job went from %.0f to %.0f processes within the last %s (threshold: %.0f%s)",
			f->before, f->value,
			checks_time(two_ago_seconds(&job->processes, t->now)).text, f->threshold,
			whose);
}

/* ---- orphans ----
 *
 * A process of a job that has been over for orphan_duration_seconds: low, medium while it uses a
 * tenth of a core or 64 MB.
 */
#define ORPHAN_CPU_PERCENT 10
#define ORPHAN_MB 64

void check_orphan(const struct tick *t, const struct track *p, const struct proc_sample *s,
		  struct finding *f)
{
	f->stand = STAND_CLEAR;
	if (!f64_known(p->without_job) || s->state == 'Z')
		return;
	f->value = t->now - p->without_job;
	f->threshold = t->config->orphan_duration_seconds;
	f->stand = f->value >= f->threshold ? STAND_OVER : STAND_BETWEEN;
	f->severity = s->cpu_percent >= ORPHAN_CPU_PERCENT || p->memory_mb >= ORPHAN_MB
			      ? SEVERITY_MEDIUM
			      : SEVERITY_LOW;
	finding_add(f, "%s (pid %d) is still there %s after its job (threshold: %s)", s->comm,
		    (int)s->key.pid, checks_time(f->value).text, checks_time(f->threshold).text);
}
