/*
 * gpu_nvml_load - the library itself: where it is, which functions it has, what it says.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "sources/gpu_nvml.h"

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

static int find_symbols(struct nvml *n, struct err *err)
{
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

int nvml_load(struct nvml *n, struct err *err)
{
	n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return tell_not_loaded(gpu_has_nvidia(n->root_fd) ? -ENOENT : -ENODEV, err);
	return find_symbols(n, err);
}

void nvml_unload(struct nvml *n)
{
	if (n->library)
		dlclose(n->library);
	n->library = NULL;
}
