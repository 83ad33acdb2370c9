#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/calls.h"

static const struct rpc_value_limits limits = { .max_depth = 16, .max_values = 1000 };

static void add(struct counted_calls *calls, pid_t pid, uint64_t start, const char *name,
		uint64_t n)
{
	const struct syscall_use use = { name, n, 1, 10 * n, U64_UNKNOWN };
	const struct proc_key key = { pid, start };

	call_sums_add(&calls->sums, &use, 1);
	process_calls_add(&calls->processes, &key, &use, 1);
}

static int carry_over(struct counted_calls *from, struct counted_calls *to)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rpc_value *v = NULL;
	struct json j;
	int r;

	json_init(&j, &text);
	json_begin_object(&j);
	counted_calls_write(&j, from);
	json_end_object(&j);
	assert_int_equal(rpc_value_parse(text.data, text.len, &limits, &v, NULL), 0);
	r = counted_calls_read(v, to);
	rpc_value_free(v);
	return r;
}

static void test_from_the_daemon_to_the_record(void **state)
{
	CLEANUP(counted_calls_release) struct counted_calls here = { .processes.max_bytes = 1000 };
	CLEANUP(counted_calls_release) struct counted_calls there = { .processes.max_bytes = 1000 };
	struct proc_record processes[3];
	struct attempt a;

	(void)state;
	add(&here, 7, 70, "read", 5);
	add(&here, 7, 71, "write", 6); /* the pid was used again */
	add(&here, 8, 80, "read", 2);
	here.lost.calls = 3;
	assert_int_equal(carry_over(&here, &there), 0);
	attempt_init(&a);
	for (size_t i = 0; i < ARRAY_SIZE(processes); i++)
		proc_record_init(&processes[i]);
	processes[0].key = (struct proc_key){ 7, 71 };
	processes[1].key = (struct proc_key){ 8, U64_UNKNOWN }; /* no sample saw it */
	processes[2].key = (struct proc_key){ 9, 90 };
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	counted_calls_keep(&there, NULL, &a);
	assert_int_equal(a.details.n_syscalls, 2);
	assert_string_equal(a.details.syscalls[0].name, "read");
	assert_int_equal(a.details.syscalls[0].count, 7);
	assert_int_equal(a.details.syscalls[0].cpu_ns, 70);
	assert_false(u64_known(a.details.syscalls[0].wait_ns));
	assert_string_equal(processes[0].syscalls, "write 6 1 60 -");
	assert_string_equal(processes[1].syscalls, "read 2 1 20 -");
	assert_null(processes[2].syscalls);
	attempt_release(&a);
}

static void test_what_is_missing_is_said(void **state)
{
	CLEANUP(counted_calls_release) struct counted_calls here = { .processes.max_bytes = 20 };
	CLEANUP(counted_calls_release) struct counted_calls there = { .processes.max_bytes = 1000 };
	CLEANUP(buf_release) struct buf why = BUF_INIT;

	(void)state;
	add(&here, 7, 70, "read", 5);
	add(&here, 8, 80, "read", 2);
	here.lost = (struct syscalls_lost){ .calls = 3, .threads = 2 };
	assert_int_equal(carry_over(&here, &there), 0);
	counted_calls_say_missing(&there, &why);
	assert_string_equal(why.data, "3 calls or more found no room to be counted in; "
				      "2 threads could not be counted all the time; "
				      "those of 1 process are in the sums alone");
	buf_reset(&why);
	there.lost = (struct syscalls_lost){ 0 };
	there.processes.n_untold = 0;
	there.n_withheld = 0;
	counted_calls_say_missing(&there, &why);
	assert_string_equal(why.data, "");
}

static void test_what_is_for_root_is_not_told(void **state)
{
	CLEANUP(counted_calls_release) struct counted_calls here = { .processes.max_bytes = 1000 };
	CLEANUP(counted_calls_release) struct counted_calls there = { .processes.max_bytes = 1000 };
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	const struct syscall_use use = { "read", 5, 0, 50, 0 };

	(void)state;
	counted_calls_withhold(&here,
			       &(struct syscall_process){ .pid = 7, .uses = &use, .n_uses = 1 });
	/* Of those that nobody could tell apart it is not known whose they are. */
	counted_calls_withhold(&here,
			       &(struct syscall_process){ .pid = 0, .uses = &use, .n_uses = 1 });
	assert_int_equal(carry_over(&here, &there), 0);
	assert_int_equal(there.sums.n, 0);
	assert_int_equal(there.processes.n, 0);
	counted_calls_say_missing(&there, &why);
	assert_string_equal(
		why.data,
		"5 calls or more found no room to be counted in; those of 1 process are in "
		"no sum: not this user's alone, as programs that are set-user-ID, they are "
		"not told, and kept nowhere");
}

static void test_the_error_of_sampled_times_is_said(void **state)
{
	CLEANUP(counted_calls_release)
	struct counted_calls here = { .processes.max_bytes = 1000, .time_every = 16 };
	CLEANUP(counted_calls_release) struct counted_calls there = { .processes.max_bytes = 1000 };
	CLEANUP(buf_release) struct buf error = BUF_INIT;
	const struct syscall_use uses[] = { { "read", 100, 0, 1000, 0 },
					    { "poll", 5, 0, U64_UNKNOWN, U64_UNKNOWN },
					    { "clone", 2, 0, U64_UNKNOWN, U64_UNKNOWN } };
	const struct syscall_process p = {
		.pid = 7, .start_ticks = 70, .uses = uses, .n_uses = 3, .time_variance_ns2 = 400
	};

	(void)state;
	counted_calls_add(&here, &p);
	assert_int_equal(carry_over(&here, &there), 0);
	counted_calls_say_error(&there, &error);
	assert_string_equal(error.data,
			    "times are of one call in 16, by chance: one standard error "
			    "of all time on a CPU is 2 %; 7 calls, all of 2 kinds, were never "
			    "timed and are not in it; how far waiting is off is not known");
	buf_reset(&error);
	there.time_every = 1;
	counted_calls_say_error(&there, &error);
	assert_string_equal(error.data, "");
}

static void test_what_is_no_such_object(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"syscalls\":\"\",\"lost\":0}",
		"{\"syscalls\":\"read x\",\"lost\":0,\"untold_processes\":0}",
		"{\"syscalls\":\"\",\"lost\":-1,\"untold_processes\":0}",
		"{\"syscalls\":\"\",\"lost\":0,\"untold_processes\":0,\"processes\":[{\"pid\":0}]}",
		"{\"syscalls\":\"\",\"lost\":0,\"untold_processes\":0,\"processes\":[{\"pid\":4294967303,"
		"\"start_ticks\":1,\"syscalls\":\"\"}]}",
		"{\"syscalls\":\"\",\"lost\":0,\"untold_processes\":0,\"processes\":[{\"pid\":7,"
		"\"start_ticks\":1,\"syscalls\":\"<b>\"}]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CLEANUP(counted_calls_release)
		struct counted_calls there = { .processes.max_bytes = 1000 };
		struct rpc_value *v = NULL;

		assert_int_equal(rpc_value_parse(bad[i], strlen(bad[i]), &limits, &v, NULL), 0);
		if (counted_calls_read(v, &there) != -EBADMSG)
			fail_msg("%s was taken", bad[i]);
		rpc_value_free(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from_the_daemon_to_the_record),
		cmocka_unit_test(test_what_is_missing_is_said),
		cmocka_unit_test(test_what_is_for_root_is_not_told),
		cmocka_unit_test(test_the_error_of_sampled_times_is_said),
		cmocka_unit_test(test_what_is_no_such_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
