/*
 * NVIDIA's library when things go wrong, which a real GPU does not do when asked: one that is
 * lost, lists that cannot be had, a driver that restarts. The real one is asked by tests/gpu.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "nvml_stand_in.h"
#include "sources/gpu.h"
#include "sources/gpu_nvml_abi.h"

#define HOLDER_PID 100

static struct fixture {
	char root[64]; /* with a proc of its own, in which a process holds a device */
	int root_fd;
	void *library;
	struct nvml_stand_in *told;
	struct gpu_reading reading;
} fixture;

static void put(const char *name, const char *text)
{
	int fd = openat(fixture.root_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* The driver asks for the library by its name, and gets the one of that name that is loaded. */
static void load_stand_in(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	struct nvml_stand_in *(*find)(void);

	assert_true(n > 0);
	path[n] = '\0';
	strcat(dirname(path), "/libnvidia-ml.so.1");
	fixture.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fixture.library)
		fail_msg("%s", dlerror());
	*(void **)&find = dlsym(fixture.library, "nvml_stand_in");
	assert_non_null(find);
	fixture.told = find();
}

static int open_all(void **state)
{
	static const char *const folders[] = { "proc", "proc/100", "proc/100/fd" };

	(void)state;
	load_stand_in();
	strcpy(fixture.root, "/tmp/proctor-nvml-XXXXXX");
	assert_non_null(mkdtemp(fixture.root));
	fixture.root_fd = open(fixture.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		assert_int_equal(mkdirat(fixture.root_fd, folders[i], 0700), 0);
	put("proc/100/stat",
	    "100 (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0 0 0 0 0 0 0 0 0 "
	    "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	assert_int_equal(symlinkat("/dev/nvidia0", fixture.root_fd, "proc/100/fd/3"), 0);
	return 0;
}

static int close_all(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", fixture.root);
	close(fixture.root_fd);
	dlclose(fixture.library);
	return system(command);
}

static int all_is_well(void **state)
{
	(void)state;
	*fixture.told = (struct nvml_stand_in){ .pid = HOLDER_PID };
	return 0;
}

static void *open_driver(void)
{
	struct err err = ERR_INIT;
	void *driver;

	if (gpu_nvml.open(fixture.root_fd, &driver, &err) < 0)
		fail_msg("%s", err.text);
	return driver;
}

static const struct gpu_reading *read_driver(void *driver, int want)
{
	struct err err = ERR_INIT;

	gpu_reading_init(&fixture.reading);
	assert_int_equal(gpu_nvml.read(driver, &fixture.reading, &err), want);
	assert_true((want < 0) == (err.text[0] != '\0'));
	return &fixture.reading;
}

static void test_all_is_well(void **state)
{
	void *driver = open_driver();
	const struct gpu_reading *r = read_driver(driver, 0);

	(void)state;
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(r->devices[2].utilization_pct == 12);
	assert_true(isnan(r->devices[2].memory_used_mb)); /* a function that this library lacks */
	assert_int_equal(r->n_processes, STAND_IN_GPUS);
	assert_int_equal(r->processes[0].key.pid, HOLDER_PID);
	assert_int_equal(r->processes[0].key.start_ticks, 7);
	assert_int_equal(r->processes[0].memory_bytes, 1 << 20);
	assert_true(r->processes[0].utilization_pct == 40);
	assert_int_equal(r->n_left_out, 0);
	gpu_nvml.close(driver);
}

/* The others are read on, under the numbers that they had. */
static void test_one_is_lost(void **state)
{
	void *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	fixture.told->use_result[1] = NVML_GPU_IS_LOST;
	for (int i = 0; i < 2; i++) {
		r = read_driver(driver, 0);
		assert_int_equal(r->n_devices, STAND_IN_GPUS);
		assert_true(isnan(r->devices[1].utilization_pct));
		assert_true(r->devices[2].utilization_pct == 12);
		assert_int_equal(r->n_processes, STAND_IN_GPUS - 1);
		assert_string_equal(r->note, "GPU 1 cannot be read: GPU is lost");
	}
	gpu_nvml.close(driver);
}

static void test_one_cannot_be_opened(void **state)
{
	const struct gpu_reading *r;
	struct err err = ERR_INIT;
	void *driver;

	(void)state;
	fixture.told->handle_result[0] = NVML_GPU_IS_LOST;
	driver = open_driver();
	r = read_driver(driver, 0);
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(isnan(r->devices[0].utilization_pct));
	assert_true(r->devices[1].utilization_pct == 11);
	assert_non_null(strstr(r->note, "GPU 0"));
	gpu_nvml.close(driver);
	for (int i = 0; i < STAND_IN_GPUS; i++)
		fixture.told->handle_result[i] = NVML_GPU_IS_LOST;
	assert_int_equal(gpu_nvml.open(fixture.root_fd, &driver, &err), -EIO);
	assert_string_equal(err.text, "NVML cannot open a GPU: GPU is lost");
}

/* Every question fails then, and whoever asked opens it anew. */
static void test_driver_restarts(void **state)
{
	void *driver = open_driver();

	(void)state;
	read_driver(driver, 0);
	fixture.told->use_result[0] = 999;
	read_driver(driver, -EIO);
	gpu_nvml.close(driver);
	fixture.told->use_result[0] = NVML_OK;
	driver = open_driver();
	assert_int_equal(read_driver(driver, 0)->n_processes, STAND_IN_GPUS);
	assert_int_equal(fixture.told->n_sessions, 2);
	gpu_nvml.close(driver);
}

/* A list that cannot be had is not an empty one. */
static void test_no_list(void **state)
{
	void *driver = open_driver();

	(void)state;
	fixture.told->list_result = NVML_INSUFFICIENT_SIZE;
	assert_true(read_driver(driver, 0)->n_left_out > 0);
	fixture.told->list_result = NVML_NOT_SUPPORTED;
	assert_int_equal(read_driver(driver, 0)->n_left_out, 0);
	fixture.told->list_result = NVML_OK;
	fixture.told->pid = 4242; /* whom nobody knows here */
	assert_int_equal(read_driver(driver, 0)->n_left_out, STAND_IN_GPUS);
	assert_int_equal(fixture.reading.n_processes, 0);
	gpu_nvml.close(driver);
}

static void test_shares(void **state)
{
	static const struct {
		int result;
		double share;
	} cases[] = {
		{ NVML_OK, 40 },
		{ NVML_NOT_FOUND, 0 }, /* nobody was busy */
		{ NVML_NOT_SUPPORTED, (double)NAN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		void *driver = open_driver();
		double got;

		fixture.told->shares_result = cases[i].result;
		got = read_driver(driver, 0)->processes[0].utilization_pct;
		assert_true(isnan(cases[i].share) ? isnan(got) : got == cases[i].share);
		gpu_nvml.close(driver);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_is_well, all_is_well),
		cmocka_unit_test_setup(test_one_is_lost, all_is_well),
		cmocka_unit_test_setup(test_one_cannot_be_opened, all_is_well),
		cmocka_unit_test_setup(test_driver_restarts, all_is_well),
		cmocka_unit_test_setup(test_no_list, all_is_well),
		cmocka_unit_test_setup(test_shares, all_is_well),
	};

	return cmocka_run_group_tests_name("sources_gpu_nvml", tests, open_all, close_all);
}
