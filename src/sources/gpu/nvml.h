/*
 * nvml - a session with NVIDIA's library: inside gpu_nvml*.c.
 */
#ifndef PROCTOR_SOURCES_GPU_NVML_H
#define PROCTOR_SOURCES_GPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "sources/gpu/gpu.h"
#include "sources/gpu/nvml_abi.h"

#define NVML_UUID_BYTES GPU_ID_BYTES
#define NVML_MAX_SHARES 1024

/* A process that was listed when the shares were asked for. */
struct nvml_asked {
	unsigned pid;
	bool is_new; /* the time before it was not: it may have been busy for too short to be told
		      */
};

/* What is remembered of a device between two readings. */
struct nvml_gpu {
	nvml_device handle;  /* NULL: it is lost, or could not be opened, */
	int why_closed;	     /* which is what the library said of it; NVML_OK: nothing yet */
	int number;	     /* by which the library calls it in this session; -1: not known */
	nvml_device told_as; /* its handle in this session, also when it is lost since */
	char name[GPU_NAME_BYTES];
	char uuid[NVML_UUID_BYTES];		 /* "": not told */
	uint64_t shares_boot_ns, energy_boot_ns; /* when the dear ones were asked; 0: never */
	uint64_t listed_boot_ns;		 /* when its processes were last read; 0: never */
	uint64_t young_until_ns; /* a process is new to it: shares are asked often */
	uint64_t shares_time_us; /* the newest sample that was told */
	double shares_use_pct;	 /* the device's own use when they were asked; NaN: not told */
	bool has_moved;		 /* since the time before: what is told is of both */
	uint64_t energy_mj;
	uint64_t xid; /* the last one; U64_UNKNOWN: none since we look */
	struct nvml_process_utilization *shares;
	unsigned n_shares;
	bool shares_known; /* then who was listed and has none was not busy */
	struct nvml_asked *asked;
	unsigned n_asked;
};

struct nvml {
	int root_fd;
	void *library;
	struct nvml_calls call;
	bool is_initialised;
	nvml_event_set events; /* NULL: it tells of none */
	struct gpu_owners owners;
	uint64_t opened_boot_ns;
	struct nvml_gpu devices[GPU_MAX_DEVICES];
	unsigned n_devices;
	unsigned n_counted; /* by the library, in this session */
	unsigned n_denied;  /* of them, not for us; who was not read before has no place */
	struct nvml_process_v3 list[2 * GPU_MAX_PROCESSES]; /* of the device that is read */
	unsigned n_listed;
};

/* ---- the library, a session with it, and its GPUs (nvml_session.c) ---- */

/* What the library calls a failure. */
const char *nvml_word(const struct nvml *n, int result);

/* The same in a sentence; returns -EIO, or -EACCES. */
int nvml_tell(const struct nvml *n, int result, const char *what, struct err *err);

int nvml_open(int root_fd, void **ret, struct err *err);
void nvml_close(void *driver);

/*
 * Ends the session and begins another, in which GPUs that were lost may be back. Each
 * keeps its place. A failure: there is no session any more.
 */
int nvml_begin_anew(struct nvml *n, struct err *err);

void nvml_keep_places(void *driver, const struct gpu_places *places);
const char *nvml_id(const void *driver, size_t i);

/* ---- what a device tells (nvml.c) ---- */

/* Whether that is said of a device which has fallen off the bus, or must be reset. */
bool nvml_is_lost(int result);

#endif
