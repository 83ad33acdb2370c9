#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

static void test_set(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&err, -ENOENT, "no file %d", 7), -ENOENT);
	assert_int_equal(err.code, -ENOENT);
	assert_string_equal(err.text, "no file 7");
	assert_int_equal(err_fact_len(&err), strlen("no file 7"));
}

static void test_advice_stands_behind_the_fact(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, -ENOSPC, "the disk: full");
	err_advise(&err, "free some room: now");
	assert_string_equal(err.text, "the disk: full: free some room: now");
	assert_int_equal(err_fact_len(&err), strlen("the disk: full"));
	assert_int_equal(err.code, -ENOSPC);
}

/* What is set anew has not the advice of before. */
static void test_set_again(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, -EBUSY, "locked");
	err_advise(&err, "wait");
	err_set(&err, -EIO, "a disk that fails");
	assert_int_equal(err_fact_len(&err), strlen("a disk that fails"));
}

static void test_long_text_is_cut(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, -EIO, "%*s", (int)sizeof(err.text) + 50, "x");
	err_advise(&err, "nothing fits behind it");
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(err_fact_len(&err), sizeof(err.text) - 1);
}

static void test_nobody_asks(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, -EIO, "unheard"), -EIO);
	err_advise(NULL, "unheard");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_advice_stands_behind_the_fact),
		cmocka_unit_test(test_set_again),
		cmocka_unit_test(test_long_text_is_cut),
		cmocka_unit_test(test_nobody_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
