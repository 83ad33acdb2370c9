#include "daemon/cadence.h"

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

uint64_t cadence_skipped(const struct cadence *c, uint64_t boot_ns)
{
	return c->step_ns ? cadence_lag(c, boot_ns) / c->step_ns : 0;
}
