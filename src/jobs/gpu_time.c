#include "jobs/gpu_time.h"

#include "base/unknown.h"

#define FIRST_READING_NS UINT64_C(2500000000) /* it comes by then, unless something is wrong */

/* What had to wait for the first reading. */
static uint64_t take_beginning_ns(struct gpu_time *t)
{
	uint64_t untold_ns = t->blind_ns[0];

	if (t->seen_ns[0] > 0 || untold_ns > FIRST_READING_NS)
		return 0;
	t->blind_ns[0] = t->blind_ns[1] = 0;
	return untold_ns;
}

struct gpu_use gpu_use_of(const struct proc_sample *p)
{
	struct gpu_use use = { .held_bytes = p->gpu_memory_bytes,
			       .percent = p->gpu_percent,
			       .idle_devices = p->gpu_idle_devices };

	if (f64_known(use.idle_devices))
		return use;
	if (use.held_bytes == 0)
		use.idle_devices = 0;
	else if (u64_known(use.held_bytes) && f64_known(use.percent))
		use.idle_devices = use.percent == 0.0;
	return use;
}

void gpu_time_add(struct gpu_time *t, const struct gpu_use *use, uint64_t since_ns)
{
	bool is_held = u64_known(use->held_bytes) && use->held_bytes > 0;
	uint64_t *spent = f64_known(use->percent) ? t->seen_ns : t->blind_ns;

	if (!u64_known(since_ns))
		return;
	if (f64_known(use->percent))
		since_ns += take_beginning_ns(t);
	spent[0] += since_ns;
	if (is_held)
		spent[1] += since_ns;
	if (!f64_known(use->percent))
		return;
	t->busy_ns += (uint64_t)((double)since_ns * use->percent / 100.0);
	if (f64_known(use->idle_devices))
		t->idle_ns += (uint64_t)((double)since_ns * use->idle_devices);
	if (!f64_known(use->idle_devices) || use->idle_is_least)
		t->idle_untold_ns += since_ns;
}

static bool was_told(const struct gpu_time *t)
{
	return t->seen_ns[0] > 0 && t->seen_ns[0] >= t->blind_ns[0] &&
	       t->seen_ns[1] >= t->blind_ns[1];
}

uint64_t gpu_time_busy_ns(const struct gpu_time *t)
{
	return was_told(t) ? t->busy_ns : U64_UNKNOWN;
}

uint64_t gpu_time_idle_ns(const struct gpu_time *t)
{
	return was_told(t) && t->seen_ns[1] >= t->idle_untold_ns ? t->idle_ns : U64_UNKNOWN;
}

uint64_t gpu_time_idle_untold_ns(const struct gpu_time *t)
{
	return t->idle_untold_ns;
}

uint64_t gpu_time_untold_ns(const struct gpu_time *t)
{
	return t->blind_ns[0];
}
