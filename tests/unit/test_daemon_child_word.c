#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/queue/user.h"

#define NOBODY 65534
#define LONG_MS 20000 /* for a child that answers: never waited for */
#define SHORT_MS 50
#define STUCK_SECONDS 60 /* ends a test that waits for ever */

static int ask(child_fn *find, int patience_ms, int *ret_word)
{
	int r;

	alarm(STUCK_SECONDS);
	r = child_word_ask(find, NULL, patience_ms, ret_word);
	alarm(0);
	return r;
}

/* Not even a zombie, nor one that is stopped. */
static void assert_no_child(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG | WUNTRACED), -1);
	assert_int_equal(errno, ECHILD);
}

static void say_7(const void *ctx, int word_fd)
{
	(void)ctx;
	child_word_tell(word_fd, 7);
}

static void test_word(void **state)
{
	int word = 0;

	(void)state;
	assert_int_equal(ask(say_7, LONG_MS, &word), 0);
	assert_int_equal(word, 7);
	assert_no_child();
}

static void say_nothing(const void *ctx, int word_fd)
{
	(void)ctx;
	(void)word_fd;
}

static void test_no_word(void **state)
{
	int word = 5;

	(void)state;
	assert_int_equal(ask(say_nothing, LONG_MS, &word), -ENODATA);
	assert_int_equal(word, 5);
	assert_no_child();
}

static void stop_first(const void *ctx, int word_fd)
{
	raise(SIGSTOP);
	say_7(ctx, word_fd);
}

static void stop_then(const void *ctx, int word_fd)
{
	say_7(ctx, word_fd);
	raise(SIGSTOP);
}

static void hang_first(const void *ctx, int word_fd)
{
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
	say_7(ctx, word_fd);
}

/* Its user may stop it whenever they like. */
static void test_stopped_child(void **state)
{
	int word = 0;

	(void)state;
	assert_int_equal(ask(stop_first, SHORT_MS, &word), -ETIMEDOUT);
	assert_no_child();
	assert_int_equal(ask(hang_first, SHORT_MS, &word), -ETIMEDOUT);
	assert_no_child();
	assert_int_equal(ask(stop_then, LONG_MS, &word), 0);
	assert_int_equal(word, 7);
	assert_no_child();
}

static void count_files(const void *ctx, int word_fd)
{
	int n = 0;

	(void)ctx;
	for (int fd = 0; fd < 1024; fd++)
		n += fd > STDERR_FILENO && fd != word_fd && fcntl(fd, F_GETFD) >= 0;
	child_word_tell(word_fd, n);
}

static void compare_stderr(const void *ctx, int word_fd)
{
	char path[64] = "";

	(void)ctx;
	child_word_tell(word_fd, readlink("/proc/self/fd/2", path, sizeof(path) - 1) == 9 &&
					 strcmp(path, "/dev/null") == 0);
}

static void test_our_files_are_not_theirs(void **state)
{
	int ours = open("/dev/zero", O_RDONLY), word = -1;

	(void)state;
	assert_true(ours >= 0);
	assert_int_equal(ask(count_files, LONG_MS, &word), 0);
	assert_int_equal(word, 0);
	assert_int_equal(ask(compare_stderr, LONG_MS, &word), 0);
	assert_int_equal(word, 1);
	close(ours);
}

static void become_nobody(const void *ctx, int word_fd)
{
	(void)ctx;
	if (child_word_become(NOBODY) == 0 && geteuid() == NOBODY)
		child_word_tell(word_fd, prctl(PR_GET_DUMPABLE));
}

/* Its memory is ours. */
static void test_not_traced(void **state)
{
	int word = -1;

	(void)state;
	if (geteuid() != 0 || !getpwuid(NOBODY))
		skip();
	assert_int_equal(ask(become_nobody, LONG_MS, &word), 0);
	assert_int_equal(word, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_word),
		cmocka_unit_test(test_no_word),
		cmocka_unit_test(test_stopped_child),
		cmocka_unit_test(test_our_files_are_not_theirs),
		cmocka_unit_test(test_not_traced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
