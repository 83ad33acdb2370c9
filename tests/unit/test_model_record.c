#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/record.h"

static struct attempt *make_attempt(void)
{
	static struct rank_record ranks[] = { { 0, 11, { 0, -1 }, 5 },
					      { 1, 12, { -1, 9 }, U64_UNKNOWN } };
	static struct sheet_record sheets[2];
	static struct attempt a;

	attempt_init(&a);
	a.job_id = "a/job";
	a.attempt_num = 7;
	a.command = "";
	a.argv_hash = UINT64_MAX;
	a.input_bytes = 0;
	a.uid = 0;
	a.submission = U64_UNKNOWN;
	a.host = NULL;
	a.workdir = "/w\xffx";
	memcpy(a.boot_id, "boot", 5);
	a.runner = (struct proc_key){ 4194304, UINT64_MAX - 1 };
	a.interval_seconds = 0.25;
	a.started_wall_ns = UINT64_C(1) << 63;
	a.ended_wall_ns = 1;
	a.total_sheets = -3;
	a.current_sheet = SHEET_NONE;
	a.outcome = OUTCOME_OOM;
	a.reason = "why";
	a.status = (struct exit_status){ -1, 9 };
	a.usage.user_ns = 12345;
	a.usage.cpu_evidence = EVIDENCE_UPPER_BOUND;
	a.usage.peak_cpu_percent = F64_UNKNOWN;
	for (size_t i = 0; i < ARRAY_SIZE(sheets); i++) {
		sheets[i] =
			(struct sheet_record){ .num = (int)i + 1, .try_num = 1, .command = "c" };
		usage_init(&sheets[i].usage);
	}
	sheets[1].ranks = ranks;
	sheets[1].n_ranks = ARRAY_SIZE(ranks);
	a.sheets = sheets;
	a.n_sheets = ARRAY_SIZE(sheets);
	return &a;
}

static void write_all(struct buf *out, const struct attempt *a)
{
	static const struct unknown_note notes[] = { { "what", "why" }, { "", NULL } };
	static const struct syscall_use calls[] = { { "read", 1, 2, U64_UNKNOWN, 0 } };
	struct proc_record process;
	struct proc_event event = { .wall_ns = 3,
				    .key = { 5, 6 },
				    .type = EVENT_OOM,
				    .status = { -1, -1 },
				    .sheet_num = 2 };
	struct phase_record phase = { "p", "q/p", 9, RANK_NONE, 1, U64_UNKNOWN };

	proc_record_init(&process);
	process.command = "x";
	process.key = (struct proc_key){ 1, U64_UNKNOWN };
	record_write_begin(out, a);
	record_write_end(out, a);
	record_write_sheets(out, a->sheets, a->n_sheets);
	record_write_list(out, RECORD_NOTES, notes, ARRAY_SIZE(notes));
	record_write_list(out, RECORD_SYSCALLS, calls, ARRAY_SIZE(calls));
	record_write_list(out, RECORD_PROCESSES, &process, 1);
	record_write_list(out, RECORD_EVENTS, &event, 1);
	record_write_list(out, RECORD_PHASES, &phase, 1);
	record_write_list(out, RECORD_RUNGS, NULL, 0);
}

/* All lists, into the attempt. */
static int read_all(const void *bytes, size_t len, struct attempt *a)
{
	struct record_reader r = { bytes, (const uint8_t *)bytes + len, &a->arena, 0 };

	record_read_begin(&r, a);
	record_read_end(&r, a);
	a->sheets = record_read_sheets(&r, &a->n_sheets);
	a->unknowns = record_read_list(&r, RECORD_NOTES, &a->n_unknowns);
	a->syscalls = record_read_list(&r, RECORD_SYSCALLS, &a->n_syscalls);
	a->processes = record_read_list(&r, RECORD_PROCESSES, &a->n_processes);
	a->events = record_read_list(&r, RECORD_EVENTS, &a->n_events);
	a->phases = record_read_list(&r, RECORD_PHASES, &a->n_phases);
	a->rungs = record_read_list(&r, RECORD_RUNGS, &a->n_rungs);
	return r.error < 0 ? r.error : r.p == r.end ? 0 : -EBADMSG;
}

static void test_everything_comes_back_as_it_was(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT, again = BUF_INIT;
	const struct attempt *a = make_attempt();
	struct attempt b;

	(void)state;
	write_all(&bytes, a);
	attempt_init(&b);
	assert_int_equal(read_all(bytes.data, bytes.len, &b), 0);
	assert_string_equal(b.job_id, "a/job");
	assert_int_equal(b.attempt_num, 7);
	assert_string_equal(b.command, "");
	assert_null(b.host);
	assert_string_equal(b.workdir, "/w\xffx");
	assert_true(b.argv_hash == UINT64_MAX);
	assert_int_equal(b.input_bytes, 0);
	assert_false(u64_known(b.submission));
	assert_true(b.runner.start_ticks == UINT64_MAX - 1);
	assert_true(b.started_wall_ns == UINT64_C(1) << 63);
	assert_int_equal(b.total_sheets, -3);
	assert_int_equal(b.current_sheet, SHEET_NONE);
	assert_int_equal(b.outcome, OUTCOME_OOM);
	assert_int_equal(b.status.exit_code, -1);
	assert_int_equal(b.status.signal, 9);
	assert_int_equal(b.usage.user_ns, 12345);
	assert_int_equal(b.usage.cpu_evidence, EVIDENCE_UPPER_BOUND);
	assert_false(f64_known(b.usage.peak_cpu_percent));
	assert_int_equal(b.n_sheets, 2);
	assert_int_equal(b.sheets[1].n_ranks, 2);
	assert_int_equal(b.sheets[1].ranks[1].status.signal, 9);
	assert_int_equal(b.n_unknowns, 2);
	assert_null(b.unknowns[1].why);
	assert_false(u64_known(b.syscalls[0].cpu_ns));
	assert_int_equal(b.events[0].type, EVENT_OOM);
	assert_string_equal(b.events[0].details, ""); /* NULL is none */
	assert_string_equal(b.phases[0].path, "q/p");
	assert_int_equal(b.n_rungs, 0);

	/* And what was read is written as the same bytes. */
	record_write_begin(&again, &b);
	record_write_end(&again, &b);
	record_write_sheets(&again, b.sheets, b.n_sheets);
	assert_true(again.len < bytes.len);
	assert_memory_equal(again.data, bytes.data, again.len);
	attempt_release(&b);
}

static void test_what_is_cut_is_refused(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	(void)state;
	write_all(&bytes, make_attempt());
	for (size_t n = 0; n < bytes.len; n++) {
		uint8_t *cut = malloc(n ? n : 1); /* of its own, so that reading behind it shows */
		struct attempt b;

		assert_non_null(cut);
		memcpy(cut, bytes.data, n);
		attempt_init(&b);
		assert_int_equal(read_all(cut, n, &b), -EBADMSG);
		attempt_release(&b);
		free(cut);
	}
}

/* Whatever it says then: no crash, no endless memory, and names are names. */
static void test_what_is_damaged_is_read_or_refused(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	(void)state;
	write_all(&bytes, make_attempt());
	for (size_t i = 0; i < bytes.len * 8; i++) {
		struct attempt b;

		bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << i % 8);
		attempt_init(&b);
		if (read_all(bytes.data, bytes.len, &b) == 0) {
			assert_true(b.job_id[0] != '\0');
			assert_true(b.events[0].type < N_EVENT_TYPES);
		}
		attempt_release(&b);
		bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << i % 8);
	}
}

static void test_columns_may_be_added_behind_the_last(void **state)
{
	const struct columns fewer = { rank_columns.items, rank_columns.n - 1 };
	const struct rank_record rank = { 3, 44, { 1, -1 }, 99 };
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct rank_record old = { 0 }, new = { .ended_wall_ns = U64_UNKNOWN };
	struct record_reader r;

	(void)state;
	record_write_struct(&bytes, &rank_columns, &rank); /* a newer program wrote this */
	r = (struct record_reader){ (const uint8_t *)bytes.data,
				    (const uint8_t *)bytes.data + bytes.len, NULL, 0 };
	record_read_struct(&r, &fewer, &old);
	assert_int_equal(r.error, 0);
	assert_ptr_equal(r.p, r.end);
	assert_int_equal(old.pid, 44);
	assert_int_equal(old.ended_wall_ns, 0);

	buf_reset(&bytes);
	record_write_struct(&bytes, &fewer, &rank);
	r = (struct record_reader){ (const uint8_t *)bytes.data,
				    (const uint8_t *)bytes.data + bytes.len, NULL, 0 };
	record_read_struct(&r, &rank_columns, &new);
	assert_int_equal(r.error, 0);
	assert_int_equal(new.status.exit_code, 1);
	assert_false(u64_known(new.ended_wall_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_comes_back_as_it_was),
		cmocka_unit_test(test_what_is_cut_is_refused),
		cmocka_unit_test(test_what_is_damaged_is_read_or_refused),
		cmocka_unit_test(test_columns_may_be_added_behind_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
