#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "rpc/lines.h"

/* Feeds the text in pieces of so many bytes and writes down what comes: "line|", "!" for too long.
 */
static void feed(struct lines *l, const char *text, size_t len, size_t piece, struct buf *out)
{
	for (size_t i = 0; i < len; i += piece) {
		size_t n = len - i < piece ? len - i : piece, line_len;
		const char *line;
		int r;

		assert_int_equal(lines_add(l, text + i, n), 0);
		while ((r = lines_next(l, &line, &line_len)) != 0) {
			if (r > 0)
				buf_add(out, line, line_len);
			buf_add_char(out, r > 0 ? '|' : '!');
		}
		assert_false(lines_has_line(l));
	}
}

static void test_lines(void **state)
{
	static const struct {
		const char *text, *lines;
		bool has_half;
	} rows[] = {
		{ "", "", false },
		{ "a", "", true },
		{ "a\n", "a|", false },
		{ "\n\n", "||", false },
		{ "abc\ndef\ngh", "abc|def|", true },
		{ "12345678\n", "12345678|", false },
		{ "123456789\nab\n", "!ab|", false },
		{ "123456789", "!", true },
		{ "1234567890123456789012345678901234567890\nab\n1234567890\n\ncd\n", "!ab|!|cd|",
		  false },
		{ "ab\n123456789012345678901234567890", "ab|!", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t piece = 1; piece <= 64; piece++) {
			struct lines l = LINES_INIT(8);
			CLEANUP(buf_release) struct buf out = BUF_INIT;

			feed(&l, rows[i].text, strlen(rows[i].text), piece, &out);
			assert_string_equal(out.data, rows[i].lines);
			assert_int_equal(lines_has_half(&l), rows[i].has_half);
			assert_true(lines_kept_bytes(&l) <= 8);
			lines_release(&l);
		}
}

static void test_lines_with_nul(void **state)
{
	struct lines l = LINES_INIT(100);
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	(void)state;
	feed(&l, "a\0b\nc", 5, 2, &out);
	assert_int_equal(out.len, 4);
	assert_memory_equal(out.data, "a\0b|", 4);
	lines_release(&l);
}

/* All that is there is handed over, and of more a copy. */
static void test_lines_that_are_taken(void **state)
{
	struct lines l = LINES_INIT(100);
	struct buf taken = BUF_INIT, copied = BUF_INIT;
	const char *line = NULL;
	size_t len = 0;

	(void)state;
	assert_int_equal(lines_add(&l, "abc", 3), 0);
	assert_int_equal(lines_next(&l, &line, &len), 0);
	assert_int_equal(lines_kept_bytes(&l), 3);
	assert_int_equal(lines_add(&l, "def\n", 4), 0);
	assert_true(lines_has_line(&l));
	assert_false(lines_has_half(&l));
	assert_int_equal(lines_next(&l, &line, &len), 1);
	assert_int_equal(lines_kept_bytes(&l), 0);
	assert_int_equal(lines_take(&l, line, len, &taken), 0);
	assert_string_equal(taken.data, "abcdef");
	assert_int_equal(lines_next(&l, &line, &len), 0);

	assert_int_equal(lines_add(&l, "x\nyz", 4), 0);
	assert_int_equal(lines_next(&l, &line, &len), 1);
	assert_int_equal(lines_take(&l, line, len, &copied), 0);
	assert_string_equal(copied.data, "x");
	assert_int_equal(lines_next(&l, &line, &len), 0);
	assert_true(lines_has_half(&l));
	assert_int_equal(lines_kept_bytes(&l), 2);
	buf_release(&taken);
	buf_release(&copied);
	lines_release(&l);
}

/* Hundreds of clients that were busy once hold no memory. */
static void test_who_is_idle_holds_nothing(void **state)
{
	struct lines l = LINES_INIT(100000);
	char text[8192];
	const char *line;
	size_t len;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\n';
	assert_int_equal(lines_add(&l, text, sizeof(text)), 0);
	assert_int_equal(lines_next(&l, &line, &len), 1);
	assert_int_equal(len, sizeof(text) - 1);
	assert_false(lines_has_line(&l));
	assert_int_equal(l.bytes.cap, 0);
	lines_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lines_with_nul),
		cmocka_unit_test(test_lines_that_are_taken),
		cmocka_unit_test(test_who_is_idle_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
