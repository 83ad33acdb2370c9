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
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "nvml_stand_in.h"
#include "sources/gpu.h"
#include "sources/gpu_nvml.h"
#include "sources/gpu_reader.h"

#define HOLDER_PID 100

static struct fixture {
	char root[64]; /* with a proc of its own, in which a process holds a device */
	int root_fd;
	void *library;
	struct nvml_stand_in *told;
	struct gpu_reading reading;
} fixture;

/* What the processes that are started here do, seen by all of them. */
static struct seen {
	unsigned n_pipes, n_refused;
	unsigned max_pipes; /* then there are none left; 0: there always are */
	unsigned n_strays;  /* signals to processes that do not exist */
	int hanging_pid;    /* of who has asked a GPU that hangs; 0: nobody */
} * seen;

/* In the place of the C library's. */
int pipe2(int fds[2], int flags)
{
	if (seen && seen->max_pipes &&
	    __atomic_add_fetch(&seen->n_pipes, 1, __ATOMIC_SEQ_CST) > seen->max_pipes) {
		__atomic_add_fetch(&seen->n_refused, 1, __ATOMIC_SEQ_CST);
		errno = ENFILE;
		return -1;
	}
	return (int)syscall(SYS_pipe2, fds, flags);
}

int kill(pid_t pid, int signal)
{
	int r = (int)syscall(SYS_kill, pid, signal);

	if (r < 0 && errno == ESRCH && seen)
		__atomic_add_fetch(&seen->n_strays, 1, __ATOMIC_SEQ_CST);
	return r;
}

static void put(const char *name, const char *text)
{
	int fd = openat(fixture.root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

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
	static const char *const folders[] = { "proc",
					       "proc/100",
					       "proc/100/fd",
					       "dev",
					       "proc/driver",
					       "proc/driver/nvidia",
					       "proc/driver/nvidia/gpus" };

	(void)state;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
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
	*fixture.told = (struct nvml_stand_in){ .pid = HOLDER_PID, .share = 40 };
	*seen = (struct seen){ 0 };
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
	assert_int_equal(gpu_nvml.open(fixture.root_fd, &driver, &err), -EIO);
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
	assert_int_equal(gpu_nvml.open(fixture.root_fd, (void **)&driver, &err), -EACCES);
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
static void test_last_words_of_one_that_is_lost(void **state)
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

/* What was told of a GPU that has come to rest since is of before: it does not stand for seconds. */
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
	assert_int_equal(asks_at(driver, 5), 0);
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

/* ---- beside a card that the kernel drives ---- */

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

/* A program that answers for one GPU, the only one to be found; returns what PATH was. */
static char *put_program(void)
{
	char *path = strdup(getenv("PATH"));

	assert_non_null(path);
	put("proc/driver/nvidia/gpus/0000:01:00.0", "");
	put("nvidia-smi", "#!/bin/sh\n[ \"${1#--query-gpu}\" = \"$1\" ] || "
			  "echo GPU-0, 50, 100, 200, 30\n");
	assert_int_equal(fchmodat(fixture.root_fd, "nvidia-smi", 0700, 0), 0);
	setenv("PATH", fixture.root, 1);
	return path;
}

static void remove_program(char *path)
{
	unlinkat(fixture.root_fd, "nvidia-smi", 0);
	unlinkat(fixture.root_fd, "proc/driver/nvidia/gpus/0000:01:00.0", 0);
	setenv("PATH", path, 1);
	free(path);
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

/* A program that does not list the first GPU, as one that is lost, and begins with the last. */
static void put_program_of_others(void)
{
	put("nvidia-smi", "#!/bin/sh\n[ \"${1#--query-gpu}\" = \"$1\" ] || "
			  "{ echo GPU-2, 52, 100, 200, 30; echo GPU-1, 51, 100, 200, 30; }\n");
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

/* ---- a driver that hangs, or crashes ---- */

static struct gpus_options reader_options(void)
{
	return (struct gpus_options){ .root_fd = fixture.root_fd,
				      .at_once = true,
				      .patience_seconds = 5 };
}

/* The next reading that comes within a minute. */
static const struct gpu_reading *next_reading(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	assert_true(poll(&wait, 1, 60000) > 0);
	assert_true(recv(fd, &fixture.reading, sizeof(fixture.reading), 0) > 0);
	return &fixture.reading;
}

/* Until one comes from that rung; fails after a minute. */
static const struct gpu_reading *await_rung(int fd, const char *rung)
{
	uint64_t deadline_ns = clock_boot_ns() + UINT64_C(60000000000);

	while (strcmp(next_reading(fd)->rung, rung) != 0)
		assert_true(clock_boot_ns() < deadline_ns);
	return &fixture.reading;
}

/* All that was started ends; they fall to us as their parents do. */
static void await_all(void)
{
	int left = 6000;

	while (left-- > 0 && waitpid(-1, NULL, WNOHANG) >= 0)
		usleep(10000);
	assert_true(left > 0);
}

/* The program answers, and the library again after some time. */
static void check_fall_and_return(const char *path, const char *why)
{
	struct gpus_options options = reader_options();
	char *search = put_program();
	const struct gpu_reading *r;
	int fd;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	put(strrchr(path, '/') + 1, "");
	options.patience_seconds = 4;
	options.again_seconds = 8;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	r = next_reading(fd); /* the keeper's: nobody waits for the next reader to know */
	assert_int_equal(r->is_interim, 1);
	assert_string_equal(r->rung, "");
	assert_non_null(strstr(r->note, why));
	r = next_reading(fd);
	assert_string_equal(r->rung, "nvidia-smi");
	assert_int_equal(r->is_interim, 0);
	assert_true(r->devices[0].utilization_pct == 50);
	assert_ptr_equal(strstr(r->note, why), r->note);
	assert_non_null(strstr(r->note, "it is asked again after"));
	assert_int_equal(unlink(path), 0);
	r = await_rung(fd, "NVML");
	assert_string_equal(r->note, "");
	close(fd);
	await_all();
	remove_program(search);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void test_after_a_crash_the_next_one_answers(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/crash", fixture.root);
	fixture.told->crash_path = path;
	check_fall_and_return(path, "NVML crashed (Aborted)");
}

static void test_numbers_stay_after_a_crash(void **state)
{
	struct gpus_options options = reader_options();
	char path[128], *search = put_program();
	const struct gpu_reading *r;
	int fd;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	put_program_of_others();
	snprintf(path, sizeof(path), "%s/crash", fixture.root);
	fixture.told->crash_path = path;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	await_rung(fd, "NVML");
	put("crash", "");
	r = await_rung(fd, "nvidia-smi");
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(isnan(r->devices[0].utilization_pct));
	assert_true(r->devices[2].utilization_pct == 52);
	close(fd);
	await_all();
	assert_int_equal(unlink(path), 0);
	remove_program(search);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void test_after_a_hang_the_next_one_answers(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/hang", fixture.root);
	fixture.told->hang_path = path;
	check_fall_and_return(path, "NVML did not answer, and was ended");
}

/* Nobody waits for one that hangs. */
static void test_a_hang_ends_with_who_listens(void **state)
{
	struct gpus_options options = reader_options();
	char path[128];
	int fd;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(path, sizeof(path), "%s/hang", fixture.root);
	put("hang", "");
	fixture.told->hang_path = path;
	options.patience_seconds = 1000;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	close(fd);
	await_all();
	assert_int_equal(unlink(path), 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static int await_hanging(void)
{
	int left = 6000;

	while (!__atomic_load_n(&seen->hanging_pid, __ATOMIC_SEQ_CST) && left-- > 0)
		usleep(10000);
	assert_true(left > 0);
	return seen->hanging_pid;
}

/* Who is killed by a person, or for want of memory, was not killed by its driver. */
static void test_killed_from_outside(void **state)
{
	struct gpus_options options = reader_options();
	char path[128];
	int fd;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(path, sizeof(path), "%s/hang", fixture.root);
	put("hang", "");
	fixture.told->hang_path = path;
	fixture.told->hanging_pid = &seen->hanging_pid;
	options.patience_seconds = 60;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	await_hanging();
	assert_int_equal(unlink(path), 0);
	kill(seen->hanging_pid, SIGKILL);
	assert_string_equal(next_reading(fd)->rung, "NVML");
	assert_string_equal(fixture.reading.note, "");
	close(fd);
	await_all();
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* A library's crash leaves no file behind, in whatever folder that would be. */
static void test_no_core_file(void **state)
{
	struct gpus_options options = reader_options();
	struct rlimit limit = { 1 << 20, 1 << 20 };
	char path[128];
	int fd;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(path, sizeof(path), "%s/hang", fixture.root);
	put("hang", "");
	fixture.told->hang_path = path;
	fixture.told->hanging_pid = &seen->hanging_pid;
	options.patience_seconds = 60;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	assert_int_equal(prlimit(await_hanging(), RLIMIT_CORE, NULL, &limit), 0);
	assert_int_equal(limit.rlim_cur, 1);
	assert_int_equal(unlink(path), 0);
	close(fd);
	await_all();
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* ---- a program that is a script ---- */

/* One that waits for a program of its own, whose pid it writes down. */
static void put_hanging_script(void)
{
	put("nvidia-smi", "#!/bin/sh\n/bin/sleep 600 &\necho $! >\"$PATH/new\"\n"
			  "/bin/mv \"$PATH/new\" \"$PATH/pid\"\nwait\n");
	fixture.told->init_result = 999;
}

static int await_program(void)
{
	FILE *file = NULL;
	int pid = 0;

	for (int left = 6000; !file && left > 0; left--, usleep(10000)) {
		int pid_fd = openat(fixture.root_fd, "pid", O_RDONLY | O_CLOEXEC);

		file = pid_fd < 0 ? NULL : fdopen(pid_fd, "r");
	}
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	fclose(file);
	unlinkat(fixture.root_fd, "pid", 0);
	return pid;
}

static void assert_ends(int pid)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d", pid);
	for (int left = 6000; access(name, F_OK) == 0 && left > 0; left--, usleep(10000))
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	assert_int_equal(access(name, F_OK), -1);
}

static int parent_of(int pid)
{
	char name[32];
	int parent = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	file = fopen(name, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
	fclose(file);
	return parent;
}

/* What it has started ends too, when nobody listens any more. */
static void test_nothing_is_left_of_a_script(void **state)
{
	struct gpus_options options = reader_options();
	char *search = put_program();
	int fd, pid;

	(void)state;
	put_hanging_script();
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	pid = await_program();
	close(fd);
	assert_ends(pid);
	remove_program(search);
}

/* Also where the script itself ends well: while the reader goes on, nothing piles up. */
static void test_nothing_is_left_behind_a_script(void **state)
{
	struct gpus_options options = reader_options();
	char *search = put_program();
	int fd;

	(void)state;
	put("nvidia-smi", "#!/bin/sh\n/bin/sleep 600 >/dev/null &\necho $! >\"$PATH/new\"\n"
			  "/bin/mv \"$PATH/new\" \"$PATH/pid\"\n"
			  "[ \"${1#--query-gpu}\" = \"$1\" ] || echo GPU-a, 50, 100, 200, 30\n");
	fixture.told->init_result = 999;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	assert_ends(await_program());
	await_rung(fd, "nvidia-smi");
	assert_ends(await_program());
	close(fd);
	await_all();
	remove_program(search);
}

/* The same when somebody kills the process that would see to that. */
static void test_nothing_is_left_without_a_keeper(void **state)
{
	struct gpus_options options = reader_options();
	char *search = put_program();
	int fd, pid, reader;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	put_hanging_script();
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	pid = await_program();
	reader = parent_of(parent_of(pid));
	kill(parent_of(reader), SIGKILL);
	assert_ends(pid);
	assert_ends(reader);
	close(fd);
	remove_program(search);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* The number of a reader that has ended may be anybody's: nobody is sent a signal by it. */
static void test_no_pipe_for_the_next_reader(void **state)
{
	struct gpus_options options = reader_options();
	char path[128];
	int fd;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(path, sizeof(path), "%s/crash", fixture.root);
	put("crash", "");
	fixture.told->crash_path = path;
	options.patience_seconds = 1;
	seen->max_pipes = 1;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	for (int left = 6000; __atomic_load_n(&seen->n_refused, __ATOMIC_SEQ_CST) < 3 && left > 0;
	     left--)
		usleep(10000);
	assert_true(seen->n_refused >= 3);
	assert_int_equal(seen->n_strays, 0);
	close(fd);
	await_all();
	assert_int_equal(unlink(path), 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* Each death makes the pause twice as long, up to an end. */
static void test_record(void **state)
{
	struct gpu_record record = { 0 };
	struct err err = ERR_INIT;
	uint64_t second = 1000000000, again_ns = GPU_AGAIN_NS, pause = again_ns;

	(void)state;
	assert_false(gpu_is_given_up(&record, again_ns, second));
	for (int i = 0; i < 10; i++) {
		gpu_record_death(&record, SIGSEGV, second);
		assert_true(gpu_is_given_up(&record, again_ns, second + pause - 1));
		assert_false(gpu_is_given_up(&record, again_ns, second + pause));
		if (i == 0)
			gpu_tell_death(&record, again_ns, "NVML", &err);
		pause = i < 4 ? 2 * pause : pause;
	}
	assert_string_equal(err.text,
			    "NVML crashed (Segmentation fault): it is asked again after 5 minutes");
}

/* ---- who uses none ---- */

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
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	gpus_wait(g, 60000);
	s->boot_ns = clock_boot_ns();
	gpus_fill(g, s);
	gpus_fill_processes(g, s);
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

/* Most jobs are shorter than some intervals. */
static void test_first_readings_come_soon(void **state)
{
	struct gpus_options options = { .root_fd = fixture.root_fd, .interval_seconds = 3600 };
	uint64_t first_ns;
	int fd;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	first_ns = next_reading(fd)->boot_ns;
	assert_true(next_reading(fd)->boot_ns > first_ns);
	close(fd);
	await_all();
}

/* ---- what is said of it ---- */

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
	char text[256], path[128];
	struct gpus *g = NULL;

	(void)state;
	put("dev/nvidiactl", "");
	snprintf(path, sizeof(path), "%s/fail", fixture.root);
	fixture.told->fail_path = path;
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
	assert_int_equal(unlink(path), 0);
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
	gpus_fill_processes(g, &s);
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
		cmocka_unit_test_setup(test_no_list, all_is_well),
		cmocka_unit_test_setup(test_shares, all_is_well),
		cmocka_unit_test_setup(test_no_shares, all_is_well),
		cmocka_unit_test_setup(test_one_is_sick, all_is_well),
		cmocka_unit_test_setup(test_last_words_of_one_that_is_lost, all_is_well),
		cmocka_unit_test_setup(test_places_are_kept, all_is_well),
		cmocka_unit_test_setup(test_share_of_a_new_process, all_is_well),
		cmocka_unit_test_setup(test_shares_when_the_use_moves, all_is_well),
		cmocka_unit_test_setup(test_shares_are_of_the_time_since_the_last, all_is_well),
		cmocka_unit_test_setup(test_shares_without_a_new_sample, all_is_well),
		cmocka_unit_test_setup(test_odd_shares, all_is_well),
		cmocka_unit_test_setup_teardown(test_silent_ones_keep_their_numbers, add_card,
						remove_card),
		cmocka_unit_test_setup(test_next_rung, all_is_well),
		cmocka_unit_test_setup(test_numbers_stay, all_is_well),
		cmocka_unit_test_setup(test_places_of_those_not_for_us_any_more, all_is_well),
		cmocka_unit_test_setup(test_when_it_is_opened_anew, all_is_well),
		cmocka_unit_test_setup(test_place_of_one_that_cannot_be_opened, all_is_well),
		cmocka_unit_test_setup(test_numbers_stay_after_a_crash, all_is_well),
		cmocka_unit_test_setup(test_reasons_of_both, all_is_well),
		cmocka_unit_test_setup(test_killed_from_outside, all_is_well),
		cmocka_unit_test_setup(test_no_core_file, all_is_well),
		cmocka_unit_test_setup(test_nothing_is_left_of_a_script, all_is_well),
		cmocka_unit_test_setup(test_nothing_is_left_behind_a_script, all_is_well),
		cmocka_unit_test_setup(test_nothing_is_left_without_a_keeper, all_is_well),
		cmocka_unit_test_setup(test_no_pipe_for_the_next_reader, all_is_well),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_readings_are_counted_as_asked),
		cmocka_unit_test_setup(test_who_holds_one_without_rights, add_shell),
		cmocka_unit_test_setup(test_holders_that_cannot_be_found, add_shell),
		cmocka_unit_test_setup(test_who_holds_one_that_is_lost, add_shell),
		cmocka_unit_test_setup(test_who_holds_none_that_is_lost, add_shell),
		cmocka_unit_test_setup(test_who_was_on_one_that_is_lost, add_shell),
		cmocka_unit_test_setup(test_strangers_leave_others_known, add_shell),
		cmocka_unit_test_setup(test_first_readings_come_soon, all_is_well),
		cmocka_unit_test_setup(test_after_a_crash_the_next_one_answers, all_is_well),
		cmocka_unit_test_setup(test_after_a_hang_the_next_one_answers, all_is_well),
		cmocka_unit_test_setup(test_a_hang_ends_with_who_listens, all_is_well),
		cmocka_unit_test_setup(test_driver_without_gpus, all_is_well),
		cmocka_unit_test_setup(test_commands_to_the_terminal, all_is_well),
		cmocka_unit_test_setup(test_trouble_is_told, all_is_well),
		cmocka_unit_test_setup(test_remark_is_no_trouble, all_is_well),
		cmocka_unit_test_setup(test_no_rights, all_is_well),
		cmocka_unit_test_setup(test_silence_is_told, all_is_well),
	};

	return cmocka_run_group_tests_name("sources_gpu_nvml", tests, open_all, close_all);
}
