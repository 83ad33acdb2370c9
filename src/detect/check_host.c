#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "detect/checks.h"
#include "detect/host_past.h"

/* ---- memory pressure of the host ----
 *
 * Less than memory_pressure_percent of the memory is available; or less than half, and all tasks
 * together wait for memory in memory_pressure_stall_percent of the time (PSI full, of the last 10
 *s).
 *
 *	critical	a fifth of that is available, or four times as much waiting
 *	high		half of that, or twice as much waiting
 *	medium		otherwise
 *
 * It is over when a fifth more is available and half as much is waited.
 */
#define PLENTY_PERCENT 50
#define CLEAR_ABOVE 1.2
#define CLEAR_BELOW 0.5

/* Of a share of the time that tasks stall; unknown is none. */
static int stall_level(double stall, double limit)
{
	return stall >= 4 * limit ? 3 : stall >= 2 * limit ? 2 : stall >= limit ? 1 : 0;
}

static enum severity level_severity(int level)
{
	return level >= 3 ? SEVERITY_CRITICAL : level == 2 ? SEVERITY_HIGH : SEVERITY_MEDIUM;
}

static double available_percent(const struct system_sample *sys)
{
	return 100 * u64_to_mb(sys->memory_available_bytes) / u64_to_mb(sys->memory_total_bytes);
}

#define WAITING CHECKS_WAITING

/* Not how much is available, but how long everybody waits. */
static void take_stall(double stall, double limit, double before, struct finding *f)
{
	f->unit = WAITING;
	f->value = stall;
	f->threshold = limit;
	f->before = before;
}

/* Nobody knows it now, and somebody did before. */
static bool is_lost(double value, bool was_known)
{
	return was_known && !f64_known(value);
}

void check_host_memory(const struct tick *t, struct finding *f)
{
	const struct system_sample *sys = &t->snap->system;
	double limit = t->config->memory_pressure_percent, stall = sys->psi_memory.full.avg10;
	double stall_limit = t->config->memory_pressure_stall_percent;
	double percent = available_percent(sys);
	int level = percent < limit / 5 ? 3 : percent < limit / 2 ? 2 : percent < limit ? 1 : 0;
	int by_stall;

	if (!isfinite(percent))
		return;
	/* Who waits then waits at the limit of a cgroup: that is a finding about the cgroup. */
	if (percent >= PLENTY_PERCENT && f64_known(stall))
		stall = 0;
	by_stall = stall_level(stall, stall_limit);
	f->value = percent;
	f->threshold = limit;
	f->before = available_percent(&t->past->before);
	f->other_unit = WAITING;
	f->other_value = stall;
	f->stand = percent >= limit * CLEAR_ABOVE && !(stall > stall_limit * CLEAR_BELOW)
			   ? STAND_CLEAR
			   : STAND_BETWEEN;
	if (f->stand == STAND_CLEAR && is_lost(stall, t->past->has_psi_memory))
		f->stand = STAND_UNKNOWN;
	if (level == 0 && by_stall == 0)
		return;
	f->stand = STAND_OVER;
	f->severity = level_severity(level > by_stall ? level : by_stall);
	if (by_stall > level)
		take_stall(stall, stall_limit, t->past->before.psi_memory.full.avg10, f);
	finding_add(f, "%.1f %% of the host's memory (%.0f MB) is available (threshold: %.0f %%)",
		    percent, u64_to_mb(sys->memory_available_bytes),
		    t->config->memory_pressure_percent);
	if (f64_known(sys->psi_memory.full.avg10))
		finding_add(f,
			    "; everybody waited for memory in %.0f %% of the last 10 s (threshold: "
			    "%.0f %%)",
			    sys->psi_memory.full.avg10, t->config->memory_pressure_stall_percent);
}

/* ---- memory pressure of a cgroup ----
 *
 * Its tasks wait for memory in memory_pressure_stall_percent of the time (PSI full): medium, high
 * from twice, critical from four times that. To have memory_pressure_cgroup_percent of memory.high
 * or memory.max without waiting is low: what fills it may be page cache, which is given back when
 * asked for.
 */
#define CLEAR_SHARE 0.95 /* of the threshold */

static double share_of(uint64_t current, uint64_t limit)
{
	if (!u64_known(current) || !u64_known(limit) || limit == MEMORY_UNLIMITED || limit == 0)
		return F64_UNKNOWN;
	return (double)current / (double)limit;
}

void check_cgroup_memory(const struct tick *t, const struct cgroup_sample *c, struct finding *f)
{
	double limit = t->config->memory_pressure_stall_percent;
	double stall = c->psi_memory.full.avg10;
	double share = f64_max_known(share_of(c->memory_current_bytes, c->memory_high_bytes),
				     share_of(c->memory_current_bytes, c->memory_max_bytes));
	double full = t->config->memory_pressure_cgroup_percent;
	int level = stall_level(stall, limit);

	if (!f64_known(stall) && !f64_known(share))
		return;
	f->value = 100 * share;
	f->threshold = full;
	f->other_unit = WAITING;
	f->other_value = stall;
	f->stand = stall > limit * CLEAR_BELOW || f->value >= full * CLEAR_SHARE ? STAND_BETWEEN
										 : STAND_CLEAR;
	if (f->stand == STAND_CLEAR && is_lost(stall, t->cgroup && t->cgroup->has_psi))
		f->stand = STAND_UNKNOWN;
	if (level == 0 && !(f->value >= full))
		return;
	f->stand = STAND_OVER;
	f->severity = level == 0 ? SEVERITY_LOW : level_severity(level);
	if (level > 0)
		take_stall(stall, limit, t->cgroup ? t->cgroup->stall : F64_UNKNOWN, f);
	if (level == 0)
		finding_add(
			f,
			"the cgroup %.100s has %.0f MB, %.0f %% of what it may have (threshold: "
			"%.0f %%)",
			c->path, u64_to_mb(c->memory_current_bytes), f->value, f->threshold);
	else
		finding_add(
			f,
			"everybody in the cgroup %.100s waited for memory in %.0f %% of the last 10 s "
			"(threshold: %.0f %%)",
			c->path, stall, limit);
}

/* ---- I/O stall of the host ----
 *
 * All tasks together wait for I/O in io_stall_percent of the time (PSI full, of the last 10 s),
 * for io_stall_duration_seconds: low, medium after four times as long, high after twenty.
 */
void check_host_io(const struct tick *t, struct finding *f)
{
	double stall = t->snap->system.psi_io.full.avg10, duration;
	double wait = t->config->io_stall_duration_seconds;

	if (!f64_known(stall))
		return;
	f->value = stall;
	f->before = t->past->before.psi_io.full.avg10;
	f->threshold = t->config->io_stall_percent;
	f->stand = stall < f->threshold * CLEAR_BELOW ? STAND_CLEAR : STAND_BETWEEN;
	duration = t->now - t->past->io_stalled;
	if (!(duration >= wait))
		return;
	f->stand = STAND_OVER;
	f->severity = duration >= 20 * wait  ? SEVERITY_HIGH
		      : duration >= 4 * wait ? SEVERITY_MEDIUM
					     : SEVERITY_LOW;
	finding_add(
		f,
		"everybody waited for I/O in %.0f %% of the last 10 s (threshold: %.0f %%), and has "
		"for %s (threshold: %s)",
		stall, f->threshold, checks_time(duration).text, checks_time(wait).text);
}

/* ---- swap storm ----
 *
 * swap_storm_mb_per_second or more go in and out together for swap_storm_duration_seconds: medium,
 * high when all tasks wait for memory too (memory_pressure_stall_percent) or from four times that
 * rate, critical with both.
 */
void check_swap(const struct tick *t, struct finding *f)
{
	double rate = t->swap_rate, limit = t->config->swap_storm_mb_per_second;
	bool waits =
		t->snap->system.psi_memory.full.avg10 >= t->config->memory_pressure_stall_percent;
	bool is_strong = rate >= 4 * limit;

	if (!f64_known(rate))
		return;
	f->value = rate;
	f->before = t->past->calm_swap_rate;
	f->threshold = limit;
	f->stand = rate < limit * CLEAR_BELOW ? STAND_CLEAR : STAND_BETWEEN;
	if (rate < limit || !(t->now - t->past->swapping >= t->config->swap_storm_duration_seconds))
		return;
	f->stand = STAND_OVER;
	f->severity = waits && is_strong   ? SEVERITY_CRITICAL
		      : waits || is_strong ? SEVERITY_HIGH
					   : SEVERITY_MEDIUM;
	finding_add(f,
		    "%.0f MB a second are swapped in and out, for %s (threshold: %.0f MB a second)",
		    rate, checks_time(t->now - t->past->swapping).text, limit);
}

/* ---- OOM kill ----
 *
 * The kernel killed a process for want of memory: critical where it is one of a job, high where
 * the count of a cgroup of a job tells and the job has lost a process, medium where it has not, or
 * only the count of the host tells: it may have been anybody's. It lasts for a moment.
 */
static void find_kills(uint64_t n, double told, enum severity severity, const char *where,
		       const char *path, struct finding *f)
{
	double total = told + (double)n;

	if (!u64_known(n))
		return;
	f->stand = n > 0 ? STAND_OVER : STAND_CLEAR;
	f->value = n > 0 ? total : 0;
	f->threshold = 1;
	f->before = 0;
	f->n_times = n;
	f->severity = severity;
	finding_add(f, "the kernel has killed %.0f process%s of the %s%.100s for want of memory",
		    total, total == 1 ? "" : "es", where, path);
}

void check_host_oom(const struct tick *t, struct finding *f)
{
	find_kills(t->host_kills, t->host_kills_before, SEVERITY_MEDIUM, "host", "", f);
}

void check_cgroup_oom(const struct tick *t, const struct cgroup_sample *c, struct finding *f)
{
	find_kills(t->cgroup_kills, t->cgroup_kills_before,
		   t->cgroup_kills_are_of_job ? SEVERITY_HIGH : SEVERITY_MEDIUM, "cgroup ", c->path,
		   f);
}

void find_oom(const struct proc_event *ev, const struct track *victim, struct finding *f)
{
	const char *details = ev->details ? ev->details : "";
	const char *comm = victim ? victim->comm : ev->comm;
	const bool has_comm = comm[0] != '\0';
	char had[48] = "";

	if (strncmp(details, EVENT_OOM_WORDS, strlen(EVENT_OOM_WORDS)) == 0) {
		details += strlen(EVENT_OOM_WORDS); /* what happened is said already */
		if (details[0] == ':' && details[1] == ' ')
			details += 2;
	}
	f->stand = STAND_OVER;
	f->value = 1;
	f->threshold = 1;
	f->before = 0;
	f->severity = SEVERITY_CRITICAL;
	/* At any look (the last may have shown it dying), if the kernel does not say how much it
	 * was when it was killed. */
	if (victim && victim->most_mb >= 1 && strncmp(details, "it held ", 8) != 0)
		snprintf(had, sizeof(had), ", which had up to %.0f MB,", victim->most_mb);
	finding_add(f, "the kernel killed %s%spid %d%s%s for want of memory%s%.130s", comm,
		    has_comm ? " (" : "", (int)ev->key.pid, has_comm ? ")" : "", had,
		    details[0] ? ": " : "", details);
}

void find_more_kills(uint64_t n, const struct proc_event *ev, struct finding *f)
{
	f->stand = STAND_OVER;
	f->value = (double)n;
	f->threshold = 1;
	f->before = 0;
	f->severity = SEVERITY_CRITICAL;
	finding_add(
		f,
		"the kernel has killed %llu more process%s of the job for want of memory, pid %d last",
		(unsigned long long)n, n == 1 ? "" : "es", (int)ev->key.pid);
}

/* ---- GPUs ---- */

#define CLEAR_FACTOR 0.95

/* ---- GPU memory ----
 *
 * gpu_memory_percent or more is in use: low, for many programs take all there is at once;
 * medium from 99 %.
 */
void check_gpu_memory(const struct tick *t, const struct gpu_sample *gpu, struct finding *f)
{
	double percent = 100 * gpu->memory_used_mb / gpu->memory_total_mb;

	if (!isfinite(percent))
		return;
	f->value = percent;
	f->before = t->gpu.percent;
	f->threshold = t->config->gpu_memory_percent;
	f->stand = percent < f->threshold * CLEAR_FACTOR ? STAND_CLEAR : STAND_BETWEEN;
	if (percent < f->threshold)
		return;
	f->stand = STAND_OVER;
	f->severity = percent >= 99 ? SEVERITY_MEDIUM : SEVERITY_LOW;
	finding_add(f, "GPU %d has %.0f of %.0f MB in use, %.0f %% (threshold: %.0f %%)",
		    gpu->index, gpu->memory_used_mb, gpu->memory_total_mb, percent, f->threshold);
}

/* ---- GPU held but idle ----
 *
 * A twentieth of its memory or more is in use, and it has done nothing (below 1 %, and no process
 * has a share of it) for gpu_idle_duration_seconds: low, medium after ten times as long.
 */
void check_gpu_idle(const struct tick *t, const struct gpu_sample *gpu, struct finding *f)
{
	if (!f64_known(gpu->utilization_pct) || !f64_known(gpu->memory_used_mb))
		return;
	f->stand = STAND_CLEAR;
	f->value = 0;
	if (!f64_known(t->gpu.idle))
		return;
	f->value = t->now - t->gpu.idle;
	f->threshold = t->config->gpu_idle_duration_seconds;
	f->stand = f->value >= f->threshold ? STAND_OVER : STAND_BETWEEN;
	f->severity = f->value >= 10 * f->threshold ? SEVERITY_MEDIUM : SEVERITY_LOW;
	finding_add(f, "GPU %d has done nothing for %s (threshold: %s) while %.0f MB are held",
		    gpu->index, checks_time(f->value).text, checks_time(f->threshold).text,
		    gpu->memory_used_mb);
}

/* ---- GPU too hot ----
 *
 * It runs slower because of heat or its supply, or has gpu_temperature_c degrees: medium; high
 * when it is braked by heat or from 5 degrees more, critical from 10 degrees more.
 */
#define BRAKED_BY_HEAT (GPU_THROTTLE_THERMAL | GPU_THROTTLE_HARDWARE_THERMAL)
#define BRAKED_BY_SUPPLY GPU_THROTTLE_POWER_BRAKE

void check_gpu_hot(const struct tick *t, const struct gpu_sample *gpu, struct finding *f)
{
	double over = gpu->temperature_c - t->config->gpu_temperature_c;
	/* What a person or a setting wants is no fault. */
	uint64_t brakes =
		u64_known(gpu->throttle) ? gpu->throttle & (BRAKED_BY_HEAT | BRAKED_BY_SUPPLY) : 0;
	const char *by = brakes == 0		   ? ""
			 : brakes & BRAKED_BY_HEAT ? "is braked by heat"
						   : "is braked by its power supply";

	if (!f64_known(over) && !u64_known(gpu->throttle))
		return;
	f->value = gpu->temperature_c;
	f->before = t->gpu.celsius;
	f->threshold = t->config->gpu_temperature_c;
	f->stand = over >= -3 ? STAND_BETWEEN : STAND_CLEAR;
	if ((t->gpu.has_brakes && !u64_known(gpu->throttle)) ||
	    (t->gpu.has_celsius && !f64_known(over)))
		f->stand = STAND_UNKNOWN; /* it is lost, which is not the same as none */
	if (!brakes && !(over >= 0))
		return;
	f->stand = STAND_OVER;
	f->severity = over >= 10			       ? SEVERITY_CRITICAL
		      : over >= 5 || (brakes & BRAKED_BY_HEAT) ? SEVERITY_HIGH
							       : SEVERITY_MEDIUM;
	if (f64_known(over))
		finding_add(f, "GPU %d has %.0f degrees C (threshold: %.0f)%s%s", gpu->index,
			    gpu->temperature_c, f->threshold, brakes ? " and " : "", by);
	else
		finding_add(f, "GPU %d %s", gpu->index, by);
}

/* ---- GPU lost ----
 *
 * Its driver says that it has fallen off the bus, or does not know of it any more: high. One of
 * which nothing is known because its driver does not answer may be there.
 */
void check_gpu_lost(const struct tick *t, const struct gpu_sample *gpu, struct finding *f)
{
	char xid[48] = "";

	(void)t;
	f->value = gpu->is_lost;
	f->threshold = 1;
	if (f64_known(gpu->utilization_pct) || f64_known(gpu->memory_used_mb) ||
	    f64_known(gpu->temperature_c))
		f->stand = STAND_CLEAR;
	if (!gpu->is_lost)
		return;
	f->stand = STAND_OVER;
	f->severity = SEVERITY_HIGH;
	if (u64_known(gpu->last_xid))
		snprintf(xid, sizeof(xid), " (its last error was XID %llu)",
			 (unsigned long long)gpu->last_xid);
	finding_add(f, "GPU %d is lost: its driver does not reach it any more%s", gpu->index, xid);
}
