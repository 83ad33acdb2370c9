#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/unknown.h"
#include "rpc/value.h"

static const struct rpc_value_limits limits = { .max_depth = 8, .max_values = 100 };

static void cleanup_value(struct rpc_value **v)
{
	*v = rpc_value_free(*v);
}

static struct rpc_value *must_parse(const char *text)
{
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;

	if (rpc_value_parse(text, strlen(text), &limits, &v, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return v;
}

static void test_reading(void **state)
{
	CLEANUP(cleanup_value)
	struct rpc_value *v =
		must_parse("{\"text\":\"a\\u00e9\",\"int\":7,\"neg\":-7,\"real\":0.5,\"whole\":2.0,"
			   "\"yes\":true,\"no\":false,\"nil\":null,\"list\":[1,[2]],\"empty\":{}}");

	(void)state;
	assert_string_equal(rpc_value_string(rpc_value_get(v, "text")), "aé");
	assert_null(rpc_value_string(rpc_value_get(v, "int")));
	assert_int_equal(rpc_value_u64(rpc_value_get(v, "int")), 7);
	assert_false(u64_known(rpc_value_u64(rpc_value_get(v, "neg"))));
	assert_false(u64_known(rpc_value_u64(rpc_value_get(v, "whole"))));
	assert_false(u64_known(rpc_value_u64(rpc_value_get(v, "absent"))));
	assert_int_equal(rpc_value_i64(rpc_value_get(v, "neg"), 0), -7);
	assert_int_equal(rpc_value_i64(rpc_value_get(v, "text"), 3), 3);
	assert_true(rpc_value_f64(rpc_value_get(v, "real")) == 0.5);
	assert_true(rpc_value_f64(rpc_value_get(v, "int")) == 7);
	assert_true(isnan(rpc_value_f64(rpc_value_get(v, "nil"))));
	assert_true(rpc_value_bool(rpc_value_get(v, "yes"), false));
	assert_false(rpc_value_bool(rpc_value_get(v, "no"), true));
	assert_true(rpc_value_bool(rpc_value_get(v, "nil"), true));
	assert_true(rpc_value_is_null(rpc_value_get(v, "nil")));
	assert_false(rpc_value_is_null(rpc_value_get(v, "absent")));
	assert_int_equal(rpc_value_len(rpc_value_get(v, "list")), 2);
	assert_int_equal(rpc_value_len(v), 10);
	assert_int_equal(rpc_value_len(rpc_value_get(v, "text")), 0);
	assert_int_equal(rpc_value_u64(rpc_value_at(rpc_value_get(v, "list"), 0)), 1);
	assert_null(rpc_value_at(rpc_value_get(v, "list"), 2));
	assert_null(rpc_value_at(v, 0));
	assert_null(rpc_value_get(NULL, "a"));
	assert_null(rpc_value_free(NULL));
}

static void test_taking(void **state)
{
	CLEANUP(cleanup_value) struct rpc_value *v = must_parse("{\"a\":[1,2],\"b\":3}");

	(void)state;
	v = rpc_value_take(v, "a");
	assert_int_equal(rpc_value_len(v), 2);
	v = rpc_value_take(v, "a"); /* a list has no members */
	assert_null(v);
}

/* Written again it is the same; and what jansson reads as a number is not another one after. */
static void test_writing(void **state)
{
	static const char *const texts[] = {
		"{\"b\":1,\"a\":[true,false,null,\"\\u0001\\n\\\"\\\\é\",{}],\"c\":0.1}",
		"-9223372036854775808",
		"9223372036854775807",
		"1e+300",
		"[]",
		"\"\"",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		CLEANUP(cleanup_value) struct rpc_value *v = must_parse(texts[i]);
		CLEANUP(buf_release) struct buf out = BUF_INIT;
		struct json j;

		json_init(&j, &out);
		rpc_value_write(v, &j);
		assert_string_equal(out.data, texts[i]);
	}
}

static void test_limits(void **state)
{
	static const struct {
		const char *text;
		int result;
	} rows[] = {
		{ "[[[[[[[[1]]]]]]]]", 0 },
		{ "[[[[[[[[[1]]]]]]]]]", -EMSGSIZE },
		{ "{\"a\":{\"a\":{\"a\":[[[[[1]]]]]}}}", 0 },
		{ "{\"a\":{\"a\":{\"a\":[[[[[[1]]]]]]}}}", -EMSGSIZE },
		{ "\"[[[[[[[[[[[[[[\"", 0 },
		{ "\"\\\"[[[[[[[[[[[[[[\"", 0 },
		{ "[\"\\\\\",[[[[[[[[1]]]]]]]]]", -EMSGSIZE },
		{ "", -EBADMSG },
		{ " ", -EBADMSG },
		{ "[1", -EBADMSG },
		{ "\"\\", -EBADMSG },
		{ "nul", -EBADMSG },
		{ "{\"a\":1,\"a\":1}", -EBADMSG },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(cleanup_value) struct rpc_value *v = NULL;
		struct err err = ERR_INIT;
		int r = rpc_value_parse(rows[i].text, strlen(rows[i].text), &limits, &v, &err);

		if (r != rows[i].result || (r < 0) != (err.text[0] != '\0'))
			fail_msg("%s: %d, %s", rows[i].text, r, err.text);
	}
}

static void test_skimming(void **state)
{
	static const struct {
		const char *text;
		size_t depth, values;
	} rows[] = {
		{ "1", 0, 1 },		{ "[]", 1, 2 },
		{ "[1,2,3]", 1, 4 },	{ "{\"a\":1,\"b\":[{}]}", 3, 5 },
		{ "\",,,[[[\"", 0, 1 }, { "]]]]", 0, 1 },
		{ "]][", 1, 2 },	{ "\"\\", 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct skim s = skim_text(rows[i].text, strlen(rows[i].text));

		assert_int_equal(s.depth, rows[i].depth);
		assert_int_equal(s.values, rows[i].values);
	}
}

/* ---- by a table ---- */

struct things {
	const char *name;
	uint64_t count;
	double share;
	bool is_on;
	const struct rpc_value *topics;
};

static const struct rpc_field fields[] = {
	{ "name", RPC_STRING, offsetof(struct things, name), .is_required = true },
	{ "count", RPC_U64, offsetof(struct things, count), .min = 1, .max = 10 },
	{ "share", RPC_F64, offsetof(struct things, share), .min = 0, .max = 0.5 },
	{ .name = "is_on", .type = RPC_BOOL, .offset = offsetof(struct things, is_on) },
	{ .name = "topics", .type = RPC_STRINGS, .offset = offsetof(struct things, topics) },
};

static void test_fields(void **state)
{
	CLEANUP(cleanup_value)
	struct rpc_value *v = must_parse("{\"topics\":[\"a\",\"b\"],\"is_on\":true,"
					 "\"share\":0.5,\"name\":\"n\"}");
	struct things t = { .count = 3, .share = 0.1 };
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(rpc_fields_read(v, fields, ARRAY_SIZE(fields), &t, &err), 0);
	assert_string_equal(t.name, "n");
	assert_int_equal(t.count, 3); /* absent: as it was */
	assert_true(t.share == 0.5);
	assert_true(t.is_on);
	assert_int_equal(rpc_value_len(t.topics), 2);
}

static void test_fields_that_do_not_fit(void **state)
{
	static const struct {
		const char *text;
		const char *said;
	} rows[] = {
		{ "{}", "'name' is missing; it is a text that is not empty" },
		{ "{\"name\":null}", "'name' is missing; it is a text that is not empty" },
		{ "{\"name\":\"\"}",
		  "'name' is the text '', and must be a text that is not empty" },
		{ "{\"name\":7}", "'name' is 7, and must be a text that is not empty" },
		{ "[\"n\",0]", "'count' is 0, and must be a whole number from 1 to 10" },
		{ "[\"n\",11]", "'count' is 11, and must be a whole number from 1 to 10" },
		{ "[\"n\",2.0]", "'count' is 2.0, and must be a whole number from 1 to 10" },
		{ "[\"n\",-2]", "'count' is -2, and must be a whole number from 1 to 10" },
		{ "[\"n\",1,0.6]", "'share' is 0.6, and must be a number from 0 to 0.5" },
		{ "[\"n\",1,0,1]", "'is_on' is 1, and must be true or false" },
		{ "[\"n\",1,0,true,\"a\"]",
		  "'topics' is the text 'a', and must be a list of texts" },
		{ "[\"n\",1,0,true,[1]]", "'topics' is a list, and must be a list of texts" },
		{ "[1,2,3,4,5,6]", "6 params, and the method takes at most 5" },
		{ "{\"name\":\"n\",\"cuont\":1}", "'cuont' is unknown; did you mean 'count'?" },
		{ "{\"name\":\"n\",\"zzzzzzzz\":1}", "'zzzzzzzz' is unknown" },
		{ "\"text\"", "an object was expected, and there is the text 'text'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(cleanup_value) struct rpc_value *v = must_parse(rows[i].text);
		struct err err = ERR_INIT;
		struct things t = { 0 };

		assert_int_equal(rpc_fields_read(v, fields, ARRAY_SIZE(fields), &t, &err), -EINVAL);
		assert_string_equal(err.text, rows[i].said);
	}
	assert_int_equal(rpc_fields_read(NULL, fields, 0, NULL, NULL), 0);
}

static void test_fields_of_a_newer_program(void **state)
{
	CLEANUP(cleanup_value) struct rpc_value *v = must_parse("{\"name\":\"n\",\"newer\":1}");
	struct things t = { 0 };

	(void)state;
	assert_int_equal(rpc_fields_read_known(v, fields, ARRAY_SIZE(fields), &t, NULL), 0);
	assert_string_equal(t.name, "n");
}

/* What one side says is what the other understands. */
static void test_codes(void **state)
{
	static const int errors[] = { -EBADMSG, -EPROTO,     -ENOSYS,	-EINVAL, -EACCES,
				      -ENOENT,	-EBUSY,	     -EMSGSIZE, -EUSERS, -ETIMEDOUT,
				      -EEXIST,	-EOPNOTSUPP, -ESHUTDOWN };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		assert_int_equal(rpc_errno_of(rpc_code_of(errors[i])), errors[i]);
		assert_true(strlen(rpc_code_meaning(rpc_code_of(errors[i]))) > 0);
	}
	assert_int_equal(rpc_code_of(-EXDEV), RPC_INTERNAL_ERROR);
	assert_int_equal(rpc_errno_of(RPC_INTERNAL_ERROR), -EIO);
	assert_int_equal(rpc_errno_of(-1), -EREMOTEIO);
	assert_int_equal(rpc_errno_of(INT64_MIN), -EREMOTEIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_taking),
		cmocka_unit_test(test_writing),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_skimming),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_fields_that_do_not_fit),
		cmocka_unit_test(test_fields_of_a_newer_program),
		cmocka_unit_test(test_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
