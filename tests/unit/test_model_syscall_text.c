#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"

static void test_there_and_back(void **state)
{
	static const struct syscall_use uses[] = {
		{ "read", 10, 1, 2000, U64_UNKNOWN },
		{ "syscall_4711", UINT64_MAX - 1, 0, 0, 7 },
	};
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct syscall_use *back = NULL;
	size_t n = 9;

	(void)state;
	syscall_text_write(&text, uses, ARRAY_SIZE(uses));
	assert_string_equal(text.data, "read 10 1 2000 -;syscall_4711 18446744073709551614 0 0 7");
	assert_int_equal(syscall_text_read(text.data, &arena, &back, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(back[1].name, "syscall_4711");
	assert_int_equal(back[1].count, UINT64_MAX - 1);
	assert_false(u64_known(back[0].wait_ns));
	assert_int_equal(syscall_text_read("", &arena, &back, &n), 0);
	assert_int_equal(n, 0);
}

static void test_anything_else_is_refused(void **state)
{
	static const char *const bad[] = {
		"read",		  "read 1 2 3",
		"read 1 2 3 4;",  ";read 1 2 3 4",
		"read 1 2 3 4 5", "read 1  2 3 4",
		"READ 1 2 3 4",	  "read 1 2 3 x",
		"\"},{ 1 2 3 4",  "read 1 2 3 4,a 1 2 3 4",
		"read -1 2 3 4",  "read 1 2 3 99999999999999999999",
	};
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct syscall_use *uses;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (syscall_text_read(bad[i], &arena, &uses, &n) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_anything_else_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
