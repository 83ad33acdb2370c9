/*
 * Profiles from samples and events, against the cases of tests/golden/parsers whose
 * kind is "job_profile" and against made-up ones; and from attempts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "model/profile.h"
#include "model/profile_accumulator.h"

#define MB (UINT64_C(1024) * 1024)
#define SECOND UINT64_C(1000000000)

static struct profile_accumulator *accumulator(enum profile_rules rules)
{
	struct profile_accumulator *acc = profile_accumulator_new("job", rules);

	assert_non_null(acc);
	return acc;
}

/* What came of it; the accumulator is gone then. */
static struct job_profile finished(struct profile_accumulator *acc)
{
	struct job_profile p;

	assert_int_equal(profile_accumulator_finish(acc, &p), 0);
	profile_accumulator_free(acc);
	return p;
}

static json_t *json_of(const struct job_profile *p, enum profile_rules rules)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;
	json_t *root;

	json_init(&j, &text);
	profile_write_json(&j, p, rules);
	assert_int_equal(buf_error(&text), 0);
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

static void feed_process(struct profile_accumulator *acc, json_t *process)
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
	assert_int_equal(profile_accumulator_add_sample(acc, &s), 0);
}

static void feed_event(struct profile_accumulator *acc, json_t *event)
{
	struct proc_event ev = { .job_id = json_string_value(json_object_get(event, "job_id")) };

	assert_int_equal(event_type_from_name(
				 json_string_value(json_object_get(event, "event_type")), &ev.type),
			 0);
	profile_accumulator_add_event(acc, &ev);
}

static void feed_snapshot(struct profile_accumulator *acc, json_t *snapshot)
{
	json_t *processes = json_object_get(snapshot, "processes");

	profile_accumulator_begin_tick(acc, NULL);
	for (size_t i = 0; i < json_array_size(processes); i++)
		feed_process(acc, json_array_get(processes, i));
}

static void feed_case(struct profile_accumulator *acc, json_t *root)
{
	json_t *snapshots = json_object_get(root, "snapshots");
	json_t *events = json_object_get(root, "events");

	for (size_t i = 0; i < json_array_size(snapshots); i++)
		feed_snapshot(acc, json_array_get(snapshots, i));
	for (size_t i = 0; i < json_array_size(events); i++)
		feed_event(acc, json_array_get(events, i));
}

static void check_job(const char *file, json_t *root, json_t *expected)
{
	const char *job_id = json_string_value(json_object_get(expected, "job_id"));
	struct profile_accumulator *acc = profile_accumulator_new(job_id, PROFILE_COMPAT);
	struct job_profile p;
	json_t *got;

	assert_non_null(acc);
	print_message("# %s: %s\n", file, job_id);
	feed_case(acc, root);
	p = finished(acc);
	got = json_of(&p, PROFILE_COMPAT);
	assert_same(job_id, got, json_object_get(expected, "profile"));
	json_decref(got);
	profile_release(&p);
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

/* ---- from samples ---- */

static struct proc_sample *add_process(struct snapshot *s, pid_t pid, uint64_t start_ticks)
{
	struct proc_sample *p = snapshot_add_process(s);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, start_ticks };
	p->job_id = "job";
	p->sheet_num = 1;
	return p;
}

static void add_snapshot(struct profile_accumulator *acc, const struct snapshot *s)
{
	assert_int_equal(profile_accumulator_add_snapshot(acc, s), 0);
}

static void test_nothing_seen_is_unknown(void **state)
{
	struct job_profile p = finished(accumulator(PROFILE_PROCTOR));
	json_t *root = json_of(&p, PROFILE_PROCTOR), *value;
	static const char *const keys[] = { "peak_rss_mb",	   "total_cpu_seconds",
					    "process_spawn_count", "syscall_hotspots",
					    "sheet_metrics",	   "unique_pid_count",
					    "unique_process_count" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_true(json_is_null(json_object_get(root, keys[i])));
		value = json_object_get(json_object_get(root, "evidence"), keys[i]);
		assert_string_equal(json_string_value(value), "unknown");
	}
	json_decref(root);
	profile_release(&p);
}

static void test_unknown_values_leave_no_trace(void **state)
{
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	struct job_profile p;
	struct snapshot s;

	(void)state;
	snapshot_init(&s);
	add_process(&s, 7, 1);
	add_snapshot(acc, &s);
	p = finished(acc);
	assert_true(isnan(p.peak_rss_mb));
	assert_int_equal(p.peak_rss_evidence, EVIDENCE_UNKNOWN);
	assert_true(isnan(p.total_cpu_seconds));
	assert_int_equal(p.unique_pid_count, 1);
	assert_int_equal(p.n_sheets, 1);
	assert_true(isnan(p.sheets[0].peak_rss_mb));
	assert_true(isnan(p.sheets[0].max_cpu_pct));
	assert_int_equal(p.hotspot_evidence, EVIDENCE_UNKNOWN);
	profile_release(&p);
	snapshot_release(&s);
}

/* Two processes of a sheet, one of another, one of no job; then a smaller tick. */
static void fill_two_ticks(struct profile_accumulator *acc)
{
	static const uint64_t rss_mb[2][3] = { { 10, 20, 5 }, { 12, 1, 5 } };
	struct snapshot s;

	snapshot_init(&s);
	for (int tick = 0; tick < 2; tick++) {
		snapshot_reset(&s);
		for (int i = 0; i < 3; i++) {
			struct proc_sample *p = add_process(&s, 100 + i, 1);

			p->sheet_num = i < 2 ? 1 : 2;
			p->rss_bytes = rss_mb[tick][i] * MB;
			p->cpu_percent = tick == 0 ? 50.0 : F64_UNKNOWN;
		}
		add_process(&s, 200, 1)->job_id = NULL;
		s.processes[3].rss_bytes = 1000 * MB;
		add_snapshot(acc, &s);
	}
	snapshot_release(&s);
}

static void test_a_peak_is_a_sum_over_the_tick(void **state)
{
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	struct job_profile p;

	(void)state;
	fill_two_ticks(acc);
	p = finished(acc);
	assert_true(p.peak_rss_mb == 35.0);
	assert_int_equal(p.peak_rss_evidence, EVIDENCE_SAMPLED);
	assert_true(p.sheets[0].peak_rss_mb == 30.0);
	assert_true(p.sheets[0].max_cpu_pct == 100.0);
	assert_true(p.sheets[1].peak_rss_mb == 5.0);
	assert_true(p.sheets[1].max_cpu_pct == 50.0);
	assert_int_equal(p.unique_pid_count, 3);
	profile_release(&p);
}

static void test_a_compat_peak_is_of_one_process(void **state)
{
	struct profile_accumulator *acc = accumulator(PROFILE_COMPAT);
	struct job_profile p;

	(void)state;
	fill_two_ticks(acc);
	p = finished(acc);
	assert_true(p.peak_rss_mb == 20.0);
	assert_true(p.sheets[0].peak_rss_mb == 20.0);
	assert_true(p.sheets[0].max_cpu_pct == 50.0);
	profile_release(&p);
}

/* Samples of the same pid: of one process, of its successor, and of one without a job. */
static void test_processes_and_their_cpu_are_counted(void **state)
{
	static const uint64_t starts[] = { 100, 100, 900 };
	static const uint64_t cpu_seconds[] = { 2, 5, 1 };
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	struct job_profile p;
	struct snapshot s;

	(void)state;
	snapshot_init(&s);
	for (int i = 0; i < 3; i++) {
		snapshot_reset(&s);
		add_process(&s, 10, starts[i])->user_ns = cpu_seconds[i] * SECOND;
		s.processes[0].system_ns = SECOND / 4;
		add_process(&s, 11, 1)->job_id = NULL;
		s.processes[1].cpu_ns = 99 * SECOND;
		add_snapshot(acc, &s);
	}
	snapshot_release(&s);
	p = finished(acc);
	assert_int_equal(p.unique_pid_count, 1);
	assert_int_equal(p.unique_process_count, 2);
	assert_int_equal(p.unique_process_evidence, EVIDENCE_LOWER_BOUND);
	assert_true(p.total_cpu_seconds == 6.5);
	assert_int_equal(p.cpu_evidence, EVIDENCE_LOWER_BOUND);
	profile_release(&p);
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
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	struct job_profile p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		profile_accumulator_add_event(acc, &events[i]);
	p = finished(acc);
	assert_int_equal(p.process_spawn_count, 2);
	assert_int_equal(p.spawn_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(p.unique_pid_evidence, EVIDENCE_UNKNOWN);
	profile_release(&p);
}

/* ---- limits ---- */

static void test_too_many_sheets_are_said(void **state)
{
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	struct profile_sample s = { .job_id = "job", .rss_mb = 1.0, .cpu_ns = U64_UNKNOWN };
	struct job_profile p;

	(void)state;
	for (int num = 0; num <= PROFILE_MAX_SHEETS; num++) {
		s.sheet_num = num;
		assert_int_equal(profile_accumulator_add_sample(acc, &s), 0);
	}
	p = finished(acc);
	assert_int_equal(p.n_sheets, PROFILE_MAX_SHEETS);
	assert_int_equal(p.sheet_evidence, EVIDENCE_LOWER_BOUND);
	profile_release(&p);
}

static void test_too_many_syscalls_are_said(void **state)
{
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	char name[PROFILE_MAX_SYSCALL_BYTES + 2];
	struct syscall_share share = { name, 0.5 };
	const struct profile_sample s = {
		.job_id = "job", .sheet_num = SHEET_NONE, .syscalls = &share, .n_syscalls = 1
	};
	struct job_profile p;

	(void)state;
	for (int i = 0; i < PROFILE_MAX_SYSCALLS + 2; i++) {
		snprintf(name, sizeof(name), "%0*d", i == 0 ? PROFILE_MAX_SYSCALL_BYTES + 1 : 4, i);
		assert_int_equal(profile_accumulator_add_sample(acc, &s), 0);
	}
	share.pct = F64_UNKNOWN;
	snprintf(name, sizeof(name), "0001");
	assert_int_equal(profile_accumulator_add_sample(acc, &s), 0);
	p = finished(acc);
	assert_int_equal(p.n_hotspots, PROFILE_MAX_SYSCALLS);
	assert_string_equal(p.hotspots[0].name, "0001");
	assert_true(p.hotspots[0].pct == 0.5);
	assert_int_equal(p.hotspot_evidence, EVIDENCE_LOWER_BOUND);
	profile_release(&p);
}

/* ---- from attempts ---- */

static void set_usage(struct usage *u, uint64_t peak_mb, enum evidence evidence)
{
	usage_init(u);
	u->peak_rss_bytes = peak_mb * MB;
	u->peak_rss_evidence = evidence;
	u->user_ns = 3 * SECOND;
	u->system_ns = SECOND / 2;
	u->cpu_evidence = EVIDENCE_EXACT;
	u->spawn_count = 3;
	u->spawn_evidence = EVIDENCE_EXACT;
	u->peak_cpu_percent = 120.0;
}

/* Sheet 2 is tried twice before sheet 1; three processes, two of one pid. */
static void make_attempt(struct attempt *a)
{
	static const int nums[] = { 2, 2, 1 };
	static const uint64_t peaks_mb[] = { 40, 70, 60 };
	static const enum evidence evidence[] = { EVIDENCE_SAMPLED, EVIDENCE_EXACT,
						  EVIDENCE_EXACT };

	attempt_init(a);
	a->job_id = "job";
	a->sheets = arena_alloc(&a->arena, 3 * sizeof(*a->sheets));
	a->processes = arena_alloc(&a->arena, 3 * sizeof(*a->processes));
	assert_true(a->sheets && a->processes);
	for (int i = 0; i < 3; i++) {
		a->sheets[i] = (struct sheet_record){ .num = nums[i] };
		set_usage(&a->sheets[i].usage, peaks_mb[i], evidence[i]);
		proc_record_init(&a->processes[i]);
		a->processes[i].key.pid = i == 0 ? 100 : 101;
	}
	a->n_sheets = a->n_processes = 3;
	set_usage(&a->usage, 70, EVIDENCE_LOWER_BOUND);
}

static void test_a_finished_attempt_is_exact(void **state)
{
	struct job_profile p;
	struct attempt a;

	(void)state;
	make_attempt(&a);
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	attempt_release(&a);
	assert_string_equal(p.job_id, "job");
	assert_true(p.peak_rss_mb == 70.0);
	assert_int_equal(p.peak_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_true(p.total_cpu_seconds == 3.5);
	assert_int_equal(p.cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.process_spawn_count, 3);
	assert_int_equal(p.spawn_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.unique_pid_count, 2);
	assert_int_equal(p.unique_pid_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.unique_process_count, 3);
	assert_int_equal(p.unique_process_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.hotspot_evidence, EVIDENCE_UNKNOWN);
	profile_release(&p);
}

/* Of their time on a CPU; a call that nobody timed has none of it. */
static void test_calls_of_an_attempt_are_shares(void **state)
{
	struct syscall_use uses[] = {
		{ .name = "read", .count = 5, .cpu_ns = 300, .wait_ns = 9000 },
		{ .name = "write", .count = 9, .cpu_ns = 100 },
		{ .name = "futex", .count = 7, .cpu_ns = U64_UNKNOWN },
	};
	struct job_profile p;
	struct attempt a;

	(void)state;
	make_attempt(&a);
	a.syscalls = uses;
	a.n_syscalls = 3;
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	assert_int_equal(p.n_hotspots, 3);
	assert_string_equal(p.hotspots[0].name, "read");
	assert_true(p.hotspots[0].pct == 75.0 && p.hotspots[1].pct == 25.0);
	assert_true(p.hotspots[2].pct == 0.0);
	assert_int_equal(p.hotspot_evidence, EVIDENCE_LOWER_BOUND);
	profile_release(&p);

	uses[0].cpu_ns = uses[1].cpu_ns = U64_UNKNOWN; /* counted, and not timed */
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	assert_int_equal(p.hotspot_evidence, EVIDENCE_UNKNOWN);
	profile_release(&p);
	attempt_release(&a);
}

static void test_a_sheet_is_all_its_tries(void **state)
{
	struct job_profile p;
	struct attempt a;

	(void)state;
	make_attempt(&a);
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	attempt_release(&a);
	assert_int_equal(p.n_sheets, 2);
	assert_int_equal(p.sheet_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.sheets[0].num, 2);
	assert_true(p.sheets[0].peak_rss_mb == 70.0);
	/* The first try was only sampled and may have been higher. */
	assert_int_equal(p.sheets[0].peak_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_true(p.sheets[0].max_cpu_pct == 120.0);
	assert_int_equal(p.sheets[1].num, 1);
	assert_int_equal(p.sheets[1].peak_rss_evidence, EVIDENCE_EXACT);
	profile_release(&p);
}

static void test_an_attempt_that_runs_is_mostly_unknown(void **state)
{
	struct job_profile p;
	struct attempt a;

	(void)state;
	make_attempt(&a);
	a.is_running = true;
	usage_init(&a.usage);
	usage_init(&a.sheets[2].usage);
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	attempt_release(&a);
	assert_true(isnan(p.peak_rss_mb) && isnan(p.total_cpu_seconds));
	assert_int_equal(p.peak_rss_evidence, EVIDENCE_UNKNOWN);
	assert_int_equal(p.cpu_evidence, EVIDENCE_UNKNOWN);
	assert_false(u64_known(p.process_spawn_count));
	assert_int_equal(p.spawn_evidence, EVIDENCE_UNKNOWN);
	assert_int_equal(p.unique_pid_count, 2);
	assert_int_equal(p.unique_pid_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(p.unique_process_count, 3);
	assert_int_equal(p.unique_process_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(p.sheet_evidence, EVIDENCE_LOWER_BOUND);
	assert_true(isnan(p.sheets[1].peak_rss_mb) && isnan(p.sheets[1].max_cpu_pct));
	profile_release(&p);
}

static void test_an_attempt_of_which_nothing_is_known(void **state)
{
	struct job_profile p;
	struct attempt a;
	json_t *root;

	(void)state;
	attempt_init(&a);
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	root = json_of(&p, PROFILE_PROCTOR);
	assert_true(json_is_null(json_object_get(root, "sheet_metrics")));
	assert_true(json_is_null(json_object_get(root, "unique_pid_count")));
	assert_true(json_is_null(json_object_get(root, "unique_process_count")));
	json_decref(root);
	profile_release(&p);
}

/* ---- the better of two ---- */

static void test_exact_replaces_sampled(void **state)
{
	struct profile_accumulator *acc = accumulator(PROFILE_PROCTOR);
	struct syscall_share share = { "read", 12.5 };
	struct profile_sample s = { .job_id = "job",
				    .key = { 100, 1 },
				    .sheet_num = 3,
				    .rss_mb = 90.0,
				    .cpu_percent = 40.0,
				    .cpu_ns = SECOND,
				    .syscalls = &share,
				    .n_syscalls = 1 };
	struct job_profile exact, p;
	struct attempt a;

	(void)state;
	assert_int_equal(profile_accumulator_add_sample(acc, &s), 0);
	s.sheet_num = 1;
	s.rss_mb = 20.0;
	assert_int_equal(profile_accumulator_add_sample(acc, &s), 0);
	p = finished(acc);
	make_attempt(&a);
	assert_int_equal(profile_from_attempt(&a, &exact), 0);
	attempt_release(&a);

	assert_int_equal(profile_improve(&p, &exact), 0);
	profile_release(&exact);
	assert_true(p.peak_rss_mb == 110.0); /* a lower bound of 70 says less */
	assert_int_equal(p.peak_rss_evidence, EVIDENCE_SAMPLED);
	assert_true(p.total_cpu_seconds == 3.5);
	assert_int_equal(p.cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.process_spawn_count, 3);
	assert_int_equal(p.n_hotspots, 1);
	assert_int_equal(p.sheet_evidence, EVIDENCE_EXACT);
	assert_int_equal(p.n_sheets, 3);
	assert_true(p.sheets[0].num == 3 && p.sheets[0].peak_rss_mb == 90.0);
	assert_true(p.sheets[1].num == 1 && p.sheets[1].peak_rss_mb == 60.0);
	assert_int_equal(p.sheets[1].peak_rss_evidence, EVIDENCE_EXACT);
	assert_true(p.sheets[1].max_cpu_pct == 120.0);
	assert_true(p.sheets[2].num == 2 && p.sheets[2].peak_rss_mb == 70.0);
	profile_release(&p);
}

static void test_unknown_replaces_nothing(void **state)
{
	struct job_profile p, exact, nothing;
	struct attempt a;

	(void)state;
	profile_init(&nothing);
	make_attempt(&a);
	assert_int_equal(profile_from_attempt(&a, &exact), 0);
	attempt_release(&a);
	assert_int_equal(profile_improve(&exact, &nothing), 0);
	assert_true(exact.total_cpu_seconds == 3.5);
	assert_int_equal(exact.n_sheets, 2);

	profile_init(&p);
	assert_int_equal(profile_set_hotspots(&exact, &(struct syscall_share){ "read", 1.0 }, 1,
					      EVIDENCE_SAMPLED),
			 0);
	assert_int_equal(profile_improve(&p, &exact), 0);
	profile_release(&exact);
	assert_true(p.peak_rss_mb == 70.0);
	assert_string_equal(p.hotspots[0].name, "read");
	assert_int_equal(p.n_sheets, 2);
	profile_release(&p);
}

/* ---- JSON ---- */

static void test_json_says_where_numbers_are_from(void **state)
{
	struct job_profile p;
	struct attempt a;
	json_t *root, *wanted;

	(void)state;
	make_attempt(&a);
	a.usage.spawn_evidence = EVIDENCE_LOWER_BOUND;
	a.sheets[2].usage.peak_cpu_percent = F64_UNKNOWN;
	assert_int_equal(profile_from_attempt(&a, &p), 0);
	attempt_release(&a);
	root = json_of(&p, PROFILE_PROCTOR);
	wanted = json_loads(
		"{\"job_id\": \"job\", \"peak_rss_mb\": 70.0, \"total_cpu_seconds\": 3.5,"
		" \"process_spawn_count\": 3, \"syscall_hotspots\": null, \"sheet_metrics\": {"
		" \"2\": {\"peak_rss_mb\": 70.0, \"max_cpu_pct\": 120.0, \"evidence\": {"
		"  \"peak_rss_mb\": \"at least\", \"max_cpu_pct\": \"sampled\"}},"
		" \"1\": {\"peak_rss_mb\": 60.0, \"max_cpu_pct\": null, \"evidence\": {"
		"  \"peak_rss_mb\": \"exact\", \"max_cpu_pct\": \"unknown\"}}},"
		" \"unique_pid_count\": 2, \"unique_process_count\": 3, \"evidence\": {"
		" \"peak_rss_mb\": \"at least\", \"total_cpu_seconds\": \"exact\","
		" \"process_spawn_count\": \"at least\", \"syscall_hotspots\": \"unknown\","
		" \"sheet_metrics\": \"exact\", \"unique_pid_count\": \"at least\","
		" \"unique_process_count\": \"at least\"}}",
		0, NULL);
	assert_non_null(wanted);
	assert_same("profile", root, wanted);
	json_decref(root);
	json_decref(wanted);
	profile_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_profiles),
		cmocka_unit_test(test_nothing_seen_is_unknown),
		cmocka_unit_test(test_unknown_values_leave_no_trace),
		cmocka_unit_test(test_a_peak_is_a_sum_over_the_tick),
		cmocka_unit_test(test_a_compat_peak_is_of_one_process),
		cmocka_unit_test(test_processes_and_their_cpu_are_counted),
		cmocka_unit_test(test_only_spawns_of_the_job_count),
		cmocka_unit_test(test_too_many_sheets_are_said),
		cmocka_unit_test(test_too_many_syscalls_are_said),
		cmocka_unit_test(test_a_finished_attempt_is_exact),
		cmocka_unit_test(test_a_sheet_is_all_its_tries),
		cmocka_unit_test(test_calls_of_an_attempt_are_shares),
		cmocka_unit_test(test_an_attempt_that_runs_is_mostly_unknown),
		cmocka_unit_test(test_an_attempt_of_which_nothing_is_known),
		cmocka_unit_test(test_exact_replaces_sampled),
		cmocka_unit_test(test_unknown_replaces_nothing),
		cmocka_unit_test(test_json_says_where_numbers_are_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
