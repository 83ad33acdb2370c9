#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "bus/bus.h"

static void add(struct recent *recent, const char *json)
{
	const struct event ev = { .topic = TOPIC_JOB_STARTED, .json = json, .len = strlen(json) };

	recent_add(recent, &ev);
}

/* "a b c ", oldest first. */
static const char *list(const struct recent *recent, char *ret)
{
	const struct event *ev;
	size_t len = 0;

	ret[0] = '\0';
	for (size_t i = 0; (ev = recent_at(recent, i)); i++)
		len += (size_t)sprintf(ret + len, "%.*s ", (int)ev->len, ev->json);
	return ret;
}

static void test_the_oldest_go_first(void **state)
{
	struct recent *recent = recent_new(3, 1000);
	char text[4] = "a", names[64];

	(void)state;
	assert_string_equal(list(recent, names), "");
	for (; text[0] < 'h'; text[0]++)
		add(recent, text); /* copied: text changes */
	assert_string_equal(list(recent, names), "e f g ");
	assert_int_equal(recent_count(recent), 3);
	assert_null(recent_at(recent, 3));
	recent_free(recent);
}

static void test_bytes_are_bounded(void **state)
{
	struct recent *recent = recent_new(100, 10);
	char names[64];

	(void)state;
	add(recent, "1234");
	add(recent, "5678");
	add(recent, "90");
	assert_string_equal(list(recent, names), "1234 5678 90 ");
	add(recent, "abcde");
	assert_string_equal(list(recent, names), "90 abcde ");
	add(recent, "more than ten bytes");
	assert_string_equal(list(recent, names), "90 abcde ");
	add(recent, "0123456789");
	assert_string_equal(list(recent, names), "0123456789 ");
	recent_free(recent);
	assert_null(recent_free(NULL));
}

/* As the bus hands them over. */
static void test_it_subscribes(void **state)
{
	struct recent *recent = recent_new(2, 1000);
	struct bus *bus = bus_new();
	const struct event ev = {
		.topic = TOPIC_SHEET_FAILED, .wall_ns = 7, .owner = 42, .json = "{}", .len = 2
	};

	(void)state;
	assert_true(bus_subscribe(bus, topic_bit(TOPIC_SHEET_FAILED), recent_add, recent) >= 0);
	assert_int_equal(bus_publish(bus, &ev), 0);
	assert_int_equal(recent_at(recent, 0)->owner, 42);
	assert_int_equal(recent_at(recent, 0)->wall_ns, 7);
	assert_int_equal(recent_at(recent, 0)->topic, TOPIC_SHEET_FAILED);
	bus_free(bus);
	recent_free(recent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_oldest_go_first),
		cmocka_unit_test(test_bytes_are_bounded),
		cmocka_unit_test(test_it_subscribes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
