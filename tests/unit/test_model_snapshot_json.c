/*
 * Snapshots that come back from JSON, whole and odd.
 */
#include "scene_fixture.h"

#include "model/snapshot.h"

static void test_snapshot_from_json(void **state)
{
	static const struct syscall_use uses[] = { { "read", 30, 0, 100, 0 },
						   { "write", 7, 0, 300, 0 } };
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(snapshot_release) struct snapshot back;
	struct json_cursor c;
	struct json j;

	(void)state;
	snapshot_init(&snap);
	snapshot_init(&back);
	fill_host(&snap, 5);
	snap.processes[0].rank = 3;
	snap.processes[0].local_rank = 1;
	snap.processes[0].world_size = 8;
	snap.processes[0].ignores_sigchld = 1;
	snap.processes[0].attempt_id = 70;
	snap.processes[0].cpu_wait_ns = 3 * SECOND;
	snap.processes[0].start_wall_ns = NOON;
	snap.processes[0].cpu_ns = 5 * SECOND;
	snap.progress[0].attempt_id = 70;
	snap.progress[0].attempt_num = 2;
	snap.progress[0].uid = 1000;
	snap.processes[0].gpu_memory_bytes = 77 * MB;
	snap.processes[0].rss_bytes = 12345678; /* no whole MB */
	snap.processes[1].fd_limit = FD_LIMIT_UNLIMITED;
	snap.processes[2].syscalls = uses;
	snap.processes[2].n_syscalls = 2;
	snap.system.psi_io.some = (struct psi_line){ 12.5, 0, 0, 1 };
	json_init(&j, &text);
	snapshot_write_json(&j, &snap, SNAPSHOT_ALL);
	json_cursor_init(&c, text.data, text.len);
	assert_int_equal(snapshot_from_json(&c, &back), 0);
	assert_int_equal(back.n_processes, 5);
	assert_int_equal(back.wall_ns / 1000, snap.wall_ns / 1000);
	assert_int_equal(back.processes[0].key.pid, 10);
	assert_int_equal(back.processes[0].key.start_ticks, 10);
	assert_int_equal(back.processes[0].rank, 3);
	assert_int_equal(back.processes[0].local_rank, 1);
	assert_int_equal(back.processes[0].world_size, 8);
	assert_int_equal(back.processes[0].ignores_sigchld, 1);
	assert_int_equal(back.processes[1].ignores_sigchld, SIGCHLD_UNKNOWN);
	assert_int_equal(back.processes[0].attempt_id, 70);
	assert_int_equal(back.processes[1].attempt_id, 0);
	assert_int_equal(back.processes[0].cpu_wait_ns, 3 * SECOND);
	assert_int_equal(back.processes[0].cpu_ns, 5 * SECOND);
	assert_int_equal(back.processes[0].start_wall_ns, NOON);
	assert_int_equal(back.progress[0].attempt_id, 70);
	assert_int_equal(back.progress[0].attempt_num, 2);
	assert_int_equal(back.progress[0].uid, 1000);
	assert_int_equal(back.progress[1].attempt_num, 0);
	assert_false(u64_known(back.progress[1].uid)); /* not that of root */
	assert_int_equal(back.processes[0].rss_bytes, 12345678);
	assert_int_equal(back.processes[0].gpu_memory_bytes, 77 * MB);
	assert_true(!u64_known(back.processes[2].rchar));
	assert_true(back.processes[1].fd_limit == FD_LIMIT_UNLIMITED);
	assert_string_equal(back.processes[1].command, "python worker");
	assert_null(back.processes[4].job_id);
	assert_int_equal(back.n_progress, 2);
	assert_string_equal(back.progress[0].job_id, "train");
	assert_int_equal(back.progress[0].total_sheets, 4);
	assert_true(back.gpus == NULL);
	assert_string_equal(back.pressure_level, "none");
	assert_null(back.processes[0].syscalls); /* nobody counted */
	assert_int_equal(back.processes[2].n_syscalls, 2);
	assert_string_equal(back.processes[2].syscalls[1].name, "write");
	assert_int_equal(back.processes[2].syscalls[1].count, 7);
	assert_int_equal(back.processes[2].syscalls[1].cpu_ns, 750000000); /* a share of 1 s */
	assert_true(back.system.psi_io.some.avg10 == 12.5);
	assert_true(isnan(back.system.psi_cpu.some.avg10));
}

/* That there is no limit is another thing than not to know of one. */
static void test_limits_from_json(void **state)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	CLEANUP(snapshot_release) struct snapshot back;
	struct cgroup_sample cgroups[2];
	struct json_cursor c;
	struct json j;

	(void)state;
	snapshot_init(&snap);
	snapshot_init(&back);
	fill_host(&snap, 5);
	for (size_t i = 0; i < ARRAY_SIZE(cgroups); i++)
		cgroup_sample_init(&cgroups[i]);
	cgroups[0].path = "/a";
	cgroups[0].memory_max_bytes = MEMORY_UNLIMITED;
	cgroups[1].path = "/b";
	cgroups[1].memory_high_bytes = MEMORY_UNLIMITED;
	cgroups[1].memory_max_bytes = 512 * MB;
	snap.cgroups = cgroups;
	snap.n_cgroups = 2;
	json_init(&j, &text);
	snapshot_write_json(&j, &snap, SNAPSHOT_ALL);
	assert_non_null(strstr(text.data, "\"memory_max_mb\":null,\"memory_max_unlimited\":true"));
	json_cursor_init(&c, text.data, text.len);
	assert_int_equal(snapshot_from_json(&c, &back), 0);
	assert_int_equal(back.n_cgroups, 2);
	assert_true(back.cgroups[0].memory_max_bytes == MEMORY_UNLIMITED);
	assert_false(u64_known(back.cgroups[0].memory_high_bytes));
	assert_true(back.cgroups[1].memory_high_bytes == MEMORY_UNLIMITED);
	assert_int_equal(back.cgroups[1].memory_max_bytes, 512 * MB);
}

/* A text that ends anywhere, and members of other types, twice, or in another order. */
static void test_odd_snapshots(void **state)
{
	static const char odd[] =
		"{\"processes\":[3,{\"pid\":\"x\",\"command\":7,\"syscall_time_pct\":{\"read\":5},"
		"\"syscall_counts\":{\"read\":-1,\"write\":2},\"fd_limit\":\"unlimited\"}],"
		"\"gpus\":[{},{},{}],\"gpus\":[{\"index\":9}],"
		"\"job_progress\":[1,{\"job_id\":\"a\"}],\"job_progress\":[],\"psi_io\":[]}";
	CLEANUP(snapshot_release) struct snapshot back;
	struct json_cursor c;

	(void)state;
	snapshot_init(&back);
	for (size_t n = 0; n + 1 < sizeof(odd) - 1; n++) {
		CLEANUP(free_ptr) char *cut = strndup(odd, n);

		json_cursor_init(&c, cut, n);
		assert_int_equal(snapshot_from_json(&c, &back), -EINVAL);
	}
	json_cursor_init(&c, odd, sizeof(odd) - 1);
	assert_int_equal(snapshot_from_json(&c, &back), 0);
	assert_int_equal(back.n_processes, 2);
	assert_int_equal(back.processes[1].n_syscalls, 1);
	assert_true(back.processes[1].fd_limit == FD_LIMIT_UNLIMITED);
	assert_null(back.processes[1].command);
	assert_int_equal(back.n_gpus, 1);
	assert_int_equal(back.gpus[0].index, 9);
	assert_int_equal(back.n_progress, 0);
	json_cursor_init(&c, "[1]", 3);
	assert_int_equal(snapshot_from_json(&c, &back), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshot_from_json),
		cmocka_unit_test(test_limits_from_json),
		cmocka_unit_test(test_odd_snapshots),
	};

	return cmocka_run_group_tests_name("model_snapshot_json", tests, NULL, NULL);
}
