#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/guest.h"

#define NOW UINT64_C(2000000000000000000)

static struct rpc_value *parse(const char *text)
{
	static const struct rpc_value_limits limits = { 64, 131072 };
	struct rpc_value *v = NULL;
	struct err err = ERR_INIT;

	if (rpc_value_parse(text, strlen(text), &limits, &v, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return v;
}

/* What a daemon understands of what a runner writes. */
static void tell(const struct attempt *a, const struct sheet_record *sheets, size_t n,
		 struct attempt *ret)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct rpc_value *v;
	struct err err = ERR_INIT;
	struct json j;

	json_init(&j, &text);
	guest_write(&j, a, sheets, n);
	v = parse(text.data);
	if (guest_read(v, NOW, ret, &err) < 0)
		fail_msg("%s", err.text);
	rpc_value_free(v);
}

static struct attempt make_attempt(void)
{
	struct attempt a;

	attempt_init(&a);
	a.job_id = "nightly";
	a.command = "make all";
	a.workdir = "/src";
	a.is_running = true;
	a.argv_hash = UINT64_C(0xfedcba9876543210);
	a.interval_seconds = 0.5;
	a.started_wall_ns = NOW - 5;
	a.total_sheets = 3;
	a.last_completed_sheet = 1;
	a.current_sheet = 2;
	return a;
}

static void test_what_is_told_is_understood(void **state)
{
	struct attempt a = make_attempt(), back;

	(void)state;
	tell(&a, NULL, 0, &back);
	assert_string_equal(back.job_id, "nightly");
	assert_string_equal(back.command, "make all");
	assert_string_equal(back.workdir, "/src");
	assert_true(back.argv_hash == a.argv_hash);
	assert_true(back.interval_seconds == 0.5);
	assert_true(back.started_wall_ns == NOW - 5);
	assert_int_equal(back.total_sheets, 3);
	assert_int_equal(back.last_completed_sheet, 1);
	assert_int_equal(back.current_sheet, 2);
	assert_true(back.is_running);
	assert_false(u64_known(back.ended_wall_ns));
	assert_false(u64_known(back.uid)); /* that is nothing a runner could tell */
	assert_int_equal(back.runner.pid, 0);
	attempt_release(&back);
}

static void test_the_end(void **state)
{
	struct attempt a = make_attempt(), back;

	(void)state;
	a.is_running = false;
	a.current_sheet = SHEET_NONE;
	a.outcome = OUTCOME_OOM;
	a.reason = "killed";
	a.status = (struct exit_status){ -1, 9 };
	a.ended_wall_ns = NOW - 1;
	a.usage.user_ns = 7;
	a.usage.cpu_evidence = EVIDENCE_EXACT;
	a.usage.spawn_count = 0;
	a.usage.peak_cpu_percent = 99.5;
	tell(&a, NULL, 0, &back);
	assert_false(back.is_running);
	assert_int_equal(back.current_sheet, SHEET_NONE);
	assert_int_equal(back.outcome, OUTCOME_OOM);
	assert_string_equal(back.reason, "killed");
	assert_int_equal(back.status.exit_code, -1);
	assert_int_equal(back.status.signal, 9);
	assert_true(back.ended_wall_ns == NOW - 1);
	assert_true(back.usage.user_ns == 7 && back.usage.spawn_count == 0);
	assert_false(u64_known(back.usage.system_ns)); /* unknown is not 0 */
	assert_int_equal(back.usage.cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(back.usage.io_evidence, EVIDENCE_UNKNOWN);
	assert_true(back.usage.peak_cpu_percent == 99.5);
	attempt_release(&back);
}

static void test_sheets(void **state)
{
	struct sheet_record sheets[GUEST_MAX_SHEETS + 2] = { 0 };
	struct attempt a = make_attempt(), back;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sheets); i++) {
		sheets[i] = (struct sheet_record){
			.num = (int)i + 1,
			.try_num = 2,
			.name = "n",
			.total_ranks = 4,
			.started_wall_ns = 5,
			.ended_wall_ns = U64_UNKNOWN,
			.status = { -1, -1 },
		};
		usage_init(&sheets[i].usage);
	}
	sheets[1].ended_wall_ns = 6;
	sheets[1].outcome = OUTCOME_FAILURE;
	sheets[1].status.exit_code = 3;
	sheets[1].usage.wchar = 11;
	tell(&a, sheets, 2, &back);
	assert_int_equal(back.n_sheets, 2);
	assert_int_equal(back.sheets[0].num, 1);
	assert_int_equal(back.sheets[0].try_num, 2);
	assert_int_equal(back.sheets[0].outcome, OUTCOME_NONE);
	assert_false(u64_known(back.sheets[0].ended_wall_ns));
	assert_int_equal(back.sheets[1].outcome, OUTCOME_FAILURE);
	assert_int_equal(back.sheets[1].status.exit_code, 3);
	assert_int_equal(back.sheets[1].total_ranks, 4);
	assert_true(back.sheets[1].usage.wchar == 11);
	attempt_release(&back);

	tell(&a, sheets, ARRAY_SIZE(sheets), &back); /* the last of too many */
	assert_int_equal(back.n_sheets, GUEST_MAX_SHEETS);
	assert_int_equal(back.sheets[0].num, 3);
	attempt_release(&back);
}

static void test_texts_are_cut_and_tamed(void **state)
{
	struct attempt a = make_attempt(), back;
	char long_text[4000];

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	memcpy(long_text, "\x1b[31m\n", 6);
	memcpy(long_text + 499, "\xe2\x82\xac", 3); /* a character that the limit would split */
	a.command = long_text;
	a.started_wall_ns = NOW + 1000; /* no time is to come */
	tell(&a, NULL, 0, &back);
	assert_int_equal(strlen(back.command), 499);
	assert_memory_equal(back.command, "?[31m x", 7);
	assert_true(back.started_wall_ns == NOW);
	attempt_release(&back);
}

static void test_what_cannot_be_is_refused(void **state)
{
	static const char *const rows[] = {
		"7",
		"[]",
		"{}",
		"{\"job_id\":null}",
		"{\"job_id\":\"\"}",
		"{\"job_id\":\"a b\"}",
		"{\"job_id\":\"j\",\"command\":7}",
		"{\"job_id\":\"j\",\"total_sheets\":-1}",
		"{\"job_id\":\"j\",\"total_sheets\":1.5}",
		"{\"job_id\":\"j\",\"total_sheets\":4294967296}",
		"{\"job_id\":\"j\",\"started_wall_ns\":-5}",
		"{\"job_id\":\"j\",\"interval_seconds\":-0.1}",
		"{\"job_id\":\"j\",\"interval_seconds\":1e9}",
		"{\"job_id\":\"j\",\"argv_hash\":\"12\"}",
		"{\"job_id\":\"j\",\"argv_hash\":\"0x34567890123456\"}",
		"{\"job_id\":\"j\",\"outcome\":\"great\"}",
		"{\"job_id\":\"j\",\"outcome\":\"success\",\"exit_code\":256}",
		"{\"job_id\":\"j\",\"outcome\":\"success\",\"signal\":65}",
		"{\"job_id\":\"j\",\"sheets\":{}}",
		"{\"job_id\":\"j\",\"sheets\":[7]}",
		"{\"job_id\":\"j\",\"sheets\":[{\"num\":1}]}",
		"{\"job_id\":\"j\",\"sheets\":[{\"num\":1,\"try_num\":1,\"usage\":{\"wchar\":\"x\"}}]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rpc_value *v = parse(rows[i]);
		struct err err = ERR_INIT;
		struct attempt a;

		if (guest_read(v, NOW, &a, &err) != -EINVAL)
			fail_msg("%s was taken", rows[i]);
		assert_true(err.text[0] != '\0');
		rpc_value_free(v);
	}
}

/* All that one message may have is no more than a daemon reads. */
static void test_processes(void **state)
{
	static struct proc_record processes[GUEST_MAX_PROCESSES + 1];
	static struct proc_event events[GUEST_MAX_EVENTS + 2];
	static struct sheet_record sheets[GUEST_MAX_SHEETS];
	struct rung rungs[] = { { "births", "polling", "no rights" } };
	struct attempt a = make_attempt(), back;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
		proc_record_init(&processes[i]);
		processes[i].key = (struct proc_key){ (pid_t)i + 1, 50 };
		processes[i].status.exit_code = 3;
		processes[i].max_rss_bytes = 4096;
		processes[i].evidence = EVIDENCE_EXACT;
		processes[i].command = "a \033[31mtrap";
	}
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		events[i] = (struct proc_event){ .wall_ns = NOW + i, /* no later than now */
						 .key = { (pid_t)i + 1, 50 },
						 .type = i == 0 ? EVENT_KILL : EVENT_EXIT,
						 .status = { 0, -1 },
						 .sheet_num = SHEET_NONE };
	for (size_t i = 0; i < ARRAY_SIZE(sheets); i++) {
		sheets[i] = (struct sheet_record){ .num = (int)i, .ended_wall_ns = NOW };
		usage_init(&sheets[i].usage);
	}
	a.is_running = false;
	a.outcome = OUTCOME_SUCCESS;
	a.processes = processes;
	a.n_processes = ARRAY_SIZE(processes);
	a.events = events;
	a.n_events = ARRAY_SIZE(events);
	a.rungs = rungs;
	a.n_rungs = 1;
	tell(&a, sheets, ARRAY_SIZE(sheets), &back);
	assert_int_equal(back.n_processes, GUEST_MAX_PROCESSES);
	assert_int_equal(back.processes[0].key.pid, 1);
	assert_int_equal(back.processes[0].status.exit_code, 3);
	assert_int_equal(back.processes[0].evidence, EVIDENCE_EXACT);
	assert_false(u64_known(back.processes[0].user_ns));
	assert_false(u64_known(back.processes[0].uid)); /* that is nothing a runner could tell */
	assert_null(strchr(back.processes[0].command, '\033'));
	assert_int_equal(back.n_events, GUEST_MAX_EVENTS);
	assert_int_equal(back.events[0].key.pid, 2); /* the kill was seen by the daemon */
	assert_true(back.events[0].wall_ns == NOW);
	assert_string_equal(back.events[0].job_id, "nightly");
	assert_int_equal(back.n_rungs, 1);
	assert_string_equal(back.rungs[0].reason, "no rights");
	assert_int_equal(back.n_unknowns, 1); /* that there are more */
	attempt_release(&back);
}

/* Each is told with an end that is good. */
static void test_bad_processes_are_refused(void **state)
{
	static const char *const rows[] = {
		"\"processes\": 5",
		"\"processes\": [5]",
		"\"processes\": [{}]",
		"\"processes\": [{\"pid\": 0}]",
		"\"processes\": [{\"pid\": -4}]",
		"\"processes\": [{\"pid\": 4, \"exit_code\": 256}]",
		"\"processes\": [{\"pid\": 4, \"user_ns\": -1}]",
		"\"processes\": [{\"pid\": 4, \"command\": 7}]",
		"\"events\": {}, \"processes\": {\"a\": 1}",
		"\"events\": [{\"pid\": 4, \"type\": \"exit\"}]",
		"\"events\": [{\"pid\": 4, \"type\": \"nothing\", \"wall_ns\": 5}]",
		"\"events\": [{\"pid\": 4, \"type\": \"kill\", \"wall_ns\": 5}]",
		"\"rungs\": [{\"rung\": \"a\"}]",
		"\"unknowns\": [{\"what\": \"a\"}]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[300];
		struct err err = ERR_INIT;
		struct rpc_value *v;
		struct attempt a;

		snprintf(text, sizeof(text), "{\"job_id\": \"a\", \"outcome\": \"success\", %s}",
			 rows[i]);
		v = parse(text);
		if (guest_read(v, NOW, &a, &err) != -EINVAL)
			fail_msg("%s was taken", text);
		rpc_value_free(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_told_is_understood),
		cmocka_unit_test(test_the_end),
		cmocka_unit_test(test_sheets),
		cmocka_unit_test(test_texts_are_cut_and_tamed),
		cmocka_unit_test(test_what_cannot_be_is_refused),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_bad_processes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
