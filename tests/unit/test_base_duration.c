/*
 * Durations against the cases of tests/golden/parsers whose kind is "duration".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* Numbers that JSON cannot have are strings there. */
static double expected_seconds(json_t *seconds)
{
	return json_is_string(seconds) ? strtod(json_string_value(seconds), NULL)
				       : json_number_value(seconds);
}

static void check_input(const char *file, json_t *input)
{
	const char *text = json_string_value(json_object_get(input, "text"));
	bool ok = json_is_true(json_object_get(input, "ok"));
	double wanted = expected_seconds(json_object_get(input, "seconds"));
	double got = -1;
	int r = num_parse_duration(text, &got);

	/* Bit for bit, but which of the many NaNs it is means nothing. */
	if (ok ? r == 0 && (memcmp(&got, &wanted, sizeof(got)) == 0 ||
			    (isnan(got) && isnan(wanted)))
	       : r < 0)
		return;
	fail_msg("%s: '%s' gave %d and %.17g, wanted %s %.17g", file, text, r, got,
		 ok ? "success and" : "refusal, not", wanted);
}

/* Returns how many inputs of the file say something about durations. */
static size_t check_file(const char *file)
{
	/* As reals: other kinds have counts that no integer of jansson holds. */
	json_t *root = json_load_file(file, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL), *input;
	size_t i, n = 0;

	assert_non_null(root);
	if (strcmp(json_string_value(json_object_get(root, "kind")), "duration") == 0)
		json_array_foreach(json_object_get(root, "inputs"), i, input)
		{
			if (json_is_true(json_object_get(input, "exotic")))
				continue;
			check_input(file, input);
			n++;
		}
	json_decref(root);
	return n;
}

static void test_golden_durations(void **state)
{
	char pattern[4096];
	size_t n = 0;
	glob_t files;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/golden/parsers/*.json", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++)
		n += check_file(files.gl_pathv[i]);
	globfree(&files);
	assert_true(n > 0);
}

/* What the contract has no word for: parts of a second. */
static void test_parts_of_a_second(void **state)
{
	static const struct {
		const char *text;
		double seconds; /* below 0: refused */
	} rows[] = {
		{ "200ms", 0.2 },  { "0.2s", 0.2 },  { "1500ms", 1.5 }, { "30s", 30 },
		{ "2h30m", 9000 }, { " 5 ", 300 },   { "ms", -1 },	{ "s", -1 },
		{ "1.5h", -1 },	   { "1.2.3s", -1 }, { "-1s", -1 },	{ "1s1s", -1 },
		{ "1s1ms", -1 },   { "0x1s", -1 },   { "", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double got = -1;
		int r = num_parse_time(rows[i].text, &got);

		assert_true(rows[i].seconds < 0 ? r < 0 : r == 0 && got == rows[i].seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_durations),
		cmocka_unit_test(test_parts_of_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
