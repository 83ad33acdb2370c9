#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/calls.h"

static void tell(struct process_calls *calls, pid_t pid, uint64_t start, const char *text)
{
	const struct proc_key key = { pid, start };

	process_calls_add_text(calls, &key, text, strlen(text));
}

static struct proc_sample *sample(struct snapshot *snap, pid_t pid, uint64_t start)
{
	struct proc_sample *p = snapshot_add_process(snap);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, start };
	return p;
}

/* One process in one look, of which the text is told; NULL: it is not. */
static struct proc_sample *look(struct process_calls *steps, struct snapshot *snap, uint64_t start,
				const char *text)
{
	CLEANUP(process_calls_release) struct process_calls now = { .max_bytes = 1000 };

	snapshot_reset(snap);
	sample(snap, 7, start);
	if (text)
		tell(&now, 7, start, text);
	process_calls_fill_steps(steps, &now, true, snap);
	return &snap->processes[0];
}

static void test_only_what_is_new(void **state)
{
	CLEANUP(process_calls_release) struct process_calls steps = { 0 };
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct proc_sample *p;

	(void)state;
	snapshot_init(&snap);
	p = look(&steps, &snap, 70, "read 5 1 100 9;write 2 0 50 -");
	assert_int_equal(p->n_syscalls, 2);
	assert_int_equal(p->syscalls[0].count, 5);
	p = look(&steps, &snap, 70, "read 5 1 100 9;write 9 3 70 -;futex 1 0 4 4");
	assert_int_equal(p->n_syscalls, 2);
	assert_string_equal(p->syscalls[0].name, "write");
	assert_int_equal(p->syscalls[0].count, 7);
	assert_int_equal(p->syscalls[0].errors, 3);
	assert_int_equal(p->syscalls[0].cpu_ns, 20);
	assert_false(u64_known(p->syscalls[0].wait_ns));
	assert_string_equal(p->syscalls[1].name, "futex");
	p = look(&steps, &snap, 70, "read 5 1 100 9;write 9 3 70 -;futex 1 0 4 4");
	assert_non_null(p->syscalls); /* nothing, which is known */
	assert_int_equal(p->n_syscalls, 0);
}

static void test_only_what_has_changed_is_told(void **state)
{
	CLEANUP(process_calls_release) struct process_calls steps = { 0 };
	CLEANUP(process_calls_release) struct process_calls now = { .max_bytes = 1000 };
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct proc_sample *p;

	(void)state;
	snapshot_init(&snap);
	look(&steps, &snap, 70, "read 5 0 1 1");
	snapshot_reset(&snap);
	sample(&snap, 7, 70);
	sample(&snap, 8, 80);
	process_calls_fill_steps(&steps, &now, false, &snap);
	assert_non_null(snap.processes[0].syscalls); /* none, which is known */
	assert_int_equal(snap.processes[0].n_syscalls, 0);
	assert_null(snap.processes[1].syscalls); /* nothing was ever told of it */
	p = look(&steps, &snap, 70, "read 8 0 1 1");
	assert_int_equal(p->syscalls[0].count, 3);
}

static void test_what_was_not_told_comes_later(void **state)
{
	CLEANUP(process_calls_release) struct process_calls steps = { 0 };
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct proc_sample *p;

	(void)state;
	snapshot_init(&snap);
	look(&steps, &snap, 70, "read 5 0 1 1");
	p = look(&steps, &snap, 70, NULL);
	assert_null(p->syscalls); /* unknown, not none */
	p = look(&steps, &snap, 70, "read 8 0 1 1");
	assert_int_equal(p->syscalls[0].count, 3);
}

static void test_another_count_begins_anew(void **state)
{
	CLEANUP(process_calls_release) struct process_calls steps = { 0 };
	CLEANUP(snapshot_release) struct snapshot snap;
	const struct proc_sample *p;

	(void)state;
	snapshot_init(&snap);
	look(&steps, &snap, 70, "read 5 0 100 1");
	p = look(&steps, &snap, 70, "read 4 0 10 1"); /* by a daemon that came later */
	assert_int_equal(p->syscalls[0].count, 4);
	assert_int_equal(p->syscalls[0].cpu_ns, 10);
	p = look(&steps, &snap, 71, "read 6 0 20 1"); /* the pid was used again */
	assert_int_equal(p->syscalls[0].count, 6);
	p = look(&steps, &snap, 71, "read 7 0 15 1"); /* an estimate that went down */
	assert_int_equal(p->syscalls[0].count, 1);
	assert_false(u64_known(p->syscalls[0].cpu_ns));
}

static void test_each_its_own(void **state)
{
	CLEANUP(process_calls_release) struct process_calls steps = { 0 };
	CLEANUP(process_calls_release) struct process_calls now = { .max_bytes = 1000 };
	CLEANUP(snapshot_release) struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	sample(&snap, 3, 30);
	sample(&snap, 7, 70);
	sample(&snap, 9, 90);
	tell(&now, 9, 90, "write 2 0 1 1");
	tell(&now, 3, 30, "read 1 0 1 1");
	tell(&now, 9, 89, "read 99 0 1 1"); /* one that had the pid before */
	process_calls_fill_steps(&steps, &now, true, &snap);
	assert_string_equal(snap.processes[0].syscalls[0].name, "read");
	assert_null(snap.processes[1].syscalls);
	assert_int_equal(snap.processes[2].n_syscalls, 1);
	assert_int_equal(snap.processes[2].syscalls[0].count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_what_is_new),
		cmocka_unit_test(test_only_what_has_changed_is_told),
		cmocka_unit_test(test_what_was_not_told_comes_later),
		cmocka_unit_test(test_another_count_begins_anew),
		cmocka_unit_test(test_each_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
