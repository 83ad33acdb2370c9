#include "nvml_stand_in.h"

#include <string.h>

#include "sources/gpu_nvml_abi.h"

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

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
	told.n_sessions++;
	return NVML_OK;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
	return NVML_OK;
}

const char *nvmlErrorString(int result);
const char *nvmlErrorString(int result)
{
	return result == NVML_GPU_IS_LOST ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = STAND_IN_GPUS;
	return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *ret)
{
	*ret = (nvml_device)(void *)&devices[i];
	return told.handle_result[i];
}

int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret);
int nvmlDeviceGetUtilizationRates(nvml_device device, struct nvml_utilization *ret)
{
	ret->gpu = 10 + index_of(device);
	return told.use_result[index_of(device)];
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count,
					    struct nvml_process_v3 *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count,
					    struct nvml_process_v3 *ret)
{
	(void)device;
	memset(ret, 0, sizeof(*ret));
	ret->pid = told.pid;
	ret->used_memory = 1 << 20;
	*count = told.pid != 0;
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
	(void)device;
	*count = told.shares_result == NVML_OK;
	ret[0] = (struct nvml_process_utilization){ .pid = told.pid,
						    .time_us = since_us + 1,
						    .sm = 40 };
	return told.shares_result;
}
