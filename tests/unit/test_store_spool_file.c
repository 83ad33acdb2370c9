/* The file beside the database: made, locked and set aside while others append to it. */
#include "store_fixture.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>

#include "store/spool_file.h"

#define N_ROUNDS 150
#define RECORD "a record"

/* ---- what is told to the disk ---- */

static int n_folder_syncs;

/* The C library's, which this program has instead of it. */
int fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		n_folder_syncs++;
	return (int)syscall(SYS_fsync, fd);
}

/* A file whose name is lost with the power is lost. */
static void test_the_name_is_durable(void **state)
{
	struct fixture *f = *state;
	int before = n_folder_syncs;

	spool_file_prepare(f->db);
	assert_true(n_folder_syncs > before);
	before = n_folder_syncs;
	spool_file_prepare(f->db); /* nothing was made */
	assert_int_equal(n_folder_syncs, before);
	assert_int_equal(spool_file_append(f->db, RECORD, strlen(RECORD)), 0);
	assert_true(n_folder_syncs > before);
	before = n_folder_syncs;
	assert_int_equal(spool_file_set_aside(f->db, 77), 0);
	assert_true(n_folder_syncs > before);
}

/* ---- several at once ---- */

static void name_spool(const struct fixture *f, char ret[192])
{
	snprintf(ret, 192, "%s-spool", f->db);
}

static pid_t fork_append(const struct fixture *f)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		CHILD_CHECK(spool_file_append(f->db, RECORD, strlen(RECORD)) == 0);
		_exit(0);
	}
	return pid;
}

static pid_t fork_prepare(const struct fixture *f)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		spool_file_prepare(f->db);
		_exit(0);
	}
	return pid;
}

static void must_end_well(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static size_t count_records(const struct fixture *f)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	const char *at;
	const void *record;
	size_t n = 0, len;

	assert_int_equal(spool_file_open(f->db, &fd), 0);
	assert_int_equal(spool_file_read(fd, &bytes), 0);
	at = bytes.data;
	while (bytes.len > 0 && spool_next(&at, bytes.data + bytes.len, &record, &len) == 1) {
		assert_int_equal(len, strlen(RECORD));
		assert_memory_equal(record, RECORD, len);
		n++;
	}
	return n;
}

static off_t spool_size(const struct fixture *f)
{
	char spool[192];
	struct stat st;

	name_spool(f, spool);
	assert_int_equal(stat(spool, &st), 0);
	return st.st_size;
}

/* Whoever makes it, the zeros are never written over a record. */
static void test_made_while_another_appends(void **state)
{
	struct fixture *f = *state;
	char spool[192];

	name_spool(f, spool);
	for (int i = 0; i < N_ROUNDS; i++) {
		pid_t first = i % 2 ? fork_append(f) : fork_prepare(f);
		pid_t second = i % 2 ? fork_prepare(f) : fork_append(f);

		must_end_well(first);
		must_end_well(second);
		assert_int_equal(count_records(f), 1);
		spool_file_prepare(f->db); /* that of the round may have met the lock */
		assert_int_equal(spool_size(f), SPOOL_BYTES);
		assert_int_equal(count_records(f), 1);
		assert_int_equal(unlink(spool), 0);
	}
}

/* Who makes it waits for its turn, too: it is empty, and locked, while a record comes in. */
static void test_made_while_it_is_locked(void **state)
{
	struct fixture *f = *state;
	CLEANUP(close_fd) int fd = -1;
	char spool[192];

	name_spool(f, spool);
	fd = open(spool, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	spool_file_prepare(f->db);
	assert_int_equal(spool_size(f), 0);
	assert_int_equal(flock(fd, LOCK_UN), 0);
	spool_file_prepare(f->db);
	assert_int_equal(spool_size(f), SPOOL_BYTES);
}

/* A kill has left half of it, with a record or without. */
/* Somebody may have given the name to a file of ours that is none of this. */
static void test_another_name_of_a_file(void **state)
{
	struct fixture *f = *state;
	char victim[256], spool[256];
	struct stat st;
	int fd = -1;

	snprintf(victim, sizeof(victim), "%s/victim", f->dir);
	snprintf(spool, sizeof(spool), "%s-spool", f->db);
	fd = open(victim, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "not of you\n", 11), 11);
	close(fd);
	assert_int_equal(link(victim, spool), 0);
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 11);
	assert_int_equal(access(spool, F_OK), 0);
}

static void test_a_short_one(void **state)
{
	struct fixture *f = *state;
	char spool[192];

	name_spool(f, spool);
	spool_file_prepare(f->db);
	assert_int_equal(truncate(spool, 10), 0);
	spool_file_prepare(f->db);
	assert_int_equal(spool_size(f), SPOOL_BYTES);
	assert_int_equal(spool_file_append(f->db, RECORD, strlen(RECORD)), 0);
	assert_int_equal(truncate(spool, 1000), 0);
	spool_file_prepare(f->db);
	assert_int_equal(spool_size(f), SPOOL_BYTES);
	assert_int_equal(count_records(f), 1);
}

/* ---- set aside ---- */

static bool has_open(pid_t pid, const char *path)
{
	char folder[64], link[512], target[512];
	DIR *dir;
	struct dirent *entry;
	bool found = false;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	dir = opendir(folder);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(link, sizeof(link), "%s/%s", folder, entry->d_name);
		n = readlink(link, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		found = strcmp(target, path) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Who waits for the lock of the old one puts its record into the new one. */
static void test_set_aside_while_another_waits(void **state)
{
	struct fixture *f = *state;
	const struct timespec pause = { .tv_nsec = 2000000 };
	CLEANUP(close_fd) int fd = -1;
	char spool[192], byte = 0;
	int pipe_fds[2];
	pid_t pid;

	name_spool(f, spool);
	spool_file_prepare(f->db);
	assert_int_equal(spool_file_open(f->db, &fd), 0);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fd); /* what it has open from now on is its own */
		CHILD_CHECK(write(pipe_fds[1], &byte, 1) == 1);
		CHILD_CHECK(spool_file_append(f->db, RECORD, strlen(RECORD)) == 0);
		_exit(0);
	}
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	for (int i = 0; i < 2000 && !has_open(pid, spool); i++)
		nanosleep(&pause, NULL);
	assert_true(has_open(pid, spool));
	assert_int_equal(spool_file_set_aside(f->db, 77), 0);
	close(fd);
	fd = -1;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	must_end_well(pid);
	assert_true(spool_file_has_records(f->db));
	assert_int_equal(count_records(f), 1);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_the_name_is_durable),
		STORE_TEST(test_made_while_another_appends),
		STORE_TEST(test_made_while_it_is_locked),
		STORE_TEST(test_another_name_of_a_file),
		STORE_TEST(test_a_short_one),
		STORE_TEST(test_set_aside_while_another_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
