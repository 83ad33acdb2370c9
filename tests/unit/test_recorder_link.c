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
#include "recorder/link.h"
#include "model/record.h"

#define MS UINT64_C(1000000)

/* What has come, of all tests. */
static struct {
	size_t n_ends, n_events;
	struct proc_record end;
	char details[64];
} taken;

static const struct attempt attempt = { .job_id = "job" };
static const struct link_job job = { .a = &attempt };

static void take_facts(void *ctx, const struct link_facts *facts)
{
	(void)ctx;
	taken.n_ends += facts->n_ends;
	taken.n_events += facts->n_events;
	if (facts->n_ends > 0)
		taken.end = facts->ends[0];
	if (facts->n_events > 0)
		snprintf(taken.details, sizeof(taken.details), "%s", facts->events[0].details);
}

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
	struct link *link = link_new(loop, &job, take_facts, NULL, NULL);
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
	struct link *link = link_new(loop, &job, take_facts, NULL, NULL);
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
	struct link *link = link_new(loop, &job, take_facts, NULL, NULL);
	struct counted_calls calls = { 0 };
	struct err err = ERR_INIT;

	(void)state;
	setenv("PROCTOR_HOME", "/nonexistent", 1);
	link_begin_end(link, 1);
	assert_int_equal(link_await_record(link), 0);
	assert_int_equal(link_barrier(link), -ENOENT);
	assert_int_equal(link_end_facts(link, true, true), -ENOENT);
	assert_int_equal(link_take_calls(link, true, &calls, &err), -ENOENT);
	assert_null(link_free(link));
	assert_null(loop_free(loop));
}

/* ---- the stream ---- */

static void add_list(struct buf *line, const char *key, enum record_list list, const void *items)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	record_write_list(&bytes, list, items, 1);
	buf_printf(line, ",\"%s\":\"", key);
	buf_add_base64(line, bytes.data, bytes.len);
	buf_add_char(line, '"');
}

/* The second and the third of three facts: the first was lost on its way. */
static void send_facts(int fd)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	const struct proc_event kill = { .wall_ns = 5,
					 .key = { 8, 80 },
					 .type = EVENT_KILL,
					 .status = { -1, 9 },
					 .details = "sent by 9" };
	struct proc_record end;

	proc_record_init(&end);
	end.key = (struct proc_key){ 8, 80 };
	end.user_ns = 77;
	buf_add_str(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"topic\":"
			   "\"runner.facts\",\"data\":{\"before\":1,\"n\":2");
	add_list(&line, "processes", RECORD_LIST_PROCESSES, &end);
	add_list(&line, "events", RECORD_LIST_EVENTS, &kill);
	buf_add_str(&line, "}}}\n");
	(void)!send(fd, line.data, line.len, MSG_NOSIGNAL);
}

static void *stream(void *ctx)
{
	static const char opened[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"follows\":true,"
				     "\"accounts\":true}}\n";
	static const char passed[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"facts\":3,"
				     "\"withheld\":4,\"lost\":5}}\n";
	struct fake *fake = ctx;
	CLEANUP(close_fd) int fd = accept(fake->fd, NULL, NULL);
	char line[4096];

	if (recv(fd, line, sizeof(line), 0) > 0)
		(void)!send(fd, opened, strlen(opened), MSG_NOSIGNAL);
	if (recv(fd, line, sizeof(line), 0) > 0)
		(void)!send(fd, passed, strlen(passed), MSG_NOSIGNAL);
	usleep(20000); /* an answer overtakes what was sent before it */
	send_facts(fd);
	(void)!recv(fd, line, sizeof(line), 0); /* until it hangs up */
	return NULL;
}

static void test_a_barrier_waits_for_what_was_sent_before(void **state)
{
	struct loop *loop = loop_new();
	struct link *link = link_new(loop, &job, take_facts, NULL, NULL);
	struct fake fake;

	(void)state;
	if (geteuid() != 0)
		skip(); /* the stream is that of a daemon of root */
	begin(&fake, 0);
	assert_int_equal(pthread_create(&fake.thread, NULL, stream, &fake), 0);
	do /* it may be slow to begin */
		link_begin(link);
	while (!link_state(link)->was_followed && !link_state(link)->began_late);
	if (link_state(link)->was_followed) {
		link_begin_end(link, 5000 * MS);
		assert_int_equal(link_end_facts(link, true, false), 0);
		assert_int_equal(taken.n_ends, 1);
		assert_int_equal(taken.end.key.pid, 8);
		assert_int_equal(taken.end.user_ns, 77);
		assert_int_equal(taken.n_events, 1);
		assert_string_equal(taken.details, "sent by 9");
		assert_int_equal(link_state(link)->n_lost, 1 + 5);
		assert_int_equal(link_state(link)->n_withheld, 4);
	}
	assert_null(link_free(link));
	assert_null(loop_free(loop));
	pthread_join(fake.thread, NULL);
	end(&fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hung_daemon_is_waited_for_once),
		cmocka_unit_test(test_only_waiting_counts),
		cmocka_unit_test(test_no_daemon),
		cmocka_unit_test(test_a_barrier_waits_for_what_was_sent_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
