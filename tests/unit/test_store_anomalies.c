/* Episodes as they were told, to whom, and who follows them. */
#include "anomaly_fixture.h"
#include "store_writer.h"

static void test_an_episode_comes_back_as_it_was(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.attempt_num, 1);
	assert_string_equal(h.last.worst.job_id, "a");
	assert_int_equal(h.last.worst.type, ANOMALY_MEMORY_LEAK);
	assert_int_equal(h.last.worst.severity, SEVERITY_MEDIUM);
	assert_true(h.last.worst.has_pid);
	assert_int_equal(h.last.worst.pid, 42);
	assert_int_equal(h.last.worst.start_ticks, 77);
	assert_int_equal(h.last.worst.sheet_num, 3);
	assert_string_equal(h.last.worst.text, "it \"grows\"");
	assert_true(h.last.worst.metric_value == 120.5 && h.last.before_value == 90);
	assert_true(isnan(h.last.after_value) && isnan(h.last.seconds_to_limit));
	assert_int_equal(h.last.gpu, -1);
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_non_null(strstr(h.host, "\"load_avg_1\":1.5"));
	assert_string_equal(h.evidence, "-");
}

static void test_a_change_is_no_new_row(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct anomaly_evidence evidence;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	anomaly_evidence_init(&evidence);
	evidence.n_files_open = 5;
	e.evidence = &evidence;
	put(store, a.id, &e, EPISODE_BEGAN);
	e.evidence = NULL;
	e.worst.severity = SEVERITY_HIGH;
	put(store, a.id, &e, EPISODE_ESCALATED);
	e.ended_wall_ns = START + 60 * SECOND;
	e.why_cleared = "the process ended";
	put(store, a.id, &e, EPISODE_CLEARED);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.worst.severity, SEVERITY_HIGH);
	assert_int_equal(h.last.ended_wall_ns, START + 60 * SECOND);
	assert_non_null(strstr(h.evidence, "\"open_file_count\":5")); /* of when it began */
	snprintf(evidence.trace, sizeof(evidence.trace), "/x.trace");
	assert_int_equal(store_set_evidence(store, e.name, &evidence, NULL), 0);
	assert_int_equal(store_set_evidence(store, "another", &evidence, NULL), -ENOENT);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_non_null(strstr(h.evidence, "\"trace\":\"/x.trace\""));
	assert_int_equal(h.last.ended_wall_ns, START + 60 * SECOND);
}

static void test_filters(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b"),
		       again = must_begin(store, "a");
	struct episode e;
	struct heard h;

	for (int i = 0; i < 100; i++) { /* more than are copied at a time */
		make_episode(&e, 100 + i, START + (uint64_t)(i / 2) * SECOND);
		put(store, i % 2 ? a.id : b.id, &e, EPISODE_BEGAN);
	}
	make_episode(&e, 7, START + 200 * SECOND);
	put(store, again.id, &e, EPISODE_BEGAN);
	make_episode(&e, 0, START + 300 * SECOND);
	put(store, 0, &e, EPISODE_BEGAN);

	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 102);
	assert_null(h.last.worst.job_id);
	assert_false(h.last.worst.has_pid);
	assert_int_equal(h.attempt_num, 0);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 51);
	assert_int_equal(h.attempt_num, 2);
	assert_int_equal(
		count(store, (struct anomaly_filter){ .job_id = "a", .attempt_num = 2 }, &h), 1);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "x" }, &h), 0);
	assert_int_equal(
		count(store, (struct anomaly_filter){ .since_wall_ns = START + 49 * SECOND }, &h),
		4);
	assert_int_equal(count(store, (struct anomaly_filter){ .until_wall_ns = START }, &h), 2);
}

/* Not of the last attempt of that name: it may be another user's. */
static void test_whose_attempt_is_unknown_is_nobodys(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt first = must_begin(store, "a");
	struct episode e;
	struct heard h;

	must_begin(store, "a");
	make_episode(&e, 42, START);
	episode_set_job(&e, "a");
	put(store, first.id, &e, EPISODE_BEGAN);
	make_episode(&e, 43, START);
	episode_set_job(&e, "a");
	put(store, 0, &e, EPISODE_BEGAN);
	assert_int_equal(count(store, (struct anomaly_filter){ .job_id = "a" }, &h), 1);
	assert_int_equal(h.attempt_num, 1);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 2);
	assert_null(h.last.worst.job_id);
}

static void test_an_attempt_has_its_own(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	CLEANUP(attempt_release) struct attempt read;
	struct err err = ERR_INIT;
	struct episode e;

	attempt_init(&read);
	make_episode(&e, 43, START + SECOND);
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	make_episode(&e, 44, START);
	put(store, b.id, &e, EPISODE_BEGAN);
	must(store_read_attempt(store, "a", 1, &read, &err), &err);
	assert_int_equal(read.details.n_anomalies, 2);
	assert_int_equal(read.details.anomalies[0].worst.pid, 42);
	assert_int_equal(read.details.anomalies[1].worst.pid, 43);
	assert_string_equal(read.details.anomalies[1].worst.job_id, "a");
	assert_string_equal(read.details.anomalies[1].unit, "MB");
	assert_non_null(strstr(read.details.anomalies[1].host_json, "load_avg_1"));
}

static void test_patterns(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	char text[256];
	struct episode e;

	make_episode(&e, 1, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	put(store, a.id, &e, EPISODE_CLEARED);
	make_episode(&e, 2, START + SECOND);
	put(store, b.id, &e, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM patterns"), 1);
	assert_string_equal(raw_text(f->db, "SELECT type || ' ' || name FROM patterns", text),
			    "RESOURCE_ANOMALY memory_leak:py");
	assert_int_equal(raw_sql(f->db, "SELECT occurrences FROM patterns"), 2);
	assert_int_equal(raw_sql(f->db, "SELECT last_wall_ns - first_wall_ns FROM patterns"),
			 SECOND);
	assert_string_equal(raw_text(f->db, "SELECT jobs FROM patterns", text), "b\na");
	e.worst.severity = SEVERITY_CRITICAL;
	snprintf(e.worst.text, sizeof(e.worst.text), "it grows fast");
	put(store, b.id, &e, EPISODE_ESCALATED);
	assert_string_equal(raw_text(f->db, "SELECT tags FROM patterns", text),
			    "resource\nanomaly\nmemory_leak\ncritical");
	assert_string_equal(raw_text(f->db, "SELECT description FROM patterns", text),
			    "it grows fast");
	assert_int_equal(raw_sql(f->db, "SELECT occurrences FROM patterns"), 2);
	raw_sql(f->db, "DELETE FROM anomalies"); /* as retention does */
	make_episode(&e, 3, START + 2 * SECOND);
	put(store, a.id, &e, EPISODE_BEGAN);
	assert_string_equal(raw_text(f->db, "SELECT jobs FROM patterns", text), "a\nb");
	assert_int_equal(raw_sql(f->db, "SELECT n_jobs FROM patterns"), 2);
}

/* More than there is room to name. */
static void test_a_pattern_of_many_jobs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	int64_t first = 0;
	char name[32];
	struct episode e;

	for (int i = 0; i < 60; i++) {
		struct attempt a;

		snprintf(name, sizeof(name), "job-%d", i);
		a = must_begin(store, name);
		first = i == 0 ? a.id : first;
		make_episode(&e, 100 + i, START + (uint64_t)i * SECOND);
		put(store, a.id, &e, EPISODE_BEGAN);
	}
	make_episode(&e, 99, START + 99 * SECOND); /* the first again, whose name was pushed out */
	put(store, first, &e, EPISODE_BEGAN);
	assert_int_equal(raw_sql(f->db, "SELECT n_jobs FROM patterns"), 60);
	assert_int_equal(raw_sql(f->db, "SELECT length(jobs) - length(replace(jobs, char(10), ''))"
					" FROM patterns"),
			 49);
}

static void test_one_without_an_end_ends_with_its_attempt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	put(store, a.id, &e, EPISODE_BEGAN);
	a.ended_wall_ns = START + 9 * SECOND;
	a.outcome = OUTCOME_SUCCESS;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.ended_wall_ns, START + 9 * SECOND);
}

/* Those that were over before are not even looked at; those that lasted into it are there. */
static void test_what_lasted(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "j");
	const struct anomaly_filter filter = { .lasting_wall_ns = START + 50 * SECOND };
	struct err err = ERR_INIT;
	struct heard h = { 0 };
	struct episode e;

	for (int i = 0; i < 100; i++) { /* each for 5 s */
		make_episode(&e, 100 + i, START + (uint64_t)i * SECOND);
		e.ended_wall_ns = e.began_wall_ns + 5 * SECOND;
		put(store, a.id, &e, EPISODE_CLEARED);
	}
	make_episode(&e, 7, START); /* nobody saw the end of it */
	put(store, a.id, &e, EPISODE_BEGAN);
	must(store_read_anomalies(store, &filter, hear, &h, &err), &err);
	assert_int_equal(h.n, 56);
	a.ended_wall_ns = START + 20 * SECOND; /* it is over with its attempt */
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	h = (struct heard){ 0 };
	must(store_read_anomalies(store, &filter, hear, &h, &err), &err);
	assert_int_equal(h.n, 55);
}

/* Its numbers follow it while it lasts, and nothing is told. */
static void test_what_lasts_is_renewed(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	struct err err = ERR_INIT;
	struct episode e;
	struct heard h;

	make_episode(&e, 42, START);
	must(store_renew_anomaly(store, a.id, &e, &err), &err); /* it is not there yet */
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 0);
	put(store, a.id, &e, EPISODE_BEGAN);
	e.count = 8;
	e.peak_value = e.worst.metric_value = 200;
	e.peak_wall_ns = e.seen_wall_ns = START + 30 * SECOND;
	snprintf(e.worst.text, sizeof(e.worst.text), "it has grown");
	must(store_renew_anomaly(store, a.id, &e, &err), &err);
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.count, 8);
	assert_true(h.last.peak_value == 200 && h.last.worst.metric_value == 200);
	assert_int_equal(h.last.peak_wall_ns, START + 30 * SECOND);
	assert_int_equal(h.last.seen_wall_ns, START + 30 * SECOND);
	assert_string_equal(h.last.worst.text, "it has grown");
	assert_false(u64_known(h.last.ended_wall_ns));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomaly_changes"), 1);
	e.ended_wall_ns = START + 40 * SECOND;
	put(store, a.id, &e, EPISODE_CLEARED);
	e.ended_wall_ns = U64_UNKNOWN;
	e.count = 9;
	must(store_renew_anomaly(store, a.id, &e, &err), &err); /* it is over */
	assert_int_equal(count(store, (struct anomaly_filter){ 0 }, &h), 1);
	assert_int_equal(h.last.count, 8);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_an_episode_comes_back_as_it_was),
		STORE_TEST(test_a_change_is_no_new_row),
		STORE_TEST(test_filters),
		STORE_TEST(test_whose_attempt_is_unknown_is_nobodys),
		STORE_TEST(test_an_attempt_has_its_own),
		STORE_TEST(test_patterns),
		STORE_TEST(test_a_pattern_of_many_jobs),
		STORE_TEST(test_one_without_an_end_ends_with_its_attempt),
		STORE_TEST(test_what_lasted),
		STORE_TEST(test_what_lasts_is_renewed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
