#include "store_fixture.h"

#include <glob.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include "store_writer.h"

#define NFS 0x6969

/* ---- a disk that can be told what to do ---- */

static struct {
	unsigned long type;	 /* of the file system; 0: the truth */
	bool has_no_exchange;	 /* of two names */
	bool has_no_second_name; /* of a file */
	int calls_to_death;	 /* of those that change names; 0: immortal */
} disk;

static void count_down(void)
{
	if (disk.calls_to_death > 0 && --disk.calls_to_death == 0)
		raise(SIGKILL);
}

int statfs(const char *path, struct statfs *ret)
{
	int r = (int)syscall(SYS_statfs, path, ret);

	if (r == 0 && disk.type)
		ret->f_type = (__typeof__(ret->f_type))disk.type;
	return r;
}

int link(const char *from, const char *to)
{
	count_down();
	if (disk.has_no_second_name) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	count_down();
	if (disk.has_no_exchange && (flags & RENAME_EXCHANGE)) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int rename(const char *from, const char *to)
{
	count_down();
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
	count_down();
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int mend_disk(void **state)
{
	memset(&disk, 0, sizeof(disk));
	return fixture_teardown(state);
}

/* ---- files ---- */

struct bytes {
	char *data;
	size_t n;
};

static void free_bytes(struct bytes *b)
{
	free(b->data);
}

/* n is 0 if there is no such file. */
static struct bytes read_file(const char *path, const char *suffix)
{
	struct bytes b = { NULL, 0 };
	char name[256];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	fd = open(name, O_RDONLY);
	if (fd < 0)
		return b;
	assert_int_equal(fstat(fd, &st), 0);
	b.n = (size_t)st.st_size;
	b.data = malloc(b.n + 1);
	assert_non_null(b.data);
	assert_int_equal(read(fd, b.data, b.n), b.n);
	close(fd);
	return b;
}

static bool is_same(const struct bytes *a, const char *path, const char *suffix)
{
	CLEANUP(free_bytes) struct bytes b = read_file(path, suffix);

	return a->n == b.n && (a->n == 0 || memcmp(a->data, b.data, a->n) == 0);
}

/* Whether one of the files has these bytes, of all those that end in the suffix. */
static bool is_somewhere(const struct fixture *f, const struct bytes *a, const char *suffix)
{
	char pattern[256];
	glob_t found;
	bool is_found = false;

	snprintf(pattern, sizeof(pattern), "%s*", f->db);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *name = found.gl_pathv[i];
		size_t n = strlen(name), k = strlen(suffix);

		if (n >= k && strcmp(name + n - k, suffix) == 0 && is_same(a, name, ""))
			is_found = true;
	}
	globfree(&found);
	return is_found;
}

/* The same for both together, under one name: they are of no use apart. */
static bool is_pair_somewhere(const struct fixture *f, const struct bytes *db,
			      const struct bytes *log)
{
	char pattern[256];
	glob_t found;
	bool is_found = false;

	snprintf(pattern, sizeof(pattern), "%s*", f->db);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		is_found = is_found || (is_same(db, found.gl_pathv[i], "") &&
					is_same(log, found.gl_pathv[i], "-wal"));
	globfree(&found);
	return is_found;
}

/* ---- a damaged database with a log ---- */

static void begin_one(const char *path)
{
	CLEANUP(store_cleanup) struct store *store = must_open(path, STORE_WRITE);
	struct attempt a = make_attempt("j");
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
}

/* The page is one that opening does not need, and that its log does not replace. */
static void damage(const struct fixture *f)
{
	char noise[4096];
	int64_t page;
	int fd;

	begin_one(f->db);
	page = raw_sql(f->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'folds'");
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	begin_one(f->db);
	memset(noise, 0xa5, sizeof(noise));
	fd = open(f->db, O_WRONLY);
	assert_int_equal(pwrite(fd, noise, sizeof(noise), (page - 1) * 4096), 4096);
	close(fd);
}

static char *must_set_aside(const char *path)
{
	struct err err = ERR_INIT;
	char *aside = NULL;

	must(store_quarantine(path, false, &aside, &err), &err);
	assert_non_null(aside);
	return aside;
}

static void assert_refused(const char *path, int error, const char *word)
{
	struct err err = ERR_INIT;
	char *aside = NULL;

	assert_int_equal(store_quarantine(path, false, &aside, &err), error);
	assert_null(aside);
	if (!strstr(err.text, word) || !strstr(err.text, path))
		fail_msg("no \"%s\" or path in: %s", word, err.text);
}

/* Nothing else lies in the folder than what belongs to the database. */
static void assert_nothing_aside(const struct fixture *f)
{
	char pattern[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s.damaged*", f->db);
	assert_int_equal(glob(pattern, 0, NULL, &found), GLOB_NOMATCH);
}

static void assert_records_anew(const char *path)
{
	struct attempt_list list;
	struct store *store;

	begin_one(path);
	store = must_open(path, STORE_READ);
	assert_int_equal(store_list_attempts(store, &(struct attempt_filter){ 0 }, &list, NULL), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(store_check(store, 0, NULL), 0);
	attempt_list_release(&list);
	store_close(store);
}

static void assert_moves_whole(const struct fixture *f)
{
	CLEANUP(free_bytes) struct bytes db = { 0 };
	CLEANUP(free_bytes) struct bytes log = { 0 };
	CLEANUP(free_ptr) char *aside = NULL;
	struct stat st;

	damage(f);
	db = read_file(f->db, "");
	log = read_file(f->db, "-wal");
	aside = must_set_aside(f->db);
	assert_int_equal(strncmp(aside, f->db, strlen(f->db)), 0);
	assert_int_equal(strncmp(aside + strlen(f->db), ".damaged-2", 10), 0);
	assert_true(is_same(&db, aside, ""));
	assert_true(is_same(&log, aside, "-wal"));
	assert_int_equal(stat(f->db, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_false(is_somewhere(f, &log, "proctor.db-wal"));
	assert_records_anew(f->db);
	assert_true(is_same(&db, aside, ""));
	assert_true(is_same(&log, aside, "-wal"));
	/* The log still belongs to it: both attempts are there. */
	assert_int_equal(raw_sql(aside, "SELECT count(*) FROM attempts"), 2);
}

static void test_moves_all_of_it(void **state)
{
	assert_moves_whole(*state);
}

static void test_without_second_names(void **state)
{
	disk.has_no_second_name = true;
	assert_moves_whole(*state);
}

static void test_without_exchange(void **state)
{
	disk.has_no_exchange = true;
	assert_moves_whole(*state);
}

static void test_with_neither(void **state)
{
	disk.has_no_exchange = disk.has_no_second_name = true;
	assert_moves_whole(*state);
}

static void test_without_a_log(void **state)
{
	disk.type = NFS;
	assert_moves_whole(*state);
}

/* Two in a second, and a log that an earlier one left: nothing is overwritten. */
static void test_names_are_never_taken_twice(void **state)
{
	struct fixture *f = *state;
	char *asides[4];

	for (size_t i = 0; i < ARRAY_SIZE(asides); i++) {
		damage(f);
		asides[i] = must_set_aside(f->db);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(asides[i], asides[k]);
		if (i % 2)
			assert_int_equal(unlink(asides[i]), 0); /* its log is still there */
	}
	for (size_t i = 0; i < ARRAY_SIZE(asides); i++) {
		char log[256];

		snprintf(log, sizeof(log), "%s-wal", asides[i]);
		assert_int_equal(access(log, F_OK), 0);
		free(asides[i]);
	}
}

/* ---- crashes ---- */

/* The process dies before its nth change of a name. False if it did not come so far. */
static bool die_moving(const struct fixture *f, int n)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		char *aside = NULL;

		disk.calls_to_death = n;
		_exit(store_quarantine(f->db, false, &aside, NULL) == 0 ? 0 : 1);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

/* What the user does next: a run, and what it says if that is refused. */
static void go_on(const struct fixture *f)
{
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(free_ptr) char *aside = NULL;
	int r = store_open(f->db, STORE_WRITE, &store, NULL);

	store = store_close(store);
	assert_true(r == 0 || r == -EBADMSG);
	r = store_quarantine(f->db, false, &aside, NULL);
	assert_true(r == 0 || r == -EALREADY);
	assert_records_anew(f->db);
}

static void empty_folder(const struct fixture *f)
{
	char pattern[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s*", f->db);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		assert_int_equal(unlink(found.gl_pathv[i]), 0);
	globfree(&found);
}

static void assert_survives_crashes(const struct fixture *f)
{
	bool may_part = disk.has_no_exchange || disk.has_no_second_name;
	bool has_died = true;
	int n;

	for (n = 1; has_died; n++) {
		CLEANUP(free_bytes) struct bytes db = { 0 };
		CLEANUP(free_bytes) struct bytes log = { 0 };

		damage(f);
		db = read_file(f->db, "");
		log = read_file(f->db, "-wal");
		assert_true(log.n > 0);
		has_died = die_moving(f, n);
		assert_true(may_part || is_pair_somewhere(f, &db, &log));
		go_on(f);
		assert_true(may_part || is_pair_somewhere(f, &db, &log));
		assert_true(is_somewhere(f, &db, ""));
		assert_true(is_somewhere(f, &log, "-wal"));
		empty_folder(f);
	}
	assert_true(n > 4);
}

static void test_crashes(void **state)
{
	assert_survives_crashes(*state);
}

static void test_crashes_without_second_names(void **state)
{
	disk.has_no_second_name = true;
	assert_survives_crashes(*state);
}

static void test_crashes_without_exchange(void **state)
{
	disk.has_no_exchange = true;
	assert_survives_crashes(*state);
}

/* ---- refusals ---- */

static void test_sound_is_left_alone(void **state)
{
	struct fixture *f = *state;

	assert_refused(f->db, -ENOENT, "nothing was recorded");
	assert_int_equal(access(f->db, F_OK), -1);
	begin_one(f->db);
	assert_refused(f->db, -EALREADY, "is sound");
	assert_nothing_aside(f);
}

static void test_newer_and_foreign_are_left_alone(void **state)
{
	struct fixture *f = *state;

	begin_one(f->db);
	raw_sql(f->db, "PRAGMA user_version = 1000");
	assert_refused(f->db, -EPROTO, "has layout 1000");
	assert_int_equal(unlink(f->db), 0);
	raw_sql(f->db, "CREATE TABLE theirs (x)");
	assert_refused(f->db, -EMEDIUMTYPE, "another program");
	assert_int_equal(unlink(f->db), 0);
	assert_int_equal(mkdir(f->db, 0700), 0);
	assert_refused(f->db, -EBADMSG, "not a file");
	assert_nothing_aside(f);
}

/* Another process that has it open, as a new program. */
static pid_t start_user(const char *path, const char *sql)
{
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execl("/proc/self/exe", "test", "--use", path, sql, (char *)NULL);
		_exit(98);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static int use(const char *path, const char *sql)
{
	sqlite3 *db = NULL;

	if (sqlite3_open(path, &db) != SQLITE_OK ||
	    sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return 1;
	if (write(STDOUT_FILENO, "x", 1) != 1)
		return 1;
	for (;;)
		pause();
}

static void assert_refused_in_use(const struct fixture *f, const char *sql)
{
	pid_t pid = start_user(f->db, sql);
	char word[64];

	snprintf(word, sizeof(word), "while process %d (", (int)pid);
	assert_refused(f->db, -EBUSY, word);
	assert_nothing_aside(f);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_in_use_is_left_alone(void **state)
{
	struct fixture *f = *state;

	damage(f);
	assert_refused_in_use(f, "SELECT * FROM jobs");
	assert_refused_in_use(f, "BEGIN IMMEDIATE");
	free(must_set_aside(f->db));
}

/* With a rollback journal nobody has a lock between two transactions. */
static void test_in_use_without_a_log(void **state)
{
	struct fixture *f = *state;

	disk.type = NFS;
	damage(f);
	assert_refused_in_use(f, "SELECT * FROM jobs");
	assert_refused_in_use(f, "BEGIN; SELECT * FROM jobs");
	free(must_set_aside(f->db));
}

/* Moves it aside when the other end of the pipe is closed. */
static pid_t start_mover(const char *path, int pipe_fds[2])
{
	pid_t pid = fork();

	if (pid == 0) {
		char *aside = NULL;
		char byte;
		int r;

		close(pipe_fds[1]);
		CHILD_CHECK(read(pipe_fds[0], &byte, 1) == 0);
		r = store_quarantine(path, false, &aside, NULL);
		CHILD_CHECK(r == 0 || r == -EBUSY || r == -EALREADY || r == -ENOENT);
		_exit(r == 0 ? 0 : 3);
	}
	assert_true(pid > 0);
	return pid;
}

/* Only one of several does it, and the new database is not taken for the old one. */
static void test_several_at_once(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 20; round++) {
		pid_t pids[4];
		int fds[2], n_moved = 0;

		damage(f);
		assert_int_equal(pipe(fds), 0);
		for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
			pids[i] = start_mover(f->db, fds);
		close(fds[0]);
		close(fds[1]);
		for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
			int status = -1;

			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 1);
			n_moved += WEXITSTATUS(status) == 0;
		}
		assert_true(n_moved <= 1); /* none, if they were in each other's way */
		if (n_moved == 0)
			free(must_set_aside(f->db));
		assert_records_anew(f->db);
		empty_folder(f);
	}
}

/* ---- other places ---- */

/* The file that the link leads to is moved, and the link leads to the new one. */
static void test_a_link(void **state)
{
	struct fixture *f = *state;
	CLEANUP(free_ptr) char *aside = NULL;
	char link_path[200];

	damage(f);
	snprintf(link_path, sizeof(link_path), "%s/linked.db", f->dir);
	assert_int_equal(symlink(f->db, link_path), 0);
	aside = must_set_aside(link_path);
	assert_int_equal(strncmp(aside, f->db, strlen(f->db)), 0);
	assert_records_anew(link_path);
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
}

static void child_may_not_move(struct fixture *f)
{
	struct err err = ERR_INIT;
	char *aside = NULL;

	CHILD_CHECK(store_quarantine(f->db, false, &aside, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, "cannot be moved aside (Permission denied)"));
}

static void test_folder_that_cannot_be_written(void **state)
{
	struct fixture *f = *state;

	damage(f);
	if (geteuid() == 0) {
		static const char *const suffixes[] = { "", "-wal", "-shm" };
		char name[256];

		assert_int_equal(chown(f->dir, 65534, 65534), 0);
		for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
			snprintf(name, sizeof(name), "%s%s", f->db, suffixes[i]);
			assert_int_equal(chown(name, 65534, 65534), 0);
		}
	}
	assert_int_equal(chmod(f->dir, 0500), 0);
	assert_int_equal(run_as_user(child_may_not_move, f), 0);
	assert_int_equal(chmod(f->dir, 0700), 0);
	assert_nothing_aside(f);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, mend_disk)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_moves_all_of_it),
		STORE_TEST(test_without_second_names),
		STORE_TEST(test_without_exchange),
		STORE_TEST(test_with_neither),
		STORE_TEST(test_without_a_log),
		STORE_TEST(test_names_are_never_taken_twice),
		STORE_TEST(test_crashes),
		STORE_TEST(test_crashes_without_second_names),
		STORE_TEST(test_crashes_without_exchange),
		STORE_TEST(test_sound_is_left_alone),
		STORE_TEST(test_newer_and_foreign_are_left_alone),
		STORE_TEST(test_in_use_is_left_alone),
		STORE_TEST(test_in_use_without_a_log),
		STORE_TEST(test_several_at_once),
		STORE_TEST(test_a_link),
		STORE_TEST(test_folder_that_cannot_be_written),
	};

	if (argc == 4 && strcmp(argv[1], "--use") == 0)
		return use(argv[2], argv[3]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
