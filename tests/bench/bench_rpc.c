/*
 * bench_rpc - what asking the daemon's socket costs.
 *
 *	ping     a method that answers null, by 1 and by 50 clients, one process each
 *	big      a reply of 200 KB, by 1 and by 50
 *	publish  an event to 50 subscribers, one at a time and 20 at once
 *	late     how late a timer of the server's loop is: alone, while 50 clients ask as
 *	         fast as they can, and while 8 send requests of 15 MB
 *
 * Beside it the floor: the same bytes back and forth between one client and a
 * process that only reads and writes. Requests per second and latency are of the
 * whole machine with its clients on it; server_cpu_us is the server's alone. One JSON line each.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "rpc/rpc.h"

#define MAX_CLIENTS 50
#define SECONDS 2.0
#define MAX_SAMPLES 200000 /* per client */
#define BIG_BYTES (200 * 1024)
#define N_EVENTS 2000

#define CALL(method, rest) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"id\":1" rest "}\n"

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

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* ---- the server, in a process of its own ---- */

#define TICK_MS 20
#define MAX_TICKS 1000

/* Shared with the server's process. */
struct ticks {
	atomic_size_t n;
	float late_us[MAX_TICKS];
};

struct service {
	struct ticks *ticks;
	double due_us; /* when the next tick should be */
	struct rpc_subscriber *subscribers[MAX_CLIENTS];
	size_t n_subscribers;
	char *big; /* JSON of 200 KB */
};

static int method_ping(void *ctx, struct rpc_call *call, struct err *err)
{
	(void)ctx;
	(void)call;
	(void)err;
	return 0;
}

static int method_big(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;

	(void)err;
	json_raw(rpc_call_result(call), s->big, BIG_BYTES);
	return 0;
}

static void on_gone(void *ctx)
{
	(void)ctx;
}

static int method_subscribe(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;

	if (s->n_subscribers == MAX_CLIENTS)
		return -EBUSY;
	return rpc_call_subscribe(call, on_gone, NULL, &s->subscribers[s->n_subscribers++], err);
}

struct publish_params {
	uint64_t n, bytes;
};

static int method_publish(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct rpc_field fields[] = {
		{ "n", RPC_U64, offsetof(struct publish_params, n), .is_required = true },
		{ "bytes", RPC_U64, offsetof(struct publish_params, bytes), .max = BIG_BYTES },
	};
	struct service *s = ctx;
	struct publish_params p = { 0 };
	int r = rpc_call_read(call, fields, ARRAY_SIZE(fields), &p, err);

	for (uint64_t k = 0; r == 0 && k < p.n; k++) {
		/* Whatever the length, it begins and ends as JSON of that length would. */
		struct message *event =
			message_new_event("job.started", 0, s->big + BIG_BYTES - p.bytes, p.bytes);

		for (size_t i = 0; i < s->n_subscribers; i++)
			rpc_push(s->subscribers[i], event);
		message_unref(event);
	}
	return r;
}

static void on_tick(void *ctx)
{
	struct service *s = ctx;
	size_t n = atomic_load(&s->ticks->n);
	double late_us = now_us() - s->due_us;

	if (n < MAX_TICKS) {
		s->ticks->late_us[n] = (float)late_us;
		atomic_store(&s->ticks->n, n + 1);
	}
	s->due_us = now_us() + TICK_MS * 1000;
}

static const struct rpc_method methods[] = {
	{ "ping", method_ping, RPC_FOR_ALL },
	{ "big", method_big, RPC_FOR_ALL },
	{ "subscribe", method_subscribe, RPC_FOR_ALL },
	{ "publish", method_publish, RPC_FOR_ALL },
};

static void serve(const char *path, struct ticks *ticks, int ready_fd)
{
	struct service s = { .big = malloc(BIG_BYTES), .ticks = ticks };
	const struct rpc_options options = {
		.path = path,
		.mode = 0600,
		.methods = methods,
		.n_methods = ARRAY_SIZE(methods),
		.ctx = &s,
	};
	struct loop *loop = loop_new();
	struct rpc_server *server = NULL;
	struct err err = ERR_INIT;

	memset(s.big, 'x', BIG_BYTES);
	s.big[0] = s.big[BIG_BYTES - 1] = '"';
	if (rpc_server_new(loop, &options, &server, &err) < 0) {
		fprintf(stderr, "bench_rpc: %s\n", err.text);
		exit(1);
	}
	s.due_us = now_us() + TICK_MS * 1000;
	loop_timer_set(loop_timer_new(loop, on_tick, &s), TICK_MS, TICK_MS);
	if (write(ready_fd, "r", 1) != 1)
		exit(1);
	loop_run(loop);
}

static pid_t start_server(const char *path, struct ticks *ticks)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready) < 0)
		die("pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(path, ticks, ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		die("the server");
	close(ready[0]);
	return pid;
}

/* ---- clients ---- */

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("connect");
	return fd;
}

/* One request and its answer, of any length. */
static void ask(int fd, const char *request)
{
	static char bytes[256 * 1024];
	ssize_t n;

	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		die("send");
	do {
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			die("recv");
	} while (bytes[n - 1] != '\n');
}

/* Shared with the clients' processes. */
struct client_times {
	size_t n;
	float us[MAX_SAMPLES];
};

struct arena_of_times {
	atomic_int n_ready;
	atomic_bool is_go;
	struct client_times clients[MAX_CLIENTS];
};

static void be_a_client(const char *path, const char *request, struct arena_of_times *shared,
			struct client_times *times)
{
	int fd = connect_to(path);
	double end_us;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ask(fd, request);
	atomic_fetch_add(&shared->n_ready, 1);
	while (!atomic_load(&shared->is_go))
		usleep(100);
	end_us = now_us() + SECONDS * 1e6;
	for (double began = now_us(); began < end_us && times->n < MAX_SAMPLES;) {
		double ended;

		ask(fd, request);
		ended = now_us();
		times->us[times->n++] = (float)(ended - began);
		began = ended;
	}
	_exit(0);
}

static void print_times(const char *what, size_t n_clients, const struct arena_of_times *shared,
			double elapsed_us, double server_us)
{
	size_t n = 0;
	float *all;

	for (size_t i = 0; i < n_clients; i++)
		n += shared->clients[i].n;
	all = malloc((n + 1) * sizeof(*all));
	n = 0;
	for (size_t i = 0; i < n_clients; i++) {
		memcpy(all + n, shared->clients[i].us, shared->clients[i].n * sizeof(*all));
		n += shared->clients[i].n;
	}
	qsort(all, n, sizeof(*all), compare);
	printf("{\"bench\":\"rpc\",\"what\":\"%s\",\"clients\":%zu,\"requests\":%zu,"
	       "\"requests_per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"server_cpu_us\":%.2f}\n",
	       what, n_clients, n, (double)n / elapsed_us * 1e6, (double)all[n / 2],
	       (double)all[n * 99 / 100], server_us / (double)n);
	fflush(stdout);
	free(all);
}

static void run_clients(const char *what, const char *path, const char *request, size_t n_clients,
			pid_t server)
{
	struct arena_of_times *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	double began_us, server_us;

	if (shared == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < n_clients; i++)
		if (fork() == 0)
			be_a_client(path, request, shared, &shared->clients[i]);
	while (atomic_load(&shared->n_ready) < (int)n_clients)
		usleep(1000);
	server_us = cpu_us_of(server);
	began_us = now_us();
	atomic_store(&shared->is_go, true);
	for (size_t i = 0; i < n_clients; i++)
		if (wait(NULL) < 0)
			die("wait");
	print_times(what, n_clients, shared, now_us() - began_us, cpu_us_of(server) - server_us);
	munmap(shared, sizeof(*shared));
}

/* ---- the floor: reads a line, writes as many bytes as the server would ---- */

static pid_t start_floor(const char *path, size_t reply_bytes)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	pid_t pid;

	unlink(path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 5) < 0)
		die("floor");
	pid = fork();
	if (pid == 0) {
		char *reply = malloc(reply_bytes), line[256];
		int client = accept(fd, NULL, NULL);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(reply, 'x', reply_bytes);
		reply[reply_bytes - 1] = '\n';
		while (recv(client, line, sizeof(line), 0) > 0)
			if (send(client, reply, reply_bytes, MSG_NOSIGNAL) < 0)
				break;
		pause();
	}
	close(fd);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void run_floor(const char *what, const char *path, const char *request, size_t reply_bytes)
{
	pid_t pid = start_floor(path, reply_bytes);

	run_clients(what, path, request, 1, pid);
	stop(pid);
	unlink(path);
}

/* ---- events ---- */

/* Fifty connections that read whatever comes, in one process. */
static pid_t start_subscribers(const char *path, atomic_bool *is_ready)
{
	pid_t pid = fork();
	struct pollfd fds[MAX_CLIENTS];
	static char bytes[256 * 1024];

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < MAX_CLIENTS; i++) {
		fds[i] = (struct pollfd){ .fd = connect_to(path), .events = POLLIN };
		ask(fds[i].fd, CALL("subscribe", ""));
	}
	atomic_store(is_ready, true);
	for (;;) {
		poll(fds, MAX_CLIENTS, -1);
		for (size_t i = 0; i < MAX_CLIENTS; i++)
			if (fds[i].revents && recv(fds[i].fd, bytes, sizeof(bytes), 0) <= 0)
				_exit(0);
	}
}

static void run_publish(const char *path, pid_t server, uint64_t at_once, uint64_t bytes)
{
	int fd = connect_to(path);
	size_t n_calls = bytes > 10000 ? 100 : N_EVENTS / at_once;
	char request[160];
	double began_us;

	snprintf(request, sizeof(request), CALL("publish", ",\"params\":[%llu,%llu]"),
		 (unsigned long long)at_once, (unsigned long long)bytes);
	ask(fd, request);
	usleep(50000);
	began_us = cpu_us_of(server);
	for (size_t i = 0; i < n_calls; i++) {
		ask(fd, request);
		usleep(bytes > 10000 ? 20000 : 1000); /* until they have read it */
	}
	usleep(100000);
	printf("{\"bench\":\"rpc\",\"what\":\"publish\",\"subscribers\":%d,\"bytes\":%llu,"
	       "\"at_once\":%llu,\"server_cpu_us_per_event\":%.1f}\n",
	       MAX_CLIENTS, (unsigned long long)bytes, (unsigned long long)at_once,
	       (cpu_us_of(server) - began_us) / (double)(n_calls * at_once));
	fflush(stdout);
	close(fd);
}

static void bench_events(const char *path, pid_t server)
{
	atomic_bool *is_ready = mmap(NULL, sizeof(*is_ready), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (is_ready == MAP_FAILED)
		die("mmap");
	pid = start_subscribers(path, is_ready);
	while (!atomic_load(is_ready))
		usleep(1000);
	run_publish(path, server, 1, 300);
	run_publish(path, server, 20, 300);
	run_publish(path, server, 1, BIG_BYTES);
	stop(pid);
}

/* ---- how late the loop is ---- */

static void print_ticks(const char *what, struct ticks *ticks)
{
	size_t n = atomic_load(&ticks->n);

	qsort(ticks->late_us, n, sizeof(ticks->late_us[0]), compare);
	if (n > 0)
		printf("{\"bench\":\"rpc\",\"what\":\"late, %s\",\"ticks\":%zu,\"p50_us\":%.0f,"
		       "\"p99_us\":%.0f,\"max_us\":%.0f}\n",
		       what, n, (double)ticks->late_us[n / 2], (double)ticks->late_us[n * 99 / 100],
		       (double)ticks->late_us[n - 1]);
	fflush(stdout);
	atomic_store(&ticks->n, 0);
}

static void send_long_requests(const char *path)
{
	static const char head[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"none\",\"id\":1,\"params\":[\"";
	size_t len = 15 * 1024 * 1024;
	char *text = malloc(len + 8);
	int fd = connect_to(path);

	memset(text, 'x', len);
	memcpy(text, head, strlen(head));
	memcpy(text + len, "\"]}\n", 5);
	for (;;) {
		for (size_t done = 0; done < len + 4;) {
			ssize_t n = send(fd, text + done, len + 4 - done, MSG_NOSIGNAL);

			if (n <= 0)
				_exit(0); /* others were quicker: see max_all_request_bytes */
			done += (size_t)n;
		}
		ask(fd, CALL("ping", ""));
	}
}

static void bench_lateness(const char *path, pid_t server, struct ticks *ticks)
{
	pid_t pids[8];

	atomic_store(&ticks->n, 0);
	usleep((useconds_t)(SECONDS * 1e6));
	print_ticks("alone", ticks);
	run_clients("ping", path, CALL("ping", ""), MAX_CLIENTS, server);
	print_ticks("50 ask", ticks);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			send_long_requests(path);
		}
	}
	usleep((useconds_t)(SECONDS * 1e6));
	print_ticks("15 MB each", ticks);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		stop(pids[i]);
}

int main(void)
{
	char dir[] = "/tmp/proctor-bench-XXXXXX", path[64], lock[72];
	size_t big_reply = BIG_BYTES + strlen("{'jsonrpc':'2.0','result':,'id':1}\n");
	struct ticks *ticks = mmap(NULL, sizeof(*ticks), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t server;

	if (ticks == MAP_FAILED || !mkdtemp(dir))
		die(dir);
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	run_floor("floor, ping", path, CALL("ping", ""),
		  strlen("{'jsonrpc':'2.0','result':null,'id':1}\n"));
	run_floor("floor, big", path, CALL("big", ""), big_reply);
	server = start_server(path, ticks);
	run_clients("ping", path, CALL("ping", ""), 1, server);
	run_clients("big", path, CALL("big", ""), 1, server);
	run_clients("big", path, CALL("big", ""), MAX_CLIENTS, server);
	bench_lateness(path, server, ticks);
	bench_events(path, server);
	stop(server);
	unlink(path);
	unlink(lock);
	rmdir(dir);
	return 0;
}
