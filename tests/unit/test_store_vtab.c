/* The tables beside others: joined, read while somebody writes, on connections of others. */
#include "vtab_fixture.h"

/* ---- order ---- */

static void test_order(void **state)
{
	static const char *const queries[] = {
		"SELECT timestamp FROM $s ORDER BY timestamp",
		"SELECT timestamp FROM $s ORDER BY timestamp DESC",
		"SELECT timestamp FROM $m ORDER BY timestamp",
		"SELECT timestamp FROM $m ORDER BY timestamp DESC",
		"SELECT timestamp FROM $e ORDER BY timestamp",
		"SELECT timestamp FROM $e ORDER BY timestamp DESC",
		"SELECT timestamp FROM $m WHERE job_id = 5 ORDER BY timestamp DESC",
		"SELECT timestamp FROM $m WHERE pid IN (102, 100) ORDER BY timestamp",
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);

	write_three_jobs(store);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		assert_true(assert_as_copies(db, queries[i]) > 10);
}

/* ---- several at once ---- */

/* Also against the order that SQLite would choose. */
static const char *const joins[] = {
	"SELECT m.pid, m.timestamp, s.id, s.load_avg_1 FROM $m m JOIN $s s ON s.id = m.snapshot_id"
	" ORDER BY m.timestamp, s.id, m.pid",
	"SELECT m.pid, m.timestamp, s.id, s.zombie_pids FROM $s s CROSS JOIN $m m"
	" ON m.snapshot_id = s.id ORDER BY s.timestamp, s.id, m.pid",
	"SELECT m.pid, s.id, s.gpus FROM $m m CROSS JOIN $s s ON s.id = m.snapshot_id"
	" WHERE m.job_id = 'B' AND s.timestamp > 1700000020 ORDER BY m.timestamp, m.pid",
	"SELECT m.pid, s.id FROM $m m CROSS JOIN $s s USING (timestamp)"
	" WHERE m.job_id = 'a' AND m.pid = 101 ORDER BY 2",
	"SELECT m.pid, n.pid, m.snapshot_id FROM $m m JOIN $m n ON n.snapshot_id = m.snapshot_id"
	" AND n.pid = m.pid + 1 ORDER BY 3, 1",
	"SELECT e.event_type, e.job_id, count(*) FROM $e e JOIN $m m ON m.pid = e.pid"
	" AND m.job_id = e.job_id AND m.timestamp <= e.timestamp GROUP BY 1, 2 ORDER BY 1, 2",
	"SELECT j.job_id, a.attempt_num, count(*), max(m.rss_mb) FROM jobs j JOIN attempts a"
	" ON a.job = j.id JOIN $m m ON m.job_id = j.job_id AND m.attempt = a.attempt_num"
	" GROUP BY 1 ORDER BY 1",
	"SELECT s.id, (SELECT sum(rss_bytes) FROM $m m WHERE m.snapshot_id = s.id) FROM $s s"
	" ORDER BY 1",
	"SELECT s.id, json_extract(g.value, '$$.utilization_pct') FROM $s s, json_each(s.gpus) g"
	" ORDER BY 1, 2",
	"SELECT DISTINCT timestamp FROM $m ORDER BY timestamp DESC",
	"SELECT timestamp, count(*), sum(rss_bytes) FROM $m GROUP BY timestamp ORDER BY 1",
	"SELECT pid, rss_mb - lag(rss_mb) OVER (PARTITION BY job_id, pid ORDER BY timestamp)"
	" FROM $m ORDER BY timestamp, snapshot_id, pid",
};

static void test_joins(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);

	write_three_jobs(store);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(joins); i++)
		assert_true(assert_as_copies(db, joins[i]) > 1);
}

static void test_two_statements_at_once(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	int64_t n = 0;

	write_ticks(store, &a, 0, N_TICKS);
	{
		CLEANUP(finalize)
		sqlite3_stmt *up = prepare(db, "SELECT id FROM snapshots ORDER BY timestamp");
		CLEANUP(finalize)
		sqlite3_stmt *down =
			prepare(db, "SELECT id FROM snapshots ORDER BY timestamp DESC");
		CLEANUP(finalize)
		sqlite3_stmt *events = prepare(db, "SELECT timestamp FROM process_events");
		CLEANUP(finalize)
		sqlite3_stmt *more = prepare(db, "SELECT timestamp FROM process_events");

		while (sqlite3_step(up) == SQLITE_ROW) {
			assert_int_equal(sqlite3_step(down), SQLITE_ROW);
			assert_int_equal(sqlite3_column_int64(up, 0) +
						 sqlite3_column_int64(down, 0),
					 N_TICKS + 1);
			if (++n > N_TICKS / 10)
				continue;
			assert_int_equal(sqlite3_step(events), SQLITE_ROW);
			assert_int_equal(sqlite3_step(more), SQLITE_ROW);
			assert_true(sqlite3_column_double(events, 0) ==
				    sqlite3_column_double(more, 0));
		}
	}
	assert_int_equal(n, N_TICKS);
}

/* A statement tells what was there when it began, whatever is written and folded meanwhile. */
static void test_a_writer_at_the_same_time(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	int64_t n = 0;

	write_ticks(store, &a, 0, 200);
	{
		CLEANUP(finalize)
		sqlite3_stmt *stmt = prepare(
			db,
			"SELECT m.pid, s.load_avg_1 FROM process_metrics m CROSS JOIN snapshots s"
			" ON s.id = m.snapshot_id");

		while (sqlite3_step(stmt) == SQLITE_ROW)
			if (++n == 100)
				write_ticks(store, &a, 200, 500);
	}
	assert_int_equal(n, 600);
	assert_rows(db, "SELECT count(*) FROM process_metrics", "1500\n");
	assert_rows(db, "SELECT count(*) FROM snapshots", "500\n");
}

/* ---- the connection is not ours ---- */

static void test_the_users_transactions(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");

	write_ticks(store, &a, 0, 130);
	assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
	assert_true(sqlite3_get_autocommit(db));
	assert_rows(db, "BEGIN", "");
	assert_rows(db, "SELECT count(*) FROM process_metrics", "390\n");
	assert_false(sqlite3_get_autocommit(db));
	write_ticks(store, &a, 130, 260); /* not seen in it */
	assert_rows(db, "SELECT count(*) FROM process_metrics", "390\n");
	assert_rows(db, "COMMIT", "");
	assert_rows(db, "SELECT count(*) FROM process_metrics", "780\n");
	assert_rows(db, "CREATE TEMP TABLE kept AS SELECT * FROM snapshots", "");
	assert_rows(db, "SELECT count(*), sum(typeof(load_avg_1) = 'real') FROM kept", "260|260\n");
	assert_rows(db, "CREATE TEMP VIEW v AS SELECT pid FROM process_metrics WHERE pid = 101",
		    "");
	assert_rows(db, "SELECT count(*) FROM v", "260\n");
	assert_fails(db, "INSERT INTO snapshots (id) VALUES (1)", SQLITE_ERROR,
		     "may not be modified");
	assert_fails(db, "DELETE FROM process_events", SQLITE_ERROR, "may not be modified");
}

static void test_other_databases(void **state)
{
	struct fixture *f = *state;
	CLEANUP(close_db) sqlite3 *empty = open_db(":memory:");
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);

	assert_fails(empty, "SELECT * FROM snapshots", SQLITE_ERROR,
		     "nothing was recorded in main: open a database of proctor's");
	assert_rows(empty, "CREATE TABLE t (x)", "");
	assert_fails(empty, "SELECT * FROM process_events", SQLITE_ERROR,
		     "is the database of another program: open one of proctor's");
	store_close(must_open(f->db, STORE_WRITE));
	assert_rows(db, "SELECT count(*) FROM snapshots", "0\n");
	assert_rows(db, "SELECT * FROM process_metrics WHERE snapshot_id = 1", "");
	assert_rows(db, "PRAGMA user_version = 99", "");
	{
		CLEANUP(close_db) sqlite3 *newer = open_db(f->db);

		assert_fails(newer, "SELECT * FROM snapshots", SQLITE_ERROR,
			     "has layout 99, and this proctor needs layout ");
	}
}

/* As when somebody loads the extension twice. */
static void test_registered_again(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;

	write_ticks(store, &a, 0, 130);
	for (int i = 0; i < 3; i++) {
		assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
		must(vtab_register(db, NULL, &err), &err);
	}
	{
		CLEANUP(finalize) sqlite3_stmt *stmt = prepare(db, "SELECT id FROM snapshots");
		int64_t n = 0;

		while (sqlite3_step(stmt) == SQLITE_ROW)
			if (++n == 50)
				must(vtab_register(db, NULL, &err), &err);
		assert_int_equal(n, 130);
	}
	assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
}

/* Interrupted by another thread, or by a handler as here. */
static int interrupt(void *ctx)
{
	(void)ctx;
	return 1;
}

static void test_an_interrupt(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	struct attempt a = must_begin(store, "j");

	write_ticks(store, &a, 0, 130);
	assert_rows(db, "SELECT count(*) FROM snapshots, process_events", "1690\n");
	sqlite3_progress_handler(db, 20, interrupt, NULL);
	assert_fails(db, "SELECT count(*) FROM snapshots", SQLITE_INTERRUPT, "");
	assert_fails(db, "SELECT count(*) FROM process_events", SQLITE_INTERRUPT, "");
	sqlite3_progress_handler(db, 0, NULL, NULL);
	assert_rows(db, "SELECT count(*) FROM snapshots", "130\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_order),
		STORE_TEST(test_joins),
		STORE_TEST(test_two_statements_at_once),
		STORE_TEST(test_a_writer_at_the_same_time),
		STORE_TEST(test_the_users_transactions),
		STORE_TEST(test_other_databases),
		STORE_TEST(test_registered_again),
		STORE_TEST(test_an_interrupt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
