#include "store_fixture.h"

#include <math.h>
#include "store_writer.h"

#define START_NS UINT64_C(1700000000123456789)

static const struct run_span all_runs = { 0, U64_UNKNOWN, NULL, 1000 };

/* A recorded attempt that has ended. */
static struct attempt add_attempt(struct store *store, const char *job_id, enum outcome outcome)
{
	struct attempt a = make_attempt(job_id);
	struct err err = ERR_INIT;

	a.total_sheets = 1;
	must(store_begin_attempt(store, &a, &err), &err);
	a.outcome = outcome;
	a.reason = "exit code 0";
	a.status.exit_code = 0;
	a.ended_wall_ns = START_NS + UINT64_C(60000000000) * (uint64_t)a.id;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	return a;
}

static struct run_record make_run(const struct attempt *a)
{
	struct run_record run;

	run_record_init(&run);
	run.attempt = a->id;
	run.is_whole = true;
	run.outcome = a->outcome;
	run.class = (struct run_class){ { UINT64_MAX, 2, 3 }, 4, "sleep" };
	run.started_wall_ns = a->started_wall_ns;
	run.ended_wall_ns = a->ended_wall_ns;
	run.peak_rss_mb = 12.5;
	run.early_rss_mb[3] = 7;
	run.rss_slope_mb_s[0] = -0.5;
	run.gpu_utilization_pct = 99;
	run.syscalls = "futex 41.5 read 3";
	run.anomalies = "";
	return run;
}

static void assert_same_run(const struct run_record *run, const struct attempt *a)
{
	assert_int_equal(run->attempt, a->id);
	assert_string_equal(run->job_id, a->job_id);
	assert_int_equal(run->attempt_num, 1);
	assert_string_equal(run->host, "host");
	assert_true(run->argv_hash == a->argv_hash && run->input_hash == a->input_hash);
	assert_true(run->is_whole);
	assert_true(run->class.rungs[RUNG_EXACT] == UINT64_MAX && run->class.command == 4);
	assert_string_equal(run->class.label, "sleep");
	assert_true(run->ended_wall_ns == a->ended_wall_ns);
	assert_true(run->peak_rss_mb == 12.5 && run->early_rss_mb[3] == 7);
	assert_true(run->rss_slope_mb_s[0] == -0.5 && run->gpu_utilization_pct == 99);
	assert_true(isnan(run->cpu_seconds) && isnan(run->early_rss_mb[0]));
	assert_string_equal(run->syscalls, "futex 41.5 read 3");
	assert_string_equal(run->anomalies, "");
}

static void test_runs_come_back_as_they_were(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	struct attempt a = add_attempt(store, "a", OUTCOME_SUCCESS);
	struct attempt b = add_attempt(store, "b", OUTCOME_OOM);
	struct run_record run = make_run(&a);
	const struct run_span later = { a.ended_wall_ns, U64_UNKNOWN, NULL, 9 };
	struct unnoted unnoted[8];
	struct err err = ERR_INIT;
	size_t n;

	must(store_list_unnoted(store, unnoted, 8, &n, &err), &err);
	assert_int_equal(n, 2);
	assert_string_equal(unnoted[0].job_id, "a");
	must(store_put_runs(store, &run, NULL, 1, &err), &err);
	must(store_put_runs(store, &run, NULL, 1, &err), &err); /* replaces */
	must(store_list_unnoted(store, unnoted, 8, &n, &err), &err);
	assert_int_equal(n, 1);
	assert_string_equal(unnoted[0].job_id, "b");
	must(store_list_runs(store, &all_runs, &list, &err), &err);
	assert_int_equal(list.n, 1);
	assert_same_run(&list.items[0], &a);
	assert_int_equal(list.items[0].outcome, OUTCOME_SUCCESS);
	run_list_release(&list);
	must(store_list_runs(store, &later, &list, &err), &err);
	assert_int_equal(list.n, 0);
	assert_is_sound(f->db);
	attempt_release(&a);
	attempt_release(&b);
}

/* 6 runs. */
static void add_class(struct store *store)
{
	struct err err = ERR_INIT;

	for (int i = 0; i < 6; i++) {
		char id[16];
		struct attempt a;
		struct run_record run;

		snprintf(id, sizeof(id), "job-%d", i);
		a = add_attempt(store, id, OUTCOME_SUCCESS);
		run = make_run(&a);
		run.class.rungs[RUNG_EXACT] = i == 2 ? 1 : 11;
		run.class.rungs[RUNG_MASKED] = i < 3 ? 22 : 1;
		run.class.rungs[RUNG_PROGRAM] = 33; /* whoever may choose it */
		must(store_put_runs(store, &run, NULL, 1, &err), &err);
		attempt_release(&a);
	}
}

static void assert_runs(struct store *store, const struct run_kind *kind, size_t n,
			const char *first, const char *last)
{
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	struct err err = ERR_INIT;

	must(store_list_runs_of_kind(store, kind, &list, &err), &err);
	assert_int_equal(list.n, n);
	assert_string_equal(list.items[0].job_id, first);
	assert_string_equal(list.items[n - 1].job_id, last);
	for (size_t i = 1; i < list.n; i++)
		assert_true(list.items[i - 1].ended_wall_ns < list.items[i].ended_wall_ns);
}

static void test_runs_of_a_kind(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	const struct run_class class = { { 11, 22, 33 }, 0, NULL };
	struct run_kind kind = { &class, RUNG_EXACT, U64_UNKNOWN, U64_UNKNOWN, 100 };

	add_class(store);
	raw_sql(f->db, "UPDATE attempts SET uid = 1001 WHERE id > 4");
	assert_runs(store, &kind, 5, "job-0", "job-5");
	kind.uid = 1000;
	assert_runs(store, &kind, 3, "job-0", "job-3");
	kind.limit = 2;
	assert_runs(store, &kind, 2, "job-1", "job-3"); /* the newest ones */
	kind.rung = RUNG_MASKED;
	assert_runs(store, &kind, 2, "job-1", "job-2");
	kind.limit = 100;
	kind.rung = RUNG_PROGRAM;
	assert_runs(store, &kind, 4, "job-0", "job-3");
	kind.until_wall_ns = START_NS + UINT64_C(60000000000) * 2;
	assert_runs(store, &kind, 2, "job-0", "job-1");
}

/* The newest so many of a span, oldest first, behind what the list has. */
static void test_runs_of_a_span(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	const uint64_t class = 4, other = 5;
	struct run_span span = { START_NS + UINT64_C(60000000000), U64_UNKNOWN, NULL, 3 };
	struct err err = ERR_INIT;

	add_class(store);
	must(store_list_runs(store, &span, &list, &err), &err);
	assert_int_equal(list.n, 3);
	assert_string_equal(list.items[0].job_id, "job-3");
	assert_string_equal(list.items[2].job_id, "job-5");
	span.until_wall_ns = START_NS + UINT64_C(60000000000) * 3;
	span.command = &class;
	must(store_list_runs(store, &span, &list, &err), &err);
	assert_int_equal(list.n, 5);
	assert_string_equal(list.items[2].job_id, "job-5");
	assert_string_equal(list.items[3].job_id, "job-1");
	assert_string_equal(list.items[4].job_id, "job-2");
	span.command = &other;
	must(store_list_runs(store, &span, &list, &err), &err);
	assert_int_equal(list.n, 5);
}

static void test_a_verdict_replaces_the_outcome(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(run_list_release) struct run_list list = { .arena = ARENA_INIT };
	CLEANUP(attempt_release) struct attempt read;
	struct attempt a = add_attempt(store, "a", OUTCOME_SUCCESS);
	struct run_record run = make_run(&a);
	struct store_verdict verdict = { OUTCOME_FAILURE, "wrong numbers", 1000, 77 };
	struct err err = ERR_INIT;
	char text[256];

	attempt_init(&read);
	must(store_put_runs(store, &run, NULL, 1, &err), &err);
	must(store_set_outcome(store, "a", 0, &verdict, &err), &err);
	must(store_read_progress(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.outcome, OUTCOME_FAILURE);
	assert_string_equal(read.reason, "user 1000 says so: wrong numbers");
	assert_int_equal(read.status.exit_code, 0);
	must(store_list_runs(store, &all_runs, &list, &err), &err);
	assert_int_equal(list.items[0].outcome, OUTCOME_FAILURE);
	assert_int_equal(list.items[0].measured, OUTCOME_SUCCESS);
	verdict.note = NULL; /* a second thought: what was measured stays */
	must(store_set_outcome(store, "a", 1, &verdict, &err), &err);
	assert_string_equal(raw_text(f->db, "SELECT measured_outcome FROM verdicts", text),
			    "success");
	assert_string_equal(raw_text(f->db, "SELECT measured_reason FROM verdicts", text),
			    "exit code 0");
	assert_int_equal(store_set_outcome(store, "nobody", 0, &verdict, &err), -ENOENT);
	assert_int_equal(store_restore_outcome(store, "nobody", 0, &err), -ENOENT);
	must(store_restore_outcome(store, "a", 0, &err), &err);
	must(store_restore_outcome(store, "a", 0, &err), &err); /* which it is already */
	attempt_release(&read);
	must(store_read_progress(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.outcome, OUTCOME_SUCCESS);
	assert_string_equal(read.reason, "exit code 0");
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM verdicts"), 0);
	attempt_release(&a);
}

static void test_no_verdict_while_it_runs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	const struct store_verdict verdict = { OUTCOME_FAILURE, NULL, 0, 1 };
	struct attempt a = make_attempt("a");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	assert_int_equal(store_set_outcome(store, "a", 0, &verdict, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "still runs"));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM verdicts"), 0);
	attempt_release(&a);
}

static void test_patterns_come_back(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(pattern_list_release) struct pattern_list list = { .arena = ARENA_INIT };
	CLEANUP(pattern_list_release) struct pattern_list read = { .arena = ARENA_INIT };
	struct pattern *p = pattern_list_add(&list);
	struct err err = ERR_INIT;

	p->type = PATTERN_FINDING;
	p->name = "rule";
	p->grade = "supported";
	p->feature = "peak_rss_mb";
	p->is_above = true;
	p->threshold = 41.25;
	p->occurrences = 3;
	p->class_key = UINT64_MAX;
	p->first_wall_ns = 5;
	must(store_put_patterns(store, &list, &err), &err);
	list.items[0].grade = "confirmed";
	list.items[0].brier = 0.125;
	must(store_put_patterns(store, &list, &err), &err);
	must(store_list_patterns(store, &read, &err), &err);
	assert_int_equal(read.n, 1);
	assert_string_equal(read.items[0].grade, "confirmed");
	assert_true(read.items[0].is_above && read.items[0].threshold == 41.25);
	assert_true(read.items[0].brier == 0.125 && isnan(read.items[0].confidence));
	assert_true(read.items[0].class_key == UINT64_MAX);
	assert_false(u64_known(read.items[0].retired_wall_ns));
	assert_null(read.items[0].tags);
}

/* Three answers, of which one was not kept and of one nobody can tell. */
static void test_calibration(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	static const int covered[] = { 1, 0, -1 };
	const struct run_class class = { { UINT64_MAX, 99, 3 }, 4, NULL };
	struct run_kind kind = { &class, RUNG_EXACT, U64_UNKNOWN, U64_UNKNOWN, 100 };
	struct calibration c;
	struct err err = ERR_INIT;

	for (int i = 0; i < 3; i++) {
		struct run_estimate estimate = { .score = { covered[i], 1 } };
		struct run_record run;
		struct attempt a;
		char id[16];

		snprintf(id, sizeof(id), "job-%d", i);
		a = add_attempt(store, id, OUTCOME_SUCCESS);
		run = make_run(&a);
		estimate_init(&estimate.estimate);
		estimate.estimate.n_runs = 9;
		estimate.estimate.peak_coverage = i == 0 ? 0.8 : 0.9;
		must(store_put_runs(store, &run, &estimate, 1, &err), &err);
		attempt_release(&a);
	}
	must(store_read_calibration(store, &kind, &c, &err), &err);
	assert_int_equal(c.n_peak, 2);
	assert_int_equal(c.n_peak_covered, 1);
	assert_int_equal(c.n_cpu, 3);
	assert_int_equal(c.n_cpu_covered, 3);
	assert_true(fabs(c.promised - 0.85) < 1e-12);
	kind.rung = RUNG_MASKED;
	must(store_read_calibration(store, &kind, &c, &err), &err);
	assert_int_equal(c.n_peak, 0);
	assert_true(isnan(c.promised));
	kind.rung = RUNG_PROGRAM;
	must(store_read_calibration(store, &kind, &c, &err), &err);
	assert_int_equal(c.n_peak, 2);
	raw_sql(f->db, "UPDATE attempts SET uid = 1001 WHERE id = 1");
	kind.uid = 1000;
	must(store_read_calibration(store, &kind, &c, &err), &err);
	assert_int_equal(c.n_peak, 1); /* what another was answered is for the other */
	kind.limit = 1;		       /* the newest alone */
	must(store_read_calibration(store, &kind, &c, &err), &err);
	assert_int_equal(c.n_cpu, 1);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_runs_come_back_as_they_were),
		TEST(test_runs_of_a_kind),
		TEST(test_runs_of_a_span),
		TEST(test_a_verdict_replaces_the_outcome),
		TEST(test_no_verdict_while_it_runs),
		TEST(test_patterns_come_back),
		TEST(test_calibration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
