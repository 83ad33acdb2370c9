#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu_nvml.h"

#define N_ASKED 3
#define PAUSE_US 50000

/* Each says whether it was answered. */

static bool ask_utilization(struct nvml *n, struct nvml_gpu *d)
{
	struct nvml_utilization use;

	return n->call.utilization && n->call.utilization(d->handle, &use) == NVML_OK;
}

static bool ask_memory(struct nvml *n, struct nvml_gpu *d)
{
	struct gpu_sample s;

	gpu_sample_init(&s);
	nvml_read_memory(n, d, &s);
	return f64_known(s.memory_used_mb);
}

static bool ask_state(struct nvml *n, struct nvml_gpu *d)
{
	struct gpu_sample s;

	gpu_sample_init(&s);
	nvml_read_state(n, d, &s);
	return f64_known(s.temperature_c) || f64_known(s.sm_clock_mhz) || f64_known(s.power_watts);
}

static bool ask_processes(struct nvml *n, struct nvml_gpu *d)
{
	unsigned count = GPU_MAX_PROCESSES;

	return n->call.compute_processes &&
	       n->call.compute_processes(d->handle, &count, n->list) == NVML_OK;
}

static bool ask_shares(struct nvml *n, struct nvml_gpu *d)
{
	nvml_ask_shares(n, d, F64_UNKNOWN, 0, clock_boot_ns());
	return d->shares_known;
}

static bool ask_energy(struct nvml *n, struct nvml_gpu *d)
{
	d->energy_boot_ns = 0;
	nvml_read_energy(n, d, clock_boot_ns());
	return u64_known(d->energy_mj);
}

static const struct {
	const char *name;
	bool (*ask)(struct nvml *n, struct nvml_gpu *d);
	const char *silence;
} questions[] = {
	{ "utilisation", ask_utilization, "utilisation is not told" },
	{ "memory", ask_memory, "memory is not told" },
	{ "temperature, clock, throttling, ECC, power", ask_state,
	  "temperature, clock and power are not told" },
	{ "processes", ask_processes, "processes are not told" },
	{ "share of each process", ask_shares, "the share of each process is not told" },
	{ "energy", ask_energy, "energy is not told" },
};

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * The median of some, each after a pause: asked twice in a row, the second is answered from what is
 * still at hand, which costs a tenth. The first may open something.
 */
static uint64_t cost_of(struct nvml *n, struct nvml_gpu *d, size_t i)
{
	uint64_t ns[N_ASKED];

	questions[i].ask(n, d);
	for (size_t k = 0; k < N_ASKED; k++) {
		uint64_t before;

		usleep(PAUSE_US);
		before = clock_boot_ns();
		ns[k] = questions[i].ask(n, d) ? clock_boot_ns() - before : U64_UNKNOWN;
	}
	qsort(ns, N_ASKED, sizeof(ns[0]), compare_ns);
	return ns[N_ASKED / 2];
}

static void tell_denied(const struct nvml *n, gpu_cost_fn *fn, void *ctx)
{
	char text[64];

	if (n->n_denied == 0)
		return;
	snprintf(text, sizeof(text), "%u more %s not for this user", n->n_denied,
		 n->n_denied == 1 ? "is" : "are");
	fn(ctx, text, U64_UNKNOWN);
}

/* Of the first that can be asked. */
void nvml_measure(void *driver, gpu_cost_fn *fn, void *ctx)
{
	struct nvml *n = driver;
	unsigned d = 0;

	tell_denied(n, fn, ctx);
	while (d < n->n_devices && !n->devices[d].handle)
		d++;
	for (size_t i = 0; d < n->n_devices && i < ARRAY_SIZE(questions); i++) {
		uint64_t ns = cost_of(n, &n->devices[d], i);

		fn(ctx, u64_known(ns) ? questions[i].name : questions[i].silence, ns);
	}
}
