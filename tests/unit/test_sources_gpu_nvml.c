/*
 * NVIDIA's library when things go wrong, which a real GPU does not do when asked: one that is
 * lost, one that is refused, a driver that restarts. The real one is asked by tests/gpu.
 */
#include "nvml_fixture.h"

static void test_all_is_well(void **state)
{
	void *driver = open_driver();
	const struct gpu_reading *r = read_driver(driver, 0);

	(void)state;
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(r->devices[2].utilization_pct == 12);
	assert_true(r->devices[2].memory_used_mb == 3);	 /* by an older function */
	assert_true(isnan(r->devices[2].temperature_c)); /* one that this library lacks */
	assert_string_equal(r->names[2], "stand-in 2");
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
		assert_true(isnan(r->devices[1].utilization_pct) && r->devices[1].is_lost);
		assert_true(r->devices[2].utilization_pct == 12 && !r->devices[2].is_lost);
		assert_int_equal(r->n_processes, STAND_IN_GPUS - 1);
		assert_int_equal(r->n_left_out, 1); /* who holds it */
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
		fixture.told->handle_result[i] = 999;
	assert_int_equal(gpu_nvml.open(fixture.root_fd, NULL, &driver, &err), -EIO);
	assert_string_equal(err.text, "NVML cannot open a GPU: Unknown Error");
}

/* That all are lost is told of each, also by one that began after they were. */
static void test_all_are_lost(void **state)
{
	struct nvml *driver = open_driver();

	(void)state;
	for (int i = 0; i < STAND_IN_GPUS; i++)
		fixture.told->handle_result[i] = fixture.told->use_result[i] = NVML_GPU_IS_LOST;
	for (int time = 0; time < 2; time++) {
		const struct gpu_reading *r = read_driver(driver, 0);

		assert_int_equal(r->n_devices, STAND_IN_GPUS);
		for (int i = 0; i < STAND_IN_GPUS; i++)
			assert_true(r->devices[i].is_lost);
		assert_int_equal(r->n_left_out, STAND_IN_GPUS);
		assert_string_equal(r->note, "GPU 0 cannot be read: GPU is lost");
		gpu_nvml.close(driver);
		driver = open_driver();
	}
	gpu_nvml.close(driver);
}

/* So it is of one, where the others are not for us: from the beginning, or since. */
static void test_one_is_lost_and_no_other_is_for_us(void **state)
{
	struct nvml *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	read_driver(driver, 0);
	fixture.told->use_result[1] = fixture.told->handle_result[1] = NVML_GPU_IS_LOST;
	read_driver(driver, 0);
	fixture.told->handle_result[0] = fixture.told->handle_result[2] = NVML_NO_PERMISSION;
	driver->opened_boot_ns = 0; /* long ago: it is time for another session */
	r = read_driver(driver, 0);
	assert_int_equal(fixture.told->n_sessions, 2);
	assert_true(r->devices[1].is_lost);
	assert_false(r->devices[0].is_lost || r->devices[2].is_lost);
	gpu_nvml.close(driver);
	driver = open_driver();
	r = read_driver(driver, 0);
	assert_int_equal(r->n_devices, 1);
	assert_true(r->devices[0].is_lost);
	gpu_nvml.close(driver);
}

/* GPUs of other jobs are counted, and refused: they are nobody's loss. */
static void test_some_are_not_for_us(void **state)
{
	struct err err = ERR_INIT;
	const struct gpu_reading *r;
	struct nvml *driver;

	(void)state;
	fixture.told->handle_result[0] = fixture.told->handle_result[2] = NVML_NO_PERMISSION;
	driver = open_driver();
	driver->opened_boot_ns = 0; /* long ago: another session would be due */
	r = read_driver(driver, 0);
	assert_int_equal(r->n_devices, 1);
	assert_true(r->devices[0].utilization_pct == 11);
	assert_int_equal(r->n_left_out, 0);
	assert_string_equal(r->note, "");
	assert_int_equal(fixture.told->n_sessions, 1);
	gpu_nvml.close(driver);
	fixture.told->handle_result[1] = NVML_NO_PERMISSION;
	assert_int_equal(gpu_nvml.open(fixture.root_fd, NULL, (void **)&driver, &err), -EACCES);
}

/* Rights that were taken away are no loss, and no other GPU's. */
static void test_one_is_not_for_us_any_more(void **state)
{
	struct nvml *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	fixture.told->use_result[1] = fixture.told->handle_result[1] = NVML_GPU_IS_LOST;
	read_driver(driver, 0);
	fixture.told->handle_result[0] = NVML_NO_PERMISSION;
	for (int i = 0; i < 2; i++) {
		driver->opened_boot_ns = 0; /* long ago: it is time for another session */
		r = read_driver(driver, 0);
		assert_int_equal(r->n_devices, STAND_IN_GPUS);
		assert_true(isnan(r->devices[0].utilization_pct) && !r->devices[0].is_lost);
		assert_true(r->devices[1].is_lost);
		assert_true(r->devices[2].utilization_pct == 12);
		assert_int_equal(r->n_left_out, 2);
	}
	assert_int_equal(fixture.told->n_sessions, 3);
	fixture.told->handle_result[0] = NVML_OK;
	driver->opened_boot_ns = 0;
	r = read_driver(driver, 0);
	assert_true(r->devices[0].utilization_pct == 10 && r->devices[1].is_lost);
	gpu_nvml.close(driver);
}

/* One that is lost and not counted any more is not taken for one that never was for us. */
static void test_one_is_lost_beside_those_not_for_us(void **state)
{
	const struct gpu_reading *r;
	struct nvml *driver;

	(void)state;
	fixture.told->handle_result[1] = NVML_NO_PERMISSION;
	driver = open_driver();
	fixture.told->use_result[0] = NVML_GPU_IS_LOST;
	read_driver(driver, 0);
	fixture.told->n_missing = 1;
	driver->opened_boot_ns = 0;
	r = read_driver(driver, 0);
	assert_int_equal(fixture.told->n_sessions, 2);
	assert_int_equal(r->n_devices, 2);
	assert_true(r->devices[0].is_lost);
	assert_true(r->devices[1].utilization_pct == 12);
	gpu_nvml.close(driver);
}

/* Each for its own reason, in whatever order. */
static void test_two_cannot_be_opened(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		const struct gpu_reading *r;
		void *driver;

		fixture.told->handle_result[lost] = NVML_GPU_IS_LOST;
		fixture.told->handle_result[1 - lost] = 999;
		driver = open_driver();
		r = read_driver(driver, 0);
		assert_int_equal(r->n_devices, STAND_IN_GPUS);
		assert_true(r->devices[lost].is_lost && !r->devices[1 - lost].is_lost);
		assert_true(r->devices[2].utilization_pct == 12);
		gpu_nvml.close(driver);
	}
}

static void take_answer(void *ctx, const char *question, uint64_t ns)
{
	unsigned *n_denied = ctx;

	if (strcmp(question, "2 more are not for this user") == 0 && !u64_known(ns))
		++*n_denied;
}

/* Only who asks what there is, is told of them. */
static void test_doctor_counts_those_not_for_us(void **state)
{
	unsigned n_denied = 0;
	void *driver;

	(void)state;
	driver = open_driver();
	gpu_nvml.measure(driver, take_answer, &n_denied);
	assert_int_equal(n_denied, 0);
	gpu_nvml.close(driver);
	fixture.told->handle_result[0] = fixture.told->handle_result[2] = NVML_NO_PERMISSION;
	driver = open_driver();
	gpu_nvml.measure(driver, take_answer, &n_denied);
	assert_int_equal(n_denied, 1);
	gpu_nvml.close(driver);
}

/* The word for one that cannot be opened is the library's own. */
static void test_why_one_cannot_be_opened(void **state)
{
	void *driver;

	(void)state;
	fixture.told->handle_result[2] = NVML_NOT_SUPPORTED;
	driver = open_driver();
	assert_string_equal(read_driver(driver, 0)->note, "GPU 2 cannot be read: Unknown Error");
	gpu_nvml.close(driver);
}

/* Every question fails then, and whoever asked opens it anew. */
static void test_driver_restarts(void **state)
{
	void *driver = open_driver();

	(void)state;
	read_driver(driver, 0);
	fixture.told->use_result[1] = NVML_UNINITIALIZED;
	read_driver(driver, -EIO);
	gpu_nvml.close(driver);
	fixture.told->use_result[1] = NVML_OK;
	driver = open_driver();
	assert_int_equal(read_driver(driver, 0)->n_processes, STAND_IN_GPUS);
	assert_int_equal(fixture.told->n_sessions, 2);
	gpu_nvml.close(driver);
}

/* The others tell all, and it is asked again the next time. */
static void test_one_is_sick(void **state)
{
	void *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	fixture.told->use_result[0] = 999;
	r = read_driver(driver, 0);
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(isnan(r->devices[0].utilization_pct));
	assert_true(r->devices[1].utilization_pct == 11);
	assert_int_equal(r->n_processes, STAND_IN_GPUS - 1);
	assert_int_equal(r->n_left_out, 1);
	assert_string_equal(r->note, "GPU 0 cannot be read: Unknown Error");
	fixture.told->use_result[0] = NVML_OK;
	assert_true(read_driver(driver, 0)->devices[0].utilization_pct == 10);
	for (int i = 0; i < STAND_IN_GPUS; i++)
		fixture.told->use_result[i] = 999;
	read_driver(driver, -EIO);
	gpu_nvml.close(driver);
}

/* What it said last is why people look. */
static void test_accounts_of_one_that_is_lost(void **state)
{
	void *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	fixture.told->use_result[2] = NVML_GPU_IS_LOST;
	fixture.told->xid = 79;
	r = read_driver(driver, 0);
	assert_int_equal(r->devices[2].last_xid, 79);
	assert_true(isnan(r->devices[2].utilization_pct));
	fixture.told->xid = 31; /* which comes when it is known to be lost */
	assert_int_equal(read_driver(driver, 0)->devices[2].last_xid, 31);
	gpu_nvml.close(driver);
}

/* Also when the library does not even count the lost one any more. */
static void test_places_are_kept(void **state)
{
	struct nvml *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	fixture.told->use_result[0] = NVML_GPU_IS_LOST;
	read_driver(driver, 0);
	fixture.told->n_missing = 1;
	driver->opened_boot_ns = 0; /* long ago: it is time for another session */
	r = read_driver(driver, 0);
	assert_int_equal(fixture.told->n_sessions, 2);
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(isnan(r->devices[0].utilization_pct));
	assert_true(r->devices[1].utilization_pct == 11);
	assert_true(r->devices[2].utilization_pct == 12);
	fixture.told->n_missing = 0;
	fixture.told->use_result[0] = NVML_OK;
	driver->opened_boot_ns = 0;
	r = read_driver(driver, 0);
	assert_true(r->devices[0].utilization_pct == 10);
	assert_int_equal(r->n_left_out, 0);
	gpu_nvml.close(driver);
}

/* The first was lost before its name was told: what others are called is no name for it. */
static void test_a_place_without_a_name(void **state)
{
	static struct gpu_places places = { .n = STAND_IN_GPUS };
	struct nvml *driver = open_driver();
	const struct gpu_reading *r;

	(void)state;
	for (unsigned i = 1; i < places.n; i++)
		memcpy(places.ids[i], driver->devices[i].uuid, sizeof(places.ids[i]));
	gpu_nvml.close(driver);
	for (unsigned n_missing = 2; n_missing-- > 0;) {
		fixture.told->n_missing = n_missing;
		assert_int_equal(gpu_nvml.open(fixture.root_fd, &places, (void **)&driver, NULL),
				 0);
		r = read_driver(driver, 0);
		assert_int_equal(r->n_devices, STAND_IN_GPUS);
		assert_int_equal(r->devices[0].is_lost, n_missing);
		assert_true(n_missing ? isnan(r->devices[0].utilization_pct)
				      : r->devices[0].utilization_pct == 10);
		assert_true(r->devices[1].utilization_pct == 11);
		assert_true(r->devices[2].utilization_pct == 12);
		gpu_nvml.close(driver);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_is_well, all_is_well),
		cmocka_unit_test_setup(test_one_is_lost, all_is_well),
		cmocka_unit_test_setup(test_one_cannot_be_opened, all_is_well),
		cmocka_unit_test_setup(test_all_are_lost, all_is_well),
		cmocka_unit_test_setup(test_one_is_lost_and_no_other_is_for_us, all_is_well),
		cmocka_unit_test_setup(test_some_are_not_for_us, all_is_well),
		cmocka_unit_test_setup(test_one_is_not_for_us_any_more, all_is_well),
		cmocka_unit_test_setup(test_one_is_lost_beside_those_not_for_us, all_is_well),
		cmocka_unit_test_setup(test_two_cannot_be_opened, all_is_well),
		cmocka_unit_test_setup(test_doctor_counts_those_not_for_us, all_is_well),
		cmocka_unit_test_setup(test_why_one_cannot_be_opened, all_is_well),
		cmocka_unit_test_setup(test_driver_restarts, all_is_well),
		cmocka_unit_test_setup(test_one_is_sick, all_is_well),
		cmocka_unit_test_setup(test_accounts_of_one_that_is_lost, all_is_well),
		cmocka_unit_test_setup(test_places_are_kept, all_is_well),
		cmocka_unit_test_setup(test_a_place_without_a_name, all_is_well),
	};

	return cmocka_run_group_tests_name("sources_gpu_nvml", tests, open_all, close_all);
}
