/*
 * rpc_fixture - a real server in a process of its own, and clients that say what they like.
 */
#ifndef PROCTOR_TESTS_RPC_FIXTURE_H
#define PROCTOR_TESTS_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
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

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "rpc/rpc.h"
#include "rpc/server_internal.h"

#include "child_check.h"

#define PATIENCE_S 20 /* what does not come in this time does not come: the test fails */
#define NOBODY 65534

struct fixture {
	char dir[96];
	char path[128];	  /* of the socket */
	pid_t server;	  /* 0: none runs */
	rlim_t max_files; /* of the server; 0: as many as we may have */
};

/* ---- the server's side ---- */

#define MAX_WAITERS 1024
#define MAX_SUBSCRIBERS 64

struct service {
	struct loop *loop;
	struct rpc_server *server;
	struct rpc_call *waiters[MAX_WAITERS]; /* NULL: free */
	struct rpc_subscriber *subscribers[MAX_SUBSCRIBERS];
	struct loop_timer *timer;
	bool is_counting; /* how often the timer has fired */
	uint64_t n_fired;
	size_t n_gone; /* waiters and subscribers */
	uint64_t n_published;
};

static inline int method_echo(void *ctx, struct rpc_call *call, struct err *err)
{
	(void)ctx;
	(void)err;
	rpc_value_write(call->params, rpc_call_result(call));
	return 0;
}

static inline int method_nothing(void *ctx, struct rpc_call *call, struct err *err)
{
	(void)ctx;
	(void)call;
	(void)err;
	return 0;
}

static inline void on_fixture_timer(void *ctx)
{
	((struct service *)ctx)->n_fired++;
}

struct spin_params {
	uint64_t ms;
};

/* Keeps the loop busy for so long. Tells how often a timer of 1 ms has fired since the first. */
static inline int method_spin(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct rpc_field fields[] = {
		{ "ms", RPC_U64, offsetof(struct spin_params, ms), .is_required = true },
	};
	struct service *s = ctx;
	struct spin_params p = { 0 };
	int r = rpc_call_read(call, fields, ARRAY_SIZE(fields), &p, err);
	uint64_t until_ns = clock_boot_ns() + p.ms * 1000000;

	if (r < 0)
		return r;
	if (!s->is_counting)
		loop_timer_set(s->timer, 1, 1);
	s->is_counting = true;
	while (clock_boot_ns() < until_ns)
		;
	json_u64(rpc_call_result(call), s->n_fired);
	return 0;
}

struct add_params {
	double a, b;
	const struct rpc_value *more;
};

static inline int method_add(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct rpc_field fields[] = {
		{ "first", RPC_F64, offsetof(struct add_params, a), .is_required = true },
		{ "second", RPC_F64, offsetof(struct add_params, b), .min = -10, .max = 10 },
	};
	struct add_params p = { 0 };
	int r = rpc_call_read(call, fields, ARRAY_SIZE(fields), &p, err);

	(void)ctx;
	if (r < 0)
		return r;
	json_f64(rpc_call_result(call), p.a + p.b);
	return 0;
}

/* Writes half a result, and then fails. */
static inline int method_fail(void *ctx, struct rpc_call *call, struct err *err)
{
	(void)ctx;
	json_begin_object(rpc_call_result(call));
	return err_set(err, -ENOENT, "no job 'j'");
}

struct big_params {
	uint64_t bytes;
};

/* A text of so many bytes. */
static inline int method_big(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct rpc_field fields[] = {
		{ "bytes", RPC_U64, offsetof(struct big_params, bytes), .is_required = true },
	};
	struct big_params p = { 0 };
	int r = rpc_call_read(call, fields, ARRAY_SIZE(fields), &p, err);
	char *text;

	(void)ctx;
	if (r < 0)
		return r;
	text = malloc(p.bytes + 1);
	if (!text)
		return -ENOMEM;
	memset(text, 'x', p.bytes);
	json_str_n(rpc_call_result(call), text, p.bytes);
	free(text);
	return 0;
}

struct place {
	struct service *service;
	size_t i;
};

static inline void waiter_gone(void *ctx)
{
	struct place *place = ctx;

	place->service->waiters[place->i] = NULL;
	place->service->n_gone++;
	free(place);
}

static struct place *waiter_places[MAX_WAITERS];

/* Answered by "release". */
static inline int method_wait(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	size_t i = 0;

	while (i < MAX_WAITERS && s->waiters[i])
		i++;
	if (i == MAX_WAITERS)
		return err_set(err, -EBUSY, "too many wait");
	waiter_places[i] = malloc(sizeof(struct place));
	*waiter_places[i] = (struct place){ s, i };
	s->waiters[i] = call;
	rpc_call_defer(call, waiter_gone, waiter_places[i]);
	return 0;
}

/* The first ones fail, where "fail" is true. */
static inline int method_release(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct err why = { .code = -ETIMEDOUT, .text = "waited in vain" };
	struct service *s = ctx;
	bool is_failure = rpc_value_bool(rpc_value_get(call->params, "fail"), false);
	uint64_t n = 0;

	(void)err;
	for (size_t i = 0; i < MAX_WAITERS; i++) {
		struct rpc_call *waiter = s->waiters[i];

		if (!waiter)
			continue;
		s->waiters[i] = NULL;
		free(waiter_places[i]);
		n++;
		if (is_failure) {
			rpc_call_fail(waiter, -ETIMEDOUT, &why);
			continue;
		}
		json_str(rpc_call_result(waiter), "released");
		rpc_call_answer(waiter);
	}
	json_u64(rpc_call_result(call), n);
	return 0;
}

static inline void subscriber_gone(void *ctx)
{
	struct place *place = ctx;

	place->service->subscribers[place->i] = NULL;
	place->service->n_gone++;
	free(place);
}

static struct place *subscriber_places[MAX_SUBSCRIBERS];

static inline int method_subscribe(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	size_t i = 0;
	int r;

	while (i < MAX_SUBSCRIBERS && s->subscribers[i])
		i++;
	if (i == MAX_SUBSCRIBERS)
		return -EBUSY;
	subscriber_places[i] = malloc(sizeof(struct place));
	*subscriber_places[i] = (struct place){ s, i };
	r = rpc_call_subscribe(call, subscriber_gone, subscriber_places[i], &s->subscribers[i],
			       err);
	if (r < 0)
		free(subscriber_places[i]);
	return r;
}

struct publish_params {
	uint64_t n, bytes;
};

/* n events, numbered since the server began, with so many bytes beside the number. */
static inline int method_publish(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct rpc_field fields[] = {
		{ .name = "n", .type = RPC_U64, .offset = offsetof(struct publish_params, n) },
		{ .name = "bytes",
		  .type = RPC_U64,
		  .offset = offsetof(struct publish_params, bytes) },
	};
	struct publish_params p = { .n = 1 };
	struct service *s = ctx;
	int r = rpc_call_read(call, fields, ARRAY_SIZE(fields), &p, err);
	char *text;

	if (r < 0)
		return r;
	text = malloc(p.bytes + 64);
	for (uint64_t k = 0; text && k < p.n; k++) {
		int n = snprintf(text, 64, "{\"k\":%llu,\"fill\":\"",
				 (unsigned long long)s->n_published++);
		struct message *event;

		memset(text + n, 'x', p.bytes);
		memcpy(text + n + p.bytes, "\"}", 2);
		event = message_new_event("job.started", UINT64_C(1700000000500000000), text,
					  (size_t)n + p.bytes + 2);
		for (size_t i = 0; event && i < MAX_SUBSCRIBERS; i++)
			if (s->subscribers[i])
				rpc_push(s->subscribers[i], event);
		message_unref(event);
	}
	free(text);
	return 0;
}

static inline size_t count_waiters(const struct service *s)
{
	size_t n = 0;

	for (size_t i = 0; i < MAX_WAITERS; i++)
		n += s->waiters[i] != NULL;
	return n;
}

static inline uint64_t read_rss_bytes(void)
{
	unsigned long long size, resident;
	char text[128];

	if (io_read_text_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) < 0 ||
	    sscanf(text, "%llu %llu", &size, &resident) != 2)
		return U64_UNKNOWN;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of long messages for many (outbox.h). */
static inline size_t count_shared_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir))) {
		char path[64];
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, path, sizeof(path) - 1);

		path[len > 0 ? len : 0] = '\0';
		n += strstr(path, "proctor-message") != NULL;
	}
	if (dir)
		closedir(dir);
	return n;
}

static inline int method_stats(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct json *j = rpc_call_result(call);
	struct rpc_stats stats;

	(void)err;
	rpc_server_get_stats(s->server, &stats);
	json_begin_object(j);
	json_key_u64(j, "clients", stats.n_clients);
	json_key_u64(j, "subscribers", stats.n_subscribers);
	json_key_u64(j, "open_calls", stats.n_open_calls);
	json_key_u64(j, "request_bytes", stats.request_bytes);
	json_key_u64(j, "unread_bytes", stats.unread_bytes);
	json_key_u64(j, "accepted", stats.n_accepted);
	json_key_u64(j, "refused", stats.n_refused);
	json_key_u64(j, "dropped", stats.n_dropped);
	json_key_u64(j, "requests", stats.n_requests);
	json_key_u64(j, "errors", stats.n_errors);
	json_key_u64(j, "lost", stats.n_events_lost);
	json_key_u64(j, "waiters", count_waiters(s));
	json_key_u64(j, "gone", s->n_gone);
	json_key_u64(j, "heap_bytes", mallinfo2().uordblks + mallinfo2().hblkhd);
	json_key_u64(j, "rss_bytes", read_rss_bytes());
	json_key_u64(j, "shared_files", count_shared_files());
	json_end_object(j);
	return 0;
}

static inline int method_who(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct json *j = rpc_call_result(call);

	(void)ctx;
	(void)err;
	json_begin_object(j);
	json_key_u64(j, "uid", peer->uid);
	json_key_u64(j, "gid", peer->gid);
	json_key_i64(j, "pid", peer->pid);
	json_key_bool(j, "is_in_4711", rpc_peer_is_in(peer, 4711));
	json_key_bool(j, "is_in_4712", rpc_peer_is_in(peer, 4712));
	json_end_object(j);
	return 0;
}

static inline int method_stop(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;

	(void)err;
	json_str(rpc_call_result(call), "bye");
	loop_stop(s->loop);
	return 0;
}

/* Ends every subscription, from the server's side. */
static inline int method_unsubscribe(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;

	(void)call;
	(void)err;
	for (size_t i = 0; i < MAX_SUBSCRIBERS; i++) {
		if (s->subscribers[i])
			free(subscriber_places[i]);
		s->subscribers[i] = rpc_subscriber_free(s->subscribers[i]);
	}
	return 0;
}

static const struct rpc_method test_methods[] = {
	{ "echo", method_echo, RPC_FOR_ALL },
	{ "nothing", method_nothing, RPC_FOR_ALL },
	{ "spin", method_spin, RPC_FOR_ALL },
	{ "add", method_add, RPC_FOR_ALL },
	{ "fail", method_fail, RPC_FOR_ALL },
	{ "big", method_big, RPC_FOR_ALL },
	{ "wait", method_wait, RPC_FOR_ALL },
	{ "release", method_release, RPC_FOR_ALL },
	{ "subscribe", method_subscribe, RPC_FOR_ALL },
	{ "unsubscribe", method_unsubscribe, RPC_FOR_ALL },
	{ "publish", method_publish, RPC_FOR_ALL },
	{ "stats", method_stats, RPC_FOR_ALL },
	{ "who", method_who, RPC_FOR_ALL },
	{ "owner.only", method_nothing, RPC_FOR_OWNER },
	{ "stop", method_stop, RPC_FOR_OWNER },
};

/* Serves until "stop", after a byte to ready_fd. Exits with 0 if all was well: also no leak. */
static inline void serve(const struct fixture *f, const struct rpc_limits *limits, int ready_fd)
{
	struct service s = { .loop = loop_new() };
	const struct rpc_options options = {
		.path = f->path,
		.mode = 0666,
		.methods = test_methods,
		.n_methods = ARRAY_SIZE(test_methods),
		.ctx = &s,
		.limits = limits,
	};
	struct err err = ERR_INIT;

	s.timer = s.loop ? loop_timer_new(s.loop, on_fixture_timer, &s) : NULL;
	if (!s.timer || rpc_server_new(s.loop, &options, &s.server, &err) < 0) {
		fprintf(stderr, "no server: %s\n", err.text);
		exit(3);
	}
	if (write(ready_fd, "r", 1) != 1)
		exit(4);
	loop_run(s.loop);
	s.server = rpc_server_free(s.server);
	s.loop = loop_free(s.loop);
	exit(count_waiters(&s) == 0 ? 0 : 5);
}

/* ---- the test's side ---- */

static inline int fixture_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->dir, sizeof(f->dir), "%.50s/proctor-rpc-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(f->dir) || chmod(f->dir, 0755) < 0)
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/proctor.sock", f->dir);
	*state = f;
	return 0;
}

/* A child that does not outlive us, however we end. */
static inline pid_t fork_child(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

/* The same, as an ordinary user of the group 4711; for root alone. */
static inline pid_t fork_nobody(void)
{
	const gid_t groups[] = { 4711 };
	pid_t parent = getpid(), pid = fork_child();

	if (pid != 0)
		return pid;
	if (setgroups(1, groups) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		_exit(99);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* becoming another user has cleared it */
	if (getppid() != parent)
		_exit(1);
	return 0;
}

static inline void start_server(struct fixture *f, const struct rpc_limits *limits)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	f->server = fork_child();
	if (f->server == 0) {
		close(ready[0]);
		if (f->max_files > 0)
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){ f->max_files, f->max_files });
		serve(f, limits, ready[1]);
	}
	assert_true(f->server > 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
}

static inline int setup_with_server(void **state)
{
	int r = fixture_setup(state);

	if (r == 0)
		start_server(*state, NULL);
	return r;
}

/* The status it ends with, having been asked to. */
static inline int stop_server(struct fixture *f)
{
	const struct rpc_client_options options = { .path = f->path,
						    .timeout_ms = PATIENCE_S * 1000 };
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;
	int status = -1;

	if (rpc_client_open(&options, &client, &err) < 0 ||
	    rpc_client_call(client, "stop", NULL, NULL, &err) < 0) {
		print_message("# cannot stop the server: %s\n", err.text);
		kill(f->server, SIGKILL);
	}
	rpc_client_close(client);
	if (waitpid(f->server, &status, 0) != f->server)
		status = -1;
	f->server = 0;
	return status;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	int status = f->server > 0 ? stop_server(f) : 0;
	DIR *dir = opendir(f->dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && unlinkat(dirfd(dir), entry->d_name, 0) < 0)
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	if (dir)
		closedir(dir);
	rmdir(f->dir);
	free(f);
	if (status != 0)
		print_message("# the server ended with %#x\n", (unsigned)status);
	return status;
}

/* A client that says and hears raw bytes. */
struct raw {
	int fd;
	char *bytes; /* heard, and not yet handed out */
	size_t len, cap;
};

static inline struct raw raw_open(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct raw c = { .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };

	assert_true(c.fd >= 0);
	assert_true(strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path));
	assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(connect(c.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return c;
}

static inline void raw_close(struct raw *c)
{
	close(c->fd);
	free(c->bytes);
	*c = (struct raw){ .fd = -1 };
}

static inline void raw_say_bytes(struct raw *c, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = send(c->fd, bytes, n, MSG_NOSIGNAL);

		if (done <= 0)
			fail_msg("cannot send: %s", strerror(errno));
		bytes += done;
		n -= (size_t)done;
	}
}

static inline void raw_say(struct raw *c, const char *text)
{
	raw_say_bytes(c, text, strlen(text));
}

/* The next line without its newline, to be freed; NULL: the server has closed. */
static inline char *raw_hear(struct raw *c)
{
	for (;;) {
		char *end = c->len ? memchr(c->bytes, '\n', c->len) : NULL;
		ssize_t n;

		if (end) {
			size_t len = (size_t)(end - c->bytes);
			char *line = strndup(c->bytes, len);

			c->len -= len + 1;
			memmove(c->bytes, end + 1, c->len);
			return line;
		}
		if (c->cap - c->len < 65536) {
			c->cap = c->cap * 2 + 65536;
			c->bytes = realloc(c->bytes, c->cap);
			assert_non_null(c->bytes);
		}
		n = recv(c->fd, c->bytes + c->len, c->cap - c->len, 0);
		if (n < 0 && errno != ECONNRESET)
			fail_msg("nothing comes: %s", strerror(errno));
		if (n <= 0)
			return NULL;
		c->len += (size_t)n;
	}
}

static inline void assert_hears(struct raw *c, const char *expected)
{
	char *line = raw_hear(c);

	if (!line)
		fail_msg("the server has closed, instead of %s", expected);
	assert_string_equal(line, expected);
	free(line);
}

static inline void assert_hears_like(struct raw *c, const char *part)
{
	char *line = raw_hear(c);

	if (!line || !strstr(line, part))
		fail_msg("%.200s, instead of something with %s", line ? line : "(closed)", part);
	free(line);
}

/* Whether a client that does as it should is served. */
static inline void assert_serves(struct raw *c)
{
	raw_say(c, "{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"still here\"],"
		   "\"id\":\"s\"}\n");
	assert_hears(c, "{\"jsonrpc\":\"2.0\",\"result\":[\"still here\"],\"id\":\"s\"}");
}

static inline void assert_closed(struct raw *c)
{
	char *line = raw_hear(c);

	if (line)
		fail_msg("not closed: %.200s", line);
}

/* One of the server's own figures. */
static inline uint64_t get_stat(struct raw *c, const char *name)
{
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;
	uint64_t figure;
	char *line;

	raw_say(c, "{\"jsonrpc\":\"2.0\",\"method\":\"stats\",\"id\":1}\n");
	line = raw_hear(c);
	assert_non_null(line);
	assert_int_equal(rpc_value_parse(line, strlen(line), &(struct rpc_value_limits){ 8, 1000 },
					 &v, &err),
			 0);
	figure = rpc_value_u64(rpc_value_get(rpc_value_get(v, "result"), name));
	rpc_value_free(v);
	free(line);
	if (!u64_known(figure))
		fail_msg("no figure %s", name);
	return figure;
}

static inline void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* Waits until a figure is what it should be: things take the time they take. */
static inline void await_stat(struct raw *c, const char *name, uint64_t wanted)
{
	uint64_t figure = U64_UNKNOWN;

	for (int i = 0; i < PATIENCE_S * 100; i++) {
		figure = get_stat(c, name);
		if (figure == wanted)
			return;
		sleep_ms(10);
	}
	fail_msg("%s stays %llu, and should become %llu", name, (unsigned long long)figure,
		 (unsigned long long)wanted);
}

/* Runs fn in the child. Returns its status, 0 when all of its checks held. */
static inline int run_in(pid_t child, void (*fn)(struct fixture *), struct fixture *f)
{
	int status = -1;

	if (child == 0) {
		fn(f);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

#endif
