#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

/* Every code point, written by the book. Returns its length. */
static size_t encode(uint32_t c, char s[4])
{
	if (c < 0x80) {
		s[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		s[0] = (char)(0xc0 | c >> 6);
		s[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		s[0] = (char)(0xe0 | c >> 12);
		s[1] = (char)(0x80 | (c >> 6 & 0x3f));
		s[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	s[0] = (char)(0xf0 | c >> 18);
	s[1] = (char)(0x80 | (c >> 12 & 0x3f));
	s[2] = (char)(0x80 | (c >> 6 & 0x3f));
	s[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static void test_every_code_point(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x120000; c++) {
		bool is_valid = (c < 0xd800 || c > 0xdfff) && c < 0x110000;
		char s[4];
		size_t n = encode(c, s);

		if (utf8_char_len(s, n) != (is_valid ? n : 0))
			fail_msg("U+%04X", c);
		if (n > 1 && utf8_char_len(s, n - 1) != 0)
			fail_msg("U+%04X cut off", c);
	}
}

static void test_invalid(void **state)
{
	static const char *const bad[] = { "\x80",
					   "\xbf",
					   "\xc0\x80",
					   "\xc1\xbf",
					   "\xe0\x80\x80",
					   "\xe0\x9f\xbf",
					   "\xf0\x80\x80\x80",
					   "\xf0\x8f\xbf\xbf",
					   "\xf5\x80\x80\x80",
					   "\xff",
					   "\xc3(",
					   "\xe2\x82(",
					   "\xf0\x9f\x98(" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(utf8_char_len(bad[i], strlen(bad[i])), 0);
	assert_int_equal(utf8_char_len("a", 0), 0);
}

static void test_cut(void **state)
{
	static const char s[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1 + 2 + 3 + 4 + 1 */
	static const size_t at[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };

	(void)state;
	for (size_t max = 0; max < ARRAY_SIZE(at); max++)
		assert_int_equal(utf8_cut(s, 11, max), at[max]);
}

/* Bytes that belong to no character can be cut anywhere; the cut never grows nor loses more than 3.
 */
static void test_cut_of_rubbish(void **state)
{
	uint32_t seed = 7;
	char s[32];

	(void)state;
	memset(s, '\x80', sizeof(s));
	assert_int_equal(utf8_cut(s, sizeof(s), 10), 10);
	for (int round = 0; round < 20000; round++) {
		size_t max = (size_t)round % 32, cut;

		for (size_t i = 0; i < sizeof(s); i++) {
			seed = seed * 1664525u + 1013904223u;
			s[i] = (char)(0x80 | seed >> 25);
		}
		cut = utf8_cut(s, sizeof(s), max);
		assert_true(cut <= max && max - cut <= 3);
		/* What begins before the cut ends before it. */
		for (size_t i = 0; i < cut; i++) {
			size_t n = utf8_char_len(s + i, sizeof(s) - i);

			assert_true(n == 0 || i + n <= cut);
			i += n ? n - 1 : 0;
		}
	}
}

static void test_count(void **state)
{
	(void)state;
	assert_int_equal(utf8_count("", 0), 0);
	assert_int_equal(utf8_count("a\xc3\xa9\xf0\x9f\x98\x80", 7), 3);
	assert_int_equal(utf8_count("\xff\xff"
				    "a",
				    3),
			 3);
}

static void test_shown(void **state)
{
	static const char s[] = "a\n\x1b\x7f\xc2\x9b\xc2\xa0\xff\xe2\x82\xac";
	struct buf b = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(s) - 1;)
		i += utf8_add_shown(&b, s + i, sizeof(s) - 1 - i);
	assert_string_equal(b.data, "a ???\xc2\xa0?\xe2\x82\xac");
	buf_release(&b);
}

/* "gpj.exe" with a turn before it reads as a picture. */
static void test_what_turns_text(void **state)
{
	static const char *const turning[] = { "\u061c", "\u200e", "\u200f", "\u2028", "\u2029",
					       "\u202a", "\u202e", "\u2066", "\u2069" };
	static const char *const harmless[] = { "\u061b", "\u2010", "\u202f", "\u2065", "\u206a" };
	struct buf b = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(turning); i++) {
		buf_reset(&b);
		assert_int_equal(utf8_add_shown(&b, turning[i], strlen(turning[i])),
				 strlen(turning[i]));
		assert_string_equal(b.data, "?");
	}
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++) {
		buf_reset(&b);
		utf8_add_shown(&b, harmless[i], strlen(harmless[i]));
		assert_string_equal(b.data, harmless[i]);
	}
	buf_release(&b);
}

static void test_quote(void **state)
{
	char quoted[UTF8_QUOTED_BYTES], s[100];

	(void)state;
	assert_string_equal(utf8_quote("", quoted), "''");
	assert_string_equal(utf8_quote("a\tb", quoted), "'a b'");
	memset(s, 'x', sizeof(s));
	s[64] = '\0';
	assert_int_equal(strlen(utf8_quote(s, quoted)), 66);
	memcpy(s + 63, "\xe2\x82\xac", 4);
	assert_int_equal(strlen(utf8_quote(s, quoted)), 63 + strlen("…") + 2);
	assert_string_equal(quoted + 60, "xxxx…'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_code_point),
		cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_cut_of_rubbish),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_what_turns_text),
		cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
