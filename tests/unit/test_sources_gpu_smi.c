/* nvidia-smi as a program, which may warn, fail, hang or leave something behind. */
#include "gpu_tree.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/alive.h"
#include "base/io.h"
#include "sources/gpu/gpu.h"

#define SMI_DEVICES \
	"--query-gpu=uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,index"
#define SMI_PROCESSES "--query-compute-apps=gpu_uuid,pid,used_memory"

/* One that answers each query with its file, and then does as the script says. */
static void put_program(const struct tree *t, const char *rest)
{
	char text[512];

	put(t, "dev/nvidiactl", "");
	put(t, SMI_DEVICES, "GPU-a, 50, 100, 200, 30\nGPU-b, 101, [N/A], 200, 31\n");
	put(t, SMI_PROCESSES, "GPU-b, 100, 7\n");
	snprintf(text, sizeof(text), "#!/bin/sh\n/bin/cat \"%s/$1\"\n%s\n", t->path, rest);
	put(t, "nvidia-smi", text);
	run("chmod +x '%s/nvidia-smi'", t->path);
	put_process(t, 100, 100, "/dev/nvidia1");
	setenv("PATH", t->path, 1);
}

/* With all programs again. */
static void leave_program(void)
{
	setenv("PATH", "/usr/bin:/bin", 1);
}

static int close_program(void **state)
{
	leave_program();
	return close_tree(state);
}

/* 14 warns of a device whose memory of itself is spoilt. */
static void test_smi_program(void **state)
{
	const struct tree *t = *state;
	static struct gpu_reading reading;
	struct err err = ERR_INIT;
	void *opened;

	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), -ENODEV);
	put_process(t, 200, 200, "/dev/nvidia0"); /* draws: it is not listed */
	put_process(t, 300, 300, "/dev/null");
	put_program(t, "exit 14");
	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), 0);
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	assert_int_equal(reading.n_devices, 2);
	assert_true(reading.devices[0].memory_used_mb == 100);
	assert_true(reading.devices[1].utilization_pct == 100);
	assert_true(isnan(reading.devices[1].memory_used_mb));
	assert_int_equal(reading.n_processes, 2);
	assert_int_equal(reading.processes[0].device, 1);
	assert_int_equal(reading.processes[0].memory_bytes, 7 * MB);
	assert_true(isnan(reading.processes[0].utilization_pct));
	assert_int_equal(reading.processes[1].key.pid, 200);
	assert_int_equal(reading.processes[1].device, GPU_DEVICE_UNKNOWN);
	assert_false(u64_known(reading.processes[1].memory_bytes));
	assert_true(isnan(reading.processes[1].utilization_pct));
	gpu_smi.close(opened);
}

/* NVIDIA's driver has found one, and nobody can ask it: it stands there, unknown. */
static void test_found_but_not_asked(void **state)
{
	static struct gpu_slots slots = { .again_ns = GPU_AGAIN_NS };
	static struct gpu_reading reading;
	const struct tree *t = *state;

	if (dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL))
		skip(); /* a host that has the library */
	put(t, "proc/driver/nvidia/gpus/0000:01:00.0/information", "");
	put_card(t);
	setenv("PATH", t->path, 1); /* no program either */
	gpu_read_all(&slots, t->fd, &reading);
	assert_string_equal(reading.rung, "DRM fdinfo");
	assert_int_equal(reading.n_devices, 2);
	assert_true(isnan(reading.devices[0].utilization_pct));
	assert_true(reading.devices[1].utilization_pct == 37);
	assert_true(reading.n_left_out > 0);
	assert_string_equal(reading.note,
			    "libnvidia-ml.so.1 is not installed; nvidia-smi is not installed");
	gpu_close_all(&slots);
}

/* What it prints for people is neither a GPU nor a process. */
static void test_smi_program_warns(void **state)
{
	static struct gpu_reading reading;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	put_program(t, "");
	leave_program();
	put(t, SMI_DEVICES,
	    "WARNING: infoROM is corrupted at gpu 0000:1E:00.0\nGPU-a, 50, 100, 200, 30\n"
	    "a, word, too, many, here\nGPU-b, 7\nGPU-b, [N/A], 8, 9, ERR!\n");
	put(t, SMI_PROCESSES,
	    "WARNING: something, or other\nNo running processes found\nGPU-b, 100, 7\n"
	    "GPU-b, 100, 7, 8\nGPU-b, it, 7\n");
	setenv("PATH", t->path, 1);
	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), 0);
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	assert_int_equal(reading.n_devices, 2);
	assert_true(reading.devices[0].utilization_pct == 50);
	assert_true(isnan(reading.devices[1].utilization_pct));
	assert_true(reading.devices[1].memory_total_mb == 9);
	assert_int_equal(reading.n_processes, 1);
	assert_int_equal(reading.processes[0].device, 1);
	assert_int_equal(reading.n_left_out, 0);
	assert_string_equal(reading.note, "nvidia-smi tells no share (utilisation) of a process, "
					  "and lists none that only draws");
	gpu_smi.close(opened);
	leave_program();
	put(t, SMI_PROCESSES, "GPU-unknown, 100, 7\n[Unknown Error], 100, [N/A]\n");
	setenv("PATH", t->path, 1);
	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), 0);
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	assert_int_equal(reading.n_left_out, 2); /* processes, of which too little is known */
	gpu_smi.close(opened);
}

static const struct gpu_reading *read_smi(const struct tree *t)
{
	static struct gpu_reading reading;
	struct err err = ERR_INIT;
	void *opened;

	if (gpu_smi.open(t->fd, NULL, &opened, &err) < 0)
		fail_msg("%s", err.text);
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	gpu_smi.close(opened);
	return &reading;
}

/* Each line of a GPU is one, whatever is odd about it. */
static void test_smi_program_is_odd(void **state)
{
	const struct gpu_reading *r;
	const struct tree *t = *state;

	put_program(t, "");
	leave_program();
	put(t, SMI_DEVICES,
	    "GPU-a, 50 %, 100, 200, \nGPU-b, Unknown, 8, 9, 31\nGPU-c, 7\nGPU-d, 1, 2, 3, 4, 5, 6\n");
	setenv("PATH", t->path, 1);
	r = read_smi(t);
	assert_int_equal(r->n_devices, 4);
	assert_true(isnan(r->devices[0].utilization_pct) && isnan(r->devices[0].temperature_c));
	assert_true(r->devices[0].memory_used_mb == 100);
	assert_true(isnan(r->devices[1].utilization_pct));
	assert_true(r->devices[1].temperature_c == 31);
	assert_true(isnan(r->devices[2].utilization_pct) && isnan(r->devices[3].utilization_pct));
	assert_int_equal(r->processes[0].device, 1);
}

static void tell_nothing(void *ctx, const char *question, uint64_t ns)
{
	(void)ctx;
	(void)question;
	(void)ns;
}

/* One that has fallen off the bus hides no other. */
static void test_smi_program_tells_of_a_lost_one(void **state)
{
	const struct gpu_reading *r;
	const struct tree *t = *state;

	put_program(t, "exit 15");
	leave_program();
	put(t, SMI_DEVICES,
	    "GPU-a, 50, 100, 200, 30\nGPU-b, [GPU is lost], [GPU is lost], "
	    "[GPU is lost], [GPU is lost]\n");
	setenv("PATH", t->path, 1);
	r = read_smi(t);
	assert_int_equal(r->n_devices, 2);
	assert_true(r->devices[0].utilization_pct == 50);
	assert_true(isnan(r->devices[1].utilization_pct));
	assert_true(r->devices[1].is_lost && !r->devices[0].is_lost);
	assert_true(r->n_left_out > 0);
	assert_ptr_equal(strstr(r->note, "nvidia-smi says that GPU 1 is lost"), r->note);
	leave_program();
	put(t, SMI_DEVICES, "Unable to determine the device handle\nGPU-a, 50, 100, 200, 30\n");
	setenv("PATH", t->path, 1);
	r = read_smi(t);
	assert_int_equal(r->n_devices, 1);
	assert_ptr_equal(strstr(r->note, "nvidia-smi says that a GPU has fallen off the bus"),
			 r->note);
}

/* Also one that was lost from the beginning has its number, and the others have theirs. */
static void test_smi_program_tells_numbers(void **state)
{
	static struct gpu_reading reading;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	put_program(t, "exit 15");
	leave_program();
	put(t, SMI_DEVICES, "GPU-b, 50, 100, 200, 30, 1\nGPU-d, 60, 100, 200, 30, 3\n");
	setenv("PATH", t->path, 1);
	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), 0);
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	assert_int_equal(reading.n_devices, 4);
	assert_true(reading.devices[0].is_lost && reading.devices[2].is_lost);
	assert_true(reading.devices[1].utilization_pct == 50);
	assert_true(reading.devices[3].utilization_pct == 60);
	assert_ptr_equal(strstr(reading.note, "nvidia-smi says that GPU 0 is lost"), reading.note);
	leave_program();
	put(t, SMI_DEVICES, "GPU-a, 70, 100, 200, 30, 0\nGPU-b, 50, 100, 200, 30, 1\n");
	setenv("PATH", t->path, 1);
	gpu_smi.measure(opened, tell_nothing, NULL); /* asks again */
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	assert_true(reading.devices[0].utilization_pct == 70); /* it is back */
	assert_true(reading.devices[1].utilization_pct == 50);
	gpu_smi.close(opened);
}

static void test_smi_program_tells_of_too_many(void **state)
{
	static struct gpu_reading reading;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	char rows[(GPU_MAX_DEVICES + 1) * 40] = "";
	void *opened;

	put_program(t, "exit 0");
	leave_program();
	for (int i = 0; i <= GPU_MAX_DEVICES; i++)
		snprintf(rows + strlen(rows), sizeof(rows) - strlen(rows),
			 "GPU-%d, 50, 100, 200, 30, %d\n", i, i);
	put(t, SMI_DEVICES, rows);
	setenv("PATH", t->path, 1);
	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), 0);
	gpu_reading_init(&reading);
	assert_int_equal(gpu_smi.read(opened, &reading, &err), 0);
	assert_int_equal(reading.n_devices, GPU_MAX_DEVICES);
	assert_non_null(strstr(reading.note, "only the first 64 GPUs are read"));
	assert_true(reading.n_left_out > 0); /* who uses the last */
	gpu_smi.close(opened);
}

/* Devices stand, also if who holds them is not told. */
static void test_smi_program_tells_no_processes(void **state)
{
	const struct gpu_reading *r;
	const struct tree *t = *state;

	put_program(t, "case $1 in *apps*) exit 3 ;; esac");
	leave_program();
	put(t, SMI_DEVICES, "GPU-a, 50, 100, 200, 30\n");
	setenv("PATH", t->path, 1);
	r = read_smi(t);
	assert_int_equal(r->n_devices, 1);
	assert_true(r->devices[0].utilization_pct == 50);
	assert_true(r->n_left_out > 0);
	assert_ptr_equal(strstr(r->note, "nvidia-smi failed"), r->note);
}

/* How it ends says what is wrong, in words. */
static void test_smi_program_fails(void **state)
{
	static const struct {
		const char *end;
		int code;
		const char *why;
	} cases[] = {
		{ "exit 4", -EACCES, "nvidia-smi has no permission to ask the driver" },
		{ "exit 6", -ENODEV, "nvidia-smi finds no GPU" },
		{ "exit 9", -ENODEV, "nvidia-smi says that NVIDIA's driver is not loaded" },
		{ "exit 3", -EIO, "nvidia-smi failed: its exit status is 3" },
		{ "echo; echo the driver is too old; echo really; exit 18", -EIO,
		  "nvidia-smi failed: the driver is too old (exit status 18)" },
		{ "kill -SEGV $$", -EIO, "nvidia-smi crashed (Segmentation fault)" },
		{ "exec /bin/cat /dev/zero", -EFBIG,
		  "nvidia-smi printed more than 256 KiB, and was ended" },
	};
	const struct tree *t = *state;
	void *opened;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;

		leave_program();
		put_program(t, cases[i].end);
		run("/bin/rm -r '%s/proc/100'", t->path);
		assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), cases[i].code);
		assert_string_equal(err.text, cases[i].why);
	}
}

/* Whether the process runs whose pid stands in that file. */
static bool is_running(const char *path)
{
	char text[2048] = "", stat_path[64], state;
	uint64_t start_ticks;

	assert_true(io_read_text_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", atoi(text));
	return io_read_text_at(AT_FDCWD, stat_path, text, sizeof(text)) > 0 &&
	       alive_parse_stat(text, &state, &start_ticks) == 0 && state != 'Z';
}

static void assert_ends(const char *path)
{
	for (int left = 6000; is_running(path) && left > 0; left--)
		usleep(30000);
	assert_false(is_running(path));
}

/* All that it has to say is said, and it does not end; nor does what it has started. */
static void test_smi_program_hangs(void **state)
{
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	char script[512], path[128];
	void *opened;

	snprintf(path, sizeof(path), "%s/pid", t->path);
	snprintf(script, sizeof(script),
		 "exec >/dev/null; /bin/sleep 600 & echo $! >'%s'; wait; exit 0", path);
	put_program(t, script);
	assert_int_equal(gpu_smi.open(t->fd, NULL, &opened, &err), -ETIMEDOUT);
	assert_string_equal(err.text, "nvidia-smi did not answer within 5 s, and was ended");
	assert_ends(path);
}

/* It ends with who asked, even if that is killed. */
static void test_smi_program_ends_with_who_asked(void **state)
{
	const struct tree *t = *state;
	char script[512], path[128];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/pid", t->path);
	snprintf(script, sizeof(script),
		 "echo $$ >'%s.new'; /bin/mv '%s.new' '%s'; exec /bin/sleep 600", path, path, path);
	put_program(t, script);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		void *opened;

		gpu_smi.open(t->fd, NULL, &opened, NULL);
		_exit(0);
	}
	for (int left = 6000; access(path, F_OK) < 0 && left > 0; left--)
		usleep(10000);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_ends(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_smi_program, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_found_but_not_asked, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_warns, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_is_odd, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_of_a_lost_one, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_numbers, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_of_too_many, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_no_processes, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_fails, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_hangs, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_ends_with_who_asked, open_tree,
						close_program),
	};

	return cmocka_run_group_tests_name("sources_gpu_smi", tests, NULL, NULL);
}
