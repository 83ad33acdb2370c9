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

static void read_once(const struct gpu_driver *driver, void *opened, const struct measure *m)
{
	static struct gpu_reading reading; /* too large for a stack */
	struct err err = ERR_INIT;
	uint64_t before = clock_boot_ns();

	gpu_reading_init(&reading);
	if (driver->read(opened, &reading, &err) < 0) {
		m->fn(m->ctx, m->rung, err.text, U64_UNKNOWN);
		return;
	}
	m->fn(m->ctx, m->rung, "a whole reading", clock_boot_ns() - before);
	for (uint32_t i = 0; i < reading.n_devices; i++)
		m->fn(m->ctx, m->rung, reading.names[i], U64_UNKNOWN);
	if (reading.note[0])
		m->fn(m->ctx, m->rung, reading.note, U64_UNKNOWN);
}

size_t gpus_measure(int root_fd, gpu_tell_fn *fn, void *ctx)
{
	size_t n_open = 0;

	for (size_t i = 0; i < gpu_n_drivers; i++) {
		const struct gpu_driver *driver = gpu_drivers[i];
		struct measure m = { fn, ctx, driver->name };
		struct err err = ERR_INIT;
		void *opened;

		if (driver->open(root_fd, &opened, &err) < 0) {
			fn(ctx, driver->name, err.text, U64_UNKNOWN);
			continue;
		}
		n_open++;
		read_once(driver, opened, &m);
		if (driver->measure)
			driver->measure(opened, tell_cost, &m);
		driver->close(opened);
	}
	return n_open;
}
