#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"

static char path[] = "/tmp/proctor-config-XXXXXX";

/* Loads text as a file; the message without the file's name comes back in err. */
static int load(const char *text, struct config *c, struct err *err)
{
	FILE *f = fopen(path, "w");
	int r;

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	r = config_load(path, c, err);
	if (strncmp(err->text, path, strlen(path)) == 0)
		memmove(err->text, err->text + strlen(path), strlen(err->text + strlen(path)) + 1);
	return r;
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void assert_defaults(const struct config *c)
{
	assert_true(c->interval_seconds == 1);
	assert_true(c->mask_secrets);
	assert_int_equal(c->n_mask_patterns, 0);
	assert_false(c->was_read);
}

static void test_defaults_without_a_file(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_defaults(&c);
	assert_int_equal(config_load("/no/such/proctor.yaml", &c, &err), 0);
	assert_defaults(&c);
	assert_string_equal(err.text, "");
	config_release(&c);
}

static void test_values(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("interval_seconds: 0.5\nmask_secrets: false\n"
			      "mask_patterns: [pin, '^x-']\n",
			      &c, &err),
			 0);
	assert_true(c.was_read);
	assert_true(c.interval_seconds == 0.5);
	assert_false(c.mask_secrets);
	assert_int_equal(c.n_mask_patterns, 2);
	assert_string_equal(c.mask_patterns[1], "^x-");
	/* A second load starts from the defaults again. */
	assert_int_equal(load("", &c, &err), 0);
	assert_true(c.was_read);
	assert_true(c.interval_seconds == 1);
	assert_int_equal(c.n_mask_patterns, 0);
	config_release(&c);
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *text;
		const char *message;
	} rows[] = {
		{ "interval_seconds: 0.05\n",
		  ":1: 'interval_seconds' is '0.05'; it must be a number from 0.1 to 300" },
		{ "interval_seconds: 301\n",
		  ":1: 'interval_seconds' is '301'; it must be a number from 0.1 to 300" },
		{ "interval: 5\n", ":1: unknown key 'interval' in the configuration; did you mean "
				   "'interval_seconds'?" },
		{ "mask_secrets: no\n", ":1: 'mask_secrets' is 'no'; it must be true or false" },
		{ "mask_patterns: pin\n",
		  ":1: 'mask_patterns' is 'pin'; it must be a list of texts" },
		{ "mask_patterns:\n- pin\n- a(b\n",
		  ":3: the mask pattern 'a(b' is not a regular expression: Unmatched ( or \\(" },
		{ "mask_patterns:\n- ''\n",
		  ":2: the mask pattern '' fits every name; write at least one letter that must "
		  "be there" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;
		struct config c;

		config_init(&c);
		assert_int_equal(load(rows[i].text, &c, &err), -EINVAL);
		assert_string_equal(err.text, rows[i].message);
		assert_defaults(&c);
		config_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_without_a_file),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_mistakes),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
