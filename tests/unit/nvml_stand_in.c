#include "nvml_stand_in.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sources/gpu/nvml.h"

static struct nvml_stand_in told;
static char devices[STAND_IN_GPUS]; /* whose addresses are their handles */

struct nvml_stand_in *nvml_stand_in(void)
{
	return &told;
}

static unsigned index_of(nvml_device device)
{
	return (unsigned)((char *)device - devices);
}

/* The number of a device in a file with one for each, or one for all; -1: there is none. */
static int read_number(const char *path, nvml_device device)
{
	FILE *file = fopen(path, "re");
	int number = -1;

	for (unsigned i = 0; file && i <= index_of(device); i++)
		if (fscanf(file, "%d", &number) != 1)
			break;
	if (file)
		fclose(file);
	return number;
}

/* The process that holds a device; 0: none does. */
static unsigned holder(nvml_device device)
{
	const char *path = getenv("STAND_IN_PID_FILE");
	int pid = path ? read_number(path, device) : (int)told.pid;

	return pid > 0 ? (unsigned)pid : 0;
}

static bool is_idle(nvml_device device)
{
	const char *path = getenv("STAND_IN_IDLE_FILE");

	return path && access(path, F_OK) == 0 && read_number(path, device) != 0;
}

static void hear(const char *variable, const char **ret)
{
	if (getenv(variable))
		*ret = getenv(variable);
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
	told.n_sessions++;
	hear("STAND_IN_FAIL_FILE", &told.fail_path);
	hear("STAND_IN_CRASH_FILE", &told.crash_path);
	hear("STAND_IN_HANG_FILE", &told.hang_path);
	hear("STAND_IN_LOST_FILE", &told.lost_path);
	if (getenv("STAND_IN_MISSING"))
		told.n_missing = (unsigned)atoi(getenv("STAND_IN_MISSING"));
	return getenv("STAND_IN_INIT_RESULT") ? atoi(getenv("STAND_IN_INIT_RESULT"))
					      : told.init_result;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
	return NVML_OK;
}

const char *nvmlErrorString(int result);
const char *nvmlErrorString(int result)
{
	if (told.error_text)
		return told.error_text;
	return result == NVML_GPU_IS_LOST ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = STAND_IN_GPUS - told.n_missing;
	return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *ret)
{
	i += told.n_missing;
	*ret = (nvml_device)(void *)&devices[i];
	return told.handle_result[i];
}

int nvmlDeviceGetUUID(nvml_device device, char *ret, unsigned size);
int nvmlDeviceGetUUID(nvml_device device, char *ret, unsigned size)
{
	snprintf(ret, size, "GPU-%u", index_of(device));
	return NVML_OK;
}

int nvmlDeviceGetName(nvml_device device, char *ret, unsigned size);
int nvmlDeviceGetName(nvml_device device, char *ret, unsigned size)
{
	const char *name = "stand-in";

	hear("STAND_IN_NAME", &name);
	snprintf(ret, size, "%s %u", name, index_of(device));
	return NVML_OK;
}

/* Of an older library: there is no _v2 here. */
int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory_v1 *ret);
int nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory_v1 *ret)
{
	(void)device;
	*ret = (struct nvml_memory_v1){ .total = 8 << 20, .used = 3 << 20 };
	return NVML_OK;
}

int nvmlEventSetCreate(nvml_event_set *ret);
int nvmlEventSetCreate(nvml_event_set *ret)
{
	*ret = (nvml_event_set)(void *)devices;
	return NVML_OK;
}

int nvmlEventSetFree(nvml_event_set set);
int nvmlEventSetFree(nvml_event_set set)
{
	(void)set;
	return NVML_OK;
}

int nvmlDeviceRegisterEvents(nvml_device device, unsigned long long types, nvml_event_set set);
int nvmlDeviceRegisterEvents(nvml_device device, unsigned long long types, nvml_event_set set)
{
	(void)device, (void)types, (void)set;
	return NVML_OK;
}

int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *ret, unsigned ms);
int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *ret, unsigned ms)
{
	(void)set, (void)ms;
	if (told.xid == 0)
		return NVML_TIMEOUT;
	*ret = (struct nvml_event){ .device = (nvml_device)(void *)&devices[STAND_IN_GPUS - 1],
				    .type = NVML_EVENT_XID,
				    .data = told.xid };
	told.xid = 0;
	return NVML_OK;
}

int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret);
int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret)
{
	if (told.crash_path && access(told.crash_path, F_OK) == 0)
		abort();
	while (told.hang_path && access(told.hang_path, F_OK) == 0) {
		if (told.hanging_pid)
			__atomic_store_n(told.hanging_pid, getpid(), __ATOMIC_SEQ_CST);
		usleep(10000);
	}
	ret->gpu = is_idle(device) ? 0 : (unsigned)((int)(10 + index_of(device)) + told.use_more);
	if (told.fail_path && access(told.fail_path, F_OK) == 0)
		return NVML_UNINITIALIZED;
	if (told.lost_path && index_of(device) == 1 && access(told.lost_path, F_OK) == 0)
		return NVML_GPU_IS_LOST;
	return told.use_result[index_of(device)];
}

/* Also of an older one, beside a newer one for those that draw. */
int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device device, unsigned *count,
					    struct nvml_process_v3 *ret);
int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device device, unsigned *count,
					    struct nvml_process_v3 *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->pid = holder(device);
	ret->used_memory = 1 << 20;
	*count = ret->pid != 0;
	return told.list_result;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count,
					     struct nvml_process_v3 *ret);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device device, unsigned *count,
					     struct nvml_process_v3 *ret)
{
	(void)device, (void)ret;
	*count = 0;
	return NVML_OK;
}

int nvmlDeviceGetProcessUtilization(nvml_device device, struct nvml_process_utilization *ret,
				    unsigned *count, unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(nvml_device device, struct nvml_process_utilization *ret,
				    unsigned *count, unsigned long long since_us)
{
	told.n_share_asks += index_of(device) == 0;
	told.asked_since_us = since_us;
	*count = told.shares_result == NVML_OK && since_us <= told.newest_us - 1 &&
		 (told.share > 0 || getenv("STAND_IN_PID_FILE"));
	ret[0] = (struct nvml_process_utilization){ .pid = holder(device),
						    .time_us = since_us + 1,
						    .sm = is_idle(device) ? 0
							  : told.share	  ? told.share
									  : 40 };
	return told.shares_result;
}
