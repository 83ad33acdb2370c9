/*
 * GPUs as a daemon tells of them, and whose processes use them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "model/snapshot.h"

#define TOLD                                                                                     \
	"{\"uptime_seconds\":1000.5,\"gpus\":[{\"index\":0,\"utilization_pct\":42.0,"            \
	"\"memory_used_mb\":100.0,\"memory_total_mb\":8000.0,\"temperature_c\":null,"            \
	"\"power_watts\":70.5,\"energy_joules\":12.0,\"sm_clock_mhz\":900.0,"                    \
	"\"throttle_reasons\":[\"thermal\",\"of_tomorrow\"],\"ecc_errors\":3,\"last_xid\":79},{" \
	"\"index\":1,\"utilization_pct\":null,\"throttle_reasons\":null,\"ecc_errors\":null}],"  \
	"\"processes\":[{\"pid\":20,\"start_ticks\":7,\"gpu_memory_mb\":1.5,\"gpu_pct\":40.0},"  \
	"{\"pid\":30,\"start_ticks\":8,\"gpu_memory_mb\":null,\"gpu_pct\":null},"                \
	"{\"pid\":40,\"start_ticks\":9,\"gpu_memory_mb\":5.0,\"gpu_pct\":1.0},"                  \
	"{\"pid\":99,\"start_ticks\":9,\"gpu_memory_mb\":5.0,\"gpu_pct\":1.0}]}"

static void add_process(struct snapshot *snap, pid_t pid, uint64_t start_ticks)
{
	struct proc_sample *p = snapshot_add_process(snap);

	assert_non_null(p);
	p->key = (struct proc_key){ .pid = pid, .start_ticks = start_ticks };
}

static void take(const char *text, struct snapshot *snap)
{
	CLEANUP(snapshot_release) struct snapshot told;
	struct json_cursor c;

	snapshot_init(&told);
	json_cursor_init(&c, text, strlen(text));
	assert_int_equal(snapshot_from_json(&c, &told), 0);
	cli_take_gpus(&told, snap);
}

static void test_devices(void **state)
{
	CLEANUP(snapshot_release) struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	take(TOLD, &snap);
	assert_int_equal(snap.n_gpus, 2);
	assert_true(snap.gpus[0].utilization_pct == 42 && snap.gpus[0].memory_used_mb == 100 &&
		    snap.gpus[0].memory_total_mb == 8000 && snap.gpus[0].power_watts == 70.5 &&
		    snap.gpus[0].energy_joules == 12 && snap.gpus[0].sm_clock_mhz == 900);
	assert_true(isnan(snap.gpus[0].temperature_c));
	assert_int_equal(snap.gpus[0].throttle, GPU_THROTTLE_THERMAL);
	assert_int_equal(snap.gpus[0].ecc_errors, 3);
	assert_int_equal(snap.gpus[0].last_xid, 79);
	assert_int_equal(snap.gpus[1].index, 1);
	assert_true(isnan(snap.gpus[1].utilization_pct) && isnan(snap.gpus[1].memory_used_mb));
	assert_false(u64_known(snap.gpus[1].throttle) || u64_known(snap.gpus[1].ecc_errors) ||
		     u64_known(snap.gpus[1].last_xid));
}

/* By pid and start: another that has the pid of one by now has nothing of it. */
static void test_processes(void **state)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	uint64_t after = 1001 * (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	snapshot_init(&snap);
	add_process(&snap, 10, 5);
	add_process(&snap, 20, 7);
	add_process(&snap, 30, 8);
	add_process(&snap, 40, 10);
	add_process(&snap, 50, after);
	add_process(&snap, 60, U64_UNKNOWN);
	take(TOLD, &snap);
	assert_false(u64_known(snap.processes[0].gpu_memory_bytes)); /* the daemon shows none */
	assert_int_equal(snap.processes[1].gpu_memory_bytes, 3 << 19);
	assert_true(snap.processes[1].gpu_percent == 40);
	assert_false(u64_known(snap.processes[2].gpu_memory_bytes));
	assert_true(isnan(snap.processes[2].gpu_percent));
	assert_false(u64_known(snap.processes[3].gpu_memory_bytes));
	for (size_t i = 4; i < snap.n_processes; i++) { /* it may have begun since */
		assert_false(u64_known(snap.processes[i].gpu_memory_bytes));
		assert_true(isnan(snap.processes[i].gpu_percent));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
