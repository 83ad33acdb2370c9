#include "recorder/cadence.h"

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
