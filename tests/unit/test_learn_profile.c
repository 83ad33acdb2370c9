/*
 * Profiles from samples and events, against the cases of tests/golden/parsers whose
 * kind is "job_profile" and against made-up ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/gather_runs.h"

#define MB (UINT64_C(1024) * 1024)
#define SECOND UINT64_C(1000000000)
#define BOOT_A "11111111-0000-4000-8000-000000000001"
#define BOOT_B "22222222-0000-4000-8000-000000000002"

static struct profile *begin(enum profile_rules rules)
{
	struct profile *p = profile_new("job", rules);

	assert_non_null(p);
	return p;
}

/* The profile's JSON; it is freed. */
static json_t *end(struct profile *p)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;
	json_t *root;

	json_init(&j, &text);
	profile_write_json(&j, p);
	assert_int_equal(buf_error(&text), 0);
	profile_free(p);
	root = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	return root;
}

/* ---- golden ---- */

/* Keys in the same order, numbers of the same kind with the same bits. */
static void assert_same(const char *where, json_t *got, json_t *wanted)
{
	if (json_typeof(got) != json_typeof(wanted))
		fail_msg("%s: another type", where);
	if (json_is_object(wanted)) {
		void *a = json_object_iter(got), *b = json_object_iter(wanted);

		assert_int_equal(json_object_size(got), json_object_size(wanted));
		for (; b; a = json_object_iter_next(got, a), b = json_object_iter_next(wanted, b)) {
			assert_string_equal(json_object_iter_key(a), json_object_iter_key(b));
			assert_same(json_object_iter_key(b), json_object_iter_value(a),
				    json_object_iter_value(b));
		}
	} else if (json_is_real(wanted)) {
		double a = json_real_value(got), b = json_real_value(wanted);

		if (memcmp(&a, &b, sizeof(a)) != 0)
			fail_msg("%s: %.17g, wanted %.17g", where, a, b);
	} else if (!json_equal(got, wanted)) {
		fail_msg("%s differs", where);
	}
}

static int int_or_none(json_t *number)
{
	return json_is_null(number) ? SHEET_NONE : (int)json_integer_value(number);
}

static void feed_process(struct profile *p, json_t *process)
{
	struct syscall_share shares[16];
	struct profile_sample s = {
		.job_id = json_string_value(json_object_get(process, "job_id")),
		.key = { (pid_t)json_integer_value(json_object_get(process, "pid")), U64_UNKNOWN },
		.sheet_num = int_or_none(json_object_get(process, "sheet_num")),
		.rss_mb = json_number_value(json_object_get(process, "rss_mb")),
		.cpu_percent = json_number_value(json_object_get(process, "cpu_percent")),
		.cpu_ns = U64_UNKNOWN,
		.syscalls = shares,
	};
	const char *name;
	json_t *pct;

	json_object_foreach(json_object_get(process, "syscall_time_pct"), name, pct)
	{
		assert_true(s.n_syscalls < ARRAY_SIZE(shares));
		shares[s.n_syscalls++] = (struct syscall_share){ name, json_number_value(pct) };
	}
	assert_int_equal(profile_add_sample(p, &s), 0);
}

static void feed_event(struct profile *p, json_t *event)
{
	struct proc_event ev = { .job_id = json_string_value(json_object_get(event, "job_id")) };

	assert_int_equal(event_type_from_name(
				 json_string_value(json_object_get(event, "event_type")), &ev.type),
			 0);
	profile_add_event(p, &ev);
}

static void feed_snapshot(struct profile *p, json_t *snapshot)
{
	json_t *processes = json_object_get(snapshot, "processes");

	profile_begin_tick(p, NULL);
	for (size_t i = 0; i < json_array_size(processes); i++)
		feed_process(p, json_array_get(processes, i));
}

static void feed_case(struct profile *p, json_t *root)
{
	json_t *snapshots = json_object_get(root, "snapshots");
	json_t *events = json_object_get(root, "events");

	for (size_t i = 0; i < json_array_size(snapshots); i++)
		feed_snapshot(p, json_array_get(snapshots, i));
	for (size_t i = 0; i < json_array_size(events); i++)
		feed_event(p, json_array_get(events, i));
}

static void check_job(const char *file, json_t *root, json_t *expected)
{
	const char *job_id = json_string_value(json_object_get(expected, "job_id"));
	struct profile *p = profile_new(job_id, PROFILE_COMPAT);
	json_t *got;

	assert_non_null(p);
	print_message("# %s: %s\n", file, job_id);
	feed_case(p, root);
	got = end(p);
	assert_same(job_id, got, json_object_get(expected, "profile"));
	json_decref(got);
}

/* Returns how many profiles the file holds. */
static size_t check_file(const char *file)
{
	json_t *root = json_load_file(file, 0, NULL), *expected;
	size_t i, n = 0;

	if (!root) /* other kinds have counts that no integer of jansson holds */
		return 0;
	if (strcmp(json_string_value(json_object_get(root, "kind")), "job_profile") == 0)
		json_array_foreach(json_object_get(root, "expected"), i, expected)
		{
			check_job(file, root, expected);
			n++;
		}
	json_decref(root);
	return n;
}

static void test_golden_profiles(void **state)
{
	size_t n_files = 0, n_profiles = 0;
	char pattern[4096];
	glob_t files;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/golden/parsers/*.json", getenv("PROCTOR_TESTS"));
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		size_t n = check_file(files.gl_pathv[i]);

		n_files += n > 0;
		n_profiles += n;
	}
	globfree(&files);
	assert_int_equal(n_files, 10);
	assert_int_equal(n_profiles, 25);
}

/* ---- samples ---- */

static struct proc_sample *add_process(struct snapshot *s, pid_t pid, uint64_t start_ticks)
{
	struct proc_sample *p = snapshot_add_process(s);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, start_ticks };
	p->job_id = "job";
	p->sheet_num = 1;
	return p;
}

static void test_without_values_all_is_unknown(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);
	struct snapshot s;

	(void)state;
	assert_true(isnan(profile_peak_rss_mb(p)) && isnan(profile_cpu_seconds(p)));
	snapshot_init(&s);
	add_process(&s, 7, 1);
	assert_int_equal(profile_add_snapshot(p, &s), 0);
	assert_true(isnan(profile_peak_rss_mb(p)) && isnan(profile_cpu_seconds(p)));
	snapshot_release(&s);
	profile_free(p);
}

/* Two processes of a sheet, one of another, one of no job; then a smaller tick. */
static struct profile *two_ticks(enum profile_rules rules)
{
	static const uint64_t rss_mb[2][3] = { { 10, 20, 5 }, { 12, 1, 5 } };
	struct profile *p = begin(rules);
	struct snapshot s;

	snapshot_init(&s);
	for (int tick = 0; tick < 2; tick++) {
		snapshot_reset(&s);
		for (int i = 0; i < 3; i++) {
			struct proc_sample *process = add_process(&s, 100 + i, 1);

			process->sheet_num = i < 2 ? 1 : 2;
			process->rss_bytes = rss_mb[tick][i] * MB;
			process->cpu_percent = tick == 0 ? 50.0 : F64_UNKNOWN;
		}
		add_process(&s, 200, 1)->job_id = NULL;
		s.processes[3].rss_bytes = 1000 * MB;
		assert_int_equal(profile_add_snapshot(p, &s), 0);
	}
	snapshot_release(&s);
	return p;
}

static double sheet_number(json_t *root, const char *sheet, const char *key)
{
	json_t *object = json_object_get(json_object_get(root, "sheet_metrics"), sheet);

	return json_real_value(json_object_get(object, key));
}

static void check_two_ticks(enum profile_rules rules, double peak, double peak_1, double cpu_1)
{
	struct profile *p = two_ticks(rules);
	json_t *root;

	assert_true(profile_peak_rss_mb(p) == peak);
	root = end(p);
	assert_true(json_real_value(json_object_get(root, "peak_rss_mb")) == peak);
	assert_true(sheet_number(root, "1", "peak_rss_mb") == peak_1);
	assert_true(sheet_number(root, "1", "max_cpu_pct") == cpu_1);
	assert_true(sheet_number(root, "2", "peak_rss_mb") == 5.0);
	assert_true(sheet_number(root, "2", "max_cpu_pct") == 50.0);
	assert_int_equal(json_integer_value(json_object_get(root, "unique_pid_count")), 3);
	json_decref(root);
}

static void test_a_peak_is_a_sum_over_the_tick(void **state)
{
	(void)state;
	check_two_ticks(PROFILE_PROCTOR, 35.0, 30.0, 100.0);
}

static void test_a_compat_peak_is_of_one_process(void **state)
{
	(void)state;
	check_two_ticks(PROFILE_COMPAT, 20.0, 20.0, 50.0);
}

static void test_only_spawns_of_the_job_count(void **state)
{
	static const struct proc_event events[] = {
		{ .type = EVENT_SPAWN, .job_id = "job", .key = { 10, 1 } },
		{ .type = EVENT_SPAWN, .job_id = "job", .key = { 10, 1 } },
		{ .type = EVENT_EXIT, .job_id = "job", .key = { 11, 1 } },
		{ .type = EVENT_SPAWN, .job_id = "job2", .key = { 12, 1 } },
		{ .type = EVENT_SPAWN, .job_id = NULL, .key = { 13, 1 } },
	};
	struct profile *p = begin(PROFILE_PROCTOR);
	json_t *root;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		profile_add_event(p, &events[i]);
	root = end(p);
	assert_int_equal(json_integer_value(json_object_get(root, "process_spawn_count")), 2);
	json_decref(root);
}

/* ---- CPU time ---- */

static void see(struct profile *p, const char *boot_id, pid_t pid, uint64_t start_ticks,
		uint64_t cpu_ns)
{
	const struct profile_sample s = { .job_id = "job",
					  .key = { pid, start_ticks },
					  .sheet_num = SHEET_NONE,
					  .rss_mb = F64_UNKNOWN,
					  .cpu_percent = F64_UNKNOWN,
					  .cpu_ns = cpu_ns };

	profile_begin_tick(p, boot_id);
	assert_int_equal(profile_add_sample(p, &s), 0);
}

/* Compares, and ends it. */
static void check(struct profile *p, json_int_t n_pids, double cpu_seconds)
{
	json_t *root;

	if (isnan(cpu_seconds))
		assert_true(isnan(profile_cpu_seconds(p)));
	else
		assert_true(profile_cpu_seconds(p) == cpu_seconds);
	root = end(p);
	assert_int_equal(json_integer_value(json_object_get(root, "unique_pid_count")), n_pids);
	json_decref(root);
}

static void test_cpu_is_the_most_of_each_process(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);

	(void)state;
	see(p, BOOT_A, 10, 1, 2 * SECOND);
	see(p, BOOT_A, 11, 1, 1 * SECOND);
	see(p, BOOT_A, 10, 1, 5 * SECOND);
	see(p, BOOT_A, 10, 1, 4 * SECOND); /* counters do not fall: an odd reading */
	see(p, BOOT_A, 10, 1, U64_UNKNOWN);
	see(p, BOOT_A, 10, 1, 6 * SECOND);
	check(p, 2, 7);
}

static void test_cpu_is_the_larger_of_both_counts(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);
	struct snapshot s;

	(void)state;
	snapshot_init(&s);
	add_process(&s, 10, 1)->user_ns = 2 * SECOND;
	s.processes[0].system_ns = SECOND / 2;
	s.processes[0].cpu_ns = SECOND;
	add_process(&s, 11, 1)->job_id = NULL;
	s.processes[1].cpu_ns = 99 * SECOND;
	assert_int_equal(profile_add_snapshot(p, &s), 0);
	snapshot_release(&s);
	check(p, 1, 2.5);
}

static void test_cpu_that_does_not_fit_is_unknown(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);

	(void)state;
	see(p, BOOT_A, 10, 1, UINT64_MAX - 1);
	see(p, BOOT_A, 11, 1, UINT64_MAX - 1);
	see(p, BOOT_A, 12, 1, SECOND);
	check(p, 3, F64_UNKNOWN);
}

static void test_a_pid_used_twice_is_two_processes(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);

	(void)state;
	see(p, BOOT_A, 10, 100, 5 * SECOND);
	see(p, BOOT_A, 10, 900, 1 * SECOND);
	see(p, BOOT_A, 10, 100, 5 * SECOND); /* a late row of the first */
	see(p, BOOT_A, 10, 900, 2 * SECOND);
	check(p, 1, 7);
}

static void test_after_a_boot_pids_begin_again(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);

	(void)state;
	see(p, BOOT_A, 10, 900, 5 * SECOND);
	see(p, "", 10, 900, 6 * SECOND);
	see(p, BOOT_B, 10, 900, 2 * SECOND);
	see(p, BOOT_B, 11, 100, 1 * SECOND);
	check(p, 2, 9);
}

static void test_without_start_times_the_pid_decides(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);

	(void)state;
	see(p, NULL, 10, U64_UNKNOWN, 5 * SECOND);
	see(p, NULL, 10, 100, 6 * SECOND);
	see(p, NULL, 10, U64_UNKNOWN, 7 * SECOND);
	see(p, NULL, -1, 100, SECOND); /* no pids */
	see(p, NULL, 1 << 22, 100, SECOND);
	check(p, 1, 7);
}

/* ---- limits ---- */

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Each has one sample, a hundred a tick. */
static void test_a_million_processes_need_little_memory(void **state)
{
	const uint64_t n = 1000000;
	size_t before = heap_bytes();
	struct profile *p = begin(PROFILE_PROCTOR);
	struct profile_sample s = { .job_id = "job", .sheet_num = SHEET_NONE, .cpu_ns = SECOND };

	(void)state;
	for (uint64_t i = 0; i < n; i++) {
		s.key = (struct proc_key){ (pid_t)i + 1, 1000 + i / 100 };
		if (i % 100 == 0)
			profile_begin_tick(p, BOOT_A);
		assert_int_equal(profile_add_sample(p, &s), 0);
	}
	assert_true(heap_bytes() - before < 8 * MB);
	check(p, (json_int_t)n, (double)n);
}

/* One that was dropped and returns is not counted again. */
static void test_a_dropped_process_counts_once(void **state)
{
	static const uint64_t starts[] = { 50, U64_UNKNOWN };
	const pid_t n = PROFILE_MAX_PROCESSES + 10;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct profile *p = begin(PROFILE_PROCTOR);

		see(p, BOOT_A, 1, starts[i], 9 * SECOND);
		for (pid_t pid = 2; pid <= n; pid++)
			see(p, BOOT_A, pid, 60 + (uint64_t)pid, 0);
		see(p, BOOT_A, 1, starts[i], 9 * SECOND);
		check(p, n, 9);
	}
}

/* Without start times none is dropped, and so there is no room for more. */
static void test_pids_alone_are_not_dropped(void **state)
{
	const pid_t n = PROFILE_MAX_PROCESSES + 10;
	struct profile *p = begin(PROFILE_PROCTOR);

	(void)state;
	for (int round = 0; round < 2; round++)
		for (pid_t pid = 1; pid <= n; pid++)
			see(p, BOOT_A, pid, U64_UNKNOWN, SECOND);
	check(p, n, PROFILE_MAX_PROCESSES);
}

static void test_too_many_at_once_are_not_counted(void **state)
{
	const pid_t n = PROFILE_MAX_PROCESSES + 1000;
	struct profile *p = begin(PROFILE_PROCTOR);
	struct profile_sample s = { .job_id = "job", .sheet_num = SHEET_NONE, .cpu_ns = SECOND };

	(void)state;
	for (int tick = 0; tick < 3; tick++) {
		profile_begin_tick(p, BOOT_A);
		for (pid_t pid = 1; pid <= n; pid++) {
			s.key = (struct proc_key){ pid, 1 };
			assert_int_equal(profile_add_sample(p, &s), 0);
		}
	}
	check(p, n, PROFILE_MAX_PROCESSES);
}

static void test_sheets_are_limited(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);
	struct profile_sample s = { .job_id = "job", .rss_mb = 1.0, .cpu_ns = U64_UNKNOWN };
	json_t *root;

	(void)state;
	for (int num = 0; num <= PROFILE_MAX_SHEETS; num++) {
		s.sheet_num = num;
		assert_int_equal(profile_add_sample(p, &s), 0);
	}
	root = end(p);
	assert_int_equal(json_object_size(json_object_get(root, "sheet_metrics")),
			 PROFILE_MAX_SHEETS);
	json_decref(root);
}

/* The first name is too long, the last one too many; a share that is unknown adds nothing. */
static void test_syscalls_are_limited(void **state)
{
	struct profile *p = begin(PROFILE_PROCTOR);
	char name[PROFILE_MAX_SYSCALL_BYTES + 2];
	struct syscall_share share = { name, 0.5 };
	const struct profile_sample s = {
		.job_id = "job", .sheet_num = SHEET_NONE, .syscalls = &share, .n_syscalls = 1
	};
	json_t *root, *hotspots;

	(void)state;
	for (int i = 0; i < PROFILE_MAX_SYSCALLS + 2; i++) {
		snprintf(name, sizeof(name), "%0*d", i == 0 ? PROFILE_MAX_SYSCALL_BYTES + 1 : 4, i);
		assert_int_equal(profile_add_sample(p, &s), 0);
	}
	share.pct = F64_UNKNOWN;
	snprintf(name, sizeof(name), "0001");
	assert_int_equal(profile_add_sample(p, &s), 0);
	root = end(p);
	hotspots = json_object_get(root, "syscall_hotspots");
	assert_int_equal(json_object_size(hotspots), PROFILE_MAX_SYSCALLS);
	assert_true(json_real_value(json_object_get(hotspots, "0001")) == 0.5);
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_profiles),
		cmocka_unit_test(test_without_values_all_is_unknown),
		cmocka_unit_test(test_a_peak_is_a_sum_over_the_tick),
		cmocka_unit_test(test_a_compat_peak_is_of_one_process),
		cmocka_unit_test(test_only_spawns_of_the_job_count),
		cmocka_unit_test(test_cpu_is_the_most_of_each_process),
		cmocka_unit_test(test_cpu_is_the_larger_of_both_counts),
		cmocka_unit_test(test_cpu_that_does_not_fit_is_unknown),
		cmocka_unit_test(test_a_pid_used_twice_is_two_processes),
		cmocka_unit_test(test_after_a_boot_pids_begin_again),
		cmocka_unit_test(test_without_start_times_the_pid_decides),
		cmocka_unit_test(test_a_million_processes_need_little_memory),
		cmocka_unit_test(test_a_dropped_process_counts_once),
		cmocka_unit_test(test_pids_alone_are_not_dropped),
		cmocka_unit_test(test_too_many_at_once_are_not_counted),
		cmocka_unit_test(test_sheets_are_limited),
		cmocka_unit_test(test_syscalls_are_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
