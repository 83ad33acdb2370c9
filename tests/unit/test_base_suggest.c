#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/suggest.h"

static const char *nearest(const char *word)
{
	static const char *const known[] = { "run", "retries", "on_failure", "workdir", "job_id" };
	struct suggest s = suggest_for(word);

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		suggest_offer(&s, known[i]);
	return s.best;
}

static void test_near_words(void **state)
{
	static const char *const rows[][2] = {
		{ "retrys", "retries" },
		{ "retry", "retries" },
		{ "retires", "retries" },
		{ "RETRIES", "retries" },
		{ "ru", "run" },
		{ "rnu", "run" },
		{ "on-failure", "on_failure" },
		{ "onfailure", "on_failure" },
		{ "job", "job_id" },
		{ "work_dir", "workdir" },
		{ "workdirs", "workdir" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_non_null(nearest(rows[i][0]));
		assert_string_equal(nearest(rows[i][0]), rows[i][1]);
	}
}

static void test_far_words(void **state)
{
	char *endless = malloc(5001);

	(void)state;
	memset(endless, 'r', 5000);
	endless[5000] = '\0';
	assert_null(nearest(""));
	assert_null(nearest("x"));
	assert_null(nearest("zebra"));
	assert_null(nearest("command"));
	assert_null(nearest(endless));
	free(endless);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near_words),
		cmocka_unit_test(test_far_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
