#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"

/* What the callbacks did, as letters in order. */
struct log {
	struct loop *loop;
	char text[64];
};

struct actor {
	struct log *log;
	char letter;
	struct loop_timer *timer, *other;
	struct loop_fd *watch;
	int fd;
	struct loop_soon *soon;
	pthread_t thread; /* the loop's */
	int times_left;	  /* closes itself or stops after so many */
};

static struct actor actor(struct log *log, char letter)
{
	return (struct actor){ .log = log, .letter = letter, .fd = -1 };
}

static void note(struct actor *a)
{
	size_t n = strlen(a->log->text);

	assert_true(n + 1 < sizeof(a->log->text));
	a->log->text[n] = a->letter;
	a->log->text[n + 1] = '\0';
}

static void on_timer_note(void *ctx)
{
	note(ctx);
}

static void on_timer_close_self(void *ctx)
{
	struct actor *a = ctx;

	note(a);
	if (--a->times_left == 0)
		a->timer = loop_timer_close(a->timer);
}

static void on_timer_close_other(void *ctx)
{
	struct actor *a = ctx;

	note(a);
	a->other = loop_timer_close(a->other);
}

static void on_timer_stop_loop(void *ctx)
{
	struct actor *a = ctx;

	note(a);
	loop_stop(a->log->loop);
}

static struct loop_timer *start(struct actor *a, loop_fn *fn, uint64_t delay, uint64_t repeat)
{
	a->timer = loop_timer_new(a->log->loop, fn, a);
	assert_non_null(a->timer);
	loop_timer_set(a->timer, delay, repeat);
	return a->timer;
}

static int make_loop(void **state)
{
	static struct log log;

	memset(&log, 0, sizeof(log));
	log.loop = loop_new();
	*state = &log;
	return log.loop ? 0 : -1;
}

static int free_loop(void **state)
{
	struct log *log = *state;

	log->loop = loop_free(log->loop);
	return 0;
}

static void test_timers_fire_in_order(void **state)
{
	struct log *log = *state;
	struct actor late = actor(log, 'l'), a = actor(log, 'a'), b = actor(log, 'b');
	struct actor idle = actor(log, 'i');

	start(&late, on_timer_note, 3600000, 0);
	start(&idle, on_timer_note, 0, 0);
	start(&a, on_timer_note, 0, 0);
	start(&b, on_timer_stop_loop, 1, 0);
	loop_timer_stop(idle.timer);
	loop_run(log->loop);
	assert_string_equal(log->text, "ab");
}

static void test_run_ends_when_nothing_is_left(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a');

	loop_run(log->loop);
	start(&a, on_timer_note, 0, 0);
	loop_run(log->loop);
	assert_string_equal(log->text, "a");
	/* A new setting starts it again. */
	loop_timer_set(a.timer, 0, 0);
	loop_run(log->loop);
	assert_string_equal(log->text, "aa");
}

static void test_setting_again_replaces(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a'), b = actor(log, 'b');

	start(&a, on_timer_note, 1, 1);
	start(&b, on_timer_note, 5, 0);
	loop_timer_set(a.timer, 10, 0);
	loop_run(log->loop);
	assert_string_equal(log->text, "ba");
}

static void test_repeating_timer_closes_itself(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a');

	a.times_left = 3;
	start(&a, on_timer_close_self, 1, 1);
	loop_run(log->loop);
	assert_string_equal(log->text, "aaa");
	assert_null(a.timer);
}

/* The one that is closed is due in the same round; it must not fire any more. */
static void test_closing_another(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a'), b = actor(log, 'b');

	start(&a, on_timer_close_other, 0, 0);
	a.other = start(&b, on_timer_note, 0, 0);
	loop_run(log->loop);
	assert_string_equal(log->text, "a");
	loop_timer_close(NULL);
}

static void test_stop(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a'), b = actor(log, 'b');

	start(&a, on_timer_stop_loop, 0, 0);
	start(&b, on_timer_note, 3600000, 0); /* still open when the loop is freed */
	loop_run(log->loop);
	assert_string_equal(log->text, "a");
}

static void on_readable(void *ctx)
{
	struct actor *a = ctx;
	char byte;
	ssize_t n = read(a->fd, &byte, 1);

	if (n == 1)
		a->letter = byte;
	else
		a->letter = '.';
	note(a);
	if (n == 0)
		a->watch = loop_fd_close(a->watch);
}

static void test_watching_a_file(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a');
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	a.fd = fds[0];
	a.watch = loop_watch_fd(log->loop, fds[0], on_readable, &a);
	assert_non_null(a.watch);
	assert_null(loop_watch_fd(log->loop, fds[0], on_readable, &a));
	assert_int_equal(write(fds[1], "xyz", 3), 3);
	close(fds[1]);
	loop_run(log->loop);
	assert_string_equal(log->text, "xyz.");
	assert_null(a.watch);
	close(fds[0]);
	loop_fd_close(NULL);
}

/* Writes what fits, then waits for room no longer; reads what came back. */
static void on_either(void *ctx)
{
	struct actor *a = ctx;
	unsigned ready = loop_fd_ready(a->watch);
	char byte;

	a->letter = ready & LOOP_WRITABLE ? (ready & LOOP_READABLE ? 'b' : 'w') : 'r';
	note(a);
	if (ready & LOOP_WRITABLE)
		loop_fd_set_interest(a->watch, LOOP_READABLE);
	else if (recv(a->fd, &byte, 1, 0) == 1)
		loop_fd_set_interest(a->watch, 0);
}

/* What nobody is interested in does not wake the loop, and comes when somebody is again. */
static void test_interest(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a');
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	a.fd = fds[0];
	a.watch = loop_watch_fd(log->loop, fds[0], on_either, &a);
	loop_fd_set_interest(a.watch, LOOP_WRITABLE);
	assert_int_equal(write(fds[1], "xy", 2), 2);
	loop_run(log->loop); /* ends: nothing is left to wait for */
	assert_string_equal(log->text, "wr");
	loop_fd_set_interest(a.watch, LOOP_READABLE);
	loop_run(log->loop);
	assert_string_equal(log->text, "wrr");
	assert_int_equal(write(fds[1], "z", 1), 1);
	loop_fd_set_interest(a.watch, LOOP_READABLE | LOOP_WRITABLE);
	loop_run(log->loop);
	assert_string_equal(log->text, "wrrbr");
	loop_fd_close(a.watch);
	close(fds[0]);
	close(fds[1]);
}

static void on_soon_again(void *ctx)
{
	struct actor *a = ctx;

	note(a);
	if (--a->times_left > 0)
		loop_soon_set(a->soon);
}

/* It asks for itself again and again, and still others have their turn. */
static void test_soon(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a'), b = actor(log, 'b');

	a.times_left = 3;
	a.soon = loop_soon_new(log->loop, on_soon_again, &a);
	assert_non_null(a.soon);
	loop_run(log->loop); /* nobody has asked for it */
	assert_string_equal(log->text, "");
	loop_soon_set(a.soon);
	loop_soon_set(a.soon); /* twice is once */
	start(&b, on_timer_note, 0, 0);
	loop_run(log->loop);
	assert_string_equal(log->text, "baaa");
	a.times_left = 1000000000;
	log->text[0] = '\0';
	loop_soon_set(a.soon);
	start(&b, on_timer_stop_loop, 0, 0);
	loop_run(log->loop);
	assert_non_null(strchr(log->text, 'b'));
	loop_soon_close(a.soon);
	loop_soon_close(NULL);
}

static void do_work(void *ctx)
{
	struct actor *a = ctx;

	a->letter = pthread_equal(pthread_self(), a->thread) ? '!' : 'o';
}

static void test_work(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a'), b = actor(log, 'b');

	a.thread = b.thread = pthread_self();
	assert_int_equal(loop_queue_work(log->loop, do_work, on_timer_note, &a), 0);
	loop_run(log->loop);
	assert_string_equal(log->text, "o");
	/* Nothing is left behind when the loop ends first. */
	assert_int_equal(loop_queue_work(log->loop, do_work, on_timer_note, &b), 0);
	log->loop = loop_free(log->loop);
	assert_string_equal(log->text, "oo");
}

static void test_a_regular_file_cannot_be_watched(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a');
	int fd = open("/proc/self/exe", O_RDONLY);

	assert_true(fd >= 0);
	assert_null(loop_watch_fd(log->loop, fd, on_readable, &a));
	loop_run(log->loop);
	close(fd);
}

static void test_freeing_with_handles_open(void **state)
{
	struct log *log = *state;
	struct actor a = actor(log, 'a'), b = actor(log, 'b');
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	start(&a, on_timer_note, 0, 1);
	b.fd = fds[0];
	b.watch = loop_watch_fd(log->loop, fds[0], on_readable, &b);
	assert_int_equal(write(fds[1], "x", 1), 1);
	loop_timer_close(a.timer);
	log->loop = loop_free(log->loop);
	assert_string_equal(log->text, ""); /* nobody is called while it goes */
	close(fds[0]);
	close(fds[1]);
	assert_null(loop_free(NULL));
}

int main(void)
{
#define LOOP_TEST(fn) cmocka_unit_test_setup_teardown(fn, make_loop, free_loop)
	const struct CMUnitTest tests[] = {
		LOOP_TEST(test_timers_fire_in_order),
		LOOP_TEST(test_run_ends_when_nothing_is_left),
		LOOP_TEST(test_setting_again_replaces),
		LOOP_TEST(test_repeating_timer_closes_itself),
		LOOP_TEST(test_closing_another),
		LOOP_TEST(test_stop),
		LOOP_TEST(test_watching_a_file),
		LOOP_TEST(test_interest),
		LOOP_TEST(test_soon),
		LOOP_TEST(test_work),
		LOOP_TEST(test_a_regular_file_cannot_be_watched),
		LOOP_TEST(test_freeing_with_handles_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
