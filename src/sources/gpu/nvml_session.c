/*
 * nvml_session - NVIDIA's library: loading it, a session with it, and which GPUs that has.
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
#include "sources/gpu/nvml.h"

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
	CALL(driver_version, "nvmlSystemGetDriverVersion", false),
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

const char *nvml_word(const struct nvml *n, int result)
{
	const char *word = n->call.error_string(result);

	return word ? word : "it does not say why";
}

int nvml_tell(const struct nvml *n, int result, const char *what, struct err *err)
{
	return err_set(err, result == NVML_NO_PERMISSION ? -EACCES : -EIO, "NVML cannot %s: %s",
		       what, nvml_word(n, result));
}

/* ---- loading it ---- */

/* One that is there and is none, or lacks a library of its own, is told from one that is not. */
static int tell_not_loaded(int code, struct err *err)
{
	const char *why = dlerror();

	if (!why ||
	    (strncmp(why, LIBRARY ":", sizeof(LIBRARY)) == 0 && strstr(why, strerror(ENOENT))))
		return err_set(err, code, LIBRARY " is not installed");
	return err_set(err, code, "NVML cannot be loaded: %s", why);
}

/* -ENODEV: NVIDIA has no driver here either; -ENOENT, -ENOSYS: it is missing, or too old. */
static int nvml_load(struct nvml *n, struct err *err)
{
	n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return tell_not_loaded(gpu_has_nvidia(n->root_fd) ? -ENOENT : -ENODEV, err);
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
	for (; i < n->n_devices; i++)
		if (!n->devices[i].handle && (!uuid[0] || !n->devices[i].uuid[0]))
			return &n->devices[i];
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

static void note_denied(struct nvml *n, int number)
{
	n->n_denied++;
	for (unsigned i = 0; i < n->n_devices; i++)
		if (n->devices[i].number == number)
			n->devices[i].why_closed = NVML_NO_PERMISSION;
}

/* The place of one that cannot be opened, by its number or else the next that is free; NULL. */
static struct nvml_gpu *find_closed(struct nvml *n, unsigned i, int number)
{
	for (unsigned k = 0; k < n->n_devices; k++)
		if (!n->devices[k].handle && n->devices[k].number == number)
			return &n->devices[k];
	for (unsigned k = 0; k < n->n_devices; k++) {
		struct nvml_gpu *d = &n->devices[(i + k) % n->n_devices];

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
			struct nvml_gpu *d = find_closed(n, i, found[i].number);

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
	if (count == 0 && n->n_devices == 0)
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
		if (o->result == NVML_NO_PERMISSION)
			note_denied(n, o->number);
		else
			n_found++;
	}
	n_open = take_devices(n, found, n_found);
	if (n_open == 0)
		nvml_tell(n, n->n_devices > 0 ? n->devices[0].why_closed : NVML_NO_PERMISSION,
			  "open a GPU", err);
	return n_open;
}

/* ---- which is which ---- */

/* One that is not there any more, or not yet. */
static void make_absent(void *item, const char *id, const char *name)
{
	struct nvml_gpu *d = item;

	*d = new_gpu();
	snprintf(d->uuid, sizeof(d->uuid), "%s", id);
	snprintf(d->name, sizeof(d->name), "%s", name);
}

static bool has_uuid(const struct nvml *n, const char *uuid)
{
	for (unsigned i = 0; i < n->n_devices; i++)
		if (strcmp(n->devices[i].uuid, uuid) == 0)
			return true;
	return false;
}

/* The place of one that was not found, from the first on and around; p->n: there is none. */
static uint32_t find_missing(const struct nvml *n, const struct gpu_places *p, int first)
{
	for (uint32_t k = 0; k < p->n; k++) {
		uint32_t i = ((uint32_t)first + k) % p->n;

		if (p->ids[i][0] && !has_uuid(n, p->ids[i]))
			return i;
	}
	return p->n;
}

/* One that cannot be opened does not tell its name: it is one of those that were not found. */
static void name_closed(struct nvml *n, const struct gpu_places *p)
{
	for (unsigned i = 0; i < n->n_devices; i++) {
		struct nvml_gpu *d = &n->devices[i];
		uint32_t place = d->handle || d->uuid[0] || d->number < 0
					 ? p->n
					 : find_missing(n, p, d->number);

		if (place == p->n)
			continue;
		snprintf(d->uuid, sizeof(d->uuid), "%s", p->ids[place]);
		snprintf(d->name, sizeof(d->name), "%s", p->names[place]);
	}
}

void nvml_keep_places(void *driver, const struct gpu_places *places)
{
	struct nvml *n = driver;
	const struct gpu_items items = { n->devices, sizeof(n->devices[0]),
					 offsetof(struct nvml_gpu, uuid), make_absent };

	name_closed(n, places);
	n->n_devices = (unsigned)gpu_keep_places(places, &items, n->n_devices);
	close_others(n);
}

const char *nvml_id(const void *driver, size_t i)
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

int nvml_begin_anew(struct nvml *n, struct err *err)
{
	struct err none_opened = ERR_INIT;
	int r;

	end_session(n);
	r = begin_session(n, &none_opened);
	if (r < 0 && err)
		*err = none_opened;
	return r < 0 ? r : 0;
}

void nvml_close(void *driver)
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

/* Of which there is that to tell, though none can be opened. */
static bool has_lost(const struct nvml *n)
{
	for (unsigned i = 0; i < n->n_devices; i++)
		if (nvml_is_lost(n->devices[i].why_closed))
			return true;
	return false;
}

int nvml_open(int root_fd, void **ret, struct err *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	struct err why_not = ERR_INIT;
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	n->root_fd = root_fd;
	r = nvml_load(n, &why_not);
	if (r == 0)
		r = begin_session(n, &why_not);
	if (r < 0 || (r == 0 && !has_lost(n))) {
		bool is_denied = r == 0 && n->n_devices == 0;

		nvml_close(n);
		if (err)
			*err = why_not;
		return r < 0 ? r : is_denied ? -EACCES : -EIO;
	}
	*ret = n;
	return 0;
}
