#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/identity.h"

#define REST                                                                                       \
	" 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 18446744073709551615 0 0 0 0 0 0 0 " \
	"0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 "

static void test_stat(void **state)
{
	struct process_facts f = { 0 };

	(void)state;
	assert_int_equal(process_facts_parse_stat("7 (a) b) Z 3" REST "256\n", &f), 0);
	assert_int_equal(f.ppid, 3);
	assert_int_equal(f.state, 'Z');
	assert_int_equal(f.key.start_ticks, 12345);
	assert_int_equal(f.wait_status, 256);
	assert_false(f.is_kernel);
	assert_int_equal(process_facts_parse_stat("7 (x) S 3" REST "256\n", &f), 0);
	assert_int_equal(f.wait_status, -1); /* it lives */
	assert_int_equal(
		process_facts_parse_stat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 "
					 "20 0 1 0 0 0 0",
					 &f),
		0);
	assert_true(f.is_kernel);
	assert_int_equal(process_facts_parse_stat("7 (x", &f), -EINVAL);
	assert_int_equal(process_facts_parse_stat("7 (x) S", &f), -EINVAL);
	assert_int_equal(process_facts_parse_stat("", &f), -EINVAL);
}

static void test_status(void **state)
{
	struct process_facts f = { 0 };

	(void)state;
	assert_int_equal(process_facts_parse_status("Name:\tx\nUid:\t5\t5\t5\t5\nGid:\t1\n", &f),
			 0);
	assert_true(f.uid == 5 && f.is_pure);
	assert_int_equal(process_facts_parse_status("Name:\tx\nUid:\t5\t0\t0\t0\n", &f), 0);
	assert_true(f.uid == 5 && !f.is_pure);
	assert_int_equal(process_facts_parse_status("Name:\tUid:\n", &f), -EINVAL);
}

/* The kernel itself: us, a child that has died, and one that is not there. */
static void test_real_ones(void **state)
{
	int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct process_facts f;
	pid_t child;
	siginfo_t info;

	(void)state;
	assert_int_equal(process_facts_read(root_fd, getpid(), &f), 0);
	assert_int_equal(f.ppid, getppid());
	assert_int_equal(f.uid, getuid());
	child = fork();
	if (child == 0)
		_exit(3);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_facts_read(root_fd, child, &f), 0);
	assert_int_equal(f.state, 'Z');
	assert_int_equal(WEXITSTATUS(f.wait_status), 3);
	waitpid(child, NULL, 0);
	assert_int_equal(process_facts_read(root_fd, child, &f), -ESRCH);
	close(root_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_real_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
