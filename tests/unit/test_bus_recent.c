#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "bus/bus.h"

static void add_of(struct recent *recent, uid_t owner, const char *json)
{
	const struct event ev = {
		.topic = TOPIC_JOB_STARTED, .owner = owner, .json = json, .len = strlen(json)
	};

	recent_add(recent, &ev);
}

static void add(struct recent *recent, const char *json)
{
	add_of(recent, 1, json);
}

static const struct event *oldest_of(const struct recent *recent)
{
	const struct event *ev = recent_newest(recent), *older;

	while (ev && (older = recent_older(ev)))
		ev = older;
	return ev;
}

/* "a b c ", oldest first. */
static const char *list(const struct recent *recent, char *ret)
{
	const struct event *ev;
	size_t len = 0;

	ret[0] = '\0';
	for (ev = oldest_of(recent); ev; ev = recent_newer(ev))
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
	assert_string_equal(recent_newest(recent)->json, "g");
	assert_string_equal(recent_older(recent_newest(recent))->json, "f");
	assert_null(recent_older(oldest_of(recent)));
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

/* What one user does pushes out what that user has done, and not what others have. */
static void test_owners_have_shares(void **state)
{
	struct recent *recent = recent_new(6, 1000);
	char text[4] = "a", names[64];

	(void)state;
	add_of(recent, 7, "X");
	add_of(recent, (uid_t)-1, "H");
	for (; text[0] < 'k'; text[0]++)
		add_of(recent, 8, text);
	add_of(recent, 7, "Y");
	assert_string_equal(list(recent, names), "X H h i j Y ");
	add_of(recent, 7, "Z"); /* both have three then, and the older goes on */
	add_of(recent, 9, "0");
	assert_string_equal(list(recent, names), "H i j Y Z 0 ");
	recent_free(recent);
	recent = recent_new(100, 10);
	add_of(recent, 7, "123");
	add_of(recent, 8, "4567890");
	add_of(recent, 8, "abc");
	assert_string_equal(list(recent, names), "123 abc ");
	recent_free(recent);
}

static void test_all_of_it_is_kept(void **state)
{
	struct recent *recent = recent_new(2, 1000);
	const struct event ev = {
		.topic = TOPIC_SHEET_FAILED, .wall_ns = 7, .owner = 42, .json = "{}", .len = 2
	};

	(void)state;
	recent_add(recent, &ev);
	assert_int_equal(oldest_of(recent)->owner, 42);
	assert_int_equal(oldest_of(recent)->wall_ns, 7);
	assert_int_equal(oldest_of(recent)->topic, TOPIC_SHEET_FAILED);
	recent_free(recent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_oldest_go_first),
		cmocka_unit_test(test_bytes_are_bounded),
		cmocka_unit_test(test_owners_have_shares),
		cmocka_unit_test(test_all_of_it_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
