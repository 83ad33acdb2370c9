/*
 * gpu_holders - who has device files open, for what the drivers do not tell.
 *
 * A driver that has failed, or that lists a process which nobody knows here, leaves open who uses
 * its GPUs. But whoever has no device file open uses none, and whoever has, may.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu.h"

/* On how many devices a driver has told of it. */
static unsigned count_listed(const struct gpu_reading *r, const struct proc_key *key)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->n_processes; i++)
		n += r->processes[i].key.pid == key->pid &&
		     r->processes[i].key.start_ticks == key->start_ticks;
	return n;
}

/* Nothing of it could be read. */
static bool is_dark(const struct gpu_sample *device)
{
	return isnan(device->utilization_pct) && isnan(device->memory_used_mb) &&
	       isnan(device->temperature_c);
}

static bool has_dark_device(const struct gpu_reading *r)
{
	for (uint32_t i = 0; i < r->n_devices; i++)
		if (is_dark(&r->devices[i]))
			return true;
	return false;
}

/* One that has more devices open than it is listed on may use one that could not be read. */
static void add_if_holder(int root_fd, uint64_t pid, const struct gpu_files *files,
			  struct gpu_reading *ret)
{
	struct gpu_process p = { .device = GPU_DEVICE_UNKNOWN,
				 .memory_bytes = U64_UNKNOWN,
				 .utilization_pct = F64_UNKNOWN };
	uint64_t devices = 0;
	enum gpu_holds holds = gpu_holds_device(root_fd, pid, files, &devices);
	unsigned n_listed;

	if (holds == GPU_HOLDS_NOT)
		return;
	if (holds == GPU_HOLDS_MAYBE && !gpu_is_own(root_fd, pid)) {
		ret->only_own = 1;
		return;
	}
	if (!gpu_read_key(root_fd, pid, &p.key))
		return;
	n_listed = count_listed(ret, &p.key);
	if (n_listed == 0 ||
	    (has_dark_device(ret) && (unsigned)__builtin_popcountll(devices) > n_listed))
		gpu_add_process(ret, &p);
}

void gpu_add_holders(int root_fd, const struct gpu_files *files, struct gpu_reading *ret)
{
	int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t pid;

	if (!dir) {
		close_fd(&fd);
		ret->n_left_out++; /* whoever it is */
		return;
	}
	while ((entry = readdir(dir)))
		if (num_parse_u64(entry->d_name, &pid) == 0 && pid <= INT32_MAX)
			add_if_holder(root_fd, pid, files, ret);
	closedir(dir);
}

/* ---- who used one that cannot be read now ---- */

static bool is_on_dark_device(const struct gpu_process *p, const struct gpu_reading *r)
{
	return p->device >= 0 && (uint32_t)p->device < r->n_devices &&
	       is_dark(&r->devices[p->device]);
}

/* They stay until their device is read again. */
static void add_last_users(struct gpu_users *users, struct gpu_reading *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < users->n; i++) {
		struct gpu_process p = users->of[i];

		if (!is_on_dark_device(&p, ret))
			continue;
		users->of[n++] = p;
		p.device = GPU_DEVICE_UNKNOWN;
		p.memory_bytes = U64_UNKNOWN;
		p.utilization_pct = F64_UNKNOWN;
		gpu_add_process(ret, &p);
	}
	users->n = n;
}

static void keep_users(struct gpu_users *users, const struct gpu_reading *r)
{
	for (uint32_t i = 0; i < r->n_processes && users->n < GPU_MAX_PROCESSES; i++)
		if (r->processes[i].device >= 0)
			users->of[users->n++] = r->processes[i];
}

void gpu_find_left_out(int root_fd, struct gpu_users *users, struct gpu_reading *ret)
{
	uint32_t n_left_out = ret->n_left_out;

	add_last_users(users, ret);
	keep_users(users, ret);
	if (n_left_out == 0)
		return;
	gpu_add_holders(root_fd, &gpu_nvidia_files, ret);
	gpu_add_holders(root_fd, &gpu_drm_files, ret);
	ret->has_holders = ret->n_left_out == n_left_out && ret->n_processes < GPU_MAX_PROCESSES;
}
