#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"

static char dir[] = "/tmp/proctor-io-XXXXXX";
static int dir_fd = -1;

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
	return dir_fd < 0 ? -1 : 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlinkat(dir_fd, "f", 0);
	close(dir_fd);
	return rmdir(dir);
}

/* A file of n bytes: 0, 1, 2, … */
static void make_file(size_t n)
{
	int fd = openat(dir_fd, "f", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	char *bytes = malloc(n + 1);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)i;
	assert_int_equal(io_write_all(fd, bytes, n), 0);
	free(bytes);
	close(fd);
}

static void test_reading_whole_files(void **state)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 12288, 200000 };
	struct buf b = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		make_file(sizes[i]);
		buf_add_str(&b, "left over");
		assert_int_equal(io_read_at(dir_fd, "f", sizes[i], &b), 0);
		assert_int_equal(b.len, sizes[i]);
		for (size_t k = 0; k < b.len; k++)
			if (b.data[k] != (char)k)
				fail_msg("byte %zu of %zu", k, b.len);
		assert_int_equal(b.data[b.len], '\0');
	}
	buf_release(&b);
}

static void test_too_long_is_refused(void **state)
{
	struct buf b = BUF_INIT;

	(void)state;
	make_file(5001);
	assert_int_equal(io_read_at(dir_fd, "f", 5000, &b), -EFBIG);
	assert_int_equal(b.data[b.len], '\0');
	assert_int_equal(io_read_at(dir_fd, "f", 5001, &b), 0);
	assert_int_equal(io_read_at(AT_FDCWD, "/dev/zero", 100000, &b), -EFBIG);
	buf_release(&b);
}

static void assert_refused(const char *path, int error, const char *why)
{
	struct buf b = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(io_read_document(path, 5000, &b, &err), error);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", path, err.text);
	buf_release(&b);
}

/* Nobody writes to the named pipe, and nobody waits for that. */
static void test_documents(void **state)
{
	char path[64], pipe_path[64];
	struct buf b = BUF_INIT;
	struct err err = ERR_INIT;
	int fds[2];

	(void)state;
	snprintf(path, sizeof(path), "%s/f", dir);
	make_file(5001);
	assert_refused(path, -EFBIG, "f is longer than 5000 bytes");
	make_file(5000);
	assert_int_equal(io_read_document(path, 5000, &b, &err), 0);
	assert_int_equal(b.len, 5000);
	unlink(path);
	assert_refused(path, -ENOENT, "No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refused(path, -EINVAL, "f is a named pipe, not a regular file");
	unlink(path);
	assert_refused(dir, -EINVAL, "is a folder, not a regular file");
	assert_refused("/dev/zero", -EINVAL, "/dev/zero is a device, not a regular file");

	assert_int_equal(pipe(fds), 0);
	snprintf(pipe_path, sizeof(pipe_path), "/proc/self/fd/%d", fds[0]);
	assert_int_equal(write(fds[1], "text", 4), 4);
	close(fds[1]);
	assert_int_equal(io_read_document(pipe_path, 5000, &b, &err), 0);
	assert_string_equal(b.data, "text");
	close(fds[0]);
	buf_release(&b);
}

static void test_failures_are_errno(void **state)
{
	struct buf b = BUF_INIT;
	char text[16];

	(void)state;
	assert_int_equal(io_read_at(dir_fd, "none", 10, &b), -ENOENT);
	assert_int_equal(io_read_at(dir_fd, ".", 10, &b), -EISDIR);
	assert_int_equal(io_read_text_at(dir_fd, "none", text, sizeof(text)), -ENOENT);
	assert_int_equal(io_pread_text(-1, text, sizeof(text)), -EBADF);
	assert_int_equal(io_write_all(-1, "x", 1), -EBADF);
	assert_int_equal(io_write_all(-1, "", 0), 0);
	buf_release(&b);
}

static void test_text_is_cut_to_fit(void **state)
{
	char text[8];

	(void)state;
	make_file(0);
	assert_int_equal(io_read_text_at(dir_fd, "f", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	make_file(100);
	memset(text, 'x', sizeof(text));
	assert_int_equal(io_read_text_at(dir_fd, "f", text, sizeof(text)), 7);
	assert_memory_equal(text, "\0\1\2\3\4\5\6\0", 8);
	assert_int_equal(io_read_text_at(dir_fd, "f", text, 1), 0);
	assert_int_equal(text[0], '\0');
}

static void test_kept_open_file_gives_fresh_content(void **state)
{
	char text[64];
	int fd;

	(void)state;
	make_file(3);
	fd = openat(dir_fd, "f", O_RDONLY);
	assert_int_equal(io_pread_text(fd, text, sizeof(text)), 3);
	make_file(9);
	assert_int_equal(io_pread_text(fd, text, sizeof(text)), 9);
	assert_int_equal(io_pread_text(fd, text, sizeof(text)), 9);
	close(fd);
}

/* A child reads slowly from a pipe that does not block. */
static void test_writing_waits_where_the_fd_does_not(void **state)
{
	size_t n = 1 << 20;
	char *bytes = malloc(n);
	int fds[2], status;
	pid_t pid;

	(void)state;
	memset(bytes, 'x', n);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	pid = fork();
	if (pid == 0) {
		size_t got = 0;
		ssize_t r;

		close(fds[1]);
		fcntl(fds[0], F_SETFL, 0);
		while ((r = read(fds[0], bytes, n)) > 0)
			got += (size_t)r;
		_exit(got == n ? 0 : 1);
	}
	close(fds[0]);
	assert_int_equal(io_write_all(fds[1], bytes, n), 0);
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(bytes);
}

static void test_a_folder_is_synced(void **state)
{
	char path[64];

	(void)state;
	make_file(1);
	snprintf(path, sizeof(path), "%s/f", dir);
	assert_int_equal(io_sync_folder_of(path), 0);
	assert_int_equal(io_sync_folder_of("f"), 0); /* of where we are */
	assert_int_equal(io_sync_folder_of("/f"), 0);
	snprintf(path, sizeof(path), "%s/none/f", dir);
	assert_int_equal(io_sync_folder_of(path), -ENOENT);
	snprintf(path, sizeof(path), "%s/f/f", dir);
	assert_int_equal(io_sync_folder_of(path), -ENOTDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reading_whole_files),
		cmocka_unit_test(test_too_long_is_refused),
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_failures_are_errno),
		cmocka_unit_test(test_text_is_cut_to_fit),
		cmocka_unit_test(test_kept_open_file_gives_fresh_content),
		cmocka_unit_test(test_writing_waits_where_the_fd_does_not),
		cmocka_unit_test(test_a_folder_is_synced),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
