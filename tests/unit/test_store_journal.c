#include "store/handle.h"
#include "store_fixture.h"

#include <signal.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "store/db/db.h"
#include "store_writer.h"

#define NFS 0x6969
#define CIFS 0xff534d42
#define V9FS 0x01021997
#define FUSE 0x65735546
#define EXT4 0xef53

/* What the store is told instead of the type of the file system; 0: the truth. */
/* As SQLite says. */
static const char *journal_of(struct store *store)
{
	static char name[16];
	sqlite3_stmt *stmt = NULL;

	assert_int_equal(sqlite3_prepare_v2(store->db, "PRAGMA journal_mode", -1, &stmt, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	snprintf(name, sizeof(name), "%s", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	return name;
}

static unsigned long pretended_type;

int statfs(const char *path, struct statfs *ret)
{
	int r = (int)syscall(SYS_statfs, path, ret);

	if (r == 0 && pretended_type)
		ret->f_type = (__typeof__(ret->f_type))pretended_type;
	return r;
}

static int pretend_nothing(void **state)
{
	pretended_type = 0;
	return fixture_teardown(state);
}

static bool has_log(const struct fixture *f)
{
	char name[256];

	snprintf(name, sizeof(name), "%s-wal", f->db);
	return access(name, F_OK) == 0;
}

static void begin_one(struct store *store)
{
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
}

static void test_local_disks_have_a_log(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(store_cleanup) struct store *reader = NULL;

	pretended_type = EXT4;
	store = must_open(f->db, STORE_WRITE);
	begin_one(store);
	assert_string_equal(journal_of(store), "wal");
	assert_true(has_log(f));
	reader = must_open(f->db, STORE_READ);
	assert_string_equal(journal_of(reader), "wal");
}

static void test_network_disks_have_none(void **state)
{
	static const unsigned long types[] = { NFS, CIFS, V9FS, FUSE };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct store *store, *reader;
		char text[256];

		pretended_type = types[i];
		store = must_open(f->db, STORE_WRITE);
		begin_one(store);
		assert_string_equal(journal_of(store), "delete");
		assert_false(has_log(f));
		reader = must_open(f->db, STORE_READ);
		assert_string_equal(journal_of(reader), "delete");
		store_close(reader);
		store_close(store);
		assert_string_equal(raw_text(f->db, "PRAGMA journal_mode", text), "delete");
		assert_int_equal(raw_sql(f->db, "PRAGMA auto_vacuum"), 2);
		assert_is_sound(f->db);
		assert_int_equal(unlink(f->db), 0);
	}
}

/* A database that was moved from one to the other. */
static void test_the_file_system_decides_anew(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);

	begin_one(store);
	store_close(store);
	pretended_type = NFS;
	store = must_open(f->db, STORE_WRITE);
	assert_string_equal(journal_of(store), "delete");
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	begin_one(store);
	store_close(store);
	assert_false(has_log(f));
	pretended_type = EXT4;
	store = must_open(f->db, STORE_WRITE);
	assert_string_equal(journal_of(store), "wal");
	begin_one(store);
	store_close(store);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 3);
}

/* Who has the log open would go on writing to it. */
static void test_a_log_in_use_is_not_taken_away(void **state)
{
	struct fixture *f = *state;
	struct store *first = must_open(f->db, STORE_WRITE), *second = NULL;
	struct err err = ERR_INIT;

	begin_one(first);
	pretended_type = NFS;
	assert_int_equal(store_open_timeout(f->db, STORE_WRITE, 20, &second, &err), -EBUSY);
	assert_non_null(strstr(err.text, f->db));
	begin_one(first);
	store_close(first);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 2);
}

/* A reader in the way of a commit: the tick is not kept, and the next one is whole. */
static void test_readers_delay_writers_without_a_log(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;
	sqlite3 *db = NULL;

	snapshot_init(&snap);
	fill_snapshot(&snap, "j", 10, 0);
	pretended_type = NFS;
	store = must_open(f->db, STORE_WRITE);
	must(store_begin_attempt(store, &a, &err), &err);
	store_set_lock_timeout(store, 20);
	assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT * FROM jobs", NULL, NULL, NULL),
			 SQLITE_OK);
	assert_int_equal(write_tick(store, &a, &snap, NULL, NULL, 0, &err), -EBUSY);
	assert_int_equal(write_tick(store, &a, &snap, NULL, NULL, 0, &err), -EBUSY);
	sqlite3_close(db);
	must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
	assert_int_equal(count_samples(f->db), 10);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM ticks"), 1);
}

/* Killed with half a transaction in the file: who reads next must not be turned away. */
static void test_a_journal_that_was_left_is_undone(void **state)
{
	struct fixture *f = *state;
	struct store *reader;
	int status = -1;
	pid_t pid;

	pretended_type = NFS;
	reader = must_open(f->db, STORE_WRITE);
	begin_one(reader);
	store_close(reader);
	pid = fork();
	if (pid == 0) {
		sqlite3 *db = NULL;

		CHILD_CHECK(sqlite3_open(f->db, &db) == SQLITE_OK);
		CHILD_CHECK(sqlite3_exec(db,
					 "PRAGMA cache_size = 2; PRAGMA cache_spill = 1; BEGIN;"
					 "DELETE FROM attempts; CREATE TABLE big (x);"
					 "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL"
					 " SELECT i + 1 FROM n WHERE i < 500)"
					 "INSERT INTO big SELECT randomblob(4000) FROM n",
					 NULL, NULL, NULL) == SQLITE_OK);
		raise(SIGKILL);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_true(WIFSIGNALED(status));
	reader = must_open(f->db, STORE_READ);
	store_close(reader);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_is_sound(f->db);
}

/* More than its page cache holds: a part of it is in the log before it is over. */
static bool spill(sqlite3 *db)
{
	return sqlite3_exec(db,
			    "CREATE TABLE big (x);"
			    "INSERT INTO big SELECT randomblob(3000) FROM sqlite_master;"
			    "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size = 10;"
			    "BEGIN IMMEDIATE;"
			    "INSERT INTO big SELECT randomblob(3000) FROM big LIMIT 17",
			    NULL, NULL, NULL) == SQLITE_OK;
}

static sqlite3 *open_as_the_store_does(const struct fixture *f)
{
	sqlite3 *db = NULL;

	return sqlite3_open_v2(f->db, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK ? db : NULL;
}

static void test_a_log_with_half_a_transaction(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	int status = -1;
	pid_t pid;

	begin_one(store);
	store_close(store);
	pid = fork();
	if (pid == 0) {
		sqlite3 *db = open_as_the_store_does(f);

		CHILD_CHECK(db && spill(db));
		raise(SIGKILL);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_true(WIFSIGNALED(status));
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	assert_is_sound(f->db);
}

/* Nothing of what was taken back may come over what another has written since. */
static void test_half_a_transaction_is_taken_back(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	sqlite3 *db;

	begin_one(store);
	store_close(store);
	db = open_as_the_store_does(f);
	assert_true(db && spill(db));
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	store = must_open(f->db, STORE_WRITE);
	for (int i = 0; i < 20; i++)
		begin_one(store);
	assert_int_equal(sqlite3_exec(db,
				      "SELECT count(*) FROM attempts;"
				      "CREATE TABLE other (x); DROP TABLE other",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	store_close(store);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 21);
	assert_is_sound(f->db);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, pretend_nothing)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_local_disks_have_a_log),
		STORE_TEST(test_network_disks_have_none),
		STORE_TEST(test_the_file_system_decides_anew),
		STORE_TEST(test_a_log_in_use_is_not_taken_away),
		STORE_TEST(test_readers_delay_writers_without_a_log),
		STORE_TEST(test_a_journal_that_was_left_is_undone),
		STORE_TEST(test_a_log_with_half_a_transaction),
		STORE_TEST(test_half_a_transaction_is_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
