#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "daemon/follow/follow.h"

struct seen {
	pid_t pids[8];
	size_t n;
};

static void see(void *ctx, pid_t pid)
{
	struct seen *seen = ctx;

	if (seen->n < ARRAY_SIZE(seen->pids))
		seen->pids[seen->n++] = pid;
}

/* Tells the pid of its own child, and waits. */
static void __attribute__((noreturn)) be_parent(int fd)
{
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	if (write(fd, &child, sizeof(child)) != sizeof(child))
		_exit(1);
	pause();
	_exit(0);
}

static void test_children_and_theirs(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct seen seen = { 0 }, below = { 0 };
	pid_t child, grandchild = 0;
	int fds[2];

	(void)state;
	if (access("/proc/thread-self/children", R_OK) < 0)
		skip();
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0)
		be_parent(fds[1]);
	assert_int_equal(read(fds[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	descendants_each(root_fd, getpid(), see, &seen);
	descendants_each(root_fd, grandchild, see, &below);
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.pids[0], child);
	assert_int_equal(seen.pids[1], grandchild);
	assert_int_equal(below.n, 0);
}

static void test_one_that_is_gone_has_none(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct seen seen = { 0 };

	(void)state;
	descendants_each(root_fd, 4194304, see, &seen);
	assert_int_equal(seen.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children_and_theirs),
		cmocka_unit_test(test_one_that_is_gone_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
