/*
 * A server with 500 clients, some of which mean harm: each of those is told or dropped, the
 * others are served all the while, and when it is over the server is as it was before.
 */
#include "rpc_fixture.h"

#define N_QUIET 440  /* connected, with a request now and then */
#define N_WAITING 50 /* with a request in flight */
#define N_CALLS 200  /* that the good ones make meanwhile */
#define MAX_GROWTH_BYTES (16 * 1024 * 1024)

#define CALL(method, rest) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"id\":1" rest "}\n"

/* ---- those who mean harm: each in a process of its own, until it is killed ---- */

static int connect_or_die(const struct fixture *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memcpy(address.sun_path, f->path, strlen(f->path));
	CHILD_CHECK(fd >= 0);
	CHILD_CHECK(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0) {
		ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

		if (done <= 0)
			pause(); /* it was dropped, which is right */
		p += done;
		n -= (size_t)done;
	}
}

/* Whatever is answered: to be read, so that it is not for its replies that it is dropped. */
static void listen_to(int fd)
{
	static char bytes[65536];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void half_a_line(const struct fixture *f)
{
	int fd = connect_or_die(f);

	say(fd, "{\"jsonrpc\":", 11);
	pause();
}

static void never_reads(const struct fixture *f)
{
	int fd = connect_or_die(f);

	for (;;)
		say(fd, CALL("big", ",\"params\":[100000]"),
		    strlen(CALL("big", ",\"params\":[100000]")));
}

static void too_long(const struct fixture *f)
{
	static char bytes[1024 * 1024];
	int fd = connect_or_die(f);

	memset(bytes, 'x', sizeof(bytes));
	for (;;) {
		for (int i = 0; i < 17; i++)
			say(fd, bytes, sizeof(bytes));
		say(fd, "\n", 1);
		listen_to(fd);
	}
}

/* As long as may be, and parsed in full: a text, and then a method that is not there. */
static void long_and_valid(const struct fixture *f)
{
	static char bytes[1024 * 1024];
	int fd = connect_or_die(f);

	memset(bytes, 'x', sizeof(bytes));
	for (;;) {
		say(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"none\",\"params\":[\"", 49);
		for (int i = 0; i < 15; i++)
			say(fd, bytes, sizeof(bytes));
		say(fd, "\"]}\n", 4);
		listen_to(fd);
	}
}

static void junk(const struct fixture *f)
{
	int fd = connect_or_die(f);
	unsigned seed = 1;

	for (;;) {
		unsigned char bytes[4096];

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (unsigned char)rand_r(&seed);
		say(fd, bytes, sizeof(bytes));
		listen_to(fd);
	}
}

static void deep(const struct fixture *f)
{
	static char bytes[100001];
	int fd = connect_or_die(f);

	memset(bytes, '[', sizeof(bytes));
	bytes[sizeof(bytes) - 1] = '\n';
	for (;;) {
		say(fd, bytes, sizeof(bytes));
		listen_to(fd);
	}
}

static void wrong_types(const struct fixture *f)
{
	static const char text[] =
		"1\nnull\n[]\n{}\n[{}]\n\"\"\n{\"jsonrpc\":2}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":{},\"id\":[]}\n" CALL(
			"add", ",\"params\":{\"first\":{}}") CALL("echo", ",\"params\":7");
	int fd = connect_or_die(f);

	for (;;) {
		say(fd, text, sizeof(text) - 1);
		listen_to(fd);
	}
}

/* Subscribes, waits, sends half of something long; and then it is killed, again and again. */
static void dies_in_the_middle(const struct fixture *f)
{
	static char bytes[300000];
	unsigned seed = 7;

	memset(bytes, 'x', sizeof(bytes));
	for (;;) {
		pid_t pid = fork_child();

		if (pid == 0) {
			int fd = connect_or_die(f);

			say(fd, CALL("wait", ""), strlen(CALL("wait", "")));
			say(fd, CALL("subscribe", ""), strlen(CALL("subscribe", "")));
			say(fd, CALL("big", ",\"params\":[1000000]"),
			    strlen(CALL("big", ",\"params\":[1000000]")));
			say(fd, bytes, sizeof(bytes));
			pause();
		}
		sleep_ms(1 + rand_r(&seed) % 10);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

static void (*const crowd[])(const struct fixture *) = {
	half_a_line, never_reads, too_long,    long_and_valid,
	junk,	     deep,	  wrong_types, dies_in_the_middle,
};

static void start_crowd(const struct fixture *f, pid_t *pids)
{
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++) {
		pids[i] = fork_child();
		if (pids[i] == 0)
			crowd[i](f);
		assert_true(pids[i] > 0);
	}
}

static void stop_crowd(const pid_t *pids)
{
	for (size_t i = 0; i < ARRAY_SIZE(crowd); i++) {
		int status;

		assert_int_equal(kill(pids[i], SIGKILL), 0);
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(
			WIFSIGNALED(status)); /* it had not ended by itself, by a failed check */
	}
}

/* ---- those who are served ---- */

/* All that ought to be answered is, whatever the crowd does. */
static void make_progress(struct raw *quiet)
{
	for (size_t i = 0; i < N_CALLS; i++)
		assert_serves(&quiet[i * 7 % N_QUIET]);
}

static void run_round(struct fixture *f, struct raw *good)
{
	static struct raw quiet[N_QUIET], waiting[N_WAITING];
	pid_t pids[ARRAY_SIZE(crowd)];
	uint64_t n_dropped = get_stat(good, "dropped");

	for (size_t i = 0; i < N_QUIET; i++)
		quiet[i] = raw_open(f->path);
	for (size_t i = 0; i < N_WAITING; i++) {
		waiting[i] = raw_open(f->path);
		raw_say(&waiting[i], CALL("wait", ""));
	}
	await_stat(good, "open_calls", N_WAITING);
	start_crowd(f, pids);
	make_progress(quiet);
	assert_true(get_stat(good, "unread_bytes") < 64 * 1024 * 1024);
	while (get_stat(good, "dropped") <
	       n_dropped + 2) /* half a line, and the one that never reads */
		make_progress(quiet);
	stop_crowd(pids);

	/* What was in flight is still there, and is answered. */
	assert_true(get_stat(good, "waiters") >= N_WAITING);
	raw_say(good, CALL("release", ""));
	free(raw_hear(good));
	for (size_t i = 0; i < N_WAITING; i++) {
		assert_hears_like(&waiting[i], "\"released\"");
		raw_close(&waiting[i]);
	}
	for (size_t i = 0; i < N_QUIET; i++)
		raw_close(&quiet[i]);
}

/* Nothing is left of all of it. */
static void assert_is_empty(struct raw *good)
{
	await_stat(good, "clients", 1);
	await_stat(good, "request_bytes", 0);
	assert_int_equal(get_stat(good, "unread_bytes"), 0);
	assert_int_equal(get_stat(good, "open_calls"), 0);
	assert_int_equal(get_stat(good, "subscribers"), 0);
	assert_int_equal(get_stat(good, "waiters"), 0);
}

/* Memory that was freed goes back to the kernel within a sweep or two. */
static void assert_is_flat(struct raw *good, uint64_t before_bytes)
{
#ifdef __SANITIZE_ADDRESS__
	(void)good;
	(void)before_bytes;
#else
	uint64_t now_bytes = 0;

	for (int i = 0; i < PATIENCE_S * 10; i++) {
		now_bytes = get_stat(good, "rss_bytes");
		if (now_bytes < before_bytes + MAX_GROWTH_BYTES)
			return;
		sleep_ms(100);
	}
	fail_msg("%llu bytes before, %llu after", (unsigned long long)before_bytes,
		 (unsigned long long)now_bytes);
#endif
}

static void test_crowd(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = rpc_default_limits;
	struct raw good;
	uint64_t before_bytes;

	limits.line_timeout_ms = 1000;
	limits.read_timeout_ms = 1000;
	start_server(f, &limits);
	good = raw_open(f->path);
	before_bytes = get_stat(&good, "rss_bytes");
	for (int i = 0; i < 2; i++) {
		run_round(f, &good);
		assert_is_empty(&good);
		assert_is_flat(&good, before_bytes);
	}
	print_message("# RSS %llu MB before, %llu MB after\n",
		      (unsigned long long)(before_bytes >> 20),
		      (unsigned long long)(get_stat(&good, "rss_bytes") >> 20));
	raw_close(&good);
}

/* How often the server's timer had fired at each of the spinning calls in a line of answers. */
static size_t hear_spins(struct raw *c, uint64_t *ret, size_t max)
{
	const char *key = "\"result\":";
	char *line = raw_hear(c);
	size_t n = 0;

	for (char *at = line; at && (at = strstr(at, key)) && n < max; at++)
		ret[n++] = strtoull(at + strlen(key), NULL, 10);
	if (n == 0)
		fail_msg("no result in %.200s", line ? line : "(closed)");
	free(line);
	return n;
}

/* A batch is no way to hold the loop for longer than one request of it does. */
static void test_turns_in_a_batch(void **state)
{
	enum { N_SPINS = 8 };
	static const char spin[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"spin\",\"params\":[25],\"id\":1}";
	char batch[N_SPINS * sizeof(spin) + 8] = "[";
	uint64_t fired[N_SPINS];
	struct fixture *f = *state;
	struct raw a;

	for (int i = 0; i < N_SPINS; i++)
		snprintf(batch + strlen(batch), sizeof(batch) - strlen(batch), "%s%s", spin,
			 i + 1 < N_SPINS ? "," : "]\n");
	start_server(f, NULL);
	a = raw_open(f->path);
	raw_say(&a, batch);
	assert_int_equal(hear_spins(&a, fired, N_SPINS), N_SPINS);
	for (int i = 1; i < N_SPINS; i++)
		assert_true(fired[i] > fired[i - 1]);
	raw_say(&a, batch); /* and whoever goes in the middle of one leaves nothing behind */
	raw_close(&a);
	a = raw_open(f->path);
	assert_serves(&a);
	raw_close(&a);
}

/* However many ask for dear things at the same moment, timers come in between. */
static void test_timers_among_the_crowd(void **state)
{
	enum { N_BATCHES = 20, N_SPINS = 10 };
	static const char spin[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"spin\",\"params\":[3],\"id\":1}";
	struct fixture *f = *state;
	struct raw plug, clients[N_BATCHES];
	uint64_t n_distinct = 0, last = UINT64_MAX, fired[N_SPINS];
	char batch[N_SPINS * sizeof(spin) + 8] = "[";

	for (int i = 0; i < N_SPINS; i++)
		snprintf(batch + strlen(batch), sizeof(batch) - strlen(batch), "%s%s", spin,
			 i + 1 < N_SPINS ? "," : "]\n");
	start_server(f, NULL);
	plug = raw_open(f->path);
	for (size_t i = 0; i < N_BATCHES; i++) {
		clients[i] = raw_open(f->path);
		assert_serves(&clients[i]);
	}
	raw_say(&plug, CALL("spin", ",\"params\":[300]")); /* all of them are ready by then */
	for (size_t i = 0; i < N_BATCHES; i++)
		raw_say(&clients[i], batch);
	hear_spins(&plug, fired, 1);
	for (size_t i = 0; i < N_BATCHES; i++) {
		size_t n = hear_spins(&clients[i], fired, N_SPINS);

		for (size_t k = 0; k < n; k++) {
			n_distinct += fired[k] != last;
			last = fired[k];
		}
		raw_close(&clients[i]);
	}
	assert_true(n_distinct >= N_BATCHES / 2);
	raw_close(&plug);
}

/* Of those who ask again as soon as they are answered, with more than fits into a round, all get
 * on. */
static void test_turns(void **state)
{
	enum { N_ASKING = 8, N_ANSWERS = 120 };
	static const char spin[] = CALL("spin", ",\"params\":[5]");
	struct fixture *f = *state;
	struct raw clients[N_ASKING];
	struct pollfd fds[N_ASKING];
	size_t n_heard[N_ASKING] = { 0 };
	uint64_t fired;

	start_server(f, NULL);
	for (size_t i = 0; i < N_ASKING; i++) {
		clients[i] = raw_open(f->path);
		fds[i] = (struct pollfd){ .fd = clients[i].fd, .events = POLLIN };
		raw_say(&clients[i], spin);
	}
	for (size_t n = 0; n < N_ANSWERS;) {
		assert_true(poll(fds, N_ASKING, PATIENCE_S * 1000) > 0);
		for (size_t i = 0; i < N_ASKING; i++) {
			if (!fds[i].revents)
				continue;
			hear_spins(&clients[i], &fired, 1);
			raw_say(&clients[i], spin);
			n_heard[i]++;
			n++;
		}
	}
	for (size_t i = 0; i < N_ASKING; i++) {
		assert_true(n_heard[i] >= N_ANSWERS / N_ASKING / 2);
		raw_close(&clients[i]);
	}
}

/* Fifty who get every event, and one rendering of it for all of them. */
static void test_many_subscribers(void **state)
{
	enum { N_SUBSCRIBERS = 50, N_EVENTS = 20 };
	struct fixture *f = *state;
	struct raw subscribers[N_SUBSCRIBERS], good;
	uint64_t before_bytes, after_bytes;

	start_server(f, NULL);
	good = raw_open(f->path);
	for (size_t i = 0; i < N_SUBSCRIBERS; i++) {
		subscribers[i] = raw_open(f->path);
		raw_say(&subscribers[i], CALL("subscribe", ""));
		assert_hears_like(&subscribers[i], "\"result\"");
	}
	before_bytes = get_stat(&good, "heap_bytes");
	raw_say(&good, CALL("publish", ",\"params\":[1,1000000]"));
	assert_hears_like(&good, "\"result\"");
	after_bytes = get_stat(&good, "heap_bytes");
#ifndef __SANITIZE_ADDRESS__
	assert_true(after_bytes > before_bytes); /* it waits: nobody has read yet */
#endif
	assert_true(after_bytes < before_bytes + 4 * 1000000);
	for (size_t i = 0; i < N_SUBSCRIBERS; i++)
		assert_hears_like(&subscribers[i], "{\"k\":0,");
	for (int k = 1; k < N_EVENTS; k++) {
		char part[32];

		snprintf(part, sizeof(part), "{\"k\":%d,", k);
		raw_say(&good, CALL("publish", ",\"params\":[1,1000]"));
		assert_hears_like(&good, "\"result\"");
		for (size_t i = 0; i < N_SUBSCRIBERS; i++)
			assert_hears_like(&subscribers[i], part);
	}
	assert_int_equal(get_stat(&good, "lost"), 0);
	for (size_t i = 0; i < N_SUBSCRIBERS; i++)
		raw_close(&subscribers[i]);
	raw_close(&good);
}

int main(void)
{
#define LOAD_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		LOAD_TEST(test_crowd),
		LOAD_TEST(test_turns_in_a_batch),
		LOAD_TEST(test_timers_among_the_crowd),
		LOAD_TEST(test_turns),
		LOAD_TEST(test_many_subscribers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
