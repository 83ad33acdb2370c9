#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"

static void test_commas_and_nesting(void **state)
{
	struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_begin_object(&j);
	json_key_u64(&j, "a", 1);
	json_key(&j, "b");
	json_begin_array(&j);
	json_begin_object(&j);
	json_end_object(&j);
	json_begin_array(&j);
	json_end_array(&j);
	json_i64(&j, INT64_MIN);
	json_bool(&j, true);
	json_none(&j);
	json_raw(&j, "{\"z\":0}", 7);
	json_raw(&j, "1", 1);
	json_end_array(&j);
	json_key_string(&j, "c", "x");
	json_key_bool(&j, "d", false);
	json_key_i64(&j, "e", -1);
	json_key_f64(&j, "f", 2);
	json_key_null(&j, "g");
	json_end_object(&j);
	assert_string_equal(b.data,
			    "{\"a\":1,\"b\":[{},[],-9223372036854775808,true,null,{\"z\":0},1],"
			    "\"c\":\"x\",\"d\":false,\"e\":-1,\"f\":2.0,\"g\":null}");
	buf_release(&b);
}

/* The shortest of 15 to 17 digits that is the same number again. */
static void write_by_printf(double v, char *text, size_t size)
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, size, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	if (!strpbrk(text, ".e"))
		strcat(text, ".0");
}

static void assert_same_digits(double v)
{
	struct buf b = BUF_INIT;
	struct json j;
	char expected[64];

	write_by_printf(v, expected, sizeof(expected) - 2);
	json_init(&j, &b);
	json_f64(&j, v);
	assert_string_equal(b.data, expected);
	buf_release(&b);
}

/* What is written without printf() has the same digits. */
static void test_digits(void **state)
{
	static const double some[] = {
		0,
		-0.0,
		1,
		0.1,
		1e-4,
		9.99999999e-5,
		0.5,
		1e-9,
		8.4e-5,
		1.2345e-5,
		9.9999e-5,
		123456.5,
		999999.999999999,
		1e6,
		1e6 - 1e-9,
		1e9,
		1e9 - 1e-6,
		1e12,
		1e12 - 0.001,
		1e15,
		1e16,
		1e22,
		1.0 / 3,
		2.0 / 3,
		0.1 + 0.2,
		4.98046875,
		1048576.25,
		1700000000.123456,
		-1.5,
		DBL_MAX,
		DBL_MIN,
		DBL_TRUE_MIN,
		0.30000000000000004,
		9007199254740993.0,
		99999.9999999995,
	};
	uint64_t seed = 88172645463325252u;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(some); i++)
		assert_same_digits(some[i]);
	for (int i = 0; i < 200000; i++) {
		uint64_t n;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		n = seed >> (seed % 64);
		assert_same_digits((double)(n >> 20) / 256);
		assert_same_digits((double)(n >> 10) / 1e9);
		assert_same_digits((double)(n >> 30) / 100);
		assert_same_digits((double)n * 1e-12);
	}
}

static void test_unknown_is_null(void **state)
{
	struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_begin_array(&j);
	json_u64(&j, U64_UNKNOWN);
	json_f64(&j, F64_UNKNOWN);
	json_f64(&j, INFINITY);
	json_f64(&j, -INFINITY);
	json_str(&j, NULL);
	json_u64(&j, U64_UNKNOWN - 1);
	json_u64(&j, 0);
	json_end_array(&j);
	assert_string_equal(b.data, "[null,null,null,null,null,18446744073709551614,0]");
	buf_release(&b);
}

static void assert_written(const char *s, size_t n, const char *expected)
{
	struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &b);
	json_str_n(&j, s, n);
	assert_string_equal(b.data, expected);
	buf_release(&b);
}

static void test_strings(void **state)
{
	(void)state;
	assert_written("", 0, "\"\"");
	assert_written("a\"\\/b\n\t\r\b\x01\x1f\x7f", 12,
		       "\"a\\\"\\\\/b\\n\\t\\u000d\\u0008\\u0001\\u001f\\u007f\"");
	assert_written("a\0b", 3, "\"a\\u0000b\"");
	assert_written("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		       "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

/* Long strings are looked at in pieces: what a byte becomes does not depend on where it stands. */
static void test_any_byte_at_any_place(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++)
		for (size_t at = 0; at < 20; at++) {
			char text[20], expected[64] = "\"";
			struct buf alone = BUF_INIT;
			struct json j;

			memset(text, 'x', sizeof(text));
			text[at] = (char)c;
			json_init(&j, &alone);
			json_str_n(&j, &text[at], 1);
			snprintf(expected + 1, sizeof(expected) - 1, "%.*s%.*s%.*s\"", (int)at,
				 "xxxxxxxxxxxxxxxxxxxx", (int)alone.len - 2, alone.data + 1,
				 (int)(sizeof(text) - 1 - at), "xxxxxxxxxxxxxxxxxxxx");
			assert_written(text, sizeof(text), expected);
			buf_release(&alone);
		}
}

static void test_invalid_utf8_is_replaced(void **state)
{
	(void)state;
	assert_written("a\xff"
		       "b",
		       3, "\"a\\ufffdb\"");
	assert_written("\xc0\x80", 2, "\"\\ufffd\\ufffd\"");		/* overlong NUL */
	assert_written("\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""); /* surrogate */
	assert_written("\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
	assert_written("\xe2\x82", 2, "\"\\ufffd\\ufffd\""); /* cut off */
	assert_written("\xe2\x82\xac", 2, "\"\\ufffd\\ufffd\"");
}

/* Every byte string comes out as what another reader takes for JSON. */
static void test_any_bytes_are_valid_json(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct buf b = BUF_INIT;
		struct json j;
		char bytes[64];
		json_t *read;

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 1664525u + 1013904223u;
			bytes[i] = (char)(seed >> 24);
		}
		json_init(&j, &b);
		json_begin_array(&j);
		json_str_n(&j, bytes, sizeof(bytes));
		json_end_array(&j);
		read = json_loadb(b.data, b.len, JSON_ALLOW_NUL, NULL);
		assert_non_null(read);
		json_decref(read);
		buf_release(&b);
	}
}

static void assert_round_trip(double v)
{
	struct buf b = BUF_INIT;
	struct json j;
	double back;

	json_init(&j, &b);
	json_f64(&j, v);
	back = strtod(b.data, NULL);
	assert_memory_equal(&back, &v, sizeof(v));
	assert_non_null(strpbrk(b.data, ".e"));
	buf_release(&b);
}

static void test_doubles_read_back_to_the_same_bits(void **state)
{
	static const double values[] = { 0.0,	     -0.0,    1.0,    0.1,     1.0 / 3,
					 1e15,	     1e16,    1e17,   1e22,    123456789.123,
					 DBL_MAX,    DBL_MIN, 5e-324, -1e-300, 9007199254740993.0,
					 DBL_EPSILON };
	uint64_t bits = 88172645463325252u;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_round_trip(values[i]);
	for (int i = 0; i < 20000; i++) {
		double v;

		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		memcpy(&v, &bits, sizeof(v));
		if (isfinite(v))
			assert_round_trip(v);
	}
}

static void test_doubles_are_short(void **state)
{
	struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	json_init(&j, &b);
	json_begin_array(&j);
	json_f64(&j, 0.1);
	json_f64(&j, 40.12);
	json_f64(&j, 100);
	json_f64(&j, -0.0);
	json_f64(&j, 1e300);
	json_end_array(&j);
	assert_string_equal(b.data, "[0.1,40.12,100.0,-0.0,1e+300]");
	buf_release(&b);
}

/* As printf() with the fewest digits that read back. */
static void assert_shortest(double v)
{
	struct buf b = BUF_INIT;
	struct json j;
	char text[40];

	for (int digits = 10; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	if (!strchr(text, '.'))
		strcat(text, ".0");
	json_init(&j, &b);
	json_f64(&j, v);
	assert_string_equal(b.data, text);
	buf_release(&b);
}

/* Times of the present have a way of their own. */
static void test_times(void **state)
{
	uint64_t bits = 88172645463325252u;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		assert_shortest(0x1p30 + (double)(bits % 3221225472000000000u) / 1e9);
		assert_shortest((double)(1700000000000 + bits % 100000000000) / 1000);
	}
	assert_shortest(nextafter(0x1p30, 0));
	assert_shortest(0x1p30);
	assert_shortest(nextafter(0x1p31, 0));
	assert_shortest(0x1p31);
	assert_shortest(nextafter(0x1p32, 0));
	assert_shortest(0x1p32);
	assert_shortest(1700000000 + 0x1p-22);
	assert_shortest(1700000000 + 0.99999976158142089844);
}

/* A comma for a decimal point would be no JSON. */
static void test_doubles_whatever_the_locale(void **state)
{
	static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE",
					     "nl_NL.UTF-8" };
	const char *found = NULL;
	struct buf b = BUF_INIT;
	struct json j;

	(void)state;
	for (size_t i = 0; !found && i < ARRAY_SIZE(names); i++)
		found = setlocale(LC_ALL, names[i]);
	if (!found) {
		print_message("# no locale with a decimal comma is installed\n");
		skip();
	}
	json_init(&j, &b);
	json_f64(&j, 0.5);
	setlocale(LC_ALL, "C");
	assert_string_equal(b.data, "0.5");
	buf_release(&b);
}

/* Written to a place with no more room than promised: a sanitizer sees what is beyond it. */
static void test_numbers_fit_their_room(void **state)
{
	static const double doubles[] = { -DBL_MAX, -DBL_MIN,	   -DBL_TRUE_MIN, -1.0 / 3,
					  1e15 / 7, 1e9 + 1.0 / 7, 9.9999e-05,	  0x1p53 };
	char *room = malloc(JSON_NUMBER_BYTES);

	(void)state;
	assert_non_null(room);
	for (size_t i = 0; i < ARRAY_SIZE(doubles); i++) {
		char text[JSON_NUMBER_BYTES + 1] = "";
		ptrdiff_t n = json_put_f64(room, doubles[i]) - room;

		assert_in_range(n, 1, JSON_NUMBER_BYTES - 1);
		memcpy(text, room, (size_t)n);
		assert_true(strtod(text, NULL) == doubles[i]);
	}
	assert_int_equal(json_put_u64(room, UINT64_MAX - 1) - room, 20);
	assert_memory_equal(room, "18446744073709551614", 20);
	assert_int_equal(json_put_i64(room, INT64_MIN) - room, 20);
	assert_memory_equal(room, "-9223372036854775808", 20);
	free(room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commas_and_nesting),
		cmocka_unit_test(test_digits),
		cmocka_unit_test(test_unknown_is_null),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_any_byte_at_any_place),
		cmocka_unit_test(test_invalid_utf8_is_replaced),
		cmocka_unit_test(test_any_bytes_are_valid_json),
		cmocka_unit_test(test_doubles_read_back_to_the_same_bits),
		cmocka_unit_test(test_doubles_are_short),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_numbers_fit_their_room),
		cmocka_unit_test(test_doubles_whatever_the_locale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
