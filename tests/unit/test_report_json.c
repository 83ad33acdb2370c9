/*
 * The JSON report: fields of the contract one by one, and the whole tree
 * against tests/golden/report/<case>.json (UPDATE_GOLDEN=1 writes them anew).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* jansson and base/json.h both have these two names; the test needs neither of jansson's. */
#define json_string jansson_string
#define json_null jansson_null
#include <jansson.h>
#undef json_string
#undef json_null
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/report.h"
#include "report_cases.h"

static json_t *report_of(const char *name)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	json_t *root = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		if (strcmp(report_cases[i].name, name) != 0)
			continue;
		report_cases[i].build(&a);
		assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
		attempt_release(&a);
		root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
	}
	assert_non_null(root);
	return root;
}

static const char *string_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	if (!s)
		fail_msg("%s is not a string", key);
	return s;
}

static double number_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_number(v))
		fail_msg("%s is not a number", key);
	return json_number_value(v);
}

static void assert_null_value(const json_t *o, const char *key)
{
	if (!json_is_null(json_object_get(o, key)))
		fail_msg("%s is not null", key);
}

static void assert_near(double actual, double expected)
{
	if (!(fabs(actual - expected) < 1e-9))
		fail_msg("%.12g is not %.12g", actual, expected);
}

/* Why what is unknown; NULL: nothing says so. */
static const char *why_unknown(const json_t *root, const char *what)
{
	const json_t *notes = json_object_get(root, "unknown"), *note;
	size_t i;

	json_array_foreach(notes, i, note)
	{
		if (strcmp(string_of(note, "what"), what) == 0)
			return string_of(note, "why");
	}
	return NULL;
}

static void test_contract_is_complete_in_every_case(void **state)
{
	static const char *const keys[] = {
		"job_id",
		"attempt",
		"outcome",
		"exit_code",
		"signal",
		"wall_seconds",
		"total_cpu_seconds",
		"user_cpu_seconds",
		"system_cpu_seconds",
		"peak_rss_mb",
		"max_process_rss_mb",
		"process_spawn_count",
		"unique_pid_count",
		"sheet_metrics",
		"syscall_hotspots",
		"processes",
		"events",
		"anomalies",
		"telemetry",
		"rungs",
		"unknown",
		"series",
		"evidence",
		"rung_reasons",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++) {
		json_t *root = report_of(report_cases[i].name);

		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			if (!json_object_get(root, keys[k]))
				fail_msg("%s has no %s", report_cases[i].name, keys[k]);
		json_decref(root);
	}
}

static void test_totals_have_the_units_of_the_contract(void **state)
{
	json_t *root = report_of("success"), *evidence = json_object_get(root, "evidence");

	(void)state;
	assert_string_equal(string_of(root, "job_id"), "sleep-20261115-034512");
	assert_string_equal(string_of(root, "status"), "done");
	assert_string_equal(string_of(root, "outcome"), "success");
	assert_near(number_of(root, "exit_code"), 0);
	assert_null_value(root, "signal");
	assert_near(number_of(root, "wall_seconds"), 3.21);
	assert_near(number_of(root, "user_cpu_seconds"), 1.02);
	assert_near(number_of(root, "system_cpu_seconds"), 0.1);
	assert_near(number_of(root, "total_cpu_seconds"), 1.12);
	assert_near(number_of(root, "peak_rss_mb"), 312);
	assert_near(number_of(root, "max_process_rss_mb"), 300);
	assert_true(json_is_integer(json_object_get(root, "process_spawn_count")));
	assert_near(number_of(root, "process_spawn_count"), 4);
	assert_near(number_of(root, "unique_pid_count"), 4);
	assert_near(number_of(root, "read_bytes"), 12 * 1048576.0);
	assert_near(number_of(root, "started"), 1794714308.0);
	assert_string_equal(string_of(evidence, "peak_rss_mb"), "exact");
	assert_string_equal(string_of(evidence, "max_cpu_pct"), "sampled");
	assert_string_equal(string_of(evidence, "unique_pid_count"), "exact");
	json_decref(root);
}

static void test_sheets_are_keyed_by_number_with_their_last_try(void **state)
{
	json_t *root = report_of("failure"), *sheets = json_object_get(root, "sheet_metrics");
	json_t *sheet = json_object_get(sheets, "4"), *tries = json_object_get(sheet, "tries");
	json_t *ranks = json_object_get(json_object_get(sheets, "2"), "ranks");

	(void)state;
	assert_int_equal(json_object_size(sheets), 5);
	assert_string_equal(string_of(sheet, "name"), "files");
	assert_string_equal(string_of(sheet, "outcome"), "success");
	assert_near(number_of(sheet, "try"), 2);
	assert_near(number_of(sheet, "peak_rss_mb"), 15);
	assert_near(number_of(sheet, "max_cpu_pct"), 198.4);
	assert_int_equal(json_array_size(tries), 2);
	assert_string_equal(string_of(json_array_get(tries, 0), "outcome"), "timeout");
	assert_near(number_of(json_array_get(tries, 0), "signal"), 15);
	assert_near(number_of(json_array_get(tries, 0), "wall_seconds"), 1.5);
	assert_null_value(json_array_get(tries, 0), "peak_rss_mb");
	assert_int_equal(json_array_size(ranks), 4);
	assert_near(number_of(json_array_get(ranks, 3), "rank"), 3);
	json_decref(root);
}

static void test_processes_events_and_series_are_all_there(void **state)
{
	json_t *root = report_of("failure"), *series = json_object_get(root, "series");
	json_t *processes = json_object_get(root, "processes"), *p = json_array_get(processes, 0);
	json_t *events = json_object_get(root, "events");

	(void)state;
	assert_int_equal(json_array_size(processes), 510);
	assert_near(number_of(p, "pid"), 4001);
	assert_near(number_of(p, "max_rss_mb"), 296.5);
	assert_near(number_of(p, "user_cpu_seconds"), 1.1);
	assert_string_equal(string_of(p, "evidence"), "exact");
	assert_null_value(p, "rchar");
	p = json_array_get(processes, 509); /* "at most" is about memory, never about CPU time */
	assert_string_equal(string_of(p, "evidence"), "at most");
	assert_string_equal(string_of(p, "cpu_evidence"), "exact");
	assert_int_equal(json_array_size(events), 1021);
	assert_string_equal(string_of(json_array_get(events, 1020), "event_type"), "kill");
	assert_int_equal(json_array_size(series), 19);
	assert_null_value(json_array_get(series, 0), "cpu_percent");
	assert_near(number_of(json_array_get(series, 1), "cpu_percent"), 20);
	assert_near(number_of(json_array_get(series, 1), "rss_mb"), 50);
	json_decref(root);
}

static void test_what_is_null_is_explained(void **state)
{
	json_t *root = report_of("failure");

	(void)state;
	assert_null_value(root, "anomalies");
	assert_string_equal(why_unknown(root, "anomalies"),
			    "this version does not look for anomalies");
	assert_null_value(root, "syscall_hotspots");
	assert_string_equal(why_unknown(root, "syscall_hotspots"), "they were not counted");
	assert_null(why_unknown(root, "peak_rss_mb"));
	json_decref(root);

	root = report_of("unknown");
	for (const char *const *key =
		     (const char *const[]){ "wall_seconds", "total_cpu_seconds", "peak_rss_mb",
					    "process_spawn_count", "unique_pid_count", NULL };
	     *key; key++) {
		assert_null_value(root, *key);
		assert_string_equal(why_unknown(root, *key), "nothing was recorded");
	}
	json_decref(root);
}

/* Without totals, what was seen stands in, and says what it is. */
static void test_running_attempt_shows_what_was_seen(void **state)
{
	json_t *root = report_of("running"), *evidence = json_object_get(root, "evidence");

	(void)state;
	assert_string_equal(string_of(root, "status"), "running");
	assert_null_value(root, "outcome");
	assert_null_value(root, "exit_code");
	assert_null_value(root, "ended");
	assert_near(number_of(root, "wall_seconds"), 8.05);
	assert_string_equal(string_of(evidence, "wall_seconds"), "at least");
	assert_near(number_of(root, "peak_rss_mb"), 260);
	assert_string_equal(string_of(evidence, "peak_rss_mb"), "sampled");
	assert_near(number_of(root, "process_spawn_count"), 9); /* as many lived at once */
	assert_string_equal(string_of(evidence, "process_spawn_count"), "at least");
	json_decref(root);
}

/* What the ended sheet had, and what the processes of the open one have used so far. */
static void test_ended_sheets_count_before_the_attempt_ends(void **state)
{
	json_t *root = report_of("running"), *evidence = json_object_get(root, "evidence");
	json_t *sheet = json_object_get(json_object_get(root, "sheet_metrics"), "2");

	(void)state;
	assert_near(number_of(root, "user_cpu_seconds"), 1.5);
	assert_near(number_of(root, "system_cpu_seconds"), 1);
	assert_string_equal(string_of(evidence, "total_cpu_seconds"), "at least");
	assert_near(number_of(root, "read_bytes"), 12 * 1048576.0);
	assert_string_equal(string_of(evidence, "read_bytes"), "at least");
	assert_near(number_of(root, "max_process_rss_mb"), 150);
	assert_near(number_of(sheet, "total_cpu_seconds"), 0.5);
	assert_null_value(sheet, "read_bytes");
	json_decref(root);

	root = report_of("lost");
	assert_near(number_of(root, "total_cpu_seconds"), 2);
	assert_near(number_of(root, "max_process_rss_mb"), 90);
	assert_null_value(json_object_get(json_object_get(root, "sheet_metrics"), "2"),
			  "total_cpu_seconds");
	json_decref(root);
}

/* Nothing is a lower bound that may be less than it says. */
static void test_upper_bounds_do_not_become_lower_ones(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	json_t *root;

	(void)state;
	case_lost(&a);
	a.sheets[0].usage.max_process_rss_evidence = EVIDENCE_UPPER_BOUND;
	a.sheets[0].usage.peak_rss_bytes = MB(900);
	a.sheets[0].usage.peak_rss_evidence = EVIDENCE_UPPER_BOUND;
	assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
	root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
	assert_null_value(root, "max_process_rss_mb");
	assert_near(number_of(root, "peak_rss_mb"), 260);
	json_decref(root);

	buf_reset(&out);
	a.sheets[0].usage.peak_rss_evidence = EVIDENCE_EXACT;
	assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
	root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
	assert_near(number_of(root, "peak_rss_mb"), 900);
	assert_string_equal(string_of(json_object_get(root, "evidence"), "peak_rss_mb"),
			    "at least");
	json_decref(root);
	attempt_release(&a);
}

/* The processes of an earlier try are in its totals already. */
static void test_tries_are_not_counted_twice(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	json_t *root;

	(void)state;
	case_running(&a);
	a.sheets[1].num = 1;
	a.sheets[1].try_num = 2;
	a.processes[1].sheet_num = 1;
	a.processes[1].born_wall_ns = AFTER(5.5);
	assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
	root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
	assert_near(number_of(root, "total_cpu_seconds"), 2.5);
	json_decref(root);
	attempt_release(&a);
}

static void test_processes_say_what_is_known_of_them(void **state)
{
	json_t *root = report_of("left"), *processes = json_object_get(root, "processes");
	const json_t *p = json_array_get(processes, 0);

	(void)state;
	/* Of the event, not of the clock tick; a double of this size is good to a microsecond. */
	assert_true(fabs(number_of(p, "born") - 1794714308.002) < 1e-6);
	assert_near(number_of(json_array_get(processes, 2), "born"), 1794714308.0);
	assert_null_value(json_array_get(processes, 1), "ppid");
	assert_null_value(json_array_get(processes, 1), "died");
	assert_string_equal(string_of(json_array_get(processes, 1), "cpu_evidence"), "sampled");
	assert_null_value(json_array_get(processes, 3), "max_rss_mb");
	assert_string_equal(string_of(json_array_get(processes, 3), "evidence"), "unknown");
	assert_string_equal(string_of(json_array_get(processes, 3), "cpu_evidence"), "exact");
	json_decref(root);
}

static void test_pid_of_nobody_is_not_counted(void **state)
{
	json_t *root = report_of("oom");

	(void)state;
	assert_near(number_of(root, "unique_pid_count"), 1);
	json_decref(root);
}

static void test_processes_at_once_are_as_exact_as_births(void **state)
{
	json_t *root = report_of("failure");

	(void)state;
	assert_string_equal(string_of(json_object_get(root, "evidence"), "max_processes"), "exact");
	json_decref(root);
	root = report_of("ranks");
	assert_string_equal(string_of(json_object_get(root, "evidence"), "max_processes"),
			    "at least");
	json_decref(root);
}

static void test_long_series_keeps_its_peaks(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attempt a;
	json_t *root, *series;

	(void)state;
	case_begin(&a, "long", "sleep");
	a.details.series = case_alloc(&a, 10001, sizeof(*a.details.series));
	a.details.n_series = 10001;
	for (int i = 0; i < 10001; i++)
		a.details.series[i] =
			(struct series_point){ AFTER(i), i < 5000 ? 1 : 2, MB(i == 4321 ? 99 : 1),
					       i == 0 ? F64_UNKNOWN : 7, 3 };
	assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
	root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
	series = json_object_get(root, "series");
	assert_near(number_of(root, "series_samples"), 10001);
	assert_near(number_of(root, "series_samples_per_point"), 3);
	assert_int_equal(json_array_size(series), 1667 + 1667); /* 5000 and 5001 samples by three */
	assert_near(number_of(json_array_get(series, 4321 / 3), "rss_mb"), 99);
	assert_near(number_of(json_array_get(series, 4321 / 3 + 1), "rss_mb"), 1);
	assert_near(number_of(json_array_get(series, 0), "cpu_percent"), 7);
	assert_near(number_of(json_array_get(series, 1666), "sheet_num"), 1);
	assert_near(number_of(json_array_get(series, 1667), "sheet_num"), 2);
	json_decref(root);
	attempt_release(&a);
}

static void check_golden(const char *name)
{
	json_t *root = report_of(name), *golden;
	char path[4096];

	snprintf(path, sizeof(path), "%s/golden/report/%s.json", getenv("PROCTOR_TESTS"), name);
	if (getenv("UPDATE_GOLDEN"))
		assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
	golden = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(golden);
	if (!json_equal(root, golden))
		fail_msg("%s differs: UPDATE_GOLDEN=1 and git diff show where", path);
	json_decref(golden);
	json_decref(root);
}

/* Counts that somebody has made were not made by nobody. */
static void test_the_daemon_counts_where_the_runner_does_not(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct rung rung = { RUNG_SYSCALLS, RUNG_UNKNOWN, "nobody asked for it" };
	struct syscall_use use = { .name = "read", .count = 7, .cpu_ns = 1 };
	struct attempt a;

	(void)state;
	attempt_init(&a);
	a.job_id = "j";
	a.details.rungs = &rung;
	a.details.n_rungs = 1;
	assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
	assert_non_null(strstr(out.data, "\"" RUNG_SYSCALLS "\":\"" RUNG_UNKNOWN "\""));
	buf_reset(&out);
	a.details.syscalls = &use;
	a.details.n_syscalls = 1;
	assert_int_equal(report_write(&a, REPORT_JSON, &out), 0);
	assert_non_null(strstr(out.data, "\"" RUNG_SYSCALLS "\":\"" RUNG_SYSCALLS_EBPF "\""));
	assert_null(strstr(out.data, "nobody asked for it"));
	assert_non_null(strstr(out.data, "\"syscalls\":\"at least\""));
	assert_non_null(strstr(out.data, "\"syscall_hotspots\":\"sampled\"")); /* of a part */
	assert_non_null(
		strstr(out.data, "{\"what\":\"syscalls\",\"why\":\"a daemon has counted them"));
	attempt_release(&a);
}

/* "failure" has 510 processes and is checked field by field above. */
static void test_whole_reports_are_as_agreed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(report_cases); i++)
		if (strcmp(report_cases[i].name, "failure") != 0)
			check_golden(report_cases[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contract_is_complete_in_every_case),
		cmocka_unit_test(test_totals_have_the_units_of_the_contract),
		cmocka_unit_test(test_sheets_are_keyed_by_number_with_their_last_try),
		cmocka_unit_test(test_processes_events_and_series_are_all_there),
		cmocka_unit_test(test_what_is_null_is_explained),
		cmocka_unit_test(test_running_attempt_shows_what_was_seen),
		cmocka_unit_test(test_ended_sheets_count_before_the_attempt_ends),
		cmocka_unit_test(test_upper_bounds_do_not_become_lower_ones),
		cmocka_unit_test(test_tries_are_not_counted_twice),
		cmocka_unit_test(test_processes_say_what_is_known_of_them),
		cmocka_unit_test(test_pid_of_nobody_is_not_counted),
		cmocka_unit_test(test_processes_at_once_are_as_exact_as_births),
		cmocka_unit_test(test_long_series_keeps_its_peaks),
		cmocka_unit_test(test_the_daemon_counts_where_the_runner_does_not),
		cmocka_unit_test(test_whole_reports_are_as_agreed),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
