/*
 * What the processes of a rank hold together, on made-up processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/rank_memory.h"

#define MIB (UINT64_C(1024) * 1024)
#define WORKERS 8

struct made {
	pid_t pid, ppid;
	const char *command;
	uint64_t anon_mib, file_mib, shmem_mib;
	uint64_t hwm_mib; /* 0: unknown */
	int rank;
};

static int keep(void *ctx, const struct rank_holding *h)
{
	((uint64_t *)ctx)[h->rank] = h->bytes;
	return 0;
}

/* What rank 0 holds at one more tick, in MiB. */
static uint64_t tick(struct rank_memory *m, const struct made *made, size_t n)
{
	uint64_t bytes[4] = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct proc_sample p;

		proc_sample_init(&p);
		p.key = (struct proc_key){ made[i].pid, (uint64_t)made[i].pid };
		p.ppid = made[i].ppid;
		p.command = made[i].command;
		p.rank = made[i].rank;
		p.sheet_num = 1;
		p.rss_anon_bytes = made[i].anon_mib * MIB;
		p.rss_file_bytes = made[i].file_mib * MIB;
		p.rss_shmem_bytes = made[i].shmem_mib * MIB;
		p.rss_bytes = p.rss_anon_bytes + p.rss_file_bytes + p.rss_shmem_bytes;
		p.hwm_bytes = made[i].hwm_mib ? made[i].hwm_mib * MIB : U64_UNKNOWN;
		assert_int_equal(rank_memory_add(m, &p), 0);
	}
	assert_int_equal(rank_memory_end_tick(m, keep, bytes), 0);
	return bytes[0] / MIB;
}

/* A parent of 1 GiB and its workers, each with so much of its own. */
static void make_workers(struct made *made, uint64_t own_mib)
{
	made[0] = (struct made){ .pid = 100, .ppid = 1, .command = "train", .anon_mib = 1024 };
	for (int i = 1; i <= WORKERS; i++)
		made[i] = (struct made){
			.pid = 100 + i, .ppid = 100, .command = "train", .anon_mib = 1024 + own_mib
		};
}

static void test_what_forks_share_counts_once(void **state)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	struct made made[1 + WORKERS];

	(void)state;
	make_workers(made, 0);
	assert_int_equal(tick(&m, made, 1), 1024);
	assert_int_equal(tick(&m, made, 1 + WORKERS), 1024);
	make_workers(made, 10); /* what they gain is their own */
	assert_int_equal(tick(&m, made, 1 + WORKERS), 1024 + 10 * WORKERS);
	assert_int_equal(tick(&m, made, 1 + WORKERS - 3), 1024 + 10 * (WORKERS - 3));
	assert_int_equal(tick(&m, made, 1), 1024);
}

static void test_what_the_parent_leaves_counts_once(void **state)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	struct made made[1 + WORKERS];

	(void)state;
	make_workers(made, 0);
	assert_int_equal(tick(&m, made, 1 + WORKERS), 1024);
	made[0].anon_mib = 24; /* it gives most of it back, and the workers still have it */
	assert_int_equal(tick(&m, made, 1 + WORKERS), 1024);
	assert_int_equal(tick(&m, made + 1, WORKERS), 1024); /* it is gone */
}

static void test_other_programs_share_nothing(void **state)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	struct made made[] = {
		{ .pid = 10, .command = "sh run", .anon_mib = 1, .file_mib = 2 },
		{ .pid = 11, .ppid = 10, .command = "train", .anon_mib = 500, .file_mib = 9 },
		{ .pid = 12, .ppid = 10, .command = "train", .anon_mib = 300, .file_mib = 9 },
	};

	(void)state;
	assert_int_equal(tick(&m, made, 3), 801 + 9);
}

/* Seen between fork() and exec() first. */
static void test_what_executes_has_left_it_behind(void **state)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	struct made made[] = {
		{ .pid = 10, .command = "train", .anon_mib = 400, .hwm_mib = 400 },
		{ .pid = 11, .ppid = 10, .command = "train", .anon_mib = 400, .hwm_mib = 400 },
	};

	(void)state;
	assert_int_equal(tick(&m, made, 2), 400);
	made[1].hwm_mib = 390; /* the kernel's own rounding */
	assert_int_equal(tick(&m, made, 2), 400);
	made[1] = (struct made){
		.pid = 11, .ppid = 10, .command = "tool", .anon_mib = 300, .hwm_mib = 300
	};
	assert_int_equal(tick(&m, made, 2), 700);
}

static void test_shared_memory_counts_once(void **state)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	struct made made[] = {
		{ .pid = 10, .command = "a", .anon_mib = 10, .shmem_mib = 700, .file_mib = 5 },
		{ .pid = 11, .command = "b", .anon_mib = 20, .shmem_mib = 600, .file_mib = 4 },
		{ .pid = 12, .command = "c", .anon_mib = 1000, .rank = 1 },
	};

	(void)state;
	assert_int_equal(tick(&m, made, 3), 30 + 700 + 5);
}

static void test_unknown_parts_leave_the_sum(void **state)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	uint64_t bytes[4] = { 0 };
	struct proc_sample p;

	(void)state;
	for (int i = 0; i < 2; i++) {
		proc_sample_init(&p);
		p.key = (struct proc_key){ 10 + i, 1 };
		p.rank = 0;
		p.rss_bytes = 7;
		assert_int_equal(rank_memory_add(&m, &p), 0);
	}
	assert_int_equal(rank_memory_end_tick(&m, keep, bytes), 0);
	assert_int_equal(bytes[0], 14);
	p.rss_bytes = U64_UNKNOWN;
	assert_int_equal(rank_memory_add(&m, &p), 0);
	assert_int_equal(rank_memory_end_tick(&m, keep, bytes), 0);
	assert_false(u64_known(bytes[0]));
}

/* Two processes of a rank: one with 7 bytes of its own, and one with so many that nobody tells
 * apart.
 */
static uint64_t hold_beside(uint64_t rss_bytes)
{
	CLEANUP(rank_memory_release) struct rank_memory m = RANK_MEMORY_INIT;
	uint64_t bytes[4] = { 0 };
	struct proc_sample p;

	proc_sample_init(&p);
	p.key = (struct proc_key){ 10, 1 };
	p.rank = 0;
	p.rss_bytes = p.rss_anon_bytes = 7;
	p.rss_file_bytes = p.rss_shmem_bytes = 0;
	assert_int_equal(rank_memory_add(&m, &p), 0);
	proc_sample_init(&p);
	p.key = (struct proc_key){ 11, 1 };
	p.rank = 0;
	p.rss_bytes = rss_bytes;
	assert_int_equal(rank_memory_add(&m, &p), 0);
	assert_int_equal(rank_memory_end_tick(&m, keep, bytes), 0);
	return bytes[0];
}

static void test_who_is_going_makes_it_unknown(void **state)
{
	(void)state;
	assert_false(u64_known(hold_beside(7)));
}

static void test_a_zombie_holds_nothing(void **state)
{
	(void)state;
	assert_int_equal(hold_beside(0), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_forks_share_counts_once),
		cmocka_unit_test(test_what_the_parent_leaves_counts_once),
		cmocka_unit_test(test_other_programs_share_nothing),
		cmocka_unit_test(test_what_executes_has_left_it_behind),
		cmocka_unit_test(test_shared_memory_counts_once),
		cmocka_unit_test(test_who_is_going_makes_it_unknown),
		cmocka_unit_test(test_a_zombie_holds_nothing),
		cmocka_unit_test(test_unknown_parts_leave_the_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
