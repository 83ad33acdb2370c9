/*
 * Who uses no GPU, and of whom that cannot be said.
 */
#include "nvml_fixture.h"

#define SHELL_PID 90

static void put_process(int pid)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "proc/%d", pid);
	mkdirat(fixture.root_fd, path, 0700);
	snprintf(path, sizeof(path), "proc/%d/fd", pid);
	mkdirat(fixture.root_fd, path, 0700);
	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	snprintf(text, sizeof(text),
		 "%d (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0 0 0 0 0 0 0 0 0 "
		 "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		 pid);
	put(path, text);
}

/* What a run sees of its two processes, once the reader has answered. */
static void see_both(struct snapshot *s)
{
	struct gpus_options options = reader_options();
	struct gpus *g = NULL;

	put("dev/nvidiactl", "");
	snapshot_init(s);
	snapshot_add_process(s)->key = (struct proc_key){ SHELL_PID, 7 };
	snapshot_add_process(s)->key = (struct proc_key){ HOLDER_PID, 7 };
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 60000);
	s->boot_ns = clock_boot_ns();
	gpus_fill(g, s);
	gpus_fill_processes(g, s, false);
	gpus_close(g);
	await_all();
}

static int add_shell(void **state)
{
	put_process(SHELL_PID);
	return all_is_well(state);
}

/* No driver answers, and the kernel does: who has no device file open uses no GPU. */
static void test_who_holds_one_without_rights(void **state)
{
	struct snapshot s;

	(void)state;
	fixture.told->init_result = NVML_NO_PERMISSION;
	see_both(&s);
	assert_int_equal(s.n_gpus, 0);
	assert_int_equal(s.processes[0].gpu_memory_bytes, 0);
	assert_true(s.processes[0].gpu_percent == 0);
	assert_false(u64_known(s.processes[1].gpu_memory_bytes));
	assert_true(isnan(s.processes[1].gpu_percent));
	snapshot_release(&s);
}

/* Nor does the kernel: then nobody is said to use none. */
static void test_holders_that_cannot_be_found(void **state)
{
	struct snapshot s;

	(void)state;
	fixture.told->init_result = NVML_NO_PERMISSION;
	assert_int_equal(renameat(fixture.root_fd, "proc", fixture.root_fd, "hidden"), 0);
	see_both(&s);
	assert_int_equal(renameat(fixture.root_fd, "hidden", fixture.root_fd, "proc"), 0);
	for (int i = 0; i < 2; i++) {
		assert_false(u64_known(s.processes[i].gpu_memory_bytes));
		assert_true(isnan(s.processes[i].gpu_percent));
	}
	snapshot_release(&s);
}

/* What is on the lost one cannot be told: no sum, but of who holds none. */
static void test_who_holds_one_that_is_lost(void **state)
{
	struct snapshot s;

	(void)state;
	assert_int_equal(symlinkat("/dev/nvidia1", fixture.root_fd, "proc/100/fd/4"), 0);
	assert_int_equal(symlinkat("/dev/nvidia2", fixture.root_fd, "proc/100/fd/5"), 0);
	fixture.told->use_result[1] = NVML_GPU_IS_LOST;
	see_both(&s);
	unlinkat(fixture.root_fd, "proc/100/fd/4", 0);
	unlinkat(fixture.root_fd, "proc/100/fd/5", 0);
	assert_int_equal(s.n_gpus, STAND_IN_GPUS);
	assert_int_equal(s.processes[0].gpu_memory_bytes, 0);
	assert_true(s.processes[0].gpu_percent == 0);
	assert_false(u64_known(s.processes[1].gpu_memory_bytes));
	assert_true(isnan(s.processes[1].gpu_percent));
	snapshot_release(&s);
}

/* One that has the files of the others alone is told of completely. */
static void test_who_holds_none_that_is_lost(void **state)
{
	struct snapshot s;

	(void)state;
	fixture.told->use_result[1] = NVML_GPU_IS_LOST;
	see_both(&s);
	assert_int_equal(s.processes[0].gpu_memory_bytes, 0);
	assert_int_equal(s.processes[1].gpu_memory_bytes, (STAND_IN_GPUS - 1) << 20);
	assert_true(s.processes[1].gpu_percent == 40 * (STAND_IN_GPUS - 1));
	snapshot_release(&s);
}

/* Who was on it before is not told of completely, whatever files it holds. */
static void test_who_was_on_one_that_is_lost(void **state)
{
	struct gpu_users *users = calloc(1, sizeof(*users));
	void *driver = open_driver();
	struct gpu_reading *r = &fixture.reading;

	(void)state;
	assert_non_null(users);
	read_driver(driver, 0);
	gpu_find_left_out(fixture.root_fd, users, r);
	assert_int_equal(r->n_processes, STAND_IN_GPUS);
	fixture.told->use_result[1] = NVML_GPU_IS_LOST;
	for (int i = 0; i < 2; i++) {
		read_driver(driver, 0);
		gpu_find_left_out(fixture.root_fd, users, r);
		assert_int_equal(r->n_processes, STAND_IN_GPUS);
		assert_int_equal(r->processes[2].device, GPU_DEVICE_UNKNOWN);
		assert_int_equal(r->processes[2].key.pid, HOLDER_PID);
		assert_false(u64_known(r->processes[2].memory_bytes));
	}
	gpu_nvml.close(driver);
	free(users);
}

/* A process that is not known here says nothing of those that hold no device file. */
static void test_strangers_leave_others_known(void **state)
{
	struct snapshot s;

	(void)state;
	fixture.told->pid = 4242;
	see_both(&s);
	assert_int_equal(s.processes[0].gpu_memory_bytes, 0);
	assert_true(s.processes[0].gpu_percent == 0);
	assert_false(u64_known(s.processes[1].gpu_memory_bytes));
	snapshot_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_who_holds_one_without_rights, add_shell),
		cmocka_unit_test_setup(test_holders_that_cannot_be_found, add_shell),
		cmocka_unit_test_setup(test_who_holds_one_that_is_lost, add_shell),
		cmocka_unit_test_setup(test_who_holds_none_that_is_lost, add_shell),
		cmocka_unit_test_setup(test_who_was_on_one_that_is_lost, add_shell),
		cmocka_unit_test_setup(test_strangers_leave_others_known, add_shell),
	};

	return cmocka_run_group_tests_name("sources_gpu_holders", tests, open_all, close_all);
}
