#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "daemon/queue/user.h"

#define NOBODY 65534

static void test_an_account(void **state)
{
	const struct passwd *account = getpwuid(NOBODY);
	CLEANUP(user_release) struct user user = { 0 };
	struct err err = ERR_INIT;

	(void)state;
	if (!account)
		skip();
	assert_int_equal(user_find(NOBODY, &user, &err), 0);
	assert_int_equal(user.uid, NOBODY);
	assert_int_equal(user.gid, account->pw_gid);
	assert_string_equal(user.name, account->pw_name);
	assert_true(user.home[0] == '/' && user.shell[0] != '\0');
	assert_true(user.n_groups >= 1);
}

static void test_no_account(void **state)
{
	struct err err = ERR_INIT;
	struct user user;

	(void)state;
	if (getpwuid(3999999999))
		skip();
	assert_int_equal(user_find(3999999999, &user, &err), -ESRCH);
	assert_non_null(strstr(err.text, "3999999999"));
}

/* In a child. Returns the number of the check that failed, 0: none. */
static int become_and_look(void)
{
	char name[] = "n", home[] = "/h", shell[] = "/bin/sh";
	gid_t groups[] = { NOBODY, 4242 };
	const struct user user = { NOBODY, NOBODY, name, home, shell, groups, 2 };
	gid_t has[8];

	setenv("SECRET", "x", 1);
	setenv("LANG", "xx_YY", 1);
	prctl(PR_SET_KEEPCAPS, 1); /* whatever was set before */
	if (user_set_environment(&user) < 0 || user_become(&user) < 0)
		return 1;
	if (getuid() != NOBODY || geteuid() != NOBODY || getegid() != NOBODY)
		return 2;
	if (getgroups(8, has) != 2 || (has[0] != 4242 && has[1] != 4242))
		return 3;
	if (setuid(0) == 0 || seteuid(0) == 0 || setgid(0) == 0)
		return 4;
	if (getenv("SECRET") || strcmp(getenv("HOME"), "/h") != 0 ||
	    strcmp(getenv("USER"), "n") != 0 || strcmp(getenv("LANG"), "xx_YY") != 0)
		return 5;
	return 0;
}

/* The capabilities of this process are all gone. */
static bool is_without_capabilities(void)
{
	CLEANUP(buf_release) struct buf status = BUF_INIT;

	return io_read_at(-1, "/proc/self/status", 65536, &status) == 0 &&
	       strstr(status.data, "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
				   "CapEff:\t0000000000000000\n");
}

static void test_there_is_no_way_back(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		int failed = become_and_look();

		_exit(failed ? failed : is_without_capabilities() ? 0 : 6);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Who may not is told, and is who they were. */
static void test_an_ordinary_user_cannot(void **state)
{
	gid_t group = 0;
	const struct user user = { .groups = &group, .n_groups = 1 };
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		if (geteuid() == 0 &&
		    (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			_exit(2);
		_exit(user_become(&user) == -EPERM && geteuid() != 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_account),
		cmocka_unit_test(test_no_account),
		cmocka_unit_test(test_there_is_no_way_back),
		cmocka_unit_test(test_an_ordinary_user_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
