/*
 * Every case of tests/golden/correlation, field by field, confidence bit by bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "cli/compat_input.h"
#include "learn/learn.h"
#include "rpc/rpc.h"

#define N_CASES 40

static void compare_result(const struct compat_result *result, const struct rpc_value *expected)
{
	const struct rpc_value *tags = rpc_value_get(expected, "context_tags");

	assert_string_equal(result->type, rpc_value_string(rpc_value_get(expected, "type")));
	assert_true(result->confidence == rpc_value_f64(rpc_value_get(expected, "confidence")));
	assert_int_equal(result->is_stored,
			 rpc_value_bool(rpc_value_get(expected, "stored"), false));
	assert_int_equal(rpc_value_len(tags), COMPAT_TAGS);
	for (size_t i = 0; i < COMPAT_TAGS; i++)
		assert_string_equal(result->tags[i], rpc_value_string(rpc_value_at(tags, i)));
}

static void compare_case(const char *text, size_t len)
{
	static const struct rpc_value_limits limits = { 16, 1000000 };
	CLEANUP(cli_value_cleanup) struct rpc_value *document = NULL;
	CLEANUP(profiles_release) struct profiles profiles = PROFILES_INIT;
	CLEANUP(compat_release) struct compat compat = { .arena = ARENA_INIT };
	const struct rpc_value *expected;
	struct err err = ERR_INIT;

	assert_int_equal(rpc_value_parse(text, len, &limits, &document, &err), 0);
	expected = rpc_value_get(document, "expected");
	assert_int_equal(profiles_parse(text, len, "case", &profiles, &err), 0);
	assert_int_equal(compat_analyze(profiles.compat, profiles.runs.n, 5, &compat), 0);
	assert_int_equal(compat.n, rpc_value_len(expected));
	for (size_t i = 0; i < compat.n; i++)
		compare_result(&compat.results[i], rpc_value_at(expected, i));
}

static void test_golden(void **state)
{
	const char *tests = getenv("PROCTOR_TESTS");

	(void)state;
	assert_non_null(tests);
	for (int i = 0; i < N_CASES; i++) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		char path[4096];

		snprintf(path, sizeof(path), "%s/golden/correlation/%03d.json", tests, i);
		assert_int_equal(io_read_at(AT_FDCWD, path, 1 << 24, &text), 0);
		compare_case(text.data, text.len);
	}
}

static void test_too_few_jobs(void **state)
{
	CLEANUP(compat_release) struct compat compat = { .arena = ARENA_INIT };
	const struct compat_profile profiles[] = {
		{ .peak_rss_mb = 1, .has_failed = true },
		{ .peak_rss_mb = 1, .has_failed = true },
		{ .peak_rss_mb = 1, .has_failed = true },
		{ .peak_rss_mb = 3000 },
	};

	(void)state;
	assert_int_equal(compat_analyze(profiles, 4, 5, &compat), 0);
	assert_int_equal(compat.n, 0);
	compat_release(&compat);
	assert_int_equal(compat_analyze(profiles, 4, 4, &compat), 0);
	assert_int_equal(compat.n, 1); /* the bin of three; by duration they are like all */
}

static void assert_refused(const char *text, const char *why)
{
	struct profiles profiles;
	struct err err = ERR_INIT;

	assert_true(profiles_parse(text, strlen(text), "f.json", &profiles, &err) < 0);
	assert_non_null(strstr(err.text, "f.json"));
	assert_non_null(strstr(err.text, why));
}

static void test_bad_profiles(void **state)
{
	(void)state;
	assert_refused("", "");
	assert_refused("[]", "\"profiles\"");
	assert_refused("{\"profiles\": 3}", "\"profiles\"");
	assert_refused("{\"profiles\": [{}, 3]}", "profile 2");
	assert_refused("{\"profiles\": [{\"peak_rss_mb\": \"x\"}]}", "a number");
	assert_refused("{\"profiles\": [{\"syscall_hotspots\": []}]}", "an object");
	assert_refused("{\"profiles\": [{\"syscall_hotspots\": {\"read\": []}}]}", "numbers only");
	assert_refused("{\"profiles\": [{\"anomalies\": [1]}]}", "types");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_too_few_jobs),
		cmocka_unit_test(test_bad_profiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
