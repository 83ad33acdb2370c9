#include "store_fixture.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "store/db/db.h"
#include "store_writer.h"

#define NFS 0x6969

/* Instead of the type of the file system; 0: the truth. A shared one gets a rollback journal. */
static unsigned long pretended_type;

int statfs(const char *path, struct statfs *ret)
{
	int r = (int)syscall(SYS_statfs, path, ret);

	if (r == 0 && pretended_type)
		ret->f_type = (__typeof__(ret->f_type))pretended_type;
	return r;
}

/* A process that runs SQL, or fn, on the file and then waits to be ended. */
struct other {
	pid_t pid;
	int ready_fd;
};

static void hold_sql(const char *path, const char *sql)
{
	sqlite3 *db = NULL;

	CHILD_CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHILD_CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* As no SQLite does today: an OFD lock on the writer's byte. */
static void hold_ofd(const char *path, const char *suffix)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = LOCK_LOG_WRITER, .l_len = 1 };
	char name[256];
	int fd;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	fd = open(name, O_RDWR);
	CHILD_CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
}

static struct other start_other(const char *name, void (*hold)(const char *, const char *),
				const char *path, const char *what)
{
	struct other o = { .pid = -1 };
	int fds[2];
	char byte;

	assert_int_equal(pipe(fds), 0);
	o.pid = fork();
	if (o.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		close(fds[0]);
		hold(path, what);
		CHILD_CHECK(write(fds[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	assert_true(o.pid > 0);
	close(fds[1]);
	o.ready_fd = fds[0];
	assert_int_equal(read(o.ready_fd, &byte, 1), 1);
	return o;
}

static void end_other(struct other *o)
{
	if (o->pid > 0) {
		kill(o->pid, SIGKILL);
		waitpid(o->pid, NULL, 0);
		close(o->ready_fd);
	}
	o->pid = -1;
}

/* Writing fails at once, with a sentence that ends like this. */
static void assert_busy(const char *path, struct store *store, const char *wanted)
{
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;
	char text[512];

	store_set_lock_timeout(store, 20);
	assert_int_equal(store_begin_attempt(store, &a, &err), -EBUSY);
	assert_int_equal(err.code, -EBUSY);
	snprintf(text, sizeof(text), "the database %s is locked by %s", path, wanted);
	assert_string_equal(err.text, text);
}

static void assert_busy_by(const char *path, struct store *store, const struct other *o,
			   const char *name)
{
	char text[256];

	snprintf(text, sizeof(text), "process %d (%s): wait for it or end it", (int)o->pid, name);
	assert_busy(path, store, text);
}

static void test_writer_of_a_log(void **state)
{
	struct fixture *f = *state;
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(end_other) struct other o = { .pid = -1 };
	struct attempt a = make_attempt("j");

	store_close(must_open(f->db, STORE_WRITE));
	o = start_other("holding on", hold_sql, f->db, "BEGIN IMMEDIATE");
	store = must_open(f->db, STORE_WRITE);
	assert_busy_by(f->db, store, &o, "holding on");
	end_other(&o);
	assert_int_equal(store_begin_attempt(store, &a, NULL), 0);
}

/* Others who have it open are in nobody's way. */
static void test_readers_of_a_log_are_not_meant(void **state)
{
	struct fixture *f = *state;
	CLEANUP(end_other) struct other reader = { .pid = -1 };
	CLEANUP(end_other) struct other writer = { .pid = -1 };
	CLEANUP(store_cleanup) struct store *store = NULL;

	store_close(must_open(f->db, STORE_WRITE));
	reader = start_other("reader", hold_sql, f->db, "BEGIN; SELECT * FROM jobs");
	store = must_open(f->db, STORE_WRITE);
	assert_int_equal(lock_owner_find(f->db), 0);
	writer = start_other("writer", hold_sql, f->db, "BEGIN IMMEDIATE");
	assert_int_equal(lock_owner_find(f->db), writer.pid);
	assert_busy_by(f->db, store, &writer, "writer");
}

static void test_names_do_not_command_the_terminal(void **state)
{
	struct fixture *f = *state;
	CLEANUP(end_other) struct other o = { .pid = -1 };
	CLEANUP(store_cleanup) struct store *store = NULL;

	store_close(must_open(f->db, STORE_WRITE));
	o = start_other("a\033[2J\nb\xff", hold_sql, f->db, "BEGIN IMMEDIATE");
	store = must_open(f->db, STORE_WRITE);
	assert_busy_by(f->db, store, &o, "a?[2J b?");
}

static void test_rollback_journal(void **state)
{
	struct fixture *f = *state;
	CLEANUP(end_other) struct other o = { .pid = -1 };
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct store *too_late = NULL;
	struct err err = ERR_INIT;

	pretended_type = NFS;
	store_close(must_open(f->db, STORE_WRITE));
	store = must_open(f->db, STORE_WRITE);
	o = start_other("reserver", hold_sql, f->db, "BEGIN IMMEDIATE");
	assert_busy_by(f->db, store, &o, "reserver");
	end_other(&o);
	o = start_other("reader", hold_sql, f->db, "BEGIN; SELECT * FROM jobs");
	assert_busy_by(f->db, store, &o, "reader");
	end_other(&o);
	o = start_other("owner", hold_sql, f->db, "BEGIN EXCLUSIVE");
	assert_busy_by(f->db, store, &o, "owner");
	assert_int_equal(store_open_timeout(f->db, STORE_READ, 0, &too_late, &err), -EBUSY);
	assert_non_null(strstr(err.text, "(owner): wait for it"));
}

/* What has no pid is not named, and nobody else in its place. */
static void test_a_lock_without_a_pid(void **state)
{
	struct fixture *f = *state;
	CLEANUP(end_other) struct other reader = { .pid = -1 };
	CLEANUP(end_other) struct other o = { .pid = -1 };
	CLEANUP(store_cleanup) struct store *store = NULL;

	store_close(must_open(f->db, STORE_WRITE));
	reader = start_other("reader", hold_sql, f->db, "BEGIN; SELECT * FROM jobs");
	o = start_other("ofd", hold_ofd, f->db, "-shm");
	store = must_open(f->db, STORE_WRITE);
	assert_busy(f->db, store,
		    "another process (database is locked): try again, or look with fuser who "
		    "holds it");
}

/* The -shm lies beside the file, not beside the link. */
static void test_a_link(void **state)
{
	struct fixture *f = *state;
	CLEANUP(end_other) struct other o = { .pid = -1 };
	CLEANUP(store_cleanup) struct store *store = NULL;
	char folder[160], link[200];

	store_close(must_open(f->db, STORE_WRITE));
	snprintf(folder, sizeof(folder), "%s/elsewhere", f->dir);
	snprintf(link, sizeof(link), "%s/linked.db", folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(symlink(f->db, link), 0);
	o = start_other("holder", hold_sql, f->db, "BEGIN IMMEDIATE");
	store = must_open(link, STORE_WRITE);
	assert_busy_by(link, store, &o, "holder");
	assert_int_equal(unlink(link), 0);
}

/* Looking must not cost us our own locks, and we are not in our own way. */
static void test_looking_keeps_our_locks(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	sqlite3 *db = NULL;
	pid_t pid;
	int status = -1;

	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(sqlite3_open(f->db, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(stat(f->db, &st), 0);
	assert_int_equal(lock_owner_find(f->db), 0);
	assert_int_equal(lock_owner_find_opener(&st), 0);
	pid = fork();
	if (pid == 0) { /* without what SQLite remembers of the parent */
		execl("/proc/self/exe", "test", "--holder", f->db, (char *)NULL);
		_exit(98);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sqlite3_close(db);
	assert_int_equal(lock_owner_find(f->db), 0);
}

/* The new program of the test above. */
static int find_parent(const char *path)
{
	struct stat st;
	sqlite3 *db = NULL;
	int r = 1;

	if (stat(path, &st) == 0 && lock_owner_find(path) == 0 &&
	    sqlite3_open(path, &db) == SQLITE_OK &&
	    sqlite3_exec(db, "SELECT * FROM jobs", NULL, NULL, NULL) == SQLITE_OK)
		r = lock_owner_find(path) == getppid() && lock_owner_find_opener(&st) == getppid()
			    ? 0
			    : 2;
	sqlite3_close(db);
	return r;
}

static void test_who_has_it_open(void **state)
{
	struct fixture *f = *state;
	CLEANUP(end_other) struct other o = { .pid = -1 };
	struct stat st;

	pretended_type = NFS;
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(stat(f->db, &st), 0);
	assert_int_equal(lock_owner_find_opener(&st), 0);
	o = start_other("idle", hold_sql, f->db, "SELECT * FROM jobs"); /* no lock is left */
	assert_int_equal(lock_owner_find(f->db), 0);
	assert_int_equal(lock_owner_find_opener(&st), o.pid);
}

static void test_names(void **state)
{
	char text[LOCK_OWNER_BYTES], wanted[LOCK_OWNER_BYTES];
	int status;
	pid_t pid;

	(void)state;
	lock_owner_describe(0, text);
	assert_string_equal(text, "another process");
	lock_owner_describe(-1, text);
	assert_string_equal(text, "another process");
	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	lock_owner_describe(pid, text); /* gone by now */
	snprintf(wanted, sizeof(wanted), "process %d", (int)pid);
	assert_string_equal(text, wanted);
}

static int pretend_nothing(void **state)
{
	pretended_type = 0;
	return fixture_teardown(state);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, pretend_nothing)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_writer_of_a_log),
		STORE_TEST(test_readers_of_a_log_are_not_meant),
		STORE_TEST(test_names_do_not_command_the_terminal),
		STORE_TEST(test_rollback_journal),
		STORE_TEST(test_a_lock_without_a_pid),
		STORE_TEST(test_a_link),
		STORE_TEST(test_looking_keeps_our_locks),
		STORE_TEST(test_who_has_it_open),
		cmocka_unit_test(test_names),
	};

	if (argc == 3 && strcmp(argv[1], "--holder") == 0)
		return find_parent(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
