#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/unknown.h"
#include "recorder/run_internal.h"

#define ROOT 10

/* Times in seconds; code -1: killed by SIGKILL, -2: its end is not known. */
static struct proc_record process(pid_t pid, pid_t ppid, uint64_t born, uint64_t died, int code)
{
	struct proc_record p;

	proc_record_init(&p);
	p.key.pid = pid;
	p.ppid = ppid;
	p.born_wall_ns = born;
	p.died_wall_ns = code == -2 ? U64_UNKNOWN : died;
	p.status = (struct exit_status){ code >= 0 ? code : -1, code == -1 ? SIGKILL : -1 };
	return p;
}

static pid_t first_failed(const struct proc_record *all, size_t n)
{
	const struct proc_record *p = explain_first_failed(all, n, ROOT);

	return p ? p->key.pid : 0;
}

static void test_a_failure_is_passed_on(void **state)
{
	/* make -> gcc -> cc1plus */
	const struct proc_record
		all[] = {
			process(10, 1, 1, 20, 2),  process(11, 10, 2, 5, 0),
			process(12, 10, 3, 15, 1), process(13, 12, 4, 14, 1),
			process(14, 10, 3, 18, 0), /* another, which it waits for */
		};

	(void)state;
	assert_int_equal(first_failed(all, 5), 13);
}

static void test_a_failure_that_was_ignored(void **state)
{
	/* grep found nothing, and its shell went on; then the shell failed by itself */
	const struct proc_record all[] = {
		process(10, 1, 1, 20, 2),
		process(11, 10, 2, 5, 1),
		process(12, 10, 6, 15, 0),
	};

	(void)state;
	assert_int_equal(first_failed(all, 3), 0);
	assert_int_equal(first_failed(all, 2), 11); /* nothing came after it */
}

static void test_what_a_signal_ended_is_the_first(void **state)
{
	const struct proc_record all[] = {
		process(10, 1, 1, 20, 5),
		process(11, 10, 2, 15, -1),
		process(12, 11, 3, 14, 1),
	};
	const struct proc_record killed[] = { process(10, 1, 1, 20, -1),
					      process(11, 10, 2, 15, 1) };

	(void)state;
	assert_int_equal(first_failed(all, 3), 11);
	assert_int_equal(first_failed(killed, 2), 0); /* nor did the command itself fail for it */
}

static void test_numbers_are_used_again(void **state)
{
	/* An earlier command had the same pid, and a failed child; a later process has its number.
	 */
	const struct proc_record all[] = {
		process(10, 1, 1, 5, 1),
		process(11, 10, 2, 4, 1),
		process(10, 1, 6, 20, 1),
	};

	(void)state;
	assert_int_equal(first_failed(all, 3), 0);
}

static void test_what_is_not_known_is_not_guessed(void **state)
{
	const struct proc_record all[] = { process(10, 1, 1, 20, -2), process(11, 10, 2, 15, 1) };
	const struct proc_record child[] = { process(10, 1, 1, 20, 1), process(11, 10, 2, 15, -2) };

	(void)state;
	assert_int_equal(first_failed(all, 2), 0);
	assert_int_equal(first_failed(child, 2), 0);
	assert_int_equal(first_failed(all, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_failure_is_passed_on),
		cmocka_unit_test(test_a_failure_that_was_ignored),
		cmocka_unit_test(test_what_a_signal_ended_is_the_first),
		cmocka_unit_test(test_numbers_are_used_again),
		cmocka_unit_test(test_what_is_not_known_is_not_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
