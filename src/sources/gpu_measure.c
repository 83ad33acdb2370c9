#include "base/clock.h"
#include "base/unknown.h"
#include "sources/gpu.h"
#include "sources/sources.h"

/* Who wants to know, and of which rung. */
struct measure {
	gpu_tell_fn *fn;
	void *ctx;
	const char *rung;
};

static void tell_cost(void *ctx, const char *question, uint64_t ns)
{
	const struct measure *m = ctx;

	m->fn(m->ctx, m->rung, question, ns);
}

static bool tells_something(const struct gpu_reading *r)
{
	for (uint32_t i = 0; i < r->n_devices; i++)
		if (f64_known(r->devices[i].utilization_pct) ||
		    f64_known(r->devices[i].memory_used_mb))
			return true;
	return false;
}

/* Whether anything was told. */
static bool read_once(const struct gpu_driver *driver, void *opened, const struct measure *m)
{
	static struct gpu_reading reading; /* too large for a stack */
	struct err err = ERR_INIT;
	uint64_t before = clock_boot_ns(), cost_ns;
	bool is_told;

	gpu_reading_init(&reading);
	if (driver->read(opened, &reading, &err) < 0) {
		m->fn(m->ctx, m->rung, err.text, U64_UNKNOWN);
		return false;
	}
	cost_ns = clock_boot_ns() - before;
	is_told = tells_something(&reading);
	m->fn(m->ctx, m->rung, is_told ? "a whole reading" : "it tells nothing of any GPU",
	      is_told ? cost_ns : U64_UNKNOWN);
	for (uint32_t i = 0; i < reading.n_devices; i++)
		m->fn(m->ctx, m->rung, reading.names[i], U64_UNKNOWN);
	if (reading.note[0])
		m->fn(m->ctx, m->rung, reading.note, U64_UNKNOWN);
	return is_told;
}

const char *gpus_driver_name(size_t i)
{
	return i < GPU_N_DRIVERS ? gpu_drivers[i]->name : NULL;
}

bool gpus_measure(int root_fd, size_t i, gpu_tell_fn *fn, void *ctx)
{
	const struct gpu_driver *driver = gpu_drivers[i];
	struct measure m = { fn, ctx, driver->name };
	struct err err = ERR_INIT;
	bool is_told;
	void *opened;

	gpu_leave_no_core();
	if (driver->open(root_fd, &opened, &err) < 0) {
		fn(ctx, driver->name, err.text, U64_UNKNOWN);
		return false;
	}
	is_told = read_once(driver, opened, &m);
	if (is_told && driver->measure)
		driver->measure(opened, tell_cost, &m);
	driver->close(opened);
	return is_told;
}
