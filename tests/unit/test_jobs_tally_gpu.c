/* How long GPUs were used, and held in vain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tally_fixture.h"

/* A shell that uses no GPU, and a process below it that may. */
static void gpu_tick(struct tally *t, struct snapshot *snap, uint64_t memory_bytes, double percent)
{
	struct series_point point;

	snap->boot_ns += SECOND;
	snap->processes[0].gpu_memory_bytes = 0;
	snap->processes[0].gpu_percent = 0;
	snap->processes[1].gpu_memory_bytes = memory_bytes;
	snap->processes[1].gpu_percent = percent;
	tally_snapshot(t, snap, 1, &point);
}

static void begin_gpu_job(struct tally *t, struct snapshot *snap)
{
	tally_begin_sheet(t, SECOND, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	add_sample(snap, 101, MB, MB, 0);
	add_sample(snap, 102, MB, MB, 0);
	snap->boot_ns = SECOND;
}

/* Which was asked once, and used none. */
static struct tally *gpu_job(void **state)
{
	struct tally *t = tally_of(state);
	struct snapshot *snap = snapshot_of(state);

	begin_gpu_job(t, snap);
	gpu_tick(t, snap, 0, 0);
	return t;
}

/* nvidia-smi tells who holds memory, and not how busy they are: nobody was idle. */
static void test_a_gpu_share_that_is_not_told_is_no_idleness(void **state)
{
	struct snapshot *snap = snapshot_of(state);
	struct tally *t = gpu_job(state);
	size_t n;

	gpu_tick(t, snap, 0, 0); /* before it takes the GPU */
	gpu_tick(t, snap, 0, 0);
	assert_int_equal(total(t, false).gpu_busy_ns, 0);
	gpu_tick(t, snap, MB, F64_UNKNOWN);
	gpu_tick(t, snap, U64_UNKNOWN, F64_UNKNOWN);
	gpu_tick(t, snap, 0, 0); /* after */
	assert_int_equal(total(t, false).gpu_busy_ns, U64_UNKNOWN);
	assert_int_equal(total(t, false).gpu_idle_ns, U64_UNKNOWN);
	assert_int_equal(total(t, false).peak_gpu_bytes, MB);
	assert_int_equal(tally_processes(t, &n)[0].gpu_busy_ns, 0);
	assert_int_equal(tally_processes(t, &n)[1].gpu_busy_ns, U64_UNKNOWN);
	assert_int_equal(tally_processes(t, &n)[0].gpu_idle_ns, 0);
	assert_int_equal(tally_processes(t, &n)[1].gpu_idle_ns, U64_UNKNOWN);
}

static void test_gpu_time_outlives_a_gap(void **state)
{
	struct snapshot *snap = snapshot_of(state);
	struct tally *t = gpu_job(state);

	gpu_tick(t, snap, MB, 50);
	gpu_tick(t, snap, U64_UNKNOWN, F64_UNKNOWN); /* the driver did not answer */
	gpu_tick(t, snap, MB, 0);
	assert_int_equal(total(t, false).gpu_busy_ns, SECOND / 2);
	assert_int_equal(total(t, false).gpu_idle_ns, SECOND);
	assert_int_equal(tally_gaps(t).gpu_ns, SECOND); /* which the sums lack */
}

/* What is held in vain is counted for each process and GPU, though others are busy. */
static void test_gpus_held_beside_a_busy_one(void **state)
{
	struct snapshot *snap = snapshot_of(state);
	struct tally *t = gpu_job(state);
	struct series_point point;
	size_t n;

	snap->boot_ns += SECOND;
	snap->processes[0].gpu_memory_bytes = MB; /* and does nothing, on one */
	snap->processes[0].gpu_idle_devices = F64_UNKNOWN;
	snap->processes[1].gpu_memory_bytes = 4 * MB;
	snap->processes[1].gpu_percent = 90;
	snap->processes[1].gpu_idle_devices = 3;
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(total(t, false).gpu_busy_ns, SECOND / 10 * 9);
	assert_int_equal(total(t, false).gpu_idle_ns, 4 * SECOND);
	assert_int_equal(tally_processes(t, &n)[0].gpu_idle_ns, SECOND);
	assert_int_equal(tally_processes(t, &n)[1].gpu_idle_ns, 3 * SECOND);
}

/* Who does nothing, and of whose memory nobody tells, may hold some in vain. */
static void test_memory_that_is_not_told_is_no_want_of_idleness(void **state)
{
	struct snapshot *snap = snapshot_of(state);
	struct tally *t = gpu_job(state);
	size_t n;

	snap->processes[1].gpu_idle_devices = 0; /* of the one GPU that it has */
	gpu_tick(t, snap, U64_UNKNOWN, 50);
	snap->processes[1].gpu_idle_devices = F64_UNKNOWN;
	gpu_tick(t, snap, U64_UNKNOWN, 0);
	gpu_tick(t, snap, U64_UNKNOWN, 0);
	assert_int_equal(total(t, false).gpu_busy_ns, SECOND / 2);
	assert_int_equal(total(t, false).gpu_idle_ns, U64_UNKNOWN);
	assert_int_equal(tally_processes(t, &n)[0].gpu_idle_ns, 0);
	assert_int_equal(tally_processes(t, &n)[1].gpu_idle_ns, U64_UNKNOWN);
	assert_int_equal(tally_gaps(t).gpu_idle_ns, 2 * SECOND);
	for (int i = 0; i < 3; i++)
		gpu_tick(t, snap, MB, 0); /* now the rest is the larger part */
	assert_int_equal(total(t, false).gpu_idle_ns, 3 * SECOND);
}

/* Of one of two nobody tells whether it holds memory: what is known of the other stands. */
static void test_gpus_held_beside_an_untold_one(void **state)
{
	struct snapshot *snap = snapshot_of(state);
	struct tally *t = gpu_job(state);
	struct series_point point;
	size_t n;

	snap->boot_ns += SECOND;
	snap->processes[0].gpu_memory_bytes = MB;
	snap->processes[0].gpu_percent = 0;
	snap->processes[0].gpu_idle_devices = 1;
	snap->processes[1].gpu_memory_bytes = U64_UNKNOWN;
	snap->processes[1].gpu_percent = 0;
	snap->processes[1].gpu_idle_devices = F64_UNKNOWN;
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(tally_processes(t, &n)[0].gpu_idle_ns, SECOND);
	assert_int_equal(tally_processes(t, &n)[1].gpu_idle_ns, U64_UNKNOWN);
	assert_int_equal(total(t, false).gpu_idle_ns, SECOND);
}

/* So many seconds nobody knows, then eight of half a GPU. */
static struct tally *gpu_job_told_late(void **state, int untold)
{
	struct tally *t = tally_of(state);
	struct snapshot *snap = snapshot_of(state);

	begin_gpu_job(t, snap);
	for (int i = 0; i <= untold; i++)
		gpu_tick(t, snap, U64_UNKNOWN, F64_UNKNOWN);
	for (int i = 0; i < 8; i++)
		gpu_tick(t, snap, MB, 50);
	return t;
}

/* A second before the first reading was like it; the silence of a driver is not. */
static void test_gpu_time_before_the_first_reading(void **state)
{
	struct tally *t = gpu_job_told_late(state, 1);

	assert_int_equal(total(t, false).gpu_busy_ns, 9 * SECOND / 2);
	assert_int_equal(tally_gaps(t).gpu_ns, 0);
}

static void test_gpu_silence_before_the_first_reading(void **state)
{
	struct tally *t = gpu_job_told_late(state, 4);

	assert_int_equal(total(t, false).gpu_busy_ns, 8 * SECOND / 2);
	assert_int_equal(tally_gaps(t).gpu_ns, 4 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TALLY_TEST(test_a_gpu_share_that_is_not_told_is_no_idleness),
		TALLY_TEST(test_gpu_time_outlives_a_gap),
		TALLY_TEST(test_gpus_held_beside_a_busy_one),
		TALLY_TEST(test_gpus_held_beside_an_untold_one),
		TALLY_TEST(test_memory_that_is_not_told_is_no_want_of_idleness),
		TALLY_TEST(test_gpu_time_before_the_first_reading),
		TALLY_TEST(test_gpu_silence_before_the_first_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
