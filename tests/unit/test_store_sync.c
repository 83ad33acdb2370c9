/*
 * How often the disk is waited for: with each tick and each end, and not when a run begins;
 * always while others can write. And what becomes of what the disk refuses.
 */
#include "retention_fixture.h"

#include <sys/syscall.h>
#include "store_writer.h"

/* ---- a file system that counts ---- */

/* Methods of SQLite's own files, with one of them replaced. */
static struct counting {
	const sqlite3_io_methods *own;
	sqlite3_io_methods methods;
} kinds[8];
static size_t n_kinds;
static unsigned n_syncs, n_locked; /* of those, while nobody else could write */
static sqlite3 *other;		   /* who would like to */
static unsigned n_to_fail;	   /* the next so many */
static int64_t n_written;	   /* bytes */

static bool is_locked(void)
{
	int rc = other ? sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) : SQLITE_OK;

	if (other && rc == SQLITE_OK)
		sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
	return rc != SQLITE_OK;
}

static int count_sync(sqlite3_file *file, int flags)
{
	for (size_t i = 0; i < n_kinds; i++)
		if (file->pMethods == &kinds[i].methods) {
			n_syncs++;
			n_locked += is_locked();
			if (n_to_fail > 0) {
				n_to_fail--;
				errno = ENOSPC;
				return SQLITE_IOERR_FSYNC;
			}
			return kinds[i].own->xSync(file, flags);
		}
	return SQLITE_IOERR;
}

static int count_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
	for (size_t i = 0; i < n_kinds; i++)
		if (file->pMethods == &kinds[i].methods) {
			n_written += n;
			return kinds[i].own->xWrite(file, bytes, n, at);
		}
	return SQLITE_IOERR;
}

static const sqlite3_io_methods *counting_methods(const sqlite3_io_methods *own)
{
	for (size_t i = 0; i < n_kinds; i++)
		if (kinds[i].own == own || &kinds[i].methods == own)
			return &kinds[i].methods;
	assert_true(n_kinds < ARRAY_SIZE(kinds));
	kinds[n_kinds].own = own;
	kinds[n_kinds].methods = *own;
	kinds[n_kinds].methods.xSync = count_sync;
	kinds[n_kinds].methods.xWrite = count_write;
	return &kinds[n_kinds++].methods;
}

static int open_counting(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
			 int *ret_flags)
{
	sqlite3_vfs *own = vfs->pAppData;
	int rc = own->xOpen(own, name, file, flags, ret_flags);

	if (rc == SQLITE_OK)
		file->pMethods = counting_methods(file->pMethods);
	return rc;
}

/* The store's own goes through this one, as it is there first. */
static int count_syncs(void **state)
{
	static sqlite3_vfs vfs;

	(void)state;
	assert_int_equal(sqlite3_initialize(), SQLITE_OK);
	vfs = *sqlite3_vfs_find(NULL);
	vfs.pAppData = sqlite3_vfs_find(NULL);
	vfs.zName = "counting";
	vfs.pNext = NULL;
	vfs.xOpen = open_counting;
	assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
	return 0;
}

static unsigned syncs(void)
{
	unsigned n = n_syncs;

	n_syncs = 0;
	return n;
}

/* SQLite syncs a folder as it does a file, past its own methods. */
static unsigned n_folder_syncs;

static unsigned n_all_syncs; /* whoever waits, and for what */

int fsync(int fd)
{
	n_all_syncs++;
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	struct stat st;

	n_all_syncs++;
	n_folder_syncs += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	return (int)syscall(SYS_fdatasync, fd);
}

static unsigned folder_syncs(void)
{
	unsigned n = n_folder_syncs;

	n_folder_syncs = 0;
	return n;
}

/* ---- a run ---- */

/* The file, the log, what waits beside it, and the folder for each of them. */
static void test_making(void **state)
{
	struct fixture *f = *state;
	char text[256];

	n_all_syncs = 0;
	store_close(must_open(f->db, STORE_WRITE));
	assert_in_range(n_all_syncs, 2, 12);
	assert_string_equal(raw_text(f->db, "PRAGMA journal_mode", text), "wal");
	assert_int_equal(raw_sql(f->db, "PRAGMA auto_vacuum"), 2);
	assert_string_equal(raw_text(f->db, "PRAGMA integrity_check", text), "ok");
}

static void test_a_run(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	store_close(must_open(f->db, STORE_WRITE));
	syncs();
	store = must_open(f->db, STORE_WRITE);
	assert_int_equal(syncs(), 0);
	for (int i = 0; i < 3; i++) {
		struct attempt a = make_attempt("j");

		must(store_begin_attempt(store, &a, &err), &err);
		assert_in_range(syncs(), 0, i == 0); /* the first begins the log */
		for (unsigned k = 0; k < 3; k++) {
			fill_snapshot(&snap, "j", 2, k);
			must(write_tick(store, &a, &snap, NULL, NULL, 0, &err), &err);
			assert_int_equal(syncs(), 1);
		}
		a.ended_wall_ns = 1;
		must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
		assert_int_equal(syncs(), 1);
	}
}

static void begin_and_end(const struct fixture *f)
{
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
}

/* Its name is on the disk before anything in it counts, whoever has made it. */
static void test_the_folder_of_a_log(void **state)
{
	struct fixture *f = *state;
	struct store *reader;
	char log[sizeof(f->db) + 8];

	begin_and_end(f);
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	snprintf(log, sizeof(log), "%s-wal", f->db);
	assert_int_equal(access(log, F_OK), -1);
	reader = must_open(f->db, STORE_READ);
	folder_syncs();
	begin_and_end(f); /* beside one that a reader has made */
	assert_true(folder_syncs() > 0);
	store_close(reader);
}

/* Also after one that could not be begun. */
static void test_a_beginning_that_fails(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j"), b = make_attempt("k");
	struct err err = ERR_INIT;
	sqlite3 *holder = NULL;

	must(store_begin_attempt(store, &a, &err), &err);
	store_set_lock_timeout(store, 0);
	assert_int_equal(sqlite3_open(f->db, &holder), SQLITE_OK);
	assert_int_equal(sqlite3_exec(holder, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_begin_attempt(store, &b, &err), -EBUSY);
	sqlite3_close(holder);
	syncs();
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(syncs(), 1);
}

/* Patience that is shared is used up by the first: the next ones try once, and others as ever. */
static void test_shared_patience(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	sqlite3 *holder = NULL;
	uint64_t waited_ns;

	assert_int_equal(sqlite3_open(f->db, &holder), SQLITE_OK);
	assert_int_equal(sqlite3_exec(holder, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	store_share_lock_timeout(store, 20);
	assert_int_equal(store_begin_attempt(store, &a, NULL), -EBUSY);
	waited_ns = store->waited_ns;
	assert_true(waited_ns >= 20 * 1000000);
	assert_int_equal(store_begin_attempt(store, &a, NULL), -EBUSY);
	assert_int_equal(store->waited_ns, waited_ns);
	store_set_lock_timeout(store, 60);
	assert_int_equal(store_begin_attempt(store, &a, NULL), -EBUSY);
	assert_true(store->waited_ns >= 60 * 1000000);
	sqlite3_close(holder);
}

/* However slow the disk is: all that others wait for is the work itself. */
static void test_retention(void **state)
{
	const struct retention_policy policy = RETENTION_POLICY_DEFAULT;
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = must_begin_at(store, "j", NOW - 30 * HOUR);
	struct err err = ERR_INIT;
	struct retention run;
	int r;

	for (unsigned i = 0; i < 300; i++)
		must_tick_at(store, &a, NOW - 30 * HOUR + i * SECOND_NS, 20);
	assert_int_equal(sqlite3_open(f->db, &other), SQLITE_OK);
	must_tick_at(store, &a, NOW - 29 * HOUR, 20);
	assert_true(n_syncs > 0);      /* a tick is on the disk when it is said to be written… */
	assert_int_equal(n_locked, 0); /* …and others need not wait for that */
	n_syncs = n_locked = 0;
	store_retain_begin(&run, &policy, NOW, NULL);
	run.slice_ns = 1000000;
	while ((r = store_retain_slice(store, &run, &err)) > 0)
		;
	sqlite3_close(other);
	other = NULL;
	must(r, &err);
	assert_true(run.result.n_folds > 0);
	assert_true(n_syncs > 0);	 /* the log is copied into the file */
	assert_true(n_locked <= 1);	 /* the log was copied first, and its new head is synced */
	must_tick_at(store, &a, NOW, 1); /* which is durable, as before */
	assert_true(syncs() > 0);
}

/* ---- a disk that refuses ---- */

#define N_TICKS 60

/* With an event, and once more where it is said to have failed, as who records does. */
static void record_tick(struct store *store, const struct attempt *a, unsigned k)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;

	snapshot_init(&snap);
	fill_snapshot(&snap, a->job_id, 3, k);
	if (store_write_tick(store, a, &snap, NULL, &err) < 0)
		must(store_write_tick(store, a, &snap, NULL, &err), &err);
}

static void record_event(struct store *store, const struct attempt *a, unsigned k)
{
	const struct proc_event event = {
		.job_id = a->job_id, .type = EVENT_SPAWN, .key = { 100, 5000 }, .wall_ns = NOW + k
	};
	struct err err = ERR_INIT;

	if (store_write_events(store, a, &event, 1, &err) < 0)
		must(store_write_events(store, a, &event, 1, &err), &err);
}

static void assert_all_is_there(const struct fixture *f)
{
	assert_int_equal(count_samples(f->db), 3 * N_TICKS);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM events"), N_TICKS);
	assert_is_sound(f->db);
}

/* What is committed is written: neither lost nor there twice, however often it fails. */
static void test_a_disk_that_refuses(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	for (unsigned k = 0; k < N_TICKS; k++) {
		n_to_fail = k % 7 == 3 ? 1 : k % 20 == 15 ? 3 : 0;
		record_tick(store, &a, k);
		n_to_fail += k % 5 == 2;
		record_event(store, &a, k);
	}
	n_to_fail = 0;
	assert_all_is_there(f);
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err); /* folds all of them */
	store_close(store);
	assert_all_is_there(f);
}

/* The kernel takes what it could not write for written: only what is written anew is safe. */
static void test_what_was_refused_is_written_anew(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;
	struct stat st;
	char log[256];

	must(store_begin_attempt(store, &a, &err), &err);
	record_tick(store, &a, 0);
	must(store_check_disk(store, &err), &err);
	n_to_fail = 1;
	record_tick(store, &a, 1);
	assert_int_equal(store_check_disk(store, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "its disk does not take it (No space left on device)"));
	snprintf(log, sizeof(log), "%s-wal", f->db);
	assert_int_equal(stat(log, &st), 0);
	n_written = 0;
	record_tick(store, &a, 2);
	assert_true(n_written >= st.st_size);
	assert_int_equal(store_check_disk(store, &err), 0);
	n_written = 0;
	record_tick(store, &a, 3);
	assert_true(n_written < st.st_size); /* and no more than once */
}

/* Who leaves tries once more. */
static void test_refused_at_the_end(void **state)
{
	struct fixture *f = *state;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	n_to_fail = 1;
	a.ended_wall_ns = 1;
	must(store_finish_attempt(store, &a, NULL, 0, &err), &err);
	assert_int_equal(n_to_fail, 0);
	syncs();
	n_written = 0;
	store_close(store);
	assert_int_equal(syncs(), 1);
	assert_true(n_written > 0);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts WHERE ended_wall_ns = 1"),
			 1);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_making),
		STORE_TEST(test_a_run),
		STORE_TEST(test_the_folder_of_a_log),
		STORE_TEST(test_a_beginning_that_fails),
		STORE_TEST(test_shared_patience),
		STORE_TEST(test_retention),
		STORE_TEST(test_a_disk_that_refuses),
		STORE_TEST(test_what_was_refused_is_written_anew),
		STORE_TEST(test_refused_at_the_end),
	};

	return cmocka_run_group_tests(tests, count_syncs, NULL);
}
