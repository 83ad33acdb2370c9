/* Ticks that wait to be stored: in order, bounded, and handed out a few at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/backlog.h"

static void add(struct backlog *b, uint64_t wall_ns)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct series_point point = { .wall_ns = wall_ns };
	const struct attempt a = { .id = 7, .job_id = "j" }, *attempts[] = { &a };

	snapshot_init(&snap);
	snap.wall_ns = wall_ns;
	backlog_add(b,
		    &(struct tick_record){ &snap, attempts, 1, &point, NULL, 0, TICK_BY_ADDRESS });
}

struct taker {
	uint64_t n, last_ns;
	uint64_t fail_at; /* this one; 0: none */
};

static int take(void *ctx, const struct tick_record *tick, struct err *err)
{
	struct taker *t = ctx;

	if (tick->snap->wall_ns == t->fail_at)
		return err_set(err, -EBUSY, "not now");
	assert_true(tick->snap->wall_ns > t->last_ns);
	assert_true(tick->points[0].wall_ns == tick->snap->wall_ns);
	assert_int_equal(tick->n_attempts, 1);
	assert_int_equal(tick->attempts[0]->id, 7);
	assert_string_equal(tick->attempts[0]->job_id, "j");
	assert_int_equal(tick->owner, TICK_BY_ID); /* pointers are others by now */
	t->last_ns = tick->snap->wall_ns;
	t->n++;
	return 0;
}

/* The time is always up: one each, until there are none. */
static void test_a_few_at_a_time(void **state)
{
	CLEANUP(backlog_release) struct backlog b = { 0 };
	struct taker t = { 0 };
	struct err err = ERR_INIT;

	(void)state;
	for (uint64_t i = 1; i <= 600; i++)
		add(&b, i);
	for (unsigned i = 1; i < 600; i++) {
		assert_int_equal(backlog_drain(&b, 1, take, &t, &err), 1);
		assert_int_equal(t.n, i);
	}
	assert_int_equal(backlog_drain(&b, 1, take, &t, &err), 0);
	assert_int_equal(t.n, 600);
	assert_int_equal(b.n, 0);
	assert_int_equal(backlog_drain(&b, 1, take, &t, &err), 0);
}

static void test_all_at_once(void **state)
{
	CLEANUP(backlog_release) struct backlog b = { 0 };
	struct taker t = { 0 };

	(void)state;
	for (uint64_t i = 1; i <= 10; i++)
		add(&b, i);
	assert_int_equal(backlog_drain(&b, U64_UNKNOWN, take, &t, NULL), 0);
	assert_int_equal(t.n, 10);
}

/* The one that failed is the first to be tried again. */
static void test_a_failure(void **state)
{
	CLEANUP(backlog_release) struct backlog b = { 0 };
	struct taker t = { .fail_at = 3 };
	struct err err = ERR_INIT;

	(void)state;
	for (uint64_t i = 1; i <= 5; i++)
		add(&b, i);
	assert_int_equal(backlog_drain(&b, U64_UNKNOWN, take, &t, &err), -EBUSY);
	assert_int_equal(t.n, 2);
	assert_int_equal(b.n, 3);
	t.fail_at = 0;
	assert_int_equal(backlog_drain(&b, U64_UNKNOWN, take, &t, &err), 0);
	assert_int_equal(t.n, 5);
}

static void test_the_oldest_go(void **state)
{
	CLEANUP(backlog_release) struct backlog b = { 0 };
	struct taker t = { .last_ns = 7 };

	(void)state;
	for (uint64_t i = 1; i <= BACKLOG_MAX_TICKS + 7; i++)
		add(&b, i);
	assert_int_equal(b.n_lost, 7);
	assert_int_equal(backlog_drain(&b, U64_UNKNOWN, take, &t, NULL), 0);
	assert_int_equal(t.n, BACKLOG_MAX_TICKS);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* However long the commands of the processes are, and however many calls they make. */
static void test_bytes_are_bounded(void **state)
{
	CLEANUP(backlog_release) struct backlog b = { 0 };
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct attempt a = { .id = 7, .job_id = "j" }, *attempts[] = { &a };
	struct syscall_use uses[40];
	char command[501];
	size_t before;

	(void)state;
	memset(command, 'x', sizeof(command) - 1);
	command[sizeof(command) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(uses); i++)
		uses[i] = (struct syscall_use){ .name = "a_system_call" };
	snapshot_init(&snap);
	for (int i = 0; i < 60; i++) {
		struct proc_sample *p = snapshot_add_process(&snap);

		p->job_id = "j";
		p->command = command;
		p->syscalls = uses;
		p->n_syscalls = ARRAY_SIZE(uses);
	}
	before = heap_bytes();
	for (uint64_t i = 1; i <= BACKLOG_MAX_TICKS; i++) {
		snap.wall_ns = i;
		backlog_add(&b, &(struct tick_record){ &snap, attempts, 1, NULL, NULL, 0, 0 });
	}
	assert_true(heap_bytes() - before < 2 * BACKLOG_MAX_BYTES);
	assert_true(b.n > 10);
	assert_int_equal(b.n + b.n_lost, BACKLOG_MAX_TICKS);
	assert_int_equal(b.last->snap.wall_ns, BACKLOG_MAX_TICKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_few_at_a_time),	  cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_a_failure),	  cmocka_unit_test(test_the_oldest_go),
		cmocka_unit_test(test_bytes_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
