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

static struct episode *make_episode(struct anomaly_evidence *evidence)
{
	static struct episode e;

	episode_init(&e);
	e.worst.type = ANOMALY_GPU_LOST;
	e.worst.severity = SEVERITY_CRITICAL;
	e.worst.has_pid = true;
	e.worst.pid = -1;
	e.worst.timestamp = 12.5;
	e.worst.sheet_num = 3;
	e.worst.metric_value = 1e300;
	strcpy(e.worst.text, "caf\xc3\xa9");
	strcpy(e.name, "an:episode");
	strcpy(e.comm, "\xff!");
	episode_set_job(&e, "a/job");
	e.attempt_id = 77;
	e.is_adopted = true;
	e.gpu = 0;
	e.unit = "MB";
	e.why_cleared = EPISODE_JOB_ENDED;
	e.began_wall_ns = 1;
	e.ended_wall_ns = 0;
	e.cleared_wall_ns = UINT64_MAX - 1;
	e.count = 4;
	e.peak_value = -0.5;
	e.full_until_wall_ns = 9;
	e.host.memory_total_bytes = 68719476737;
	e.host.load1 = 0.1;
	e.host.running_jobs = 2;
	e.host.knows_rss = true;
	e.host.n_top_rss = 1;
	e.host.top_rss[0] = (struct anomaly_process){ .key = { 9, U64_UNKNOWN },
						      .comm = "x",
						      .cpu_percent = F64_UNKNOWN,
						      .rss_bytes = 1048577 };
	anomaly_evidence_init(evidence);
	evidence->n_files_open = 1000;
	evidence->n_files = 1;
	evidence->files[0] = (struct anomaly_file){ 7, "/a \"file\"" };
	evidence->has_syscalls = true;
	strcpy(evidence->trace_missing, "why");
	e.evidence = evidence;
	return &e;
}

static const struct phase_change phase_changes[] = {
	{ false, { "load", "epoch/load", 9, RANK_NONE, 1, U64_UNKNOWN } },
	{ true, { "load", NULL, 9, 5, U64_UNKNOWN, 0 } },
};

static void write_all(struct buf *out, struct attempt *a)
{
	static struct unknown_note notes[] = { { "what", "why" }, { "", NULL } };
	static struct syscall_use calls[] = { { "read", 1, 2, U64_UNKNOWN, 0 } };
	static struct proc_record process;
	struct proc_event event = { .wall_ns = 3,
				    .key = { 5, 6 },
				    .type = EVENT_OOM,
				    .status = { -1, -1 },
				    .sheet_num = 2 };
	struct anomaly_evidence evidence;

	proc_record_init(&process);
	process.command = "x";
	process.key = (struct proc_key){ 1, U64_UNKNOWN };
	process.syscalls = "read 1";
	a->processes = &process;
	a->n_processes = 1;
	a->details.unknowns = notes;
	a->details.n_unknowns = ARRAY_SIZE(notes);
	a->details.syscalls = calls;
	a->details.n_syscalls = ARRAY_SIZE(calls);
	record_write_begin(out, a);
	record_write_sheets_changed(out, a, &a->sheets[1], 1);
	record_write_list(out, RECORD_LIST_EVENTS, &event, 1);
	record_write_phases(out, phase_changes, ARRAY_SIZE(phase_changes));
	record_write_anomaly(out, make_episode(&evidence), EPISODE_CLEARED);
	record_write_evidence(out, "an:episode", &evidence);
	record_write_details(out, a, "lost some");
	record_write_final(out, a, true);
}

/* All that there is of an attempt, and what an attempt has no place for. */
struct everything {
	struct attempt a;
	struct sheet_record *changed;
	size_t n_changed;
	struct phase_change *phases;
	size_t n_phases;
	struct episode episode;
	struct anomaly_evidence evidence, more;
	int change;
	const char *name, *why;
};

static int read_all(const void *bytes, size_t len, struct everything *ret)
{
	struct attempt *a = &ret->a;
	struct record_reader r = { bytes, (const uint8_t *)bytes + len, &a->arena, 0, 0 };

	attempt_init(a);
	record_read_begin(&r, a);
	record_read_sheets_changed(&r, a);
	ret->changed = a->sheets;
	ret->n_changed = a->n_sheets;
	a->events = record_read_list(&r, RECORD_LIST_EVENTS, &a->n_events);
	ret->phases = record_read_phases(&r, &ret->n_phases);
	(void)record_read_anomaly(&r, &ret->episode, &ret->evidence, &ret->change);
	(void)record_read_evidence(&r, &ret->name, &ret->more);
	record_read_details(&r, a, &ret->why);
	record_read_final(&r, a);
	return r.error < 0 ? r.error : r.p == r.end ? 0 : -EBADMSG;
}

/* What was read, as bytes. */
static void write_again(struct buf *out, const struct everything *all)
{
	const struct attempt *a = &all->a;

	record_write_begin(out, a);
	record_write_sheets_changed(out, a, all->changed, all->n_changed);
	record_write_list(out, RECORD_LIST_EVENTS, a->events, a->n_events);
	record_write_phases(out, all->phases, all->n_phases);
	record_write_anomaly(out, &all->episode, all->change);
	record_write_evidence(out, all->name, &all->more);
	record_write_details(out, a, all->why);
	record_write_final(out, a, true);
	assert_int_equal(buf_error(out), 0);
}

static void test_everything_comes_back_as_it_was(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT, again = BUF_INIT;
	struct everything all;
	struct attempt b;

	(void)state;
	write_all(&bytes, make_attempt());
	assert_int_equal(read_all(bytes.data, bytes.len, &all), 0);
	b = all.a;
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
	assert_int_equal(b.details.n_unknowns, 2);
	assert_null(b.details.unknowns[1].why);
	assert_false(u64_known(b.details.syscalls[0].cpu_ns));
	assert_int_equal(b.events[0].type, EVENT_OOM);
	assert_string_equal(b.events[0].details, ""); /* NULL is none */
	assert_int_equal(b.details.n_rungs, 0);
	assert_string_equal(b.processes[0].syscalls, "read 1");
	assert_string_equal(all.why, "lost some");
	assert_int_equal(all.n_changed, 1);
	assert_int_equal(all.changed[0].num, 2);
	assert_int_equal(all.n_phases, 2);
	assert_true(all.phases[1].is_exit);
	assert_int_equal(all.phases[1].phase.rank, 5);
	assert_null(all.phases[1].phase.path);
	assert_int_equal(all.phases[1].phase.left_wall_ns, 0);

	/* And what was read is written as the same bytes. */
	write_again(&again, &all);
	assert_int_equal(again.len, bytes.len);
	assert_memory_equal(again.data, bytes.data, again.len);
	attempt_release(&all.a);
}

static void test_an_episode_comes_back_as_it_was(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT, before = BUF_INIT, after = BUF_INIT;
	struct everything all;
	struct anomaly_evidence evidence;
	const struct episode *e, *b = &all.episode;
	struct json j;

	(void)state;
	write_all(&bytes, make_attempt());
	e = make_episode(&evidence);
	assert_int_equal(read_all(bytes.data, bytes.len, &all), 0);
	assert_int_equal(all.change, EPISODE_CLEARED);
	assert_ptr_equal(b->evidence, &all.evidence);
	assert_string_equal(all.name, "an:episode");
	assert_int_equal(all.more.n_files_open, 1000);
	json_init(&j, &before);
	episode_write_event(&j, e, EPISODE_CLEARED, 5);
	json_init(&j, &after);
	episode_write_event(&j, b, EPISODE_CLEARED, 5);
	assert_string_equal(after.data, before.data);

	/* And what is not in the event. */
	assert_int_equal(b->attempt_id, 0);
	assert_true(b->is_adopted);
	assert_string_equal(b->comm, "\xff!");
	assert_true(b->cleared_wall_ns == UINT64_MAX - 1);
	assert_false(u64_known(b->over_wall_ns));
	assert_ptr_equal(b->worst.job_id, b->job_id);
	assert_true(b->host.memory_total_bytes == 68719476737);
	assert_int_equal(b->host.top_rss[0].rss_bytes, 1048577);
	attempt_release(&all.a);
}

static void test_an_episode_of_which_little_is_known(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct arena arena = ARENA_INIT;
	struct anomaly_evidence evidence;
	struct record_reader r;
	struct episode e;
	int change = -1;

	(void)state;
	episode_init(&e);
	strcpy(e.name, "n");
	record_write_anomaly(&bytes, &e, RECORD_RENEWED);
	memset(&e, 1, sizeof(e));
	r = (struct record_reader){ (const uint8_t *)bytes.data,
				    (const uint8_t *)bytes.data + bytes.len, &arena, 0, 0 };
	assert_int_equal(record_read_anomaly(&r, &e, &evidence, &change), 0);
	assert_int_equal(change, RECORD_RENEWED);
	assert_null(e.evidence);
	assert_null(e.worst.job_id);
	assert_null(e.unit);
	assert_null(e.why_cleared);
	assert_false(e.worst.has_pid);
	assert_false(u64_known(e.began_wall_ns));
	assert_false(f64_known(e.peak_value));
	assert_false(u64_known(e.host.n_processes));
	assert_int_equal(e.gpu, -1);
	assert_int_equal(e.worst.sheet_num, SHEET_NONE);

	/* One without a name is none. */
	buf_reset(&bytes);
	e.name[0] = '\0';
	record_write_anomaly(&bytes, &e, EPISODE_BEGAN);
	r = (struct record_reader){ (const uint8_t *)bytes.data,
				    (const uint8_t *)bytes.data + bytes.len, &arena, 0, 0 };
	assert_int_equal(record_read_anomaly(&r, &e, &evidence, &change), -EBADMSG);
	arena_release(&arena);
}

static void test_an_end_without_room_for_sheets(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct record_reader r;
	struct attempt b;

	(void)state;
	record_write_final(&bytes, make_attempt(), false);
	attempt_init(&b);
	r = (struct record_reader){ (const uint8_t *)bytes.data,
				    (const uint8_t *)bytes.data + bytes.len, &b.arena, 0, 0 };
	record_read_final(&r, &b);
	assert_int_equal(r.error, 0);
	assert_ptr_equal(r.p, r.end);
	assert_int_equal(b.outcome, OUTCOME_OOM);
	assert_int_equal(b.n_sheets, 0);
	attempt_release(&b);
}

static void test_what_is_cut_is_refused(void **state)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	(void)state;
	write_all(&bytes, make_attempt());
	for (size_t n = 0; n < bytes.len; n++) {
		uint8_t *cut = malloc(n ? n : 1); /* of its own, so that reading behind it shows */
		struct everything all;

		assert_non_null(cut);
		memcpy(cut, bytes.data, n);
		assert_int_equal(read_all(cut, n, &all), -EBADMSG);
		attempt_release(&all.a);
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
		CLEANUP(buf_release) struct buf again = BUF_INIT;
		struct everything all;

		bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << i % 8);
		if (read_all(bytes.data, bytes.len, &all) == 0) {
			assert_true(all.a.job_id[0] != '\0');
			assert_true(all.a.n_events == 0 || all.a.events[0].type < N_EVENT_TYPES);
			assert_true(all.change <= RECORD_RENEWED);
			assert_non_null(anomaly_type_name(all.episode.worst.type));
			write_again(&again, &all);
		}
		attempt_release(&all.a);
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
				    (const uint8_t *)bytes.data + bytes.len, NULL, 0, 0 };
	record_read_struct(&r, &fewer, &old);
	assert_int_equal(r.error, 0);
	assert_ptr_equal(r.p, r.end);
	assert_int_equal(old.pid, 44);
	assert_int_equal(old.ended_wall_ns, 0);

	buf_reset(&bytes);
	record_write_struct(&bytes, &fewer, &rank);
	r = (struct record_reader){ (const uint8_t *)bytes.data,
				    (const uint8_t *)bytes.data + bytes.len, NULL, 0, 0 };
	record_read_struct(&r, &rank_columns, &new);
	assert_int_equal(r.error, 0);
	assert_int_equal(new.status.exit_code, 1);
	assert_false(u64_known(new.ended_wall_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_comes_back_as_it_was),
		cmocka_unit_test(test_an_episode_comes_back_as_it_was),
		cmocka_unit_test(test_an_episode_of_which_little_is_known),
		cmocka_unit_test(test_an_end_without_room_for_sheets),
		cmocka_unit_test(test_what_is_cut_is_refused),
		cmocka_unit_test(test_what_is_damaged_is_read_or_refused),
		cmocka_unit_test(test_columns_may_be_added_behind_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
