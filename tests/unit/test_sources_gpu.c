/*
 * GPUs: the texts of nvidia-smi (tests/golden/parsers, kind "nvidia_smi") and of the
 * kernel's drivers, whose a device is, what the process that reads brings, and how it ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* base/json.h has functions of these names too. */
#define json_string jansson_string
#define json_null jansson_null
#include <jansson.h>
#undef json_string
#undef json_null
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/gpu.h"
#include "sources/gpu_drm.h"
#include "sources/gpu_smi.h"

#define MB (UINT64_C(1) << 20)

/* ---- nvidia-smi ---- */

static double golden_number(const json_t *value)
{
	const char *text = json_string_value(value);

	if (!text)
		return json_number_value(value);
	return strcmp(text, "nan") == 0 ? (double)NAN : text[0] == '-' ? -INFINITY : INFINITY;
}

static void assert_same_number(double got, double want)
{
	if (isnan(want))
		assert_true(isnan(got));
	else
		assert_true(got == want);
}

static void assert_line(const struct smi_line *got, const json_t *want)
{
	static const char *const keys[SMI_FIELDS] = { "utilization_pct", "memory_used_mb",
						      "memory_total_mb", "temperature_c" };

	assert_true(got->index == json_number_value(json_object_get(want, "index")));
	for (size_t i = 0; i < SMI_FIELDS; i++)
		assert_same_number(got->values[i], golden_number(json_object_get(want, keys[i])));
}

static void check_case(const json_t *root)
{
	const json_t *expected = json_object_get(root, "expected");
	struct smi_line lines[16];
	size_t n = smi_parse(json_string_value(json_object_get(root, "input")), lines, 16), at = 0;

	for (size_t i = 0; i < n; i++)
		if (lines[i].is_whole)
			assert_line(&lines[i], json_array_get(expected, at++));
	assert_int_equal(at, json_array_size(expected));
}

static void test_smi_golden(void **state)
{
	char pattern[512];
	glob_t found;
	size_t n = 0;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/golden/parsers/*.json", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		json_t *root = json_load_file(found.gl_pathv[i], JSON_DECODE_INT_AS_REAL, NULL);

		assert_non_null(root);
		if (strcmp(json_string_value(json_object_get(root, "kind")), "nvidia_smi") == 0) {
			check_case(root);
			n++;
		}
		json_decref(root);
	}
	globfree(&found);
	assert_true(n >= 6);
}

static void test_smi_unknown_fields(void **state)
{
	struct smi_line lines[4];

	(void)state;
	assert_int_equal(smi_parse("[N/A], 100, [Not Supported], 30\n1,2,3\n", lines, 4), 2);
	assert_false(lines[0].is_whole);
	assert_true(isnan(lines[0].values[SMI_UTILIZATION]));
	assert_true(lines[0].values[SMI_MEMORY_USED] == 100);
	assert_true(isnan(lines[0].values[SMI_MEMORY_TOTAL]));
	assert_true(lines[0].values[SMI_TEMPERATURE] == 30);
	assert_false(lines[1].is_whole);
	assert_int_equal(smi_parse("1,2,3,4\n5,6,7,8\n", lines, 1), 1); /* no more than asked for */
}

static void test_odd_percent(void **state)
{
	struct gpu_reading *r = malloc(sizeof(*r));

	(void)state;
	assert_non_null(r);
	gpu_reading_init(r);
	assert_true(gpu_sane_percent(r, 0, 55) == 55);
	assert_int_equal(r->remark[0], '\0');
	assert_true(gpu_sane_percent(r, 3, 101) == 100);
	assert_non_null(strstr(r->remark, "GPU 3"));
	assert_true(isnan(gpu_sane_percent(r, 0, -1)));
	assert_true(isnan(gpu_sane_percent(r, 0, INFINITY)));
	free(r);
}

/* ---- the kernel's drivers ---- */

static const char amd_client[] = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1\n"
				 "drm-driver:\tamdgpu\ndrm-client-id:\t42\n"
				 "drm-pdev:\t0000:03:00.0\n"
				 "drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t512 KiB\n"
				 "drm-engine-gfx:\t123456 ns\ndrm-engine-compute:\t99 ns\n"
				 "drm-engine-capacity-gfx:\t2\n";

static void test_drm_client(void **state)
{
	struct drm_client c;

	(void)state;
	assert_true(drm_parse_client(amd_client, &c));
	assert_string_equal(c.slot, "0000:03:00.0");
	assert_int_equal(c.id, 42);
	assert_int_equal(c.memory_bytes, 2 * MB);
	assert_string_equal(c.engines[0].name, "gfx");
	assert_int_equal(c.engines[0].busy_ns, 123456);
	assert_int_equal(c.engines[0].capacity, 2);
	assert_string_equal(c.engines[1].name, "compute");
	assert_int_equal(c.engines[1].busy_ns, 99);
	assert_int_equal(c.engines[2].name[0], '\0');
	/* What is resident says more than what was asked for. */
	assert_true(drm_parse_client("drm-pdev: 0000:00:02.0\ndrm-client-id: 1\n"
				     "drm-total-vram0: 8 MiB\ndrm-resident-vram0: 3 MiB\n"
				     "drm-resident-vram1: 1 MiB\n",
				     &c));
	assert_int_equal(c.memory_bytes, 4 * MB);
	assert_true(drm_parse_client("drm-pdev: 0000:00:02.0\ndrm-client-id: 1\n", &c));
	assert_true(!u64_known(c.memory_bytes));
	assert_false(drm_parse_client("pos:\t0\nflags:\t02\n", &c));
	assert_false(drm_parse_client("drm-client-id:\tx\ndrm-pdev:\t0000:03:00.0\n", &c));
	assert_false(drm_parse_client("drm-client-id:\t1\n", &c));
}

static struct drm_client client_of(const char *text)
{
	char whole[512];
	struct drm_client c;

	snprintf(whole, sizeof(whole), "drm-pdev: 0000:03:00.0\ndrm-client-id: 3\n%s", text);
	assert_true(drm_parse_client(whole, &c));
	return c;
}

static double busy_percent(const struct drm_client *now, const struct drm_client *before,
			   double wall_ns)
{
	struct drm_use use = { 0 };

	drm_add_use(&use, now, before, wall_ns);
	return drm_busiest_percent(&use);
}

/* Intel's older driver counts time and calls its memory local, its newer one counts cycles. */
static void test_drm_intel(void **state)
{
	struct drm_client before = client_of("drm-engine-render: 1000 ns\ndrm-engine-video: 0 ns\n"
					     "drm-engine-capacity-video: 2\n"
					     "drm-resident-system0: 6044 KiB\n"
					     "drm-resident-local0: 3 MiB\n");
	struct drm_client now = client_of("drm-engine-render: 1250 ns\ndrm-engine-video: 900 ns\n"
					  "drm-engine-capacity-video: 2\n");

	(void)state;
	assert_int_equal(before.memory_bytes, 3 * MB);
	assert_true(busy_percent(&now, &before, 1000) == 45); /* of two that decode */
	before = client_of("drm-cycles-rcs: 100\ndrm-total-cycles-rcs: 10000\n");
	now = client_of("drm-cycles-rcs: 400\ndrm-total-cycles-rcs: 11000\n");
	assert_true(busy_percent(&now, &before, 1) == 30);
	before = client_of("drm-cycles-ccs: 100\n");
	assert_true(isnan(busy_percent(&now, &before, 1))); /* another engine, of an unknown age */
	now = client_of("drm-engine-a23456789012345678901234: 1\ndrm-engine-: 1\ndrm-engine-x\n");
	assert_int_equal(now.engines[0].name[0], '\0');
}

/* Engines are found by their names; one that was not told before had done nothing. */
static void test_drm_engines_by_name(void **state)
{
	struct drm_client before = client_of("drm-engine-video: 100 ns\n");
	struct drm_client now = client_of("drm-engine-render: 300 ns\ndrm-engine-video: 200 ns\n");
	struct drm_use use = { 0 };

	(void)state;
	assert_true(busy_percent(&now, &before, 1000) == 30);
	assert_true(busy_percent(&now, NULL, 1000) == 30); /* a client that is new */
	/* Two clients on different engines do not make one engine busier. */
	now = client_of("drm-engine-render: 500 ns\n");
	drm_add_use(&use, &now, NULL, 1000);
	now = client_of("drm-engine-video: 600 ns\n");
	drm_add_use(&use, &now, NULL, 1000);
	assert_true(drm_busiest_percent(&use) == 60);
	drm_add_use(&use, &now, NULL, 1000);
	assert_true(drm_busiest_percent(&use) == 120);
}

/* A counter that falls for a moment makes nobody idle, and is not counted again when it is back. */
static void test_drm_counter_that_falls(void **state)
{
	struct drm_client before = client_of("drm-engine-gfx: 500 ns\ndrm-engine-dma: 0 ns\n");
	struct drm_client now = client_of("drm-engine-gfx: 400 ns\ndrm-engine-dma: 0 ns\n");

	(void)state;
	drm_keep_highest(&now, &before);
	assert_true(isnan(busy_percent(&now, &before, 1000)));
	before = now;
	now = client_of("drm-engine-gfx: 1100 ns\ndrm-engine-dma: 0 ns\n");
	drm_keep_highest(&now, &before);
	assert_true(isnan(busy_percent(&now, &before, 1000))); /* it is of two looks */
	before = now;
	now = client_of("drm-engine-gfx: 1400 ns\ndrm-engine-dma: 0 ns\n");
	drm_keep_highest(&now, &before);
	assert_true(busy_percent(&now, &before, 1000) == 30);
}

/* An integrated GPU has no memory of its own: that of others stays known. */
static void test_drm_system_memory_only(void **state)
{
	struct drm_client c = client_of("drm-total-system0: 8 MiB\ndrm-resident-system0: 6 MiB\n"
					"drm-resident-stolen-system0: 0\n");

	(void)state;
	assert_int_equal(c.memory_bytes, 0);
	c = client_of("drm-total-cycles-rcs: 8\n"); /* of which nothing is said of memory */
	assert_true(!u64_known(c.memory_bytes));
}

/* ---- captured trees ---- */

struct tree {
	char path[64];
	int fd;
};

static void run(const char *format, ...)
{
	char command[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	assert_int_equal(system(command), 0);
}

static int open_tree(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	strcpy(t->path, "/tmp/proctor-gpu-XXXXXX");
	assert_non_null(mkdtemp(t->path));
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(t->fd >= 0);
	*state = t;
	return 0;
}

static int close_tree(void **state)
{
	struct tree *t = *state;

	close(t->fd);
	run("rm -rf '%s'", t->path);
	free(t);
	return 0;
}

static void put(const struct tree *t, const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	run("mkdir -p \"$(dirname '%s/%s')\"", t->path, path);
	snprintf(whole, sizeof(whole), "%s/%s", t->path, path);
	file = fopen(whole, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* A process with that start time, and what its file 5 is. */
static void put_process(const struct tree *t, int pid, int inner_pid, const char *target)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	snprintf(
		text, sizeof(text),
		"%d (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
		"0 0 0 0 0 0 0\n",
		pid, pid * 10);
	put(t, path, text);
	snprintf(path, sizeof(path), "proc/%d/status", pid);
	snprintf(text, sizeof(text), "Name:\tp\nNSpid:\t%d\t%d\n", pid, inner_pid);
	put(t, path, text);
	run("mkdir -p '%s/proc/%d/fd' '%s/proc/%d/fdinfo'", t->path, pid, t->path, pid);
	run("ln -s '%s' '%s/proc/%d/fd/5'", target, t->path, pid);
}

/* By who has never looked. */
static bool find_owner(const struct tree *t, uint64_t pid, const struct gpu_files *files,
		       struct proc_key *ret)
{
	struct gpu_owners *owners = calloc(1, sizeof(*owners));
	bool is_found;

	assert_non_null(owners);
	is_found = gpu_owners_find(owners, t->fd, pid, files, ret);
	free(owners);
	return is_found;
}

static void test_owner(void **state)
{
	const struct tree *t = *state;
	struct proc_key key;

	put_process(t, 100, 1, "/dev/nvidia0");
	put_process(t, 200, 17, "/dev/nvidiactl");
	put_process(t, 300, 3, "/dev/null");
	assert_true(find_owner(t, 100, &gpu_nvidia_files, &key));
	assert_int_equal(key.pid, 100);
	assert_int_equal(key.start_ticks, 1000);
	/* 17 is there as the pid inside a container. */
	assert_true(find_owner(t, 17, &gpu_nvidia_files, &key));
	assert_int_equal(key.pid, 200);
	/* A process that holds no GPU is not meant, though it has the pid. */
	assert_false(find_owner(t, 300, &gpu_nvidia_files, &key));
	assert_false(find_owner(t, 999, &gpu_nvidia_files, &key));
	/* Two could be meant: nobody knows which. */
	put_process(t, 400, 17, "/dev/nvidia0");
	assert_false(find_owner(t, 17, &gpu_nvidia_files, &key));
}

/* The first is that user's, the second somebody else's, as far as we may do that. */
static void give_away(const struct tree *t, uid_t user)
{
	if (geteuid() == 0)
		run("chown %u '%s'/proc/300 && chown 4242 '%s'/proc/301", (unsigned)user, t->path,
		    t->path);
	else
		run("rm -r '%s'/proc/301", t->path);
}

/* A program that is more than its user may not be looked into: then it may hold one. */
static void test_own_process_that_is_closed(void **state)
{
	const struct tree *t = *state;
	struct gpu_reading *r = calloc(1, sizeof(*r));
	const uid_t uid = geteuid(), stranger = uid == 0 ? 65534 : uid;

	assert_non_null(r);
	put_process(t, 300, 300, "/dev/nvidia0");
	put_process(t, 301, 301, "/dev/nvidia0");
	give_away(t, stranger);
	run("chmod -R a+rX '%s' && chmod 0 '%s'/proc/30?/fd", t->path, t->path);
	assert_int_equal(seteuid(stranger), 0);
	gpu_add_holders(t->fd, &gpu_nvidia_files, r);
	assert_int_equal(seteuid(uid), 0);
	run("chmod 700 '%s'/proc/30?/fd", t->path);
	assert_int_equal(r->n_processes, 1);
	assert_int_equal(r->processes[0].key.pid, 300);
	assert_false(u64_known(r->processes[0].memory_bytes));
	assert_int_equal(r->only_own, uid == 0);
	free(r);
}

/* Says when it may not be looked into, and waits to be ended. */
static void be_closed(uid_t user, int tell_fd)
{
	if (geteuid() != user && setuid(user) < 0)
		_exit(1);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
	    write(tell_fd, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* So says the kernel: the folder of one that may not be looked into is its user's all the same. */
static void test_whose_a_closed_process_is(void **state)
{
	const uid_t uid = geteuid(), user = uid == 0 ? 65534 : uid;
	int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fds[2];
	enum gpu_holds holds;
	bool is_own, is_other;
	char said;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_closed(user, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &said, 1), 1);
	is_other = !gpu_is_own(root_fd, (uint64_t)pid);
	assert_int_equal(seteuid(user), 0);
	holds = gpu_holds_device(root_fd, (uint64_t)pid, &gpu_nvidia_files, NULL);
	is_own = gpu_is_own(root_fd, (uint64_t)pid);
	assert_int_equal(seteuid(uid), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	assert_int_equal(holds, GPU_HOLDS_MAYBE);
	assert_true(is_own && is_other == (uid == 0));
	assert_false(gpu_is_own(root_fd, INT32_MAX)); /* nobody's pid */
	close(root_fd);
}

/* What a search found stands for a while, but not for another process. */
static void test_owners_are_remembered(void **state)
{
	static struct gpu_owners owners;
	const struct tree *t = *state;
	struct proc_key key;

	put_process(t, 200, 17, "/dev/nvidiactl");
	assert_true(gpu_owners_find(&owners, t->fd, 17, &gpu_nvidia_files, &key));
	assert_int_equal(key.pid, 200);
	assert_false(gpu_owners_find(&owners, t->fd, 18, &gpu_nvidia_files, &key));
	run("rm -r '%s/proc/200'", t->path);
	put_process(t, 300, 17, "/dev/nvidiactl");
	/* An older look does not know it, and stands for a second only. */
	for (int left = 1000; left > 0; left--, usleep(30000))
		if (gpu_owners_find(&owners, t->fd, 17, &gpu_nvidia_files, &key))
			break;
	assert_int_equal(key.pid, 300);
	put_process(t, 400, 18, "/dev/nvidiactl");
	for (int left = 1000; left > 0; left--, usleep(30000))
		if (gpu_owners_find(&owners, t->fd, 18, &gpu_nvidia_files, &key))
			break;
	assert_int_equal(key.pid, 400);
}

/* However many pids are nobody's here, processes are looked through once for all of them. */
static void test_one_look_for_all(void **state)
{
	static struct gpu_owners owners;
	const struct tree *t = *state;
	uint64_t before_ns = clock_boot_ns(), seconds;
	struct proc_key key;

	put_process(t, 200, 17, "/dev/nvidiactl");
	for (uint64_t pid = 1000; pid < 1000 + 4 * GPU_MAX_OWNERS; pid++)
		assert_false(gpu_owners_find(&owners, t->fd, pid, &gpu_nvidia_files, &key));
	assert_true(gpu_owners_find(&owners, t->fd, 17, &gpu_nvidia_files, &key));
	seconds = (clock_boot_ns() - before_ns) / 1000000000;
	assert_true(owners.n_looks <= 1 + seconds);
}

/* From outside a chroot its device files have longer names. */
static void test_device_in_a_chroot(void **state)
{
	static const struct gpu_files files = { "/dev/nvidia", 1 }, others = { "/dev/nvidia", 2 };
	const struct tree *t = *state;
	char jail[128];
	struct proc_key key;

	run("mkdir -p '%s/jail/dev' && ln -s /dev/null '%s/jail/dev/nvidia0'", t->path, t->path);
	snprintf(jail, sizeof(jail), "%s/jail/dev/nvidia0", t->path);
	put_process(t, 100, 100, jail);
	assert_true(find_owner(t, 100, &files, &key));
	assert_false(find_owner(t, 100, &others, &key)); /* a file of that name */
}

static void put_card(const struct tree *t)
{
	put(t, "sys/class/drm/card1/device/vendor", "0x1002\n");
	put(t, "sys/class/drm/card1/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
	put(t, "sys/class/drm/card1/device/gpu_busy_percent", "37\n");
	put(t, "sys/class/drm/card1/device/mem_info_vram_used", "1073741824\n");
	put(t, "sys/class/drm/card1/device/mem_info_vram_total", "8589934592\n");
	put(t, "sys/class/drm/card1/device/hwmon/hwmon4/temp1_input", "51000\n");
	put(t, "sys/class/drm/card1/device/hwmon/hwmon4/power1_average", "95000000\n");
	put(t, "sys/class/drm/card1-DP-1/device/vendor", "0x1002\n");
}

static void put_other_card(const struct tree *t, int number)
{
	char path[64], uevent[64];

	snprintf(path, sizeof(path), "sys/class/drm/card%d/device/uevent", number);
	snprintf(uevent, sizeof(uevent), "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:%02x:00.0\n", number);
	put(t, path, uevent);
}

static void test_drm_tree(void **state)
{
	const struct tree *t = *state;
	struct gpu_reading *r = malloc(sizeof(*r));
	struct err err = ERR_INIT;
	void *opened;

	assert_non_null(r);
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), -ENODEV);
	put_card(t);
	put_process(t, 100, 100, "/dev/dri/renderD128");
	put(t, "proc/100/fdinfo/5", amd_client);
	put_process(t, 200, 200, "/dev/dri/renderD128"); /* the same client, inherited */
	put(t, "proc/200/fdinfo/5", amd_client);
	put_process(t, 300, 300, "/dev/null");
	put(t, "proc/300/fdinfo/5", amd_client);
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), 0);
	gpu_reading_init(r);
	gpu_add_device(r, "another driver's");
	assert_int_equal(gpu_drm.read(opened, r, &err), 0);
	assert_int_equal(r->n_devices, 2);
	assert_int_equal(r->devices[1].index, 1);
	assert_true(r->devices[1].utilization_pct == 37);
	assert_true(r->devices[1].memory_used_mb == 1024);
	assert_true(r->devices[1].memory_total_mb == 8192);
	assert_true(r->devices[1].temperature_c == 51);
	assert_true(r->devices[1].power_watts == 95);
	assert_int_equal(r->n_processes, 1);
	assert_int_equal(r->processes[0].device, 1);
	assert_int_equal(r->processes[0].memory_bytes, 2 * MB);
	assert_true(isnan(r->processes[0].utilization_pct)); /* one look tells no share */
	gpu_drm.close(opened);
	free(r);
}

/* ROCm computes through a file of its own, of which no fdinfo tells. */
static void test_kfd(void **state)
{
	static struct gpu_reading r;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	put_card(t);
	put_process(t, 100, 100, "/dev/dri/renderD128");
	put(t, "proc/100/fdinfo/5", amd_client);
	run("ln -s /dev/kfd '%s/proc/100/fd/6'", t->path);
	put_process(t, 200, 200, "/dev/kfd");
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), 0);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_int_equal(r.n_processes, 3);
	assert_int_equal(r.processes[0].memory_bytes, 2 * MB);
	for (int i = 1; i < 3; i++) {
		bool is_listed = r.processes[i].key.pid == 100;

		assert_true(isnan(r.processes[i].utilization_pct));
		assert_true(r.processes[i].memory_bytes == (is_listed ? 0 : U64_UNKNOWN));
	}
	gpu_drm.close(opened);
}

/* One with more rights than its user is not looked into, and may be a client. */
static void test_drm_process_that_is_closed(void **state)
{
	static struct gpu_reading r;
	const uid_t uid = geteuid(), stranger = uid == 0 ? 65534 : uid;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	put_card(t);
	put_process(t, 300, 300, "/dev/dri/renderD128");
	put_process(t, 301, 301, "/dev/dri/renderD128");
	give_away(t, stranger);
	run("chmod -R a+rX '%s' && chmod 0 '%s'/proc/30?/fd", t->path, t->path);
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), 0);
	gpu_reading_init(&r);
	assert_int_equal(seteuid(stranger), 0);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_int_equal(seteuid(uid), 0);
	run("chmod 700 '%s'/proc/30?/fd", t->path);
	gpu_drm.close(opened);
	assert_int_equal(r.only_own, uid == 0);
	assert_int_equal(r.n_processes, 1);
	assert_int_equal(r.processes[0].key.pid, 300);
	assert_false(u64_known(r.processes[0].memory_bytes));
	assert_true(isnan(r.processes[0].utilization_pct));
}

/* More than there is room for: that is said, of those that are there and of one that comes. */
static void test_too_many_cards(void **state)
{
	static struct gpu_reading r;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	for (int i = 0; i < GPU_MAX_DEVICES; i++)
		put_other_card(t, i);
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), 0);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_int_equal(r.n_devices, GPU_MAX_DEVICES);
	assert_string_equal(r.note, "");
	put_other_card(t, GPU_MAX_DEVICES);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_int_equal(r.n_devices, GPU_MAX_DEVICES);
	assert_string_equal(r.note, "only the first 64 GPUs are read");
	gpu_drm.close(opened);
}

static void test_card_is_gone(void **state)
{
	static struct gpu_reading r;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	put_card(t);
	put(t, "sys/class/drm/card7/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:99:00.0\n");
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), 0);
	run("rm -r '%s/sys/class/drm/card7'", t->path);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_int_equal(r.n_devices, 2);
	assert_true(r.devices[0].utilization_pct == 37);
	assert_true(isnan(r.devices[1].utilization_pct));
	assert_string_equal(r.note, "AMD (card7) at 0000:99:00.0 is gone");
	assert_int_equal(r.n_left_out, 2); /* who holds it, and whoever: there is no proc here */
	assert_true(r.devices[1].is_lost && !r.devices[0].is_lost);
	run("mv '%s/sys/class/drm' '%s/drm'", t->path, t->path);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_true(r.devices[1].is_lost && r.devices[0].is_lost);
	run("mv '%s/drm' '%s/sys/class/drm'", t->path, t->path);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_true(r.devices[1].is_lost && !r.devices[0].is_lost);
	assert_true(r.devices[0].utilization_pct == 37);
	gpu_drm.close(opened);
}

/* It stands behind those that were there, whatever its place on the bus. */
static void test_card_is_added(void **state)
{
	static struct gpu_reading r;
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;
	int left;

	put_card(t);
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), 0);
	gpu_reading_init(&r);
	assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	assert_string_equal(r.note, "");
	put(t, "sys/class/drm/card0/device/uevent", "DRIVER=xe\nPCI_SLOT_NAME=0000:01:00.0\n");
	run("mv '%s/sys/class/drm/card1' '%s/sys/class/drm/card5'", t->path, t->path);
	for (left = 600; r.n_devices < 2 && left > 0; left--, usleep(50000)) {
		gpu_reading_init(&r);
		assert_int_equal(gpu_drm.read(opened, &r, &err), 0);
	}
	assert_int_equal(r.n_devices, 2);
	assert_true(r.devices[0].utilization_pct == 37); /* under its new name */
	assert_string_equal(r.names[1], "Intel (card0)");
	assert_string_equal(r.remark, "Intel (card0) at 0000:01:00.0 was added: it is GPU 1");
	gpu_drm.close(opened);
}

/* What shows the console of a server is no GPU. */
static void test_display_adapter(void **state)
{
	const struct tree *t = *state;
	struct err err = ERR_INIT;
	void *opened;

	run("mkdir -p '%s/dev/dri' && touch '%s/dev/dri/card0'", t->path, t->path);
	put(t, "sys/class/drm/card0/device/vendor", "0x1a03\n");
	put(t, "sys/class/drm/card0/device/uevent", "DRIVER=ast\nPCI_SLOT_NAME=0000:03:00.0\n");
	assert_false(sources_has_gpu(t->fd));
	assert_int_equal(gpu_drm.open(t->fd, &opened, &err), -ENODEV);
	put_card(t);
	assert_true(sources_has_gpu(t->fd));
}

/* ---- nvidia-smi as a program ---- */

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

	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), -ENODEV);
	put_process(t, 200, 200, "/dev/nvidia0"); /* draws: it is not listed */
	put_process(t, 300, 300, "/dev/null");
	put_program(t, "exit 14");
	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), 0);
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
	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), 0);
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
	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), 0);
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

	if (gpu_smi.open(t->fd, &opened, &err) < 0)
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

struct item {
	int number;
	char id[GPU_ID_BYTES];
};

static void make_item(void *item, const char *id, const char *name)
{
	struct item *made = item;

	(void)name;
	*made = (struct item){ .number = -1 };
	snprintf(made->id, sizeof(made->id), "%s", id);
}

/* The first was lost before its id was told: what others are called is no name for it. */
static void test_places(void **state)
{
	static struct gpu_places places = { .n = 3, .ids = { "", "b", "c" } };
	struct item had[GPU_MAX_DEVICES] = { { 1, "b" }, { 2, "c" } };
	struct item all[GPU_MAX_DEVICES] = { { 2, "c" }, { 0, "a" }, { 1, "b" }, { 3, "d" } };
	struct gpu_items items = { had, sizeof(had[0]), offsetof(struct item, id), make_item };

	(void)state;
	assert_int_equal(gpu_keep_places(&places, &items, 2), 3);
	assert_int_equal(had[0].number, -1);
	assert_int_equal(had[1].number, 1);
	assert_int_equal(had[2].number, 2);
	items.first = all;
	assert_int_equal(gpu_keep_places(&places, &items, 4), 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(all[i].number, i);
	places = (struct gpu_places){ .n = 2 }; /* of a library that tells no ids */
	items.first = memset(had, 0, sizeof(had));
	assert_int_equal(gpu_keep_places(&places, &items, 2), 2);
	assert_int_equal(gpu_keep_places(&places, &items, 1), 2);
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
	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), 0);
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
	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), 0);
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
		assert_int_equal(gpu_smi.open(t->fd, &opened, &err), cases[i].code);
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
	assert_int_equal(gpu_smi.open(t->fd, &opened, &err), -ETIMEDOUT);
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

		gpu_smi.open(t->fd, &opened, NULL);
		_exit(0);
	}
	for (int left = 6000; access(path, F_OK) < 0 && left > 0; left--)
		usleep(10000);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_ends(path);
}

/* ---- the process that reads ---- */

static bool has_reader_ended(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, 5000) > 0;
}

/* From the captured card to the snapshot of a collector. */
static void test_reader(void **state)
{
	const struct tree *t = *state;
	struct gpus_options options = { .root_fd = t->fd, .interval_seconds = 1, .at_once = true };
	struct snapshot s;
	struct gpus *g = NULL;
	struct proc_sample *p;

	run("mkdir -p '%s/dev/dri' && touch '%s/dev/dri/card1'", t->path, t->path);
	put_card(t);
	put_process(t, 100, 100, "/dev/dri/renderD128");
	put(t, "proc/100/fdinfo/5", amd_client);
	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	assert_non_null(g);
	gpus_wait(g, 20000);
	snapshot_init(&s);
	p = snapshot_add_process(&s);
	p->key = (struct proc_key){ 99, 1 };
	p = snapshot_add_process(&s);
	p->key = (struct proc_key){ 100, 1000 };
	s.boot_ns = 0;
	gpus_fill(g, &s);
	gpus_fill_processes(g, &s, false);
	assert_int_equal(s.n_gpus, 1);
	assert_true(s.gpus[0].utilization_pct == 37);
	assert_int_equal(s.processes[0].gpu_memory_bytes, 0); /* all that hold some are known */
	assert_int_equal(s.processes[1].gpu_memory_bytes, 2 * MB);
	s.processes[1].key.start_ticks = 7; /* another process has the pid now */
	gpus_fill_processes(g, &s, false);
	assert_int_equal(s.processes[1].gpu_memory_bytes, 0);
	assert_string_equal(gpus_rung(g), "DRM fdinfo");
	snapshot_release(&s);
	gpus_close(g);
}

static void test_no_gpu(void **state)
{
	const struct tree *t = *state;
	struct gpus_options options = { .root_fd = t->fd, .interval_seconds = 1 };
	struct gpus *g = (struct gpus *)1;

	assert_int_equal(gpus_open(&options, &g, NULL), 0);
	assert_null(g);
}

/* What hangs on the other end of the socket ends with it. */
static void test_reader_ends(void **state)
{
	const struct tree *t = *state;
	struct gpus_options options = { .root_fd = t->fd, .interval_seconds = 60 };
	int fd = -1, life[2];

	assert_int_equal(pipe(life), 0); /* the reader has a copy of nothing that we have open */
	assert_int_equal(gpu_reader_start(&options, &fd, NULL), 0);
	close(life[1]);
	assert_true(has_reader_ended(life[0]));
	close(life[0]);
	close(fd);
}

/* An alarm about 5000 degrees would be false, and memory that is not there cannot be in use. */
static void test_what_cannot_be_is_unknown(void **state)
{
	static struct gpu_reading r;
	struct gpu_sample *sane, *odd;

	(void)state;
	gpu_reading_init(&r);
	sane = gpu_add_device(&r, "a");
	odd = gpu_add_device(&r, "b");
	sane->temperature_c = 95;
	sane->memory_used_mb = sane->memory_total_mb = 81920;
	sane->power_watts = 700;
	sane->sm_clock_mhz = 1980;
	odd->power_watts = 4294967.295;
	odd->sm_clock_mhz = 4294967295.0;
	odd->temperature_c = 5000;
	odd->memory_used_mb = 90000;
	odd->memory_total_mb = 81920;
	gpu_check_devices(&r, 0);
	assert_true(sane->temperature_c == 95 && sane->memory_used_mb == 81920);
	assert_true(sane->power_watts == 700 && sane->sm_clock_mhz == 1980);
	assert_true(isnan(odd->temperature_c) && isnan(odd->memory_used_mb));
	assert_true(isnan(odd->power_watts) && isnan(odd->sm_clock_mhz));
	assert_true(odd->memory_total_mb == 81920);
	assert_non_null(strstr(r.note, "GPU 1 says that it has 5000 degrees"));
	gpu_reading_init(&r);
	odd = gpu_add_device(&r, "a");
	odd->memory_used_mb = odd->memory_total_mb = 4e9;
	gpu_check_devices(&r, 0);
	assert_true(isnan(odd->memory_used_mb) && isnan(odd->memory_total_mb));
	assert_true(r.note[0] != '\0');
}

/* Nor can a process hold more than there is. */
static void test_memory_of_a_process_that_cannot_be(void **state)
{
	static struct gpu_reading r;
	struct gpu_process p = { .key = { 7, 1 }, .utilization_pct = 5 };

	(void)state;
	gpu_reading_init(&r);
	gpu_add_device(&r, "a")->memory_total_mb = 200;
	gpu_add_device(&r, "b");
	p.memory_bytes = 200 * MB;
	gpu_add_process(&r, &p);
	p.device = 1;
	p.memory_bytes = UINT64_C(17592186044414) * MB;
	gpu_add_process(&r, &p);
	p.key.pid = 8;
	p.memory_bytes = 5000000 * MB;
	gpu_add_process(&r, &p);
	p.device = 0;
	gpu_add_process(&r, &p);
	gpu_check_devices(&r, 0);
	assert_int_equal(r.processes[0].memory_bytes, 200 * MB);
	assert_int_equal(r.processes[1].memory_bytes, U64_UNKNOWN);
	assert_int_equal(r.processes[2].memory_bytes, 5000000 * MB);
	assert_int_equal(r.processes[3].memory_bytes, U64_UNKNOWN);
	assert_true(r.processes[1].utilization_pct == 5);
	assert_non_null(strstr(r.note, "process 7 is said to hold"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_cannot_be_is_unknown),
		cmocka_unit_test(test_memory_of_a_process_that_cannot_be),
		cmocka_unit_test(test_smi_golden),
		cmocka_unit_test(test_smi_unknown_fields),
		cmocka_unit_test(test_odd_percent),
		cmocka_unit_test(test_drm_client),
		cmocka_unit_test(test_drm_intel),
		cmocka_unit_test(test_drm_engines_by_name),
		cmocka_unit_test(test_drm_counter_that_falls),
		cmocka_unit_test(test_drm_system_memory_only),
		cmocka_unit_test_setup_teardown(test_device_in_a_chroot, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_display_adapter, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_smi_program, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_found_but_not_asked, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_fails, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_is_odd, open_tree, close_program),
		cmocka_unit_test(test_places),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_numbers, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_of_too_many, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_of_a_lost_one, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_tells_no_processes, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_hangs, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_warns, open_tree, close_program),
		cmocka_unit_test_setup_teardown(test_smi_program_ends_with_who_asked, open_tree,
						close_program),
		cmocka_unit_test_setup_teardown(test_owner, open_tree, close_tree),
		cmocka_unit_test(test_whose_a_closed_process_is),
		cmocka_unit_test_setup_teardown(test_own_process_that_is_closed, open_tree,
						close_tree),
		cmocka_unit_test_setup_teardown(test_owners_are_remembered, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_one_look_for_all, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_drm_tree, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_kfd, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_drm_process_that_is_closed, open_tree,
						close_tree),
		cmocka_unit_test_setup_teardown(test_too_many_cards, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_card_is_gone, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_card_is_added, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_reader, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_no_gpu, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_reader_ends, open_tree, close_tree),
	};

	return cmocka_run_group_tests_name("sources_gpu", tests, NULL, NULL);
}
