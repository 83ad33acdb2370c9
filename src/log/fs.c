#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "log/frame.h"
#include "log/log.h"

static int folder_of(void *ctx)
{
	return (int)(intptr_t)ctx;
}

static int real_create(void *ctx, const char *name)
{
	int fd = openat(folder_of(ctx), name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* What was put there by others, a pipe or a link to elsewhere, is not opened. */
static int real_open(void *ctx, const char *name)
{
	int fd = openat(folder_of(ctx), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

static void real_close(void *ctx, int fd)
{
	(void)ctx;
	close(fd);
}

static ssize_t real_pread(void *ctx, int fd, void *ret, size_t n, uint64_t at)
{
	ssize_t r;

	(void)ctx;
	do
		r = pread(fd, ret, n, (off_t)at);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static ssize_t real_pwrite(void *ctx, int fd, const void *bytes, size_t n, uint64_t at)
{
	ssize_t r;

	(void)ctx;
	do
		r = pwrite(fd, bytes, n, (off_t)at);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* Where a file system cannot preallocate, the end has the room that there is when it comes. */
static int real_reserve(void *ctx, int fd, size_t n)
{
	(void)ctx;
	if (fallocate(fd, 0, 0, (off_t)n) == 0 || errno == EOPNOTSUPP || errno == ENOSYS)
		return 0;
	return -errno;
}

static int real_sync(void *ctx, int fd)
{
	(void)ctx;
	return fdatasync(fd) < 0 ? -errno : 0;
}

static int real_sync_folder(void *ctx)
{
	/* -EINVAL: a file system that cannot promise it. */
	return fsync(folder_of(ctx)) < 0 && errno != EINVAL ? -errno : 0;
}

static int real_remove(void *ctx, const char *name)
{
	return unlinkat(folder_of(ctx), name, 0) < 0 ? -errno : 0;
}

static int real_list(void *ctx, log_name_fn *fn, void *fn_ctx)
{
	int fd = openat(folder_of(ctx), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (errno = 0; r == 0 && (entry = readdir(dir)); errno = 0)
		r = fn(fn_ctx, entry->d_name);
	if (r == 0)
		r = -errno;
	closedir(dir);
	return r;
}

static int real_lock(void *ctx, int fd)
{
	struct stat st;

	(void)ctx;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink > 0 ? 0 : -ENOENT;
}

/* Others may be asking just now: they share the lock with us. */
static int real_is_locked(void *ctx, int fd)
{
	(void)ctx;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
		flock(fd, LOCK_UN);
		return 0;
	}
	return errno == EWOULDBLOCK ? 1 : -errno;
}

static double real_age_seconds(void *ctx, int fd)
{
	struct timespec now;
	struct stat st;

	(void)ctx;
	if (fstat(fd, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
		return 0;
	return difftime(now.tv_sec, st.st_mtim.tv_sec);
}

struct log_fs log_fs_real(int folder_fd)
{
	return (struct log_fs){
		.ctx = (void *)(intptr_t)folder_fd, /* the only state there is */
		.create = real_create,
		.open = real_open,
		.close = real_close,
		.pread = real_pread,
		.pwrite = real_pwrite,
		.reserve = real_reserve,
		.sync = real_sync,
		.sync_folder = real_sync_folder,
		.remove = real_remove,
		.list = real_list,
		.lock = real_lock,
		.is_locked = real_is_locked,
		.age_seconds = real_age_seconds,
	};
}

/* ---- in memory ---- */

struct log_memory {
	struct {
		char name[SEGMENT_NAME_BYTES];
		int fd;
	} * files;
	size_t n, cap;
};

struct log_memory *log_memory_new(void)
{
	return calloc(1, sizeof(struct log_memory));
}

struct log_memory *log_memory_free(struct log_memory *m)
{
	for (size_t i = 0; m && i < m->n; i++)
		close(m->files[i].fd);
	free(m ? m->files : NULL);
	free(m);
	return NULL;
}

static int memory_open(void *ctx, const char *name)
{
	const struct log_memory *m = ctx;
	int fd;

	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->files[i].name, name) == 0) {
			fd = fcntl(m->files[i].fd, F_DUPFD_CLOEXEC, 0);
			return fd < 0 ? -errno : fd;
		}
	return -ENOENT;
}

static int memory_create(void *ctx, const char *name)
{
	struct log_memory *m = ctx;
	int fd;

	if (ARRAY_RESERVE(m->files, m->cap, m->n + 1) < 0)
		return -ENOMEM;
	fd = memfd_create("proctor-log", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(m->files[m->n].name, sizeof(m->files[m->n].name), "%s", name);
	m->files[m->n++].fd = fd;
	return memory_open(ctx, name);
}

static int memory_list(void *ctx, log_name_fn *fn, void *fn_ctx)
{
	const struct log_memory *m = ctx;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++)
		r = fn(fn_ctx, m->files[i].name);
	return r;
}

static int memory_ignore(void *ctx)
{
	(void)ctx;
	return 0;
}

static int memory_ignore_file(void *ctx, int file)
{
	(void)ctx;
	(void)file;
	return 0;
}

static int memory_remove(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return 0; /* who holds it may go on to read */
}

struct log_fs log_fs_memory(struct log_memory *m)
{
	struct log_fs fs = log_fs_real(-1);

	fs.ctx = m;
	fs.create = memory_create;
	fs.open = memory_open;
	fs.list = memory_list;
	fs.remove = memory_remove;
	fs.sync = fs.lock = fs.is_locked = memory_ignore_file;
	fs.sync_folder = memory_ignore;
	return fs;
}

/* ---- ids ---- */

int log_id_make(struct log_id *ret)
{
	return getrandom(ret->bytes, sizeof(ret->bytes), 0) == sizeof(ret->bytes) ? 0 : -EIO;
}

static const char hex[] = "0123456789abcdef";

void log_id_format(const struct log_id *id, char ret[LOG_ID_TEXT_BYTES])
{
	for (size_t i = 0; i < LOG_ID_BYTES; i++) {
		ret[2 * i] = hex[id->bytes[i] >> 4];
		ret[2 * i + 1] = hex[id->bytes[i] & 15];
	}
	ret[2 * LOG_ID_BYTES] = '\0';
}

int log_id_parse(const char *text, struct log_id *ret)
{
	struct log_id id;

	if (strlen(text) != 2 * LOG_ID_BYTES)
		return -EINVAL;
	for (size_t i = 0; i < LOG_ID_BYTES; i++) {
		const char *high = strchr(hex, text[2 * i]), *low = strchr(hex, text[2 * i + 1]);

		if (!high || !low)
			return -EINVAL;
		id.bytes[i] = (uint8_t)((high - hex) << 4 | (low - hex));
	}
	*ret = id;
	return 0;
}
