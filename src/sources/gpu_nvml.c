/*
 * gpu_nvml - NVIDIA's management library, if this host has it.
 *
 * What a question costs differs a hundredfold: utilisation some 10 us, memory and the list of
 * processes some 100 each, but the share of each process 1,400 to 2,800 and the energy 2,900 to
 * 5,500 (docs/gpu.md). The dear ones are asked every few seconds and their last answer stands in
 * between.
 */
#include "sources/gpu_nvml.h"

#include "base/clock.h"
#include "base/unknown.h"

#define ENERGY_EVERY_NS UINT64_C(30000000000)
#define LOST_ANEW_NS UINT64_C(60000000000) /* a lost GPU comes back to a new session only */
#define ALL_LOST_ANEW_NS UINT64_C(10000000000)

/* ---- one device ---- */

static double ask_unsigned(int (*fn)(nvml_device, unsigned *), nvml_device handle, double scale)
{
	unsigned value;

	return fn && fn(handle, &value) == NVML_OK ? (double)value / scale : F64_UNKNOWN;
}

/* What older libraries tell counts as used what the driver keeps for itself. */
static void read_memory_v1(const struct nvml *n, const struct nvml_gpu *d, struct gpu_sample *s)
{
	struct nvml_memory_v1 memory;

	if (!n->call.memory_v1 || n->call.memory_v1(d->handle, &memory) != NVML_OK)
		return;
	s->memory_used_mb = (double)memory.used / (1 << 20);
	s->memory_total_mb = (double)memory.total / (1 << 20);
}

void nvml_read_memory(const struct nvml *n, const struct nvml_gpu *d, struct gpu_sample *s)
{
	struct nvml_memory_v2 memory = { .version = NVML_MEMORY_V2_VERSION };

	if (!n->call.memory || n->call.memory(d->handle, &memory) != NVML_OK) {
		read_memory_v1(n, d, s);
		return;
	}
	s->memory_used_mb = (double)memory.used / (1 << 20);
	s->memory_total_mb = (double)memory.total / (1 << 20);
}

void nvml_read_state(const struct nvml *n, const struct nvml_gpu *d, struct gpu_sample *s)
{
	unsigned long long bits, errors;
	unsigned value;

	if (n->call.temperature &&
	    n->call.temperature(d->handle, NVML_TEMPERATURE_GPU, &value) == NVML_OK)
		s->temperature_c = value;
	if (n->call.clock && n->call.clock(d->handle, NVML_CLOCK_SM, &value) == NVML_OK)
		s->sm_clock_mhz = value;
	if (n->call.throttle && n->call.throttle(d->handle, &bits) == NVML_OK)
		s->throttle = bits;
	if (n->call.ecc &&
	    n->call.ecc(d->handle, NVML_ECC_UNCORRECTED, NVML_ECC_SINCE_RESET, &errors) == NVML_OK)
		s->ecc_errors = errors;
	s->power_watts = ask_unsigned(n->call.power, d->handle, 1000);
}

void nvml_read_energy(const struct nvml *n, struct nvml_gpu *d, uint64_t now_ns)
{
	unsigned long long energy_mj;

	if (!n->call.energy || (d->energy_boot_ns && now_ns - d->energy_boot_ns < ENERGY_EVERY_NS))
		return;
	d->energy_boot_ns = now_ns;
	d->energy_mj = n->call.energy(d->handle, &energy_mj) == NVML_OK ? energy_mj : U64_UNKNOWN;
}

/* Of the whole session, not of one device: another must be begun. */
static bool is_over(int result)
{
	return result == NVML_UNINITIALIZED || result == NVML_DRIVER_NOT_LOADED ||
	       result == NVML_VERSION_MISMATCH;
}

bool nvml_is_lost(int result)
{
	return result == NVML_GPU_IS_LOST || result == NVML_RESET_REQUIRED;
}

/* A device that does not tell its use, or not to us, may tell the rest. */
static bool is_readable(int result)
{
	return result == NVML_OK || result == NVML_NOT_SUPPORTED || result == NVML_NOT_FOUND ||
	       result == NVML_NO_PERMISSION;
}

/* All of it stays unknown, and who holds it. */
static void note_failure(struct nvml *n, struct nvml_gpu *d, struct gpu_sample *s, int result,
			 struct gpu_reading *ret)
{
	gpu_note(ret, "GPU %d cannot be read: %s", s->index, nvml_word(n, result));
	ret->n_left_out++;
	if (!nvml_is_lost(result))
		return;
	s->is_lost = true;
	d->handle = NULL;
	d->why_closed = result;
}

/* Its use tells whether it is still there. Returns what the library says of it. */
static int read_device(struct nvml *n, struct nvml_gpu *d, uint64_t now_ns, struct gpu_reading *ret)
{
	struct gpu_sample *s = gpu_add_device(ret, d->name);
	struct nvml_utilization use;
	int result = NVML_NOT_SUPPORTED;

	if (!s)
		return NVML_OK;
	s->last_xid = d->xid;
	if (!d->handle)
		result = d->why_closed;
	else if (n->call.utilization)
		result = n->call.utilization(d->handle, &use);
	if (!d->handle || !is_readable(result)) {
		note_failure(n, d, s, result, ret);
		return result;
	}
	if (result == NVML_OK)
		s->utilization_pct = gpu_sane_percent(ret, s->index, use.gpu);
	nvml_read_memory(n, d, s);
	nvml_read_state(n, d, s);
	nvml_read_energy(n, d, now_ns);
	s->energy_joules = u64_known(d->energy_mj) ? (double)d->energy_mj / 1000 : F64_UNKNOWN;
	nvml_read_processes(n, d, s, now_ns, ret);
	return NVML_OK;
}

/* ---- all ---- */

/* Errors of the hardware that came since the last time, without waiting. */
static void read_events(struct nvml *n)
{
	struct nvml_event event;

	for (int left = 64; n->events && left > 0; left--) {
		if (n->call.event_wait(n->events, &event, 0) != NVML_OK)
			return;
		for (unsigned i = 0; i < n->n_devices; i++)
			if (n->devices[i].told_as == event.device && event.type == NVML_EVENT_XID)
				n->devices[i].xid = event.data;
	}
}

/* Whether it is time to see who is back. */
static bool is_worth_a_new_session(const struct nvml *n, uint64_t now_ns)
{
	unsigned n_lost = 0;

	for (unsigned i = 0; i < n->n_devices; i++)
		n_lost += !n->devices[i].handle;
	if (n_lost == 0)
		return false;
	return now_ns - n->opened_boot_ns >=
	       (n_lost == n->n_devices ? ALL_LOST_ANEW_NS : LOST_ANEW_NS);
}

/* That one is lost is worth telling, and of those that are not for us there is nothing to tell. */
static bool is_told_by_loss(int result)
{
	return nvml_is_lost(result) || result == NVML_NO_PERMISSION;
}

static int nvml_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct nvml *n = driver;
	uint64_t now_ns = clock_boot_ns();
	unsigned n_failed = 0, n_lost = 0;
	int failure = NVML_OK, r = 0;

	if (is_worth_a_new_session(n, now_ns))
		r = nvml_begin_anew(n, err);
	if (r < 0)
		return r;
	read_events(n);
	if (n->n_counted > n->n_denied + GPU_MAX_DEVICES)
		gpu_note_more_devices(ret);
	for (unsigned i = 0; i < n->n_devices; i++) {
		int result = read_device(n, &n->devices[i], now_ns, ret);

		if (is_over(result))
			return nvml_tell(n, result, "read a GPU", err);
		n_failed += result != NVML_OK;
		n_lost += nvml_is_lost(result);
		if (failure == NVML_OK || is_told_by_loss(failure))
			failure = result;
	}
	if (n_failed < n->n_devices || (n_lost > 0 && is_told_by_loss(failure)))
		return 0;
	return nvml_tell(n, failure, "read a GPU", err);
}

const struct gpu_driver gpu_nvml = {
	.name = "NVML",
	.vendor = GPU_NVIDIA,
	.open = nvml_open,
	.read = nvml_read,
	.keep_places = nvml_keep_places,
	.id = nvml_id,
	.measure = nvml_measure,
	.close = nvml_close,
};
