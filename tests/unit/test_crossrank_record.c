/*
 * Every case of tests/golden/telemetry, and the reader of shapes beside the careful one on lines of
 * many kinds: where the first says yes, both say the same.
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
#include "crossrank/reading/event.h"
#include "crossrank/reading/event_reader.h"
#include "crossrank/reading/jtree.h"

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

static void from_hex(const char *hex, struct buf *out)
{
	unsigned byte;

	for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
		buf_add_char(out, (char)byte);
}

static void as_json(const struct telemetry_event *ev, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	event_write_json(&j, ev);
	assert_int_equal(buf_error(out), 0);
}

/* The expected event in our form. An older record's metadata are looked at and not kept. */
static bool is_event(json_t *want, const struct telemetry_event *ev)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	json_t *got;
	bool same;

	as_json(ev, &text);
	got = json_loads(text.data, JSON_ALLOW_NUL, NULL);
	assert_non_null(got);
	if (!ev->metadata.s)
		json_object_set(got, "metadata", json_object_get(want, "metadata"));
	same = json_equal(want, got);
	if (!same)
		print_error("got %s\n", text.data);
	json_decref(got);
	return same;
}

static void check_case(json_t *doc, const struct buf *line)
{
	json_t *want = json_object_get(doc, "load_session");
	bool is_valid = json_is_true(json_object_get(want, "valid"));
	CLEANUP(event_reader_release) struct event_reader reader = { 0 };
	struct telemetry_event ev;
	struct refusal refusal = event_read(&reader, line->data, line->len, &ev);
	enum reason reason = refusal.reason;

	assert_int_equal(refusal.error, 0);
	if ((reason == REASON_NONE) != is_valid)
		fail_msg("%s, %s", json_string_value(json_object_get(doc, "case")),
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
		if (!json_is_true(json_object_get(doc, "exceeds_int64")))
			check_case(doc, &line);
		json_decref(doc);
	}
}

/* ---- shapes beside the careful reader ---- */

static const char whole[] =
	"{\"schema_version\":2,\"timestamp_ns\":1700000000678756553,\"event_type\":\"sample\","
	"\"collector\":\"c\",\"sampling_interval_ms\":100,\"pid\":1001,\"host\":\"n0\","
	"\"job_id\":\"J\",\"rank\":1,\"local_rank\":3,\"world_size\":4,\"device_id\":1,"
	"\"allocator_allocated_bytes\":5,\"allocator_reserved_bytes\":6,"
	"\"allocator_active_bytes\":null,\"allocator_inactive_bytes\":7,"
	"\"allocator_change_bytes\":-3,\"device_used_bytes\":8,\"device_free_bytes\":null,"
	"\"device_total_bytes\":9,\"context\":\"x\",\"metadata\":{\"a\":[1,\"t\"],\"b\":2.5,"
	"\"clock_error_ns\":1500,\"clock_synchronised\":true,\"boot_id\":\"b\"}}";

enum { SAME_SHAPE = 1, VALID = 2 };

/* What is replaced by what in a whole record, and what the readers make of it. */
static const struct change {
	const char *from, *to;
	int is;
} changes[] = {
	{ "", "", SAME_SHAPE | VALID },
	{ "\"boot_id\":\"b\"", "\"boot_id\":\"other\"", SAME_SHAPE | VALID },
	{ "\"boot_id\":\"b\"", "\"boot_id\":\"\"", SAME_SHAPE | VALID },
	{ "\"boot_id\":\"b\"", "\"boot_id\":7", VALID },
	{ "\"boot_id\":\"b\"", "\"boot_id\":\"b\",\"boot_id\":null", VALID },
	{ "1500", "7", VALID },
	{ "1500", "1.5", VALID },
	{ "\"b\":2.5", "\"b\":-1e+30", SAME_SHAPE | VALID },
	{ "\"b\":2.5", "\"b\":12345678901234567890123", SAME_SHAPE | VALID },
	{ "\"b\":2.5", "\"b\":2.", 0 },
	{ "\"b\":2.5", "\"b\":02", 0 },
	{ "\"b\":2.5", "\"b\":NaN", VALID },
	{ "\"b\":2.5", "\"b\":NoN", 0 },
	{ "\"b\":2.5", "\"b\":\"2\"", VALID },
	{ "[1,\"t\"]", "[22,\"\"]", SAME_SHAPE | VALID },
	{ "[1,\"t\"]", "[22,\"\\u0041\"]", VALID },
	{ "[1,\"t\"]", "[22]", VALID },
	{ "[1,\"t\"]", "[1,\"t\",]", 0 },
	{ "\"J\"", "null", VALID },
	{ "\"J\"", "\"\\u0041\"", VALID },
	{ "\"J\"", "\"another job\"", SAME_SHAPE | VALID },
	{ "\"J\"", "\"\xc3\xa4\"", VALID },
	{ "\"J\"", "\"\"", 0 },
	{ "\"J\"", "\" \"", 0 },
	{ "\"J\"", "\"\xe2\x80\x83\"", 0 },
	{ "\"J\"", "\"\xff\"", 0 },
	{ "\"J\"", "\"a\nb\"", 0 },
	{ "\"J\"", "\"\\ud800\"", VALID },
	{ "\"b\"}}", "\"b\"}} ", VALID },
	{ "\"b\"}}", "\"b\"}} x", 0 },
	{ "\"b\"}}", "\"b\"}}{}", 0 },
	{ "\"b\"}}", "\"b\"}}}", 0 },
	{ "\"b\"}}", "\"b\"}", 0 },
	{ "\"b\"}}", "\"b\"},}", 0 },
	{ "\"b\"}}", "\"b\"},\"session_id\":\"s\"}", VALID },
	{ "\"b\"}}", "\"b\"},\"session_id\":\"\"}", 0 },
	{ "\"b\"}}", "\"b\"},\"session_id\":7}", 0 },
	{ "\"b\"}}", "\"b\"},\"rank\":2}", VALID },
	{ "\"b\"}}", "\"b\"},\"rank\":null}", 0 },
	{ "\"b\"}}", "\"b\"},\"x\":2}", 0 },
	{ "\"rank\":1", "\"rank\":2", SAME_SHAPE | VALID },
	{ "\"rank\":1", "\"rank\":4", 0 },
	{ "\"rank\":1", "\"rank\":1.0", 0 },
	{ "\"rank\":1", "\"rank\":true", 0 },
	{ "\"rank\":1", "\"rank\":01", 0 },
	{ "\"rank\":1", "\"rank\":-0", SAME_SHAPE | VALID },
	{ "\"rank\":1", "\"rank\":-1", 0 },
	{ "\"rank\":1", "\"rank\":", 0 },
	{ "\"rank\":1", "\"rank\":-", 0 },
	{ "\"rank\":1", "\"r\\u0061nk\":1", VALID },
	{ "\"rank\":1", "\"rank\"1", 0 },
	{ "\"rank\":1,", "\"rank\":1 ", 0 },
	{ "\"rank\":1,", "", VALID },
	{ ",\"world_size\":4", "", 0 },
	{ "\"device_used_bytes\":8", "\"device_used_bytes\":9", SAME_SHAPE | VALID },
	{ "\"device_used_bytes\":8", "\"device_used_bytes\":10", 0 },
	{ "\"device_total_bytes\":9", "\"device_total_bytes\":9223372036854775807",
	  SAME_SHAPE | VALID },
	{ "\"device_total_bytes\":9", "\"device_total_bytes\":9223372036854775808", 0 },
	{ "\"device_total_bytes\":9", "\"device_total_bytes\":92233720368547758070", 0 },
	{ "_change_bytes\":-3", "_change_bytes\":-9223372036854775808", SAME_SHAPE | VALID },
	{ "_change_bytes\":-3", "_change_bytes\":-9223372036854775809", 0 },
	{ "\"allocator_inactive_bytes\":7", "\"allocator_inactive_bytes\":-1", 0 },
	{ "\"allocator_inactive_bytes\":7", "\"allocator_inactive_bytes\":nul", 0 },
	{ "\"allocator_inactive_bytes\":7", "\"allocator_inactive_bytes\":null", VALID },
	{ "\"sample\"", "\"SAMPLE\"", VALID },
	{ "\"sample\"", "\"samples\"", VALID },
	{ "\"context\":\"x\"", "\"context\":\"\"", SAME_SHAPE | VALID },
	{ "\"context\":\"x\"", "\"context\":5", 0 },
	{ "\"schema_version\":2", "\"schema_version\":3", 0 },
	{ "\"schema_version\":2", "\"schema_version\":\"2\"", 0 },
};

/* What a shape reads of a line is what a reader that knows none does. Returns whether it fits. */
static bool check_line(struct event_reader *learned, const char *line, size_t n, bool *ret_is_valid)
{
	CLEANUP(event_reader_release) struct event_reader reader = { 0 };
	CLEANUP(buf_release) struct buf fast = BUF_INIT, slow = BUF_INIT;
	struct telemetry_event quick, careful;
	bool fits = shapes_read(&learned->shapes, line, n, &quick);

	*ret_is_valid = event_read(&reader, line, n, &careful).reason == REASON_NONE;
	if (!fits)
		return false;
	assert_true(*ret_is_valid);
	careful.metadata.s = NULL;
	as_json(&quick, &fast);
	as_json(&careful, &slow);
	assert_string_equal(fast.data, slow.data);
	assert_int_equal(quick.clock.error_ns, careful.clock.error_ns);
	assert_int_equal(quick.clock.is_free, careful.clock.is_free);
	assert_true(text_equals(quick.clock.boot_id, careful.clock.boot_id));
	assert_int_equal(!quick.clock.boot_id.s, !careful.clock.boot_id.s);
	return true;
}

static void test_shapes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		CLEANUP(event_reader_release) struct event_reader plain = { 0 }, odd = { 0 };
		const struct change *c = &changes[i];
		CLEANUP(buf_release) struct buf line = BUF_INIT;
		const char *at = strstr(whole, c->from);
		struct telemetry_event ev;
		bool fits, is_valid;

		if (!at)
			continue;
		buf_add(&line, whole, (size_t)(at - whole));
		buf_add_str(&line, c->to);
		buf_add_str(&line, at + strlen(c->from));
		assert_int_equal(event_read(&plain, whole, strlen(whole), &ev).reason, REASON_NONE);
		fits = check_line(&plain, line.data, line.len, &is_valid);
		if (fits != ((c->is & SAME_SHAPE) != 0) || is_valid != ((c->is & VALID) != 0))
			fail_msg("fits %d, valid %d: %s", fits, is_valid, line.data);
		/* The other way round: what was learned of the odd one reads the plain one. */
		if (event_read(&odd, line.data, line.len, &ev).reason != REASON_NONE)
			continue;
		check_line(&odd, whole, strlen(whole), &is_valid);
		check_line(&odd, line.data, line.len, &is_valid);
	}
}

/* Cut anywhere it is refused, whether or not one like it was read before. */
static void test_cut(void **state)
{
	CLEANUP(event_reader_release) struct event_reader reader = { 0 };
	struct telemetry_event ev;

	(void)state;
	event_read(&reader, whole, strlen(whole), &ev);
	for (size_t n = 0; n + 1 < sizeof(whole); n++) {
		char *line = malloc(n ? n : 1); /* its end is where a sanitizer sees it */

		memcpy(line, whole, n);
		assert_false(shapes_read(&reader.shapes, line, n, &ev));
		assert_int_equal(event_read(&reader, line, n, &ev).reason, REASON_BAD_JSON);
		free(line);
	}
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
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_clocks_of_a_wrong_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
