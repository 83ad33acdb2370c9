#include "rpc_fixture.h"

#include "recorder/link.h"

/* A daemon that has one answer to everything, until it is killed; with none it only listens. */
static pid_t start_daemon(struct fixture *f, const char *answer)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), client;
	pid_t pid;

	unlink(f->path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", f->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 5), 0);
	pid = fork_child();
	while (pid == 0 && (client = accept(fd, NULL, NULL)) >= 0) {
		FILE *in = fdopen(client, "r");
		char line[512];

		while (answer && in && fgets(line, sizeof(line), in)) {
			const char *id = strstr(line, "\"id\":");

			CHILD_CHECK(id && strstr(line, "\"for\":\"sheet\",\"job_id\":\"job\""));
			dprintf(client, "{\"jsonrpc\":\"2.0\",\"result\":%s,%s", answer, id);
		}
		if (!answer)
			pause();
		fclose(in);
	}
	close(fd);
	return pid;
}

static void stop_daemon(struct fixture *f, pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	unlink(f->path);
}

/* As a runner does, with a connection for each question: a daemon may have been replaced. */
static uint64_t ask(struct hold *h)
{
	static const struct attempt a = { .job_id = "job" };
	static const struct link_job job = { .a = &a };
	struct loop *loop = loop_new();
	struct link *link = link_new(loop, &job, NULL, NULL, NULL);
	uint64_t ms = link_hold_ms(link, h);

	assert_null(link_free(link));
	assert_null(loop_free(loop));
	return ms;
}

/* Asks until the sheet may start. */
static void wait_for_start(struct hold *h)
{
	for (int i = 0; i < PATIENCE_S * 10; i++) {
		uint64_t ms = ask(h);

		if (ms == 0)
			return;
		sleep_ms(100);
	}
	fail_msg("it still waits");
}

static void assert_is_over(const struct hold *h)
{
	assert_int_equal(h->since_boot_ns, 0);
}

static void test_no_daemon(void **state)
{
	struct hold h = { 0 };

	(void)state;
	assert_int_equal(ask(&h), 0);
	assert_is_over(&h);
}

static void test_admitted(void **state)
{
	struct fixture *f = *state;
	pid_t daemon = start_daemon(f, "{\"answer\":\"admit\",\"delay_seconds\":0}");
	struct hold h = { 0 };

	assert_int_equal(ask(&h), 0);
	assert_is_over(&h);
	stop_daemon(f, daemon);
}

static void test_delayed(void **state)
{
	struct fixture *f = *state;
	pid_t daemon = start_daemon(f, "{\"answer\":\"delay\",\"delay_seconds\":1}");
	struct hold h = { 0 };
	uint64_t began_ns = clock_boot_ns(), ms = ask(&h);

	assert_in_range(ms, 1, 1000);
	wait_for_start(&h);
	assert_true(clock_boot_ns() - began_ns >= 1000000000);
	assert_is_over(&h);
	stop_daemon(f, daemon);
}

/* Held for longer than the delay, as long as that is the answer; without an answer no longer. */
static void test_held(void **state)
{
	struct fixture *f = *state;
	pid_t daemon = start_daemon(f, "{\"answer\":\"reject\",\"delay_seconds\":1}");
	struct hold h = { 0 };

	for (int i = 0; i < 15; i++) {
		assert_in_range(ask(&h), 1, 1000);
		sleep_ms(100);
	}
	stop_daemon(f, daemon);
	assert_in_range(ask(&h), 1, 1000); /* what was told still holds */
	wait_for_start(&h);
	assert_is_over(&h);
}

/* The daemon has ended, and the next one finds that all is well. */
static void test_another_daemon(void **state)
{
	struct fixture *f = *state;
	pid_t daemon = start_daemon(f, "{\"answer\":\"reject\",\"delay_seconds\":60}");
	struct hold h = { 0 };

	assert_in_range(ask(&h), 1, 1000);
	stop_daemon(f, daemon);
	assert_in_range(ask(&h), 1, 1000);
	daemon = start_daemon(f, "{\"answer\":\"admit\",\"delay_seconds\":0}");
	assert_int_equal(ask(&h), 0);
	assert_is_over(&h);
	stop_daemon(f, daemon);
}

/* One that does not answer is given some time, and not for ever. */
static void test_silent_daemon(void **state)
{
	struct fixture *f = *state;
	pid_t daemon = start_daemon(f, NULL);
	struct hold h = { 0 };

	assert_in_range(ask(&h), 1, 1000);
	assert_true(h.until_boot_ns > h.since_boot_ns);
	assert_true(h.until_boot_ns - h.since_boot_ns <= UINT64_C(60000000000));
	stop_daemon(f, daemon);
}

/* Each sheet would be as late as the first: it is waited for once, until it speaks again. */
static void test_silent_daemon_is_awaited_once(void **state)
{
	struct fixture *f = *state;
	pid_t daemon = start_daemon(f, NULL);
	struct hold h = { 0 };

	assert_in_range(ask(&h), 1, 1000);
	h.until_boot_ns = h.since_boot_ns + 1; /* as if all of the time had passed */
	assert_int_equal(ask(&h), 0);
	assert_is_over(&h);
	assert_int_equal(ask(&h), 0); /* the next sheet */
	stop_daemon(f, daemon);
	daemon = start_daemon(f, "{\"answer\":\"delay\",\"delay_seconds\":60}");
	assert_in_range(ask(&h), 1, 1000);
	stop_daemon(f, daemon);
}

/* What makes no sense holds nobody up, or not for longer than any answer may. */
static void test_nonsense(void **state)
{
	static const char *const answers[] = { "7", "{}",
					       "{\"answer\":\"maybe\",\"delay_seconds\":5}",
					       "{\"answer\":\"delay\",\"delay_seconds\":-1}" };
	struct fixture *f = *state;
	struct hold h = { 0 };
	pid_t daemon;

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		daemon = start_daemon(f, answers[i]);
		assert_int_equal(ask(&h), 0);
		stop_daemon(f, daemon);
	}
	daemon = start_daemon(f, "{\"answer\":\"delay\",\"delay_seconds\":999999999999}");
	assert_in_range(ask(&h), 1, 1000);
	assert_true(h.until_boot_ns - h.since_boot_ns <= UINT64_C(60000000000));
	stop_daemon(f, daemon);
}

static int setup(void **state)
{
	int r = fixture_setup(state);

	if (r == 0)
		setenv("PROCTOR_HOME", ((struct fixture *)*state)->dir, 1);
	return r;
}

int main(void)
{
#define HOLD_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		HOLD_TEST(test_no_daemon),	HOLD_TEST(test_admitted),
		HOLD_TEST(test_delayed),	HOLD_TEST(test_held),
		HOLD_TEST(test_another_daemon), HOLD_TEST(test_silent_daemon),
		HOLD_TEST(test_nonsense),	HOLD_TEST(test_silent_daemon_is_awaited_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
