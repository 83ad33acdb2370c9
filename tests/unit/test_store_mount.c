#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/db/db.h"

static void test_ids(void **state)
{
	static const char text[] = "27 1 254:0 / / ro,relatime - ext4 /dev/vda ro\n"
				   "2 27 0:31 / /x ro - tmpfs none ro\n"
				   "270 27 0:45 /home /home rw - btrfs /dev/vdb rw\n"
				   "30 27 1:2";
	bool is_read_only = true;

	(void)state;
	assert_int_equal(mount_parse(text, 270, &is_read_only), 0);
	assert_false(is_read_only);
	assert_int_equal(mount_parse(text, 27, &is_read_only), 0);
	assert_true(is_read_only);
	assert_int_equal(mount_parse(text, 26, &is_read_only), -ENOENT);
	assert_int_equal(mount_parse(text, 30, &is_read_only), -ENOENT);
}

/* A line behind it must not answer for one that is too short. */
static bool is_read_only(const char *line)
{
	bool is_read_only = false;
	char text[256];

	snprintf(text, sizeof(text), "%s\n8 1 0:9 / /y ro - tmpfs none ro\n", line);
	assert_int_equal(mount_parse(text, 27, &is_read_only), 0);
	return is_read_only;
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
	bool is_read_only = true;

	(void)state;
	assert_int_equal(mount_read("/proc/no/such", &is_read_only), -ENOENT);
	if (mount_read("/proc/self", &is_read_only) == -ENODATA)
		skip();
	assert_false(is_read_only);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
