#include "rpc_fixture.h"

#include <limits.h>

#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/listen.h"

static struct rpc_client *must_connect(const struct rpc_client_options *options)
{
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;

	if (rpc_client_open(options, &client, &err) < 0)
		fail_msg("%s", err.text);
	return client;
}

/* ---- a daemon as it should be ---- */

static void test_calls(void **state)
{
	struct fixture *f = *state;
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *client = must_connect(&options);
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(rpc_client_daemon_pid(client), f->server);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(rpc_client_call(client, "add", "[1,0.5]", &v, &err), 0);
		assert_true(rpc_value_f64(v) == 1.5);
		v = rpc_value_free(v);
	}
	assert_int_equal(rpc_client_call(client, "nothing", NULL, &v, &err), 0);
	assert_true(rpc_value_is_null(v));
	v = rpc_value_free(v);
	assert_int_equal(rpc_client_call(client, "echo", "{\"a\":\"b\"}", NULL, &err), 0);
	assert_int_equal(rpc_client_notify(client, "echo", "[1]", &err), 0);
	assert_int_equal(rpc_client_call(client, "big", "[10000000]", &v, &err), 0);
	assert_int_equal(strlen(rpc_value_string(v)), 10000000);
	rpc_value_free(v);
	assert_null(rpc_client_close(client));
	assert_null(rpc_client_close(NULL));
}

static void test_errors(void **state)
{
	static const struct {
		const char *method, *params;
		int result;
		long long code;
		const char *said;
	} rows[] = {
		{ "fail", NULL, -ENOENT, RPC_NOT_FOUND, "no job 'j'" },
		{ "ecco", NULL, -ENOSYS, RPC_METHOD_NOT_FOUND,
		  "no method 'ecco'; did you mean 'echo'?" },
		{ "add", "[]", -EINVAL, RPC_INVALID_PARAMS, "'first' is missing; it is a number" },
		{ "echo", "1", -EPROTO, RPC_INVALID_REQUEST,
		  "'params' must be an object or a list" },
		{ "echo", "[", -EBADMSG, RPC_PARSE_ERROR, "no JSON at byte " },
		{ "echo", "[\n]", -EINVAL, 0, "the params of echo are more than one line" },
	};
	struct fixture *f = *state;
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *client = must_connect(&options);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rpc_value *v = NULL;
		struct err err = ERR_INIT;
		int r = rpc_client_call(client, rows[i].method, rows[i].params, &v, &err);

		assert_int_equal(r, rows[i].result);
		assert_int_equal(err.code, rows[i].result);
		assert_null(v);
		assert_int_equal(rpc_client_error_code(client), rows[i].code);
		assert_memory_equal(err.text, rows[i].said, strlen(rows[i].said));
	}
	assert_int_equal(rpc_client_call(client, "nothing", NULL, NULL, NULL), 0);
	assert_int_equal(rpc_client_error_code(client), 0);
	assert_null(rpc_client_error_data(client));
	rpc_client_close(client);
}

/* An answer that comes too late is not taken for that of the next call. */
static void test_timeout(void **state)
{
	struct fixture *f = *state;
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *client = must_connect(&options), *other = must_connect(&options);
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;

	rpc_client_set_timeout(client, 50);
	assert_int_equal(rpc_client_call(client, "wait", NULL, NULL, &err), -ETIMEDOUT);
	assert_string_equal(err.text, "the daemon did not answer in time");
	assert_int_equal(rpc_client_call(other, "release", NULL, NULL, &err), 0);
	rpc_client_set_timeout(client, RPC_FOREVER);
	assert_int_equal(rpc_client_call(client, "add", "[1,2]", &v, &err), 0);
	assert_true(rpc_value_f64(v) == 3);
	rpc_value_free(v);
	rpc_client_close(client);
	rpc_client_close(other);
}

/* ---- events ---- */

struct heard {
	uint64_t n, last_k;
	uint64_t stop_at; /* returns 7 after so many */
};

static int on_event(void *ctx, const struct rpc_value *params)
{
	struct heard *h = ctx;

	assert_string_equal(rpc_value_string(rpc_value_get(params, "topic")), "job.started");
	assert_true(rpc_value_f64(rpc_value_get(params, "timestamp")) == 1700000000.5);
	h->last_k = rpc_value_u64(rpc_value_get(rpc_value_get(params, "data"), "k"));
	return ++h->n == h->stop_at ? 7 : 0;
}

static void test_events(void **state)
{
	struct fixture *f = *state;
	struct heard heard = { .stop_at = 3 };
	const struct rpc_client_options options = { .path = f->path,
						    .on_event = on_event,
						    .ctx = &heard };
	struct rpc_client *client = must_connect(&options);
	struct err err = ERR_INIT;

	assert_int_equal(rpc_client_call(client, "subscribe", NULL, NULL, &err), 0);
	assert_int_equal(rpc_client_call(client, "publish", "[5]", NULL, &err), 0);
	assert_int_equal(rpc_client_listen(client, PATIENCE_S * 1000, &err), 7);
	assert_int_equal(heard.n, 3);
	assert_int_equal(rpc_client_listen(client, 50, &err), -ETIMEDOUT);
	assert_int_equal(heard.n, 5);
	assert_int_equal(heard.last_k, 4);
	assert_int_equal(rpc_client_listen(client, 0, &err), -ETIMEDOUT);

	/* Those that come while an answer is awaited are not lost. */
	for (int i = 0; i < 50; i++) {
		assert_int_equal(rpc_client_call(client, "publish", "[1]", NULL, &err), 0);
		assert_int_equal(rpc_client_call(client, "echo", "[]", NULL, &err), 0);
	}
	while (heard.n < 55)
		assert_true(rpc_client_listen(client, 10, &err) == -ETIMEDOUT);
	assert_int_equal(heard.last_k, 54);

	assert_int_equal(stop_server(f), 0);
	assert_int_equal(rpc_client_listen(client, RPC_FOREVER, &err), -ECONNRESET);
	assert_string_equal(err.text, "the daemon has closed the connection");
	assert_int_equal(rpc_client_call(client, "echo", NULL, NULL, &err), -ENOTCONN);
	assert_int_equal(rpc_client_listen(client, RPC_FOREVER, &err), -ECONNRESET);
	rpc_client_close(client);
}

struct answered {
	uint64_t ids[4];
	int r[4];
	double values[4];
	unsigned n;
};

static void on_answer(void *ctx, uint64_t id, int r, const struct rpc_value *result,
		      const struct err *err)
{
	struct answered *a = ctx;

	assert_true(a->n < 4);
	assert_true((r == 0) == (err->text[0] == '\0'));
	a->ids[a->n] = id;
	a->r[a->n] = r;
	a->values[a->n++] = rpc_value_f64(result);
}

/* Nobody waits for these; a call that is waited for has its own. */
static void test_asking(void **state)
{
	struct fixture *f = *state;
	struct answered got = { 0 };
	const struct rpc_client_options options = { .path = f->path,
						    .on_answer = on_answer,
						    .ctx = &got };
	struct rpc_client *client = must_connect(&options);
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;
	uint64_t ids[3] = { 0 };

	assert_int_equal(rpc_client_ask(client, "add", "[1,2]", &ids[0], &err), 0);
	assert_int_equal(rpc_client_ask(client, "no.such.method", NULL, &ids[1], &err), 0);
	assert_int_equal(rpc_client_call(client, "add", "[20,10]", &v, &err), 0);
	assert_true(rpc_value_f64(v) == 30);
	rpc_value_free(v);
	assert_int_equal(rpc_client_ask(client, "add", "[3,4]", &ids[2], &err), 0);
	for (int i = 0; got.n < 3 && i < PATIENCE_S * 20; i++)
		assert_int_equal(rpc_client_listen(client, 50, &err), -ETIMEDOUT);
	assert_int_equal(got.n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(got.ids[i], ids[i]);
	assert_true(got.r[0] == 0 && got.values[0] == 3);
	assert_true(got.r[1] < 0);
	assert_true(got.r[2] == 0 && got.values[2] == 7);
	rpc_client_close(client);
}

/* Of one topic no tree is made; all others are events as before. */
static int on_text(void *ctx, struct json_cursor *data)
{
	struct heard *heard = ctx;
	const char *key;
	size_t n;

	assert_true(json_cursor_enter(data, '{'));
	assert_true(json_cursor_next_key(data, &key, &n));
	assert_true(json_cursor_is(key, n, "k"));
	heard->last_k = json_cursor_u64(data);
	return ++heard->n == heard->stop_at ? 7 : 0;
}

static void test_text_events(void **state)
{
	struct fixture *f = *state;
	struct heard heard = { .stop_at = 3 };
	struct rpc_client_options options = {
		.path = f->path, .text_topic = "job.started", .on_text = on_text, .ctx = &heard
	};
	struct rpc_client *client = must_connect(&options);
	struct err err = ERR_INIT;

	assert_int_equal(rpc_client_call(client, "subscribe", NULL, NULL, &err), 0);
	assert_int_equal(rpc_client_call(client, "publish", "[5]", NULL, &err), 0);
	assert_int_equal(rpc_client_listen(client, PATIENCE_S * 1000, &err), 7);
	assert_int_equal(rpc_client_listen(client, 50, &err), -ETIMEDOUT);
	assert_int_equal(heard.n, 5);
	assert_int_equal(heard.last_k, 4);
	rpc_client_close(client);

	heard = (struct heard){ 0 };
	options.text_topic = "job.start";
	options.on_event = on_event;
	client = must_connect(&options);
	assert_int_equal(rpc_client_call(client, "subscribe", NULL, NULL, &err), 0);
	assert_int_equal(rpc_client_call(client, "publish", "[2]", NULL, &err), 0);
	assert_int_equal(rpc_client_listen(client, 100, &err), -ETIMEDOUT);
	assert_int_equal(heard.n, 2);
	rpc_client_close(client);
}

/* ---- finding it ---- */

static void find_in_many_places(struct fixture *f)
{
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;

	setenv("PROCTOR_HOME", f->dir, 1);
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	CHILD_CHECK(rpc_client_open(&options, &client, &err) == 0);
	CHILD_CHECK(rpc_client_daemon_pid(client) == f->server);
	client = rpc_client_close(client);

	/* Nothing in PROCTOR_HOME: the user's is next (root has none). */
	setenv("PROCTOR_HOME", "/nonexistent", 1);
	setenv("XDG_RUNTIME_DIR", f->dir, 1);
	if (geteuid() != 0)
		CHILD_CHECK(rpc_client_open(&options, &client, &err) == 0);
	rpc_client_close(client);
}

static void find_nothing(struct fixture *f)
{
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;

	(void)f;
	setenv("PROCTOR_HOME", "/nonexistent", 1);
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	if (access("/run/proctor/proctor.sock", F_OK) == 0)
		_exit(0); /* this host has one */
	CHILD_CHECK(rpc_client_open(&options, &client, &err) == -ENOENT);
	CHILD_CHECK(strstr(err.text, "no daemon is running (nobody listens on "
				     "/nonexistent/proctor.sock, nor on ") == err.text);
	CHILD_CHECK(strstr(err.text, " nor on /run/proctor/proctor.sock)"));
}

static void test_finding(void **state)
{
	struct fixture *f = *state;
	char dir[160], path[192];

	snprintf(dir, sizeof(dir), "%s/proctor", f->dir);
	snprintf(path, sizeof(path), "%s/proctor.sock", dir);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(symlink(f->path, path), 0);
	assert_int_equal(run_in(fork_child(), find_in_many_places, f), 0);
	assert_int_equal(run_in(fork_child(), find_nothing, f), 0);
	if (geteuid() == 0)
		assert_int_equal(run_in(fork_nobody(), find_in_many_places, f), 0);
	unlink(path);
	rmdir(dir);
}

static void test_no_daemon(void **state)
{
	struct fixture *f = *state;
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;
	char expected[256];

	snprintf(expected, sizeof(expected), "no daemon is running (nobody listens on %s)",
		 f->path);
	assert_int_equal(rpc_client_open(&options, &client, &err), -ENOENT);
	assert_string_equal(err.text, expected);
	/* One that was killed. */
	start_server(f, NULL);
	kill(f->server, SIGKILL);
	assert_int_equal(waitpid(f->server, NULL, 0), f->server);
	f->server = 0;
	assert_int_equal(access(f->path, F_OK), 0);
	assert_int_equal(rpc_client_open(&options, &client, &err), -ENOENT);
	assert_string_equal(err.text, expected);
	assert_null(client);
}

/* ---- a daemon as it should not be ---- */

static int listen_plain(const char *path, int backlog)
{
	struct address address;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || address_of_path(path, &address, NULL) < 0 ||
	    bind(fd, (struct sockaddr *)&address.un, address.len) < 0 || listen(fd, backlog) < 0)
		return -1;
	return fd;
}

/* Listens as an ordinary user, until it is killed. */
static pid_t start_impostor(struct fixture *f)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork_nobody();
	if (pid == 0) {
		CHILD_CHECK(listen_plain(f->path, 5) >= 0);
		CHILD_CHECK(write(ready[1], "r", 1) == 1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void test_impostor(void **state)
{
	struct fixture *f = *state;
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;
	pid_t pid;

	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	assert_int_equal(chmod(f->dir, 01777), 0);
	pid = start_impostor(f);
	assert_int_equal(rpc_client_open(&options, &client, &err), -EPERM);
	assert_non_null(strstr(err.text, "listens uid 65534, who is neither root nor this user"));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Of some with a deadline of 2 ms, as a busy machine makes each take longer. */
static uint64_t find_quickest_refusal(const char *path)
{
	const struct rpc_client_options options = { .path = path, .timeout_ms = 2 };
	uint64_t least_ns = UINT64_MAX;

	for (int i = 0; i < 50; i++) {
		struct rpc_client *client = NULL;
		uint64_t began_ns = clock_boot_ns(), ns;

		assert_int_equal(rpc_client_open(&options, &client, NULL), -ETIMEDOUT);
		ns = clock_boot_ns() - began_ns;
		least_ns = ns < least_ns ? ns : least_ns;
	}
	return least_ns;
}

/* Nobody accepts, and the queue is full. */
static void test_full_queue(void **state)
{
	struct fixture *f = *state;
	const struct rpc_client_options options = { .path = f->path, .timeout_ms = 50 };
	struct rpc_client *clients[8] = { NULL };
	int fd = listen_plain(f->path, 1), r = 0;
	struct err err = ERR_INIT;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(clients); i++)
		r = rpc_client_open(&options, &clients[i], &err);
	assert_int_equal(r, -ETIMEDOUT);
	assert_true(find_quickest_refusal(f->path) < 8000000);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		rpc_client_close(clients[i]);
	close(fd);
}

#define FOR_EVER INT_MAX

/* What it answers to whatever it is asked, how often, and what the client makes of it. */
static const struct hostile {
	const char *text;
	int times;
	int result;
	const char *said;
} hostile[] = {
	{ "hello\n", 1, -EBADMSG, "no JSON at byte" },
	{ "\n", 1, -EBADMSG, "no JSON at byte" },
	{ "[[[[[[[[[[", 100000, -EMSGSIZE, "longer than 100000 bytes" },
	{ "[[[[[[[[[[", 50, -ETIMEDOUT, "did not answer in time" },
	{ "", 0, -ECONNRESET, "has closed the connection" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1}\n", 1, -EBADMSG, "neither result nor error" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":7}\n", 1, -EREMOTEIO, "something failed" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"x\",\"message\":[]}}\n", 1,
	  -EREMOTEIO, "something failed" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32004,\"message\":\"full\"}}\n", 1,
	  -EUSERS, "full" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n", 50, -ETIMEDOUT, "did not answer" },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"event\"}\n{\"method\":1}\n[]\n1\n", 50, -ETIMEDOUT,
	  "did not answer" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", 1, -ETIMEDOUT, "did not answer" },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{}}\n", FOR_EVER, -ETIMEDOUT,
	  "did not answer" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n", FOR_EVER, -ETIMEDOUT, "did not answer" },
};

/* Many at a time, so that the client never finds nothing to read. */
static void say_for_ever(int client, const char *text)
{
	static char many[64 * 1024];
	size_t len = strlen(text), n = 0;

	for (; n + len <= sizeof(many); n += len)
		memcpy(many + n, text, len);
	while (send(client, many, n, MSG_NOSIGNAL) >= 0)
		;
	pause();
}

/* Accepts one client and answers it. With times 0 it only closes. */
static void be_hostile(int fd, const struct hostile *h)
{
	int client = accept(fd, NULL, NULL);
	char bytes[256];

	CHILD_CHECK(client >= 0);
	if (h->times == 0)
		_exit(0);
	CHILD_CHECK(recv(client, bytes, sizeof(bytes), 0) > 0);
	if (h->times == FOR_EVER)
		say_for_ever(client, h->text);
	for (int i = 0; i < h->times; i++)
		if (send(client, h->text, strlen(h->text), MSG_NOSIGNAL) < 0)
			break;
	pause();
}

/* Slower than they come. */
static int take_time(void *ctx, const struct rpc_value *params)
{
	size_t *n_taken = ctx;

	(void)params;
	if (n_taken)
		(*n_taken)++;
	usleep(100);
	return 0;
}

static void test_hostile_daemon(void **state)
{
	struct fixture *f = *state;
	int fd = listen_plain(f->path, 5);

	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		/* What is not about time has enough of it, however busy the machine is. */
		const struct rpc_client_options options = {
			.path = f->path,
			.timeout_ms = hostile[i].result == -ETIMEDOUT ? 300 : 60000,
			.max_line_bytes = 100000,
			.on_event = take_time,
		};
		struct rpc_client *client;
		struct rpc_value *v = NULL;
		struct err err = ERR_INIT;
		int r;
		pid_t pid = fork_child();

		if (pid == 0)
			be_hostile(fd, &hostile[i]);
		client = must_connect(&options);
		r = rpc_client_call(client, "echo", NULL, &v, &err);
		if (r != hostile[i].result || !strstr(err.text, hostile[i].said))
			fail_msg("row %zu: %d, %s", i, r, err.text);
		assert_null(v);
		rpc_client_close(client);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	close(fd);
}

/* Who listens for a while is not kept for longer by events that never end. */
static void test_endless_events(void **state)
{
	static const struct hostile endless = {
		.text = "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{}}\n",
		.times = FOR_EVER,
	};
	struct fixture *f = *state;
	size_t n_taken = 0;
	const struct rpc_client_options options = { .path = f->path,
						    .on_event = take_time,
						    .ctx = &n_taken };
	int fd = listen_plain(f->path, 5);
	struct rpc_client *client;
	struct err err = ERR_INIT;
	pid_t pid = fork_child();

	if (pid == 0)
		be_hostile(fd, &endless);
	client = must_connect(&options);
	assert_int_equal(rpc_client_notify(client, "echo", NULL, &err), 0);
	for (uint64_t ms = 0; ms <= 100; ms += 50) {
		n_taken = 0;
		assert_int_equal(rpc_client_listen(client, ms, &err), -ETIMEDOUT);
		/* As many as there is time for, and the rest of what was read in one piece. */
		assert_in_range(n_taken, 0,
				ms * 10 + 2 * RPC_CLIENT_CHUNK_BYTES / strlen(endless.text));
	}
	rpc_client_close(client);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
}

int main(void)
{
#define CLIENT_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_with_server, fixture_teardown)
#define ALONE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		CLIENT_TEST(test_calls),	 CLIENT_TEST(test_errors),
		CLIENT_TEST(test_timeout),	 CLIENT_TEST(test_events),
		CLIENT_TEST(test_text_events),	 CLIENT_TEST(test_finding),
		ALONE_TEST(test_no_daemon),	 ALONE_TEST(test_impostor),
		ALONE_TEST(test_full_queue),	 ALONE_TEST(test_hostile_daemon),
		ALONE_TEST(test_endless_events), CLIENT_TEST(test_asking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
