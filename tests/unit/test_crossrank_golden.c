/*
 * Every case of tests/golden/crossrank: the summary field by field, the median
 * interval, and the merged timeline.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* base/json.h has functions of these names too. */
#define json_string jansson_string
#define json_null jansson_null
#include <jansson.h>
#undef json_string
#undef json_null
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/merging/merging.h"
#include "crossrank/reading/reading.h"
#include "crossrank/reference/reference.h"

#define CASES 60

static int refuse(void *ctx, const struct fault *fault)
{
	(void)ctx;
	fail_msg("%s:%llu: %s", fault->file, (unsigned long long)fault->line,
		 reason_name(fault->reason));
	return 0;
}

static struct telemetry *read_case(int number)
{
	struct telemetry *t = telemetry_new();
	struct err err = ERR_INIT;
	struct intake intake;
	char path[512];

	snprintf(path, sizeof(path), "%s/golden/crossrank/%03d.in.jsonl", getenv("PROCTOR_TESTS"),
		 number);
	assert_non_null(t);
	intake_init(&intake, t, refuse, NULL);
	assert_int_equal(intake_read(&intake, path, &err), 0);
	intake_release(&intake);
	return t;
}

/* ---- the summary ---- */

static json_t *summary_of(const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	json_error_t error;
	struct json j;
	json_t *doc;

	json_init(&j, &text);
	json_begin_object(&j);
	summary_write_compat(&j, a);
	json_end_object(&j);
	doc = json_loads(text.data, 0, &error);
	if (!doc)
		fail_msg("%s in %s", error.text, text.data);
	return doc;
}

/* Objects with equal members in equal order. */
static bool is_same_order(json_t *a, json_t *b)
{
	void *x = json_object_iter(a), *y = json_object_iter(b);

	for (; x && y; x = json_object_iter_next(a, x), y = json_object_iter_next(b, y))
		if (strcmp(json_object_iter_key(x), json_object_iter_key(y)) != 0)
			return false;
	return !x && !y;
}

static void compare_field(int number, const char *key, json_t *want, json_t *got)
{
	CLEANUP(free_ptr) char *text = NULL;

	if (got && json_equal(want, got) && is_same_order(want, got))
		return;
	text = got ? json_dumps(got, JSON_ENCODE_ANY) : NULL;
	fail_msg("%03d: %s is %s", number, key, text ? text : "missing");
}

static void compare_summaries(int number, json_t *want, json_t *got)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(want, key, value)
	{
		if (strcmp(key, "notes") != 0)
			compare_field(number, key, value, json_object_get(got, key));
	}
	value = json_object_get(want, "notes");
	compare_field(number, "note_details", value, json_object_get(got, "note_details"));
	assert_int_equal(json_array_size(value), json_array_size(json_object_get(got, "notes")));
	for (i = 0; i < json_array_size(value); i++)
		compare_field(number, "note_codes",
			      json_object_get(json_array_get(value, i), "code"),
			      json_array_get(json_object_get(got, "note_codes"), i));
}

/* ---- the timeline ---- */

struct rows {
	json_t *rows;
	size_t at;
	int number;
};

static int compare_point(void *ctx, const struct timeline_point *p)
{
	struct rows *want = ctx;
	const int64_t got[] = { p->rank,
				p->sample->timestamp_ns,
				(int64_t)p->aligned_ns,
				p->sample->used_bytes,
				p->sample->reserved_bytes,
				p->sample->allocated_bytes,
				p->sample->change_bytes };
	json_t *row = json_array_get(want->rows, want->at++);

	for (size_t i = 0; i < ARRAY_SIZE(got); i++)
		if (json_integer_value(json_array_get(row, i)) != got[i])
			fail_msg("%03d: point %zu, column %zu: %lld", want->number, want->at - 1, i,
				 (long long)got[i]);
	return 0;
}

static void check_case(int number)
{
	struct telemetry *t = read_case(number);
	struct rows rows = { .number = number };
	struct rank_analysis a;
	json_t *want, *got;
	char path[512];

	snprintf(path, sizeof(path), "%s/golden/crossrank/%03d.expected.json",
		 getenv("PROCTOR_TESTS"), number);
	want = json_load_file(path, 0, NULL);
	assert_non_null(want);
	assert_int_equal(rank_analysis_init(&a, t), 0);
	assert_int_equal(reference_find_suspects(&a), 0);
	got = summary_of(&a);
	compare_summaries(number, json_object_get(want, "summary"), got);
	assert_int_equal(a.median_interval_ns,
			 json_integer_value(json_object_get(want, "median_interval_ns")));
	rows.rows = json_object_get(want, "timeline");
	assert_int_equal(analysis_walk_timeline(&a, compare_point, &rows), 0);
	assert_int_equal(rows.at, json_array_size(rows.rows));
	json_decref(want);
	json_decref(got);
	rank_analysis_release(&a);
	telemetry_free(t);
}

static void test_golden(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++)
		check_case(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
