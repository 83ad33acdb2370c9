#include "store_fixture.h"
#include "store_writer.h"

#define REPAIR_COMMAND "\"proctor doctor --repair\""

/* One attempt with ten ticks and its end, all of it in the file itself. */
static void fill(const struct fixture *f)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	must(store_begin_attempt(store, &a, &err), &err);
	for (unsigned k = 0; k < 10; k++) {
		fill_snapshot(&snap, "j", 5, k);
		must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	}
	store = store_close(store);
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
}

static int check(const struct fixture *f, unsigned max_ms, struct err *err)
{
	CLEANUP(store_cleanup) struct store *store = NULL;
	int r = store_open(f->db, STORE_READ, &store, err);

	return r < 0 ? r : store_check(store, max_ms, err);
}

/* The check says so, with what is found and what to do. */
static void assert_damaged(const struct fixture *f, const char *word)
{
	struct err err = ERR_INIT;

	assert_int_equal(check(f, 0, &err), -EBADMSG);
	assert_int_equal(err.code, -EBADMSG);
	if (!strstr(err.text, word) || !strstr(err.text, f->db) ||
	    !strstr(err.text, REPAIR_COMMAND))
		fail_msg("no \"%s\", path or command in: %s", word, err.text);
	if (strchr(err.text, '\n'))
		fail_msg("more than a line: %s", err.text);
}

static void write_noise(const struct fixture *f, int64_t offset, size_t n)
{
	char noise[4096];
	int fd = open(f->db, O_WRONLY);

	memset(noise, 0xa5, sizeof(noise));
	assert_true(n <= sizeof(noise));
	assert_int_equal(pwrite(fd, noise, n, offset), n);
	close(fd);
}

static void run_sql(const struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;
	char *said = NULL;

	assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK)
		fail_msg("%s", said);
	sqlite3_close(db);
}

static void test_sound(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	fill(f);
	must(check(f, 0, &err), &err);
	must(check(f, 600000, &err), &err);
	assert_int_equal(err.code, 0);
}

/* Writers go on while it is looked at. */
static void test_in_use(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *writer = NULL;
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	fill(f);
	writer = must_open(f->db, STORE_WRITE);
	reader = must_open(f->db, STORE_READ);
	for (int i = 0; i < 5; i++) {
		must(store_begin_attempt(writer, &a, &err), &err);
		must(store_check(reader, 0, &err), &err);
		must(store_check(writer, 0, &err), &err);
	}
}

static void test_page_of_a_table(void **state)
{
	struct fixture *f = *state;
	int64_t page;

	fill(f);
	page = raw_sql(f->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'processes'");
	write_noise(f, (page - 1) * 4096, 4096);
	assert_damaged(f, "is damaged (");
	assert_damaged(f, " tables is, processes, and the others can still be read");
}

static void test_page_of_samples(void **state)
{
	struct fixture *f = *state;
	int64_t page;

	fill(f);
	page = raw_sql(f->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'chunks'");
	write_noise(f, (page - 1) * 4096, 4096);
	assert_damaged(f, " is, chunks, and the others can still be read");
}

/* Nothing that is read tells this: only that an index does not fit its table. */
static void test_index_that_does_not_fit(void **state)
{
	struct fixture *f = *state;

	fill(f);
	run_sql(f, "CREATE INDEX hosts ON attempts (host);"
		   "CREATE TABLE other (x); CREATE INDEX others ON other (x);"
		   "PRAGMA writable_schema = 1;"
		   "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema"
		   " WHERE name = 'others') WHERE name = 'hosts';"
		   "DELETE FROM sqlite_schema WHERE name = 'others'");
	assert_damaged(f, "is damaged (");
}

static void test_cut_in_the_middle(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	fill(f);
	assert_int_equal(stat(f->db, &st), 0);
	assert_int_equal(truncate(f->db, st.st_size / 2 / 4096 * 4096), 0);
	assert_damaged(f, "damaged");
}

static void test_head(void **state)
{
	struct fixture *f = *state;

	fill(f);
	write_noise(f, 0, 100);
	assert_damaged(f, "is not a database");
}

static void test_missing_table(void **state)
{
	struct fixture *f = *state;

	fill(f);
	raw_sql(f->db, "DROP TABLE unknowns");
	assert_damaged(f, "does not have the tables");
}

/* What no statement of ours names is part of it, too. */
static void test_missing_parts(void **state)
{
	static const struct {
		const char *sql, *part;
	} cases[] = {
		{ "DROP VIEW outcomes", "the view outcomes with its column job_id" },
		{ "DROP TABLE scores", "the table scores with its column estimate" },
		{ "ALTER TABLE phases DROP COLUMN path", "the table phases with its column path" },
		{ "DROP TRIGGER folds_take_chunks", "the trigger folds_take_chunks" },
		{ "DROP INDEX events_by_time", "the index events_by_time" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *f = NULL;

		assert_int_equal(fixture_setup((void **)&f), 0);
		fill(f);
		raw_sql(f->db, cases[i].sql);
		assert_damaged(f, cases[i].part);
		fixture_teardown((void **)&f);
	}
	(void)state;
}

/* SQLite has nothing against these. */
static void test_rows_that_make_no_sense(void **state)
{
	struct fixture *f = *state;

	fill(f);
	raw_sql(f->db, "UPDATE processes SET pid = 99999999999");
	assert_is_sound(f->db);
	assert_damaged(f, "makes no sense");
}

/* All else can be used: nobody is told to move that away. */
static void test_values_that_make_no_sense(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	fill(f);
	raw_sql(f->db, "UPDATE ticks SET data = x'ff00ff' WHERE id = 7");
	assert_is_sound(f->db);
	assert_int_equal(check(f, 0, &err), -EUCLEAN);
	if (!strstr(err.text, "lost: 4 ticks of job j, attempt 1") ||
	    strstr(err.text, REPAIR_COMMAND))
		fail_msg("not said what is lost, or to move it all: %s", err.text);
}

/* Looking at one row takes some milliseconds, and there are a thousand. */
static void test_time_is_up(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct err err = ERR_INIT;

	fill(f);
	run_sql(f, "CREATE TABLE slow (x CHECK (length(hex(zeroblob(x))) > 0));"
		   "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
		   "INSERT INTO slow SELECT 1 FROM n;"
		   "PRAGMA ignore_check_constraints = 1; UPDATE slow SET x = 10000000");
	store = must_open(f->db, STORE_WRITE); /* who only reads is spared the constraints */
	assert_int_equal(store_check(store, 50, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "for 0.05 s"));
	assert_non_null(strstr(err.text, f->db));
}

/* ---- the log ---- */

static void flip_in_log(const struct fixture *f, off_t offset)
{
	char path[256];
	uint8_t byte;
	int fd;

	snprintf(path, sizeof(path), "%s-wal", f->db);
	fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, offset), 1);
	byte ^= 0x55;
	assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

static void begin_some(const struct fixture *f, int n)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	for (int i = 0; i < n; i++)
		must(store_begin_attempt(store, &a, &err), &err);
}

/* What is left is whole, and can be written. */
static void test_end_of_a_log_is_lost(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	fill(f);
	begin_some(f, 20); /* more than may have been waiting for the disk at once */
	flip_in_log(f, 200);
	assert_int_equal(check(f, 0, &err), -ENODATA);
	assert_non_null(strstr(err.text, "-wal breaks off"));
	begin_some(f, 1);
	must(check(f, 0, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 2);
}

/* Of a young database the tables are not in its log: without that it is one that has nothing yet.
 */
static void test_all_of_a_log_is_lost(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	assert_int_equal(close(creat(f->db, 0600)), 0);
	begin_some(f, 10);
	flip_in_log(f, 200);
	assert_int_equal(check(f, 0, &err), -ENODATA);
	assert_non_null(strstr(err.text, "-wal breaks off"));
	flip_in_log(f, 200);
	must(check(f, 0, &err), &err);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 10);
}

/* SQLite would delete the log. */
static void test_cut_to_nothing(void **state)
{
	struct fixture *f = *state;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	char log[256];

	begin_some(f, 1);
	assert_int_equal(truncate(f->db, 0), 0);
	assert_damaged(f, "its -wal cannot be read");
	assert_int_equal(store_open(f->db, STORE_WRITE, &store, &err), -EBADMSG);
	snprintf(log, sizeof(log), "%s-wal", f->db);
	assert_int_equal(access(log, F_OK), 0);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_sound),
		STORE_TEST(test_in_use),
		STORE_TEST(test_page_of_a_table),
		STORE_TEST(test_page_of_samples),
		STORE_TEST(test_index_that_does_not_fit),
		STORE_TEST(test_cut_in_the_middle),
		STORE_TEST(test_head),
		STORE_TEST(test_missing_table),
		STORE_TEST(test_missing_parts),
		STORE_TEST(test_rows_that_make_no_sense),
		STORE_TEST(test_values_that_make_no_sense),
		STORE_TEST(test_time_is_up),
		STORE_TEST(test_end_of_a_log_is_lost),
		STORE_TEST(test_all_of_a_log_is_lost),
		STORE_TEST(test_cut_to_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
