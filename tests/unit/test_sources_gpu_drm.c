/*
 * GPUs that the kernel itself drives: what it tells of their clients, and the cards as they come
 * and go.
 */
#include "gpu_tree.h"

#include "sources/gpu/gpu.h"

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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), -ENODEV);
	put_card(t);
	put_process(t, 100, 100, "/dev/dri/renderD128");
	put(t, "proc/100/fdinfo/5", amd_client);
	put_process(t, 200, 200, "/dev/dri/renderD128"); /* the same client, inherited */
	put(t, "proc/200/fdinfo/5", amd_client);
	put_process(t, 300, 300, "/dev/null");
	put(t, "proc/300/fdinfo/5", amd_client);
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), 0);
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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), 0);
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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), 0);
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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), 0);
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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), 0);
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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), 0);
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
	assert_int_equal(gpu_drm.open(t->fd, NULL, &opened, &err), -ENODEV);
	put_card(t);
	assert_true(sources_has_gpu(t->fd));
}

/* Under WSL2 there is one device file for all GPUs, of whichever vendor. */
static void test_gpu_of_windows(void **state)
{
	const struct tree *t = *state;
	CLEANUP(free_ptr) char *path = strdup(getenv("PATH"));
	char own[4200];

	setenv("PATH", "/nowhere", 1);
	run("/bin/mkdir -p '%s/dev' && : >'%s/dev/dxg'", t->path, t->path);
	assert_false(sources_has_gpu(t->fd));
	run("/bin/mkdir -p '%s/usr/lib/wsl/lib' '%s/bin'", t->path, t->path);
	run("printf '#!/bin/sh\n' >'%s/bin/nvidia-smi' && /bin/chmod +x '%s/bin/nvidia-smi'",
	    t->path, t->path);
	snprintf(own, sizeof(own), "/nowhere:%s/bin", t->path);
	setenv("PATH", own, 1);
	assert_true(sources_has_gpu(t->fd));
	setenv("PATH", "/nowhere", 1);
	run(": >'%s/usr/lib/wsl/lib/libnvidia-ml.so.1' #%s", t->path, "");
	assert_true(sources_has_gpu(t->fd));
	setenv("PATH", path, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drm_client),
		cmocka_unit_test(test_drm_intel),
		cmocka_unit_test(test_drm_engines_by_name),
		cmocka_unit_test(test_drm_counter_that_falls),
		cmocka_unit_test(test_drm_system_memory_only),
		cmocka_unit_test_setup_teardown(test_drm_tree, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_kfd, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_drm_process_that_is_closed, open_tree,
						close_tree),
		cmocka_unit_test_setup_teardown(test_too_many_cards, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_card_is_gone, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_card_is_added, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_display_adapter, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_gpu_of_windows, open_tree, close_tree),
	};

	return cmocka_run_group_tests_name("sources_gpu_drm", tests, NULL, NULL);
}
