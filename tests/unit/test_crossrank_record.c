/*
 * Every case of tests/golden/telemetry by all three rules, and the bulk reader
 * beside the careful one on lines of many shapes: where the first says yes, both
 * must say the same.
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

#include "base/arena.h"
#include "base/buf.h"
#include "base/macros.h"
#include "base/json.h"
#include "crossrank/reading/bulk.h"
#include "crossrank/reading/event.h"
#include "crossrank/reading/event_reader.h"

#define CASES 40

static json_t *load(const char *set, int number)
{
	char path[512];
	json_error_t error;
	json_t *doc;

	snprintf(path, sizeof(path), "%s/golden/%s/%03d.json", getenv("PROCTOR_TESTS"), set,
		 number);
	doc = json_load_file(path, JSON_ALLOW_NUL, &error);
	/* One holds a number that fits nowhere, about which nothing is asserted. */
	if (!doc)
		doc = json_load_file(path, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
	if (!doc)
		fail_msg("%s: %s", path, error.text);
	return doc;
}

/* Text with the bytes behind it that the bulk reader may look at. */
static void add_padded(struct buf *out, const char *bytes, size_t n)
{
	buf_add(out, bytes, n);
	assert_int_equal(buf_reserve(out, BULK_PADDING), 0);
	memset(out->data + n, 0, BULK_PADDING);
}

static void from_hex(const char *hex, struct buf *out)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	unsigned byte;

	for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
		buf_add_char(&bytes, (char)byte);
	add_padded(out, bytes.data, bytes.len);
}

static void as_json(const struct telemetry_event *ev, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	event_write_json(&j, ev);
	assert_int_equal(buf_error(out), 0);
}

/* The expected event in our form: "load" has no session_id. */
static bool is_event(json_t *want, const struct telemetry_event *ev)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	json_t *got;
	bool same;

	as_json(ev, &text);
	got = json_loads(text.data, JSON_ALLOW_NUL, NULL);
	if (!json_object_get(want, "session_id"))
		json_object_del(got, "session_id");
	same = json_equal(want, got);
	if (!same)
		print_error("got %s\n", text.data);
	json_decref(got);
	return same;
}

static void check_rule(const char *name, json_t *doc, enum record_rule rule, const struct buf *line)
{
	json_t *want = json_object_get(doc, name);
	bool is_valid = json_is_true(json_object_get(want, "valid"));
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct telemetry_event ev;
	int error = 0;
	enum reason reason = record_read(line->data, line->len, rule, &arena, &ev, &error);

	assert_int_equal(error, 0);
	if ((reason == REASON_NONE) != is_valid)
		fail_msg("%s: %s, %s", name, json_string_value(json_object_get(doc, "case")),
			 reason_name(reason));
	if (!is_valid && json_is_true(json_object_get(doc, "single_fault")))
		assert_string_equal(reason_name(reason),
				    json_string_value(json_object_get(want, "reason")));
	if (is_valid && json_object_get(want, "event"))
		assert_true(is_event(json_object_get(want, "event"), &ev));
}

static void test_golden(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		json_t *doc = load("telemetry", i);
		CLEANUP(buf_release) struct buf line = BUF_INIT;

		from_hex(json_string_value(json_object_get(doc, "line_hex")), &line);
		if (!json_is_true(json_object_get(doc, "exceeds_int64"))) {
			check_rule("strict_v2", doc, RECORD_STRICT, &line);
			check_rule("load", doc, RECORD_LOAD, &line);
			check_rule("load_session", doc, RECORD_SESSION, &line);
		}
		json_decref(doc);
	}
}

/* ---- bulk beside careful ---- */

static const char whole[] =
	"{\"schema_version\":2,\"timestamp_ns\":1700000000678756553,\"event_type\":\"sample\","
	"\"collector\":\"c\",\"sampling_interval_ms\":100,\"pid\":1001,\"host\":\"n0\","
	"\"job_id\":\"J\",\"rank\":1,\"local_rank\":3,\"world_size\":4,\"device_id\":1,"
	"\"allocator_allocated_bytes\":5,\"allocator_reserved_bytes\":6,"
	"\"allocator_active_bytes\":null,\"allocator_inactive_bytes\":7,"
	"\"allocator_change_bytes\":-3,\"device_used_bytes\":8,\"device_free_bytes\":null,"
	"\"device_total_bytes\":9,\"context\":null,\"metadata\":{}}";

/* What is replaced by what in a whole record, and whether the bulk reader takes it. */
static const struct change {
	const char *from, *to;
	bool is_bulk, is_valid;
} changes[] = {
	{ "", "", true, true },
	{ "\"metadata\":{}",
	  "\"metadata\":{\"clock_error_ns\":1500,\"clock_synchronised\":false,\"boot_id\":\"b\"}",
	  true, true },
	{ "\"metadata\":{}", "\"metadata\":{\"clock_error_ns\":7,\"boot_id\":\"c\"}", true, true },
	{ "\"J\"", "null", true, true },
	{ "\"J\"", "\"\\u0041\"", true, true },
	{ "\"J\"", "\" \"", false, false },
	{ "\"J\"", "\"\xe2\x80\x83\"", false, false },
	{ "\"J\"", "\"\xff\"", false, false },
	{ "\"J\"", "\"a\nb\"", false, false },
	{ "\"J\"", "\"\\ud800\"", false, true },
	{ "{}}", "{}} ", true, true },
	{ "{}}", "{}} x", false, false },
	{ "{}}", "{}}{}", false, false },
	{ "{}}", "{}}}", false, false },
	{ "{}}", "{}", false, false },
	{ "{}}", "{},}", false, false },
	{ "{}}", "{\"a\":[1,NaN]}}", true, true },
	{ "{}}", "{\"a\":[1,NoN]}}", false, false },
	{ "{}}", "{\"a\":01}}", false, false },
	{ "{}}", "{\"a\":1,}}", false, false },
	{ "{}}", "[]}", false, false },
	{ "{}}", "{},\"session_id\":\"s\"}", true, true },
	{ "{}}", "{},\"session_id\":\"\"}", false, false },
	{ "{}}", "{},\"session_id\":7}", false, false },
	{ "{}}", "{},\"rank\":2}", false, true },
	{ "{}}", "{},\"rank\":null}", false, false },
	{ "{}}", "{},\"x\":2}", false, false },
	{ "\"rank\":1", "\"rank\":1.0", false, false },
	{ "\"rank\":1", "\"rank\":true", false, false },
	{ "\"rank\":1", "\"rank\":01", false, false },
	{ "\"rank\":1", "\"rank\":-0", true, true },
	{ "\"rank\":1", "\"r\\u0061nk\":1", false, true },
	{ "\"rank\":1", "\"rank\"1", false, false },
	{ "\"rank\":1,", "\"rank\":1 ", false, false },
	{ "\"rank\":1,", "", true, true },
	{ ",\"world_size\":4", "", false, false },
	{ "\"device_used_bytes\":8", "\"device_used_bytes\":10", false, false },
	{ "\"device_used_bytes\":8", "\"device_used_bytes\":9223372036854775808", false, false },
	{ "\"allocator_inactive_bytes\":7", "\"allocator_inactive_bytes\":-1", false, false },
	{ "\"allocator_inactive_bytes\":7", "\"allocator_inactive_bytes\":nul", false, false },
	{ "\"sample\"", "\"SAMPLE\"", true, true },
	{ "\"sample\"",
	  "\"\xc5\xbf"
	  "ample\"",
	  true, true },
	{ "\"sample\"", "\"samples\"", false, true },
	{ "\"context\":null", "\"context\":\"\"", true, true },
	{ "\"context\":null", "\"context\":5", false, false },
	{ "\"schema_version\":2", "\"schema_version\":3", false, false },
	{ "\"schema_version\":2", "\"schema_version\":\"2\"", false, false },
};

static void apply(const struct change *c, struct buf *out)
{
	const char *at = strstr(whole, c->from);
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	assert_non_null(at);
	buf_add(&text, whole, (size_t)(at - whole));
	buf_add_str(&text, c->to);
	buf_add_str(&text, at + strlen(c->from));
	add_padded(out, text.data, text.len);
}

static void check_change(struct bulk *bulk, const struct change *c)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(buf_release) struct buf line = BUF_INIT, fast = BUF_INIT, slow = BUF_INIT;
	struct telemetry_event quick, careful;
	int error;
	bool is_valid;

	apply(c, &line);
	is_valid = record_read(line.data, line.len, RECORD_SESSION, &arena, &careful, &error) ==
		   REASON_NONE;
	/* The second time nothing is new to it. */
	for (int i = 0; i < 2; i++) {
		bool is_bulk = bulk_read(bulk, line.data, line.len, &quick);

		if (is_bulk != c->is_bulk)
			fail_msg("bulk %d: %s", is_bulk, line.data);
		if (!is_bulk)
			continue;
		buf_reset(&fast);
		buf_reset(&slow);
		as_json(&quick, &fast);
		careful.metadata = NULL;
		as_json(&careful, &slow);
		assert_string_equal(fast.data, slow.data);
		assert_int_equal(quick.clock.error_ns, careful.clock.error_ns);
		assert_int_equal(quick.clock.is_free, careful.clock.is_free);
		assert_true(text_equals(quick.clock.boot_id, careful.clock.boot_id));
	}
	if (c->is_valid != is_valid)
		fail_msg("valid %d: %s", is_valid, line.data);
}

static void test_bulk_and_careful(void **state)
{
	struct bulk *bulk = bulk_new();

	(void)state;
	assert_non_null(bulk);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		check_change(bulk, &changes[i]);
		check_change(bulk, &changes[0]);
	}
	/* Cut anywhere it is refused by both. */
	for (size_t n = 0; n + 1 < sizeof(whole); n++) {
		CLEANUP(arena_release) struct arena arena = ARENA_INIT;
		CLEANUP(buf_release) struct buf line = BUF_INIT;
		struct telemetry_event ev;
		int error;

		add_padded(&line, whole, n);
		assert_false(bulk_read(bulk, line.data, line.len, &ev));
		assert_int_equal(record_read(line.data, n, RECORD_SESSION, &arena, &ev, &error),
				 REASON_BAD_JSON);
	}
	bulk_free(bulk);
}

static void test_depth(void **state)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(buf_release) struct buf deep = BUF_INIT;
	struct jnode *node;

	(void)state;
	for (int i = 0; i < 100000; i++)
		buf_add_char(&deep, '[');
	assert_false(jtree_is_valid(deep.data, deep.len));
	assert_true(jtree_parse(deep.data, deep.len, &arena, &node) < 0);
}

/* ---- clocks ---- */

/* What metadata say of the clock in another way than proctor does is no reason to trust it. */
static void test_clocks_of_a_wrong_type(void **state)
{
	static const struct {
		const char *json;
		int64_t error_ns;
		bool is_free;
	} cases[] = {
		{ "{}", EVENT_UNKNOWN, false },
		{ "{\"clock_error_ns\":5}", 5, false },
		{ "{\"clock_error_ns\":5e9}", INT64_C(5000000000), false },
		{ "{\"clock_error_ns\":0.5}", 1, false },
		{ "{\"clock_error_ns\":null}", EVENT_UNKNOWN, false },
		{ "{\"clock_error_ns\":-5}", EVENT_UNKNOWN, true },
		{ "{\"clock_error_ns\":1e300}", EVENT_UNKNOWN, true },
		{ "{\"clock_error_ns\":\"2000000\"}", EVENT_UNKNOWN, true },
		{ "{\"clock_synchronised\":true}", EVENT_UNKNOWN, false },
		{ "{\"clock_synchronised\":0}", EVENT_UNKNOWN, true },
		{ "{\"clock_synchronised\":\"false\"}", EVENT_UNKNOWN, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(arena_release) struct arena arena = ARENA_INIT;
		struct telemetry_event ev;

		event_init(&ev);
		assert_int_equal(
			event_set_metadata(&ev, cases[i].json, strlen(cases[i].json), &arena), 0);
		assert_int_equal(ev.clock.error_ns, cases[i].error_ns);
		assert_int_equal(ev.clock.is_free, cases[i].is_free);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_bulk_and_careful),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_clocks_of_a_wrong_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
