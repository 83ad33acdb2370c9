#include "jsonl_fixture.h"

/* Appends lines {"n":first} to {"n":last}; with 16 bytes two make a file. */
static void append_numbers(struct jsonl *log, int first, int last)
{
	for (int i = first; i <= last; i++) {
		char line[32];

		snprintf(line, sizeof(line), "{\"n\":%d}", i);
		must_append(log, line);
	}
}

#define N(i) "{\"n\":" #i "}\n"

static void remove_log(const struct fixture *f)
{
	unlink(log_path(f, ""));
	unlink(log_path(f, ".1"));
	unlink(log_path(f, ".2"));
}

static void test_oldest_first(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = NULL;
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	append_numbers(log, 0, 6);
	tail = must_tail(f, JSONL_OLDEST);
	assert_string_equal(read_all(tail, &b), N(2) N(3) N(4) N(5) N(6));
	assert_string_equal(read_all(tail, &b), "");
	append_numbers(log, 7, 8);
	assert_string_equal(read_all(tail, &b), N(7) N(8));
}

static void test_from_the_end(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = NULL;
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	append_numbers(log, 0, 2);
	tail = must_tail(f, JSONL_END);
	assert_string_equal(read_all(tail, &b), "");
	append_numbers(log, 3, 6);
	assert_string_equal(read_all(tail, &b), N(3) N(4) N(5) N(6));
}

/* Rotated, and nothing written since: the end is that of .1. */
static void test_from_the_end_where_there_is_no_log(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = NULL;
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	append_numbers(log, 0, 2);
	assert_int_equal(rename(log_path(f, ".1"), log_path(f, ".2")), 0);
	assert_int_equal(rename(log_path(f, ""), log_path(f, ".1")), 0);
	tail = must_tail(f, JSONL_END);
	assert_string_equal(read_all(tail, &b), "");
	append_numbers(log, 3, 3);
	assert_string_equal(read_all(tail, &b), N(3));
}

static void test_a_log_that_is_not_there_yet(void **state)
{
	static const enum jsonl_start starts[] = { JSONL_OLDEST, JSONL_END };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
		CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, starts[i]);
		CLEANUP(buf_release) struct buf b = BUF_INIT;

		assert_string_equal(read_all(tail, &b), "");
		append_numbers(log, 1, 2);
		assert_string_equal(read_all(tail, &b), N(1) N(2));
		assert_int_equal(unlink(log_path(f, "")), 0);
	}
}

/* Who waited for a log and finds three files cannot know whether there were more. */
static void test_a_log_that_came_and_was_rotated(void **state)
{
	static const struct {
		int last;
		const char *lines;
	} rows[] = {
		{ 3, N(0) N(1) N(2) N(3) },
		{ 4, "!" N(0) N(1) N(2) N(3) N(4) },
		{ 6, "!" N(2) N(3) N(4) N(5) N(6) },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
		CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
		CLEANUP(buf_release) struct buf b = BUF_INIT;

		append_numbers(log, 0, rows[i].last);
		assert_string_equal(read_all(tail, &b), rows[i].lines);
		remove_log(f);
	}
}

/* ---- what is not whole ---- */

static void add_bytes(const struct fixture *f, const char *bytes, size_t n)
{
	int fd = open(log_path(f, ""), O_WRONLY | O_APPEND | O_CREAT, 0600);

	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void add_text(const struct fixture *f, const char *text)
{
	add_bytes(f, text, strlen(text));
}

static void test_half_a_line_waits(void **state)
{
	struct fixture *f = *state;
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(tail_cleanup) struct jsonl_tail *late = NULL;
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	add_text(f, N(1) "{\"n\"");
	assert_string_equal(read_all(tail, &b), N(1));
	late = must_tail(f, JSONL_END);
	assert_string_equal(read_all(late, &b), "");
	add_text(f, ":2");
	assert_string_equal(read_all(tail, &b), "");
	add_text(f, "}\n");
	assert_string_equal(read_all(tail, &b), N(2));
	assert_string_equal(read_all(late, &b), N(2));
}

static void test_half_a_line_is_replaced(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	add_text(f, N(1) "{\"half of something long");
	assert_string_equal(read_all(tail, &b), N(1));
	append_numbers(log, 2, 3);
	assert_string_equal(read_all(tail, &b), N(2) N(3));
}

/* A half line at the end of a file that is rotated was never written. */
static void test_half_a_line_in_a_rotated_file(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	add_text(f, N(1) "{\"half");
	assert_string_equal(read_all(tail, &b), N(1));
	assert_int_equal(rename(log_path(f, ""), log_path(f, ".1")), 0);
	append_numbers(log, 2, 2);
	assert_string_equal(read_all(tail, &b), N(2));
}

static void test_any_bytes_between_newlines(void **state)
{
	static const char bytes[] = "a\0b\n\n\r\n\xff\n";
	struct fixture *f = *state;
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	static const struct {
		const char *text;
		size_t len;
	} lines[] = { { "a\0b", 3 }, { "", 0 }, { "\r", 1 }, { "\xff", 1 } };
	struct jsonl_line line;

	add_bytes(f, bytes, sizeof(bytes) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(jsonl_tail_next(tail, &line, NULL), 1);
		assert_int_equal(line.len, lines[i].len);
		assert_memory_equal(line.text, lines[i].text, line.len + 1);
	}
	assert_int_equal(jsonl_tail_next(tail, &line, NULL), 0);
}

static void test_long_lines(void **state)
{
	static const size_t lengths[] = { 65534, 65535, 65536, 65537, 1000000, 5, 131072 };
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	struct jsonl_line line;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		CLEANUP(buf_release) struct buf b = BUF_INIT;

		buf_add_char(&b, '{');
		while (b.len < lengths[i])
			buf_add_char(&b, (char)('a' + b.len % 26));
		must_append(log, b.data);
		assert_int_equal(jsonl_tail_next(tail, &line, NULL), 1);
		assert_int_equal(line.len, lengths[i]);
		assert_string_equal(line.text, b.data);
		assert_false(line.is_after_loss);
	}
}

static void test_a_line_without_end_is_refused(void **state)
{
	struct fixture *f = *state;
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	struct jsonl_line line;
	struct err err = ERR_INIT;

	add_text(f, "{");
	assert_int_equal(truncate(log_path(f, ""), (off_t)JSONL_LINE_MAX_BYTES + 1), 0);
	assert_int_equal(jsonl_tail_next(tail, &line, &err), -EBADMSG);
	assert_non_null(strstr(err.text, log_path(f, "")));
}

/* ---- rotations ---- */

/* Two lines make a file; the reader has seen 0 when the rest comes. */
static void test_rotated_between_two_looks(void **state)
{
	static const struct {
		int last;
		const char *lines;
	} rows[] = {
		{ 1, N(1) },
		{ 2, N(1) N(2) }, /* what it reads is .1 */
		{ 3, N(1) N(2) N(3) },
		{ 4, N(1) N(2) N(3) N(4) }, /* .2 */
		{ 5, N(1) N(2) N(3) N(4) N(5) },
		{ 6, N(1) "!" N(2) N(3) N(4) N(5) N(6) }, /* gone; whether a file was between? */
		{ 7, N(1) "!" N(2) N(3) N(4) N(5) N(6) N(7) },
		{ 8, N(1) "!" N(4) N(5) N(6) N(7) N(8) },
		{ 9, N(1) "!" N(4) N(5) N(6) N(7) N(8) N(9) },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
		CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_END);
		CLEANUP(buf_release) struct buf b = BUF_INIT;

		append_numbers(log, 0, 0);
		assert_string_equal(read_all(tail, &b), N(0));
		append_numbers(log, 1, rows[i].last);
		assert_string_equal(read_all(tail, &b), rows[i].lines);
		assert_string_equal(read_all(tail, &b), "");
		remove_log(f);
	}
}

/* What it found it keeps, so it can be two more files behind. */
static void test_rotated_in_the_middle_of_reading(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = NULL;
	CLEANUP(buf_release) struct buf b = BUF_INIT;
	struct jsonl_line line;

	append_numbers(log, 0, 4);
	tail = must_tail(f, JSONL_OLDEST);
	assert_int_equal(jsonl_tail_next(tail, &line, NULL), 1);
	assert_string_equal(line.text, "{\"n\":0}");
	append_numbers(log, 5, 9);
	assert_string_equal(read_all(tail, &b), N(1) N(2) N(3) N(4) N(5) N(6) N(7) N(8) N(9));
}

static void test_many_rotations_one_by_one(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 40);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(buf_release) struct buf b = BUF_INIT, expected = BUF_INIT;

	for (int i = 0; i < 1000; i += 1 + i % 5) {
		append_numbers(log, i, i + i % 5);
		buf_reset(&expected);
		for (int k = i; k <= i + i % 5; k++)
			buf_printf(&expected, "{\"n\":%d}\n", k);
		assert_string_equal(read_all(tail, &b), expected.data);
	}
}

/* The other writer was killed between the two renames. */
static void test_half_a_rotation(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	append_numbers(log, 0, 0);
	assert_string_equal(read_all(tail, &b), N(0));
	append_numbers(log, 1, 3);
	assert_int_equal(rename(log_path(f, ".1"), log_path(f, ".2")), 0);
	assert_string_equal(read_all(tail, &b), N(1) N(2) N(3));
	append_numbers(log, 4, 4);
	assert_string_equal(read_all(tail, &b), N(4));
}

/* ---- what people do ---- */

/* What is older than what was removed is not read again. */
static void test_removed_by_hand(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = NULL;
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	append_numbers(log, 0, 4);
	tail = must_tail(f, JSONL_OLDEST);
	assert_string_equal(read_all(tail, &b), N(0) N(1) N(2) N(3) N(4));
	append_numbers(log, 5, 5);
	assert_int_equal(unlink(log_path(f, "")), 0);
	assert_string_equal(read_all(tail, &b), N(5)); /* it is still open */
	assert_string_equal(read_all(tail, &b), "");
	append_numbers(log, 6, 7);
	assert_string_equal(read_all(tail, &b), "!" N(6) N(7));
	append_numbers(log, 8, 8);
	assert_string_equal(read_all(tail, &b), N(8));
}

static void test_emptied_by_hand(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	CLEANUP(tail_cleanup) struct jsonl_tail *tail = must_tail(f, JSONL_OLDEST);
	CLEANUP(buf_release) struct buf b = BUF_INIT;

	append_numbers(log, 0, 2);
	assert_string_equal(read_all(tail, &b), N(0) N(1) N(2));
	assert_int_equal(truncate(log_path(f, ""), 0), 0);
	append_numbers(log, 3, 3);
	assert_string_equal(read_all(tail, &b), "!" N(3));
	append_numbers(log, 4, 4);
	assert_string_equal(read_all(tail, &b), N(4));

	/* And longer than it was before the reader looks again. */
	assert_int_equal(truncate(log_path(f, ""), 0), 0);
	must_append(log, "{\"longer than all before\":1}");
	assert_string_equal(read_all(tail, &b), "!{\"longer than all before\":1}\n");
}

static void assert_cannot_be_read(const struct fixture *f, int error, const char *word)
{
	struct jsonl_tail *tail = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(jsonl_tail_open(log_path(f, ""), JSONL_OLDEST, &tail, &err), error);
	assert_null(tail);
	assert_int_equal(err.code, error);
	assert_non_null(strstr(err.text, log_path(f, "")));
	assert_non_null(strstr(err.text, word));
}

static void test_other_things(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkdir(log_path(f, ""), 0700), 0);
	assert_cannot_be_read(f, -EBADMSG, "not a log");
	assert_int_equal(rmdir(log_path(f, "")), 0);
	assert_int_equal(mkfifo(log_path(f, ""), 0600), 0);
	assert_cannot_be_read(f, -EBADMSG, "not a log");
	assert_int_equal(unlink(log_path(f, "")), 0);
	must_write(log_path(f, "-other"), N(1));
	assert_int_equal(symlink(log_path(f, "-other"), log_path(f, "")), 0);
	assert_cannot_be_read(f, -ELOOP, "link");
}

static void child_cannot_read(struct fixture *f)
{
	struct jsonl_tail *tail = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(jsonl_tail_open(log_path(f, ""), JSONL_END, &tail, &err) == -EACCES);
	CHILD_CHECK(!tail && strstr(err.text, "read"));
}

static void test_a_log_that_may_not_be_read(void **state)
{
	struct fixture *f = *state;

	must_write(log_path(f, ""), N(1));
	assert_int_equal(chmod(log_path(f, ""), 0), 0);
	assert_int_equal(chmod(f->dir, 0755), 0);
	assert_int_equal(run_as_user(child_cannot_read, f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		JSONL_TEST(test_oldest_first),
		JSONL_TEST(test_from_the_end),
		JSONL_TEST(test_from_the_end_where_there_is_no_log),
		JSONL_TEST(test_a_log_that_is_not_there_yet),
		JSONL_TEST(test_a_log_that_came_and_was_rotated),
		JSONL_TEST(test_half_a_line_waits),
		JSONL_TEST(test_half_a_line_is_replaced),
		JSONL_TEST(test_half_a_line_in_a_rotated_file),
		JSONL_TEST(test_any_bytes_between_newlines),
		JSONL_TEST(test_long_lines),
		JSONL_TEST(test_a_line_without_end_is_refused),
		JSONL_TEST(test_rotated_between_two_looks),
		JSONL_TEST(test_rotated_in_the_middle_of_reading),
		JSONL_TEST(test_many_rotations_one_by_one),
		JSONL_TEST(test_half_a_rotation),
		JSONL_TEST(test_removed_by_hand),
		JSONL_TEST(test_emptied_by_hand),
		JSONL_TEST(test_other_things),
		JSONL_TEST(test_a_log_that_may_not_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
