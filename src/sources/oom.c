#include "sources/oom.h"

#include <stddef.h>

#include "base/io.h"
#include "base/unknown.h"
#include "sources/cgroups.h"
#include "sources/parse_host.h"
#include "sources/parse_process.h"
#include "sources/sources.h"

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
