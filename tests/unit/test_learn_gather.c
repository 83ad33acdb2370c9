#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/learn.h"

#define MIB (UINT64_C(1024) * 1024)
#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)
#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* 100 s in which memory grows by 2 MB a second, seen every 5 s. */
struct past {
	struct attempt a;
	struct sheet_record sheets[3];
	struct series_point series[21];
	struct proc_record processes[2];
};

static void fill(struct past *past)
{
	struct attempt *a = &past->a;

	*past = (struct past){ 0 };
	attempt_init(a);
	a->id = 9;
	a->job_id = "nightly";
	a->attempt_num = 2;
	a->command = "nightly.yaml";
	a->argv_hash = 5;
	a->uid = 1000;
	a->host = "host";
	a->outcome = OUTCOME_FAILURE;
	a->started_wall_ns = START;
	a->ended_wall_ns = START + 100 * SECOND;
	a->total_sheets = 1;
	a->usage.wall_ns = 100 * SECOND;
	a->usage.user_ns = 30 * SECOND;
	a->usage.system_ns = 10 * SECOND;
	a->usage.cpu_evidence = EVIDENCE_EXACT;
	a->usage.peak_rss_bytes = 300 * MIB;
	a->usage.peak_rss_evidence = EVIDENCE_EXACT;
	a->usage.max_process_rss_bytes = 250 * MIB;
	a->usage.rchar = 3 * MIB;
	a->usage.wchar = 4 * MIB;
	a->usage.major_faults = 17;
	a->usage.spawn_count = 6;
	a->usage.spawn_evidence = EVIDENCE_EXACT;
	for (size_t i = 0; i < ARRAY_SIZE(past->series); i++)
		past->series[i] = (struct series_point){
			.wall_ns = START + i * 5 * SECOND,
			.sheet_num = i < 10 ? 1 : 2,
			.rss_bytes = (100 + 10 * i) * MIB,
		};
	a->details.series = past->series;
	a->details.n_series = ARRAY_SIZE(past->series);
	for (size_t i = 0; i < 2; i++) {
		proc_record_init(&past->processes[i]);
		past->processes[i].max_threads = 3 + i;
		past->processes[i].sheet_num = (int)i + 1;
	}
	a->processes = past->processes;
	a->n_processes = 2;
	for (int i = 0; i < 3; i++) {
		struct sheet_record *s = &past->sheets[i];

		s->num = i < 2 ? 1 : 2; /* the first was tried twice */
		s->try_num = i == 1 ? 2 : 1;
		s->command = i < 2 ? "make all" : "python3 train.py 7";
		s->outcome = i == 1 ? OUTCOME_SUCCESS : OUTCOME_FAILURE;
		s->started_wall_ns = START + (i == 2 ? 50 : 0) * SECOND;
		s->ended_wall_ns = s->started_wall_ns + 50 * SECOND;
		usage_init(&s->usage);
		s->usage.wall_ns = 50 * SECOND;
		s->usage.peak_rss_bytes = (uint64_t)(i + 1) * 100 * MIB;
	}
	a->usage.peak_gpu_bytes = 1502 * MIB;
	a->usage.gpu_busy_ns = 60 * SECOND;
	a->sheets = past->sheets;
	a->n_sheets = 1;
}

static void gather(struct past *past, const char *anomalies, struct run_list *list)
{
	struct gather g = { .attempt = &past->a };
	struct snapshot snap;

	snapshot_init(&snap);
	for (uint64_t i = 0; i < 3; i++) {
		snap.wall_ns = START + i * 50 * SECOND;
		snap.system.psi_memory.some.total_us = 1000 + i * 5000000;
		snap.system.psi_io.some.total_us = U64_UNKNOWN;
		snap.system.psi_cpu.some.total_us = 0;
		gather_add_snapshot(&g, &snap);
	}
	snapshot_release(&snap);
	assert_int_equal(gather_finish(&g, anomalies, list), 0);
}

static void test_one_sheet(void **state)
{
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	const struct run_record *run;
	struct past past;

	(void)state;
	fill(&past);
	gather(&past, "zombie", &list);
	assert_int_equal(list.n, 1);
	run = &list.items[0];
	assert_true(run->is_whole && run->sheet_num == 1 && run->attempt == 9);
	assert_string_equal(run->class.label, "make"); /* the command, not the file's name */
	assert_near(run->peak_rss_mb, 300, 0);
	assert_near(run->max_process_rss_mb, 250, 0);
	assert_near(run->cpu_seconds, 40, 1e-9);
	assert_near(run->wall_seconds, 100, 1e-9);
	assert_near(run->io_mb, 7, 1e-9);
	assert_near(run->spawn_count, 6, 0);
	assert_near(run->major_faults, 17, 0);
	assert_near(run->max_threads, 4, 0);
	assert_true(isnan(run->max_fds));
	assert_near(run->early_rss_mb[0], 110, 0);
	assert_near(run->early_rss_mb[2], 220, 0);
	assert_true(isnan(run->early_rss_mb[3]));   /* it did not live for 300 s */
	assert_true(isnan(run->rss_slope_mb_s[0])); /* two points are no slope */
	assert_near(run->rss_slope_mb_s[1], 2, 1e-9);
	assert_near(run->rss_slope_mb_s[2], 2, 1e-9);
	assert_near(run->memory_stall_pct, 10, 1e-9); /* 10 s of 100 */
	assert_true(isnan(run->io_stall_pct));
	assert_near(run->cpu_stall_pct, 0, 0);
	assert_near(run->gpu_memory_mb, 1502, 1e-9);
	assert_near(run->gpu_utilization_pct, 60, 1e-9);
	assert_string_equal(run->anomalies, "zombie");
	assert_null(run->syscalls);
}

static void test_several_sheets(void **state)
{
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	struct past past;

	(void)state;
	fill(&past);
	past.a.total_sheets = 2;
	past.a.n_sheets = 3;
	gather(&past, NULL, &list);
	assert_int_equal(list.n, 3); /* all of it, and the last try of each */
	assert_true(list.items[0].is_whole && list.items[0].sheet_num == 0);
	assert_string_equal(list.items[0].class.label, "make (2 sheets)");
	assert_null(list.items[0].anomalies);
	assert_false(list.items[1].is_whole);
	assert_int_equal(list.items[1].outcome, OUTCOME_SUCCESS);
	assert_near(list.items[1].peak_rss_mb, 200, 0);
	assert_int_equal(list.items[2].sheet_num, 2);
	assert_string_equal(list.items[2].class.label, "train.py");
	assert_near(list.items[2].early_rss_mb[1], 230, 0); /* its own points, from its start */
	assert_near(list.items[2].max_threads, 4, 0);
	assert_near(list.items[1].max_threads, 3, 0);
	assert_true(list.items[1].class.rungs[RUNG_EXACT] != list.items[2].class.rungs[RUNG_EXACT]);
}

/* Of their time on a CPU; a call that was not timed has none of it. */
static void test_calls_become_shares(void **state)
{
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	struct syscall_use uses[] = {
		{ .name = "read", .count = 5, .cpu_ns = 300, .wait_ns = 9000 },
		{ .name = "write", .count = 9, .cpu_ns = 100 },
		{ .name = "futex", .count = 7, .cpu_ns = U64_UNKNOWN },
	};
	struct past past;

	(void)state;
	fill(&past);
	past.a.details.syscalls = uses;
	past.a.details.n_syscalls = 3;
	gather(&past, NULL, &list);
	assert_string_equal(list.items[0].syscalls, "read 75 write 25 futex 0");
	uses[0].cpu_ns = uses[1].cpu_ns = U64_UNKNOWN; /* counted, and not timed */
	gather(&past, NULL, &list);
	assert_null(list.items[1].syscalls);
}

/* ---- shares as text ---- */

static void test_shares(void **state)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct syscall_share many[40], *read;
	char names[40][8];
	size_t n;

	(void)state;
	for (size_t i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "call%zu", i);
		many[i] = (struct syscall_share){ names[i], (double)i / 3 };
	}
	many[39].name = "a b"; /* no name of a call */
	run_write_shares(many, 40, &text);
	assert_int_equal(run_read_shares(text.data, &arena, &read, &n), 0);
	assert_int_equal(n, 31); /* the largest 32, but for that one */
	assert_string_equal(read[0].name, "call8");
	assert_true(read[0].pct == 8.0 / 3);
	assert_int_equal(run_read_shares("x 1 y z w", &arena, &read, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(run_read_shares(NULL, &arena, &read, &n), 0);
	assert_int_equal(n, 0);
	assert_true(run_has_anomaly("zombie memory_spike", "memory_spike"));
	assert_false(run_has_anomaly("zombie memory_spike", "memory"));
	assert_false(run_has_anomaly(NULL, "zombie"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_sheet),
		cmocka_unit_test(test_several_sheets),
		cmocka_unit_test(test_calls_become_shares),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
