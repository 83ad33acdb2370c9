#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>

#include "base/macros.h"
#include "daemon/signal_room.h"

#define ATTEMPT 5

static bool take(struct signal_room *room, enum event_type type, int signal, pid_t pid,
		 pid_t sender)
{
	const struct proc_event ev = { .type = type, .key = { pid, 1 }, .status = { -1, signal } };

	return signal_room_take(room, ATTEMPT, &ev, sender);
}

static void test_a_storm_leaves_room_for_the_last(void **state)
{
	CLEANUP(signal_room_release) struct signal_room room = { 0 };
	int n = 0;

	(void)state;
	for (int i = 0; i < 5000; i++)
		n += take(&room, EVENT_SIGNAL, SIGUSR2, 7, 8);
	assert_int_equal(n, SIGNAL_ROOM_SAME);
	assert_true(take(&room, EVENT_SIGNAL, SIGUSR1, 7, 8));
	assert_true(take(&room, EVENT_SIGNAL, SIGUSR2, 9, 8));
	assert_true(take(&room, EVENT_SIGNAL, SIGUSR2, 7, 9));
}

static void test_so_do_storms_of_many_kinds(void **state)
{
	CLEANUP(signal_room_release) struct signal_room room = { 0 };
	int n = 0;

	(void)state;
	for (int i = 0; i < 10000; i++)
		n += take(&room, EVENT_SIGNAL, SIGUSR2, i % 200, 8);
	assert_int_equal(n, SIGNAL_ROOM_REPEATED);
	for (int i = 0; i < 5000; i++)
		n += take(&room, EVENT_SIGNAL, SIGUSR1, i, 8);
	assert_int_equal(n, SIGNAL_ROOM_FIRST);
	assert_true(take(&room, EVENT_KILL, SIGKILL, 7, 8));
	assert_true(take(&room, EVENT_OOM, SIGKILL, 7, 0));
	for (int i = 0; i < 5000; i++)
		n += take(&room, EVENT_KILL, SIGKILL, i, 8);
	assert_int_equal(n + 2, SIGNAL_ROOM_KILLS);
	signal_room_forget(&room, ATTEMPT);
	assert_true(take(&room, EVENT_SIGNAL, SIGTERM, 7, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_storm_leaves_room_for_the_last),
		cmocka_unit_test(test_so_do_storms_of_many_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
