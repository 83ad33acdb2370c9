#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/unknown.h"
#include "recorder/run_internal.h"

#define ROOT 10

/* Times in seconds; code below 0: killed by that signal, UNSEEN: its end is not known. */
#define UNSEEN (-100)
static struct proc_record process(pid_t pid, pid_t ppid, uint64_t born, uint64_t died, int code)
{
	struct proc_record p;

	proc_record_init(&p);
	p.key.pid = pid;
	p.ppid = ppid;
	p.born_wall_ns = born;
	p.died_wall_ns = code == UNSEEN ? U64_UNKNOWN : died;
	p.status = (struct exit_status){ code >= 0 ? code : -1,
					 code < 0 && code != UNSEEN ? -code : -1 };
	return p;
}

static bool is_from_outside(void *ctx, const struct proc_record *killed)
{
	(void)killed;
	return *(const bool *)ctx;
}

static pid_t first_failed_of(const struct proc_record *all, size_t n, bool from_outside)
{
	const struct proc_record *p =
		explain_first_failed(all, n, ROOT, is_from_outside, &from_outside);

	return p ? p->key.pid : 0;
}

static pid_t first_failed(const struct proc_record *all, size_t n)
{
	return first_failed_of(all, n, false);
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
	const struct proc_record crashed[] = {
		process(10, 1, 1, 20, 5),
		process(11, 10, 2, 15, -SIGSEGV),
		process(12, 11, 3, 14, 1),
	};
	const struct proc_record killed[] = { process(10, 1, 1, 20, -SIGKILL),
					      process(11, 10, 2, 15, 1) };

	(void)state;
	assert_int_equal(first_failed(crashed, 3), 11);
	assert_int_equal(first_failed(killed, 2), 0); /* nor did the command itself fail for it */
}

/* Of several workers that fail one after the other the first is to blame. */
static void test_the_first_of_several(void **state)
{
	const struct proc_record all[] = {
		process(10, 1, 1, 20, 1),
		process(11, 10, 2, 15, 1),
		process(12, 10, 2, 12, 1),
		process(13, 10, 2, 13, -SIGTERM),
	};

	(void)state;
	assert_int_equal(first_failed(all, 4), 12);
}

#define MS UINT64_C(1000000)

static void test_a_parent_that_goes_on(void **state)
{
	/* It had handled that failure; but not where it only waited for another child. */
	const struct proc_record all[] = {
		process(10, 1, 1, 1000 * MS, 1),
		process(11, 10, 2, 500 * MS, 1),
		process(12, 10, 2, 990 * MS, 0),
	};

	(void)state;
	assert_int_equal(first_failed(all, 2), 0);
	assert_int_equal(first_failed(all, 3), 11);
}

/* A script ends its server, or the reader of a pipe its writer, and fails for something else. */
static void test_helpers_are_ended_by_signals(void **state)
{
	static const int signals[] = { SIGTERM, SIGKILL, SIGPIPE, SIGINT };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct proc_record all[] = { process(10, 1, 1, 20, 3),
						   process(11, 10, 2, 15, -signals[i]) };
		const struct proc_record passed[] = { process(10, 1, 1, 20, 128 + signals[i]),
						      process(11, 10, 2, 15, -signals[i]) };

		assert_int_equal(first_failed(all, 2), 0);
		assert_int_equal(first_failed_of(all, 2, true), 11);
		assert_int_equal(first_failed(passed, 2), 11);
	}
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
	const struct proc_record all[] = { process(10, 1, 1, 20, UNSEEN),
					   process(11, 10, 2, 15, 1) };
	const struct proc_record child[] = { process(10, 1, 1, 20, 1),
					     process(11, 10, 2, 15, UNSEEN) };

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
		cmocka_unit_test(test_the_first_of_several),
		cmocka_unit_test(test_a_parent_that_goes_on),
		cmocka_unit_test(test_helpers_are_ended_by_signals),
		cmocka_unit_test(test_numbers_are_used_again),
		cmocka_unit_test(test_what_is_not_known_is_not_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
