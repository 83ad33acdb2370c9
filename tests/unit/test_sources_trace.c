/*
 * A full trace ends when it is to end, also where nobody reads it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unknown.h"
#include "sources/sources.h"
#include "sources/syscalls/strace.h"

#define TOO_LONG_S 60 /* the test is ended by a signal then */

static pid_t start_caller(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execlp("dd", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none", (char *)NULL);
	_exit(127);
}

/* Of this very program until then. */
static void await_exec(pid_t pid)
{
	char path[64], own[4096], other[4096];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own)), m;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	do
		m = readlink(path, other, sizeof(other));
	while (n > 0 && n == m && memcmp(own, other, (size_t)n) == 0);
}

static void end_caller(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Traces a process that calls all the time into fd. */
static struct trace_result trace_into(int fd, int stop_fd, double seconds)
{
	const struct trace_options options = { seconds, UINT64_C(1) << 40, fd, stop_fd,
					       U64_UNKNOWN };
	struct trace_result result = { 0 };
	struct err err = ERR_INIT;
	pid_t pid;

	if (!sources_has_strace())
		skip();
	pid = start_caller();
	await_exec(pid);
	alarm(TOO_LONG_S);
	if (sources_trace(pid, &options, &result, &err) < 0)
		fail_msg("%s", err.text);
	alarm(0);
	assert_int_equal(strace_check(pid, &err), 0); /* nobody holds it */
	end_caller(pid);
	return result;
}

static void test_a_pipe_that_nobody_reads(void **state)
{
	struct trace_result result;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	result = trace_into(ends[1], -1, 1);
	assert_int_equal(result.end, TRACE_TIME_UP);
	assert_true(result.n_bytes > 0 && result.n_bytes <= 65536);
	assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* it is not ours to change */
	close(ends[0]);
	close(ends[1]);
}

static void test_a_terminal_that_nobody_reads(void **state)
{
	struct trace_result result;
	int master, slave;

	(void)state;
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	result = trace_into(slave, -1, 1);
	assert_int_equal(result.end, TRACE_TIME_UP);
	assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
	close(slave);
	close(master);
}

static void test_it_can_be_stopped_meanwhile(void **state)
{
	int ends[2], stop[2];
	pid_t stopper;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(stop), 0);
	stopper = fork();
	if (stopper == 0) {
		sleep(1);
		_exit(write(stop[1], "", 1) != 1);
	}
	assert_int_equal(trace_into(ends[1], stop[0], 600).end, TRACE_STOPPED);
	waitpid(stopper, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(ends[i]);
		close(stop[i]);
	}
}

/* Reads where nobody writes. */
static pid_t start_stuck(int in_fd)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in_fd, STDIN_FILENO);
	execlp("cat", "cat", (char *)NULL);
	_exit(127);
}

/* The call that it is stuck in has no end, and is what one wants to know. */
static void test_a_call_that_does_not_return_is_shown(void **state)
{
	struct trace_options options = { 1, UINT64_C(1) << 20, -1, -1, U64_UNKNOWN };
	struct trace_result result = { 0 };
	struct err err = ERR_INIT;
	char text[4096] = "";
	int ends[2], in[2];
	pid_t pid;

	(void)state;
	if (!sources_has_strace())
		skip();
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(in), 0);
	options.out_fd = ends[1];
	pid = start_stuck(in[0]);
	await_exec(pid);
	if (sources_trace(pid, &options, &result, &err) < 0)
		fail_msg("%s", err.text);
	end_caller(pid);
	assert_int_equal(result.end, TRACE_TIME_UP);
	assert_int_equal(read(ends[0], text, sizeof(text) - 1), result.n_bytes);
	assert_non_null(strstr(text, " read(0, "));
	assert_int_equal(text[result.n_bytes - 1], '\n');
	for (int i = 0; i < 2; i++) {
		close(ends[i]);
		close(in[i]);
	}
}

static void test_tracers_are_not_traced(void **state)
{
	const struct trace_options options = { 1, 4096, STDERR_FILENO, -1, U64_UNKNOWN };
	struct trace_result result;
	struct err err = ERR_INIT;
	struct strace *s = NULL;
	pid_t pid;

	(void)state;
	if (!sources_has_strace())
		skip();
	pid = start_caller();
	await_exec(pid);
	assert_int_equal(strace_start(pid, &s, &err), 0);
	assert_int_equal(strace_await(s, &err), 0);
	assert_int_equal(sources_trace(strace_pid(s), &options, &result, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a tracer itself"));
	strace_free(s);
	end_caller(pid);
	pid = fork(); /* another process of the same program */
	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(sources_trace(pid, &options, &result, &err), -EINVAL);
	assert_non_null(strstr(err.text, "is a proctor"));
	end_caller(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_pipe_that_nobody_reads),
		cmocka_unit_test(test_a_terminal_that_nobody_reads),
		cmocka_unit_test(test_it_can_be_stopped_meanwhile),
		cmocka_unit_test(test_a_call_that_does_not_return_is_shown),
		cmocka_unit_test(test_tracers_are_not_traced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
