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

/* ---- one file ---- */

static void take_current(const char *text, struct cgroup_sample *c)
{
	c->memory_current_bytes = cgroup_bytes_parse(text);
}

static void take_high(const char *text, struct cgroup_sample *c)
{
	c->memory_high_bytes = cgroup_bytes_parse(text);
}

static void take_max(const char *text, struct cgroup_sample *c)
{
	c->memory_max_bytes = cgroup_bytes_parse(text);
}

static void take_pressure(const char *text, struct cgroup_sample *c)
{
	psi_parse(text, &c->psi_memory);
}

static void take_kills(const char *text, struct cgroup_sample *c)
{
	c->oom_kills = oom_kills_parse(text);
}

/* Numbers, and "max", are written alike. */
static void take_pids(const char *text, struct cgroup_sample *c)
{
	c->pids_current = cgroup_bytes_parse(text);
}

static void take_pids_max(const char *text, struct cgroup_sample *c)
{
	c->pids_max = cgroup_bytes_parse(text);
}

struct cgroup_file {
	const char *name;
	void (*take)(const char *text, struct cgroup_sample *c);
};

static const struct cgroup_file files_v2[] = {
	{ "memory.current", take_current },   { "memory.high", take_high },
	{ "memory.max", take_max },	      { "memory.events", take_kills },
	{ "memory.pressure", take_pressure }, { "pids.current", take_pids },
	{ "pids.max", take_pids_max },
};

/* Its soft limit keeps nobody waiting, so it is no memory.high; and it has no PSI. A process may be
 * elsewhere in the hierarchy of pids. */
static const struct cgroup_file files_v1[] = {
	{ "memory.usage_in_bytes", take_current },
	{ "memory.limit_in_bytes", take_max },
	{ "memory.oom_control", take_kills }, /* with the count since Linux 4.13 */
};

/* ---- one cgroup ---- */

static bool read_file(int root_fd, const char *mount, const struct cgroup_file *file,
		      struct cgroup_sample *c)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	char text[FILE_MAX_BYTES];

	buf_printf(&path, "%s%s/%s", mount, c->path, file->name);
	if (buf_error(&path) < 0 || io_read_text_at(root_fd, path.data, text, sizeof(text)) < 0)
		return false;
	file->take(text, c);
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

static bool read_cgroup(int root_fd, struct cgroup_sample *c)
{
	return read_files(root_fd, "sys/fs/cgroup", files_v2, ARRAY_SIZE(files_v2), c) ||
	       read_files(root_fd, "sys/fs/cgroup/memory", files_v1, ARRAY_SIZE(files_v1), c);
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
		if (read_cgroup(root_fd, c))
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

uint64_t oom_read_host(int root_fd)
{
	return read_kills(root_fd, "proc/vmstat");
}

uint64_t oom_read_cgroup(int root_fd, bool *ret_is_v1)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(buf_release) struct buf path = BUF_INIT;
	const char *cgroup;
	size_t n;

	*ret_is_v1 = false;
	if (io_read_at(root_fd, "proc/self/cgroup", CGROUP_MAX_BYTES, &text) < 0)
		return U64_UNKNOWN;
	cgroup = pid_memory_cgroup_parse(text.data, &n, ret_is_v1);
	if (!cgroup || cgroup_is_outside(cgroup, n))
		return U64_UNKNOWN;
	buf_add_str(&path, *ret_is_v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup");
	buf_add(&path, cgroup, n);
	buf_add_str(&path, *ret_is_v1 ? "/memory.oom_control" : "/memory.events");
	return buf_error(&path) < 0 ? U64_UNKNOWN : read_kills(root_fd, path.data);
}

void sources_read_oom(int root_fd, struct oom_counts *ret)
{
	bool is_v1;

	ret->host = oom_read_host(root_fd);
	ret->cgroup = oom_read_cgroup(root_fd, &is_v1);
}

/* ---- the whole machine ---- */

/* proc/stat has a line per CPU and a number per interrupt: large machines reach some 100 kB. */
#define HOST_MAX_BYTES (4 * 1024 * 1024)

static void take_meminfo(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	meminfo_parse(text, &s->system);
}

static void take_loadavg(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	loadavg_parse(text, &s->system);
}

static void take_stat(const char *text, const struct host_units *units, struct snapshot *s)
{
	procstat_parse(text, units->clock_ticks, &s->system);
}

static void take_vmstat(const char *text, const struct host_units *units, struct snapshot *s)
{
	vmstat_parse(text, units->page_bytes, &s->system);
}

static void take_uptime(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	uptime_parse(text, &s->system);
}

static void take_psi_cpu(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	psi_parse(text, &s->system.psi_cpu);
}

static void take_psi_memory(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	psi_parse(text, &s->system.psi_memory);
}

static void take_psi_io(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	psi_parse(text, &s->system.psi_io);
}

static void take_boot_id(const char *text, const struct host_units *units, struct snapshot *s)
{
	(void)units;
	boot_id_parse(text, s->boot_id);
}

/* One row per file, and what takes its text. */
static const struct {
	const char *path;
	void (*take)(const char *text, const struct host_units *units, struct snapshot *s);
} host_files[] = {
	{ "meminfo", take_meminfo },
	{ "loadavg", take_loadavg },
	{ "stat", take_stat },
	{ "vmstat", take_vmstat },
	{ "uptime", take_uptime },
	/* Absent without PSI in the kernel; EOPNOTSUPP at the read if it is switched off. */
	{ "pressure/cpu", take_psi_cpu },
	{ "pressure/memory", take_psi_memory },
	{ "pressure/io", take_psi_io },
	{ "sys/kernel/random/boot_id", take_boot_id },
};

int host_read(int proc_fd, const struct host_units *units, struct buf *text, struct snapshot *s)
{
	int result = 0;

	for (size_t i = 0; i < ARRAY_SIZE(host_files); i++) {
		int r = io_read_at(proc_fd, host_files[i].path, HOST_MAX_BYTES, text);

		if (r == 0)
			host_files[i].take(text->data, units, s);
		else if (r == -EMFILE || r == -ENFILE)
			result = r;
	}
	return result;
}
