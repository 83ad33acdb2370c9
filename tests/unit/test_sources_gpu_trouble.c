/*
 * What is said of GPUs beside their figures: how far apart they were read, and what went wrong.
 */
#include "nvml_fixture.h"

#include "sources/gpu/gpu.h"

/* ---- how often ---- */

static void test_pace(void **state)
{
	const uint64_t second_ns = 1000000000;

	(void)state;
	assert_true(gpu_pause_seconds(5, 0) == 1);
	assert_true(gpu_pause_seconds(5, 20 * second_ns) == 1);
	assert_true(gpu_pause_seconds(5, 40 * second_ns) == 2);
	assert_true(gpu_pause_seconds(5, 1000 * second_ns) == 5);
	assert_true(gpu_pause_seconds(0.1, 1000 * second_ns) == 1);
}

/* What is told again is no other reading. */
static void test_readings_are_counted_as_asked(void **state)
{
	const uint64_t second_ns = 1000000000;
	struct gpu_pace pace = { 0 };
	char text[64];

	(void)state;
	assert_false(gpu_pace_tell(&pace, text, sizeof(text)));
	gpu_pace_add(&pace, 5 * second_ns);
	gpu_pace_add(&pace, 5 * second_ns);
	assert_true(gpu_pace_tell(&pace, text, sizeof(text)));
	assert_string_equal(text, "one alone");
	gpu_pace_add(&pace, 15 * second_ns);
	gpu_pace_add(&pace, 15 * second_ns);
	assert_true(gpu_pace_tell(&pace, text, sizeof(text)));
	assert_string_equal(text, "10.0 s apart");
	gpu_pace_add(&pace, 16 * second_ns);
	assert_true(gpu_pace_tell(&pace, text, sizeof(text)));
	assert_string_equal(text, "1.00 s to 10.0 s apart");
}

/* ---- what went wrong ---- */

/* A collector's look so many seconds after now. */
static void look_after(struct gpus *g, uint64_t seconds)
{
	struct snapshot snap;

	snapshot_init(&snap);
	snap.boot_ns = clock_boot_ns() + seconds * 1000000000;
	gpus_fill(g, &snap);
	snapshot_release(&snap);
}

/* How many a collector sees now, of which nothing is known but their numbers. */
static size_t count_dark(struct gpus *g)
{
	struct snapshot snap;
	size_t n = 0;

	snapshot_init(&snap);
	snap.boot_ns = clock_boot_ns();
	gpus_fill(g, &snap);
	for (size_t i = 0; i < snap.n_gpus; i++)
		n += snap.gpus[i].index == (int)i && isnan(snap.gpus[i].utilization_pct);
	snapshot_release(&snap);
	return n;
}

static void test_trouble_is_told(void **state)
{
	struct gpus_options options = reader_options();
	char text[256];
	struct gpus *g = NULL;

	(void)state;
	put("dev/nvidiactl", "");
	fixture.told->fail_path = name_file("fail");
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	assert_true(gpus_tell_trouble(g, text, sizeof(text)));
	assert_string_equal(text, "the run was over before they were read");
	gpus_wait(g, 20000);
	look_after(g, 0);
	assert_string_equal(gpus_rung(g), "NVML");
	assert_false(gpus_tell_trouble(g, text, sizeof(text)));
	assert_true(gpus_cpu_ns(g) > 0);
	put("fail", "");
	for (int left = 6000; gpus_rung(g) && left > 0; left--) {
		usleep(10000);
		look_after(g, 0);
	}
	assert_null(gpus_rung(g));
	assert_string_equal(gpus_note(g), "NVML cannot read a GPU: Unknown Error");
	assert_int_equal(count_dark(g), STAND_IN_GPUS);
	look_after(g, 5);
	assert_true(gpus_tell_trouble(g, text, sizeof(text)));
	assert_non_null(strstr(text, "NVML cannot read a GPU: Unknown Error (for "));
	assert_null(strstr(text, "something else"));
	look_after(g, 1000); /* what lasted longest is told */
	assert_true(gpus_tell_trouble(g, text, sizeof(text)));
	assert_non_null(strstr(text, "the drivers do not answer (for 99"));
	assert_non_null(strstr(text, ", something else for "));
	gpus_close(g);
	remove_file("fail");
	await_all();
}

/* What is odd leaves nothing unknown: it is said beside who answers. */
static void test_remark_is_no_trouble(void **state)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct gpus_options options = reader_options();
	struct rung rung = { SOURCES_RUNG_GPU, "none", "" };
	struct gpus *g = NULL;
	char text[256];

	(void)state;
	put("dev/nvidiactl", "");
	fixture.told->share = 104;
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 60000);
	look_after(g, 0);
	assert_false(gpus_tell_trouble(g, text, sizeof(text)));
	assert_non_null(gpus_note(g));
	gpus_tell_rung(g, &arena, &rung, 1);
	assert_string_equal(rung.rung, "NVML");
	assert_string_equal(rung.reason,
			    "process 100 is said to keep GPU 0 104 % busy: taken for 100 %");
	gpus_close(g);
	await_all();
}

static void check_none(void)
{
	struct gpus_options options = reader_options();
	struct gpus *g = NULL;
	struct snapshot s;
	char text[512];

	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 60000);
	snapshot_init(&s);
	snapshot_add_process(&s)->key = (struct proc_key){ 5, 5 };
	s.boot_ns = clock_boot_ns();
	gpus_fill(g, &s);
	gpus_fill_processes(g, &s, false);
	assert_non_null(s.gpus);
	assert_int_equal(s.n_gpus, 0);
	assert_int_equal(s.processes[0].gpu_memory_bytes, 0);
	assert_null(gpus_note(g));
	assert_false(gpus_tell_trouble(g, text, sizeof(text)));
	gpus_close(g);
	snapshot_release(&s);
}

/* The driver is loaded, and has found none: that is known, and no trouble. */
static void test_driver_without_gpus(void **state)
{
	static const struct {
		int init_result;
		const char *program;
	} cases[] = {
		{ NVML_OK, "#!/bin/sh\nexit 255\n" },
		{ NVML_OK, "#!/bin/sh\necho No devices were found; exit 6\n" },
		{ 999, "#!/bin/sh\necho No devices were found; exit 6\n" },
		{ 999, "#!/bin/sh\n" }, /* an empty list */
	};
	char *path = put_program();

	(void)state;
	unlinkat(fixture.root_fd, "proc/driver/nvidia/gpus/0000:01:00.0", 0);
	put("dev/nvidiactl", "");
	fixture.told->n_missing = STAND_IN_GPUS;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fixture.told->init_result = cases[i].init_result;
		put("nvidia-smi", cases[i].program);
		check_none();
	}
	remove_program(path);
}

/* What a driver says is shown, not obeyed. */
static void test_commands_to_the_terminal(void **state)
{
	struct gpus_options options = reader_options();
	char *path = put_program();
	struct gpus *g = NULL;

	(void)state;
	fixture.told->error_text = "\033[2Jgone\n";
	fixture.told->init_result = 999;
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 60000);
	assert_non_null(gpus_note(g));
	assert_ptr_equal(strstr(gpus_note(g), "NVML cannot begin: ?[2Jgone ;"), gpus_note(g));
	gpus_close(g);
	remove_program(path);
}

static void test_no_rights(void **state)
{
	struct gpus_options options = reader_options();
	char text[256];
	struct snapshot s;
	struct gpus *g = NULL;

	(void)state;
	put("dev/nvidiactl", "");
	snapshot_init(&s);
	fixture.told->init_result = NVML_NO_PERMISSION;
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 20000);
	s.boot_ns = clock_boot_ns();
	gpus_fill(g, &s);
	assert_non_null(s.gpus); /* none, which is not unknown */
	assert_int_equal(s.n_gpus, 0);
	assert_null(gpus_rung(g));
	assert_null(gpus_note(g));
	assert_false(gpus_tell_trouble(g, text, sizeof(text)));
	gpus_close(g);
	snapshot_release(&s);
	await_all();
}

static void test_silence_is_told(void **state)
{
	struct gpus_options options = reader_options();
	char text[256];
	struct gpus *g = NULL;

	(void)state;
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 20000);
	look_after(g, 100); /* no reading has come for so long */
	assert_true(gpus_tell_trouble(g, text, sizeof(text)));
	assert_non_null(strstr(text, "the drivers do not answer (for 10"));
	gpus_close(g);
	await_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_readings_are_counted_as_asked),
		cmocka_unit_test_setup(test_trouble_is_told, all_is_well),
		cmocka_unit_test_setup(test_remark_is_no_trouble, all_is_well),
		cmocka_unit_test_setup(test_driver_without_gpus, all_is_well),
		cmocka_unit_test_setup(test_commands_to_the_terminal, all_is_well),
		cmocka_unit_test_setup(test_no_rights, all_is_well),
		cmocka_unit_test_setup(test_silence_is_told, all_is_well),
	};

	return cmocka_run_group_tests_name("sources_gpu_trouble", tests, open_all, close_all);
}
