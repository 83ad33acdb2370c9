#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/unknown.h"
#include "sources/ebpf.h"
#include "sources/host.h"
#include "sources/sources.h"
#include "sources/tasks.h"

#define PROBE_MAX_BYTES 4096

static const char *why_no_proc(int root_fd)
{
	return root_fd == -EXDEV ? PROC_IS_FOREIGN : "/proc is not mounted, or cannot be read";
}

static bool has_proc(int root_fd)
{
	return faccessat(root_fd, "proc/self/stat", R_OK, 0) == 0;
}

/* ---- commands that let others work ---- */

/* One of the words of needs must be there, if there are any: separated by blanks. */
static const struct {
	const char *program, *needs, *why;
} clients[] = {
	{ "srun", NULL,
	  "srun starts the work by Slurm's daemons, and only srun itself is measured: \"srun … "
	  "proctor run --job NAME COMMAND\" measures the work" },
	{ "sbatch", NULL,
	  "sbatch queues the work and ends, and only sbatch itself is measured: \"proctor run\" in "
	  "the batch script measures the work" },
	{ "mpirun", " -H -host --host -hostfile --hostfile -machinefile --machinefile ",
	  "mpirun may start work on other hosts, and only this one's is measured: \"mpirun … proctor "
	  "run --job NAME COMMAND\" measures each" },
	{ "mpiexec", " -H -f -host --host -hosts --hosts -hostfile --hostfile -machinefile ",
	  "mpiexec may start work on other hosts, and only this one's is measured: \"mpiexec … proctor "
	  "run --job NAME COMMAND\" measures each" },
	{ "docker", " run exec start compose build ",
	  "docker lets its daemon do the work, and only the client is measured: \"proctor run\" in "
	  "the container, or \"proctor attach --pid PID --job NAME\", measures the work" },
	{ "ssh", NULL,
	  "ssh runs the work on another host, and only ssh itself is measured: \"ssh HOST proctor "
	  "run COMMAND\" measures the work" },
	{ "kubectl", " run exec apply create ",
	  "kubectl lets a cluster do the work, and only the client is measured: \"proctor run\" in "
	  "the container measures the work" },
};

/* The next word, without the folders before its name; NULL: there is none. */
static const char *next_word(const char **at, char word[64])
{
	size_t n;
	const char *begin = *at + strspn(*at, " ");

	n = strcspn(begin, " ");
	*at = begin + n;
	for (size_t i = n; i > 0; i--)
		if (begin[i - 1] == '/') {
			begin += i;
			n -= i;
			break;
		}
	snprintf(word, 64, "%.*s", (int)(n < 63 ? n : 63), begin);
	return n > 0 ? word : NULL;
}

const char *sources_work_elsewhere(const char *command)
{
	char word[64], wanted[80];
	const char *at = command ? command : "";

	if (!next_word(&at, word))
		return NULL;
	if (strcmp(word, "sh") == 0 || strcmp(word, "bash") == 0)
		return strncmp(at, " -c ", 4) == 0 ? sources_work_elsewhere(at + 4) : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		if (strcmp(word, clients[i].program) != 0)
			continue;
		if (!clients[i].needs)
			return *at ? clients[i].why : NULL;
		while (next_word(&at, word)) {
			word[strcspn(word, "=")] = '\0';
			snprintf(wanted, sizeof(wanted), " %s ", word);
			if (strstr(clients[i].needs, wanted))
				return clients[i].why;
		}
		return NULL;
	}
	return NULL;
}

/* What the probes look at, and where they put their sentences. */
struct probe {
	int root_fd;
	bool want_ebpf;
	const char *why_no_ebpf;     /* where it is not wanted */
	struct life *life;	     /* that listens already; NULL */
	const char *why_no_syscalls; /* they are not wanted, even so; NULL: they are */
	struct arena *arena;
	struct rung births;
	const char *why_no_oom;
	bool sees_oom;
};

static const char *keep_why(const struct probe *p, const struct err *err)
{
	const char *why = arena_strdup(p->arena, err->text);

	return why ? why : "";
}

struct rung rung_of_samples(bool is_ebpf, const char *why)
{
	static const char what[] = SOURCES_RUNG_SAMPLES;

	return is_ebpf ? (struct rung){ what, "eBPF task iterator", "" }
		       : (struct rung){ what, "/proc", why };
}

/* A kernel may let it be loaded, and not be read. */
static int try_tasks(struct err *err)
{
	struct tasks *tasks = NULL;
	const pid_t own = getpid();
	struct task_list list;
	int r = tasks_open(false, &tasks, err);

	if (r < 0)
		return r;
	r = tasks_read(tasks, &own, 1, &list);
	tasks_close(tasks);
	return r < 0 ? ebpf_fail(err, r, SOURCES_RUNG_SAMPLES) : 0;
}

static int try_syscalls(struct err *err)
{
	struct syscalls *syscalls = NULL;
	int r = syscalls_open(NULL, &syscalls, err);

	if (r == 0)
		r = syscalls_check(syscalls, err);
	syscalls_close(syscalls);
	return r;
}

static struct rung probe_samples(const struct probe *p)
{
	struct err err = ERR_INIT;

	if (!has_proc(p->root_fd))
		return (struct rung){ SOURCES_RUNG_SAMPLES, "none", why_no_proc(p->root_fd) };
	if (!p->want_ebpf)
		return rung_of_samples(false, p->why_no_ebpf);
	if (try_tasks(&err) < 0)
		return rung_of_samples(false, keep_why(p, &err));
	return rung_of_samples(true, "");
}

static struct rung probe_life(const struct probe *p)
{
	return p->births;
}

static struct rung probe_syscalls(const struct probe *p)
{
	static const char what[] = SOURCES_RUNG_SYSCALLS;
	struct err err = ERR_INIT, why = ERR_INIT;

	if (!p->want_ebpf || p->why_no_syscalls)
		return (struct rung){ what, "unknown",
				      p->want_ebpf ? p->why_no_syscalls : p->why_no_ebpf };
	if (try_syscalls(&err) == 0)
		return (struct rung){ what, SOURCES_RUNG_SYSCALLS_EBPF, "" };
	err_set(&why, err.code, "%.400s; and strace %s", err.text,
		sources_has_strace()
			? "is slow, and taken only where --syscalls or strace_enabled ask for it"
			: "is not installed");
	return (struct rung){ what, "unknown", keep_why(p, &why) };
}

/* Where the kernel has Yama that says who may trace a process of the same user. */
enum { TRACE_ALL, TRACE_ONLY_STARTED, TRACE_ONLY_ROOT, TRACE_NOBODY };

bool ebpf_has_capability(unsigned capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &header, data) == 0 &&
	       data[capability / 32].effective >> capability % 32 & 1;
}

static struct rung probe_trace(const struct probe *p)
{
	static const char what[] = "full trace on demand", rung[] = "strace -f -t";
	int scope;
	char text[16];
	ssize_t n = io_read_text_at(p->root_fd, "proc/sys/kernel/yama/ptrace_scope", text,
				    sizeof(text));

	scope = n > 0 && text[0] >= '0' && text[0] <= '3' ? text[0] - '0' : TRACE_ALL;

	if (!sources_has_strace())
		return (struct rung){ what, "none", "strace is not installed" };
	if (scope == TRACE_NOBODY)
		return (struct rung){ what, "none",
				      "nobody may trace here (kernel.yama.ptrace_scope is 3)" };
	if (scope == TRACE_ALL || ebpf_has_capability(CAP_SYS_PTRACE))
		return (struct rung){ what, rung, "" };
	if (scope == TRACE_ONLY_ROOT)
		return (struct rung){ what, "none",
				      "only root (CAP_SYS_PTRACE) may trace here "
				      "(kernel.yama.ptrace_scope is 2)" };
	return (struct rung){ what, rung,
			      "of processes that allow it: only root (CAP_SYS_PTRACE) may trace "
			      "what others have started (kernel.yama.ptrace_scope is 1)" };
}

static struct rung probe_gpu(const struct probe *p)
{
	if (!sources_has_gpu(p->root_fd))
		return (struct rung){ SOURCES_RUNG_GPU, "none", "this host has none" };
	return (struct rung){ SOURCES_RUNG_GPU, "none", "the drivers are asked while a job runs" };
}

static struct rung probe_memory(const struct probe *p)
{
	if (!has_proc(p->root_fd))
		return (struct rung){ "memory truth", "ru_maxrss (wait4)",
				      why_no_proc(p->root_fd) };
	return (struct rung){
		"memory truth", "VmHWM (proc/PID/status)",
		"memory.peak of a job's cgroup counts the page cache, too: it is listed beside it"
	};
}

static struct rung probe_oom(const struct probe *p)
{
	static const char what[] = SOURCES_RUNG_OOM;
	struct oom_counts oom;

	if (p->sees_oom)
		return (struct rung){ what, SOURCES_RUNG_OOM_EBPF, "" };
	sources_read_oom(p->root_fd, &oom);
	if (u64_known(oom.cgroup))
		return (struct rung){ what,
				      oom.is_cgroup_v1 ? "cgroup memory.oom_control"
						       : "cgroup memory.events",
				      p->why_no_oom };
	if (u64_known(oom.host))
		return (struct rung){
			what, "a guess by the host's counter (proc/vmstat oom_kill)",
			"no eBPF here, and this process's cgroup has no count that can be read"
		};
	return (struct rung){ what, "unknown",
			      "the kernel counts them neither for the cgroup nor in proc/vmstat" };
}

static struct rung probe_pressure(const struct probe *p)
{
	static const char what[] = "host pressure";
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	int r = io_read_at(p->root_fd, "proc/pressure/memory", PROBE_MAX_BYTES, &text);

	if (r == 0)
		return (struct rung){ what, "PSI (proc/pressure)", "" };
	if (r == -EOPNOTSUPP)
		return (struct rung){ what, "unknown", "PSI is switched off (boot with psi=1)" };
	return (struct rung){ what, "unknown",
			      "proc/pressure cannot be read: a kernel without PSI" };
}

/* In the order in which they are shown. */
static struct rung (*const probes[])(const struct probe *p) = {
	probe_samples, probe_life,   probe_syscalls, probe_trace,
	probe_gpu,     probe_memory, probe_oom,	     probe_pressure,
};
_Static_assert(ARRAY_SIZE(probes) <= SOURCES_MAX_RUNGS, "the caller's array has room for all");

static void take_life(struct probe *p, const struct life *life)
{
	struct rung taken = life_rung(life);

	p->births = (struct rung){ taken.measurement, taken.rung,
				   arena_strdup(p->arena, taken.reason) };
	p->sees_oom = life_sees_oom(life);
	p->why_no_oom = arena_strdup(p->arena, life_why_no_better(life));
}

static size_t probe_all(struct probe *p, struct rung *ret)
{
	const struct life_options options = { .want_ebpf = p->want_ebpf,
					      .why_no_ebpf = p->why_no_ebpf };
	struct life *life = NULL;
	struct err err = ERR_INIT;

	/* One listener answers both rows: births and deaths, and OOM kills. */
	p->births = (struct rung){ SOURCES_RUNG_BIRTHS, SOURCES_RUNG_BIRTHS_POLLING, "" };
	if (p->life)
		take_life(p, p->life);
	else if (life_open_with(&options, &life, &err) == 0)
		take_life(p, life);
	else
		p->births.reason = keep_why(p, &err);
	if (!p->why_no_oom)
		p->why_no_oom = p->births.reason;
	life_close(life);
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		ret[i] = probes[i](p);
	return ARRAY_SIZE(probes);
}

size_t sources_probe_rungs(int root_fd, struct life *life, struct arena *arena, struct rung *ret)
{
	struct probe p = { .root_fd = root_fd,
			   .arena = arena,
			   .why_no_ebpf = SOURCES_EBPF_TOO_SLOW,
			   .life = life };
	struct err err = ERR_INIT;

	if (ebpf_check(&err) < 0) /* nor would a daemon of this user */
		p.why_no_ebpf = keep_why(&p, &err);
	return probe_all(&p, ret);
}

size_t sources_probe_ebpf_rungs(int root_fd, const struct probe_allows *allows, struct arena *arena,
				struct rung *ret)
{
	struct probe p = { .root_fd = root_fd,
			   .want_ebpf = allows->ebpf,
			   .why_no_ebpf = SOURCES_EBPF_FORBIDDEN,
			   .why_no_syscalls = allows->syscalls ? NULL : SOURCES_SYSCALLS_FORBIDDEN,
			   .arena = arena };

	return probe_all(&p, ret);
}
