#include "rpc_fixture.h"

#define MIB ((size_t)1024 * 1024)
#define BIG_REPLY_BYTES (2000000 + strlen("{'jsonrpc':'2.0','result':'','id':1}\n"))
#define BIG(bytes) "{\"jsonrpc\":\"2.0\",\"method\":\"big\",\"params\":[" #bytes "],\"id\":1}"

/* The defaults, to be changed for one test. */
static struct rpc_limits some_limits(void)
{
	return rpc_default_limits;
}

static char *repeat(const char *piece, size_t n)
{
	size_t len = strlen(piece);
	char *text = malloc(len * n + 1);

	assert_non_null(text);
	for (size_t i = 0; i < n; i++)
		memcpy(text + i * len, piece, len);
	text[len * n] = '\0';
	return text;
}

/* ---- requests that are too much ---- */

/* An echo whose line has exactly so many bytes before its newline. */
static void say_echo_of_length(struct raw *c, size_t len)
{
	static const char head[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":1,\"params\":[\"";
	static const char tail[] = "\"]}";
	char *fill = repeat("y", len - strlen(head) - strlen(tail));

	raw_say(c, head);
	raw_say(c, fill);
	raw_say(c, tail);
	raw_say(c, "\n");
	free(fill);
}

static void test_long_lines(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);
	const char *too_long =
		"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32003,\"message\":\"the line is "
		"longer than 16777216 bytes\"},\"id\":null}";

	say_echo_of_length(&c, 16 * MIB);
	assert_hears_like(&c, "\"result\":[\"yyyy");
	say_echo_of_length(&c, 16 * MIB + 1);
	assert_hears(&c, too_long);
	say_echo_of_length(&c, 17 * MIB);
	assert_hears(&c, too_long);
	assert_serves(&c);
	assert_int_equal(get_stat(&c, "request_bytes"), 0);
	raw_close(&c);
}

/* A long line is parsed elsewhere: what came after it is still answered after it. */
static void test_order_around_a_long_line(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);

	for (int i = 0; i < 5; i++) {
		say_echo_of_length(&c, 3 * MIB);
		raw_say(&c, "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\",\"id\":2}\n");
		raw_say(&c, "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\",\"id\":3}\n");
		assert_hears_like(&c, "\"id\":1}");
		assert_hears_like(&c, "\"id\":2}");
		assert_hears_like(&c, "\"id\":3}");
	}
	/* Clients that go while their line is being parsed. */
	for (int i = 0; i < 20; i++) {
		struct raw going = raw_open(f->path);

		say_echo_of_length(&going, 2 * MIB);
		raw_close(&going);
	}
	await_stat(&c, "clients", 1);
	await_stat(&c, "request_bytes", 0);
	raw_close(&c);
}

/* Those who go leave nothing behind that adds up: what is still to be parsed counts. */
static void test_long_lines_of_those_who_go(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw good;

	limits.max_all_request_bytes = 20 * MIB;
	start_server(f, &limits);
	good = raw_open(f->path);
	for (int i = 0; i < 40; i++) {
		struct raw going = raw_open(f->path);
		char *line = repeat("y", 4 * MIB);

		line[0] = line[4 * MIB - 2] = '"';
		line[4 * MIB - 1] = '\n';
		send(going.fd, line, 4 * MIB, MSG_NOSIGNAL); /* some of them are dropped, or not */
		free(line);
		raw_close(&going);
		assert_true(get_stat(&good, "request_bytes") <= limits.max_all_request_bytes);
	}
	await_stat(&good, "clients", 1);
	await_stat(&good, "request_bytes", 0);
	raw_close(&good);
}

/* Trees that would take far more memory than their text. */
static void test_bombs(void **state)
{
	static const struct {
		const char *piece;
		size_t n;
		const char *said;
	} bombs[] = {
		{ "[", 1000000,
		  "\"code\":-32003,\"message\":\"1000000 lists and objects in each other" },
		{ "{\"a\":", 100000, "\"code\":-32003" },
		{ "[{},", 1000000, "\"code\":-32003" },
		{ "{},", 200000, "\"code\":-32003,\"message\":\"more than 131072 values" },
		{ ",", 200000, "\"code\":-32003,\"message\":\"more than 131072 values" },
		{ "\"", 200001, "\"code\":-32700" },
		{ "]", 200000, "\"code\":-32700" },
		{ "\x01", 200000, "\"code\":-32700" },
	};
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);

	for (size_t i = 0; i < ARRAY_SIZE(bombs); i++) {
		char *text = repeat(bombs[i].piece, bombs[i].n);

		raw_say(&c, text);
		raw_say(&c, "\n");
		assert_hears_like(&c, bombs[i].said);
		assert_serves(&c);
		free(text);
	}
	raw_close(&c);
}

static void test_long_batch(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);
	char *list = repeat("1,", rpc_default_limits.max_batch);

	list[strlen(list) - 1] = '\0';
	raw_say(&c, "[");
	raw_say(&c, list);
	raw_say(&c, "]\n");
	assert_hears_like(&c, "[{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600");
	raw_say(&c, "[1,");
	raw_say(&c, list);
	raw_say(&c, "]\n");
	assert_hears(&c,
		     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"a batch of 101 "
		     "requests; at most 100\"},\"id\":null}");
	free(list);
	raw_close(&c);
}

static void test_long_replies(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw c;

	limits.max_reply_bytes = 100000;
	start_server(f, &limits);
	c = raw_open(f->path);
	raw_say(&c, BIG(99900) "\n" BIG(100000) "\n");
	assert_hears_like(&c, "\"result\":\"xxx");
	assert_hears(
		&c, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32003,\"message\":\"the reply would "
		    "be longer than 100000 bytes\"},\"id\":1}");
	/* In a batch the last one finds less room. */
	raw_say(&c, "[" BIG(60000) "," BIG(60000) "," BIG(10) "]\n");
	assert_hears_like(&c, "},{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32003,");
	assert_serves(&c);
	raw_close(&c);
}

/* Answers that wait for the last one of their batch are held, and counted. */
static void test_batch_that_waits(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), b = raw_open(f->path);

	raw_say(&a, "[" BIG(200000) "," BIG(
			    200000) ",{\"jsonrpc\":\"2.0\",\"method\":\"wait\",\"id\":2}]\n");
	await_stat(&b, "open_calls", 1);
	assert_true(get_stat(&b, "unread_bytes") > 400000);
	/* So much that no more is taken from it. */
	raw_say(&a, "{\"jsonrpc\":\"2.0\",\"method\":\"wait\",\"id\":3}\n");
	assert_serves(&b);
	assert_int_equal(get_stat(&b, "open_calls"), 1);
	raw_say(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"release\",\"id\":1}\n");
	free(raw_hear(&b));
	assert_hears_like(&a, "{\"jsonrpc\":\"2.0\",\"result\":\"released\",\"id\":2}]");
	await_stat(&b, "open_calls", 1);
	assert_int_equal(get_stat(&b, "unread_bytes"), 0);
	raw_close(&a);
	raw_close(&b);
}

/* ---- clients that take their time ---- */

static void test_half_a_line(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw half, trickle, long_line, good;

	limits.line_timeout_ms = 500;
	limits.max_request_bytes = 10000;
	start_server(f, &limits);
	half = raw_open(f->path);
	trickle = raw_open(f->path);
	long_line = raw_open(f->path);
	good = raw_open(f->path);
	raw_say(&half, "{\"jsonrpc\":");
	raw_say(&trickle, "{");
	say_echo_of_length(&long_line, 20000);
	raw_say(&long_line, "{\"jsonrpc\":");
	assert_hears_like(&long_line, "-32003");
	for (int i = 0; get_stat(&good, "dropped") < 3 && i < PATIENCE_S * 100; i++) {
		sleep_ms(10);
		/* It says something all the time, and still no line. */
		send(trickle.fd, " ", 1, MSG_NOSIGNAL);
	}
	assert_int_equal(get_stat(&good, "clients"), 1); /* and the one that is idle lives on */
	assert_hears_like(&half, "\"code\":-32005,\"message\":\"a line was begun and not ended\"");
	assert_closed(&half);
	assert_hears_like(&trickle, "-32005");
	assert_closed(&trickle);
	raw_close(&half);
	raw_close(&trickle);
	raw_close(&long_line);
	raw_close(&good);
}

/* The line is not the client's fault while the server does not read it. */
/* A line that was too long has ended too: nothing is owed after it. */
static void test_after_a_long_line(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	char text[4096];
	struct raw c;

	limits.line_timeout_ms = 300;
	limits.max_request_bytes = 1000;
	start_server(f, &limits);
	c = raw_open(f->path);
	memset(text, 'x', sizeof(text));
	raw_say_bytes(&c, text, sizeof(text));
	assert_hears_like(&c, "-32003");
	raw_say(&c, "xxx\n");
	sleep_ms(1000);
	assert_serves(&c);
	raw_say(&c, "half");
	assert_hears_like(&c, "-32005");
	assert_closed(&c);
	raw_close(&c);
}

static void test_half_a_line_behind_a_wait(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw a, b;

	limits.line_timeout_ms = 100;
	limits.max_in_flight = 1;
	start_server(f, &limits);
	a = raw_open(f->path);
	b = raw_open(f->path);
	raw_say(&a, "{\"jsonrpc\":\"2.0\",\"method\":\"wait\",\"id\":1}\n");
	await_stat(&b, "open_calls", 1);
	raw_say(&a, "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\",\"id\":2}\n{\"json");
	sleep_ms(400);
	raw_say(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"release\",\"id\":1}\n");
	free(raw_hear(&b));
	assert_hears_like(&a, "\"released\"");
	assert_hears_like(&a, "\"id\":2");
	raw_say(&a, "rpc\":\"2.0\",\"method\":\"nothing\",\"id\":3}\n");
	assert_hears_like(&a, "\"id\":3");
	raw_close(&a);
	raw_close(&b);
}

static void test_never_reading(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw deaf, good;

	limits.read_timeout_ms = 300;
	start_server(f, &limits);
	deaf = raw_open(f->path);
	good = raw_open(f->path);
	for (int i = 0; i < 50; i++)
		raw_say(&deaf, BIG(100000) "\n");
	while (get_stat(&good, "dropped") == 0)
		assert_true(get_stat(&good, "unread_bytes") <=
			    limits.max_unread_bytes + 2 * 100100);
	await_stat(&good, "clients", 1);
	assert_int_equal(get_stat(&good, "unread_bytes"), 0);
	raw_close(&deaf);
	raw_close(&good);
}

/* A subscriber may stop reading for as long as it likes: it loses events, not the connection. */
static void test_subscriber_that_never_reads(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw deaf, good;

	limits.read_timeout_ms = 100;
	start_server(f, &limits);
	deaf = raw_open(f->path);
	good = raw_open(f->path);
	raw_say(&deaf, "{\"jsonrpc\":\"2.0\",\"method\":\"subscribe\",\"id\":1}\n");
	for (int i = 0; i < 40; i++) {
		raw_say(&good, "{\"jsonrpc\":\"2.0\",\"method\":\"publish\",\"params\":[200,200],"
			       "\"id\":1}\n");
		free(raw_hear(&good));
		sleep_ms(10);
	}
	assert_true(get_stat(&good, "lost") > 0);
	assert_int_equal(get_stat(&good, "dropped"), 0);
	assert_int_equal(get_stat(&good, "subscribers"), 1);
	raw_close(&deaf);
	raw_close(&good);
}

static void publish_large(struct raw *c)
{
	raw_say(c,
		"{\"jsonrpc\":\"2.0\",\"method\":\"publish\",\"params\":[1,3000000],\"id\":1}\n");
	free(raw_hear(c));
}

/* Half an event is memory that nobody else can free: it is not held for ever. */
static void test_subscriber_that_reads_half(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw deaf[8], good;

	limits.read_timeout_ms = 300;
	start_server(f, &limits);
	good = raw_open(f->path);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++) {
		deaf[i] = raw_open(f->path);
		raw_say(&deaf[i], "{\"jsonrpc\":\"2.0\",\"method\":\"subscribe\",\"id\":1}\n");
	}
	await_stat(&good, "subscribers", ARRAY_SIZE(deaf));
	publish_large(&good);
	await_stat(&good, "dropped", ARRAY_SIZE(deaf));
	await_stat(&good, "clients", 1);
	assert_int_equal(get_stat(&good, "shared_files"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++)
		raw_close(&deaf[i]);
	raw_close(&good);
}

/* Each is stuck in another event: the slowest goes when all together are too long. */
static void test_all_half_events(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw deaf[3], good;

	limits.max_all_unread_bytes = 7 * MIB;
	start_server(f, &limits);
	good = raw_open(f->path);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++) {
		deaf[i] = raw_open(f->path);
		raw_say(&deaf[i], "{\"jsonrpc\":\"2.0\",\"method\":\"subscribe\",\"id\":1}\n");
		await_stat(&good, "subscribers", i + 1);
		publish_large(&good);
	}
	await_stat(&good, "dropped", 1);
	await_stat(&good, "subscribers", 2);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++)
		raw_close(&deaf[i]);
	raw_close(&good);
}

/* The file is for those who read: for those who do not, the bytes are kept once. */
static void test_the_file_of_a_half_event(void **state)
{
	struct fixture *f = *state;
	struct raw deaf[8], good;

	good = raw_open(f->path);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++) {
		deaf[i] = raw_open(f->path);
		raw_say(&deaf[i], "{\"jsonrpc\":\"2.0\",\"method\":\"subscribe\",\"id\":1}\n");
	}
	await_stat(&good, "subscribers", ARRAY_SIZE(deaf));
	publish_large(&good);
	await_stat(&good, "shared_files", 1);
	await_stat(&good, "shared_files", 0);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++) {
		free(raw_hear(&deaf[i]));
		assert_hears_like(&deaf[i], "xxx\"}");
		raw_close(&deaf[i]);
	}
	raw_close(&good);
}

/* ---- too much of everything ---- */

/* All together hold too many replies: who has read nothing for the longest goes. */
static void test_all_replies(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw deaf[4], good;

	limits.max_all_unread_bytes = 7 * MIB;
	start_server(f, &limits);
	good = raw_open(f->path);
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++) {
		deaf[i] = raw_open(f->path);
		raw_say(&deaf[i], BIG(2000000) "\n");
		await_stat(&good, i < 3 ? "unread_bytes" : "dropped",
			   i < 3 ? (i + 1) * BIG_REPLY_BYTES : 1);
	}
	raw_say(&good, BIG(2000000) "\n");
	assert_hears_like(&good, "\"result\":\"xxx");
	/* The second only if this one did not read as fast as it was written to. */
	assert_in_range(get_stat(&good, "dropped"), 1, 2);
	assert_true(get_stat(&good, "unread_bytes") <= limits.max_all_unread_bytes);
	for (size_t i = 2; i < ARRAY_SIZE(deaf); i++)
		assert_hears_like(&deaf[i], "\"result\":\"xxx");
	for (size_t i = 0; i < ARRAY_SIZE(deaf); i++)
		raw_close(&deaf[i]);
	raw_close(&good);
}

static void test_all_requests(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw slow[3], good;
	char *half = repeat("y", 2 * MIB);

	limits.max_all_request_bytes = 5 * MIB;
	start_server(f, &limits);
	good = raw_open(f->path);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		slow[i] = raw_open(f->path);
		raw_say(&slow[i], half);
		if (i < 2)
			await_stat(&good, "request_bytes", (i + 1) * 2 * MIB);
	}
	await_stat(&good, "dropped", 1);
	await_stat(&good, "request_bytes", 4 * MIB);
	assert_closed(&slow[0]);
	say_echo_of_length(&good, MIB / 2);
	assert_hears_like(&good, "\"result\":[\"yyy");
	free(half);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
		raw_close(&slow[i]);
	raw_close(&good);
}

static void test_too_many_clients(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw c[5];

	limits.max_clients = 4;
	start_server(f, &limits);
	for (size_t i = 0; i < 4; i++) {
		c[i] = raw_open(f->path);
		assert_serves(&c[i]);
	}
	c[4] = raw_open(f->path);
	assert_hears(&c[4],
		     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32004,\"message\":\"there are 4 "
		     "clients already; try again later\"},\"id\":null}");
	assert_closed(&c[4]);
	raw_close(&c[4]);
	raw_close(&c[0]);
	await_stat(&c[1], "clients", 3);
	c[0] = raw_open(f->path);
	assert_serves(&c[0]);
	assert_int_equal(get_stat(&c[0], "refused"), 1);
	for (size_t i = 0; i < 4; i++)
		raw_close(&c[i]);
}

static void crowd_as_nobody(struct fixture *f)
{
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *clients[3] = { NULL };
	struct err err = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		int r;

		CHILD_CHECK(rpc_client_open(&options, &clients[i], &err) == 0);
		r = rpc_client_call(clients[i], "nothing", NULL, NULL, &err);
		CHILD_CHECK(r == (i < 2 ? 0 : -EUSERS));
	}
	CHILD_CHECK(rpc_client_error_code(clients[2]) == RPC_TOO_MANY_CLIENTS);
	pause();
}

/* Some places are kept for root and the server's own user. */
static void test_places_for_the_owner(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = some_limits();
	struct raw c;
	pid_t pid;

	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	limits.max_clients = 4;
	limits.reserved_clients = 2;
	start_server(f, &limits);
	pid = fork_nobody();
	if (pid == 0)
		crowd_as_nobody(f);
	c = raw_open(f->path);
	await_stat(&c, "refused", 1);
	assert_int_equal(get_stat(&c, "clients"), 3);
	assert_serves(&c);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	await_stat(&c, "clients", 1);
	raw_close(&c);
}

/* CPU time of a process, in clock ticks. */
static unsigned long long cpu_ticks(pid_t pid)
{
	unsigned long long user = 0, system = 0;
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	assert_true(io_read_text_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	assert_int_equal(sscanf(strrchr(text, ')') + 2,
				"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
				&system),
			 2);
	return user + system;
}

/* Without a file descriptor left the server waits; it does not spin, and those who wait get in. */
static void test_out_of_files(void **state)
{
	enum { N_CLIENTS = 60 };
	struct fixture *f = *state;
	struct rpc_limits limits = rpc_default_limits;
	struct raw c[N_CLIENTS];
	unsigned long long before, used;

	limits.reserved_files = 0;
	f->max_files = 40;
	start_server(f, &limits);
	for (size_t i = 0; i < N_CLIENTS; i++)
		c[i] = raw_open(f->path);
	assert_serves(&c[0]);
	before = cpu_ticks(f->server);
	sleep_ms(1000);
	used = cpu_ticks(f->server) - before;
	assert_true(used < (unsigned long long)sysconf(_SC_CLK_TCK) / 2);
	for (size_t i = 0; i < N_CLIENTS / 2; i++)
		raw_close(&c[i]);
	for (size_t i = N_CLIENTS / 2; i < N_CLIENTS; i++) {
		assert_serves(&c[i]);
		raw_close(&c[i]);
	}
}

/* Whether the one that has just connected is the n-th client, and not refused. */
static bool is_let_in(struct raw *good, size_t n)
{
	for (int i = 0; i < PATIENCE_S * 200; i++) {
		if (get_stat(good, "refused") > 0)
			return false;
		if (get_stat(good, "clients") == n)
			return true;
		sleep_ms(5);
	}
	fail_msg("client %zu is neither let in nor refused", n);
	return false;
}

/* Clients do not take the last files: what else the program does goes on. */
static void test_files_for_the_rest(void **state)
{
	struct fixture *f = *state;
	struct raw c[60] = { 0 }, other;
	size_t n = 1;

	f->max_files = 60;
	start_server(f, NULL);
	c[0] = raw_open(f->path);
	for (; n < ARRAY_SIZE(c); n++) {
		c[n] = raw_open(f->path);
		if (!is_let_in(&c[0], n + 1))
			break;
	}
	assert_in_range(n, 25, 45);
	assert_hears_like(&c[n], "-32004");
	assert_closed(&c[n]);
	raw_close(&c[1]);
	await_stat(&c[0], "clients", n - 1);
	other = raw_open(f->path);
	assert_serves(&other);
	raw_close(&other);
	for (size_t i = 0; i <= n; i++)
		if (i != 1)
			raw_close(&c[i]);
}

int main(void)
{
#define SERVER_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_with_server, fixture_teardown)
#define LIMIT_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		SERVER_TEST(test_long_lines),
		SERVER_TEST(test_order_around_a_long_line),
		LIMIT_TEST(test_long_lines_of_those_who_go),
		SERVER_TEST(test_bombs),
		SERVER_TEST(test_long_batch),
		LIMIT_TEST(test_long_replies),
		SERVER_TEST(test_batch_that_waits),
		LIMIT_TEST(test_half_a_line),
		LIMIT_TEST(test_after_a_long_line),
		LIMIT_TEST(test_half_a_line_behind_a_wait),
		LIMIT_TEST(test_never_reading),
		LIMIT_TEST(test_subscriber_that_never_reads),
		LIMIT_TEST(test_subscriber_that_reads_half),
		LIMIT_TEST(test_all_half_events),
		SERVER_TEST(test_the_file_of_a_half_event),
		LIMIT_TEST(test_all_replies),
		LIMIT_TEST(test_all_requests),
		LIMIT_TEST(test_too_many_clients),
		LIMIT_TEST(test_places_for_the_owner),
		LIMIT_TEST(test_out_of_files),
		LIMIT_TEST(test_files_for_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
