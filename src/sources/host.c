#include "sources/host.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/proc_text.h"
#include "sources/sources.h"

#define FILE_MAX_BYTES 4096
#define NO_LIMIT_V1 (UINT64_C(1) << 62) /* v1 writes the largest number of whole pages there is */

/* A number of bytes; "max", and what v1 writes instead, is MEMORY_UNLIMITED. */
static uint64_t cgroup_bytes_parse(const char *text)
{
	uint64_t bytes;

	if (strcmp(text, "max\n") == 0)
		return MEMORY_UNLIMITED;
	if (field_scan_u64(&text, &bytes) < 0)
		return U64_UNKNOWN;
	return bytes >= NO_LIMIT_V1 ? MEMORY_UNLIMITED : bytes;
}

/* "/../x": outside of the namespace whose tree is below sys/fs/cgroup. */
static bool cgroup_is_outside(const char *path, size_t n)
{
	return n >= 3 && memcmp(path, "/..", 3) == 0 && (n == 3 || path[3] == '/');
}

/* ---- one cgroup ---- */

enum cgroup_content { CGROUP_COUNT, CGROUP_KILLS, CGROUP_PSI }; /* a count may be "max" */

struct cgroup_file {
	const char *name;
	enum cgroup_content content;
	size_t offset; /* of a count, in a cgroup_sample */
};

#define COUNT(name_, member_)                                                \
	{                                                                    \
		name_, CGROUP_COUNT, offsetof(struct cgroup_sample, member_) \
	}

static const struct cgroup_file files_v2[] = {
	COUNT("memory.current", memory_current_bytes),
	COUNT("memory.high", memory_high_bytes),
	COUNT("memory.max", memory_max_bytes),
	{ "memory.events", CGROUP_KILLS, 0 },
	{ "memory.pressure", CGROUP_PSI, 0 },
	COUNT("pids.current", pids_current),
	COUNT("pids.max", pids_max),
};

/* Its soft limit keeps nobody waiting, so it is no memory.high; and it has no PSI. A process may be
 * elsewhere in the hierarchy of pids. */
static const struct cgroup_file files_v1[] = {
	COUNT("memory.usage_in_bytes", memory_current_bytes),
	COUNT("memory.limit_in_bytes", memory_max_bytes),
	{ "memory.oom_control", CGROUP_KILLS, 0 }, /* with the count since Linux 4.13 */
};

static bool read_file(int root_fd, const char *mount, const struct cgroup_file *file,
		      struct cgroup_sample *c)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	char text[FILE_MAX_BYTES];

	buf_printf(&path, "%s%s/%s", mount, c->path, file->name);
	if (buf_error(&path) < 0 || io_read_text_at(root_fd, path.data, text, sizeof(text)) < 0)
		return false;
	if (file->content == CGROUP_KILLS)
		c->oom_kills = oom_kills_parse(text);
	else if (file->content == CGROUP_PSI)
		psi_parse(text, &c->psi_memory);
	else
		*(uint64_t *)(void *)((char *)c + file->offset) = cgroup_bytes_parse(text);
	return true;
}

static bool read_files(int root_fd, const char *mount, const struct cgroup_file *files, size_t n,
		       struct cgroup_sample *c)
{
	bool is_any = false;

	for (size_t i = 0; i < n; i++)
		is_any = read_file(root_fd, mount, &files[i], c) || is_any;
	return is_any;
}

/* ---- those of a snapshot ---- */

struct path_list {
	const char *items[CGROUPS_MAX];
	size_t n;
};

/* Processes of a job mostly share their cgroup, so the last of the list is asked first. */
static bool has_path(const struct path_list *list, const char *path)
{
	for (size_t i = list->n; i > 0; i--)
		if (strcmp(list->items[i - 1], path) == 0)
			return true;
	return false;
}

void cgroups_read(int root_fd, struct snapshot *s)
{
	struct path_list list = { .n = 0 };

	for (size_t i = 0; i < s->n_processes && list.n < ARRAY_SIZE(list.items); i++) {
		const char *path = s->processes[i].job_id ? s->processes[i].cgroup : NULL;

		if (path && !cgroup_is_outside(path, strlen(path)) && !has_path(&list, path))
			list.items[list.n++] = path;
	}
	s->n_cgroups = 0;
	s->cgroups = arena_alloc(&s->arena, (list.n + 1) * sizeof(*s->cgroups));
	for (size_t i = 0; s->cgroups && i < list.n; i++) {
		struct cgroup_sample *c = &s->cgroups[s->n_cgroups];

		cgroup_sample_init(c);
		c->path = list.items[i];
		if (read_files(root_fd, "sys/fs/cgroup", files_v2, ARRAY_SIZE(files_v2), c) ||
		    read_files(root_fd, "sys/fs/cgroup/memory", files_v1, ARRAY_SIZE(files_v1), c))
			s->n_cgroups++;
	}
}

/* ---- OOM kills ---- */

#define CGROUP_MAX_BYTES 65536 /* of proc/self/cgroup: a dozen lines, each with a path */
#define VMSTAT_MAX_BYTES (256 * 1024)

static uint64_t read_kills(int root_fd, const char *path)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	if (io_read_at(root_fd, path, VMSTAT_MAX_BYTES, &text) < 0)
		return U64_UNKNOWN;
	return oom_kills_parse(text.data);
}

void sources_read_oom(int root_fd, struct oom_counts *ret)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	const char *cgroup;
	size_t n;

	*ret = (struct oom_counts){ read_kills(root_fd, "proc/vmstat"), U64_UNKNOWN, false };
	if (io_read_at(root_fd, "proc/self/cgroup", CGROUP_MAX_BYTES, &text) < 0)
		return;
	cgroup = pid_memory_cgroup_parse(text.data, &n, &ret->is_cgroup_v1);
	if (!cgroup || cgroup_is_outside(cgroup, n))
		return;
	buf_add_str(&path, ret->is_cgroup_v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup");
	buf_add(&path, cgroup, n);
	buf_add_str(&path, ret->is_cgroup_v1 ? "/memory.oom_control" : "/memory.events");
	if (buf_error(&path) == 0)
		ret->cgroup = read_kills(root_fd, path.data);
}

/* ---- the whole machine ---- */

/* proc/stat has a line per CPU and a number per interrupt: large machines reach some 100 kB. */
#define HOST_MAX_BYTES (4 * 1024 * 1024)

enum host_file {
	HOST_MEMINFO,
	HOST_LOADAVG,
	HOST_STAT,
	HOST_VMSTAT,
	HOST_UPTIME,
	HOST_PSI_CPU,
	HOST_PSI_MEMORY,
	HOST_PSI_IO,
	HOST_BOOT_ID,
	N_HOST_FILES
};

static const char *const host_files[N_HOST_FILES] = {
	[HOST_MEMINFO] = "meminfo",
	[HOST_LOADAVG] = "loadavg",
	[HOST_STAT] = "stat",
	[HOST_VMSTAT] = "vmstat",
	[HOST_UPTIME] = "uptime",
	/* Absent without PSI in the kernel; EOPNOTSUPP at the read if it is switched off. */
	[HOST_PSI_CPU] = "pressure/cpu",
	[HOST_PSI_MEMORY] = "pressure/memory",
	[HOST_PSI_IO] = "pressure/io",
	[HOST_BOOT_ID] = "sys/kernel/random/boot_id",
};

int host_read(int proc_fd, const struct host_units *units, struct buf *text, struct snapshot *s)
{
	struct system_sample *system = &s->system;
	int result = 0;

	for (enum host_file file = 0; file < N_HOST_FILES; file++) {
		int r = io_read_at(proc_fd, host_files[file], HOST_MAX_BYTES, text);

		if (r == -EMFILE || r == -ENFILE)
			result = r;
		if (r < 0)
			continue;
		if (file == HOST_MEMINFO)
			meminfo_parse(text->data, system);
		else if (file == HOST_LOADAVG)
			loadavg_parse(text->data, system);
		else if (file == HOST_STAT)
			procstat_parse(text->data, units->clock_ticks, system);
		else if (file == HOST_VMSTAT)
			vmstat_parse(text->data, units->page_bytes, system);
		else if (file == HOST_UPTIME)
			uptime_parse(text->data, system);
		else if (file == HOST_BOOT_ID)
			boot_id_parse(text->data, s->boot_id);
		else
			psi_parse(text->data, file == HOST_PSI_CPU	? &system->psi_cpu
					      : file == HOST_PSI_MEMORY ? &system->psi_memory
									: &system->psi_io);
	}
	return result;
}
