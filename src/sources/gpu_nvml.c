/*
 * gpu_nvml - NVIDIA's management library, if this host has it.
 *
 * What a question costs differs a hundredfold: utilisation 140 us, memory 5, the
 * list of processes 21, but the share of each process 1,900 and the energy 7,000.
 * The dear ones are asked every few seconds and their last answer stands in between.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu.h"
#include "sources/gpu_nvml_abi.h"

#define DEVICE_FILES "/dev/nvidia"
#define SHARES_EVERY_NS UINT64_C(5000000000)
#define ENERGY_EVERY_NS UINT64_C(30000000000)
#define REOPEN_LOST_NS \
	UINT64_C(60000000000) /* a GPU that is lost comes back to a new session only */
#define MAX_SHARES 1024

/* What is remembered of a device between two readings. */
struct device {
	nvml_device handle;
	char name[GPU_NAME_BYTES];
	uint64_t shares_boot_ns, energy_boot_ns; /* when the dear ones were asked; 0: never */
	uint64_t shares_time_us;		 /* the newest sample that was told */
	uint64_t energy_mj;
	uint64_t xid; /* the last one; U64_UNKNOWN: none since we look */
	struct nvml_process_utilization *shares;
	unsigned n_shares;
	bool shares_known; /* then who has none was not busy */
};

struct nvml {
	int root_fd;
	void *library;
	struct nvml_calls call;
	bool is_initialised;
	nvml_event_set events; /* NULL: it tells of none */
	struct gpu_owners owners;
	uint64_t opened_boot_ns;
	struct device devices[GPU_MAX_DEVICES];
	unsigned n_devices;
};

/* ---- opening ---- */

#define CALL(field_, symbol_, needed_)                                \
	{                                                             \
		symbol_, offsetof(struct nvml_calls, field_), needed_ \
	}

static const struct {
	const char *symbol;
	size_t offset;
	bool is_needed; /* without the others their values are unknown */
} symbols[] = {
	CALL(init, "nvmlInit_v2", true),
	CALL(shutdown, "nvmlShutdown", true),
	CALL(error_string, "nvmlErrorString", true),
	CALL(driver_version, "nvmlSystemGetDriverVersion", false),
	CALL(count, "nvmlDeviceGetCount_v2", true),
	CALL(handle, "nvmlDeviceGetHandleByIndex_v2", true),
	CALL(name, "nvmlDeviceGetName", false),
	CALL(utilization, "nvmlDeviceGetUtilizationRates", false),
	CALL(memory, "nvmlDeviceGetMemoryInfo_v2", false),
	CALL(temperature, "nvmlDeviceGetTemperature", false),
	CALL(power, "nvmlDeviceGetPowerUsage", false),
	CALL(clock, "nvmlDeviceGetClockInfo", false),
	CALL(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", false),
	CALL(ecc, "nvmlDeviceGetTotalEccErrors", false),
	CALL(energy, "nvmlDeviceGetTotalEnergyConsumption", false),
	CALL(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3", false),
	CALL(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3", false),
	CALL(process_utilization, "nvmlDeviceGetProcessUtilization", false),
	CALL(event_set_create, "nvmlEventSetCreate", false),
	CALL(event_set_free, "nvmlEventSetFree", false),
	CALL(register_events, "nvmlDeviceRegisterEvents", false),
	CALL(event_wait, "nvmlEventSetWait_v2", false),
};

static int find_symbols(struct nvml *n, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *found = dlsym(n->library, symbols[i].symbol);

		if (!found && symbols[i].is_needed)
			return err_set(err, -ENOSYS, "libnvidia-ml.so.1 has no %s: too old",
				       symbols[i].symbol);
		memcpy((char *)&n->call + symbols[i].offset, &found, sizeof(found));
	}
	return 0;
}

static void nvml_close(void *driver)
{
	struct nvml *n = driver;

	if (n->events)
		n->call.event_set_free(n->events);
	if (n->is_initialised)
		n->call.shutdown();
	for (unsigned i = 0; i < n->n_devices; i++)
		free(n->devices[i].shares);
	if (n->library)
		dlclose(n->library);
	free(n);
}

static int tell(const struct nvml *n, int result, const char *what, struct err *err)
{
	return err_set(err, -EIO, "NVML cannot %s: %s", what, n->call.error_string(result));
}

/* From here on it counts the errors that the device reports to the driver. */
static void listen_to_events(struct nvml *n)
{
	if (!n->call.event_set_create || !n->call.event_wait || !n->call.register_events ||
	    !n->call.event_set_free || n->call.event_set_create(&n->events) != NVML_OK)
		n->events = NULL;
	for (unsigned i = 0; n->events && i < n->n_devices; i++)
		if (n->devices[i].handle)
			n->call.register_events(n->devices[i].handle, NVML_EVENT_XID, n->events);
}

/* One that cannot be opened has no handle, and keeps its place: the others count on. */
static int find_device(struct nvml *n, unsigned i)
{
	struct device *d = &n->devices[i];
	int result;

	*d = (struct device){ .energy_mj = U64_UNKNOWN, .xid = U64_UNKNOWN };
	n->n_devices = i + 1;
	result = n->call.handle(i, &d->handle);
	if (result != NVML_OK)
		d->handle = NULL;
	else if (n->call.name)
		n->call.name(d->handle, d->name, sizeof(d->name));
	d->name[sizeof(d->name) - 1] = '\0';
	return result;
}

static int find_devices(struct nvml *n, struct err *err)
{
	unsigned count = 0, n_open = 0;
	int result = n->call.count(&count);

	if (result != NVML_OK)
		return tell(n, result, "count the GPUs", err);
	if (count == 0)
		return -ENODEV;
	for (unsigned i = 0; i < count && i < GPU_MAX_DEVICES; i++) {
		int r = find_device(n, i);

		n_open += r == NVML_OK;
		if (r != NVML_OK)
			result = r;
	}
	return n_open > 0 ? 0 : tell(n, result, "open a GPU", err);
}

static int initialise(struct nvml *n, struct err *err)
{
	int result, r = find_symbols(n, err);

	if (r < 0)
		return r;
	result = n->call.init();
	if (result == NVML_DRIVER_NOT_LOADED)
		return err_set(err, -ENODEV, "NVIDIA's driver is not loaded");
	if (result != NVML_OK)
		return tell(n, result, "begin", err);
	n->is_initialised = true;
	n->opened_boot_ns = clock_boot_ns();
	r = find_devices(n, err);
	if (r == 0)
		listen_to_events(n);
	return r;
}

static int nvml_open(int root_fd, void **ret, struct err *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	n->root_fd = root_fd;
	n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		free(n);
		return err_set(err, -ENOENT, "libnvidia-ml.so.1 is not installed");
	}
	r = initialise(n, err);
	if (r < 0) {
		nvml_close(n);
		return r;
	}
	*ret = n;
	return 0;
}

/* ---- one device ---- */

static double ask_unsigned(int (*fn)(nvml_device, unsigned *), nvml_device handle, double scale)
{
	unsigned value;

	return fn && fn(handle, &value) == NVML_OK ? (double)value / scale : F64_UNKNOWN;
}

static void read_memory(const struct nvml *n, const struct device *d, struct gpu_sample *s)
{
	struct nvml_memory_v2 memory = { .version = NVML_MEMORY_V2_VERSION };

	if (!n->call.memory || n->call.memory(d->handle, &memory) != NVML_OK)
		return;
	s->memory_used_mb = (double)memory.used / (1 << 20);
	s->memory_total_mb = (double)memory.total / (1 << 20);
}

static void read_state(const struct nvml *n, const struct device *d, struct gpu_sample *s)
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

static void read_energy(const struct nvml *n, struct device *d, uint64_t now_ns)
{
	unsigned long long energy_mj;

	if (!n->call.energy || (d->energy_boot_ns && now_ns - d->energy_boot_ns < ENERGY_EVERY_NS))
		return;
	d->energy_boot_ns = now_ns;
	d->energy_mj = n->call.energy(d->handle, &energy_mj) == NVML_OK ? energy_mj : U64_UNKNOWN;
}

/* A failure of all of them, not of one: the session is over, and a new one must be opened. */
static bool is_fatal(int result)
{
	return result != NVML_OK && result != NVML_NOT_SUPPORTED && result != NVML_NOT_FOUND &&
	       result != NVML_GPU_IS_LOST && result != NVML_RESET_REQUIRED;
}

/* All of it stays unknown. */
static void note_lost(struct nvml *n, struct device *d, const struct gpu_sample *s, int result,
		      struct gpu_reading *ret)
{
	gpu_note(ret, "GPU %d cannot be read: %s", s->index, n->call.error_string(result));
	d->handle = NULL;
}

/* Its use tells whether it is still there. */
static int read_device(struct nvml *n, struct device *d, uint64_t now_ns, struct gpu_reading *ret,
		       struct err *err)
{
	struct gpu_sample *s = gpu_add_device(ret, d->name);
	struct nvml_utilization use;
	int result = NVML_NOT_SUPPORTED;

	if (!s)
		return 0;
	if (!d->handle)
		result = NVML_GPU_IS_LOST;
	else if (n->call.utilization)
		result = n->call.utilization(d->handle, &use);
	if (is_fatal(result))
		return tell(n, result, "read a GPU", err);
	if (result == NVML_GPU_IS_LOST || result == NVML_RESET_REQUIRED) {
		note_lost(n, d, s, result, ret);
		return 0;
	}
	if (result == NVML_OK)
		s->utilization_pct = gpu_sane_percent(ret, s->index, use.gpu);
	read_memory(n, d, s);
	read_state(n, d, s);
	read_energy(n, d, now_ns);
	s->energy_joules = u64_known(d->energy_mj) ? (double)d->energy_mj / 1000 : F64_UNKNOWN;
	s->last_xid = d->xid;
	return 0;
}

/* ---- its processes ---- */

static int read_shares_into(const struct nvml *n, struct device *d, unsigned *count)
{
	return n->call.process_utilization(d->handle, d->shares, count, d->shares_time_us);
}

/* The samples since the last time. That there are none means that nobody was busy. */
static void read_shares(const struct nvml *n, struct device *d, uint64_t now_ns)
{
	unsigned count = MAX_SHARES;
	int result;

	if (!n->call.process_utilization ||
	    (d->shares_boot_ns && now_ns - d->shares_boot_ns < SHARES_EVERY_NS))
		return;
	if (!d->shares)
		d->shares = calloc(MAX_SHARES, sizeof(*d->shares));
	d->shares_boot_ns = now_ns;
	d->n_shares = 0;
	d->shares_known = false;
	if (!d->shares)
		return;
	result = read_shares_into(n, d, &count);
	d->shares_known = result == NVML_NOT_FOUND || (result == NVML_OK && count <= MAX_SHARES);
	if (result != NVML_OK || count > MAX_SHARES)
		return;
	d->n_shares = count;
	for (unsigned i = 0; i < count; i++)
		if (d->shares[i].time_us > d->shares_time_us)
			d->shares_time_us = d->shares[i].time_us;
}

/* The mean of its samples; 0 where it has none. */
static double share_of(const struct device *d, unsigned pid)
{
	double sum = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_shares; i++)
		if (d->shares[i].pid == pid && d->shares[i].sm <= 100) {
			sum += d->shares[i].sm;
			n++;
		}
	if (n > 0)
		return sum / n;
	return d->shares_known ? 0 : F64_UNKNOWN;
}

static void add_process(struct nvml *n, const struct device *d, int index,
			const struct nvml_process_v3 *p, struct gpu_reading *ret)
{
	struct gpu_process process = {
		.device = index,
		.memory_bytes = p->used_memory == NVML_NOT_AVAILABLE ? U64_UNKNOWN : p->used_memory,
		.utilization_pct = share_of(d, p->pid),
	};

	if (gpu_owners_find(&n->owners, n->root_fd, p->pid, DEVICE_FILES, &process.key))
		gpu_add_process(ret, &process);
	else
		ret->n_left_out++;
}

/* Those of one list. If it cannot be had, nobody knows who should be on it. */
static void read_processes(struct nvml *n, struct device *d, int index,
			   int (*ask)(nvml_device, unsigned *, struct nvml_process_v3 *),
			   struct gpu_reading *ret)
{
	CLEANUP(free_ptr) struct nvml_process_v3 *list = NULL;
	unsigned count = GPU_MAX_PROCESSES;
	int result;

	list = calloc(GPU_MAX_PROCESSES, sizeof(*list));
	result = ask && list ? ask(d->handle, &count, list) : NVML_INSUFFICIENT_SIZE;
	if (result == NVML_NOT_SUPPORTED)
		return;
	if (result != NVML_OK || count > GPU_MAX_PROCESSES) {
		ret->n_left_out++;
		return;
	}
	for (unsigned i = 0; i < count; i++)
		add_process(n, d, index, &list[i], ret);
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
			if (n->devices[i].handle == event.device && event.type == NVML_EVENT_XID)
				n->devices[i].xid = event.data;
	}
}

static bool has_lost_one(const struct nvml *n)
{
	for (unsigned i = 0; i < n->n_devices; i++)
		if (!n->devices[i].handle)
			return true;
	return false;
}

static int nvml_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct nvml *n = driver;
	uint64_t now_ns = clock_boot_ns();

	if (has_lost_one(n) && now_ns - n->opened_boot_ns >= REOPEN_LOST_NS)
		return err_set(err, -EAGAIN, "a GPU is lost: looking whether it is back");
	read_events(n);
	for (unsigned i = 0; i < n->n_devices; i++) {
		struct device *d = &n->devices[i];
		int index = (int)ret->n_devices, r;

		r = read_device(n, d, now_ns, ret, err);
		if (r < 0)
			return r;
		if (!d->handle)
			continue;
		read_shares(n, d, now_ns);
		read_processes(n, d, index, n->call.compute_processes, ret);
		read_processes(n, d, index, n->call.graphics_processes, ret);
	}
	return 0;
}

/* ---- what it costs ---- */

static void ask_utilization(struct nvml *n, struct device *d)
{
	struct nvml_utilization use;

	if (n->call.utilization)
		n->call.utilization(d->handle, &use);
}

static void ask_memory(struct nvml *n, struct device *d)
{
	struct gpu_sample s;

	read_memory(n, d, &s);
}

static void ask_state(struct nvml *n, struct device *d)
{
	struct gpu_sample s;

	read_state(n, d, &s);
}

static void ask_processes(struct nvml *n, struct device *d)
{
	struct nvml_process_v3 list[64];
	unsigned count = ARRAY_SIZE(list);

	if (n->call.compute_processes)
		n->call.compute_processes(d->handle, &count, list);
}

static void ask_shares(struct nvml *n, struct device *d)
{
	d->shares_boot_ns = 0;
	read_shares(n, d, clock_boot_ns());
}

static void ask_energy(struct nvml *n, struct device *d)
{
	d->energy_boot_ns = 0;
	read_energy(n, d, clock_boot_ns());
}

static const struct {
	const char *name;
	void (*ask)(struct nvml *n, struct device *d);
} questions[] = {
	{ "utilisation", ask_utilization },
	{ "memory", ask_memory },
	{ "temperature, clock, throttling, ECC, power", ask_state },
	{ "processes", ask_processes },
	{ "share of each process", ask_shares },
	{ "energy", ask_energy },
};

/* The second of two, for the first may open something. */
static void nvml_measure(void *driver, gpu_cost_fn *fn, void *ctx)
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

const struct gpu_driver gpu_nvml = {
	.name = "NVML",
	.vendor = GPU_NVIDIA,
	.open = nvml_open,
	.read = nvml_read,
	.measure = nvml_measure,
	.close = nvml_close,
};
