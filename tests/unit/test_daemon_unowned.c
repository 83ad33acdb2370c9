#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "daemon/signal_list.h"

#define SECOND UINT64_C(1000000000)

static struct life_event make(enum life_type type, pid_t pid, pid_t parent, uint64_t wall_ns)
{
	return (struct life_event){
		.type = type, .pid = pid, .parent_pid = parent, .wall_ns = wall_ns
	};
}

static void test_parents_are_known_for_a_while(void **state)
{
	CLEANUP(unowned_release) struct unowned u = { 0 };
	struct life_event birth = make(LIFE_FORK, 10, 9, 100 * SECOND);

	(void)state;
	unowned_note_birth(&u, &birth);
	assert_int_equal(unowned_parent(&u, 10), 9);
	assert_int_equal(unowned_parent(&u, 9), 0);
	birth = make(LIFE_FORK, 11, 10, 111 * SECOND);
	unowned_note_birth(&u, &birth);
	assert_int_equal(unowned_parent(&u, 10), 9);
	birth = make(LIFE_FORK, 12, 11, 122 * SECOND);
	unowned_note_birth(&u, &birth);
	assert_int_equal(unowned_parent(&u, 10), 0);
	assert_int_equal(unowned_parent(&u, 11), 10);
	birth = make(LIFE_FORK, 11, 5, 123 * SECOND);
	unowned_note_birth(&u, &birth);
	assert_int_equal(unowned_parent(&u, 11), 5);
}

static void test_forks_without_end(void **state)
{
	CLEANUP(unowned_release) struct unowned u = { 0 };

	(void)state;
	for (pid_t pid = 2; pid < 100000; pid++) {
		const struct life_event birth = make(LIFE_FORK, pid, 1, SECOND);

		unowned_note_birth(&u, &birth);
	}
	assert_true(u.parents[0].len + u.parents[1].len <= 20000);
	assert_int_equal(unowned_parent(&u, 99999), 1);
}

static bool take_even(void *ctx, const struct life_event *ev)
{
	size_t *n_asked = ctx;

	++*n_asked;
	return ev->pid % 2 == 0;
}

static void test_each_is_given_once(void **state)
{
	CLEANUP(unowned_release) struct unowned u = { 0 };
	size_t n_asked = 0;

	(void)state;
	for (pid_t pid = 1; pid <= 4; pid++) {
		const struct life_event ev = make(LIFE_SIGNAL, pid, 0, 100 * SECOND);

		unowned_keep(&u, &ev);
	}
	unowned_place(&u, 101 * SECOND, take_even, &n_asked);
	assert_int_equal(n_asked, 4);
	assert_int_equal(u.n, 2);
	unowned_place(&u, 102 * SECOND, take_even, &n_asked);
	assert_int_equal(n_asked, 6);
	unowned_place(&u, 120 * SECOND, take_even, &n_asked);
	assert_int_equal(u.n, 0);
	assert_int_equal(u.n_dropped, 0);
}

static void test_what_there_is_no_room_for_is_counted(void **state)
{
	CLEANUP(unowned_release) struct unowned u = { 0 };
	size_t n_asked = 0;

	(void)state;
	for (pid_t pid = 1; pid <= 2001; pid += 2) {
		const struct life_event ev = make(LIFE_SIGNAL, pid, 0, 100 * SECOND);

		unowned_keep(&u, &ev);
	}
	unowned_place(&u, 100 * SECOND, take_even, &n_asked);
	assert_int_equal(n_asked + u.n_dropped, 1001);
	assert_true(u.n_dropped > 0);
	assert_int_equal(u.items[u.n - 1].pid, 2001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parents_are_known_for_a_while),
		cmocka_unit_test(test_forks_without_end),
		cmocka_unit_test(test_each_is_given_once),
		cmocka_unit_test(test_what_there_is_no_room_for_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
