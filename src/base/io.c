#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"

int io_read_fd(int fd, size_t max, struct buf *b)
{
	size_t chunk = 4096;

	buf_reset(b);
	for (;;) {
		ssize_t n;

		if (buf_reserve(b, chunk) < 0)
			return -ENOMEM;
		n = read(fd, b->data + b->len, chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		b->len += (size_t)n;
		b->data[b->len] = '\0';
		if (b->len > max)
			return -EFBIG;
		if (chunk < 65536)
			chunk *= 2;
	}
	return 0;
}

int io_read_at(int dirfd, const char *path, size_t max, struct buf *b)
{
	CLEANUP(close_fd) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	buf_reset(b);
	return fd < 0 ? -errno : io_read_fd(fd, max, b);
}

/* An open that does not wait, of a file whose reads may wait. */
static int open_document(const char *path, int *ret_fd, struct err *err)
{
	CLEANUP(close_fd)
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const char *why = NULL;
	struct statfs fs;
	struct stat st;
	bool is_null;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	is_null = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
	if (S_ISFIFO(st.st_mode)) /* a shell's has no name, and lies on a file system of its own */
		why = fstatfs(fd, &fs) < 0 || fs.f_type != PIPEFS_MAGIC ? "a named pipe" : NULL;
	else if (!S_ISREG(st.st_mode) && !is_null)
		why = S_ISDIR(st.st_mode) ? "a folder" : "a device";
	if (why)
		return err_set(err, -EINVAL, "%s is %s, not a regular file", path, why);
	if (fcntl(fd, F_SETFL, 0) < 0)
		return err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int io_read_document(const char *path, size_t max, struct buf *b, struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	int r = open_document(path, &fd, err);

	if (r < 0)
		return r;
	r = io_read_fd(fd, max, b);
	if (r == -EFBIG)
		return err_set(err, r, "%s is longer than %zu bytes", path, max);
	return r < 0 ? err_set(err, r, "cannot read %s: %s", path, strerror(-r)) : 0;
}

ssize_t io_pread_text(int fd, char *text, size_t size)
{
	size_t len = 0;

	while (len < size - 1) {
		ssize_t n = pread(fd, text + len, size - 1 - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
		/* A /proc file that answered with less than asked has no more. */
		if (len < size - 1)
			break;
	}
	text[len] = '\0';
	return (ssize_t)len;
}

ssize_t io_read_text_at(int dirfd, const char *path, char *text, size_t size)
{
	CLEANUP(close_fd) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return -errno;
	return io_pread_text(fd, text, size);
}

ssize_t io_read_link_at(int dirfd, const char *path, char *text, size_t size)
{
	ssize_t n = readlinkat(dirfd, path, text, size - 1);
	int code = errno;

	text[n > 0 ? n : 0] = '\0';
	return n < 0 ? -code : n;
}

int io_write_all(int fd, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EAGAIN)
			poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
		if (w < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (w < 0)
			return -errno;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

int io_sync_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash > path ? (size_t)(slash - path) : 1;
	CLEANUP(free_ptr) char *folder = slash ? strndup(path, n) : strdup(".");
	CLEANUP(close_fd) int fd = -1;

	if (!folder)
		return -ENOMEM;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

/* ---- the limit of open files ---- */

void file_limit_raise(struct rlimit *ret)
{
	struct rlimit limit;

	if (ret)
		*ret = (struct rlimit){ 0 };
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (ret)
		*ret = limit;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void file_limit_set(const struct rlimit *limit)
{
	if (limit->rlim_max > 0)
		setrlimit(RLIMIT_NOFILE, limit);
}

/* By opening them: half of the limit may be open since before this process was started. */
bool file_limit_has_room(size_t n)
{
	CLEANUP(close_fd) int taken = -1;

	if (n == 0)
		return true;
	taken = open("/", O_PATH | O_CLOEXEC);
	return taken >= 0 && file_limit_has_room(n - 1);
}

/* ---- folders ---- */

DIR *dir_open_at(int fd, const char *path)
{
	CLEANUP(close_fd) int dir_fd = openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);

	if (dir)
		dir_fd = -1; /* the DIR has it now */
	return dir;
}

void dir_close(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

pid_t dir_next_pid(DIR *proc)
{
	const struct dirent *entry;
	uint64_t pid;

	while (errno = 0, (entry = readdir(proc)))
		if (num_parse_u64(entry->d_name, &pid) == 0 && pid > 0 && pid <= INT_MAX)
			return (pid_t)pid;
	return 0;
}
