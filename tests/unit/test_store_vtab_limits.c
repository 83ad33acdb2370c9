/* What a statement leaves out is not read, and nothing else is left out. */
#include "vtab_fixture.h"

#include <endian.h>
#include <math.h>

#include "base/map.h"

/* Conditions that are limits, or nearly. */
static const char *const conditions[] = {
	"timestamp > 1700000030",
	"timestamp >= 1700000030.25 AND timestamp < 1700000040",
	"timestamp BETWEEN 1700000010 AND 1700000020.5",
	"timestamp = 1700000017.25",
	"timestamp = 1700000017.2500001",
	"timestamp > 1700000010 AND timestamp > 1700000030 AND timestamp < 1700000031",
	"timestamp IN (1700000002, 1700000001.75, 5, NULL)",
	"timestamp > NULL",
	"timestamp < 'x'",
	"timestamp > 'x'",
	"timestamp > '1700000030'",
	"timestamp >= x'00'",
	"timestamp < x'00'",
	"timestamp > -5",
	"timestamp < -5",
	"timestamp < 0",
	"timestamp > 9e999",
	"timestamp < 9e999",
	"timestamp > -9e999",
	"timestamp > 9223372036854775807",
	"timestamp <= 9223372036854775807",
	"timestamp > 9223372036",
	"timestamp < 1700000030 OR timestamp > 1700000100",
	"timestamp IS NULL",
};

static const char *const sample_conditions[] = {
	"job_id = 'a'",
	"job_id = 'A'",
	"job_id = 'A' COLLATE NOCASE",
	"job_id = 'b' COLLATE NOCASE",
	"job_id = 5",
	"job_id = 5.0",
	"job_id = x'61'",
	"job_id = ''",
	"job_id = NULL",
	"job_id = 'none'",
	"job_id > 'A'",
	"job_id IN ('a', 'B', 'x')",
	"job_id = 'a' AND job_id = 'B'",
	"pid = 101",
	"pid = 101.0",
	"pid = 101.5",
	"pid = '101'",
	"pid = ' 101 '",
	"pid = 'x'",
	"pid = x'00'",
	"pid = NULL",
	"pid = 0",
	"pid = -1",
	"pid = 4294967397", /* 101, in 32 bits */
	"pid = 9e99",
	"pid > 101",
	"pid = 100 OR pid = 101",
	"pid = 100 OR job_id = 'a'",
	"job_id = 'a' AND pid = 102 AND timestamp >= 1700000031",
	"job_id = 'B' AND timestamp <= 1700000021.25",
};

static const char *const id_conditions[] = {
	"@ = 1",
	"@ = 120",
	"@ = 121",
	"@ = 270",
	"@ = 409",
	"@ = 410",
	"@ = 411",
	"@ = 0",
	"@ = -1",
	"@ = 5.0",
	"@ = 5.5",
	"@ = '5'",
	"@ = 'x'",
	"@ = NULL",
	"@ = 9e99",
	"@ = x'35'",
	"@ IN (3, 300)",
	"@ BETWEEN 3 AND 5",
	"@ = 131 AND timestamp > 5",
	"@ = 131 AND timestamp < 5",
};

static size_t assert_condition(sqlite3 *db, char table, const char *condition)
{
	char template[512];

	snprintf(template, sizeof(template), "SELECT * FROM $%c WHERE %s ORDER BY 1, 2, 3, 4, 5, 6",
		 table, condition);
	return assert_as_copies(db, template);
}

static size_t assert_id_condition(sqlite3 *db, char table, const char *id, const char *condition)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	for (const char *p = condition; *p; p++)
		buf_add(&text, *p == '@' ? id : p, *p == '@' ? strlen(id) : 1);
	return assert_condition(db, table, text.data);
}

static void test_limits_lose_no_row(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	size_t n = 0;

	write_three_jobs(store);
	copy_tables(db);
	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			n += assert_condition(db, names[k].letter, conditions[i]);
	for (size_t i = 0; i < ARRAY_SIZE(sample_conditions); i++) {
		n += assert_condition(db, 'm', sample_conditions[i]);
		n += assert_condition(db, 'e', sample_conditions[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(id_conditions); i++) {
		n += assert_id_condition(db, 's', "id", id_conditions[i]);
		n += assert_id_condition(db, 'm', "snapshot_id", id_conditions[i]);
	}
	assert_true(n > 10000); /* the conditions do find something */
}

/* Every moment is found by the double that SQL has for it, and by no other. */
static void test_limits_at_the_edge(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = must_begin(store, "j");
	struct err err = ERR_INIT;
	unsigned seed = 3;

	snapshot_init(&snap);
	for (unsigned k = 0; k < 150; k++) {
		fill_snapshot(&snap, "j", 1, k);
		snap.wall_ns += (uint64_t)rand_r(&seed) % 1000000;
		if (k == 149) /* near the end of what the database can say */
			snap.wall_ns = UINT64_C(9223372036854770000);
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	assert_rows(db,
		    "SELECT count(*) FROM snapshots s JOIN process_metrics m"
		    " ON m.timestamp = s.timestamp",
		    "150\n");
	assert_rows(db,
		    "SELECT count(*), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp >= s.timestamp)), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp > s.timestamp)), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp <= s.timestamp)), sum((SELECT count(*) FROM snapshots t WHERE"
		    " t.timestamp < s.timestamp)) FROM snapshots s",
		    "150|11325|11175|11325|11175\n");
}

/* ---- what is not read ---- */

static void damage(const struct fixture *f, const char *sql)
{
	assert_int_equal(raw_sql(f->db, sql), -1); /* it returns no row */
}

#define ROTTEN "makes no sense, and is lost: \"proctor sql\" leaves it out"

/* Folds that a limit leaves out are not looked at, or these would be noticed. */
static void test_limits_skip_folds(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a"), b = must_begin(store, "b");
	CLEANUP(close_db) sqlite3 *db = NULL;

	write_ticks(store, &a, 0, 240);
	write_ticks(store, &b, 0, 120);
	store_close(store);
	db = open_db(f->db);
	assert_rows(db, "SELECT count(*), min(id), max(id) FROM folds", "3|120|360\n");
	damage(f, "UPDATE folds SET times = x'00' WHERE id IN (120, 360)");

	assert_fails(db, "SELECT count(*) FROM snapshots", SQLITE_CORRUPT, ROTTEN);
	assert_fails(db, "SELECT count(*) FROM process_metrics", SQLITE_CORRUPT, ROTTEN);
	assert_rows(db, "SELECT count(*) FROM snapshots WHERE timestamp > 1700000031", "119\n");
	assert_fails(db, "SELECT count(*) FROM snapshots WHERE +timestamp > 1700000031",
		     SQLITE_CORRUPT, ROTTEN);
	assert_rows(db,
		    "SELECT count(*) FROM process_metrics WHERE job_id = 'a'"
		    " AND timestamp >= 1700000031",
		    "360\n");
	assert_fails(db, "SELECT count(*) FROM process_metrics WHERE job_id = 'b'", SQLITE_CORRUPT,
		     ROTTEN);
	assert_rows(db, "SELECT count(*) FROM process_metrics WHERE job_id = 'c'", "0\n");
	assert_rows(db, "SELECT count(*) FROM process_metrics WHERE pid = 7", "0\n");
	assert_rows(db, "SELECT id FROM snapshots WHERE id = 200", "200\n");
	assert_rows(db, "SELECT id FROM snapshots ORDER BY timestamp DESC LIMIT 2", "240\n239\n");
	assert_fails(db, "SELECT id FROM snapshots ORDER BY timestamp LIMIT 2", SQLITE_CORRUPT,
		     ROTTEN);
}

/* Nor are samples where nobody asks for any. */
static void test_columns_skip_samples(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin(store, "a");
	CLEANUP(close_db) sqlite3 *db = NULL;

	write_ticks(store, &a, 0, 120);
	store_close(store);
	db = open_db(f->db);
	damage(f, "UPDATE chunks SET data = x'00'");

	assert_rows(db, "SELECT count(*), count(load_avg_1), count(gpus) FROM snapshots",
		    "120|120|118\n");
	assert_fails(db, "SELECT sum(zombie_count) FROM snapshots", SQLITE_CORRUPT, ROTTEN);
	assert_fails(db, "SELECT count(*) FROM process_metrics", SQLITE_CORRUPT, ROTTEN);
	assert_rows(db, "SELECT count(*) FROM process_events", "12\n"); /* the connection lives */
}

/* What EXPLAIN QUERY PLAN tells people: which limits, and whether rows are sorted once more. */
static void test_plans(void **state)
{
	static const struct {
		const char *sql, *plan;
	} cases[] = {
		{ "SELECT 1 FROM snapshots WHERE timestamp > 5 AND timestamp <= 7",
		  "SCAN snapshots VIRTUAL TABLE INDEX 0:><" },
		{ "SELECT 1 FROM process_metrics WHERE job_id = 'a' AND pid = 5",
		  "SCAN process_metrics VIRTUAL TABLE INDEX 4:jp" },
		{ "SELECT 1 FROM process_metrics WHERE job_id = 'a' COLLATE NOCASE",
		  "SCAN process_metrics VIRTUAL TABLE INDEX 4:" },
		{ "SELECT 1 FROM snapshots WHERE id = 5",
		  "SCAN snapshots VIRTUAL TABLE INDEX 0:i" },
		{ "SELECT 1 FROM snapshots ORDER BY timestamp",
		  "SCAN snapshots VIRTUAL TABLE INDEX 1:" },
		{ "SELECT 1 FROM snapshots ORDER BY timestamp DESC",
		  "SCAN snapshots VIRTUAL TABLE INDEX 3:" },
		{ "SELECT zombie_count FROM snapshots", "SCAN snapshots VIRTUAL TABLE INDEX 84:" },
	};
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(close_db) sqlite3 *db = open_db(f->db);
	CLEANUP(buf_release) struct buf got = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char sql[256], want[256];

		snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", cases[i].sql);
		snprintf(want, sizeof(want), "|%s\n", cases[i].plan);
		run(db, sql, &got);
		assert_string_equal(strrchr(got.data, '|'), want);
		assert_ptr_equal(strchr(got.data, '\n'), strrchr(got.data, '\n')); /* one step */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_limits_lose_no_row),
		STORE_TEST(test_limits_at_the_edge),
		STORE_TEST(test_limits_skip_folds),
		STORE_TEST(test_columns_skip_samples),
		STORE_TEST(test_plans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
