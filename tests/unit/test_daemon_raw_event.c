#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bus/bus.h"
#include "daemon/methods/raw_event.h"

static const struct proc_event killed = {
	.wall_ns = UINT64_C(1700000000500000000),
	.key = { 17, 4711 },
	.type = EVENT_KILL,
	.status = { -1, 9 },
	.job_id = "mine",
	.sheet_num = 3,
	.details = "sent by \"somebody\"",
};

static const struct proc_event bare = {
	.wall_ns = 1,
	.key = { 18, 1 },
	.type = EVENT_SPAWN,
	.status = { -1, -1 },
	.sheet_num = SHEET_NONE,
};

/* What is kept and rendered later is what subscribers got at once. */
static void check_same(const struct proc_event *ev, const char *job_id)
{
	struct buf at_once = BUF_INIT, raw = BUF_INIT, later = BUF_INIT;
	struct recent *recent = recent_new(4, 4096);
	struct event event = { .topic = process_event_topic(ev->type), .is_raw = true };
	struct json j;

	json_init(&j, &at_once);
	process_event_write_json(&j, ev, 2);
	raw_event_pack(&raw, ev, 2);
	event.json = raw.data;
	event.len = raw.len;
	recent_add(recent, &event);
	memset(raw.data, 'x', raw.len);
	assert_true(recent_newest(recent)->is_raw);
	assert_string_equal(raw_event_job_id(recent_newest(recent)->json), job_id);
	json_init(&j, &later);
	raw_event_write_json(&j, recent_newest(recent)->json);
	assert_string_equal(later.data, at_once.data);
	assert_non_null(strstr(later.data, topic_name(event.topic)));
	recent_free(recent);
	buf_release(&at_once);
	buf_release(&raw);
	buf_release(&later);
}

static void test_rendered_later_it_is_the_same(void **state)
{
	(void)state;
	check_same(&killed, "mine");
	check_same(&bare, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rendered_later_it_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
