#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
