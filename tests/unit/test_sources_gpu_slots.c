/*
 * Which driver answers for which GPUs, and that each GPU keeps its number whoever does.
 */
#include "nvml_fixture.h"

static int add_card(void **state)
{
	static const char *const folders[] = { "sys", "sys/class", "sys/class/drm",
					       "sys/class/drm/card0",
					       "sys/class/drm/card0/device" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		assert_int_equal(mkdirat(fixture.root_fd, folders[i], 0700), 0);
	put("sys/class/drm/card0/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
	put("sys/class/drm/card0/device/gpu_busy_percent", "37\n");
	return all_is_well(state);
}

static int remove_card(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s/sys'", fixture.root);
	return system(command);
}

static struct gpu_slots slots;

/* NVIDIA's stand first, whether they answer or not. */
static void test_silent_ones_keep_their_numbers(void **state)
{
	struct gpu_reading *r = &fixture.reading;

	(void)state;
	slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
	gpu_read_all(&slots, fixture.root_fd, r);
	assert_string_equal(r->rung, "NVML + DRM fdinfo");
	assert_int_equal(r->n_devices, STAND_IN_GPUS + 1);
	assert_int_equal(r->n_left_out, 0);
	fixture.told->use_result[1] = NVML_UNINITIALIZED; /* after the first was read */
	for (int i = 0; i < 2; i++) {			  /* the second time it is not even open */
		gpu_read_all(&slots, fixture.root_fd, r);
		assert_string_equal(r->rung, "DRM fdinfo");
		assert_int_equal(r->n_devices, STAND_IN_GPUS + 1);
		assert_true(isnan(r->devices[0].utilization_pct));
		assert_string_equal(r->names[0], "stand-in 0");
		assert_true(r->devices[STAND_IN_GPUS].utilization_pct == 37);
		assert_int_equal(r->n_processes, 0);
		assert_true(r->n_left_out > 0); /* nobody is said to use none */
		assert_string_equal(r->note, "NVML cannot read a GPU: Unknown Error");
	}
	gpu_close_all(&slots);
}

/* A library that opens and never answers gives way to the program. */
static void test_next_rung(void **state)
{
	char *path = put_program();
	struct gpu_reading *r = &fixture.reading;

	(void)state;
	slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
	fixture.told->use_result[0] = NVML_UNINITIALIZED;
	for (int i = 0; i < 2; i++) {
		slots.of[GPU_NVIDIA].tried_boot_ns = 0; /* long ago */
		gpu_read_all(&slots, fixture.root_fd, r);
		assert_string_equal(r->rung, "");
	}
	slots.of[GPU_NVIDIA].tried_boot_ns = 0;
	gpu_read_all(&slots, fixture.root_fd, r);
	assert_string_equal(r->rung, "nvidia-smi");
	assert_true(r->devices[0].utilization_pct == 50);
	assert_string_equal(r->note, "NVML cannot read a GPU: Unknown Error; nvidia-smi tells no "
				     "share (utilisation) of a process, and lists none that only "
				     "draws");
	gpu_close_all(&slots);
	remove_program(path);
}

static void read_slots(const char *rung, double first, double second, double third)
{
	const double want[] = { first, second, third };
	const struct gpu_reading *r = &fixture.reading;

	slots.of[GPU_NVIDIA].tried_boot_ns = 1; /* long ago */
	gpu_read_all(&slots, fixture.root_fd, &fixture.reading);
	assert_string_equal(r->rung, rung);
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	for (size_t i = 0; i < STAND_IN_GPUS; i++)
		assert_true(isnan(want[i]) ? isnan(r->devices[i].utilization_pct)
					   : r->devices[i].utilization_pct == want[i]);
}

/* Whoever answers, each GPU has the number that it had; and one that is lost is not forgotten. */
static void test_numbers_stay(void **state)
{
	const double lost = (double)NAN;
	char *path = put_program();

	(void)state;
	put_program_of_others();
	slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
	read_slots("NVML", 10, 11, 12);
	fixture.told->use_result[0] = NVML_UNINITIALIZED;
	read_slots("", lost, lost, lost);
	read_slots("", lost, lost, lost);
	read_slots("nvidia-smi", lost, 51, 52);
	fixture.told->init_result = 999;
	slots.again_ns = 1; /* the better one is tried, and does not open */
	read_slots("nvidia-smi", lost, 51, 52);
	assert_non_null(strstr(fixture.reading.note, "does not list GPU 0 any more"));
	fixture.told->init_result = fixture.told->use_result[0] = NVML_OK;
	fixture.told->n_missing = 1;
	read_slots("NVML", lost, 11, 12);
	assert_string_equal(fixture.reading.note, "GPU 0 cannot be read: GPU is lost");
	gpu_close_all(&slots);
	remove_program(path);
}

/* Where NVML was opened anew, also by another process. */
static void test_places_of_those_not_for_us_any_more(void **state)
{
	const double denied = (double)NAN;

	(void)state;
	slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
	read_slots("NVML", 10, 11, 12);
	fixture.told->handle_result[0] = NVML_NO_PERMISSION;
	gpu_close_all(&slots);
	for (int i = 0; i < 2; i++) {
		read_slots("NVML", denied, 11, 12);
		assert_false(fixture.reading.devices[0].is_lost);
		((struct nvml *)slots.of[GPU_NVIDIA].opened)->opened_boot_ns = 0;
	}
	fixture.told->handle_result[0] = NVML_OK;
	read_slots("NVML", 10, 11, 12);
	gpu_close_all(&slots);
}

/* One that fails and was opened long ago is opened anew at the next reading. */
static void test_when_it_is_opened_anew(void **state)
{
	const double unread = (double)NAN;

	(void)state;
	slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
	read_slots("NVML", 10, 11, 12);
	fixture.told->use_result[0] = NVML_UNINITIALIZED;
	read_slots("", unread, unread, unread);
	fixture.told->use_result[0] = NVML_OK;
	read_slots("NVML", 10, 11, 12);
	assert_int_equal(fixture.told->n_sessions, 2);
	gpu_close_all(&slots);
}

/* One that could not be opened has its number too, and its own reason. */
static void test_place_of_one_that_cannot_be_opened(void **state)
{
	static const int results[] = { NVML_GPU_IS_LOST, 999 };
	const double unread = (double)NAN;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		fixture.told->handle_result[0] = NVML_OK;
		slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
		read_slots("NVML", 10, 11, 12);
		gpu_close_all(&slots);
		fixture.told->handle_result[0] = results[i];
		read_slots("NVML", unread, 11, 12);
		assert_true(fixture.reading.devices[0].is_lost == (i == 0));
		assert_string_equal(fixture.reading.names[0], "stand-in 0");
		gpu_close_all(&slots);
	}
}

/* Nobody answers: why is told of each. */
static void test_reasons_of_both(void **state)
{
	char *path = put_program();

	(void)state;
	put("nvidia-smi", "#!/bin/sh\nexit 15\n");
	slots = (struct gpu_slots){ .again_ns = GPU_AGAIN_NS };
	fixture.told->init_result = 999;
	gpu_read_all(&slots, fixture.root_fd, &fixture.reading);
	assert_string_equal(fixture.reading.rung, "");
	assert_string_equal(fixture.reading.note,
			    "NVML cannot begin: Unknown Error; nvidia-smi says that a GPU has "
			    "fallen off the bus");
	assert_int_equal(fixture.reading.n_devices, 1); /* the driver has found one */
	gpu_close_all(&slots);
	remove_program(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_silent_ones_keep_their_numbers, add_card,
						remove_card),
		cmocka_unit_test_setup(test_next_rung, all_is_well),
		cmocka_unit_test_setup(test_numbers_stay, all_is_well),
		cmocka_unit_test_setup(test_places_of_those_not_for_us_any_more, all_is_well),
		cmocka_unit_test_setup(test_when_it_is_opened_anew, all_is_well),
		cmocka_unit_test_setup(test_place_of_one_that_cannot_be_opened, all_is_well),
		cmocka_unit_test_setup(test_reasons_of_both, all_is_well),
	};

	return cmocka_run_group_tests_name("sources_gpu_slots", tests, open_all, close_all);
}
