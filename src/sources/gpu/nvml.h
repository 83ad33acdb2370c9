/*
 * nvml - the functions of NVIDIA's library that are called, and what a session with it keeps.
 *
 * Declared here, so that nothing of NVIDIA's is needed to build. Layouts and numbers are those of
 * the library's stable interface; names end in _v2 and _v3 where an older function of the same name
 * has another layout.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sources/gpu/gpu.h"

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

enum nvml_result {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_VERSION_MISMATCH = 18, /* of the library and the driver */
};

#define NVML_NOT_AVAILABLE (~0ULL)

struct nvml_utilization {
	unsigned gpu, memory; /* percent of the last sampling period */
};

struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_V2_VERSION ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_memory_v1 {
	unsigned long long total, free, used;
};

/* The same for _v2 of the functions that list them. */
struct nvml_process_v3 {
	unsigned pid;
	unsigned long long used_memory;
	unsigned gpu_instance, compute_instance;
};

struct nvml_process_utilization {
	unsigned pid;
	unsigned long long time_us;
	unsigned sm, memory, encoder, decoder;
};

struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};
#define NVML_EVENT_XID 8ULL

#define NVML_TEMPERATURE_GPU 0
#define NVML_CLOCK_SM 1
#define NVML_ECC_UNCORRECTED 1
#define NVML_ECC_SINCE_RESET 0

/* One pointer for each function, found by name. */
struct nvml_calls {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int);
	int (*count)(unsigned *);
	int (*handle)(unsigned, nvml_device *);
	int (*name)(nvml_device, char *, unsigned);
	int (*uuid)(nvml_device, char *, unsigned);
	int (*utilization)(nvml_device, struct nvml_utilization *);
	int (*memory)(nvml_device, struct nvml_memory_v2 *);
	int (*memory_v1)(nvml_device, struct nvml_memory_v1 *);
	int (*temperature)(nvml_device, int, unsigned *);
	int (*power)(nvml_device, unsigned *);
	int (*clock)(nvml_device, int, unsigned *);
	int (*throttle)(nvml_device, unsigned long long *);
	int (*ecc)(nvml_device, int, int, unsigned long long *);
	int (*energy)(nvml_device, unsigned long long *);
	int (*compute_processes)(nvml_device, unsigned *, struct nvml_process_v3 *);
	int (*graphics_processes)(nvml_device, unsigned *, struct nvml_process_v3 *);
	int (*process_utilization)(nvml_device, struct nvml_process_utilization *, unsigned *,
				   unsigned long long);
	int (*event_set_create)(nvml_event_set *);
	int (*event_set_free)(nvml_event_set);
	int (*register_events)(nvml_device, unsigned long long, nvml_event_set);
	int (*event_wait)(nvml_event_set, struct nvml_event *, unsigned);
};

/* ---- a session ---- */

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
	bool was_opened;
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
