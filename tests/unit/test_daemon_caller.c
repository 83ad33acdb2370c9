#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "daemon/process_handle.h"

#define NOBODY 65534

static void test_who_it_is(void **state)
{
	struct rpc_peer peer = { .uid = geteuid(), .pid = getpid() };
	struct err err = ERR_INIT;
	struct proc_key key;
	uint64_t start_ticks;

	(void)state;
	assert_int_equal(caller_find_process(&peer, &key, &err), 0);
	assert_int_equal(proc_start_ticks(getpid(), &start_ticks), 0);
	assert_int_equal(key.pid, getpid());
	assert_true(key.start_ticks == start_ticks);
	peer.uid = geteuid() + 1; /* a pid that somebody else has by now */
	assert_int_equal(caller_find_process(&peer, &key, &err), -EOPNOTSUPP);
	peer = (struct rpc_peer){ .uid = geteuid(), .pid = 0 }; /* in another namespace */
	assert_int_equal(caller_find_process(&peer, &key, &err), -EOPNOTSUPP);
	assert_false(caller_is_process_of(4194304, geteuid()));
}

/* One that could go back to being root is root's. */
static void test_a_saved_user_counts(void **state)
{
	int fds[2], status;
	char byte;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		_exit(setresuid(NOBODY, NOBODY, 0) < 0 || write(fds[1], "x", 1) != 1 ||
		      sleep(60) > 0);
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_false(caller_is_process_of(pid, NOBODY));
	assert_false(caller_is_process_of(pid, 0));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_it_is),
		cmocka_unit_test(test_a_saved_user_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
