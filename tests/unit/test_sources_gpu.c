/*
 * GPUs: what no driver can mean, places that stay, what the process that reads brings, and how it
 * ends.
 */
#include "gpu_tree.h"

#include <poll.h>

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
		cmocka_unit_test(test_odd_percent),
		cmocka_unit_test_setup_teardown(test_reader, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_no_gpu, open_tree, close_tree),
		cmocka_unit_test_setup_teardown(test_reader_ends, open_tree, close_tree),
		cmocka_unit_test(test_what_cannot_be_is_unknown),
		cmocka_unit_test(test_memory_of_a_process_that_cannot_be),
	};

	return cmocka_run_group_tests_name("sources_gpu", tests, NULL, NULL);
}
