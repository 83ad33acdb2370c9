/*
 * bench_daemon PROCTOR [N...] - what a whole daemon costs, with N idle processes in one job.
 *
 *	start       from "proctor start" to its return, when the daemon is ready, beside what the
 *	            program takes to do nothing
 *	tick        CPU of a tick, in all and per process of the host, without and with 50
 *	            subscribers to every snapshot; its resident memory; and beside it the floor:
 *	            what reading stat, statm, io and the size of fd/ of all of them takes. All
 *	            were met before it begins, and so many ticks are measured that the store folds
 *	            what it has written once
 *	rarely      (N <= 100) the share of a core with a tick every 5 s, which is what the daemon
 *	            does by default: with all that it does between ticks
 *	daemon.top  requests per second and their latency with 50 of them under way at all times
 *
 * The daemon's CPU time is the kernel's count for all of its threads. One JSON line each.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"
#include "rpc/rpc.h"

#define N_CLIENTS 50
#define SECONDS 3.0
#define MAX_SAMPLES 2000000
#define N_TICKS 120 /* the store folds after so many */
#define N_RARE_TICKS 6
#define RARE_SECONDS 5.0
#define N_STARTS 5
#define JOB "bench"

static const char top_request[] = "{\"jsonrpc\":\"2.0\",\"method\":\"daemon.top\",\"id\":1}\n";
static const char stream_request[] =
	"{\"jsonrpc\":\"2.0\",\"method\":\"daemon.top.stream\",\"id\":1}\n";

struct bench {
	const char *program, *self;
	char home[64], socket[96];
	double interval_seconds;
	struct rpc_client *client;
	pid_t runner, subscribers;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double cpu_us_of(pid_t pid)
{
	struct timespec ts = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) < 0)
		return 0;
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* ---- programs ---- */

static pid_t start(const char *const *argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	return pid;
}

static int finish(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static double time_us_of(const char *const *argv)
{
	double began = now_us();

	if (finish(start(argv)) != 0)
		die(argv[0]);
	return now_us() - began;
}

static void stop(pid_t *pid)
{
	if (*pid <= 0)
		return;
	kill(*pid, SIGTERM);
	finish(*pid);
	*pid = 0;
}

/* What the job runs: n processes that sleep, and are gone with us. */
static int be_a_brood(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	pause();
	return 0;
}

/* ---- the daemon ---- */

static void configure(struct bench *b, double interval_seconds)
{
	char path[96];
	FILE *file;

	b->interval_seconds = interval_seconds;
	snprintf(path, sizeof(path), "%s/proctor.yaml", b->home);
	file = fopen(path, "w");
	if (!file)
		die(path);
	fprintf(file, "interval_seconds: %g\nlimits:\n  max_daemon_cpu_percent: 100\n",
		interval_seconds);
	fclose(file);
}

static void start_daemon(struct bench *b)
{
	const struct rpc_client_options options = { .path = b->socket };
	const char *const argv[] = { b->program, "start", NULL };
	struct err err = ERR_INIT;

	time_us_of(argv);
	if (rpc_client_open(&options, &b->client, &err) < 0) {
		fprintf(stderr, "bench_daemon: %s\n", err.text);
		exit(1);
	}
}

static void stop_daemon(struct bench *b)
{
	const char *const argv[] = { b->program, "stop", NULL };
	pid_t pid;

	if (!b->client)
		return;
	pid = rpc_client_daemon_pid(b->client);
	b->client = rpc_client_close(b->client);
	time_us_of(argv);
	while (kill(pid, 0) == 0)
		sleep_ms(5);
}

static double ask(const struct bench *b, const char *method, const char *key)
{
	struct rpc_value *value = NULL;
	struct err err = ERR_INIT;
	double figure;

	if (rpc_client_call(b->client, method, NULL, &value, &err) < 0) {
		fprintf(stderr, "bench_daemon: %s\n", err.text);
		exit(1);
	}
	figure = rpc_value_f64(rpc_value_get(value, key));
	rpc_value_free(value);
	return figure;
}

/* Asks seldom: what it takes to answer is counted with the ticks. */
static void await_ticks(const struct bench *b, double n)
{
	double until = ask(b, "daemon.status", "ticks") + n, left;

	while ((left = until - ask(b, "daemon.status", "ticks")) > 0)
		sleep_ms((long)(left * b->interval_seconds * 1e3) + 10);
}

static size_t count_in_job(const struct bench *b)
{
	struct rpc_value *jobs = NULL;
	double n = 0;

	if (rpc_client_call(b->client, "job.list", NULL, &jobs, NULL) == 0)
		n = rpc_value_f64(rpc_value_get(rpc_value_at(jobs, 0), "processes"));
	rpc_value_free(jobs);
	return n > 0 ? (size_t)n : 0;
}

/* ---- the floor ---- */

static void read_floor_of(int proc_fd, const char *pid)
{
	static const char *const names[] = { "stat", "statm", "io" };
	char path[300], text[4096];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%s", pid, names[i]);
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

static double floor_us_per_process(void)
{
	DIR *proc = opendir("/proc");
	double began = cpu_us_of(getpid());
	struct dirent *entry;
	size_t n = 0;

	if (!proc)
		die("/proc");
	while ((entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		read_floor_of(dirfd(proc), entry->d_name);
		n++;
	}
	closedir(proc);
	return (cpu_us_of(getpid()) - began) / (double)n;
}

/* ---- clients ---- */

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die(path);
	return fd;
}

static void say(int fd, const char *text)
{
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
		die("send");
}

enum heard { HEARD_PART, HEARD_LINE, HEARD_END };

static enum heard hear(int fd)
{
	static char bytes[1 << 20];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN ? HEARD_PART : HEARD_END;
	return bytes[n - 1] == '\n' ? HEARD_LINE : HEARD_PART;
}

static void connect_all(const char *path, struct pollfd *all, const char *request)
{
	for (size_t i = 0; i < N_CLIENTS; i++) {
		all[i] = (struct pollfd){ .fd = connect_to(path), .events = POLLIN };
		say(all[i].fd, request);
	}
}

/* Reads all that comes, until it is ended. */
static pid_t start_subscribers(const struct bench *b)
{
	struct pollfd all[N_CLIENTS];
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	connect_all(b->socket, all, stream_request);
	for (;;) {
		poll(all, N_CLIENTS, -1);
		for (size_t i = 0; i < N_CLIENTS; i++)
			if (all[i].revents && hear(all[i].fd) == HEARD_END)
				_exit(1);
	}
}

/* Large answers for all of them may be more than the daemon keeps: it drops who is slow. */
static void ask_again(const struct bench *b, struct pollfd *p, bool is_dropped)
{
	if (is_dropped) {
		close(p->fd);
		p->fd = connect_to(b->socket);
	}
	say(p->fd, top_request);
}

static void bench_top(const struct bench *b, size_t n)
{
	static float us[MAX_SAMPLES];
	double sent[N_CLIENTS], began, cpu = cpu_us_of(rpc_client_daemon_pid(b->client));
	struct pollfd all[N_CLIENTS];
	size_t n_done = 0, n_dropped = 0;

	connect_all(b->socket, all, top_request);
	began = now_us();
	for (size_t i = 0; i < N_CLIENTS; i++)
		sent[i] = began;
	while (now_us() - began < SECONDS * 1e6 && n_done < MAX_SAMPLES - N_CLIENTS) {
		poll(all, N_CLIENTS, 100);
		for (size_t i = 0; i < N_CLIENTS; i++) {
			enum heard heard = all[i].revents ? hear(all[i].fd) : HEARD_PART;

			if (heard == HEARD_PART)
				continue;
			if (heard == HEARD_LINE)
				us[n_done++] = (float)(now_us() - sent[i]);
			else
				n_dropped++;
			sent[i] = now_us();
			ask_again(b, &all[i], heard == HEARD_END);
		}
	}
	cpu = cpu_us_of(rpc_client_daemon_pid(b->client)) - cpu;
	qsort(us, n_done, sizeof(us[0]), compare);
	if (n_done > 0)
		printf("{\"bench\":\"daemon\",\"what\":\"daemon.top\",\"n\":%zu,\"in_flight\":%d,"
		       "\"requests_per_second\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,"
		       "\"daemon_cpu_us\":%.0f,\"dropped\":%zu}\n",
		       n, N_CLIENTS, (double)n_done / SECONDS, (double)us[n_done / 2],
		       (double)us[n_done * 99 / 100], cpu / (double)n_done, n_dropped);
	fflush(stdout);
	for (size_t i = 0; i < N_CLIENTS; i++)
		close(all[i].fd);
}

/* ---- all together ---- */

static void bench_start(struct bench *b)
{
	const char *const up[] = { b->program, "start", NULL };
	const char *const nothing[] = { b->program, "--version", NULL };
	float ready_us[N_STARTS], floor_us[N_STARTS];
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC), out_fd = dup(STDOUT_FILENO);

	dup2(null_fd, STDOUT_FILENO);
	for (size_t i = 0; i < N_STARTS; i++) {
		const struct rpc_client_options options = { .path = b->socket };

		floor_us[i] = (float)time_us_of(nothing);
		ready_us[i] = (float)time_us_of(up);
		if (rpc_client_open(&options, &b->client, NULL) < 0)
			die("the daemon");
		stop_daemon(b);
	}
	dup2(out_fd, STDOUT_FILENO);
	close(out_fd);
	close(null_fd);
	qsort(ready_us, N_STARTS, sizeof(ready_us[0]), compare);
	qsort(floor_us, N_STARTS, sizeof(floor_us[0]), compare);
	printf("{\"bench\":\"daemon\",\"what\":\"start\",\"ready_ms\":%.1f,\"max_ms\":%.1f,"
	       "\"floor_ms\":%.1f,\"rounds\":%d}\n",
	       (double)ready_us[N_STARTS / 2] / 1e3, (double)ready_us[N_STARTS - 1] / 1e3,
	       (double)floor_us[N_STARTS / 2] / 1e3, N_STARTS);
	fflush(stdout);
}

static void bench_ticks(const struct bench *b, size_t n, int n_subscribers)
{
	pid_t daemon = rpc_client_daemon_pid(b->client);
	double ticks, cpu, n_processes, tick_us;

	await_ticks(b, 3);
	ticks = ask(b, "daemon.status", "ticks");
	cpu = cpu_us_of(daemon);
	await_ticks(b, N_TICKS);
	cpu = cpu_us_of(daemon) - cpu;
	ticks = ask(b, "daemon.status", "ticks") - ticks;
	n_processes = ask(b, "daemon.top", "process_count");
	tick_us = cpu / ticks;
	printf("{\"bench\":\"daemon\",\"what\":\"tick\",\"n\":%zu,\"processes\":%.0f,"
	       "\"subscribers\":%d,\"ticks\":%.0f,\"tick_us\":%.0f,\"us_per_process\":%.2f,"
	       "\"floor_us_per_process\":%.2f,\"rss_mb\":%.1f,\"events_lost\":%.0f}\n",
	       n, n_processes, n_subscribers, ticks, tick_us, tick_us / n_processes,
	       floor_us_per_process(), ask(b, "daemon.status", "rss_mb"),
	       ask(b, "daemon.status", "events_lost"));
	fflush(stdout);
}

/* The runner leaves the ticks to the daemon after a few. */
static void start_job(struct bench *b, size_t n, double n_ticks)
{
	char count[32];
	const char *const argv[] = { b->program, "run",	  "-q",	     "--job", JOB,
				     "--",	 b->self, "--brood", count,   NULL };

	snprintf(count, sizeof(count), "%zu", n);
	b->runner = start(argv);
	while (count_in_job(b) < n + 1)
		sleep_ms(100);
	await_ticks(b, n_ticks);
}

static void bench_rarely(struct bench *b, size_t n)
{
	double began, cpu, n_processes;
	pid_t daemon;

	configure(b, RARE_SECONDS);
	start_daemon(b);
	daemon = rpc_client_daemon_pid(b->client);
	start_job(b, n, 2);
	began = now_us();
	cpu = cpu_us_of(daemon);
	await_ticks(b, N_RARE_TICKS);
	cpu = cpu_us_of(daemon) - cpu;
	n_processes = ask(b, "daemon.top", "process_count");
	printf("{\"bench\":\"daemon\",\"what\":\"rarely\",\"n\":%zu,\"processes\":%.0f,"
	       "\"interval_seconds\":%g,\"ticks\":%d,\"percent_of_core\":%.3f,"
	       "\"floor_us_per_process\":%.2f}\n",
	       n, n_processes, RARE_SECONDS, N_RARE_TICKS, cpu / (now_us() - began) * 100,
	       floor_us_per_process());
	fflush(stdout);
	stop(&b->runner);
	stop_daemon(b);
}

static void bench(struct bench *b, size_t n)
{
	if (n <= 100)
		bench_rarely(b, n);
	configure(b, n > 2000 ? 1 : 0.2);
	start_daemon(b);
	start_job(b, n, 5);
	bench_ticks(b, n, 0);
	b->subscribers = start_subscribers(b);
	bench_ticks(b, n, N_CLIENTS);
	stop(&b->subscribers);
	bench_top(b, n);
	stop(&b->runner);
	stop_daemon(b);
}

static void allow_many_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void remove_home(const struct bench *b)
{
	const char *const argv[] = { "/bin/rm", "-rf", b->home, NULL };

	finish(start(argv));
}

static size_t must_count(const char *text)
{
	uint64_t n;

	if (num_parse_u64(text, &n) < 0 || n == 0 || n > 100000) {
		fprintf(stderr, "usage: bench_daemon PROCTOR [N...]\n");
		exit(2);
	}
	return (size_t)n;
}

int main(int argc, char **argv)
{
	static const size_t defaults[] = { 100, 1000, 10000 };
	char self[4096] = "";
	struct bench b = { .home = "/tmp/proctor-bench-XXXXXX", .self = self };

	if (argc == 3 && strcmp(argv[1], "--brood") == 0)
		return be_a_brood(must_count(argv[2]));
	if (argc < 2)
		must_count("");
	b.program = argv[1];
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || !mkdtemp(b.home))
		die(b.home);
	snprintf(b.socket, sizeof(b.socket), "%s/proctor.sock", b.home);
	setenv("PROCTOR_HOME", b.home, 1);
	allow_many_files();
	configure(&b, 0.5);
	bench_start(&b);
	for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(defaults); i++)
		bench(&b, defaults[i]);
	for (int i = 2; i < argc; i++)
		bench(&b, must_count(argv[i]));
	remove_home(&b);
	return 0;
}
