#include "rpc_fixture.h"

#define ERROR(code, message, id)                                                          \
	"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":" code ",\"message\":\"" message "\"}," \
	"\"id\":" id "}"
#define RESULT(result, id) "{\"jsonrpc\":\"2.0\",\"result\":" result ",\"id\":" id "}"
#define REQUEST(method, rest) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\"" rest "}"

/* What a client says in one line, and all that it hears. */
static const struct {
	const char *line;
	const char *reply; /* NULL: nothing at all */
} golden[] = {
	/* ids come back as they were given */
	{ REQUEST("echo", ",\"params\":[1,2],\"id\":7"), RESULT("[1,2]", "7") },
	{ REQUEST("echo", ",\"params\":{\"a\":null},\"id\":\"x\\u00e9y\""),
	  RESULT("{\"a\":null}", "\"xéy\"") },
	{ REQUEST("echo", ",\"id\":null"), RESULT("null", "null") },
	{ REQUEST("echo", ",\"id\":\"\""), RESULT("null", "\"\"") },
	{ REQUEST("echo", ",\"id\":-9223372036854775808"), RESULT("null", "-9223372036854775808") },
	{ REQUEST("echo", ",\"id\":1.5"), RESULT("null", "1.5") },
	{ REQUEST("echo", ",\"params\":[],\"id\":1"), RESULT("[]", "1") },
	{ "\t { \"id\" : 1 , \"method\" : \"nothing\" , \"jsonrpc\" : \"2.0\" } \r",
	  RESULT("null", "1") },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\",\"id\":1,\"other\":{}}",
	  RESULT("null", "1") },

	/* notifications are not answered, whatever comes of them */
	{ REQUEST("echo", ""), NULL },
	{ REQUEST("fail", ""), NULL },
	{ REQUEST("no.such", ""), NULL },
	{ REQUEST("add", ",\"params\":[\"a\"]"), NULL },
	{ "", NULL },
	{ "  \t \r", NULL },

	/* JSON, and not a request */
	{ "{}", ERROR("-32600", "'jsonrpc' must be \\\"2.0\\\"", "null") },
	{ "1", ERROR("-32600", "a request is an object", "null") },
	{ "null", ERROR("-32600", "a request is an object", "null") },
	{ "\"text\"", ERROR("-32600", "a request is an object", "null") },
	{ "{\"jsonrpc\":\"1.0\",\"method\":\"echo\",\"id\":3}",
	  ERROR("-32600", "'jsonrpc' must be \\\"2.0\\\"", "3") },
	{ "{\"jsonrpc\":2.0,\"method\":\"echo\",\"id\":3}",
	  ERROR("-32600", "'jsonrpc' must be \\\"2.0\\\"", "3") },
	{ "{\"jsonrpc\":\"2.0\",\"method\":1,\"params\":\"bar\"}",
	  ERROR("-32600", "'method' must be a text", "null") },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3}", ERROR("-32600", "'method' must be a text", "3") },
	{ REQUEST("echo", ",\"params\":\"bar\",\"id\":4"),
	  ERROR("-32600", "'params' must be an object or a list", "4") },
	{ REQUEST("echo", ",\"params\":null,\"id\":4"),
	  ERROR("-32600", "'params' must be an object or a list", "4") },
	{ REQUEST("echo", ",\"id\":{}"),
	  ERROR("-32600", "'id' must be a text, a number or null", "null") },
	{ REQUEST("echo", ",\"id\":true"),
	  ERROR("-32600", "'id' must be a text, a number or null", "null") },
	{ REQUEST("echo", ",\"id\":[1]"),
	  ERROR("-32600", "'id' must be a text, a number or null", "null") },

	/* methods */
	{ REQUEST("ecco", ",\"id\":1"),
	  ERROR("-32601", "no method 'ecco'; did you mean 'echo'?", "1") },
	{ REQUEST("zzzzzz", ",\"id\":1"), ERROR("-32601", "no method 'zzzzzz'", "1") },
	{ REQUEST("", ",\"id\":1"), ERROR("-32601", "no method ''", "1") },
	{ REQUEST("\\u001b[2J", ",\"id\":1"), ERROR("-32601", "no method '?[2J'", "1") },
	{ REQUEST("fail", ",\"id\":1"), ERROR("-32001", "no job 'j'", "1") },
	{ REQUEST("owner.only", ",\"id\":1"), RESULT("null", "1") },

	/* params */
	{ REQUEST("add", ",\"params\":[1,2.5],\"id\":1"), RESULT("3.5", "1") },
	{ REQUEST("add", ",\"params\":{\"second\":2,\"first\":1},\"id\":1"), RESULT("3.0", "1") },
	{ REQUEST("add", ",\"params\":{\"first\":1,\"second\":null},\"id\":1"),
	  RESULT("1.0", "1") },
	{ REQUEST("add", ",\"id\":1"), ERROR("-32602", "'first' is missing; it is a number", "1") },
	{ REQUEST("add", ",\"params\":{\"frist\":1},\"id\":1"),
	  ERROR("-32602", "'frist' is unknown; did you mean 'first'?", "1") },
	{ REQUEST("add", ",\"params\":{\"first\":\"1\"},\"id\":1"),
	  ERROR("-32602", "'first' is the text '1', and must be a number", "1") },
	{ REQUEST("add", ",\"params\":{\"first\":[]},\"id\":1"),
	  ERROR("-32602", "'first' is a list, and must be a number", "1") },
	{ REQUEST("add", ",\"params\":{\"first\":1,\"second\":11},\"id\":1"),
	  ERROR("-32602", "'second' is 11, and must be a number from -10 to 10", "1") },
	{ REQUEST("add", ",\"params\":[1,2,3],\"id\":1"),
	  ERROR("-32602", "3 params, and the method takes at most 2", "1") },

	/* batches */
	{ "[]", ERROR("-32600", "a batch has at least one request", "null") },
	{ "[1]", "[" ERROR("-32600", "a request is an object", "null") "]" },
	{ "[1,2,3]", "[" ERROR("-32600", "a request is an object", "null") "," ERROR(
			     "-32600", "a request is an object",
			     "null") "," ERROR("-32600", "a request is an object", "null") "]" },
	{ "[" REQUEST("echo", "") "," REQUEST("fail", "") "]", NULL },
	{ "[" REQUEST("echo", ",\"params\":[1],\"id\":1") "," REQUEST(
		  "echo",
		  "") ",{\"foo\":\"bar\"}," REQUEST("zzzzzz",
						    ",\"id\":\"5\"") "," REQUEST("nothing",
										 ",\"id\":9") "]",
	  "[" RESULT("[1]", "1") "," ERROR("-32600", "'jsonrpc' must be \\\"2.0\\\"",
					   "null") "," ERROR("-32601", "no method 'zzzzzz'",
							     "\"5\"") "," RESULT("null", "9") "]" },
};

static void test_golden(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);

	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		raw_say(&c, golden[i].line);
		raw_say(&c, "\n");
		if (golden[i].reply)
			assert_hears(&c, golden[i].reply);
		else
			assert_serves(&c);
	}
	raw_close(&c);
}

static const char *const not_json[] = {
	"{\"jsonrpc\": \"2.0\", \"method\": \"foobar, \"params\": \"bar\", \"baz]",
	"hello",
	"{} {}",
	"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":1,\"id\":2}",
	REQUEST("echo", ",\"id\":123456789012345678901234567890"),
	REQUEST("echo", ",\"params\":[1e999],\"id\":1"),
	REQUEST("echo", ",\"params\":[\"\\u0000\"],\"id\":1"),
	REQUEST("echo", ",\"params\":{\"\\u0000\":1},\"id\":1"),
	REQUEST("echo", ",\"params\":[\"\\ud800\"],\"id\":1"),
	REQUEST("echo", ",\"params\":[\"\x01\"],\"id\":1"),
	REQUEST("echo", ",\"params\":[\"\xc0\x80\"],\"id\":1"),
	REQUEST("echo", ",\"params\":[NaN],\"id\":1"),
	REQUEST("echo", ",\"params\":[01],\"id\":1"),
	REQUEST("echo", ",\"params\":[1,],\"id\":1"),
	"\xff\xfe",
	"[" REQUEST("echo", ",\"id\":1") ",",
	"\"",
};

/* In what words it is not JSON is the library's affair. */
static void test_not_json(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);

	for (size_t i = 0; i < ARRAY_SIZE(not_json); i++) {
		raw_say(&c, not_json[i]);
		raw_say(&c, "\n");
		assert_hears_like(&c, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,"
				      "\"message\":\"no JSON at byte ");
		assert_serves(&c);
	}
	raw_say_bytes(&c, "\0\0\n", 3);
	assert_hears_like(&c, "\"code\":-32700");
	raw_say_bytes(&c, "{\0}\n", 4);
	assert_hears_like(&c, "\"code\":-32700");
	raw_close(&c);
}

/* ---- the stream ---- */

#define CALL(method, params, id) REQUEST(method, ",\"params\":" params ",\"id\":" id) "\n"

/* Many requests in one write are answered in order. */
static void test_pipelining(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	for (int i = 0; i < 2000; i++)
		buf_printf(&text, CALL("echo", "[%d]", "%d"), i, i);
	raw_say_bytes(&c, text.data, text.len);
	for (int i = 0; i < 2000; i++) {
		char expected[96];

		snprintf(expected, sizeof(expected), RESULT("[%d]", "%d"), i, i);
		assert_hears(&c, expected);
	}
	raw_close(&c);
}

static void test_byte_by_byte(void **state)
{
	static const char text[] = CALL("echo", "[1]", "1") CALL("echo", "[2]", "2");
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		raw_say_bytes(&c, text + i, 1);
	assert_hears(&c, RESULT("[1]", "1"));
	assert_hears(&c, RESULT("[2]", "2"));
	raw_close(&c);
}

/* A client that has said all it wants still hears the answers, also the late ones. */
static void test_half_close(void **state)
{
	struct fixture *f = *state;
	struct rpc_limits limits = rpc_default_limits;
	struct raw c, other;

	limits.line_timeout_ms = 100;
	start_server(f, &limits);
	c = raw_open(f->path);
	other = raw_open(f->path);
	raw_say(&c, CALL("wait", "[]", "1") CALL("echo", "[2]", "2") "{\"half\":");
	assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
	assert_hears(&c, RESULT("[2]", "2"));
	assert_hears_like(&c, "-32700");
	sleep_ms(300); /* longer than the timeout for half a line, of which no more will come */
	raw_say(&other, CALL("release", "[]", "3"));
	assert_hears(&other, RESULT("1", "3"));
	assert_hears(&c, RESULT("\"released\"", "1"));
	assert_closed(&c);
	await_stat(&other, "clients", 1);
	raw_close(&c);
	raw_close(&other);
}

#define TEN_X "xxxxxxxxxx"
#define FIFTY_X TEN_X TEN_X TEN_X TEN_X TEN_X

/* The last line has no newline: it has ended all the same, as nothing can follow. */
static void test_last_line(void **state)
{
	static const struct {
		const char *last, *answer; /* NULL: none */
	} rows[] = {
		{ REQUEST("echo", ",\"params\":[2],\"id\":2"), RESULT("[2]", "2") },
		{ "[" REQUEST("echo", ",\"params\":[3],\"id\":3") "]", "[" RESULT("[3]", "3") "]" },
		{ "  ", NULL },
		{ FIFTY_X FIFTY_X "x",
		  "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32003,\"message\":\"the line is "
		  "longer than 100 bytes\"},\"id\":null}" }, /* which is said once */
	};
	struct fixture *f = *state;
	struct rpc_limits limits = rpc_default_limits;

	limits.max_request_bytes = 100;
	start_server(f, &limits);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct raw c = raw_open(f->path);

		raw_say(&c, CALL("echo", "[1]", "1"));
		raw_say(&c, rows[i].last);
		assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
		assert_hears(&c, RESULT("[1]", "1"));
		if (rows[i].answer)
			assert_hears(&c, rows[i].answer);
		assert_closed(&c);
		raw_close(&c);
	}
}

/* ---- answers that come later ---- */

static void test_deferred(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), b = raw_open(f->path);

	raw_say(&a, CALL("wait", "[]", "1") CALL("wait", "[]", "\"two\"")
			    REQUEST("wait", "") "\n" CALL("echo", "[]", "3"));
	assert_hears(&a, RESULT("[]", "3"));
	assert_int_equal(get_stat(&b, "open_calls"), 3);
	raw_say(&b, CALL("release", "[]", "9"));
	assert_hears(&b, RESULT("3", "9"));
	assert_hears(&a, RESULT("\"released\"", "1"));
	assert_hears(&a, RESULT("\"released\"", "\"two\""));

	raw_say(&a, CALL("wait", "[]", "4"));
	await_stat(&b, "open_calls", 1);
	raw_say(&b, CALL("release", "{\"fail\":true}", "9"));
	assert_hears(&b, RESULT("1", "9"));
	assert_hears(&a, ERROR("-32005", "waited in vain", "4"));

	/* Released by the one that waits. */
	raw_say(&a, CALL("wait", "[]", "5") CALL("release", "[]", "6"));
	assert_hears(&a, RESULT("\"released\"", "5"));
	assert_hears(&a, RESULT("1", "6"));
	raw_close(&a);
	raw_close(&b);
}

static void test_deferred_in_a_batch(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), b = raw_open(f->path);

	raw_say(&a, "[" REQUEST("wait", ",\"id\":1") "," REQUEST("echo", ",\"id\":2") "," REQUEST(
			    "wait", "") "," REQUEST("wait", ",\"id\":3") "]\n");
	assert_serves(&a);
	await_stat(&b, "open_calls", 3);
	raw_say(&b, CALL("release", "[]", "9"));
	assert_hears(&b, RESULT("3", "9"));
	assert_hears(&a, "[" RESULT("null", "2") "," RESULT("\"released\"", "1") "," RESULT(
				 "\"released\"", "3") "]");
	/* Answered while the rest of the batch has yet to be called. */
	raw_say(&a, "[" REQUEST("wait", ",\"id\":1") "," REQUEST("release", ",\"id\":2") "]\n");
	assert_hears(&a, "[" RESULT("\"released\"", "1") "," RESULT("1", "2") "]");
	raw_close(&a);
	raw_close(&b);
}

/* Who waits for a client that goes is told, however it goes and whatever it was doing. */
static void test_clients_that_go(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), b = raw_open(f->path);

	raw_say(&a, CALL("wait", "[]", "1") CALL("subscribe", "[]", "2") "[" REQUEST(
			    "wait", ",\"id\":3") "," REQUEST("echo", ",\"id\":4") "]\n");
	assert_hears(&a, RESULT("null", "2"));
	await_stat(&b, "open_calls", 2);
	assert_int_equal(get_stat(&b, "subscribers"), 1);
	raw_close(&a);
	await_stat(&b, "gone", 3);
	assert_int_equal(get_stat(&b, "open_calls"), 0);
	assert_int_equal(get_stat(&b, "subscribers"), 0);
	assert_int_equal(get_stat(&b, "clients"), 1);

	/* One that is not read any more: it has too many calls open. */
	a = raw_open(f->path);
	for (size_t i = 0; i < rpc_default_limits.max_in_flight + 10; i++)
		raw_say(&a, CALL("wait", "[]", "1"));
	await_stat(&b, "open_calls", rpc_default_limits.max_in_flight);
	raw_close(&a);
	await_stat(&b, "open_calls", 0);
	assert_int_equal(get_stat(&b, "waiters"), 0);
	raw_close(&b);
}

static void test_server_that_ends(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path);

	raw_say(&a, CALL("wait", "[]", "1") CALL("subscribe", "[]", "2"));
	assert_hears(&a, RESULT("null", "2"));
	assert_int_equal(stop_server(f), 0); /* it looks whether all were told */
	assert_hears_like(&a, "\"code\":-32008");
	assert_closed(&a);
	assert_int_equal(access(f->path, F_OK), -1);
	raw_close(&a);
}

static void test_back_pressure(void **state)
{
	const size_t max = rpc_default_limits.max_in_flight, n = 3 * max + 7;
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), b = raw_open(f->path);
	size_t n_released = 0;

	for (size_t i = 0; i < n; i++)
		raw_say(&a, CALL("wait", "[]", "1"));
	while (n_released < n) {
		size_t open = n - n_released < max ? n - n_released : max;

		await_stat(&b, "open_calls", open);
		assert_serves(&b);
		raw_say(&b, CALL("release", "[]", "9"));
		free(raw_hear(&b));
		for (size_t i = 0; i < open; i++)
			assert_hears(&a, RESULT("\"released\"", "1"));
		n_released += open;
	}
	assert_serves(&a);
	raw_close(&a);
	raw_close(&b);
}

/* ---- events ---- */

#define EVENT_0                                                                            \
	"{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"topic\":\"job.started\"," \
	"\"timestamp\":1700000000.5,\"data\":{\"k\":0,\"fill\":\"xxx\"}}}"

static void test_events(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), b = raw_open(f->path), c = raw_open(f->path);

	raw_say(&a, CALL("subscribe", "[]", "1"));
	assert_hears(&a, RESULT("null", "1"));
	/* Its own event comes after the answers. */
	raw_say(&b, CALL("subscribe", "[]", "1") CALL("publish", "[1,3]", "2"));
	assert_hears(&b, RESULT("null", "1"));
	assert_hears(&b, RESULT("null", "2"));
	assert_hears(&b, EVENT_0);
	assert_hears(&a, EVENT_0);
	assert_serves(&c); /* nothing came */

	raw_say(&c, CALL("unsubscribe", "[]", "1") CALL("publish", "[]", "2"));
	assert_hears(&c, RESULT("null", "1"));
	assert_hears(&c, RESULT("null", "2"));
	assert_serves(&a);
	assert_serves(&b);
	assert_int_equal(get_stat(&c, "subscribers"), 0);
	raw_close(&a);
	raw_close(&b);
	raw_close(&c);
}

static void test_too_many_subscriptions(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path);

	for (size_t i = 0; i < rpc_default_limits.max_subscriptions; i++) {
		raw_say(&a, CALL("subscribe", "[]", "1"));
		assert_hears(&a, RESULT("null", "1"));
	}
	raw_say(&a, CALL("subscribe", "[]", "1"));
	assert_hears_like(&a, "\"code\":-32002");
	raw_close(&a);
}

/* Reads the events from one number up to another; each is read, or is among the lost. */
static uint64_t count_lost(struct raw *c, uint64_t next, uint64_t end)
{
	uint64_t n_lost = 0;

	while (next < end) {
		unsigned long long k, count;
		char *line = raw_hear(c), *at = line ? strstr(line, "{\"k\":") : NULL;

		assert_non_null(line);
		if (sscanf(line,
			   "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":"
			   "{\"topic\":\"lost\",\"count\":%llu}}",
			   &count) == 1) {
			assert_true(count > 0);
			n_lost += count;
			next += count;
		} else {
			assert_non_null(at);
			assert_int_equal(sscanf(at, "{\"k\":%llu", &k), 1);
			assert_int_equal(k, next);
			next++;
		}
		free(line);
	}
	assert_int_equal(next, end);
	return n_lost;
}

/* One who does not read loses the oldest and is told how many; one who does loses none. */
static void test_slow_subscriber(void **state)
{
	enum { N_ROUNDS = 50, N_EVENTS = 200 };
	struct fixture *f = *state;
	struct raw slow = raw_open(f->path), quick = raw_open(f->path), c = raw_open(f->path);
	uint64_t n_lost;

	raw_say(&slow, CALL("subscribe", "[]", "1"));
	assert_hears(&slow, RESULT("null", "1"));
	raw_say(&quick, CALL("subscribe", "[]", "1"));
	assert_hears(&quick, RESULT("null", "1"));
	for (uint64_t i = 0; i < N_ROUNDS; i++) {
		raw_say(&c, CALL("publish", "[200,300]", "1"));
		assert_hears(&c, RESULT("null", "1"));
		assert_int_equal(count_lost(&quick, i * N_EVENTS, (i + 1) * N_EVENTS), 0);
	}
	n_lost = get_stat(&c, "lost");
	assert_true(n_lost > 0);
	assert_int_equal(count_lost(&slow, 0, N_ROUNDS * N_EVENTS), n_lost);
	assert_serves(&slow);
	raw_close(&slow);
	raw_close(&quick);
	raw_close(&c);
}

/* More events at once than may wait: one who reads loses none of them all the same, if they fit. */
static void test_many_at_once(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);
	uint64_t n_lost;

	raw_say(&c, CALL("subscribe", "[]", "1") CALL("publish", "[5000,1000]", "2"));
	assert_hears(&c, RESULT("null", "1"));
	/* A part went out while they came, so the answer is somewhere among them. */
	n_lost = 0;
	for (uint64_t next = 0; next < 5000; next++) {
		char *line = raw_hear(&c);
		unsigned long long count;
		const char *lost;

		assert_non_null(line);
		lost = strstr(line, "\"lost\",\"count\":");
		if (lost && sscanf(lost, "\"lost\",\"count\":%llu", &count) == 1) {
			n_lost += count;
			next += count - 1;
		}
		next -= strstr(line, "\"id\":2") != NULL;
		free(line);
	}
	assert_int_equal(n_lost, get_stat(&c, "lost"));
	raw_close(&c);
}

/* An event that alone is more than may wait is not lost for that. */
static void test_large_event(void **state)
{
	struct fixture *f = *state;
	struct raw a = raw_open(f->path), c = raw_open(f->path);

	raw_say(&a, CALL("subscribe", "[]", "1"));
	assert_hears(&a, RESULT("null", "1"));
	raw_say(&c, CALL("publish", "[3,4000000]", "1"));
	assert_hears(&c, RESULT("null", "1"));
	assert_true(count_lost(&a, 0, 3) <= 1); /* one is on its way when the last two come */
	raw_close(&a);
	raw_close(&c);
}

/* ---- who asks ---- */

static int call_as_nobody(struct fixture *f, const char *method, struct rpc_value **ret,
			  struct err *err)
{
	const struct rpc_client_options options = { .path = f->path };
	struct rpc_client *client = NULL;
	int r;

	CHILD_CHECK(rpc_client_open(&options, &client, err) == 0);
	r = rpc_client_call(client, method, NULL, ret, err);
	rpc_client_close(client);
	return r;
}

static void ask_as_nobody(struct fixture *f)
{
	struct rpc_value *who = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(call_as_nobody(f, "who", &who, &err) == 0);
	CHILD_CHECK(rpc_value_u64(rpc_value_get(who, "uid")) == NOBODY);
	CHILD_CHECK(rpc_value_u64(rpc_value_get(who, "gid")) == NOBODY);
	CHILD_CHECK(rpc_value_u64(rpc_value_get(who, "pid")) == (uint64_t)getpid());
	CHILD_CHECK(rpc_value_bool(rpc_value_get(who, "is_in_4711"), false));
	CHILD_CHECK(!rpc_value_bool(rpc_value_get(who, "is_in_4712"), true));
	rpc_value_free(who);
	CHILD_CHECK(call_as_nobody(f, "owner.only", NULL, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, "may call owner.only"));
}

static void test_access(void **state)
{
	struct fixture *f = *state;
	struct raw c = raw_open(f->path);

	raw_say(&c, CALL("who", "[]", "1"));
	assert_hears_like(&c, "\"is_in_4711\":false");
	raw_close(&c);
	if (geteuid() != 0) {
		print_message("# not root\n");
		skip();
	}
	assert_int_equal(run_in(fork_nobody(), ask_as_nobody, f), 0);
}

int main(void)
{
#define SERVER_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_with_server, fixture_teardown)
	const struct CMUnitTest tests[] = {
		SERVER_TEST(test_golden),
		SERVER_TEST(test_not_json),
		SERVER_TEST(test_pipelining),
		SERVER_TEST(test_byte_by_byte),
		cmocka_unit_test_setup_teardown(test_half_close, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_last_line, fixture_setup, fixture_teardown),
		SERVER_TEST(test_deferred),
		SERVER_TEST(test_deferred_in_a_batch),
		SERVER_TEST(test_clients_that_go),
		SERVER_TEST(test_server_that_ends),
		SERVER_TEST(test_back_pressure),
		SERVER_TEST(test_events),
		SERVER_TEST(test_too_many_subscriptions),
		SERVER_TEST(test_slow_subscriber),
		SERVER_TEST(test_many_at_once),
		SERVER_TEST(test_large_event),
		SERVER_TEST(test_access),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
