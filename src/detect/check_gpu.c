#include <math.h>
#include <stdio.h>

#include "base/unknown.h"
#include "detect/checks.h"

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
	f->before = t->gpu_percent;
	f->threshold = t->config->gpu_memory_percent;
	f->stand = percent < f->threshold * CLEAR_FACTOR ? STAND_CLEAR : STAND_BETWEEN;
	if (percent < f->threshold)
		return;
	f->stand = STAND_OVER;
	f->severity = percent >= 99 ? SEVERITY_MEDIUM : SEVERITY_LOW;
	snprintf(f->text, sizeof(f->text),
		 "GPU %d has %.0f of %.0f MB in use, %.0f %% (threshold: %.0f %%)", gpu->index,
		 gpu->memory_used_mb, gpu->memory_total_mb, percent, f->threshold);
}

/* ---- GPU held but idle ----
 *
 * A twentieth of its memory or more is in use, and it has done nothing (below 1 %, and no process
 * has a share of it) for gpu_idle_duration_seconds: low, medium after ten times as long.
 */
void check_gpu_idle(const struct tick *t, const struct gpu_sample *gpu, struct finding *f)
{
	char shown[CHECKS_TIME_BYTES], limit[CHECKS_TIME_BYTES];

	if (!f64_known(gpu->utilization_pct) || !f64_known(gpu->memory_used_mb))
		return;
	f->stand = STAND_CLEAR;
	f->value = 0;
	if (!f64_known(t->gpu_idle))
		return;
	f->value = t->now - t->gpu_idle;
	f->threshold = t->config->gpu_idle_duration_seconds;
	f->stand = f->value >= f->threshold ? STAND_OVER : STAND_BETWEEN;
	f->severity = f->value >= 10 * f->threshold ? SEVERITY_MEDIUM : SEVERITY_LOW;
	snprintf(f->text, sizeof(f->text),
		 "GPU %d has done nothing for %s (threshold: %s) while %.0f MB are held",
		 gpu->index, checks_time(f->value, shown), checks_time(f->threshold, limit),
		 gpu->memory_used_mb);
}

/* ---- GPU too hot ----
 *
 * It runs slower because of heat or its supply, or has gpu_temperature_c degrees: medium; high
 * when it is braked by heat or from 5 degrees more, critical from 10 degrees more.
 */
#define BRAKED_BY_HEAT (GPU_THROTTLE_THERMAL | GPU_THROTTLE_HARDWARE_THERMAL)
#define BRAKED_BY_SUPPLY GPU_THROTTLE_POWER_BRAKE

/* What a person or a setting wants is no fault. */
static uint64_t brakes_of(const struct gpu_sample *gpu)
{
	if (!u64_known(gpu->throttle))
		return 0;
	return gpu->throttle & (BRAKED_BY_HEAT | BRAKED_BY_SUPPLY);
}

static const char *braked_by(uint64_t brakes)
{
	if (brakes == 0)
		return "";
	return brakes & BRAKED_BY_HEAT ? "is braked by heat" : "is braked by its power supply";
}

void check_gpu_hot(const struct tick *t, const struct gpu_sample *gpu, struct finding *f)
{
	double over = gpu->temperature_c - t->config->gpu_temperature_c;
	uint64_t brakes = brakes_of(gpu);

	if (!f64_known(over) && !u64_known(gpu->throttle))
		return;
	f->value = gpu->temperature_c;
	f->before = t->gpu_celsius;
	f->threshold = t->config->gpu_temperature_c;
	f->stand = over >= -3 ? STAND_BETWEEN : STAND_CLEAR;
	if ((t->gpu_has_brakes && !u64_known(gpu->throttle)) ||
	    (t->gpu_has_celsius && !f64_known(over)))
		f->stand = STAND_UNKNOWN; /* it is lost, which is not the same as none */
	if (!brakes && !(over >= 0))
		return;
	f->stand = STAND_OVER;
	f->severity = over >= 10			       ? SEVERITY_CRITICAL
		      : over >= 5 || (brakes & BRAKED_BY_HEAT) ? SEVERITY_HIGH
							       : SEVERITY_MEDIUM;
	if (f64_known(over))
		snprintf(f->text, sizeof(f->text),
			 "GPU %d has %.0f degrees C (threshold: %.0f)%s%s", gpu->index,
			 gpu->temperature_c, f->threshold, brakes ? " and " : "",
			 braked_by(brakes));
	else
		snprintf(f->text, sizeof(f->text), "GPU %d %s", gpu->index, braked_by(brakes));
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
	snprintf(f->text, sizeof(f->text),
		 "GPU %d is lost: its driver does not reach it any more%s", gpu->index, xid);
}
