#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alive.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/attached_sum.h"

static struct life_event make_end(enum life_type type, pid_t pid, uint64_t start, uint64_t cpu_ns)
{
	return (struct life_event){
		.type = type,
		.pid = pid,
		.parent_pid = 3,
		.wall_ns = 1000,
		.wait_status = 0x200,
		.start_ticks = start,
		.comm = "a\033b",
		.account = { .cpu_ns = cpu_ns,
			     .user_ns = cpu_ns,
			     .max_rss_bytes = type == LIFE_EXIT ? 4096 : U64_UNKNOWN,
			     .minor_faults = 1,
			     .major_faults = 2,
			     .rchar = 5,
			     .wchar = 6,
			     .read_bytes = 7,
			     .write_bytes = 8 },
	};
}

static void note(struct deaths *d, const struct life_event *ev)
{
	const struct job_member member = { .key = { ev->pid, ev->start_ticks },
					   .born_wall_ns = 900 };

	deaths_note(d, &member, ev, NULL);
}

static void test_a_last_word_that_does_not_come_is_counted(void **state)
{
	CLEANUP(deaths_release) struct deaths d = { 0 };
	const struct life_event own = make_end(LIFE_EXIT, getpid(), 90, 200);
	struct life_event end;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	end = make_end(LIFE_EXIT, pid, 70, 200);
	note(&d, &own); /* a zombie, or another by now */
	note(&d, &end);
	assert_int_equal(deaths_count_unaccounted(&d, 1000), 0); /* it may come yet */
	assert_int_equal(deaths_count_unaccounted(&d, 1001), 1);
	end.type = LIFE_ACCOUNT;
	deaths_complete(&d, &end);
	assert_int_equal(deaths_count_unaccounted(&d, 1001), 0);
}

static void test_into_the_record(void **state)
{
	CLEANUP(deaths_release) struct deaths d = { 0 };
	const struct life_event short_one = make_end(LIFE_EXIT, 8, 80, 300);
	const struct life_event seen = make_end(LIFE_EXIT, 7, 70, 200);
	struct life_event last = make_end(LIFE_ACCOUNT, 8, 80, 450);
	const struct life_event of_another = make_end(LIFE_ACCOUNT, 7, 71, 999);
	struct proc_record listed;
	struct attempt a;

	(void)state;
	note(&d, &short_one);
	note(&d, &seen);
	last.account.rchar = 55; /* a thread was in no sum yet */
	last.account.minor_faults = 3;
	last.account.major_faults = 1;
	deaths_complete(&d, &last);
	deaths_complete(&d, &of_another);
	attempt_init(&a);
	proc_record_init(&listed);
	listed.key = (struct proc_key){ 7, 70 };
	listed.command = "seen by a sample";
	listed.user_ns = 150;
	listed.system_ns = 0;
	listed.max_rss_bytes = 9000;
	a.processes = &listed;
	a.n_processes = 1;
	assert_int_equal(attached_sum_up(&d, &a, false), 0);
	assert_int_equal(a.usage.minor_faults, 1 + 3); /* as the last word has it */
	assert_int_equal(a.n_processes, 2);
	assert_string_equal(a.processes[0].command, "seen by a sample");
	assert_int_equal(a.processes[0].user_ns, 200);
	assert_int_equal(a.processes[0].cpu_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(a.processes[0].max_rss_bytes, 9000); /* a program before had more */
	assert_int_equal(a.processes[0].status.exit_code, 2);
	assert_int_equal(a.processes[1].key.pid, 8);
	assert_string_equal(a.processes[1].command, "a?b");
	assert_int_equal(a.processes[1].user_ns, 450);
	assert_int_equal(a.processes[1].cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(a.processes[1].max_rss_bytes, 4096);
	assert_int_equal(a.processes[1].evidence, EVIDENCE_EXACT);
	assert_int_equal(a.processes[1].write_bytes, 8);
	assert_int_equal(a.processes[1].rchar, 55);
	assert_int_equal(a.processes[1].major_faults, 2);
	assert_int_equal(a.processes[1].born_wall_ns, 900);
	assert_int_equal(a.processes[1].died_wall_ns, 1000);
	attempt_release(&a);
}

static void test_a_pid_that_is_used_again(void **state)
{
	CLEANUP(deaths_release) struct deaths d = { 0 };
	const struct life_event first = make_end(LIFE_EXIT, 7, 70, 1);
	const struct life_event second = make_end(LIFE_EXIT, 7, 71, 2);
	struct attempt a;

	(void)state;
	note(&d, &first);
	note(&d, &second);
	attempt_init(&a);
	assert_int_equal(attached_sum_up(&d, &a, false), 0);
	assert_int_equal(a.n_processes, 2);
	attempt_release(&a);
}

/* Both were sampled: neither is listed twice, whichever the last is. */
static void test_a_pid_that_was_seen_twice(void **state)
{
	CLEANUP(deaths_release) struct deaths d = { 0 };
	const struct life_event first = make_end(LIFE_EXIT, 7, 70, 100);
	struct life_event second = make_end(LIFE_EXIT, 7, 71, 200);
	struct proc_record listed[2];
	struct attempt a;

	(void)state;
	note(&d, &first);
	second.start_ticks = U64_UNKNOWN; /* then it is the last */
	note(&d, &second);
	attempt_init(&a);
	for (size_t i = 0; i < ARRAY_SIZE(listed); i++) {
		proc_record_init(&listed[i]);
		listed[i].key = (struct proc_key){ 7, 70 + i };
	}
	a.processes = listed;
	a.n_processes = ARRAY_SIZE(listed);
	assert_int_equal(attached_sum_up(&d, &a, false), 0);
	assert_int_equal(a.n_processes, 2);
	assert_int_equal(a.processes[0].user_ns, 100);
	assert_int_equal(a.processes[1].user_ns, 200);
	attempt_release(&a);
}

static void test_there_is_an_end_to_it(void **state)
{
	CLEANUP(deaths_release) struct deaths d = { 0 };

	(void)state;
	for (pid_t pid = 1; pid <= DEATHS_MAX + 5; pid++) {
		const struct life_event ev = make_end(LIFE_EXIT, pid, 1, 1);

		note(&d, &ev);
	}
	assert_int_equal(d.n, DEATHS_MAX);
	assert_int_equal(d.n_unlisted, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_last_word_that_does_not_come_is_counted),
		cmocka_unit_test(test_into_the_record),
		cmocka_unit_test(test_a_pid_that_is_used_again),
		cmocka_unit_test(test_a_pid_that_was_seen_twice),
		cmocka_unit_test(test_there_is_an_end_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
