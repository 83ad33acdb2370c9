#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "daemon/tellers.h"

/* What one has told the other does not tell again, once for each time. */
static void test_each_is_told_once(void **state)
{
	CLEANUP(tellers_release) struct tellers told = { 0 };
	const struct proc_event birth = { .key = { .pid = 7 }, .type = EVENT_SPAWN };
	const struct proc_event death = { .key = { .pid = 7 }, .type = EVENT_EXIT };

	(void)state;
	tellers_note(&told, BY_US, 1, &birth);
	tellers_note(&told, BY_US, 1, &birth); /* the pid was used again */
	assert_false(tellers_take(&told, BY_RUNNER, 1, &birth));
	assert_false(tellers_take(&told, BY_US, 2, &birth)); /* of another attempt */
	assert_false(tellers_take(&told, BY_US, 1, &death));
	assert_true(tellers_take(&told, BY_US, 1, &birth));
	assert_true(tellers_take(&told, BY_US, 1, &birth));
	assert_false(tellers_take(&told, BY_US, 1, &birth));
}

/* A storm of one job is not the end of what is known of another. */
static void test_others_are_not_forgotten_at_once(void **state)
{
	CLEANUP(tellers_release) struct tellers told = { 0 };
	const struct proc_event birth = { .key = { .pid = 7 }, .type = EVENT_SPAWN };

	(void)state;
	for (pid_t pid = 1; pid <= 65535; pid++) {
		const struct proc_event ev = { .key = { .pid = pid }, .type = EVENT_SPAWN };

		if (pid == 65535 - 100)
			tellers_note(&told, BY_US, 2, &birth);
		tellers_note(&told, BY_US, 1, &ev);
	}
	for (pid_t pid = 1; pid <= 1000; pid++) {
		const struct proc_event ev = { .key = { .pid = pid }, .type = EVENT_EXIT };

		tellers_note(&told, BY_US, 1, &ev);
	}
	assert_true(tellers_take(&told, BY_US, 2, &birth));
}

/* Of those that the other never tells so many are not kept for ever. */
static void test_it_is_bounded(void **state)
{
	CLEANUP(tellers_release) struct tellers told = { 0 };

	(void)state;
	for (pid_t pid = 1; pid < 200000; pid++) {
		const struct proc_event ev = { .key = { .pid = pid }, .type = EVENT_SPAWN };

		tellers_note(&told, BY_RUNNER, 1, &ev);
		assert_true(told.young.len + told.old.len <= 65536);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_is_told_once),
		cmocka_unit_test(test_others_are_not_forgotten_at_once),
		cmocka_unit_test(test_it_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
