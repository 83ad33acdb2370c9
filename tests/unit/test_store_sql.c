#include "store_host.h"

#include "base/buf.h"
#include "store_writer.h"

/* Three ticks of a job, in a store that is then read. */
static struct store *make_record(const struct fixture *f)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	snapshot_init(&snap);
	for (unsigned k = 0; k < 3; k++) {
		make_snapshot(&snap, "j", k);
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	return must_open(f->db, STORE_READ);
}

static void add_value(struct buf *out, struct sql_value v)
{
	switch (v.type) {
	case SQL_NULL:
		buf_add_str(out, "NULL ");
		break;
	case SQL_INTEGER:
		buf_printf(out, "%lld ", (long long)v.integer);
		break;
	case SQL_REAL:
		buf_printf(out, "%.3f ", v.real);
		break;
	case SQL_TEXT:
		buf_printf(out, "'%.*s' ", (int)v.len, v.bytes ? v.bytes : "");
		break;
	case SQL_BLOB:
		buf_printf(out, "%zu bytes ", v.len);
		break;
	}
}

static void assert_gives(struct store *store, const char *text, const char *want)
{
	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
	CLEANUP(buf_release) struct buf got = BUF_INIT;
	struct err err = ERR_INIT;
	int r = store_sql_open(store, text, NULL, NULL, &sql, &err);

	must(r, &err);
	for (size_t i = 0; i < store_sql_columns(sql); i++)
		buf_printf(&got, "%s ", store_sql_name(sql, i));
	while ((r = store_sql_next(sql, &err)) > 0) {
		buf_add_str(&got, "/ ");
		for (size_t i = 0; i < store_sql_columns(sql); i++)
			add_value(&got, store_sql_value(sql, i));
	}
	must(r, &err);
	assert_string_equal(got.data, want);
}

static void assert_refused(struct store *store, const char *text, const char *says)
{
	struct store_sql *sql = NULL;
	struct err err = ERR_INIT;

	if (store_sql_open(store, text, NULL, NULL, &sql, &err) != -EINVAL ||
	    !strstr(err.text, says))
		fail_msg("%s: %d %s", text, err.code, err.text);
	assert_null(sql);
}

static void test_values(void **state)
{
	CLEANUP(store_cleanup) struct store *store = make_record(*state);

	assert_gives(store, "SELECT NULL n, 1 i, 0.5 r, 'x' t, x'0001' b, '' e",
		     "n i r t b e / NULL 1 0.500 'x' 2 bytes '' ");
	assert_gives(store, "VALUES (9223372036854775807)", "column1 / 9223372036854775807 ");
	assert_gives(store, "SELECT id, running_jobs FROM snapshots",
		     "id running_jobs / 1 0 / 2 1 / 3 2 ");
	assert_gives(store, "SELECT count(*) n FROM process_metrics JOIN jobs USING (job_id)",
		     "n / 9 ");
	assert_gives(store,
		     "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c"
		     " WHERE x < 3) SELECT x FROM c",
		     "x / 1 / 2 / 3 ");
	assert_gives(store, "SELECT value FROM json_each('[7]')", "value / 7 ");
	assert_gives(store, "SELECT type FROM pragma_table_info('snapshots') WHERE name = 'gpus'",
		     "type / 'TEXT' ");
	assert_gives(store, "PRAGMA page_size", "page_size / 4096 ");
	assert_gives(store, " ;; -- first\n SELECT 1 a; ; /* last */ ", "a / 1 ");
	assert_gives(store, "SELECT 1 WHERE 0", "1 ");
}

static void test_what_is_no_statement(void **state)
{
	CLEANUP(store_cleanup) struct store *store = make_record(*state);

	assert_refused(store, "", "no statement");
	assert_refused(store, " -- nothing", "no statement");
	assert_refused(store, "SELECT pid FORM jobs", "near \"jobs\": syntax error");
	assert_refused(store, "SELEC 1", "near \"SELEC\": syntax error");
	assert_refused(store, "SELECT 1; SELECT 2", "one statement at a time");
	assert_refused(store, "SELECT 1; rubbish", "one statement at a time");
	assert_refused(store, "SELECT 1; DELETE FROM jobs", "one statement at a time");
	assert_refused(store, "SELECT no_column FROM jobs", "no such column: no_column");
	assert_refused(store, "SELECT * FROM nowhere", "no such table: nowhere");
	assert_refused(store, "SELECT ?", "have no value here");
	assert_refused(store, "SELECT :name", "have no value here");
#if SQLITE_VERSION_NUMBER >= 3038000
	assert_refused(store, ";\nSELECT 1,\n  no_column FROM jobs", "line 3, column 3: ");
	assert_refused(store, "SELECT 1;\nSELECT 2", "line 1, column 10: ");
#endif
	assert_gives(store, "SELECT 1 a", "a / 1 "); /* and it goes on */
}

/* Whoever asks for what every database has has made no mistake. */
static void test_what_is_missing(void **state)
{
	struct fixture *f = *state;
	static const char *const statements[] = {
		"SELECT * FROM outcomes",
		"SELECT * FROM process_metrics",
		"SELECT details FROM events",
	};

	store_close(make_record(f));
	raw_sql(f->db, "DROP VIEW outcomes");
	raw_sql(f->db, "ALTER TABLE ticks RENAME TO tocks");
	raw_sql(f->db, "ALTER TABLE events RENAME COLUMN details TO detail");
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_READ);
		CLEANUP(store_sql_close) struct store_sql *sql = NULL;
		struct err err = ERR_INIT;

		assert_int_equal(store_sql_open(store, statements[i], NULL, NULL, &sql, &err),
				 -EBADMSG);
		assert_non_null(strstr(err.text, "does not have the tables that it should"));
	}
}

static void test_what_would_write(void **state)
{
	static const char *const statements[] = {
		"DELETE FROM jobs",
		"INSERT INTO jobs (job_id) VALUES ('x')",
		"UPDATE jobs SET job_id = 'x'",
		"CREATE TABLE t (x)",
		"CREATE TEMP TABLE t (x)",
		"CREATE VIEW v AS SELECT 1",
		"CREATE VIRTUAL TABLE t USING snapshots",
		"DROP TABLE jobs",
		"ALTER TABLE jobs RENAME TO others",
		"UPDATE sqlite_schema SET sql = ''",
		"INSERT INTO snapshots (id) VALUES (1)",
		"ATTACH 'other.db' AS other",
		"DETACH main",
		"VACUUM",
		"VACUUM INTO 'other.db'",
		"REINDEX",
		"ANALYZE",
		"BEGIN",
		"BEGIN IMMEDIATE",
		"COMMIT",
		"SAVEPOINT s",
		"PRAGMA journal_mode = delete",
		"PRAGMA user_version = 7",
		"PRAGMA query_only = 0",
		"PRAGMA writable_schema = 1",
		"PRAGMA wal_checkpoint",
		"PRAGMA incremental_vacuum",
		"PRAGMA optimize",
		"PRAGMA no_such_pragma",
		"SELECT load_extension('x')",
		"EXPLAIN DELETE FROM jobs",
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = make_record(f);

	for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
		assert_refused(store, statements[i], "");
	assert_refused(store, statements[0], "only what reads is allowed here");
	assert_is_sound(f->db);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM jobs WHERE job_id = 'j'"), 1);
}

static bool stop_at_third(void *ctx)
{
	return ++*(int *)ctx >= 3;
}

static void test_it_can_be_stopped(void **state)
{
	CLEANUP(store_cleanup) struct store *store = make_record(*state);
	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
	struct err err = ERR_INIT;
	int n_asked = 0;

	must(store_sql_open(store,
			    "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c)"
			    " SELECT max(x) FROM c",
			    stop_at_third, &n_asked, &sql, &err),
	     &err);
	assert_int_equal(store_sql_next(sql, &err), -EINTR);
	assert_int_equal(n_asked, 3);
	store_sql_close(&sql);
	assert_gives(store, "SELECT count(*) n FROM snapshots", "n / 3 ");
}

static void test_failures_while_it_runs(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = make_record(f);
	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
	struct err err = ERR_INIT;

	must(store_sql_open(store, "SELECT abs(-9223372036854775807 - id) FROM snapshots", NULL,
			    NULL, &sql, &err),
	     &err);
	assert_int_equal(store_sql_next(sql, &err), -EIO);
	assert_non_null(strstr(err.text, "integer overflow"));
	store_sql_close(&sql);

	raw_sql(f->db, "UPDATE processes SET pid = 99999999999");
	must(store_sql_open(store, "SELECT * FROM process_minutes", NULL, NULL, &sql, &err), &err);
	assert_int_equal(store_sql_next(sql, &err), -EIO);
	assert_non_null(strstr(err.text, "holds a pid that makes no sense"));
}

/* Damage is left out, and told to who asks. */
static void test_damage(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = make_record(f);
	CLEANUP(buf_release) struct buf told = BUF_INIT;

	raw_sql(f->db, "UPDATE ticks SET data = x'00' WHERE id = (SELECT max(id) FROM ticks)");
	assert_gives(store, "SELECT count(*) n FROM snapshots", "n / 2 ");
	assert_true(store_tell_damage(store, &told));
	assert_non_null(strstr(told.data, "1 tick of job "));
	assert_false(store_tell_damage(store, &told));
	assert_gives(store, "SELECT count(*) n FROM snapshots WHERE id = 1", "n / 1 ");
	assert_true(store_tell_damage(store, &told)); /* it stood in the way once more */
}

struct told {
	int n_tables, n_columns;
};

static void count_told(void *ctx, const char *table, const char *column, const char *type,
		       const char *about)
{
	struct told *told = ctx;

	assert_non_null(table);
	assert_true(strlen(about) > 0);
	told->n_tables += !column;
	told->n_columns += column != NULL;
	assert_true(!column == !type);
}

/* Of each column that there is something is told. */
static void test_the_schema_is_told(void **state)
{
	CLEANUP(store_cleanup) struct store *store = make_record(*state);
	struct told told = { 0 };
	char want[32];

	store_sql_tell_schema(count_told, &told);
	assert_int_equal(told.n_tables, 4);
	snprintf(want, sizeof(want), "n / %d ", told.n_columns);
	assert_gives(store,
		     "SELECT count(*) n FROM (VALUES ('snapshots'), ('process_metrics'),"
		     " ('process_events'), ('process_minutes')) t, pragma_table_info(t.column1)",
		     want);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_values),
		STORE_TEST(test_what_is_no_statement),
		STORE_TEST(test_what_is_missing),
		STORE_TEST(test_what_would_write),
		STORE_TEST(test_it_can_be_stopped),
		STORE_TEST(test_failures_while_it_runs),
		STORE_TEST(test_damage),
		STORE_TEST(test_the_schema_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
