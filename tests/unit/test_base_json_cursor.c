/*
 * JSON read in passing: values of every type, what is passed over, numbers to the last bit,
 * escapes, and text that is no JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/json_cursor.h"
#include "base/macros.h"
#include "base/unknown.h"

static struct json_cursor over(const char *text)
{
	struct json_cursor c;

	json_cursor_init(&c, text, strlen(text));
	return c;
}

static void test_members(void **state)
{
	struct json_cursor c = over(" {\"a\": 1, \"b\":[true,{\"x\":\"]}\"}],\"c\" :\"z\"} ");
	const char *key, *text;
	size_t n;

	(void)state;
	assert_true(json_cursor_enter(&c, '{'));
	assert_true(json_cursor_next_key(&c, &key, &n));
	assert_true(json_cursor_is(key, n, "a"));
	assert_false(json_cursor_is(key, n, "ab"));
	assert_int_equal(json_cursor_u64(&c), 1);
	assert_true(json_cursor_next_key(&c, &key, &n));
	json_cursor_value(&c, &text, &n);
	assert_string_equal("[true,{\"x\":\"]}\"}]", strndupa(text, n));
	assert_true(json_cursor_next_key(&c, &key, &n));
	json_cursor_skip(&c);
	assert_false(json_cursor_next_key(&c, &key, &n));
	assert_false(c.is_bad);
}

static void test_lists(void **state)
{
	struct json_cursor c = over("[[],[1,2],{},3]");
	uint64_t sum = 0;

	(void)state;
	assert_true(json_cursor_enter(&c, '['));
	assert_true(json_cursor_next_element(&c));
	assert_true(json_cursor_enter(&c, '['));
	assert_false(json_cursor_next_element(&c));
	assert_true(json_cursor_next_element(&c));
	assert_true(json_cursor_enter(&c, '['));
	while (json_cursor_next_element(&c))
		sum += json_cursor_u64(&c);
	assert_int_equal(sum, 3);
	assert_true(json_cursor_next_element(&c));
	assert_false(json_cursor_enter(&c, '[')); /* passed over: it is an object */
	assert_true(json_cursor_next_element(&c));
	assert_int_equal(json_cursor_u64(&c), 3);
	assert_false(json_cursor_next_element(&c));
	assert_false(c.is_bad);
}

/* What is of another type is unknown, and what is behind it is still found. */
static void test_other_types(void **state)
{
	struct json_cursor c = over("[null,\"7\",-7,1.5,[9],{\"a\":9},8]");
	struct arena arena = ARENA_INIT;

	(void)state;
	assert_true(json_cursor_enter(&c, '['));
	for (int i = 0; i < 6; i++) {
		assert_true(json_cursor_next_element(&c));
		assert_int_equal(json_cursor_u64(&c), U64_UNKNOWN);
	}
	assert_true(json_cursor_next_element(&c));
	assert_null(json_cursor_string(&c, &arena));
	assert_false(json_cursor_next_element(&c));
	c = over("-7");
	assert_int_equal(json_cursor_i64(&c, 1), -7);
	c = over("9223372036854775808");
	assert_int_equal(json_cursor_i64(&c, 1), 1);
	c = over("null");
	assert_true(isnan(json_cursor_f64(&c)));
	arena_release(&arena);
}

/* As strtod() reads them, to the bit, whether they are short or long. */
static void test_numbers_are_exact(void **state)
{
	static const char *const texts[] = { "0",
					     "0.0",
					     "0.1",
					     "99.95",
					     "1e3",
					     "-2.5",
					     "1.7734375",
					     "9.691992131",
					     "1794747558.3013961",
					     "123456789012345",
					     "0.00000000000001",
					     "999999999999.99",
					     "1.7976931348623157e308",
					     "5e-324" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct json_cursor c = over(texts[i]);
		double v = json_cursor_f64(&c), wanted = strtod(texts[i], NULL);

		assert_memory_equal(&v, &wanted, sizeof(v));
	}
}

/* Whatever the writer writes comes back. */
static void test_doubles_come_back(void **state)
{
	uint64_t seed = 88172645463325252;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		struct json_cursor c;
		struct json j;
		double v, back;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		v = (double)(seed >> (i % 60)) / (double)(1 + seed % 1000);
		json_init(&j, &text);
		json_f64(&j, v);
		c = over(text.data);
		back = json_cursor_f64(&c);
		assert_memory_equal(&v, &back, sizeof(v));
	}
}

static void is_read_as(const char *json, const char *wanted)
{
	struct arena arena = ARENA_INIT;
	struct json_cursor c = over(json);
	char *text = json_cursor_string(&c, &arena);

	assert_non_null(text);
	assert_string_equal(text, wanted);
	assert_false(c.is_bad);
	arena_release(&arena);
}

static void test_strings(void **state)
{
	(void)state;
	is_read_as("\"\"", "");
	is_read_as("\"plain\"", "plain");
	is_read_as("\"a\\\"b\\\\c\\/d\"", "a\"b\\c/d");
	is_read_as("\"\\b\\f\\n\\r\\t\"", "\b\f\n\r\t");
	is_read_as("\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"",
		   "A\303\251\342\202\254\360\237\230\200");
	is_read_as("\"\\u0000\\ud83d\\udc\"", "\357\277\275\357\277\275?dc");
	is_read_as("\"\\u\"", "?");
	is_read_as("\"\\ude00x\"", "\357\277\275x");
}

static void test_rubbish_ends_it(void **state)
{
	static const char *const texts[] = {
		"",	    "{",	   "{\"a",	  "{\"a\"", "{\"a\":",
		"{\"a\":1", "{\"a\":1 2}", "{\"a\":1,",	  "{a:1}",  "{\"a\":\"",
		"{\"a\":}", "{\"a\":[1}",  "{\"a\":\"\\", "}",	    "{]"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct json_cursor c = over(texts[i]);
		const char *key;
		size_t n, rounds = 0;

		if (json_cursor_enter(&c, '{'))
			while (json_cursor_next_key(&c, &key, &n) && rounds++ < 10)
				json_cursor_skip(&c);
		assert_true(c.is_bad);
		assert_true(rounds < 10);
		assert_false(json_cursor_next_element(&c));
		assert_int_equal(json_cursor_u64(&c), U64_UNKNOWN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),		  cmocka_unit_test(test_lists),
		cmocka_unit_test(test_other_types),	  cmocka_unit_test(test_numbers_are_exact),
		cmocka_unit_test(test_doubles_come_back), cmocka_unit_test(test_strings),
		cmocka_unit_test(test_rubbish_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
