#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"

static void test_an_empty_one_is_a_string(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	assert_string_equal(b.data, "");
	buf_add(&b, "x", 0);
	buf_truncate(&b, 0);
	buf_reset(&b);
	assert_string_equal(b.data, "");
	assert_int_equal(b.cap, 0);
	buf_release(&b);
}

static void test_appending(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	buf_add_str(&b, "a");
	buf_add_char(&b, '\0');
	buf_printf(&b, "%d-%s", 7, "x");
	buf_printf(&b, "%s", "");
	assert_int_equal(b.len, 5);
	assert_memory_equal(b.data,
			    "a\0"
			    "7-x",
			    6);
	buf_truncate(&b, 100);
	assert_int_equal(b.len, 5);
	buf_truncate(&b, 1);
	assert_string_equal(b.data, "a");
	assert_int_equal(buf_error(&b), 0);
	buf_release(&b);
	assert_string_equal(b.data, "");
}

static void test_growing_keeps_the_content(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	for (int i = 0; i < 20000; i++)
		buf_printf(&b, "%05d ", i);
	assert_int_equal(b.len, 120000);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(atoi(b.data + 6 * (size_t)i), i);
	assert_int_equal(b.data[b.len], '\0');
	buf_release(&b);
}

static void test_a_lost_append_is_remembered(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	buf_add_str(&b, "kept");
	assert_int_equal(buf_reserve(&b, (size_t)INT_MAX), -ENOMEM);
	assert_int_equal(buf_error(&b), -ENOMEM);
	assert_string_equal(b.data, "kept");
	assert_null(buf_detach(&b));
	buf_reset(&b);
	assert_int_equal(buf_error(&b), 0);
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOMEM);
	buf_release(&b);
}

static void test_detaching(void **state)
{
	struct buf b = BUF_INIT;
	char *s = buf_detach(&b);

	(void)state;
	assert_string_equal(s, "");
	free(s);
	buf_add_str(&b, "abc");
	s = buf_detach(&b);
	assert_string_equal(s, "abc");
	assert_string_equal(b.data, "");
	assert_int_equal(b.len, 0);
	free(s);
	buf_release(&b);
}

static void test_an_array_doubles_and_refuses_what_cannot_be(void **state)
{
	uint32_t *items = NULL;
	size_t cap = 0;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(ARRAY_RESERVE(items, cap, i + 1), 0);
		items[i] = i;
	}
	assert_int_equal(cap, 1024);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(items[i], i);
	assert_int_equal(ARRAY_RESERVE(items, cap, SIZE_MAX), -ENOMEM);
	assert_int_equal(ARRAY_RESERVE(items, cap, SIZE_MAX / 4), -ENOMEM);
	assert_int_equal(cap, 1024);
	assert_int_equal(items[999], 999);
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_one_is_a_string),
		cmocka_unit_test(test_appending),
		cmocka_unit_test(test_growing_keeps_the_content),
		cmocka_unit_test(test_a_lost_append_is_remembered),
		cmocka_unit_test(test_detaching),
		cmocka_unit_test(test_an_array_doubles_and_refuses_what_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
