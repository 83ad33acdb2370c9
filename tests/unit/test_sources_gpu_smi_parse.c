/* The texts of nvidia-smi: tests/golden/parsers, kind "nvidia_smi". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* base/json.h has functions of these names too. */
#define json_string jansson_string
#define json_null jansson_null
#include <jansson.h>
#undef json_string
#undef json_null
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sources/gpu/gpu.h"

static double golden_number(const json_t *value)
{
	const char *text = json_string_value(value);

	if (!text)
		return json_number_value(value);
	return strcmp(text, "nan") == 0 ? (double)NAN : text[0] == '-' ? -INFINITY : INFINITY;
}

static void assert_same_number(double got, double want)
{
	if (isnan(want))
		assert_true(isnan(got));
	else
		assert_true(got == want);
}

static void assert_line(const struct smi_line *got, const json_t *want)
{
	static const char *const keys[SMI_FIELDS] = { "utilization_pct", "memory_used_mb",
						      "memory_total_mb", "temperature_c" };

	assert_true(got->index == json_number_value(json_object_get(want, "index")));
	for (size_t i = 0; i < SMI_FIELDS; i++)
		assert_same_number(got->values[i], golden_number(json_object_get(want, keys[i])));
}

static void check_case(const json_t *root)
{
	const json_t *expected = json_object_get(root, "expected");
	struct smi_line lines[16];
	size_t n = smi_parse(json_string_value(json_object_get(root, "input")), lines, 16), at = 0;

	for (size_t i = 0; i < n; i++)
		if (lines[i].is_whole)
			assert_line(&lines[i], json_array_get(expected, at++));
	assert_int_equal(at, json_array_size(expected));
}

static void test_smi_golden(void **state)
{
	char pattern[512];
	glob_t found;
	size_t n = 0;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/golden/parsers/*.json", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		json_t *root = json_load_file(found.gl_pathv[i], JSON_DECODE_INT_AS_REAL, NULL);

		assert_non_null(root);
		if (strcmp(json_string_value(json_object_get(root, "kind")), "nvidia_smi") == 0) {
			check_case(root);
			n++;
		}
		json_decref(root);
	}
	globfree(&found);
	assert_true(n >= 6);
}

static void test_smi_unknown_fields(void **state)
{
	struct smi_line lines[4];

	(void)state;
	assert_int_equal(smi_parse("[N/A], 100, [Not Supported], 30\n1,2,3\n", lines, 4), 2);
	assert_false(lines[0].is_whole);
	assert_true(isnan(lines[0].values[SMI_UTILIZATION]));
	assert_true(lines[0].values[SMI_MEMORY_USED] == 100);
	assert_true(isnan(lines[0].values[SMI_MEMORY_TOTAL]));
	assert_true(lines[0].values[SMI_TEMPERATURE] == 30);
	assert_false(lines[1].is_whole);
	assert_int_equal(smi_parse("1,2,3,4\n5,6,7,8\n", lines, 1), 1); /* no more than asked for */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_smi_golden),
		cmocka_unit_test(test_smi_unknown_fields),
	};

	return cmocka_run_group_tests_name("sources_gpu_smi_parse", tests, NULL, NULL);
}
