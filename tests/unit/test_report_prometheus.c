/*
 * The text for Prometheus of a snapshot made here: what is known, in base units, and
 * nothing of what is not. docs/metrics.md lists its metrics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "report/report.h"

/* A host with two GPUs, of which the second tells little, and two jobs. */
struct fixture {
	struct snapshot snap;
	struct gpu_sample gpus[2];
	struct job_progress progress[2];
	struct buf text;
};

static struct proc_sample *add_process(struct snapshot *snap, const char *job_id, double cpu)
{
	struct proc_sample *p = snapshot_add_process(snap);

	assert_non_null(p);
	p->job_id = job_id;
	p->cpu_percent = cpu;
	p->state = 'S';
	p->threads = 2;
	p->rss_bytes = 4096;
	p->open_fds = 3;
	return p;
}

static int setup(void **state)
{
	static struct fixture f;

	snapshot_init(&f.snap);
	f.text = (struct buf)BUF_INIT;
	f.snap.wall_ns = 1700000000500000000;
	f.snap.running_jobs = 2;
	for (size_t i = 0; i < 2; i++) {
		gpu_sample_init(&f.gpus[i]);
		f.gpus[i].index = (int)i;
		f.gpus[i].utilization_pct = 50;
	}
	f.gpus[0].memory_used_mb = 1.5;
	f.gpus[0].sm_clock_mhz = 1980;
	f.gpus[0].throttle = GPU_THROTTLE_POWER_CAP;
	f.snap.gpus = f.gpus;
	f.snap.n_gpus = 2;
	f.progress[0] = (struct job_progress){ .job_id = "a/1", .total_sheets = 4 };
	f.progress[1] = (struct job_progress){ .job_id = "b", .total_sheets = 1 };
	f.snap.progress = f.progress;
	f.snap.n_progress = 2;
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	buf_release(&f->text);
	snapshot_release(&f->snap);
	return 0;
}

static const char *text_of(struct fixture *f)
{
	assert_int_equal(report_prometheus(&f->text, &f->snap), 0);
	return f->text.data;
}

/* Whether a line of text is this one. */
static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (strncmp(p, line, n) == 0 && p[n] == '\n')
			return true;
	return false;
}

static void test_units(void **state)
{
	const char *text = text_of(*state);

	assert_true(has_line(text, "proctor_snapshot_timestamp_seconds 1700000000.5"));
	assert_true(has_line(text, "proctor_running_jobs 2.0"));
	assert_true(has_line(text, "proctor_gpu_utilization_ratio{gpu=\"0\"} 0.5"));
	assert_true(has_line(text, "proctor_gpu_utilization_ratio{gpu=\"1\"} 0.5"));
	assert_true(has_line(text, "proctor_gpu_memory_used_bytes{gpu=\"0\"} 1572864.0"));
	assert_true(has_line(text, "proctor_gpu_sm_clock_hertz{gpu=\"0\"} 1980000000.0"));
	assert_true(has_line(text, "proctor_gpu_throttled{gpu=\"0\",reason=\"power_cap\"} 1"));
	assert_true(has_line(text, "proctor_gpu_throttled{gpu=\"0\",reason=\"thermal\"} 0"));
	assert_true(has_line(text, "proctor_job_sheets{job_id=\"a/1\"} 4.0"));
}

static void test_unknown_has_no_line(void **state)
{
	const char *text = text_of(*state);

	assert_null(strstr(text, "proctor_gpu_memory_used_bytes{gpu=\"1\"}"));
	assert_null(strstr(text, "proctor_gpu_throttled{gpu=\"1\""));
	assert_null(strstr(text, "proctor_gpu_power_watts")); /* neither does its title */
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "null"));
}

static void test_title_once_before_its_lines(void **state)
{
	const char *text = text_of(*state);
	const char *title = strstr(text, "# TYPE proctor_gpu_utilization_ratio gauge\n");

	assert_non_null(title);
	assert_null(strstr(title + 1, "# TYPE proctor_gpu_utilization_ratio"));
	assert_ptr_equal(strstr(text, "\nproctor_gpu_utilization_ratio"), strchr(title, '\n'));
}

static void test_jobs_are_summed(void **state)
{
	struct fixture *f = *state;
	const char *text;

	add_process(&f->snap, "a/1", 25)->gpu_memory_bytes = 4096;
	add_process(&f->snap, "a/1", F64_UNKNOWN)->gpu_memory_bytes = 0; /* just born */
	add_process(&f->snap, "a/1", 50)->state = 'Z';
	add_process(&f->snap, "b", 100)->open_fds = U64_UNKNOWN;
	add_process(&f->snap, NULL, 100);
	text = text_of(f);
	assert_true(has_line(text, "proctor_job_processes{job_id=\"a/1\"} 3.0"));
	assert_true(has_line(text, "proctor_job_rss_bytes{job_id=\"a/1\"} 8192.0"));
	assert_true(has_line(text, "proctor_job_cpu_cores{job_id=\"a/1\"} 0.25"));
	assert_true(has_line(text, "proctor_job_open_fds{job_id=\"a/1\"} 6.0"));
	assert_true(has_line(text, "proctor_job_gpu_memory_bytes{job_id=\"a/1\"} 4096.0"));
	assert_null(strstr(text, "proctor_job_gpu_memory_bytes{job_id=\"b\"}")); /* not told */
	assert_true(has_line(text, "proctor_job_cpu_cores{job_id=\"b\"} 1.0"));
	assert_null(strstr(text, "proctor_job_open_fds{job_id=\"b\"}"));
}

static void test_no_gpu_and_no_job(void **state)
{
	struct fixture *f = *state;
	const char *text;

	f->snap.n_gpus = 0;
	f->snap.n_progress = 0;
	text = text_of(f);
	assert_null(strstr(text, "proctor_gpu_"));
	assert_null(strstr(text, "proctor_job_"));
	assert_non_null(strstr(text, "proctor_running_jobs "));
}

/* ---- docs/metrics.md ---- */

static const char *next(const char *text, const char *title)
{
	const char *found = text ? strstr(text, title) : NULL;

	return found ? found + 1 : NULL;
}

static void test_page_has_each_metric(void **state)
{
	struct fixture *f = *state;
	const char *tests = getenv("PROCTOR_TESTS");
	CLEANUP(buf_release) struct buf path = BUF_INIT, page = BUF_INIT;
	const char *text;
	size_t n_rows = 0;

	f->gpus[0].memory_total_mb = 2;
	f->gpus[0].temperature_c = 40;
	f->gpus[0].power_watts = 100;
	f->gpus[0].energy_joules = 1000;
	f->gpus[0].ecc_errors = 0;
	f->gpus[0].last_xid = 79;
	add_process(&f->snap, "a/1", 25)->gpu_memory_bytes = 4096;
	text = text_of(f);

	assert_non_null(tests);
	buf_printf(&path, "%s/../docs/metrics.md", tests);
	assert_int_equal(io_read_at(AT_FDCWD, path.data, 1 << 20, &page), 0);
	for (const char *p = next(text, "\n# TYPE "); p; p = next(p, "\n# TYPE ")) {
		char name[64], type[16], row[128];

		assert_int_equal(sscanf(p, "# TYPE %63s %15s", name, type), 2);
		snprintf(row, sizeof(row), "\n| `%s` | %s | ", name, type);
		if (!strstr(page.data, row))
			fail_msg("docs/metrics.md has no row%s", row);
	}
	/* Of the host the integration test has all of them. */
	for (const char *p = next(page.data, "\n| `proctor_"); p; p = next(p, "\n| `proctor_")) {
		char name[64], title[128];

		assert_int_equal(sscanf(p, "| `%63[a-z0-9_]", name), 1);
		snprintf(title, sizeof(title), "\n# TYPE %s ", name);
		if (strstr(name, "_gpu_") || strstr(name, "_job_")) {
			n_rows++;
			if (!strstr(text, title))
				fail_msg("there is no metric %s", name);
		}
	}
	assert_int_equal(n_rows, 10 + 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_units, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_has_no_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_title_once_before_its_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_jobs_are_summed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_gpu_and_no_job, setup, teardown),
		cmocka_unit_test_setup_teardown(test_page_has_each_metric, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
