/*
 * nvml - NVIDIA's management library, if this host has it.
 *
 * What a question costs differs a hundredfold: utilisation some 10 us, memory and the list of
 * processes some 100 each, but the share of each process 1,400 to 2,800 and the energy 2,900 to
 * 5,500 (docs/gpu.md). The dear ones are asked every few seconds and their last answer stands in
 * between.
 */
#include "sources/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu/gpu.h"

#define LIBRARY "libnvidia-ml.so.1"

/* ---- its functions ---- */

#define CALL(field_, symbol_, needed_)                                      \
	{                                                                   \
		symbol_, NULL, offsetof(struct nvml_calls, field_), needed_ \
	}
/* The older function has the same layout and says the same. */
#define OLDER(field_, symbol_, older_)                                      \
	{                                                                   \
		symbol_, older_, offsetof(struct nvml_calls, field_), false \
	}

static const struct {
	const char *symbol, *older;
	size_t offset;
	bool is_needed; /* without the others their values are unknown */
} symbols[] = {
	CALL(init, "nvmlInit_v2", true),
	CALL(shutdown, "nvmlShutdown", true),
	CALL(error_string, "nvmlErrorString", true),
	CALL(count, "nvmlDeviceGetCount_v2", true),
	CALL(handle, "nvmlDeviceGetHandleByIndex_v2", true),
	CALL(name, "nvmlDeviceGetName", false),
	CALL(utilization, "nvmlDeviceGetUtilizationRates", false),
	CALL(uuid, "nvmlDeviceGetUUID", false),
	CALL(memory, "nvmlDeviceGetMemoryInfo_v2", false),
	CALL(memory_v1, "nvmlDeviceGetMemoryInfo", false),
	CALL(temperature, "nvmlDeviceGetTemperature", false),
	CALL(power, "nvmlDeviceGetPowerUsage", false),
	CALL(clock, "nvmlDeviceGetClockInfo", false),
	CALL(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", false),
	CALL(ecc, "nvmlDeviceGetTotalEccErrors", false),
	CALL(energy, "nvmlDeviceGetTotalEnergyConsumption", false),
	OLDER(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3",
	      "nvmlDeviceGetComputeRunningProcesses_v2"),
	OLDER(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3",
	      "nvmlDeviceGetGraphicsRunningProcesses_v2"),
	CALL(process_utilization, "nvmlDeviceGetProcessUtilization", false),
	CALL(event_set_create, "nvmlEventSetCreate", false),
	CALL(event_set_free, "nvmlEventSetFree", false),
	CALL(register_events, "nvmlDeviceRegisterEvents", false),
	CALL(event_wait, "nvmlEventSetWait_v2", false),
};

/* Whether that is said of a device which has fallen off the bus, or must be reset. */
static bool nvml_is_lost(int result)
{
	return result == NVML_GPU_IS_LOST || result == NVML_RESET_REQUIRED;
}

/* What the library calls a failure. */
static const char *nvml_word(const struct nvml *n, int result)
{
	const char *word = n->call.error_string(result);

	return word ? word : "it does not say why";
}

/* The same in a sentence; returns -EIO, or -EACCES. */
static int nvml_tell(const struct nvml *n, int result, const char *what, struct err *err)
{
	return err_set(err, result == NVML_NO_PERMISSION ? -EACCES : -EIO, "NVML cannot %s: %s",
		       what, nvml_word(n, result));
}

/* ---- loading it ---- */

/* -ENODEV: NVIDIA has no driver here either; -ENOENT, -ENOSYS: it is missing, or too old. */
static int nvml_load(struct nvml *n, struct err *err)
{
	n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		/* One that is there and is none, or lacks a library of its own, is told from one
		 * that is not. */
		int code = gpu_has_nvidia(n->root_fd) ? -ENOENT : -ENODEV;
		const char *why = dlerror();

		if (!why || (strncmp(why, LIBRARY ":", sizeof(LIBRARY)) == 0 &&
			     strstr(why, strerror(ENOENT))))
			return err_set(err, code, LIBRARY " is not installed");
		return err_set(err, code, "NVML cannot be loaded: %s", why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *found = dlsym(n->library, symbols[i].symbol);

		if (!found && symbols[i].older)
			found = dlsym(n->library, symbols[i].older);
		if (!found && symbols[i].is_needed)
			return err_set(err, -ENOSYS, LIBRARY " has no %s: too old",
				       symbols[i].symbol);
		memcpy((char *)&n->call + symbols[i].offset, &found, sizeof(found));
	}
	return 0;
}

/* ---- which GPUs a session has, and which place each has among them ---- */

/* One of which nothing is known yet. */
static struct nvml_gpu new_gpu(void)
{
	return (struct nvml_gpu){ .number = -1, .energy_mj = U64_UNKNOWN, .xid = U64_UNKNOWN };
}

/* What the library says of one that it counts. */
struct opening {
	nvml_device handle;
	int number, result;
};

/*
 * Where a GPU stands that is found as the i-th: where it stood before, for others that are
 * lost may not be counted any more. NULL: there is no room.
 */
static struct nvml_gpu *find_place(struct nvml *n, unsigned i, const char *uuid)
{
	for (unsigned k = 0; k < n->n_devices; k++)
		if (uuid[0] && strcmp(n->devices[k].uuid, uuid) == 0)
			return &n->devices[k];
	for (unsigned k = 0; k < n->n_devices; k++) {
		struct nvml_gpu *d = &n->devices[(i + k) % n->n_devices];

		if (!d->handle && (!uuid[0] || !d->uuid[0]))
			return d;
	}
	if (n->n_devices == GPU_MAX_DEVICES)
		return NULL;
	n->devices[n->n_devices] = new_gpu();
	return &n->devices[n->n_devices++];
}

static void take_device(struct nvml *n, unsigned i, const struct opening *found)
{
	char uuid[NVML_UUID_BYTES] = "";
	struct nvml_gpu *d;

	if (n->call.uuid && n->call.uuid(found->handle, uuid, sizeof(uuid)) != NVML_OK)
		uuid[0] = '\0';
	uuid[sizeof(uuid) - 1] = '\0';
	d = find_place(n, i, uuid);
	if (!d)
		return;
	d->handle = d->told_as = found->handle;
	d->number = found->number;
	d->why_closed = NVML_OK;
	memcpy(d->uuid, uuid, sizeof(d->uuid));
	if (n->call.name)
		n->call.name(d->handle, d->name, sizeof(d->name));
	d->name[sizeof(d->name) - 1] = '\0';
}

/* The place of one that cannot be opened, by its number or else the next that is free; NULL. */
static struct nvml_gpu *find_closed(struct nvml *n, int number)
{
	for (unsigned k = 0; k < n->n_devices; k++)
		if (!n->devices[k].handle && n->devices[k].number == number)
			return &n->devices[k];
	for (unsigned k = 0; k < n->n_devices; k++) {
		struct nvml_gpu *d = &n->devices[((unsigned)number + k) % n->n_devices];

		if (!d->handle && d->why_closed == NVML_OK)
			return d;
	}
	return NULL;
}

/* One of which nothing was said is lost, unless it may be one of those that are not for us. */
static void close_others(struct nvml *n)
{
	for (unsigned i = 0; i < n->n_devices; i++) {
		struct nvml_gpu *d = &n->devices[i];

		if (!d->handle && d->why_closed == NVML_OK)
			d->why_closed = d->number < 0 && n->n_denied > 0 ? NVML_NO_PERMISSION
									 : NVML_GPU_IS_LOST;
	}
}

/* How many could be opened. One that cannot be keeps its place: the others count on. */
static int take_devices(struct nvml *n, const struct opening *found, unsigned n_found)
{
	int n_open = 0;

	while (n->n_devices < n_found)
		n->devices[n->n_devices++] = new_gpu();
	for (unsigned i = 0; i < n_found; i++) {
		n_open += found[i].result == NVML_OK;
		if (found[i].result == NVML_OK)
			take_device(n, i, &found[i]);
	}
	for (unsigned i = 0; i < n_found; i++)
		if (found[i].result != NVML_OK) {
			struct nvml_gpu *d = find_closed(n, found[i].number);

			if (d) {
				d->number = found[i].number;
				d->why_closed = found[i].result;
			}
		}
	close_others(n);
	return n_open;
}

/* At the beginning of a session. How many could be opened; if none could, err says why. */
static int nvml_find_devices(struct nvml *n, struct err *err)
{
	struct opening found[GPU_MAX_DEVICES];
	unsigned count = 0, n_found;
	int n_open, result = n->call.count(&count);
	bool has_same_numbers;

	if (result != NVML_OK)
		return nvml_tell(n, result, "count the GPUs", err);
	if (count == 0 && !n->was_opened)
		return err_set(err, -ENODEV, "NVML knows no GPU");
	/*
	 * Before they are looked for anew. Where more or fewer are counted than before, the library
	 * may call them by other numbers: then one that was lost stays lost until it is found.
	 */
	has_same_numbers = count == n->n_counted;
	for (unsigned i = 0; i < n->n_devices; i++) {
		struct nvml_gpu *d = &n->devices[i];

		d->handle = d->told_as = NULL;
		d->shares_time_us = 0;
		if (!has_same_numbers)
			d->number = -1;
		if (has_same_numbers || !nvml_is_lost(d->why_closed))
			d->why_closed = NVML_OK;
	}
	n->n_counted = count;
	/* Those that are not for us (of another job, say) are counted too; they are left out. */
	n_found = 0;
	n->n_denied = 0;
	for (unsigned i = 0; i < count && n_found < GPU_MAX_DEVICES; i++) {
		struct opening *o = &found[n_found];

		o->number = (int)i;
		o->result = n->call.handle(i, &o->handle);
		if (o->result != NVML_NO_PERMISSION) {
			n_found++;
			continue;
		}
		n->n_denied++;
		for (unsigned k = 0; k < n->n_devices; k++)
			if (n->devices[k].number == o->number)
				n->devices[k].why_closed = NVML_NO_PERMISSION;
	}
	n_open = take_devices(n, found, n_found);
	if (n_open == 0)
		nvml_tell(n, n->n_devices > 0 ? n->devices[0].why_closed : NVML_NO_PERMISSION,
			  "open a GPU", err);
	return n_open;
}

static const char *nvml_id(const void *driver, size_t i)
{
	return ((const struct nvml *)driver)->devices[i].uuid;
}

/* ---- a session ---- */

static void end_session(struct nvml *n)
{
	if (n->events)
		n->call.event_set_free(n->events);
	if (n->is_initialised)
		n->call.shutdown();
	n->events = NULL;
	n->is_initialised = false;
}

/* How many devices could be opened. */
static int begin_session(struct nvml *n, struct err *err)
{
	int result = n->call.init(), r;

	if (result == NVML_DRIVER_NOT_LOADED)
		return err_set(err, -ENODEV, "NVIDIA's driver is not loaded");
	if (result != NVML_OK)
		return nvml_tell(n, result, "begin", err);
	n->is_initialised = true;
	n->opened_boot_ns = clock_boot_ns();
	r = nvml_find_devices(n, err);
	if (r > 0) {
		/* From here on it counts the errors that the device reports to the driver. */
		if (!n->call.event_set_create || !n->call.event_wait || !n->call.register_events ||
		    !n->call.event_set_free || n->call.event_set_create(&n->events) != NVML_OK)
			n->events = NULL;
		for (unsigned i = 0; n->events && i < n->n_devices; i++)
			if (n->devices[i].handle)
				n->call.register_events(n->devices[i].handle, NVML_EVENT_XID,
							n->events);
	}
	return r;
}

/*
 * Ends the session and begins another, in which GPUs that were lost may be back. Each
 * keeps its place. A failure: there is no session any more.
 */
static int nvml_begin_anew(struct nvml *n, struct err *err)
{
	struct err none_opened = ERR_INIT;
	int r;

	end_session(n);
	r = begin_session(n, &none_opened);
	if (r < 0 && err)
		*err = none_opened;
	return r < 0 ? r : 0;
}

static void nvml_close(void *driver)
{
	struct nvml *n = driver;

	end_session(n);
	for (unsigned i = 0; i < n->n_devices; i++) {
		free(n->devices[i].shares);
		free(n->devices[i].asked);
	}
	if (n->library)
		dlclose(n->library);
	n->library = NULL;
	free(n);
}

static int nvml_open(int root_fd, const struct gpu_places *places, void **ret, struct err *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	struct err why_not = ERR_INIT;
	bool has_lost = false; /* of which there is that to tell, though none can be opened */
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	n->root_fd = root_fd;
	for (; places && n->n_devices < places->n; n->n_devices++) {
		struct nvml_gpu *d = &n->devices[n->n_devices];

		*d = new_gpu();
		snprintf(d->uuid, sizeof(d->uuid), "%s", places->ids[n->n_devices]);
		snprintf(d->name, sizeof(d->name), "%s", places->names[n->n_devices]);
	}
	r = nvml_load(n, &why_not);
	if (r == 0)
		r = begin_session(n, &why_not);
	for (unsigned i = 0; i < n->n_devices; i++)
		has_lost |= n->devices[i].number >= 0 && nvml_is_lost(n->devices[i].why_closed);
	if (r < 0 || (r == 0 && !has_lost)) {
		bool is_denied = r == 0 && n->n_denied == n->n_counted;

		nvml_close(n);
		if (err)
			*err = why_not;
		return r < 0 ? r : is_denied ? -EACCES : -EIO;
	}
	n->was_opened = true;
	*ret = n;
	return 0;
}

#define SHARES_EVERY_NS UINT64_C(5000000000)
#define MOVED_POINTS 10
#define SAMPLED_WITHIN_US UINT64_C(1000000) /* samples are no further apart */

/* ---- who holds it: the lists ---- */

typedef int list_fn(nvml_device, unsigned *, struct nvml_process_v3 *);

/* False: one that cannot be had, which is not an empty one; but a device that cannot draw has
 * nobody draw. */
static bool add_list(struct nvml *n, const struct nvml_gpu *d, list_fn *ask, bool is_needed)
{
	unsigned count = GPU_MAX_PROCESSES;
	int result = ask ? ask(d->handle, &count, n->list + n->n_listed) : NVML_INSUFFICIENT_SIZE;

	if (result == NVML_NOT_SUPPORTED && !is_needed)
		return true;
	if (result != NVML_OK || count > GPU_MAX_PROCESSES)
		return false;
	n->n_listed += count;
	return true;
}

/*
 * ---- how busy each process keeps it ----
 *
 * Shares cost a hundred times what the list does: they are asked every few seconds, every time
 * for some seconds after a process was listed that was not listed before, and whenever the
 * device's own use, which costs little, has moved, and once more then: the first answer is of what
 * was before and after, and the next stands for what follows.
 *
 * The driver keeps some 20 s of samples, and tells of each process one number: its mean since a
 * time that we name, where what it did nothing in counts as 0. The time named is when it was last
 * asked; but of a change, the last reading, until which the answer before is good.
 */

static const struct nvml_asked *find_asked(const struct nvml_gpu *d, unsigned pid)
{
	for (unsigned i = 0; i < d->n_asked; i++)
		if (d->asked[i].pid == pid)
			return &d->asked[i];
	return NULL;
}

static bool has_new_process(const struct nvml *n, const struct nvml_gpu *d)
{
	for (unsigned i = 0; i < n->n_listed; i++)
		if (!find_asked(d, n->list[i].pid))
			return true;
	return false;
}

/* By the clock that samples are dated by; there may be none if it is less than a second ago. */
static uint64_t sample_time_us(uint64_t since_ns, uint64_t now_ns)
{
	uint64_t now_us = clock_wall_ns() / 1000;
	uint64_t ago_us = since_ns ? (now_ns - since_ns) / 1000 : 0;

	if (ago_us < SAMPLED_WITHIN_US)
		ago_us = SAMPLED_WITHIN_US;
	return now_us > ago_us ? now_us - ago_us : 0;
}

static void ask_since(const struct nvml *n, struct nvml_gpu *d, uint64_t since_us)
{
	unsigned count = NVML_MAX_SHARES;
	int result = n->call.process_utilization(d->handle, d->shares, &count, since_us);
	bool has_all = result == NVML_OK && count <= NVML_MAX_SHARES;
	uint64_t newest_us = 0;

	/* That there are none means that nobody was busy. */
	d->shares_known = result == NVML_NOT_FOUND || has_all;
	d->n_shares = has_all ? count : 0;
	for (unsigned i = 0; i < d->n_shares; i++)
		if (d->shares[i].time_us > newest_us)
			newest_us = d->shares[i].time_us;
	if (newest_us > 0)
		d->shares_time_us = newest_us;
}

/* Of the time since then, at least a second; 0: of that. use_pct: of the device, now. */
static void nvml_ask_shares(const struct nvml *n, struct nvml_gpu *d, double use_pct,
			    uint64_t since_ns, uint64_t now_ns)
{
	if (!n->call.process_utilization)
		return;
	if (!d->shares)
		d->shares = calloc(NVML_MAX_SHARES, sizeof(*d->shares));
	d->shares_boot_ns = now_ns;
	d->shares_use_pct = use_pct;
	d->n_shares = 0;
	d->shares_known = false;
	if (!d->shares)
		return;
	ask_since(n, d, sample_time_us(since_ns, now_ns));
	if (d->shares_known && d->n_shares == 0 && use_pct > 0)
		/* From the last sample that was told: there may be no newer one, or the clock was
		 * set. */
		ask_since(n, d,
			  d->shares_time_us > SAMPLED_WITHIN_US
				  ? d->shares_time_us - SAMPLED_WITHIN_US
				  : 0);
}

/* Between some and none the least is much. A device that does not tell its use never has. */
static bool has_moved(const struct nvml_gpu *d, double use_pct)
{
	return fabs(use_pct - d->shares_use_pct) > MOVED_POINTS ||
	       (use_pct == 0) != (d->shares_use_pct == 0);
}

static void read_shares(const struct nvml *n, struct nvml_gpu *d, double use_pct, uint64_t now_ns)
{
	bool is_first = d->shares_boot_ns == 0;
	bool moves = !is_first && has_moved(d, use_pct);
	bool has_new = !is_first && has_new_process(n, d);
	uint64_t since_ns = moves || has_new ? d->listed_boot_ns : d->shares_boot_ns;
	struct nvml_asked *asked;

	d->listed_boot_ns = now_ns;
	if (has_new)
		d->young_until_ns = now_ns + SHARES_EVERY_NS;
	if (!is_first && now_ns >= d->young_until_ns && !moves && !d->has_moved &&
	    now_ns - d->shares_boot_ns < SHARES_EVERY_NS)
		return;
	nvml_ask_shares(n, d, use_pct, since_ns, now_ns);
	d->has_moved = moves;
	/* Who is listed now. Of those that were there when nobody had asked yet, none is new. */
	asked = calloc(n->n_listed + 1, sizeof(*asked));
	for (unsigned i = 0; asked && i < n->n_listed; i++)
		asked[i] = (struct nvml_asked){
			.pid = n->list[i].pid,
			.is_new = !is_first && !find_asked(d, n->list[i].pid),
		};
	free(d->asked);
	d->asked = asked;
	d->n_asked = asked ? n->n_listed : 0;
}

/*
 * What was told of it, or the mean where a driver tells its samples one by one. One of which
 * nothing is told did nothing if it was listed all the time; else it may have begun too late.
 */
static double share_of(const struct nvml_gpu *d, unsigned pid, int index, struct gpu_reading *ret)
{
	const struct nvml_asked *asked = find_asked(d, pid);
	bool has_sample = false;
	double sum = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_shares; i++) {
		double percent = d->shares[i].pid == pid
					 ? gpu_sane_share(ret, index, pid, d->shares[i].sm)
					 : F64_UNKNOWN;

		has_sample |= d->shares[i].pid == pid;
		sum += f64_known(percent) ? percent : 0;
		n += f64_known(percent);
	}
	if (n > 0)
		return sum / n;
	return d->shares_known && asked && !asked->is_new && !has_sample ? 0 : F64_UNKNOWN;
}

/* ---- both ---- */

/* Of a device with a handle, into the reading, of which it is that one; its use is read before. */
static void nvml_read_processes(struct nvml *n, struct nvml_gpu *d, const struct gpu_sample *of,
				uint64_t now_ns, struct gpu_reading *ret)
{
	bool has_all;

	n->n_listed = 0;
	has_all = add_list(n, d, n->call.compute_processes, true);
	has_all &= add_list(n, d, n->call.graphics_processes, false);
	if (!has_all) {
		ret->n_left_out++;
		gpu_note(ret, "the driver does not tell all processes that use GPU %d", of->index);
	}
	read_shares(n, d, of->utilization_pct, now_ns);
	if (n->n_listed > 0 && !d->shares_known)
		gpu_note(ret,
			 "the driver does not tell the share of each process on GPU %d, as of "
			 "one that is divided (MIG)",
			 of->index);
	for (unsigned i = 0; i < n->n_listed; i++) {
		struct gpu_process process = {
			.device = of->index,
			.memory_bytes = n->list[i].used_memory == NVML_NOT_AVAILABLE
						? U64_UNKNOWN
						: n->list[i].used_memory,
			.utilization_pct = share_of(d, n->list[i].pid, of->index, ret),
		};

		if (gpu_owners_find(&n->owners, n->root_fd, n->list[i].pid, &gpu_nvidia_files,
				    &process.key))
			gpu_add_process(ret, &process);
		else
			ret->n_left_out++;
	}
}

/* ---- what a device says of itself ---- */

#define ENERGY_EVERY_NS UINT64_C(30000000000)
#define LOST_ANEW_NS UINT64_C(60000000000) /* a lost GPU comes back to a new session only */
#define ALL_LOST_ANEW_NS UINT64_C(10000000000)

/* ---- one device ---- */

static void nvml_read_memory(const struct nvml *n, const struct nvml_gpu *d, struct gpu_sample *s)
{
	struct nvml_memory_v2 memory = { .version = NVML_MEMORY_V2_VERSION };
	struct nvml_memory_v1 older; /* counts as used what the driver keeps for itself */

	if (!n->call.memory || n->call.memory(d->handle, &memory) != NVML_OK) {
		if (!n->call.memory_v1 || n->call.memory_v1(d->handle, &older) != NVML_OK)
			return;
		memory.used = older.used;
		memory.total = older.total;
	}
	s->memory_used_mb = (double)memory.used / (1 << 20);
	s->memory_total_mb = (double)memory.total / (1 << 20);
}

static void nvml_read_state(const struct nvml *n, const struct nvml_gpu *d, struct gpu_sample *s)
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
	if (n->call.power && n->call.power(d->handle, &value) == NVML_OK)
		s->power_watts = value / 1000.0;
}

static void nvml_read_energy(const struct nvml *n, struct nvml_gpu *d, uint64_t now_ns)
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

/* A device that does not tell its use, or not to us, may tell the rest. */
static bool is_readable(int result)
{
	return result == NVML_OK || result == NVML_NOT_SUPPORTED || result == NVML_NOT_FOUND ||
	       result == NVML_NO_PERMISSION;
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
	if (!d->handle || !is_readable(result)) { /* all of it stays unknown, and who holds it */
		gpu_note(ret, "GPU %d cannot be read: %s", s->index, nvml_word(n, result));
		ret->n_left_out++;
		if (nvml_is_lost(result)) {
			s->is_lost = true;
			d->handle = NULL;
			d->why_closed = result;
		}
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

/* ---- what each question costs ---- */

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
	return COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
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

/* Of the first that can be asked. */
static void nvml_measure(void *driver, gpu_cost_fn *fn, void *ctx)
{
	struct nvml *n = driver;
	unsigned d = 0;
	char text[64];

	if (n->n_denied != 0) {
		snprintf(text, sizeof(text), "%u more %s not for this user", n->n_denied,
			 n->n_denied == 1 ? "is" : "are");
		fn(ctx, text, U64_UNKNOWN);
	}
	while (d < n->n_devices && !n->devices[d].handle)
		d++;
	for (size_t i = 0; d < n->n_devices && i < ARRAY_SIZE(questions); i++) {
		uint64_t ns = cost_of(n, &n->devices[d], i);

		fn(ctx, u64_known(ns) ? questions[i].name : questions[i].silence, ns);
	}
}

const struct gpu_driver gpu_nvml = {
	.name = "NVML",
	.vendor = GPU_NVIDIA,
	.open = nvml_open,
	.read = nvml_read,
	.id = nvml_id,
	.measure = nvml_measure,
	.close = nvml_close,
};
