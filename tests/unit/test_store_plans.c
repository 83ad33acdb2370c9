/*
 * How SQLite goes about our statements: no question about one job or process may
 * look at those of all.
 */
#include "store_fixture.h"

#include "base/buf.h"
#include "store/query.h"

/* What grows with all that was ever recorded. */
static const char *const large_tables[] = {
	"processes", "events", "chunks", "rollups", "points", "images", "sheets", "ranks",
};

static const char *alias_of(const char *table)
{
	static const struct {
		const char *table, *alias;
	} aliases[] = { { "processes", "p" },
			{ "events", "e" },
			{ "chunks", "c" },
			{ "points", "o" },
			{ "images", "i" } };

	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcmp(aliases[i].table, table) == 0)
			return aliases[i].alias;
	return table;
}

static bool scans(const char *step, const char *table)
{
	char want[64];
	size_t n;

	n = (size_t)snprintf(want, sizeof(want), "SCAN %s", table);
	if (strncmp(step, want, n) == 0 && (step[n] == '\0' || step[n] == ' '))
		return true;
	n = (size_t)snprintf(want, sizeof(want), "SCAN %s", alias_of(table));
	return strncmp(step, want, n) == 0 && (step[n] == '\0' || step[n] == ' ');
}

/* All steps, a line each. */
static void explain(sqlite3 *db, enum statement id, struct buf *ret)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	sqlite3_stmt *stmt = NULL;

	buf_add_str(&sql, "EXPLAIN QUERY PLAN ");
	statement_write(id, &sql);
	assert_int_equal(sqlite3_prepare_v2(db, sql.data, -1, &stmt, NULL), SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		buf_printf(ret, "%s\n", (const char *)sqlite3_column_text(stmt, 3));
	sqlite3_finalize(stmt);
}

static void assert_scans_nothing_large(enum statement id, const char *plan)
{
	for (const char *step = plan; *step; step = strchr(step, '\n') + 1) {
		char line[256];

		snprintf(line, sizeof(line), "%.*s", (int)strcspn(step, "\n"), step);
		for (size_t i = 0; i < ARRAY_SIZE(large_tables); i++)
			if (scans(line, large_tables[i]))
				fail_msg("statement %d looks at all of %s: %s", (int)id,
					 large_tables[i], line);
	}
}

static void open_db(const struct fixture *f, sqlite3 **ret)
{
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(sqlite3_open(f->db, ret), SQLITE_OK);
}

static void test_nothing_large_is_scanned(void **state)
{
	sqlite3 *db;

	open_db(*state, &db);
	for (int id = 0; id < STATEMENT_COUNT; id++) {
		CLEANUP(buf_release) struct buf plan = BUF_INIT;

		if (id == STATEMENT_SQL_EVENTS || /* its WHERE is added by who uses it */
		    id == STATEMENT_STRAYS)	  /* looks through all of it on purpose */
			continue;
		explain(db, (enum statement)id, &plan);
		if (plan.len > 0)
			assert_scans_nothing_large((enum statement)id, plan.data);
	}
	sqlite3_close(db);
}

static void test_the_right_index_is_used(void **state)
{
	static const struct {
		enum statement id;
		const char *step;
	} cases[] = {
		{ STATEMENT_PROCESSES_OF_PID, "INDEX processes_by_pid (pid=?)" },
		{ STATEMENT_WALK_FOLDS, "INDEX processes_by_pid (pid=?)" },
		{ STATEMENT_WALK_TAILS, "INDEX processes_by_pid (pid=?)" },
		{ STATEMENT_WALK_EVENTS, "INDEX events_by_time (wall_ns>? AND wall_ns<?)" },
		{ STATEMENT_OLDEST_FOLD, "COVERING INDEX folds_by_time (first_ns>?" },
		{ STATEMENT_EVENTS_OF_ATTEMPT, "INDEX events_by_attempt (attempt=? AND" },
		{ STATEMENT_EVENTS_OF_JOB, "INDEX events_by_attempt (attempt=? AND" },
		{ STATEMENT_FIND_ATTEMPT, "(job=? AND attempt_num=?)" },
		{ STATEMENT_READ_EVENTS, "INDEX events_by_attempt (attempt=?)" },
		{ STATEMENT_WALK_LASTING_ANOMALIES, "INDEX anomalies_by_end (ended_wall_ns>?)" },
		{ STATEMENT_WALK_LASTING_ANOMALIES, "INDEX anomalies_by_end (ended_wall_ns=?)" },
		{ STATEMENT_FIND_KNOWN_ANOMALY, "INDEX anomalies_by_attempt (attempt=? AND" },
		{ STATEMENT_FIND_SUBMISSION, "INDEX attempts_by_submission (submission=?)" },
	};
	sqlite3 *db;

	open_db(*state, &db);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_release) struct buf plan = BUF_INIT;

		explain(db, cases[i].id, &plan);
		if (!strstr(plan.data, cases[i].step))
			fail_msg("no \"%s\" in:\n%s", cases[i].step, plan.data);
	}
	sqlite3_close(db);
}

/* Pages are read one after the other: what sorts would begin anew with each. */
static void test_events_come_in_order(void **state)
{
	static const enum statement ids[] = { STATEMENT_WALK_EVENTS, STATEMENT_EVENTS_OF_ATTEMPT };
	sqlite3 *db;

	open_db(*state, &db);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		CLEANUP(buf_release) struct buf plan = BUF_INIT;

		explain(db, ids[i], &plan);
		assert_null(strstr(plan.data, "TEMP B-TREE"));
	}
	sqlite3_close(db);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_nothing_large_is_scanned),
		STORE_TEST(test_the_right_index_is_used),
		STORE_TEST(test_events_come_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
