#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/checks.h"

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

#define CHILDREN_BYTES 80

static void describe_zombies(const struct tick *t, uint64_t n, char text[CHILDREN_BYTES])
{
	char shown[CHECKS_TIME_BYTES];

	snprintf(text, CHILDREN_BYTES, "%llu %s that ended %s ago or earlier",
		 (unsigned long long)n, n == 1 ? "child" : "children",
		 checks_time(t->config->zombie_duration_seconds, shown));
}

void check_zombies(const struct tick *t, const struct track *p, const struct proc_sample *s,
		   struct finding *f)
{
	char children[CHILDREN_BYTES];

	find_zombies(p->n_zombies, p->n_zombies_before, f);
	if (f->stand != STAND_OVER)
		return;
	describe_zombies(t, p->n_zombies, children);
	snprintf(f->text, sizeof(f->text), "%s (pid %d) has not waited for %s", s->comm,
		 (int)s->key.pid, children);
}

void check_job_zombies(const struct tick *t, const struct job_track *job, struct finding *f)
{
	char children[CHILDREN_BYTES];

	find_zombies(job->n_zombies, job->n_zombies_before, f);
	if (f->stand != STAND_OVER)
		return;
	describe_zombies(t, job->n_zombies, children);
	snprintf(f->text, sizeof(f->text), "pid %d, which is not of the job, has not waited for %s",
		 (int)job->zombie_parent, children);
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

/* ", or all within 10 min": what was judged where the threshold is not reached. */
static void describe_fds(const struct config_anomaly *c, const struct proc_sample *s,
			 struct finding *f)
{
	char horizon[CHECKS_TIME_BYTES];
	bool is_by_trend = f->value < f->threshold;

	snprintf(f->text, sizeof(f->text),
		 "%s (pid %d) has %.0f of at most %.0f files open (threshold: %.0f%s%s)", s->comm,
		 (int)s->key.pid, f->value, (double)s->fd_limit, f->threshold,
		 is_by_trend ? ", or all within " : "",
		 is_by_trend ? checks_time(c->fd_exhaustion_horizon_seconds, horizon) : "");
}

/* ", 290 of them since 5 min ago; at this rate all are open in 40 s", unless all are already. */
static void add_trend(const struct fit *fit, double seconds, struct finding *f)
{
	char ago[CHECKS_TIME_BYTES], until[CHECKS_TIME_BYTES];
	size_t n = strlen(f->text);

	snprintf(f->text + n, sizeof(f->text) - n, ", %.0f of them since %s ago%s%s",
		 fit->last - fit->first, checks_time(fit->span, ago),
		 seconds > 0 ? "; at this rate all are open in " : "; there can be no more",
		 seconds > 0 ? checks_time(seconds, until) : "");
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
	describe_fds(c, s, f);
	if (f64_known(seconds))
		add_trend(&p->trail->fds_fit, seconds, f);
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
	char since[CHECKS_TIME_BYTES];

	if (!u64_known(s->threads))
		return;
	find_explosion((double)s->threads, two_ago_value(&p->threads),
		       (double)t->config->thread_explosion_threads, lasts, f);
	if (f->stand == STAND_OVER)
		snprintf(
			f->text, sizeof(f->text),
			"%s (pid %d) went from %.0f to %.0f threads within the last %s (threshold: %.0f)",
			s->comm, (int)s->key.pid, f->before, f->value,
			checks_time(two_ago_seconds(&p->threads, t->now - p->born), since),
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
	char since[CHECKS_TIME_BYTES], whose[64];

	find_explosion((double)job->n_processes, two_ago_value(&job->processes),
		       process_threshold(t, job, whose, sizeof(whose)), lasts, f);
	if (f->stand == STAND_OVER)
		snprintf(
			f->text, sizeof(f->text),
			"the job went from %.0f to %.0f processes within the last %s (threshold: %.0f%s)",
			f->before, f->value,
			checks_time(two_ago_seconds(&job->processes, t->now), since), f->threshold,
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
	char shown[CHECKS_TIME_BYTES], limit[CHECKS_TIME_BYTES];

	f->stand = STAND_CLEAR;
	if (!f64_known(p->without_job) || s->state == 'Z')
		return;
	f->value = t->now - p->without_job;
	f->threshold = t->config->orphan_duration_seconds;
	f->stand = f->value >= f->threshold ? STAND_OVER : STAND_BETWEEN;
	f->severity = s->cpu_percent >= ORPHAN_CPU_PERCENT || p->memory_mb >= ORPHAN_MB
			      ? SEVERITY_MEDIUM
			      : SEVERITY_LOW;
	snprintf(f->text, sizeof(f->text),
		 "%s (pid %d) is still there %s after its job (threshold: %s)", s->comm,
		 (int)s->key.pid, checks_time(f->value, shown), checks_time(f->threshold, limit));
}
