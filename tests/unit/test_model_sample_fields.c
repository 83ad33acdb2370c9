/*
 * The table of a sample's fields: its numbers, its members, and docs/fields.md, which lists it.
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

#include "base/buf.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/sample_fields.h"
#include "model/snapshot.h"

/* Each number from first on is there once. */
static void assert_dense(const unsigned *numbers, size_t n, unsigned first)
{
	for (unsigned want = first; want < first + n; want++) {
		size_t found = 0;

		for (size_t i = 0; i < n; i++)
			found += numbers[i] == want;
		assert_int_equal(found, 1);
	}
}

static void test_words_and_gauges_have_no_gap(void **state)
{
	static const unsigned words[] = {
#define SAMPLE_RECORDED(kind_, member_, key_, word_, help_) word_,
#include "model/sample_fields.def"
	};
	static const unsigned gauges[] = {
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, ...) gauge_,
#include "model/sample_fields.def"
	};

	(void)state;
	assert_int_equal(ARRAY_SIZE(words), SAMPLE_N_RECORDED);
	assert_int_equal(ARRAY_SIZE(gauges), SAMPLE_N_GAUGES);
	assert_dense(words, ARRAY_SIZE(words), 1); /* 0 is the start, which stands for the age */
	assert_dense(gauges, ARRAY_SIZE(gauges), 0);
}

static void test_keys_are_unique_and_short(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_sample_fields; i++) {
		const struct member *f = &sample_fields[i];

		assert_true(f->len < FIELD_KEY_BYTES);
		assert_int_equal(strlen(f->key), f->len);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(sample_fields[k].key, f->key);
	}
}

/* No value of a new one is 0 but the parent, which has no unknown. */
static void test_a_new_sample_knows_nothing(void **state)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct proc_sample p;
	struct json j;

	(void)state;
	proc_sample_init(&p);
	json_init(&j, &text);
	json_begin_object(&j);
	proc_sample_write_fields(&j, &p);
	json_end_object(&j);
	assert_null(strstr(text.data, "cpu_wait_seconds"));
#define IS_PID "0,"
#define IS_CHAR "\"?\""
#define IS_U64 "null"
#define IS_LIMIT "null"
#define IS_MB "null"
#define IS_SECONDS "null"
#define IS_F64 "null"
#define SAMPLE_RECORDED(kind_, member_, key_, ...) \
	assert_non_null(strstr(text.data, "\"" key_ "\":" IS_##kind_));
#include "model/sample_fields.def"
}

/* ---- docs/fields.md ---- */

#define TYPE_PID "integer"
#define TYPE_INT "integer"
#define TYPE_ID "integer"
#define TYPE_U64 "integer"
#define TYPE_LIMIT "integer or text"
#define TYPE_F64 "number"
#define TYPE_MB "MB"
#define TYPE_SECONDS "seconds"
#define TYPE_STRING "text"
#define TYPE_CHAR "text"
#define TYPE_COMM "text"
#define TYPE_COUNTS "object"
#define TYPE_TIMES "object"
#define TYPE_FLAG "true or false"

#define LINE(kind_, key_, minute_, help_) \
	"| `" key_ "` | " TYPE_##kind_ " | " minute_ " | " help_ " |\n"

static const char fields[] =
#define SAMPLE_FIELD(kind_, member_, key_, help_) LINE(kind_, key_, "", help_)
#define SAMPLE_RECORDED(kind_, member_, key_, word_, help_) LINE(kind_, key_, "last", help_)
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, brief_, help_) \
	LINE(kind_, key_, "average, least, largest, last", help_)
#define SAMPLE_RARE(kind_, member_, key_, help_) LINE(kind_, key_, "JSON only", help_)
#include "model/sample_fields.def"
	"";

static const char exact[] =
#define WHERE_CSV "CSV"
#define WHERE_SQL "CSV, SQL"
#define SAMPLE_EXACT(member_, key_, where_, help_) \
	"| `" key_ "` | " WHERE_##where_ " | " help_ " |\n"
#include "model/sample_fields.def"
	"";

static void test_docs_have_the_same_list(void **state)
{
	CLEANUP(buf_release) struct buf path = BUF_INIT, text = BUF_INIT;
	const char *tests = getenv("PROCTOR_TESTS");

	(void)state;
	assert_non_null(tests);
	buf_printf(&path, "%s/../docs/fields.md", tests);
	assert_int_equal(io_read_at(AT_FDCWD, path.data, 1 << 20, &text), 0);
	if (strstr(text.data, fields) && strstr(text.data, exact))
		return;
	fprintf(stderr, "%s\n%s", fields, exact); /* for who has to write the page */
	fail_msg("docs/fields.md differs from model/sample_fields.def, whose rows are above");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_and_gauges_have_no_gap),
		cmocka_unit_test(test_keys_are_unique_and_short),
		cmocka_unit_test(test_a_new_sample_knows_nothing),
		cmocka_unit_test(test_docs_have_the_same_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
