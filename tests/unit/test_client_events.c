/* libproctor: events that come, wait and are lost. */
#include "fake_daemon.h"

#include <fcntl.h>
#include <poll.h>

#define KEPT_EVENTS 4096 /* while an answer is awaited */

/* The request is the data of the error. */
static void serve_refusals(FILE *in, FILE *out)
{
	char line[1024];

	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		fprintf(out, "{\"error\":{\"code\":-32602,\"data\":%s},\"id\":%d}\n", line,
			id_of(line));
		fflush(out);
	}
}

/* "burst" n: n events, then the answer. "loss": a notice, then the answer. */
static void serve_events(FILE *in, FILE *out)
{
	char line[1024];
	int k = 0;

	while (fgets(line, sizeof(line), in)) {
		const char *n = strstr(line, "\"params\":[");

		for (int i = 0; n && i < atoi(n + 10); i++)
			tell(out, "job.started", k++);
		if (strstr(line, "\"loss\""))
			tell_lost(out, 7);
		answer(out, line, "null");
		if (strstr(line, "\"after\""))
			tell(out, "job.completed", k++);
		fflush(out);
	}
}

static int drain(struct proctor *p)
{
	int n = 0, r;

	while ((r = proctor_listen(p, SHORT_MS)) > 0)
		n += r;
	assert_int_equal(r, 0);
	assert_string_equal(proctor_error(p), "");
	return n;
}

static void test_events(void **state)
{
	struct heard heard = { .last_k = -1 };
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_events);
	heard.p = p = must_open(&f);
	assert_int_equal(proctor_listen(p, 0), -EINVAL);
	assert_int_equal(proctor_call(p, "burst", "[2]", NULL), 0); /* nobody wants them */
	assert_int_equal(proctor_subscribe(p, NULL, on_event, &heard), -EINVAL);
	assert_int_equal(proctor_subscribe(p, "job.*", NULL, &heard), -EINVAL);
	assert_int_equal(proctor_subscribe(p, "job.*, sheet.*", on_event, &heard), 0);
	assert_int_equal(proctor_subscribe(p, "*", on_event, &heard), -EALREADY);
	assert_int_equal(proctor_listen(p, SHORT_MS), 0);

	assert_int_equal(proctor_call(p, "burst", "[5]", NULL), 0);
	assert_int_equal(heard.n, 0); /* not inside a call */
	heard.stop_at = 2;
	assert_int_equal(proctor_listen(p, -1), 2);
	assert_int_equal(proctor_listen(p, 0), 3);
	assert_int_equal(heard.last_k, 6);
	assert_int_equal(proctor_listen(p, 0), 0);

	/* A callback asks, and what comes meanwhile is handed over after it. */
	heard.ask = "after";
	heard.stop_at = heard.n + 10;
	assert_int_equal(proctor_call(p, "after", NULL, NULL), 0);
	while (heard.n < heard.stop_at) /* each call takes what has come by then */
		assert_true(proctor_listen(p, -1) > 0);
	assert_int_equal(heard.n_asked, 10);
	proctor_free(p);
	fake_stop(&f);
}

static void test_topics(void **state)
{
	static const struct {
		const char *topics, *params;
	} rows[] = {
		{ "*", "[\"*\"]" },
		{ "job.*,sheet.failed", "[\"job.*\",\"sheet.failed\"]" },
		{ " job.* ,, a\"b ,", "[\"job.*\",\"a\\\"b\"]" },
		{ "", "[]" },
	};
	struct heard heard = { 0 };
	char wanted[512];
	struct fake f;

	(void)state;
	fake_start(&f, serve_refusals);
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct proctor *p = must_open(&f);

		snprintf(wanted, sizeof(wanted),
			 "{\"jsonrpc\":\"2.0\",\"method\":\"events.subscribe\","
			 "\"params\":{\"topics\":%s},\"id\":1}",
			 rows[i].params);
		assert_int_equal(proctor_subscribe(p, rows[i].topics, on_event, &heard), -EINVAL);
		assert_string_equal(proctor_error_data(p), wanted);
		assert_int_equal(proctor_listen(p, 0), -EINVAL);
		proctor_free(p);
	}
	fake_stop(&f);
}

/* However many come while an answer is awaited: the newest are kept, the others counted. */
static void test_lost(void **state)
{
	struct heard heard = { .last_k = -1 };
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_events);
	p = must_open(&f);
	assert_int_equal(proctor_subscribe(p, "*", on_event, &heard), 0);
	assert_int_equal(proctor_call(p, "loss", "[3]", NULL), 0);
	assert_int_equal(drain(p), 4);
	assert_int_equal(heard.n_lost, 7);
	assert_int_equal(heard.n_notices, 1);

	assert_int_equal(proctor_call(p, "loss", "[1]", NULL),
			 0); /* what a notice told is not lost */
	assert_int_equal(proctor_call(p, "burst", "[10000]", NULL), 0);
	assert_int_equal(drain(p), KEPT_EVENTS + 1);
	assert_int_equal(heard.n_lost, 7 + 1 + 7 + 10000 - KEPT_EVENTS);
	assert_int_equal(heard.n_notices, 2);
	assert_int_equal(heard.last_k, 10003);
	proctor_free(p);
	fake_stop(&f);
}

static void test_poll(void **state)
{
	struct heard heard = { .last_k = -1 };
	struct pollfd poll_fd = { .events = POLLIN };
	struct proctor *p;
	struct fake f;

	(void)state;
	fake_start(&f, serve_events);
	p = must_open(&f);
	poll_fd.fd = proctor_fd(p);
	assert_true(poll_fd.fd >= 0);
	assert_true(fcntl(poll_fd.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(proctor_subscribe(p, "*", on_event, &heard), 0);
	assert_int_equal(proctor_listen(p, 0), 0);
	for (unsigned n = 1; n <= 20; n++) {
		assert_int_equal(proctor_call(p, "after", NULL, NULL), 0);
		while (proctor_listen(p, 0) > 0)
			;
		while (heard.n < n) {
			assert_int_equal(poll(&poll_fd, 1, -1), 1);
			assert_true(proctor_listen(p, 0) >= 0);
		}
	}
	proctor_free(p);
	fake_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_topics),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
