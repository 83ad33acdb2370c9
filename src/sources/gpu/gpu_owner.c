/*
 * gpu_owner - which process a driver means.
 *
 * NVIDIA's driver names processes by a pid, and whose idea of pids that is
 * depends on its version and on the containers in between. So the process must
 * also be seen to hold a device file. Where that cannot be looked at (another
 * user's process), the pid is taken as it is only where there is no other idea.
 *
 * A look at all processes is dear where there are thousands: one look serves all pids that are
 * nobody's here, and is taken again when a new one comes, or after some seconds.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu/gpu.h"
#include "sources/proc_text.h"

#define STATUS_BYTES 8192
#define STAT_BYTES 2048
#define REMEMBERED_NS UINT64_C(10000000000)
#define SAME_LOOK_NS UINT64_C(1000000000) /* what is asked in one reading is asked of one look */

/* The first is NVIDIA's on every kernel, the second that of all others. */
const struct gpu_files gpu_nvidia_files = { "/dev/nvidia", 195 };
const struct gpu_files gpu_drm_files = { "/dev/dri/", 226 };

/* What stands behind the prefix in the path that a link leads to; NULL: it is no device file. */
static const char *find_device(int folder_fd, const char *name, const struct gpu_files *files,
			       char target[PATH_MAX])
{
	const char *found;
	struct stat st;

	if (io_read_link_at(folder_fd, name, target, PATH_MAX) < 0)
		return NULL;
	found = strstr(target, files->prefix);
	if (!found)
		return NULL;
	if (found != target && (fstatat(folder_fd, name, &st, 0) < 0 || !S_ISCHR(st.st_mode) ||
				major(st.st_rdev) != files->major))
		return NULL;
	return found + strlen(files->prefix);
}

bool gpu_is_device_file(int folder_fd, const char *name, const struct gpu_files *files)
{
	char target[PATH_MAX];

	return find_device(folder_fd, name, files, target);
}

/* Of "nvidia7" the bit 7; none of "nvidiactl", which all have open. */
static uint64_t bit_of(const char *number)
{
	uint64_t i;

	return num_parse_u64(number, &i) == 0 && i < 64 ? UINT64_C(1) << i : 0;
}

enum gpu_holds gpu_holds_device(int root_fd, uint64_t pid, const struct gpu_files *files,
				uint64_t *ret_devices)
{
	enum gpu_holds holds = GPU_HOLDS_NOT;
	const struct dirent *entry;
	char target[PATH_MAX];
	uint64_t devices = 0;
	char path[64];
	CLEANUP(dir_close) DIR *dir = NULL;

	snprintf(path, sizeof(path), "proc/%llu/fd", (unsigned long long)pid);
	dir = dir_open_at(root_fd, path);
	if (!dir)
		return errno == ENOENT || errno == ESRCH ? GPU_HOLDS_NOT : GPU_HOLDS_MAYBE;
	while ((!holds || ret_devices) && (entry = readdir(dir))) {
		const char *number =
			entry->d_name[0] == '.'
				? NULL
				: find_device(dirfd(dir), entry->d_name, files, target);

		if (!number)
			continue;
		holds = GPU_HOLDS;
		devices |= bit_of(number);
	}
	if (ret_devices)
		*ret_devices = devices;
	return holds;
}

bool gpu_read_key(int root_fd, uint64_t pid, struct proc_key *ret)
{
	char text[STAT_BYTES], state;

	if (pid > INT32_MAX ||
	    proc_read_text(root_fd, (pid_t)pid, "stat", text, sizeof(text)) < 0 ||
	    alive_parse_stat(text, &state, &ret->start_ticks) < 0)
		return false;
	ret->pid = (pid_t)pid;
	return true;
}

/* What is in its folder is root's where it may not be looked into; the folder itself is not. */
bool gpu_is_own(int root_fd, uint64_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "proc/%llu", (unsigned long long)pid);
	return fstatat(root_fd, path, &st, 0) == 0 && st.st_uid == geteuid();
}

static void look_at_all(struct gpu_owners *o, int root_fd, uint64_t now_ns)
{
	CLEANUP(dir_close) DIR *proc = dir_open_at(root_fd, "proc");
	char text[STATUS_BYTES];
	struct pid_status status;
	pid_t pid;

	o->n_inners = 0;
	o->has_all = proc != NULL;
	o->looked_boot_ns = now_ns;
	o->n_looks++;
	while (proc && (pid = dir_next_pid(proc)) > 0) {
		if (proc_read_text(root_fd, pid, "status", text, sizeof(text)) < 0)
			continue;
		pid_status_parse(text, &status); /* ns_pid: in the innermost namespace */
		if (!u64_known(status.ns_pid) || status.ns_pid == (uint64_t)pid ||
		    status.ns_pid > INT32_MAX)
			continue;
		if (o->n_inners < GPU_MAX_INNER)
			o->inners[o->n_inners++] = (struct gpu_inner){ (pid_t)status.ns_pid, pid };
		else
			o->has_all = false;
	}
}

/* There a pid can mean one process only. */
static bool is_first_namespace(int root_fd)
{
	char target[64];

	io_read_link_at(root_fd, "proc/self/ns/pid", target, sizeof(target));
	return strcmp(target, "pid:[4026531836]") == 0; /* the same on every kernel */
}

/* The one that has it here. */
static bool find_by_pid(int root_fd, uint64_t pid, const struct gpu_files *files,
			struct proc_key *ret)
{
	enum gpu_holds holds = gpu_holds_device(root_fd, pid, files, NULL);

	if (holds == GPU_HOLDS_MAYBE && is_first_namespace(root_fd))
		holds = GPU_HOLDS;
	return holds == GPU_HOLDS && gpu_read_key(root_fd, pid, ret);
}

/* ---- what is remembered ---- */

static void find_owner(struct gpu_owners *o, int root_fd, struct gpu_owner *owner,
		       const struct gpu_files *files, uint64_t look_max_age_ns)
{
	uint64_t now_ns = owner->found_boot_ns;
	uint64_t found = 0;
	size_t n = 0;

	if (owner->pid == 0 || owner->pid > INT32_MAX ||
	    find_by_pid(root_fd, owner->pid, files, &owner->key))
		return;
	if (o->looked_boot_ns == 0 || now_ns - o->looked_boot_ns >= look_max_age_ns)
		look_at_all(o, root_fd, now_ns);
	/* The only one with that pid in its namespace that holds a device. */
	for (size_t i = 0; o->has_all && i < o->n_inners && n < 2; i++) {
		uint64_t candidate = (uint64_t)o->inners[i].pid;

		if ((uint64_t)o->inners[i].inner != owner->pid ||
		    gpu_holds_device(root_fd, candidate, files, NULL) != GPU_HOLDS)
			continue;
		found = candidate;
		n++;
	}
	if (n == 1 && gpu_read_key(root_fd, found, &owner->key))
		return;
	owner->key.pid = 0;
	owner->is_old_news = o->looked_boot_ns < now_ns;
}

/* One that has ended means nobody any more, or another. */
bool gpu_owners_find(struct gpu_owners *o, int root_fd, uint64_t pid, const struct gpu_files *files,
		     struct proc_key *ret)
{
	struct gpu_owner *owner = NULL;
	uint64_t now_ns = clock_boot_ns(), max_age_ns = 0;
	bool has_ended = false, is_new = true;
	struct proc_key now;

	for (size_t i = 0; i < o->n && !owner; i++)
		if (o->items[i].pid == pid)
			owner = &o->items[i];
	if (owner) {
		has_ended = owner->key.pid != 0 &&
			    (!gpu_read_key(root_fd, (uint64_t)owner->key.pid, &now) ||
			     now.start_ticks != owner->key.start_ticks);
		is_new = has_ended || owner->is_old_news;
		/* Nobody, found in an older look than its pid is, stands until the next one. */
		max_age_ns = owner->is_old_news ? SAME_LOOK_NS : REMEMBERED_NS;
	}
	if (!owner || has_ended || now_ns - owner->found_boot_ns >= max_age_ns) {
		if (!owner && o->n < GPU_MAX_OWNERS)
			owner = &o->items[o->n++];
		else if (!owner)
			owner = &o->items[o->next++ % GPU_MAX_OWNERS];
		*owner = (struct gpu_owner){ .pid = pid, .found_boot_ns = now_ns };
		find_owner(o, root_fd, owner, files, is_new ? SAME_LOOK_NS : REMEMBERED_NS);
	}
	*ret = owner->key;
	return owner->key.pid != 0;
}

/*
 * ---- who has device files open, for what the drivers do not tell ----
 *
 * A driver that has failed, or that lists a process which nobody knows here, leaves open who uses
 * its GPUs. But whoever has no device file open uses none, and whoever has, may.
 */

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
	unsigned n_listed = 0; /* on how many devices a driver has told of it */

	if (holds == GPU_HOLDS_NOT)
		return;
	if (holds == GPU_HOLDS_MAYBE && !gpu_is_own(root_fd, pid)) {
		ret->only_own = 1;
		return;
	}
	if (!gpu_read_key(root_fd, pid, &p.key))
		return;
	for (uint32_t i = 0; i < ret->n_processes; i++)
		n_listed += proc_key_is(&ret->processes[i].key, &p.key);
	if (n_listed == 0 ||
	    (has_dark_device(ret) && (unsigned)__builtin_popcountll(devices) > n_listed))
		gpu_add_process(ret, &p);
}

void gpu_add_holders(int root_fd, const struct gpu_files *files, struct gpu_reading *ret)
{
	CLEANUP(dir_close) DIR *proc = dir_open_at(root_fd, "proc");
	pid_t pid;

	if (!proc)
		ret->n_left_out++; /* whoever it is */
	while (proc && (pid = dir_next_pid(proc)) > 0)
		add_if_holder(root_fd, (uint64_t)pid, files, ret);
}

/* ---- who used one that cannot be read now ---- */

static bool is_on_dark_device(const struct gpu_process *p, const struct gpu_reading *r)
{
	return p->device >= 0 && (uint32_t)p->device < r->n_devices &&
	       is_dark(&r->devices[p->device]);
}

void gpu_find_left_out(int root_fd, struct gpu_users *users, struct gpu_reading *ret)
{
	uint32_t n_left_out = ret->n_left_out;
	uint32_t n = 0;

	/* They stay until their device is read again. */
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
	for (uint32_t i = 0; i < ret->n_processes && users->n < GPU_MAX_PROCESSES; i++)
		if (ret->processes[i].device >= 0)
			users->of[users->n++] = ret->processes[i];
	if (n_left_out == 0)
		return;
	gpu_add_holders(root_fd, &gpu_nvidia_files, ret);
	gpu_add_holders(root_fd, &gpu_drm_files, ret);
	ret->has_holders = ret->n_left_out == n_left_out && ret->n_processes < GPU_MAX_PROCESSES;
}
