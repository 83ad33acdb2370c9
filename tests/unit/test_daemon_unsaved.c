/* Anomalies that the database does not take wait, and are all there when it does. */
#include "store_fixture.h"

#include <signal.h>
#include <sys/resource.h>

#include "daemon/unsaved.h"

#define START UINT64_C(1700000000000000000)

static void make_episode(struct episode *e, unsigned k)
{
	episode_init(e);
	e->worst.type = ANOMALY_MEMORY_LEAK;
	snprintf(e->name, sizeof(e->name), "leak/%u/1", k);
	snprintf(e->comm, sizeof(e->comm), "py");
	e->began_wall_ns = START + k;
	e->count = 1;
}

static int write_one(struct unsaved *w, struct store *store, const struct episode *e,
		     enum episode_change change, struct err *err)
{
	const struct anomaly_news news = { 0, e, change, true };

	return unsaved_write(w, store, &news, NULL, err);
}

/* Another connection that writes, for as long as it is open. */
static sqlite3 *must_lock(const char *path)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	return db;
}

static void test_a_lock(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(unsaved_release) struct unsaved w = { 0 };
	struct anomaly_evidence evidence;
	struct err err = ERR_INIT;
	struct episode e;
	sqlite3 *holder = must_lock(f->db);

	store_set_patience(store, 0);
	anomaly_evidence_init(&evidence);
	for (unsigned k = 0; k < 3; k++) {
		make_episode(&e, k);
		e.evidence = k == 0 ? &evidence : NULL;
		assert_int_equal(write_one(&w, store, &e, EPISODE_BEGAN, &err), -EBUSY);
	}
	make_episode(&e, 0); /* the first clears: that waits too, and its evidence stays */
	e.ended_wall_ns = START + 10;
	assert_int_equal(write_one(&w, store, &e, EPISODE_CLEARED, &err), -EBUSY);
	assert_int_equal(w.n, 4);
	sqlite3_close(holder);
	must(unsaved_retry(&w, store, U64_UNKNOWN, &err), &err);
	assert_int_equal(w.n + w.n_lost, 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 3);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE evidence NOT NULL"
					" AND ended_wall_ns NOT NULL"),
			 1);
	assert_int_equal(raw_sql(f->db, "SELECT occurrences FROM patterns"), 3);
}

/* A trace takes seconds: the database may be locked when it began, and when it has ended. */
static void test_a_trace_that_ends_while_all_waits(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(unsaved_release) struct unsaved w = { 0 };
	struct anomaly_evidence evidence;
	struct err err = ERR_INIT;
	struct episode e;
	sqlite3 *holder;

	store_set_patience(store, 0);
	anomaly_evidence_init(&evidence);
	make_episode(&e, 0);
	must(write_one(&w, store, &e, EPISODE_BEGAN, &err), &err);
	holder = must_lock(f->db);
	make_episode(&e, 1);
	e.evidence = &evidence;
	assert_int_equal(write_one(&w, store, &e, EPISODE_BEGAN, &err), -EBUSY);
	for (unsigned k = 0; k < 2; k++) {
		snprintf(evidence.trace, sizeof(evidence.trace), "trace-of-%u", k);
		assert_int_equal(unsaved_set_evidence(&w, store, k ? "leak/1/1" : "leak/0/1",
						      &evidence, &err),
				 k ? 0 : -EBUSY);
	}
	sqlite3_close(holder);
	must(unsaved_retry(&w, store, U64_UNKNOWN, &err), &err);
	assert_null(w.late);
	assert_int_equal(w.n + w.n_lost, 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies WHERE evidence LIKE "
					"'%trace-of-' || substr(episode, 6, 1) || '%'"),
			 2);
	/* One that no database has. */
	assert_int_equal(unsaved_set_evidence(&w, store, "leak/9/1", &evidence, &err), -ENOENT);
	assert_null(w.late);
}

/* Another has told of it meanwhile, and the row has the other's name: so has what is traced. */
static void test_a_trace_of_what_another_has_told(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct evidence_trace trace = { .episode = "leak/0/1" };
	CLEANUP(unsaved_release) struct unsaved w = { .trace = &trace };
	struct err err = ERR_INIT;
	struct episode e;

	make_episode(&e, 0);
	assert_int_equal(write_one(&w, NULL, &e, EPISODE_BEGAN, &err), 0);
	snprintf(e.name, sizeof(e.name), "leak/0/0");
	must(write_anomaly(store, 0, &e, EPISODE_BEGAN, &err), &err);
	must(unsaved_retry(&w, store, U64_UNKNOWN, &err), &err);
	assert_string_equal(trace.episode, "leak/0/0");
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 1);
}

/* Without a database all wait; when there is one, one at a time if there is no time. */
static void test_there_is_no_database_yet(void **state)
{
	struct fixture *f = *state;
	CLEANUP(unsaved_release) struct unsaved w = { 0 };
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct err err = ERR_INIT;
	struct episode e;

	for (unsigned k = 0; k < 2; k++) {
		make_episode(&e, k);
		assert_int_equal(write_one(&w, NULL, &e, EPISODE_BEGAN, &err), 0);
	}
	store = must_open(f->db, STORE_WRITE);
	must(unsaved_retry(&w, store, 0, &err), &err);
	assert_int_equal(w.n, 1);
	must(unsaved_retry(&w, store, 0, &err), &err);
	assert_int_equal(w.n, 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM anomalies"), 2);
}

/* A limit on files that somebody may raise. In a child, as it stays. */
static void test_a_limit_on_files(void **state)
{
	struct fixture *f = *state;
	struct rlimit limit = { 0, RLIM_INFINITY };
	struct unsaved w = { 0 };
	struct store *store;
	struct episode e;
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGXFSZ, SIG_IGN);
		CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
		CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		make_episode(&e, 0);
		CHILD_CHECK(write_one(&w, store, &e, EPISODE_BEGAN, NULL) == -EFBIG);
		CHILD_CHECK(w.n == 1 && w.n_lost == 0);
		limit.rlim_cur = RLIM_INFINITY;
		CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		CHILD_CHECK(unsaved_retry(&w, store, U64_UNKNOWN, NULL) == 0);
		CHILD_CHECK(w.n == 0 && w.n_lost == 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_too_many(void **state)
{
	CLEANUP(unsaved_release) struct unsaved w = { 0 };
	struct episode e;

	(void)state;
	for (unsigned k = 0; k < UNSAVED_MAX + 5; k++) {
		make_episode(&e, k);
		write_one(&w, NULL, &e, EPISODE_BEGAN, NULL);
	}
	assert_int_equal(w.n, UNSAVED_MAX);
	assert_int_equal(w.n_lost, 5);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_a_lock),
		STORE_TEST(test_a_trace_that_ends_while_all_waits),
		STORE_TEST(test_a_trace_of_what_another_has_told),
		STORE_TEST(test_there_is_no_database_yet),
		STORE_TEST(test_a_limit_on_files),
		STORE_TEST(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
