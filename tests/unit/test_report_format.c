#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <time.h>

#include "base/unknown.h"
#include "report/format.h"
#include "report/report.h"

#define KB UINT64_C(1024)
#define MB (1024 * KB)
#define GB (1024 * MB)
#define MS UINT64_C(1000000)
#define SEC (1000 * MS)

static void check_bytes(uint64_t bytes, const char *expected)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	report_add_bytes(&out, bytes);
	assert_string_equal(out.data, expected);
}

static void test_bytes(void **state)
{
	(void)state;
	check_bytes(0, "0 B");
	check_bytes(1023, "1023 B");
	check_bytes(1024, "1 KB");
	check_bytes(1536, "1.5 KB");
	check_bytes(3 * MB, "3 MB");
	check_bytes(312 * MB, "312 MB");
	check_bytes(10 * MB - 1, "10 MB");
	check_bytes(MB - 1, "1 MB");
	check_bytes(GB - 1, "1 GB");
	check_bytes(3 * GB / 2, "1.5 GB");
	check_bytes(127 * GB / 10, "12.7 GB");
	check_bytes(500 * GB, "500 GB");
	check_bytes(UINT64_MAX - 1, "16 EB");
	check_bytes(U64_UNKNOWN, "-");
}

static void check_duration(uint64_t ns, const char *expected)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	report_add_duration(&out, ns);
	assert_string_equal(out.data, expected);
}

static void test_duration(void **state)
{
	(void)state;
	check_duration(0, "0 s");
	check_duration(400000, "0.4 ms");
	check_duration(120 * MS, "120 ms");
	check_duration(SEC - 1, "1.00 s");
	check_duration(3210 * MS, "3.21 s");
	check_duration(9999 * MS, "10.0 s");
	check_duration(59949 * MS, "59.9 s");
	check_duration(59951 * MS, "1m00s");
	check_duration(125 * SEC, "2m05s");
	check_duration(3599600 * MS, "1h00m");
	check_duration(3725 * SEC, "1h02m");
	check_duration(26 * 3600 * SEC, "1d02h");
	check_duration(U64_UNKNOWN - 1, "213503d23h");
	check_duration(U64_UNKNOWN, "-");
}

static void check_status(int code, int sig, const char *expected, const char *expected_short)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct exit_status status = { code, sig };

	format_status(&out, status);
	assert_string_equal(out.data, expected);
	buf_reset(&out);
	report_add_status(&out, status);
	assert_string_equal(out.data, expected_short);
}

static void test_status(void **state)
{
	(void)state;
	check_status(0, -1, "exit code 0", "exit 0");
	check_status(126, -1, "exit code 126 (found, but cannot be executed)", "exit 126");
	check_status(127, -1, "exit code 127 (command not found)", "exit 127");
	check_status(137, -1, "exit code 137 (128 + SIGKILL)", "exit 137");
	check_status(255, -1, "exit code 255", "exit 255");
	check_status(-1, 11, "SIGSEGV (11)", "SIGSEGV");
	check_status(-1, 40, "signal 40", "signal 40");
	check_status(-1, -1, "-", "-");
}

static void check_percent(double percent, const char *expected)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	format_percent(&out, percent);
	assert_string_equal(out.data, expected);
}

static void test_percent(void **state)
{
	(void)state;
	check_percent(0, "0 %");
	check_percent(4.25, "4.2 %");
	check_percent(9.96, "10 %");
	check_percent(198.4, "198 %");
	check_percent(F64_UNKNOWN, "-");
}

static void test_ranges(void **state)
{
	static const int numbers[] = { 1, 2, 3, 4, 7, 9, 10 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct ranges r;

	(void)state;
	r = (struct ranges){ .out = &out };
	ranges_end(&r);
	assert_string_equal(out.data, "");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		ranges_add(&r, numbers[i]);
	ranges_end(&r);
	assert_string_equal(out.data, "1-4, 7, 9, 10");
	assert_int_equal(r.n, 7);
}

static void check_safe(const char *foreign, const char *expected)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	format_safe(&out, foreign);
	assert_string_equal(out.data, expected);
}

static void test_safe(void **state)
{
	(void)state;
	check_safe("", "");
	check_safe("plain ünïcödé ▁█", "plain ünïcödé ▁█");
	check_safe("a\033[31mb\r\n\t\x7f", "a\\x1b[31mb\\r\\n\\t\\x7f");
	check_safe("\xc2\x9b", "\\u009b");	       /* CSI in one character */
	check_safe("\xe2\x80\xae", "\\u202e");	       /* right-to-left override */
	check_safe("\xe2\x80\x8b", "\\u200b");	       /* zero width space */
	check_safe("\xf3\xa0\x81\x81", "\\ue0041");    /* tag character */
	check_safe("\xff\xc3", "\\xff\\xc3");	       /* not UTF-8, cut in the middle */
	check_safe("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
}

static void test_time(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	(void)state;
	format_time(&out, 1794714308 * SEC);
	assert_string_equal(out.data, "2026-11-15 03:45:08");
	buf_reset(&out);
	format_time(&out, U64_UNKNOWN);
	assert_string_equal(out.data, "-");
	buf_reset(&out);
	format_offset(&out, 1794714320 * SEC, 1794714308 * SEC);
	assert_string_equal(out.data, "+12.0 s");
	buf_reset(&out);
	format_offset(&out, 5, 6);
	assert_string_equal(out.data, "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),  cmocka_unit_test(test_duration),
		cmocka_unit_test(test_status), cmocka_unit_test(test_percent),
		cmocka_unit_test(test_ranges), cmocka_unit_test(test_safe),
		cmocka_unit_test(test_time),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
