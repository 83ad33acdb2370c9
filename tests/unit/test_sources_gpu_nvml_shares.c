/*
 * Whom NVIDIA's library lists, and how busy it says that each keeps a GPU.
 */
#include "nvml_fixture.h"

/* A list that cannot be had is not an empty one. */
static void test_no_list(void **state)
{
	void *driver = open_driver();

	(void)state;
	fixture.told->list_result = NVML_INSUFFICIENT_SIZE;
	assert_true(read_driver(driver, 0)->n_left_out > 0);
	assert_string_equal(fixture.reading.note,
			    "the driver does not tell all processes that use GPU 0");
	fixture.told->list_result = NVML_NOT_SUPPORTED;
	assert_int_equal(read_driver(driver, 0)->n_left_out, STAND_IN_GPUS);
	fixture.told->list_result = NVML_OK;
	fixture.told->pid = 4242; /* whom nobody knows here */
	assert_int_equal(read_driver(driver, 0)->n_left_out, STAND_IN_GPUS);
	assert_int_equal(fixture.reading.n_processes, 0);
	gpu_nvml.close(driver);
}

static void test_no_shares(void **state)
{
	void *driver = open_driver();

	(void)state;
	fixture.told->shares_result = NVML_NOT_SUPPORTED;
	assert_true(isnan(read_driver(driver, 0)->processes[0].utilization_pct));
	assert_non_null(
		strstr(fixture.reading.note, "does not tell the share of each process on GPU 0"));
	fixture.told->pid = 0; /* of nobody nothing is missing */
	read_driver(driver, 0);
	assert_string_equal(fixture.reading.note, "");
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

/* One that takes the GPU between two questions for shares was not idle. */
static void test_share_of_a_new_process(void **state)
{
	void *driver;

	(void)state;
	fixture.told->pid = 0;
	fixture.told->share = 0;
	fixture.told->use_more = -10;
	driver = open_driver();
	read_driver(driver, 0);
	assert_int_equal(fixture.told->n_share_asks, 1);
	fixture.told->pid = HOLDER_PID;
	assert_true(isnan(read_driver(driver, 0)->processes[0].utilization_pct));
	fixture.told->share = 90;
	assert_true(read_driver(driver, 0)->processes[0].utilization_pct == 90);
	fixture.told->share = 0;
	assert_true(read_driver(driver, 0)->processes[0].utilization_pct == 0);
	assert_int_equal(fixture.told->n_share_asks, 4);
	gpu_nvml.close(driver);
	driver = open_driver(); /* of one that is not new it is not asked every time */
	read_driver(driver, 0);
	read_driver(driver, 0);
	assert_int_equal(fixture.told->n_share_asks, 5);
	gpu_nvml.close(driver);
}

/* How often shares were asked in a reading at which the first GPU is that busy. */
static unsigned asks_at(void *driver, int use_pct)
{
	unsigned before = fixture.told->n_share_asks;

	fixture.told->use_more = use_pct - 10;
	read_driver(driver, 0);
	return fixture.told->n_share_asks - before;
}

/* What was told of a GPU that has come to rest since is of before: it does not stand on. */
static void test_shares_when_the_use_moves(void **state)
{
	void *driver = open_driver();

	(void)state;
	assert_int_equal(asks_at(driver, 90), 1);
	assert_int_equal(asks_at(driver, 90), 0);
	assert_int_equal(asks_at(driver, 84), 0); /* hardly */
	assert_int_equal(asks_at(driver, 0), 1);
	fixture.told->share = 13; /* of a time of which a part was busy; */
	assert_true(fixture.reading.processes[0].utilization_pct == 40);
	assert_int_equal(asks_at(driver, 0), 1); /* the next is of rest alone */
	assert_true(fixture.reading.processes[0].utilization_pct == 13);
	assert_int_equal(asks_at(driver, 0), 0);
	assert_int_equal(asks_at(driver, 5), 1); /* which is not none any more */
	assert_int_equal(asks_at(driver, 5), 1);
	assert_int_equal(asks_at(driver, 6), 0);
	assert_int_equal(asks_at(driver, 60), 1);
	assert_int_equal(asks_at(driver, 60), 1);
	assert_int_equal(asks_at(driver, 60), 0);
	gpu_nvml.close(driver);
}

/* The next reading, after which shares were asked of so many seconds; all is so much older then. */
static void check_since(struct nvml *driver, double asked_ago, double listed_ago, double want)
{
	uint64_t before_us = clock_wall_ns() / 1000, want_us = (uint64_t)(want * 1e6);

	for (unsigned i = 0; i < driver->n_devices; i++) {
		driver->devices[i].shares_boot_ns -= (uint64_t)(asked_ago * 1e9);
		driver->devices[i].listed_boot_ns -= (uint64_t)(listed_ago * 1e9);
	}
	fixture.told->asked_since_us = 0;
	read_driver(driver, 0);
	/* A second for what the test itself takes. */
	assert_in_range(fixture.told->asked_since_us, before_us - want_us - 1000000,
			clock_wall_ns() / 1000 - want_us);
}

/* A mean over more would be of what was told already, or of what stands for the time before. */
static void test_shares_are_of_the_time_since_the_last(void **state)
{
	struct nvml *driver = open_driver();

	(void)state;
	check_since(driver, 0, 0, 1);
	check_since(driver, 7, 2, 7);
	fixture.told->use_more = 50;
	check_since(driver, 4, 2, 2); /* the first two were as before */
	check_since(driver, 2, 2, 2);
	gpu_nvml.close(driver);
}

/* A GPU that works, and of which nothing new is told: the last that was told is not 0. */
static void test_shares_without_a_new_sample(void **state)
{
	void *driver = open_driver();

	(void)state;
	fixture.told->newest_us = 5; /* by another clock than ours */
	assert_true(read_driver(driver, 0)->processes[0].utilization_pct == 40);
	assert_int_equal(fixture.told->asked_since_us, 0);
	gpu_nvml.close(driver);
}

static void test_odd_shares(void **state)
{
	void *driver;

	(void)state;
	fixture.told->share = 104;
	driver = open_driver();
	assert_true(read_driver(driver, 0)->processes[0].utilization_pct == 100);
	assert_string_equal(fixture.reading.remark,
			    "process 100 is said to keep GPU 0 104 % busy: taken for 100 %");
	assert_string_equal(fixture.reading.note, "");
	gpu_nvml.close(driver);
	fixture.told->share = 4000000000;
	driver = open_driver();
	assert_true(isnan(read_driver(driver, 0)->processes[0].utilization_pct));
	gpu_nvml.close(driver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_no_list, all_is_well),
		cmocka_unit_test_setup(test_no_shares, all_is_well),
		cmocka_unit_test_setup(test_shares, all_is_well),
		cmocka_unit_test_setup(test_share_of_a_new_process, all_is_well),
		cmocka_unit_test_setup(test_shares_when_the_use_moves, all_is_well),
		cmocka_unit_test_setup(test_shares_are_of_the_time_since_the_last, all_is_well),
		cmocka_unit_test_setup(test_shares_without_a_new_sample, all_is_well),
		cmocka_unit_test_setup(test_odd_shares, all_is_well),
	};

	return cmocka_run_group_tests_name("sources_gpu_nvml_shares", tests, open_all, close_all);
}
