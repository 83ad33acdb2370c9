/*
 * bench_collect [N...] - what a snapshot costs, in CPU microseconds per process.
 *
 * Forks N idle children (100, 1000 and 10000 unless told) and measures, over
 * all processes of the host:
 *
 *	proctor              collector_scan() and collector_fill(), all processes
 *	proctor, all awake   the same, after each child has run since the last time
 *	proctor, first sight what the first snapshot costs
 *	eBPF, …              the same three through the task iterator, where this user may
 *	floor                stat, statm, io and the size of fd: open, read, close
 *	floor, kept open     the same files, kept open
 *	psutil               the same values through psutil, where python3 has it
 *
 * Exits with 1 if so many children could not be started. One JSON line each: the median of several
 *rounds. Compare ratios inside one run; machines and moments differ.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"
#include "sources/sources.h"

#define MAX_ROUNDS 15
#define WARM_UP 3 /* first sight, opening, and one in which all is kept open */

static double cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct rounds {
	double us[MAX_ROUNDS];
	size_t n, max;
};

static void add_round(struct rounds *r, double us, size_t n_processes)
{
	r->us[r->n++] = us / (double)n_processes;
}

static void print_rounds(struct rounds *r, size_t n_children, size_t n_processes,
			 const char *method)
{
	if (r->n == 0)
		return;
	qsort(r->us, r->n, sizeof(r->us[0]), compare_doubles);
	printf("{\"bench\":\"collect\",\"n\":%zu,\"processes\":%zu,\"method\":\"%s\","
	       "\"us_per_process\":%.2f,\"min\":%.2f,\"rounds\":%zu}\n",
	       n_children, n_processes, method, r->us[r->n / 2], r->us[0], r->n);
	fflush(stdout);
}

/* ---- children that sleep until all are woken ---- */

struct brood {
	atomic_uint *turn;  /* shared: they sleep while it stays the same */
	atomic_uint *awake; /* shared: how many have run in this turn */
	pid_t *pids;
	size_t n;
};

static void be_a_child(const struct brood *b)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		unsigned turn = atomic_load(b->turn);

		atomic_fetch_add(b->awake, 1);
		syscall(SYS_futex, b->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
	}
}

static void wake_all(struct brood *b)
{
	atomic_store(b->awake, 0);
	atomic_fetch_add(b->turn, 1);
	syscall(SYS_futex, b->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	while (atomic_load(b->awake) < b->n)
		sleep_ms(1);
	sleep_ms(5); /* until the last of them sleeps again */
}

static int start_brood(struct brood *b, size_t n)
{
	atomic_uint *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*b = (struct brood){ .turn = shared,
			     .awake = shared + 1,
			     .pids = calloc(n, sizeof(pid_t)) };
	if (shared == MAP_FAILED || !b->pids)
		return -ENOMEM;
	for (; b->n < n; b->n++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0)
			be_a_child(b);
		b->pids[b->n] = pid;
	}
	while (atomic_load(b->awake) < n)
		sleep_ms(1);
	return 0;
}

static void stop_brood(struct brood *b)
{
	for (size_t i = 0; i < b->n; i++)
		kill(b->pids[i], SIGKILL);
	for (size_t i = 0; i < b->n; i++)
		waitpid(b->pids[i], NULL, 0);
	free(b->pids);
	munmap(b->turn, 4096);
}

/* ---- proctor ---- */

static double take_snapshot(struct collector *c, struct snapshot *s)
{
	struct err err = ERR_INIT;
	double began = cpu_us();

	if (collector_scan(c, s, &err) < 0) {
		fprintf(stderr, "bench_collect: %s\n", err.text);
		exit(1);
	}
	collector_fill(c, s, SNAPSHOT_ALL);
	return cpu_us() - began;
}

/* What the three results are called. */
struct names {
	const char *asleep, *awake, *first;
};

static void bench_proctor(struct brood *b, size_t n_rounds, bool want_ebpf,
			  const struct names *names)
{
	struct collector_options options = { .root_fd = open("/", O_RDONLY | O_CLOEXEC),
					     .want_ebpf = want_ebpf };
	struct rounds first = { 0 }, asleep = { 0 }, awake = { 0 };
	struct collector *c = NULL;
	struct snapshot s;
	struct err err = ERR_INIT;
	double us;

	if (collector_new(&options, &c, &err) < 0) {
		fprintf(stderr, "bench_collect: %s\n", err.text);
		exit(1);
	}
	if (want_ebpf && strcmp(collector_rung(c).rung, "/proc") == 0) {
		fprintf(stderr, "bench_collect: %s\n", collector_rung(c).reason);
		n_rounds = 0;
	}
	snapshot_init(&s);
	us = take_snapshot(c, &s);
	if (n_rounds > 0)
		add_round(&first, us, s.n_processes);
	for (int i = 1; i < WARM_UP; i++)
		take_snapshot(c, &s);
	for (size_t i = 0; i < n_rounds; i++) {
		us = take_snapshot(c, &s);
		add_round(&asleep, us, s.n_processes);
	}
	wake_all(b);
	take_snapshot(c, &s); /* opens what was not needed while they slept */
	for (size_t i = 0; i < n_rounds; i++) {
		wake_all(b);
		us = take_snapshot(c, &s);
		add_round(&awake, us, s.n_processes);
	}
	print_rounds(&asleep, b->n, s.n_processes, names->asleep);
	print_rounds(&awake, b->n, s.n_processes, names->awake);
	print_rounds(&first, b->n, s.n_processes, names->first);
	snapshot_release(&s);
	collector_free(c);
	close(options.root_fd);
}

/* ---- the floor ---- */

static const char *const floor_files[] = { "stat", "statm", "io" };
#define N_FLOOR_FILES ARRAY_SIZE(floor_files)

struct pid_names {
	char (*names)[16];
	size_t n;
};

static struct pid_names list_pids(void)
{
	struct pid_names list = { 0 };
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	size_t cap = 0;

	while (dir && (entry = readdir(dir))) {
		uint64_t pid;

		if (num_parse_u64(entry->d_name, &pid) < 0 || pid > INT_MAX)
			continue;
		if (list.n == cap) {
			cap = cap ? cap * 2 : 1024;
			list.names = reallocarray(list.names, cap, sizeof(list.names[0]));
			if (!list.names)
				exit(1);
		}
		snprintf(list.names[list.n++], sizeof(list.names[0]), "%d", (int)pid);
	}
	if (dir)
		closedir(dir);
	return list;
}

static void read_floor(int proc_fd, const char *pid)
{
	char path[64], text[4096];
	struct stat st;

	for (size_t i = 0; i < N_FLOOR_FILES; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", pid, floor_files[i]);
		fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, text, sizeof(text)) < 0)
			text[0] = '\0';
		close(fd);
	}
	snprintf(path, sizeof(path), "%s/fd", pid);
	fstatat(proc_fd, path, &st, 0);
}

static void bench_floor(size_t n_children, size_t n_rounds)
{
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pid_names list = list_pids();
	struct rounds rounds = { 0 };

	for (size_t i = 0; i < n_rounds; i++) {
		double began = cpu_us();

		for (size_t j = 0; j < list.n; j++)
			read_floor(proc_fd, list.names[j]);
		add_round(&rounds, cpu_us() - began, list.n);
	}
	print_rounds(&rounds, n_children, list.n, "floor");
	free(list.names);
	close(proc_fd);
}

struct kept_floor {
	int files[N_FLOOR_FILES];
	int fd_dir;
};

/* False when there are not files enough. */
static bool open_kept_floor(int proc_fd, const char *pid, struct kept_floor *ret)
{
	char path[64];

	for (size_t i = 0; i < N_FLOOR_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", pid, floor_files[i]);
		ret->files[i] = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
		if (ret->files[i] < 0 && errno == EMFILE)
			return false;
	}
	snprintf(path, sizeof(path), "%s/fd", pid);
	ret->fd_dir = openat(proc_fd, path, O_PATH | O_CLOEXEC);
	return ret->fd_dir >= 0 || errno != EMFILE;
}

static void read_kept_floor(const struct kept_floor *k)
{
	char text[4096];
	struct stat st;

	for (size_t i = 0; i < N_FLOOR_FILES; i++)
		if (pread(k->files[i], text, sizeof(text), 0) < 0)
			text[0] = '\0';
	fstat(k->fd_dir, &st);
}

static void close_kept_floor(const struct kept_floor *k)
{
	for (size_t i = 0; i < N_FLOOR_FILES; i++)
		if (k->files[i] >= 0)
			close(k->files[i]);
	if (k->fd_dir >= 0)
		close(k->fd_dir);
}

static void bench_kept_floor(size_t n_children, size_t n_rounds)
{
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct pid_names list = list_pids();
	struct kept_floor *kept = calloc(list.n, sizeof(*kept));
	struct rounds rounds = { 0 };
	size_t n = 0;

	while (kept && n < list.n && open_kept_floor(proc_fd, list.names[n], &kept[n]))
		n++;
	for (size_t i = 0; n == list.n && i < n_rounds; i++) {
		double began = cpu_us();

		for (size_t j = 0; j < n; j++)
			read_kept_floor(&kept[j]);
		add_round(&rounds, cpu_us() - began, n);
	}
	if (n < list.n)
		fprintf(stderr,
			"bench_collect: too few files may be open to keep those of %zu processes\n",
			list.n);
	print_rounds(&rounds, n_children, list.n, "floor, kept open");
	for (size_t i = 0; i < n; i++)
		close_kept_floor(&kept[i]);
	free(kept);
	free(list.names);
	close(proc_fd);
}

/* ---- psutil ---- */

static const char psutil_script[] =
	"import sys, time\n"
	"try:\n"
	"    import psutil\n"
	"except ImportError:\n"
	"    sys.exit(7)\n"
	"names = ('ppid', 'name', 'cmdline', 'status', 'cpu_times', 'create_time', 'memory_info',\n"
	"         'num_threads', 'num_fds', 'io_counters', 'num_ctx_switches', 'uids')\n"
	"def scan():\n"
	"    n = 0\n"
	"    began = time.process_time()\n"
	"    for p in psutil.process_iter():\n"
	"        n += 1\n"
	"        try:\n"
	"            with p.oneshot():\n"
	"                for name in names:\n"
	"                    getattr(p, name)()\n"
	"        except psutil.Error:\n"
	"            pass\n"
	"    return (time.process_time() - began) * 1e6 / n, n\n"
	"scan()\n"
	"results = sorted(scan() for _ in range(3))\n"
	"print('{\"bench\":\"collect\",\"n\":%s,\"processes\":%d,\"method\":\"psutil\",'\n"
	"      '\"us_per_process\":%.2f,\"min\":%.2f,\"rounds\":3}' %\n"
	"      (sys.argv[1], results[1][1], results[1][0], results[0][0]))\n";

/* False if this python has no psutil, or there is no such python. */
static bool run_psutil(const char *python, size_t n_children)
{
	char n[32];
	int status;
	pid_t pid;

	snprintf(n, sizeof(n), "%zu", n_children);
	pid = fork();
	if (pid == 0) {
		execlp(python, python, "-c", psutil_script, n, (char *)NULL);
		_exit(7);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void bench_psutil(size_t n_children)
{
	/* The one that Debian's python3-psutil belongs to need not be the first of PATH. */
	if (!run_psutil("python3", n_children) && !run_psutil("/usr/bin/python3", n_children))
		fprintf(stderr, "bench_collect: no python3 with psutil here\n");
}

/* ---- all together ---- */

/* False if it could not be measured. */
static bool bench(size_t n)
{
	static const struct names by_proc = { "proctor", "proctor, all awake",
					      "proctor, first sight" };
	static const struct names by_ebpf = { "eBPF", "eBPF, all awake", "eBPF, first sight" };
	size_t n_rounds = n > 2000 ? 5 : MAX_ROUNDS;
	struct brood brood;
	int r = start_brood(&brood, n);

	if (r < 0) {
		fprintf(stderr, "bench_collect: cannot start %zu children: %s\n", n, strerror(-r));
	} else {
		bench_proctor(&brood, n_rounds, false, &by_proc);
		bench_proctor(&brood, n_rounds, true, &by_ebpf);
		bench_floor(n, n_rounds);
		bench_kept_floor(n, n_rounds);
		bench_psutil(n);
	}
	stop_brood(&brood);
	return r == 0;
}

static void allow_many_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	static const size_t defaults[] = { 100, 1000, 10000 };
	bool is_complete = true;

	allow_many_files();
	for (size_t i = 0; argc < 2 && i < ARRAY_SIZE(defaults); i++)
		is_complete = bench(defaults[i]) && is_complete;
	for (int i = 1; i < argc; i++) {
		uint64_t n;

		if (num_parse_u64(argv[i], &n) < 0 || n == 0 || n > 1000000) {
			fprintf(stderr, "usage: %s [N...]\n", argv[0]);
			return 2;
		}
		is_complete = bench((size_t)n) && is_complete;
	}
	return is_complete ? 0 : 1;
}
