#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>

#include "base/macros.h"
#include "daemon/signal_list.h"

static bool take(struct signal_list *list, enum event_type type, int signal, pid_t pid,
		 pid_t sender)
{
	const struct proc_event ev = { .type = type, .key = { pid, 1 }, .status = { -1, signal } };

	return signal_list_take(list, &ev, sender);
}

static void test_a_storm_leaves_room_for_the_last(void **state)
{
	CLEANUP(signal_list_release) struct signal_list list = { 0 };
	int n = 0;

	(void)state;
	for (int i = 0; i < 5000; i++)
		n += take(&list, EVENT_SIGNAL, SIGUSR2, 7, 8);
	assert_int_equal(n, SIGNAL_LIST_SAME);
	assert_true(take(&list, EVENT_SIGNAL, SIGUSR1, 7, 8));
	assert_true(take(&list, EVENT_SIGNAL, SIGUSR2, 9, 8));
	assert_true(take(&list, EVENT_SIGNAL, SIGUSR2, 7, 9));
}

static void test_so_do_storms_of_many_kinds(void **state)
{
	CLEANUP(signal_list_release) struct signal_list list = { 0 };
	int n = 0;

	(void)state;
	for (int i = 0; i < 10000; i++)
		n += take(&list, EVENT_SIGNAL, SIGUSR2, i % 200, 8);
	assert_int_equal(n, SIGNAL_LIST_REPEATED);
	for (int i = 0; i < 5000; i++)
		n += take(&list, EVENT_SIGNAL, SIGUSR1, i, 8);
	assert_int_equal(n, SIGNAL_LIST_FIRST);
	assert_true(take(&list, EVENT_KILL, SIGKILL, 7, 8));
	assert_true(take(&list, EVENT_OOM, SIGKILL, 7, 0));
	for (int i = 0; i < 5000; i++)
		n += take(&list, EVENT_KILL, SIGKILL, i, 8);
	assert_int_equal(n + 2, SIGNAL_LIST_KILLS);
}

static void test_the_rest_is_told_with_its_number(void **state)
{
	CLEANUP(signal_list_release) struct signal_list list = { 0 };
	const struct proc_event *last;

	(void)state;
	for (int i = 0; i < SIGNAL_LIST_SAME; i++)
		assert_true(take(&list, EVENT_SIGNAL, SIGUSR2, 7, 8));
	assert_null(signal_list_end(&list));
	for (int i = 0; i < 3; i++)
		assert_false(take(&list, EVENT_SIGNAL, SIGUSR2, 7, 8));
	last = signal_list_end(&list);
	assert_int_equal(last->status.signal, SIGUSR2);
	assert_string_equal(last->details, "; 2 others are not listed");
}

/* The rest of a storm, of which one may have ended it. */
static void test_of_the_rest_a_kill_is_told(void **state)
{
	CLEANUP(signal_list_release) struct signal_list list = { .n = SIGNAL_LIST_KILLS };

	(void)state;
	assert_false(take(&list, EVENT_SIGNAL, SIGUSR2, 7, 8));
	assert_false(take(&list, EVENT_KILL, SIGKILL, 9, 8));
	assert_false(take(&list, EVENT_SIGNAL, SIGUSR2, 7, 8));
	assert_int_equal(signal_list_end(&list)->key.pid, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_storm_leaves_room_for_the_last),
		cmocka_unit_test(test_so_do_storms_of_many_kinds),
		cmocka_unit_test(test_the_rest_is_told_with_its_number),
		cmocka_unit_test(test_of_the_rest_a_kill_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
