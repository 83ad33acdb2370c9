#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/csv.h"
#include "base/unknown.h"

static void check_text(const char *text, bool is_shown, bool guards, const char *expected)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct csv c;

	csv_init(&c, &out);
	c.is_shown = is_shown;
	c.guards_formulas = guards;
	csv_text(&c, text);
	assert_string_equal(out.data, expected);
}

static void test_row(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct csv c;

	(void)state;
	csv_init(&c, &out);
	csv_word(&c, "pid");
	csv_word(&c, "command");
	csv_end_row(&c);
	csv_i64(&c, -17);
	csv_text(&c, "a");
	csv_end_row(&c);
	assert_string_equal(out.data, "pid,command\n-17,\"a\"\n");
}

static void test_numbers(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct csv c;

	(void)state;
	csv_init(&c, &out);
	csv_u64(&c, 0);
	csv_u64(&c, UINT64_MAX - 1);
	csv_i64(&c, INT64_MIN);
	csv_end_row(&c);
	assert_string_equal(out.data, "0,18446744073709551614,-9223372036854775808\n");
}

static void test_unknown_is_empty(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct csv c;

	(void)state;
	csv_init(&c, &out);
	csv_u64(&c, U64_UNKNOWN);
	csv_text(&c, NULL);
	csv_unknown(&c);
	csv_text(&c, ""); /* known, and empty */
	csv_end_row(&c);
	assert_string_equal(out.data, ",,,\"\"\n");
}

static void test_text_is_exact(void **state)
{
	(void)state;
	check_text("a,b", false, false, "\"a,b\"");
	check_text("say \"hi\"", false, false, "\"say \"\"hi\"\"\"");
	check_text("\"", false, false, "\"\"\"\"");
	check_text("two\r\nlines\tx", false, false, "\"two\r\nlines\tx\"");
	check_text("\x1b[31mred", false, false, "\"\x1b[31mred\"");
	check_text("é→😀", false, false, "\"é→😀\"");
	check_text("-bash", false, false, "\"-bash\"");
	check_text("=1+1", false, false, "\"=1+1\"");
	check_text(" x ", false, false, "\" x \"");
}

/* Data frames and databases refuse a file with a byte that is not UTF-8, as a whole. */
static void test_text_is_utf8(void **state)
{
	(void)state;
	check_text("a\xff"
		   "b",
		   false, false,
		   "\"a\xef\xbf\xbd"
		   "b\"");
	check_text("cut \xe2\x82", false, false, "\"cut \xef\xbf\xbd\xef\xbf\xbd\"");
	check_text("\xc0\xaf", false, false, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	check_text("\xed\xa0\x80", false, false,
		   "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a surrogate */
}

static void test_terminal_is_not_commanded(void **state)
{
	(void)state;
	check_text("\x1b[31mred\a\x7f", true, false, "\"?[31mred??\"");
	check_text("\xc2\x9b"
		   "31m",
		   true, false, "\"?31m\"");
	check_text("é \"q\"\n", true, false, "\"é \"\"q\"\"\n\"");
	check_text("\xff", true, false, "\"?\"");
}

static void test_formulas_are_guarded(void **state)
{
	(void)state;
	check_text("=1+1", false, true, "\"'=1+1\"");
	check_text("-bash", false, true, "\"'-bash\"");
	check_text("+1", false, true, "\"'+1\"");
	check_text("@SUM(A1)", false, true, "\"'@SUM(A1)\"");
	check_text("\t=1", false, true, "\"\t'=1\"");
	check_text("\r=1", false, true, "\"\r'=1\"");
	check_text("＝1", false, true, "\"'＝1\"");
	check_text(" =1", false, true, "\" '=1\"");
	/* Where cells are parted at semicolons, quotes inside a line are none. */
	check_text("a;=1", false, true, "\"a;'=1\"");
	check_text("a;\"=1", false, true, "\"a;\"\"'=1\"");
	check_text("a,b=c --x=-1", false, true, "\"a,b=c --x=-1\"");
	check_text("", false, true, "\"\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_unknown_is_empty),
		cmocka_unit_test(test_text_is_exact),
		cmocka_unit_test(test_text_is_utf8),
		cmocka_unit_test(test_terminal_is_not_commanded),
		cmocka_unit_test(test_formulas_are_guarded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
