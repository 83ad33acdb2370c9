/* libproctor: answers that are errors, come late, never come, or are none. */
#include "fake_daemon.h"

static void serve_errors(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		if (strstr(line, "\"fine\""))
			answer(out, line, "[1,null,0.5,\"a\"]");
		else
			fprintf(out,
				"{\"error\":{\"code\":%s,\"message\":\"no '%s'\",\"data\":{\"a\": 1}},"
				"\"id\":%d}\n",
				strstr(line, "\"odd\"") ? "-1" : "-32001", "x", id_of(line));
		fflush(out);
	}
}

static void test_errors(void **state)
{
	struct proctor *p;
	struct fake f;
	char *json;

	(void)state;
	fake_start(&f, serve_errors);
	p = must_open(&f);
	assert_int_equal(proctor_call(p, "missing", NULL, &json), -ENOENT);
	assert_null(json);
	assert_string_equal(proctor_error(p), "no 'x'");
	assert_int_equal(proctor_error_code(p), -32001);
	assert_string_equal(proctor_error_data(p), "{\"a\":1}");

	/* What was said before is not said of this. */
	assert_int_equal(proctor_call(p, "fine", "[\n]", &json), -EINVAL);
	assert_int_equal(proctor_error_code(p), 0);
	assert_null(proctor_error_data(p));
	assert_int_equal(proctor_call(p, NULL, NULL, &json), -EINVAL);

	assert_int_equal(proctor_call(p, "odd", NULL, &json), -EREMOTEIO);
	assert_int_equal(proctor_error_code(p), -1);
	assert_int_equal(proctor_call(p, "fine", NULL, NULL), 0);
	assert_int_equal(proctor_call(p, "fine", NULL, &json), 0);
	assert_string_equal(json, "[1,null,0.5,\"a\"]");
	assert_string_equal(proctor_error(p), "");
	assert_int_equal(proctor_error_code(p), 0);
	proctor_free_text(json);
	proctor_free(p);
	fake_stop(&f);
}

/* Answers the second request only, and the first after it. */
static void serve_late(FILE *in, FILE *out)
{
	char first[1024], second[1024];

	if (!fgets(first, sizeof(first), in) || !fgets(second, sizeof(second), in))
		return;
	answer(out, first, "\"late\"");
	answer(out, second, "\"right\"");
	(void)!fgets(first, sizeof(first), in);
}

static void test_late_answer(void **state)
{
	struct proctor *p;
	struct fake f;
	char *json;

	(void)state;
	fake_start(&f, serve_late);
	p = must_open(&f);
	proctor_set_timeout(p, -1);
	/* The time to wait for a job is its own, and for this call only. */
	assert_int_equal(proctor_wait(p, "a", SHORT_MS, &json), -ETIMEDOUT);
	assert_null(json);
	assert_int_equal(proctor_status(p, &json), 0);
	assert_string_equal(json, "\"right\"");
	proctor_free_text(json);
	proctor_free(p);
	fake_stop(&f);
}

/* Closes after the first request, without a word. */
static void serve_once(FILE *in, FILE *out)
{
	char line[1024];

	(void)!fgets(line, sizeof(line), in);
	(void)out;
}

/* The daemon goes, is noticed, and is found again. SIGPIPE would end this program. */
static void test_gone(void **state)
{
	struct proctor *p;
	struct fake f;

	(void)state;
	signal(SIGPIPE, SIG_DFL);
	fake_start(&f, serve_once);
	p = must_open(&f);
	assert_int_equal(proctor_status(p, NULL), -ECONNRESET);
	assert_non_null(strstr(proctor_error(p), "closed the connection"));
	for (int i = 0; i < 3; i++)
		assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	assert_int_equal(proctor_open(p, f.path), 0);
	assert_int_equal(proctor_status(p, NULL), -ECONNRESET);
	fake_stop(&f);
	assert_int_equal(proctor_open(p, f.path), -ENOENT);
	assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	proctor_free(p);
}

static const char *said; /* set before the fork */

static void serve_said(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		fputs(said, out);
		fflush(out);
	}
}

static void serve_endless_line(FILE *in, FILE *out)
{
	static const char block[65536] = { [0 ... 65535] = '[' };
	char line[1024];

	(void)!fgets(line, sizeof(line), in);
	while (fwrite(block, sizeof(block), 1, out) == 1)
		;
}

/* What the daemon answers to a subscription and to a call, and what comes of the call. */
static void test_nonsense(void **state)
{
	static const struct {
		const char *said;
		int result;
	} rows[] = {
		{ "", -ETIMEDOUT },
		{ "{\"jsonrpc\":\"2.0\",\"result\":nu", -ETIMEDOUT },
		{ "{\"result\":1,\"id\":77}\n", -ETIMEDOUT },
		{ "{\"result\":1,\"id\":\"1\"}\n", -ETIMEDOUT },
		{ "{\"result\":1,\"id\":1.0}\n", -ETIMEDOUT },
		{ "{\"result\":1}\n[]\n{}\nnull\n17\n\"a\"\n", -ETIMEDOUT },
		{ "{\"method\":\"event\"}\n{\"method\":\"event\",\"params\":[]}\n", -ETIMEDOUT },
		{ "{\"method\":\"event\",\"params\":{\"topic\":5}}\n", -ETIMEDOUT },
		{ "{\"method\":\"event\",\"params\":{\"topic\":\"lost\",\"count\":-1}}\n",
		  -ETIMEDOUT },
		{ "hello\n", -EBADMSG },
		{ "\n", -EBADMSG },
		{ "\x80\xff\x01\n", -EBADMSG },
		{ "{\"result\":1e999,\"id\":1}\n", -EBADMSG },
		{ "{\"result\":99999999999999999999,\"id\":1}\n", -EBADMSG },
		{ "{\"id\":1}\n", -EBADMSG },
		{ "{\"id\":1,\"error\":5}\n", -EREMOTEIO },
		{ "{\"id\":null,\"error\":{\"code\":\"x\",\"message\":7}}\n", -EREMOTEIO },
	};

	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct heard heard = { 0 };
		struct proctor *p;
		struct fake f;
		char *json;

		said = rows[i].said;
		fake_start(&f, serve_said);
		p = must_open(&f);
		proctor_set_timeout(p, SHORT_MS);
		if (proctor_status(p, &json) != rows[i].result)
			fail_msg("row %zu: %s", i, proctor_error(p));
		assert_null(json);
		assert_string_not_equal(proctor_error(p), "");
		assert_true(proctor_subscribe(p, "*", on_event, &heard) < 0);
		proctor_free(p);
		fake_stop(&f);
	}
}

static void test_endless_line(void **state)
{
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_endless_line);
	p = must_open(&f);
	proctor_set_timeout(p, -1);
	assert_int_equal(proctor_status(p, NULL), -EMSGSIZE);
	assert_int_equal(proctor_status(p, NULL), -ENOTCONN);
	proctor_free(p);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors),	     cmocka_unit_test(test_late_answer),
		cmocka_unit_test(test_gone),	     cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_endless_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
