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
	assert_string_equal(c->jsonl_path, "proctor.jsonl");
	assert_int_equal(c->jsonl_max_bytes, 52428800);
	assert_int_equal(c->retention.full_resolution_hours, 24);
	assert_int_equal(c->retention.downsampled_days, 7);
	assert_int_equal(c->retention.events_days, 30);
	assert_int_equal(c->retention.max_bytes, 1073741824);
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

static void test_jsonl(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("jsonl_path: ~/logs/p.jsonl\njsonl_max_bytes: 1048576\n", &c, &err),
			 0);
	assert_string_equal(c.jsonl_path, "~/logs/p.jsonl");
	assert_int_equal(c.jsonl_max_bytes, 1048576);
	assert_int_equal(load("jsonl_path: null\n", &c, &err), 0);
	assert_null(c.jsonl_path);
	assert_int_equal(load("jsonl_path: ''\n", &c, &err), 0);
	assert_null(c.jsonl_path);
	config_release(&c);
	assert_string_equal(c.jsonl_path, "proctor.jsonl");
}

static void test_retention(void **state)
{
	struct err err = ERR_INIT;
	struct config c;

	(void)state;
	config_init(&c);
	assert_int_equal(load("retention:\n  full_resolution_hours: 1\n  downsampled_days: 3650\n"
			      "  events_days: 2\n  max_bytes: 16777216\n",
			      &c, &err),
			 0);
	assert_int_equal(c.retention.full_resolution_hours, 1);
	assert_int_equal(c.retention.downsampled_days, 3650);
	assert_int_equal(c.retention.events_days, 2);
	assert_int_equal(c.retention.max_bytes, 16777216);
	/* What a mapping leaves out keeps its default. */
	assert_int_equal(load("retention: {max_bytes: 0}\n", &c, &err), 0);
	assert_int_equal(c.retention.max_bytes, 0);
	assert_int_equal(c.retention.full_resolution_hours, 24);
	assert_int_equal(load("retention:\n", &c, &err), 0);
	assert_int_equal(c.retention.max_bytes, 1073741824);
	assert_int_equal(c.retention.events_days, 30);
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
		{ "jsonl_max_bytes: 1048575\n",
		  ":1: 'jsonl_max_bytes' is '1048575'; it must be a whole number from 1048576 to "
		  "1125899906842624" },
		{ "jsonl_max_bytes: 0\n",
		  ":1: 'jsonl_max_bytes' is '0'; it must be a whole number from 1048576 to "
		  "1125899906842624" },
		{ "jsonl_path: [a]\n",
		  ":1: 'jsonl_path' is a list; it must be a text, or null for none" },
		{ "\njsonl_path: ~ada/p.jsonl\n",
		  ":2: 'jsonl_path' is '~ada/p.jsonl'; only '~/' stands for a home: write the path "
		  "out" },
		{ "retention: 7d\n",
		  ":1: 'retention' is '7d'; it must be a mapping of keys to values" },
		{ "retention:\n  full_resolution_hours: 0\n",
		  ":2: 'full_resolution_hours' is '0'; it must be a whole number from 1 to 87600" },
		{ "retention:\n  downsampled_days: 3651\n",
		  ":2: 'downsampled_days' is '3651'; it must be a whole number from 1 to 3650" },
		{ "retention:\n  events_days: 1.5\n",
		  ":2: 'events_days' is '1.5'; it must be a whole number from 1 to 3650" },
		{ "retention:\n  max_bytes: 16777215\n",
		  ":2: 'max_bytes' is '16777215'; it must be a whole number from 16777216 to "
		  "1125899906842624, or 0 for no limit" },
		{ "retention:\n  event_days: 1\n",
		  ":2: unknown key 'event_days' in the retention mapping; did you mean "
		  "'events_days'?" },
		{ "full_resolution_hours: 1\n",
		  ":1: unknown key 'full_resolution_hours' in the configuration; known are "
		  "interval_seconds, mask_secrets, mask_patterns, jsonl_path, jsonl_max_bytes, "
		  "retention" },
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
		cmocka_unit_test(test_jsonl),
		cmocka_unit_test(test_retention),
		cmocka_unit_test(test_mistakes),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
