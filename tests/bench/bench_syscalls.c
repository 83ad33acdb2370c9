/*
 * bench_syscalls - how much slower a program runs while its system calls are counted.
 *
 * The programs: a loop of getppid(), which does nothing else; find over /usr; tar of
 * /usr/include into /dev/zero; a fork storm, each child of which ends at once. The methods:
 * programs that do nothing, on both ends of each call (the floor); armed for somebody else (the
 * untraced neighbour); counted, with the times of one call in 64; counted and timed, also without
 * where the time of the threads goes; strace -c -f. One JSON line each, with CPU time (user +
 * system; of strace its own as well) and wall time beside those of the bare run. All but strace
 * take turns, round by round, and the best of each counts: who else is busy on the machine disturbs
 * all of them alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "sources/sources.h"

#define N_CALLS 300000
#define N_ROUNDS 12
#define TAG 1

struct cost {
	double cpu_s, wall_s;
};

/* ---- programs ---- */

static void be_getppid(void)
{
	for (int i = 0; i < N_CALLS; i++)
		syscall(SYS_getppid);
	_exit(0);
}

static void be_find(void)
{
	execlp("find", "find", "/usr", "-newer", "/proc/self", (char *)NULL);
	_exit(127);
}

static void be_tar(void)
{
	execlp("tar", "tar", "-c", "-f", "/dev/zero", "/usr/include", (char *)NULL);
	_exit(127);
}

/* By a process that has as little memory as most that fork. */
static void be_forks(void)
{
	execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 1500 ]; do (:); i=$((i+1)); done",
	      (char *)NULL);
	_exit(127);
}

static const struct program {
	const char *name;
	void (*be)(void);
} programs[] = {
	{ "forks", be_forks },
	{ "find", be_find },
	{ "getppid", be_getppid },
	{ "tar", be_tar },
};

/* ---- methods ---- */

/* What is done to a child that waits, before it may go on. */
typedef void before_fn(struct syscalls *s, pid_t pid);

static void do_nothing(struct syscalls *s, pid_t pid)
{
	(void)s;
	(void)pid;
}

static void count_it(struct syscalls *s, pid_t pid)
{
	if (syscalls_track(s, pid, TAG) < 0)
		exit(1);
}

/* Somebody who sleeps. */
static pid_t neighbour;

static void count_neighbour(struct syscalls *s, pid_t pid)
{
	(void)pid;
	count_it(s, neighbour);
}

/* ---- the floor ---- */

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* A program that returns 0, at one end of every call of the host. Returns an fd that holds it. */
static int attach_nothing(const char *tracepoint)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
				.insn_cnt = ARRAY_SIZE(insns),
				.insns = (uint64_t)(uintptr_t)insns,
				.license = (uint64_t)(uintptr_t) "GPL" };
	CLEANUP(close_fd) int fd = bpf(BPF_PROG_LOAD, &load);
	union bpf_attr open = { .raw_tracepoint = { .name = (uint64_t)(uintptr_t)tracepoint,
						    .prog_fd = (uint32_t)fd } };

	return fd < 0 ? -1 : bpf(BPF_RAW_TRACEPOINT_OPEN, &open);
}

static void silence(void)
{
	int null_fd = open("/dev/null", O_RDWR);

	dup2(null_fd, STDOUT_FILENO);
	dup2(null_fd, STDERR_FILENO);
}

static void wait_and_be(const struct program *program, int go_fd)
{
	char byte;

	silence();
	(void)!read(go_fd, &byte, 1);
	program->be();
}

static struct cost cost_of(pid_t pid, uint64_t began_ns)
{
	struct rusage usage;

	wait4(pid, NULL, 0, &usage);
	return (struct cost){
		.cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
		.wall_s = (double)(clock_boot_ns() - began_ns) / 1e9,
	};
}

/* The child is started before, so that the parent can be counted without it. */
static struct cost run_once(const struct program *program, before_fn *before, struct syscalls *s)
{
	struct cost cost;
	int go[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		exit(1);
	pid = fork();
	if (pid == 0)
		wait_and_be(program, go[0]);
	before(s, pid);
	(void)!write(go[1], "", 1);
	cost = cost_of(pid, clock_boot_ns());
	close(go[0]);
	close(go[1]);
	if (s) {
		struct syscalls_lost lost;

		syscalls_untrack(s, TAG);
		(void)syscalls_read(s, &lost);
	}
	return cost;
}

static struct cost run_strace(const struct program *program)
{
	uint64_t began_ns = clock_boot_ns();
	char self[32];
	pid_t pid = fork();

	if (pid == 0) {
		silence();
		snprintf(self, sizeof(self), "/proc/%d/exe", (int)getppid());
		execlp("strace", "strace", "-c", "-f", "-o", "/dev/null", self, program->name,
		       (char *)NULL);
		_exit(127);
	}
	return cost_of(pid, began_ns);
}

/* ---- results ---- */

static void keep_best(struct cost *best, struct cost cost)
{
	if (best->wall_s == 0 || cost.wall_s < best->wall_s)
		best->wall_s = cost.wall_s;
	if (best->cpu_s == 0 || cost.cpu_s < best->cpu_s)
		best->cpu_s = cost.cpu_s;
}

static void print_cost(const struct program *program, const char *method, struct cost cost,
		       struct cost bare)
{
	printf("{\"bench\":\"syscalls\",\"program\":\"%s\",\"method\":\"%s\",\"cpu_ms\":%.1f,"
	       "\"wall_ms\":%.1f,\"cpu_ratio\":%.2f,\"wall_ratio\":%.2f}\n",
	       program->name, method, cost.cpu_s * 1e3, cost.wall_s * 1e3, cost.cpu_s / bare.cpu_s,
	       cost.wall_s / bare.wall_s);
	fflush(stdout);
}

/* ---- taking turns ---- */

/*
 * time_every: 0 if nothing is counted; is_floor: programs that do nothing are attached.
 * The first is what the others are compared with.
 */
static const struct method {
	const char *name;
	before_fn *before;
	unsigned time_every;
	bool is_floor;
	bool has_no_times;
} methods[] = {
	{ "bare", do_nothing, 0, false, false },
	{ "eBPF that does nothing", do_nothing, 0, true, false },
	{ "neighbour of one that is counted", count_neighbour, 1, false, false },
	{ "counted, 1 in 64 timed", count_it, 64, false, false },
	{ "counted and timed", count_it, 1, false, false },
	{ "the same, without the time of threads", count_it, 1, false, true },
};

#define N_METHODS ARRAY_SIZE(methods)

/* NULL: it counts nothing. */
static struct syscalls *open_counter(const struct method *m)
{
	const struct syscalls_options options = { .time_every = m->time_every,
						  .has_no_times = m->has_no_times };
	struct syscalls *s = NULL;
	struct err err = ERR_INIT;

	if (m->time_every > 0 && syscalls_open(&options, &s, &err) < 0) {
		fprintf(stderr, "bench_syscalls: %s: %s\n", m->name, err.text);
		exit(1);
	}
	return s;
}

static struct cost run_method(const struct program *program, const struct method *m,
			      struct syscalls *s)
{
	CLEANUP(close_fd) int enter_fd = m->is_floor ? attach_nothing("sys_enter") : -1;
	CLEANUP(close_fd) int exit_fd = m->is_floor ? attach_nothing("sys_exit") : -1;

	if (m->is_floor && (enter_fd < 0 || exit_fd < 0))
		exit(1);
	return run_once(program, m->before, s);
}

static void bench(const struct program *program, struct syscalls *const counters[])
{
	struct cost best[N_METHODS] = { 0 };

	run_once(program, do_nothing, NULL); /* warms the caches */
	for (int round = 0; round < N_ROUNDS; round++)
		for (size_t i = 0; i < N_METHODS; i++)
			keep_best(&best[i], run_method(program, &methods[i], counters[i]));
	for (size_t i = 0; i < N_METHODS; i++)
		print_cost(program, methods[i].name, best[i], best[0]);
	print_cost(program, "strace -c -f", run_strace(program), best[0]);
}

static void bench_all(void)
{
	struct syscalls *counters[N_METHODS];

	neighbour = fork();
	if (neighbour == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	for (size_t i = 0; i < N_METHODS; i++)
		counters[i] = open_counter(&methods[i]);
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		bench(&programs[i], counters);
	for (size_t i = 0; i < N_METHODS; i++)
		syscalls_close(counters[i]);
	kill(neighbour, SIGKILL);
}

/* Without an argument all of it; with one, just that program: what strace runs. */
int main(int argc, char **argv)
{
	if (argc == 1) {
		bench_all();
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (strcmp(argv[1], programs[i].name) == 0)
			programs[i].be();
	return 1;
}
