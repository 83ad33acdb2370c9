#include "recorder/cadence.h"

#include <math.h>

/* ---- on the same moments ---- */

uint64_t cadence_plan(struct cadence *c, double interval_seconds, uint64_t wall_ns,
		      uint64_t boot_ns)
{
	uint64_t wait_ns;

	c->step_ns = (uint64_t)(interval_seconds * 1e9);
	wait_ns = c->step_ns - wall_ns % c->step_ns;
	c->due_boot_ns = boot_ns + wait_ns;
	return wait_ns;
}

uint64_t cadence_lag(const struct cadence *c, uint64_t boot_ns)
{
	return c->due_boot_ns && boot_ns > c->due_boot_ns ? boot_ns - c->due_boot_ns : 0;
}

uint64_t cadence_missed(const struct cadence *before, const struct cadence *after)
{
	uint64_t step = before->step_ns, steps;

	if (!before->due_boot_ns || step == 0 || after->step_ns != step)
		return 0;
	/* Two clocks are read one after the other: a little less is a whole one. */
	steps = (after->due_boot_ns - before->due_boot_ns + step / 64) / step;
	return steps > 1 ? steps - 1 : 0;
}

uint64_t cadence_rest_ms(uint64_t distance_ms, uint64_t took_ms, uint64_t least_ms)
{
	if (distance_ms <= least_ms)
		return distance_ms;
	return distance_ms - least_ms > took_ms ? distance_ms - took_ms : least_ms;
}

/* ---- closer for a while ---- */

#define MINUTE_NS UINT64_C(60000000000)
#define COST_LIMIT 50 /* so many times what a look costs lie between two of them */

bool closer_is_on(const struct closer *c, uint64_t now_boot_ns)
{
	return now_boot_ns < c->until_boot_ns;
}

bool closer_begin(struct closer *c, const struct config_anomaly *config, int64_t attempt_id,
		  uint64_t now_boot_ns)
{
	if (!(config->evidence_duration_seconds > 0))
		return false;
	if (closer_is_on(c, now_boot_ns))
		return c->attempt_id == attempt_id;
	if (c->minute_boot_ns == 0 || now_boot_ns - c->minute_boot_ns >= MINUTE_NS) {
		c->minute_boot_ns = now_boot_ns;
		c->n_in_minute = 0;
	}
	if (c->n_in_minute == CLOSER_PER_MINUTE)
		return false;
	c->n_in_minute++;
	c->attempt_id = attempt_id;
	c->interval_seconds = config->evidence_interval_seconds;
	c->until_boot_ns = now_boot_ns + (uint64_t)(config->evidence_duration_seconds * 1e9);
	return true;
}

uint64_t closer_wait_ms(const struct closer *c, uint64_t cost_ns)
{
	uint64_t wanted_ms = (uint64_t)ceil(c->interval_seconds * 1000);
	uint64_t afford_ms =
		cost_ns / 1000000u * COST_LIMIT + cost_ns % 1000000u * COST_LIMIT / 1000000u;

	return wanted_ms > afford_ms ? wanted_ms : afford_ms;
}
