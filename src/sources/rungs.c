#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/unknown.h"
#include "sources/oom.h"
#include "sources/sources.h"

#define NO_EBPF "this build has no eBPF programs"

#define PROBE_MAX_BYTES 4096

static const char no_proc[] = "/proc is not mounted, or cannot be read";

static bool has_proc(int root_fd)
{
	return faccessat(root_fd, "proc/self/stat", R_OK, 0) == 0;
}

static struct rung probe_samples(int root_fd, struct arena *arena)
{
	(void)arena;
	if (!has_proc(root_fd))
		return (struct rung){ "process samples", "none", no_proc };
	return (struct rung){ "process samples", "/proc", NO_EBPF };
}

static struct rung probe_life(int root_fd, struct arena *arena)
{
	static const char what[] = SOURCES_RUNG_BIRTHS;
	struct life *life = NULL;
	struct err err = ERR_INIT;
	const char *why;

	(void)root_fd;
	if (life_open(&life, &err) == 0) {
		life_close(life);
		return (struct rung){ what, "netlink proc connector", NO_EBPF };
	}
	why = arena_strdup(arena, err.text);
	return (struct rung){ what, SOURCES_RUNG_BIRTHS_POLLING, why ? why : "" };
}

static struct rung probe_syscalls(int root_fd, struct arena *arena)
{
	(void)root_fd;
	(void)arena;
	return (struct rung){ "syscall counts and time", "unknown",
			      NO_EBPF " and does not run strace" };
}

static struct rung probe_trace(int root_fd, struct arena *arena)
{
	(void)root_fd;
	(void)arena;
	return (struct rung){ "full trace on demand", "none", "this build does not run strace" };
}

static struct rung probe_gpu(int root_fd, struct arena *arena)
{
	(void)arena;
	if (!sources_has_gpu(root_fd))
		return (struct rung){ SOURCES_RUNG_GPU, "none", "this host has none" };
	return (struct rung){ SOURCES_RUNG_GPU, "none", "the drivers are asked while a job runs" };
}

static struct rung probe_memory(int root_fd, struct arena *arena)
{
	(void)arena;
	if (!has_proc(root_fd))
		return (struct rung){ "memory truth", "ru_maxrss (wait4)", no_proc };
	return (struct rung){ "memory truth", "VmHWM (proc/PID/status)",
			      "this build does not read the memory files of cgroups" };
}

static struct rung probe_oom(int root_fd, struct arena *arena)
{
	static const char what[] = "OOM kills";
	bool is_v1;

	(void)arena;
	if (u64_known(oom_read_cgroup(root_fd, &is_v1)))
		return (struct rung){ what,
				      is_v1 ? "cgroup memory.oom_control" : "cgroup memory.events",
				      NO_EBPF };
	if (u64_known(oom_read_host(root_fd)))
		return (struct rung){ what, "a guess by the host's counter (proc/vmstat oom_kill)",
				      NO_EBPF
				      ", and this process's cgroup has no count that can be read" };
	return (struct rung){ what, "unknown",
			      "the kernel counts them neither for the cgroup nor in proc/vmstat" };
}

static struct rung probe_pressure(int root_fd, struct arena *arena)
{
	static const char what[] = "host pressure";
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	int r = io_read_at(root_fd, "proc/pressure/memory", PROBE_MAX_BYTES, &text);

	(void)arena;
	if (r == 0)
		return (struct rung){ what, "PSI (proc/pressure)", "" };
	if (r == -EOPNOTSUPP)
		return (struct rung){ what, "unknown", "PSI is switched off (boot with psi=1)" };
	return (struct rung){ what, "unknown",
			      "proc/pressure cannot be read: a kernel without PSI" };
}

/* In the order in which they are shown. */
static struct rung (*const probes[])(int root_fd, struct arena *arena) = {
	probe_samples, probe_life,   probe_syscalls, probe_trace,
	probe_gpu,     probe_memory, probe_oom,	     probe_pressure,
};
_Static_assert(ARRAY_SIZE(probes) <= SOURCES_MAX_RUNGS, "the caller's array has room for all");

size_t sources_probe_rungs(int root_fd, struct arena *arena, struct rung *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		ret[i] = probes[i](root_fd, arena);
	return ARRAY_SIZE(probes);
}
