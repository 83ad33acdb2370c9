#include "base/clock.h"
#include "base/macros.h"
#include "sources/gpu_nvml.h"

static void ask_utilization(struct nvml *n, struct nvml_gpu *d)
{
	struct nvml_utilization use;

	if (n->call.utilization)
		n->call.utilization(d->handle, &use);
}

static void ask_memory(struct nvml *n, struct nvml_gpu *d)
{
	struct gpu_sample s;

	nvml_read_memory(n, d, &s);
}

static void ask_state(struct nvml *n, struct nvml_gpu *d)
{
	struct gpu_sample s;

	nvml_read_state(n, d, &s);
}

static void ask_processes(struct nvml *n, struct nvml_gpu *d)
{
	struct nvml_process_v3 list[64];
	unsigned count = ARRAY_SIZE(list);

	if (n->call.compute_processes)
		n->call.compute_processes(d->handle, &count, list);
}

static void ask_shares(struct nvml *n, struct nvml_gpu *d)
{
	nvml_ask_shares(n, d, clock_boot_ns());
}

static void ask_energy(struct nvml *n, struct nvml_gpu *d)
{
	d->energy_boot_ns = 0;
	nvml_read_energy(n, d, clock_boot_ns());
}

static const struct {
	const char *name;
	void (*ask)(struct nvml *n, struct nvml_gpu *d);
} questions[] = {
	{ "utilisation", ask_utilization },
	{ "memory", ask_memory },
	{ "temperature, clock, throttling, ECC, power", ask_state },
	{ "processes", ask_processes },
	{ "share of each process", ask_shares },
	{ "energy", ask_energy },
};

/* The second of two, for the first may open something. */
void nvml_measure(void *driver, gpu_cost_fn *fn, void *ctx)
{
	struct nvml *n = driver;
	unsigned d = 0;

	while (d < n->n_devices && !n->devices[d].handle)
		d++;
	for (size_t i = 0; d < n->n_devices && i < ARRAY_SIZE(questions); i++) {
		uint64_t before;

		questions[i].ask(n, &n->devices[d]);
		before = clock_boot_ns();
		questions[i].ask(n, &n->devices[d]);
		fn(ctx, questions[i].name, clock_boot_ns() - before);
	}
}
