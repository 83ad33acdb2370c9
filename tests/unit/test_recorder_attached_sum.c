#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/attached_sum.h"

static const struct deaths no_deaths;

static struct proc_record make_process(pid_t pid, uint64_t start, uint64_t user_ns, uint64_t rss)
{
	struct proc_record p;

	proc_record_init(&p);
	p.key = (struct proc_key){ pid, start };
	p.user_ns = user_ns;
	p.system_ns = 1;
	p.max_rss_bytes = rss;
	return p;
}

static struct proc_event make_event(enum event_type type, pid_t pid, uint64_t start, int exit_code)
{
	return (struct proc_event){
		.wall_ns = 50, .type = type, .key = { pid, start }, .status = { exit_code, -1 }
	};
}

static void test_what_was_seen_is_added_up(void **state)
{
	struct proc_record processes[] = { make_process(7, 70, 10, 100),
					   make_process(8, 80, 5, 300),
					   make_process(9, 90, U64_UNKNOWN, U64_UNKNOWN) };
	struct proc_event stored[] = { make_event(EVENT_SPAWN, 7, 70, -1),
				       make_event(EVENT_SPAWN, 8, 80, -1),
				       make_event(EVENT_EXIT, 8, 80, 3),
				       make_event(EVENT_SPAWN, 11, U64_UNKNOWN, -1),
				       make_event(EVENT_EXIT, 7, 71, 4), /* another's pid */
				       make_event(EVENT_EXIT, 9, U64_UNKNOWN, 5) };
	struct series_point series[] = { { 1, SHEET_NONE, 350, 20, 2 },
					 { 2, SHEET_NONE, 300, F64_UNKNOWN, 3 } };
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.started_wall_ns = 10;
	a.ended_wall_ns = 60;
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.events = stored;
	a.n_events = ARRAY_SIZE(stored);
	a.details.series = series;
	a.details.n_series = ARRAY_SIZE(series);
	assert_int_equal(attached_sum_up(&no_deaths, &a, false), 0);
	assert_int_equal(a.usage.wall_ns, 50);
	assert_int_equal(a.usage.user_ns, 15);
	assert_int_equal(a.usage.system_ns, 3);
	assert_int_equal(a.usage.cpu_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(a.usage.peak_rss_bytes, 350);
	assert_int_equal(a.usage.max_process_rss_bytes, 300);
	assert_int_equal(a.usage.peak_processes, 3);
	assert_true(a.usage.peak_cpu_percent == 20);
	assert_int_equal(a.usage.spawn_count, 3);
	assert_int_equal(a.usage.spawn_evidence, EVIDENCE_LOWER_BOUND);
	assert_false(u64_known(a.usage.read_bytes));
	assert_int_equal(a.processes[1].status.exit_code, 3);
	assert_int_equal(a.processes[1].died_wall_ns, 50);
	assert_int_equal(a.processes[2].status.exit_code, 5);
	assert_int_equal(a.processes[0].status.exit_code, -1);
	attempt_release(&a);
}

/* Never seen by anybody: nothing is known, which is not nothing. */
static void test_what_was_not_seen_is_unknown(void **state)
{
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.started_wall_ns = 10;
	a.ended_wall_ns = 60;
	assert_int_equal(attached_sum_up(&no_deaths, &a, true), 0);
	assert_false(u64_known(a.usage.user_ns));
	assert_false(u64_known(a.usage.peak_rss_bytes));
	assert_false(u64_known(a.usage.spawn_count));
	assert_int_equal(a.usage.cpu_evidence, EVIDENCE_UNKNOWN);
	attempt_release(&a);
}

/* What a process did has what those did that it has waited for: added up they would count twice. */
static void test_counts_are_added_once(void **state)
{
	struct proc_record processes[] = { make_process(7, 70, 10, 100),
					   make_process(8, 80, 5, 300) };
	struct series_point series[] = { { 1, SHEET_NONE, 50, 20, 2 } };
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.details.series = series;
	a.details.n_series = 1;
	processes[0].ppid = 1;
	processes[1].ppid = 7;
	processes[0].rchar = 1000;
	processes[1].rchar = 400;
	processes[0].write_bytes = 4096;
	processes[1].write_bytes = 4096;
	processes[0].major_faults = 1;
	processes[1].major_faults = 2;
	assert_int_equal(attached_sum_up(&no_deaths, &a, true), 0);
	assert_int_equal(a.usage.rchar, 1000);
	assert_int_equal(a.usage.write_bytes, 4096);
	assert_int_equal(a.usage.major_faults, 3);
	assert_int_equal(a.usage.io_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(a.usage.max_process_rss_bytes, 300);
	assert_int_equal(a.usage.peak_rss_bytes, 300); /* though the highest sum seen was less */
	assert_int_equal(a.usage.peak_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(attached_sum_up(&no_deaths, &a, false), 0);
	assert_false(u64_known(a.usage.rchar));
	attempt_release(&a);
}

/* Samples have seen little of them: all together they used half of the time. */
static void test_the_highest_is_not_below_the_average(void **state)
{
	const uint64_t second = 1000000000;
	struct proc_record processes[] = { make_process(7, 70, 9 * second, 100),
					   make_process(8, 80, second / 2, 300),
					   make_process(9, 90, second / 2, 300) };
	struct series_point series[] = { { 1, SHEET_NONE, 50, 20, 2 } };
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.started_wall_ns = 100 * second;
	a.ended_wall_ns = 102 * second;
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.details.series = series;
	a.details.n_series = 1;
	processes[0].born_wall_ns = second; /* long before: what it used then is none of it */
	processes[1].born_wall_ns = 100 * second - 200; /* it began with this one, reckoned twice */
	processes[2].born_wall_ns = 101 * second;
	assert_int_equal(attached_sum_up(&no_deaths, &a, true), 0);
	assert_true(a.usage.peak_cpu_percent >= 50 && a.usage.peak_cpu_percent < 50.1);
	attempt_release(&a);
}

/* What ended before it was attached is in no sum, however well the rest was told. */
static void test_nothing_is_called_exact(void **state)
{
	struct proc_record processes[] = { make_process(7, 70, 10, 100) };
	struct proc_event events[] = { make_event(EVENT_SPAWN, 7, 70, -1) };
	struct attempt a;

	(void)state;
	attempt_init(&a);
	processes[0].cpu_evidence = EVIDENCE_EXACT;
	processes[0].evidence = EVIDENCE_EXACT;
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.events = events;
	a.n_events = ARRAY_SIZE(events);
	assert_int_equal(attached_sum_up(&no_deaths, &a, true), 0);
	assert_int_equal(a.usage.cpu_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(a.usage.max_process_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(a.usage.spawn_evidence, EVIDENCE_LOWER_BOUND);
	attempt_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_are_added_once),
		cmocka_unit_test(test_the_highest_is_not_below_the_average),
		cmocka_unit_test(test_nothing_is_called_exact),
		cmocka_unit_test(test_what_was_seen_is_added_up),
		cmocka_unit_test(test_what_was_not_seen_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
