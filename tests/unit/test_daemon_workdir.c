#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/queue/user.h"

#define NOBODY 65534

static void assert_refused(const char *path, uid_t uid, int error)
{
	struct err err = ERR_INIT;

	assert_int_equal(workdir_check(path, uid, &err), -EINVAL);
	assert_non_null(strstr(err.text, strerror(error)));
	assert_non_null(strstr(err.text, path));
}

static void assert_taken(const char *path, uid_t uid)
{
	struct err err = ERR_INIT;

	assert_int_equal(workdir_check(path, uid, &err), 0);
}

static void test_own_folders(void **state)
{
	(void)state;
	assert_taken("/", geteuid());
	assert_refused("/nonexistent/folder", geteuid(), ENOENT);
	assert_refused("/dev/null", geteuid(), ENOTDIR);
}

/* What root may enter others may not. */
static void test_folder_of_another(void **state)
{
	char folder[] = "/tmp/proctor-workdir-XXXXXX";

	(void)state;
	if (geteuid() != 0 || !getpwuid(NOBODY))
		skip();
	assert_non_null(mkdtemp(folder));
	assert_taken(folder, 0);
	assert_refused(folder, NOBODY, EACCES);
	assert_int_equal(chmod(folder, 0711), 0);
	assert_taken(folder, NOBODY);
	assert_int_equal(rmdir(folder), 0);
}

/* Who is not ours may have no home, and then nobody reads what a job of theirs prints. */
static void test_logs_of_another(void **state)
{
	const struct passwd *account = getpwuid(NOBODY);

	(void)state;
	if (geteuid() != 0 || !account || access(account->pw_dir, F_OK) == 0)
		skip();
	assert_true(workdir_make_logs(NOBODY) < 0);
	assert_int_equal(workdir_make_logs(geteuid()), 0);
}

/* Whether there is an account is seen when the job begins. */
static void test_nobody_knows(void **state)
{
	(void)state;
	if (geteuid() != 0 || getpwuid(3999999999))
		skip();
	assert_taken("/nonexistent/folder", 3999999999);
}

/* A launcher may see what we do not. */
static void test_launcher(void **state)
{
	(void)state;
	setenv("PROCTOR_LAUNCHER", "true --", 1);
	assert_taken("/nonexistent/folder", geteuid());
	unsetenv("PROCTOR_LAUNCHER");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_folders),	cmocka_unit_test(test_folder_of_another),
		cmocka_unit_test(test_logs_of_another), cmocka_unit_test(test_nobody_knows),
		cmocka_unit_test(test_launcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
