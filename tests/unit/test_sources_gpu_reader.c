/*
 * The process that asks drivers, and the one that watches it, when a driver hangs or crashes.
 */
#include "nvml_fixture.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "sources/gpu/gpu.h"

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

static int open_reader(void **state)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	return open_all(state);
}

static int nothing_is_seen(void **state)
{
	*seen = (struct seen){ 0 };
	return all_is_well(state);
}

/* ---- a driver that hangs, or crashes ---- */

/* Returns its socket. */
static int start_reader(double patience_seconds)
{
	struct gpus_options options = reader_options();
	int fd;

	options.patience_seconds = patience_seconds;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	return fd;
}

/* One that asks a GPU which hangs. */
static int start_hanging(double patience_seconds)
{
	put("hang", "");
	fixture.told->hang_path = name_file("hang");
	fixture.told->hanging_pid = &seen->hanging_pid;
	return start_reader(patience_seconds);
}

/* The program answers, and the library again after some time. */
static void check_fall_and_return(const char *file, const char *why)
{
	struct gpus_options options = reader_options();
	char *search = put_program();
	const struct gpu_reading *r;
	int fd;

	put(file, "");
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
	remove_file(file);
	r = await_rung(fd, "NVML");
	assert_string_equal(r->note, "");
	close(fd);
	await_all();
	remove_program(search);
}

static void test_after_a_crash_the_next_one_answers(void **state)
{
	(void)state;
	fixture.told->crash_path = name_file("crash");
	check_fall_and_return("crash", "NVML crashed (Aborted)");
}

static void test_numbers_stay_after_a_crash(void **state)
{
	char *search = put_program();
	const struct gpu_reading *r;
	int fd;

	(void)state;
	put_program_of_others();
	fixture.told->crash_path = name_file("crash");
	fd = start_reader(5);
	await_rung(fd, "NVML");
	put("crash", "");
	r = await_rung(fd, "nvidia-smi");
	assert_int_equal(r->n_devices, STAND_IN_GPUS);
	assert_true(isnan(r->devices[0].utilization_pct));
	assert_true(r->devices[2].utilization_pct == 52);
	close(fd);
	await_all();
	remove_file("crash");
	remove_program(search);
}

static void test_after_a_hang_the_next_one_answers(void **state)
{
	(void)state;
	fixture.told->hang_path = name_file("hang");
	check_fall_and_return("hang", "NVML did not answer, and was ended");
}

/* Nobody waits for one that hangs. */
static void test_a_hang_ends_with_who_listens(void **state)
{
	int fd = start_hanging(1000);

	(void)state;
	close(fd);
	await_all();
	remove_file("hang");
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
	int fd = start_hanging(60);

	(void)state;
	await_hanging();
	remove_file("hang");
	kill(seen->hanging_pid, SIGKILL);
	assert_string_equal(next_reading(fd)->rung, "NVML");
	assert_string_equal(fixture.reading.note, "");
	close(fd);
	await_all();
}

/* A library's crash leaves no file behind, in whatever folder that would be. */
static void test_no_core_file(void **state)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	int fd = start_hanging(60);

	(void)state;
	assert_int_equal(prlimit(await_hanging(), RLIMIT_CORE, NULL, &limit), 0);
	assert_int_equal(limit.rlim_cur, 1);
	remove_file("hang");
	close(fd);
	await_all();
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
	char *search = put_program();
	int fd, pid;

	(void)state;
	put_hanging_script();
	fd = start_reader(5);
	pid = await_program();
	close(fd);
	assert_ends(pid);
	remove_program(search);
}

/* Also where the script itself ends well: while the reader goes on, nothing piles up. */
static void test_nothing_is_left_behind_a_script(void **state)
{
	char *search = put_program();
	int fd;

	(void)state;
	put("nvidia-smi", "#!/bin/sh\n/bin/sleep 600 >/dev/null &\necho $! >\"$PATH/new\"\n"
			  "/bin/mv \"$PATH/new\" \"$PATH/pid\"\n"
			  "[ \"${1#--query-gpu}\" = \"$1\" ] || echo GPU-a, 50, 100, 200, 30\n");
	fixture.told->init_result = 999;
	fd = start_reader(5);
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
	char *search = put_program();
	int fd, pid, reader;

	(void)state;
	put_hanging_script();
	fd = start_reader(5);
	pid = await_program();
	reader = parent_of(parent_of(pid));
	kill(parent_of(reader), SIGKILL);
	assert_ends(pid);
	assert_ends(reader);
	close(fd);
	remove_program(search);
}

/* The number of a reader that has ended may be anybody's: nobody is sent a signal by it. */
static void test_no_pipe_for_the_next_reader(void **state)
{
	int fd;

	(void)state;
	put("crash", "");
	fixture.told->crash_path = name_file("crash");
	seen->max_pipes = 1;
	fd = start_reader(1);
	for (int left = 6000; __atomic_load_n(&seen->n_refused, __ATOMIC_SEQ_CST) < 3 && left > 0;
	     left--)
		usleep(10000);
	assert_true(seen->n_refused >= 3);
	assert_int_equal(seen->n_strays, 0);
	close(fd);
	await_all();
	remove_file("crash");
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

/* Most jobs are shorter than some intervals. */
static void test_first_readings_come_soon(void **state)
{
	struct gpus_options options = { .root_fd = fixture.root_fd, .interval_seconds = 3600 };
	uint64_t first_ns;
	int fd;

	(void)state;
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	first_ns = next_reading(fd)->boot_ns;
	assert_true(next_reading(fd)->boot_ns > first_ns);
	close(fd);
	await_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_after_a_crash_the_next_one_answers, nothing_is_seen),
		cmocka_unit_test_setup(test_numbers_stay_after_a_crash, nothing_is_seen),
		cmocka_unit_test_setup(test_after_a_hang_the_next_one_answers, nothing_is_seen),
		cmocka_unit_test_setup(test_a_hang_ends_with_who_listens, nothing_is_seen),
		cmocka_unit_test_setup(test_killed_from_outside, nothing_is_seen),
		cmocka_unit_test_setup(test_no_core_file, nothing_is_seen),
		cmocka_unit_test_setup(test_nothing_is_left_of_a_script, nothing_is_seen),
		cmocka_unit_test_setup(test_nothing_is_left_behind_a_script, nothing_is_seen),
		cmocka_unit_test_setup(test_nothing_is_left_without_a_keeper, nothing_is_seen),
		cmocka_unit_test_setup(test_no_pipe_for_the_next_reader, nothing_is_seen),
		cmocka_unit_test(test_record),
		cmocka_unit_test_setup(test_first_readings_come_soon, nothing_is_seen),
	};

	return cmocka_run_group_tests_name("sources_gpu_reader", tests, open_reader, close_all);
}
