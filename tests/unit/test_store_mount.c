#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "store/db/db.h"

static void test_device(void **state)
{
	static const char text[] = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
				   "2 27 0:31 / /x rw - tmpfs none rw\n"
				   "270 27 0:45 /home /home rw - btrfs /dev/vdb rw\n"
				   "28 27 0-45 / /y rw - what is this\n"
				   "29 27 99999999999:1 / /z rw - x y z\n"
				   "30 27 1:2";
	struct mount_found found = { 0 };

	(void)state;
	assert_int_equal(mount_parse(text, 270, &found), 0);
	assert_int_equal(found.device, makedev(0, 45));
	assert_int_equal(mount_parse(text, 27, &found), 0);
	assert_int_equal(found.device, makedev(254, 0));
	assert_int_equal(mount_parse(text, 26, &found), -ENOENT);
	assert_int_equal(mount_parse(text, 28, &found), -EINVAL);
	assert_int_equal(mount_parse(text, 29, &found), -ERANGE);
	assert_int_equal(mount_parse(text, 30, &found), -ENOENT);
	assert_int_equal(found.device, makedev(254, 0));
}

/* A line behind it must not answer for one that is too short. */
static bool is_read_only(const char *line)
{
	struct mount_found found = { 0 };
	char text[256];

	snprintf(text, sizeof(text), "%s\n8 1 0:9 / /y ro - tmpfs none ro\n", line);
	assert_int_equal(mount_parse(text, 27, &found), 0);
	return found.is_read_only;
}

static void test_read_only(void **state)
{
	(void)state;
	assert_true(is_read_only("27 1 0:31 / /x ro,relatime shared:1 - tmpfs none ro,size=4096k"));
	assert_true(is_read_only("27 1 0:31 / /x ro - iso9660 /dev/sr0 ro"));
	assert_true(is_read_only("27 1 0:31 / /x ro - tmpfs  ro"));
	assert_true(is_read_only("27 1 0:31 / /a\\040-\\040b ro - tmpfs none ro"));
	/* Others may write it. */
	assert_false(is_read_only("27 1 0:31 / /x ro,relatime shared:1 - tmpfs none rw"));
	assert_false(is_read_only("27 1 0:31 / /x ro - tmpfs ro rw"));
	assert_false(is_read_only("27 1 0:31 / /x ro - tmpfs none root=5"));
	assert_false(is_read_only("27 1 0:31 / /x ro - tmpfs none"));
	assert_false(is_read_only("27 1 0:31 / /x ro - tmpfs"));
	assert_false(is_read_only("27 1 0:31 / /x ro - "));
	assert_false(is_read_only("27 1 0:31 / /x ro"));
}

static void test_own(void **state)
{
	struct mount_found found;
	struct stat st;

	(void)state;
	assert_int_equal(mount_read("/proc/no/such", &found), -ENOENT);
	if (mount_read("/proc/self", &found) == -ENODATA)
		skip();
	assert_int_equal(stat("/proc/self", &st), 0);
	assert_int_equal(found.device, st.st_dev);
	assert_false(found.is_read_only);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
