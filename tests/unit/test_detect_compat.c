/*
 * The checks of the reference implementation, against all cases of tests/golden/anomaly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "cli/compat_input.h"
#include "detect/detect.h"

static void write_anomaly(void *ctx, const struct anomaly *a)
{
	struct json *j = ctx;

	assert_true(a->text[0] != '\0');
	json_begin_object(j);
	anomaly_write_fields(j, a);
	json_end_object(j);
}

/* As "detect --input FILE --json" prints it. */
static json_t *judge(const char *file)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct detect_input in;
	struct err err = ERR_INIT;
	struct json j;
	json_t *root;

	if (detect_input_load(file, &in, &err) < 0)
		fail_msg("%s", err.text);
	json_init(&j, &text);
	json_begin_array(&j);
	assert_int_equal(
		compat_detect(&in.config, in.history, in.n_history, &in.current, write_anomaly, &j),
		0);
	json_end_array(&j);
	detect_input_release(&in);
	root = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	return root;
}

/* Everything that is wanted is there, with the same type and the same bits. */
static void assert_same(const char *file, size_t i, json_t *got, json_t *wanted)
{
	const char *key;
	json_t *value;

	json_object_foreach(wanted, key, value)
	{
		json_t *mine = json_object_get(got, key);

		if (!mine || json_typeof(mine) != json_typeof(value) || !json_equal(mine, value))
			fail_msg("%s: anomaly %zu: %s differs", file, i, key);
	}
}

static void check_case(const char *file)
{
	json_t *root = json_load_file(file, 0, NULL), *wanted, *got = judge(file);

	assert_non_null(root);
	wanted = json_object_get(root, "expected");
	if (json_array_size(got) != json_array_size(wanted))
		fail_msg("%s: %zu anomalies, wanted %zu", file, json_array_size(got),
			 json_array_size(wanted));
	for (size_t i = 0; i < json_array_size(wanted); i++)
		assert_same(file, i, json_array_get(got, i), json_array_get(wanted, i));
	json_decref(got);
	json_decref(root);
}

static void test_golden_anomalies(void **state)
{
	char pattern[4096];
	glob_t files;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/golden/anomaly/*.json", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	assert_int_equal(files.gl_pathc, 60);
	for (size_t i = 0; i < files.gl_pathc; i++)
		check_case(files.gl_pathv[i]);
	globfree(&files);
}

static int parse(const char *text, struct detect_input *ret, struct err *err)
{
	return detect_input_parse(text, strlen(text), "x.json", ret, err);
}

static void test_absent_values_have_defaults(void **state)
{
	struct detect_input in;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(
		parse("{\"current\":{\"processes\":[{}],\"zombie_pids\":null}}", &in, &err), 0);
	assert_true(in.config.memory_spike_threshold == 1.5);
	assert_int_equal(in.n_history, 0);
	assert_int_equal(in.current.n_processes, 1);
	assert_int_equal(in.current.processes[0].state, 'S');
	assert_null(in.current.processes[0].job_id);
	detect_input_release(&in);
}

static void test_bad_input_is_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "[]", "x.json: not an object" },
		{ "{", "x.json: " },
		{ "{}", "x.json: 'current' is missing" },
		{ "{\"current\":3}", "x.json: current: 'snapshot' wants an object, not 3" },
		{ "{\"config\":3,\"current\":{}}", "'config' wants an object" },
		{ "{\"history\":{},\"current\":{}}", "'history' wants a list" },
		{ "{\"history\":[{},{\"processes\":[{\"pid\":1.5}]}],\"current\":{}}",
		  "x.json: history[1]: 'pid' wants a whole number" },
		{ "{\"current\":{\"processes\":[{\"rss_mb\":\"much\"}]}}",
		  "'rss_mb' wants a number, not the text 'much'" },
		{ "{\"current\":{\"zombie_pids\":[null]}}", "'zombie_pids' wants a whole number" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct detect_input in;
		struct err err = ERR_INIT;

		assert_true(parse(cases[i].text, &in, &err) < 0);
		if (!strstr(err.text, cases[i].why))
			fail_msg("'%s' does not say '%s'", err.text, cases[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_anomalies),
		cmocka_unit_test(test_absent_values_have_defaults),
		cmocka_unit_test(test_bad_input_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
