#include "store_fixture.h"

#include "store/db/db.h"

#define FRAME_BYTES (WAL_FRAME_HEAD_BYTES + 4096)
#define N_COMMITS 24 /* one frame each; more than there are writers */

static void log_path(const struct fixture *f, char ret[256])
{
	snprintf(ret, 256, "%s-wal", f->db);
}

static size_t log_bytes(const struct fixture *f)
{
	char path[256];
	struct stat st;

	log_path(f, path);
	return stat(path, &st) < 0 ? 0 : (size_t)st.st_size;
}

static void write_at(const struct fixture *f, size_t offset, const void *bytes, size_t n)
{
	char path[256];
	int fd;

	log_path(f, path);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, bytes, n, (off_t)offset), n);
	close(fd);
}

static void flip(const struct fixture *f, size_t offset)
{
	char path[256];
	uint8_t byte;
	int fd;

	log_path(f, path);
	fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 0x40;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

static void exec_sql(sqlite3 *db, const char *sql)
{
	char *said = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK)
		fail_msg("%s: %s", sql, said);
}

static sqlite3 *open_raw(const struct fixture *f)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	return db;
}

/* A database whose log has N_COMMITS transactions of a frame each, made anew. */
static void make_log(const struct fixture *f)
{
	sqlite3 *db = open_raw(f);

	exec_sql(db, "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS t (x);"
		     "PRAGMA wal_checkpoint(TRUNCATE)");
	for (int i = 0; i < N_COMMITS; i++)
		exec_sql(db, "INSERT INTO t VALUES ('a row')");
	sqlite3_close(db);
	assert_int_equal(log_bytes(f), WAL_HEAD_BYTES + N_COMMITS * FRAME_BYTES);
}

/* As SQLite sees them. The log stays. */
static int64_t count_rows(const struct fixture *f)
{
	sqlite3 *db = open_raw(f);
	sqlite3_stmt *stmt = NULL;
	int64_t n;

	assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &stmt, NULL), 0);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

static int check(const struct fixture *f, bool *ret_has_commit)
{
	struct wal_found found = { 0 };
	int r = wal_check(f->db, &found);

	if (ret_has_commit)
		*ret_has_commit = found.has_commit;
	return r;
}

static unsigned count_behind(const struct fixture *f)
{
	struct wal_found found = { 0 };

	wal_check(f->db, &found);
	return found.n_behind;
}

static void test_no_log(void **state)
{
	struct fixture *f = *state;
	bool has_commit = true;

	assert_int_equal(check(f, &has_commit), 0);
	assert_false(has_commit);
	raw_sql(f->db, "CREATE TABLE t (x)");
	assert_int_equal(check(f, &has_commit), 0);
	assert_false(has_commit);
}

static void test_sound_log(void **state)
{
	struct fixture *f = *state;
	bool has_commit = false;

	make_log(f);
	assert_int_equal(check(f, &has_commit), 0);
	assert_true(has_commit);
}

/* A process that is killed leaves a log that ends anywhere. */
static void test_cut_anywhere(void **state)
{
	struct fixture *f = *state;
	char path[256];
	size_t n;

	make_log(f);
	log_path(f, path);
	for (n = log_bytes(f); n > 0; n -= n % 13 == 0 ? 13 : n % 13) {
		bool has_commit = false;

		assert_int_equal(truncate(path, (off_t)n), 0);
		assert_int_equal(check(f, &has_commit), 0);
		assert_int_equal(has_commit, n >= WAL_HEAD_BYTES + FRAME_BYTES);
	}
}

/* A crash of the machine may leave any of the last transaction's pages unwritten. */
static void test_last_transaction_torn(void **state)
{
	struct fixture *f = *state;
	sqlite3 *db;
	size_t first;

	make_log(f);
	first = log_bytes(f);
	db = open_raw(f);
	exec_sql(db, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
		     "INSERT INTO t SELECT randomblob(500) FROM n");
	sqlite3_close(db);
	assert_true(log_bytes(f) > first + 3 * FRAME_BYTES);
	for (size_t at = first + 100; at < log_bytes(f); at += FRAME_BYTES) {
		flip(f, at);
		assert_int_equal(check(f, NULL), 0);
	}
}

static void test_damage_before_others(void **state)
{
	struct fixture *f = *state;
	uint8_t noise[3 * FRAME_BYTES];
	int64_t n_before;

	for (size_t at = WAL_HEAD_BYTES; at < 3 * FRAME_BYTES; at += 61) {
		make_log(f);
		flip(f, at);
		assert_int_equal(check(f, NULL), 0);
		assert_in_range(count_behind(f), N_COMMITS - 4, N_COMMITS);
	}
	make_log(f);
	n_before = count_rows(f) - N_COMMITS;
	memset(noise, 0xa5, sizeof(noise));
	write_at(f, WAL_HEAD_BYTES + 1000, noise, sizeof(noise));
	assert_int_equal(check(f, NULL), 0);
	assert_in_range(count_behind(f), N_COMMITS - 5, N_COMMITS);
	assert_int_equal(count_rows(f), n_before); /* SQLite is silent */
}

/* Damage, or a power cut: nobody can tell, so they are counted. */
static void test_few_behind(void **state)
{
	struct fixture *f = *state;

	for (size_t n_behind = 1; n_behind <= 10; n_behind++) {
		make_log(f);
		assert_int_equal(count_behind(f), 0);
		flip(f, WAL_HEAD_BYTES + (N_COMMITS - n_behind) * FRAME_BYTES + 200);
		assert_int_equal(check(f, NULL), 0);
		assert_int_equal(count_behind(f), n_behind > 1 ? n_behind : 0);
	}
}

static void test_damaged_head(void **state)
{
	struct fixture *f = *state;

	for (size_t at = 0; at < WAL_HEAD_BYTES; at++) {
		bool has_commit = false;

		make_log(f);
		flip(f, at);
		assert_int_equal(check(f, &has_commit), -EBADMSG);
		assert_true(has_commit);
	}
}

/* A log is written over from its beginning. What is left behind is of another time. */
static void test_older_frames_behind(void **state)
{
	struct fixture *f = *state;
	size_t n;
	sqlite3 *db;

	make_log(f);
	n = log_bytes(f);
	db = open_raw(f);
	exec_sql(db, "PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES ('one more')");
	sqlite3_close(db);
	assert_int_equal(log_bytes(f), n);
	assert_int_equal(check(f, NULL), 0);
	flip(f, WAL_HEAD_BYTES + 200); /* the only one of today */
	assert_int_equal(check(f, NULL), 0);
}

static void test_while_others_write(void **state)
{
	struct fixture *f = *state;
	int status = -1;
	pid_t pid;

	make_log(f);
	pid = fork();
	if (pid == 0) {
		sqlite3 *db = NULL;

		CHILD_CHECK(sqlite3_open(f->db, &db) == SQLITE_OK);
		sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 20", NULL,
			     NULL, NULL);
		for (int i = 0; i < 3000; i++)
			CHILD_CHECK(sqlite3_exec(db, "INSERT INTO t VALUES (randomblob(3000))",
						 NULL, NULL, NULL) == SQLITE_OK);
		_exit(0);
	}
	assert_true(pid > 0);
	while (waitpid(pid, &status, WNOHANG) == 0)
		assert_int_equal(check(f, NULL), 0);
	assert_int_equal(status, 0);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_no_log),
		STORE_TEST(test_sound_log),
		STORE_TEST(test_cut_anywhere),
		STORE_TEST(test_last_transaction_torn),
		STORE_TEST(test_damage_before_others),
		STORE_TEST(test_few_behind),
		STORE_TEST(test_damaged_head),
		STORE_TEST(test_older_frames_behind),
		STORE_TEST(test_while_others_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
