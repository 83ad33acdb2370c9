#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/queue/detach.h"

/* Becomes argv in a child, behind launcher; what it prints comes back, and how it ended. */
static int launch_as(const char *launcher, const char *const *argv, const struct launch_user *user,
		     char *said, size_t size)
{
	int fds[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		if (launcher)
			setenv("PROCTOR_LAUNCHER", launcher, 1);
		else
			unsetenv("PROCTOR_LAUNCHER");
		_exit(-launch_become(argv, user));
	}
	close(fds[1]);
	while ((n = read(fds[0], said + len, size - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int launch(const char *launcher, const char *const *argv, char *said, size_t size)
{
	return launch_as(launcher, argv, NULL, said, size);
}

static const char script[] = "echo \"$X,$PROCTOR_LAUNCHER,$1,$2\"; exit 7";
static const char *const argv[] = { "/bin/sh", "-c", script, "sh", "a b", "", NULL };

static void test_without_a_launcher(void **state)
{
	char said[256];

	(void)state;
	assert_int_equal(launch(NULL, argv, said, sizeof(said)), 7);
	assert_string_equal(said, ",,a b,\n");
	assert_int_equal(launch(" \t", argv, said, sizeof(said)), 7);
}

/* The runner does not see it: what a job submits is not launched by way of it once more. */
static void test_behind_a_launcher(void **state)
{
	char said[256];

	(void)state;
	assert_int_equal(launch("env  X=1", argv, said, sizeof(said)), 7);
	assert_string_equal(said, "1,,a b,\n");
	assert_int_equal(launch("/usr/bin/env -u Y X=1 ", argv, said, sizeof(said)), 7);
	assert_string_equal(said, "1,,a b,\n");
}

/* Who it is to be goes among the launcher's own options; without a launcher nobody is asked. */
static void test_as_a_user(void **state)
{
	const struct launch_user user = { 4001, 4002, "/a b" };
	const char *const program[] = { "/bin/p", "run", NULL };
	char said[256];

	(void)state;
	assert_int_equal(launch_as("printf %s\\n x --", program, &user, said, sizeof(said)), 0);
	assert_string_equal(said, "x\n--uid=4001\n--gid=4002\n--working-directory=/a b\n--\n"
				  "/bin/p\nrun\n");
	assert_int_equal(launch_as("printf %s\\n x", program, &user, said, sizeof(said)), 0);
	assert_string_equal(said, "x\n--uid=4001\n--gid=4002\n--working-directory=/a b\n"
				  "/bin/p\nrun\n");
	assert_int_equal(launch_as(NULL, argv, &user, said, sizeof(said)), 7);
	assert_string_equal(said, ",,a b,\n");
}

/* What systemd-run takes for a variable is told so that it stays what it was. */
static void test_no_variable_is_put_in(void **state)
{
	const char *const program[] = { "/bin/p", "-f", "a$HOME.yaml", "$", NULL };
	char said[256], folder[] = "/tmp/proctor-launch-XXXXXX", path[64];

	(void)state;
	assert_int_equal(launch("printf %s\\n", program, said, sizeof(said)), 0);
	assert_string_equal(said, "/bin/p\n-f\na$HOME.yaml\n$\n");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/systemd-run", folder);
	assert_int_equal(symlink("/usr/bin/printf", path), 0);
	strcat(path, " %s\\n");
	assert_int_equal(launch(path, program, said, sizeof(said)), 0);
	assert_string_equal(said, "/bin/p\n-f\na$$HOME.yaml\n$$\n");
	*strchr(path, ' ') = '\0';
	unlink(path);
	rmdir(folder);
}

static void test_failures(void **state)
{
	const char *const missing[] = { "/no/such/program", NULL };
	char said[256], many[256];

	(void)state;
	assert_int_equal(launch(NULL, missing, said, sizeof(said)), ENOENT);
	assert_int_equal(launch("/no/such/launcher x", argv, said, sizeof(said)), ENOENT);
	for (size_t i = 0; i + 1 < sizeof(many); i++)
		many[i] = i % 2 ? ' ' : 'x';
	many[sizeof(many) - 1] = '\0';
	assert_int_equal(launch(many, argv, said, sizeof(said)), E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_launcher),
		cmocka_unit_test(test_behind_a_launcher),
		cmocka_unit_test(test_as_a_user),
		cmocka_unit_test(test_no_variable_is_put_in),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
