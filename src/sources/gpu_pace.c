#include <stdio.h>
#include <string.h>

#include "sources/gpu.h"

void gpu_pace_add(struct gpu_pace *p, uint64_t asked_boot_ns)
{
	uint64_t gap_ns = asked_boot_ns - p->last_boot_ns;

	if (p->n > 0 && asked_boot_ns <= p->last_boot_ns)
		return;
	if (p->n == 1 || (p->n > 1 && gap_ns < p->min_ns))
		p->min_ns = gap_ns;
	if (p->n > 0 && gap_ns > p->max_ns)
		p->max_ns = gap_ns;
	p->last_boot_ns = asked_boot_ns;
	p->n++;
}

static void tell_gap(uint64_t ns, char ret[32])
{
	double seconds = (double)ns / 1e9;

	snprintf(ret, 32, "%.*f s", seconds < 10 ? 2 : 1, seconds);
}

bool gpu_pace_tell(const struct gpu_pace *p, char *ret, size_t size)
{
	char min[32], max[32];

	tell_gap(p->min_ns, min);
	tell_gap(p->max_ns, max);
	if (p->n == 1)
		snprintf(ret, size, "one alone");
	else if (strcmp(min, max) == 0)
		snprintf(ret, size, "%s apart", max);
	else
		snprintf(ret, size, "%s to %s apart", min, max);
	return p->n > 0;
}
