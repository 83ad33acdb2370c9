#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/macros.h"
#include "daemon/link.h"

#define MS UINT64_C(1000000)

/* A daemon of ours: it takes connections, and answers as many questions as it is told to. */
struct fake {
	char home[64], path[96];
	int fd;
	int n_answers;
	pthread_t thread;
};

static void *answer(void *ctx)
{
	struct fake *fake = ctx;
	CLEANUP(close_fd) int fd = accept(fake->fd, NULL, NULL);
	char line[4096], text[128];

	for (int i = 1; i <= fake->n_answers && recv(fd, line, sizeof(line), 0) > 0; i++) {
		int n = snprintf(text, sizeof(text),
				 "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{}}\n", i);

		if (send(fd, text, (size_t)n, MSG_NOSIGNAL) < 0)
			break;
	}
	return NULL;
}

static void begin(struct fake *fake, int n_answers)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*fake = (struct fake){ .home = "/tmp/proctor-link-XXXXXX", .n_answers = n_answers };
	assert_non_null(mkdtemp(fake->home));
	snprintf(fake->path, sizeof(fake->path), "%s/proctor.sock", fake->home);
	memcpy(address.sun_path, fake->path, strlen(fake->path) + 1);
	setenv("PROCTOR_HOME", fake->home, 1);
	fake->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fake->fd, 16), 0);
	if (n_answers > 0)
		assert_int_equal(pthread_create(&fake->thread, NULL, answer, fake), 0);
}

static void end(struct fake *fake)
{
	if (fake->n_answers > 0)
		pthread_join(fake->thread, NULL);
	close(fake->fd);
	unlink(fake->path);
	rmdir(fake->home);
}

static void test_hung_daemon_is_waited_for_once(void **state)
{
	struct loop *loop = loop_new();
	struct link *link = link_new(loop);
	uint64_t began_ns, waited_ns;
	struct fake fake;

	(void)state;
	begin(&fake, 0);
	link_begin_end(link, 2000 * MS);
	began_ns = clock_boot_ns();
	for (int i = 0; i < 10; i++)
		assert_int_equal(link_await_record(link), -ETIMEDOUT);
	waited_ns = clock_boot_ns() - began_ns;
	assert_true(waited_ns > 400 * MS && waited_ns < 2500 * MS); /* and not ten times that */
	assert_null(link_free(link));
	assert_null(loop_free(loop));
	end(&fake);
}

/* A slow disk takes none of it. */
static void test_only_waiting_counts(void **state)
{
	struct loop *loop = loop_new();
	struct link *link = link_new(loop);
	struct fake fake;

	(void)state;
	begin(&fake, 2);
	link_begin_end(link, 1);
	assert_int_equal(link_await_record(link), 0);
	usleep(700000);
	assert_int_equal(link_await_record(link), 0);
	assert_null(link_free(link));
	assert_null(loop_free(loop));
	end(&fake);
}

/* What is told to nobody is not late. */
static void test_no_daemon(void **state)
{
	struct loop *loop = loop_new();
	struct link *link = link_new(loop);
	struct told_calls calls = { 0 };
	struct err err = ERR_INIT;

	(void)state;
	setenv("PROCTOR_HOME", "/nonexistent", 1);
	link_begin_end(link, 1);
	assert_int_equal(link_await_record(link), 0);
	assert_int_equal(link_take_signals(link, NULL, NULL), 0);
	assert_int_equal(link_take_calls(link, true, &calls, &err), -ENOENT);
	assert_null(link_free(link));
	assert_null(loop_free(loop));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hung_daemon_is_waited_for_once),
		cmocka_unit_test(test_only_waiting_counts),
		cmocka_unit_test(test_no_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
