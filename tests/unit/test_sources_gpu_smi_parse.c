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

static void assert_line(size_t index, const double *got, const json_t *want)
{
	static const char *const keys[SMI_FIELDS] = { "utilization_pct", "memory_used_mb",
						      "memory_total_mb", "temperature_c" };

	assert_true((double)index == json_number_value(json_object_get(want, "index")));
	for (size_t i = 0; i < SMI_FIELDS; i++)
		assert_same_number(got[i], golden_number(json_object_get(want, keys[i])));
}

/* Lines are counted whatever is on them, blank ones are not. */
static void check_case(const json_t *root)
{
	const json_t *expected = json_object_get(root, "expected");
	const char *text = json_string_value(json_object_get(root, "input"));
	size_t n_lines = 0, n_whole = 0;

	for (size_t n; *text; text += n + (text[n] == '\n')) {
		double values[SMI_FIELDS];

		n = strcspn(text, "\n");
		if (strspn(text, " \t\r\f\v") >= n)
			continue;
		if (smi_parse_line(text, n, values))
			assert_line(n_lines, values, json_array_get(expected, n_whole++));
		n_lines++;
	}
	assert_int_equal(n_whole, json_array_size(expected));
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
	static const char line[] = "[N/A], 100, [Not Supported], 30";
	double values[SMI_FIELDS];

	(void)state;
	assert_false(smi_parse_line(line, strlen(line), values));
	assert_true(isnan(values[SMI_UTILIZATION]));
	assert_true(values[SMI_MEMORY_USED] == 100);
	assert_true(isnan(values[SMI_MEMORY_TOTAL]));
	assert_true(values[SMI_TEMPERATURE] == 30);
	assert_false(smi_parse_line("1,2,3", 5, values));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_smi_golden),
		cmocka_unit_test(test_smi_unknown_fields),
	};

	return cmocka_run_group_tests_name("sources_gpu_smi_parse", tests, NULL, NULL);
}
