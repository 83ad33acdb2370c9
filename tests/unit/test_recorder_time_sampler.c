#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/time_sampler.h"

#define SECOND UINT64_C(1000000000)
#define BEGUN_BOOT (100 * SECOND)
#define BEGUN_WALL (1700000000 * SECOND)

/* At so many seconds after the beginning, when the process was started. No file of it can be read.
 */
static void look_at(struct time_sampler *s, pid_t pid, uint64_t at, double cpu, double cpu_wait,
		    char state)
{
	struct proc_sample p = {
		.key = { pid, 7 },
		.job_id = "job",
		.boot_ns = BEGUN_BOOT + at * SECOND,
		.age_seconds = (double)at,
		.cpu_ns = (uint64_t)(cpu * 1e9),
		.user_ns = (uint64_t)(cpu * 0.75e9),
		.system_ns = (uint64_t)(cpu * 0.25e9),
		.cpu_wait_ns = (uint64_t)(cpu_wait * 1e9),
		.threads = 1,
		.state = state,
	};
	const struct snapshot snap = { .processes = &p, .n_processes = 1 };

	time_sampler_add(s, -1, &snap);
}

static void look(struct time_sampler *s, uint64_t at, double cpu, double cpu_wait, char state)
{
	look_at(s, 1 << 22, at, cpu, cpu_wait, state);
}

static struct proc_record record_of(uint64_t died)
{
	struct proc_record p;

	proc_record_init(&p);
	p.key = (struct proc_key){ 1 << 22, 7 };
	p.born_wall_ns = BEGUN_WALL;
	p.died_wall_ns = BEGUN_WALL + died * SECOND;
	p.user_ns = 3 * SECOND;
	p.system_ns = SECOND;
	p.sheet_num = 1;
	return p;
}

static void cpu_time_and_waits_for_a_cpu_are_the_schedulers(void **state)
{
	CLEANUP(time_sampler_release) struct time_sampler s = { 0 };
	const struct proc_record p = record_of(10);
	struct time_ledger l;

	(void)state;
	look(&s, 2, 1, 0.5, 'R');
	look(&s, 8, 3, 2, 'S');
	time_sampler_get(&s, &p, BEGUN_WALL, BEGUN_BOOT, &l);
	assert_int_equal(l.evidence, EVIDENCE_SAMPLED);
	assert_int_equal(time_ledger_total(&l), 10 * SECOND); /* also behind the last look */
	assert_int_equal(l.ns[TIME_USER], 3 * SECOND);
	assert_int_equal(l.ns[TIME_SYSTEM], SECOND);
	assert_int_equal(l.ns[TIME_CPU_WAIT], 2 * SECOND);
	assert_int_equal(l.ns[TIME_UNKNOWN], 4 * SECOND); /* no look has shown what for */
}

static void one_that_is_always_ready_waits_for_a_cpu(void **state)
{
	CLEANUP(time_sampler_release) struct time_sampler s = { 0 };
	const struct proc_record p = record_of(10);
	struct time_ledger l;

	(void)state;
	for (uint64_t at = 1; at <= 10; at++)
		look(&s, at, 0.4 * (double)at, 0.1 * (double)at, 'R');
	time_sampler_get(&s, &p, BEGUN_WALL, BEGUN_BOOT, &l);
	assert_int_equal(l.ns[TIME_UNKNOWN], 0);
	assert_in_range(l.ns[TIME_CPU_WAIT], 6 * SECOND - 100, 6 * SECOND + 100);
}

static void of_one_between_two_looks_the_cpu_time_is_known(void **state)
{
	CLEANUP(time_sampler_release) struct time_sampler s = { 0 };
	struct proc_record p = record_of(10);
	struct time_ledger l;

	(void)state;
	time_sampler_get(&s, &p, BEGUN_WALL, BEGUN_BOOT, &l);
	assert_int_equal(l.ns[TIME_USER], 3 * SECOND);
	assert_int_equal(l.ns[TIME_UNKNOWN], 6 * SECOND);
	p.died_wall_ns = U64_UNKNOWN;
	time_sampler_get(&s, &p, BEGUN_WALL, BEGUN_BOOT, &l);
	assert_int_equal(l.evidence, EVIDENCE_UNKNOWN);
}

static void text_of(struct proc_record *p, uint64_t seconds, char text[100])
{
	snprintf(text, 100, "{\"evidence\":\"exact\",\"disk\":%llu}",
		 (unsigned long long)(seconds * SECOND));
	p->time = text;
}

/* What is counted exactly counts, unless it began late. */
static void exact_ledgers_count_where_they_are_whole(void **state)
{
	CLEANUP(time_sampler_release) struct time_sampler s = { 0 };
	struct proc_record processes[2] = { record_of(10), record_of(10) };
	struct sheet_record sheets[2] = { { .num = 1, .started_wall_ns = BEGUN_WALL },
					  { .num = 2, .started_wall_ns = BEGUN_WALL } };
	struct time_ledger all = { .evidence = EVIDENCE_EXACT }, l;
	char texts[2][100];
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.started_wall_ns = BEGUN_WALL;
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.sheets = sheets;
	a.n_sheets = ARRAY_SIZE(sheets);
	processes[1].sheet_num = 2;
	processes[1].key.pid++;
	look_at(&s, processes[1].key.pid, 9, 4, 0, 'S');
	text_of(&processes[0], 10, texts[0]);
	text_of(&processes[1], 2, texts[1]);
	all.ns[TIME_DISK] = 15 * SECOND; /* of these two, and of one that is not listed */
	time_sampler_keep(&s, BEGUN_BOOT, &all, &a);
	assert_true(time_ledger_read(a.sheets[0].usage.time, &l));
	assert_int_equal(l.evidence, EVIDENCE_EXACT);
	assert_int_equal(l.ns[TIME_DISK], 10 * SECOND);
	assert_true(time_ledger_read(a.sheets[1].usage.time, &l));
	assert_int_equal(l.evidence, EVIDENCE_SAMPLED);
	assert_int_equal(time_ledger_total(&l), 10 * SECOND);
	assert_true(time_ledger_read(a.usage.time, &l));
	assert_int_equal(l.evidence, EVIDENCE_SAMPLED);
	assert_int_equal(l.ns[TIME_DISK], 13 * SECOND);
	assert_int_equal(time_ledger_total(&l), 23 * SECOND);
	arena_release(&a.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_time_and_waits_for_a_cpu_are_the_schedulers),
		cmocka_unit_test(one_that_is_always_ready_waits_for_a_cpu),
		cmocka_unit_test(of_one_between_two_looks_the_cpu_time_is_known),
		cmocka_unit_test(exact_ledgers_count_where_they_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
