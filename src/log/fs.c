#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "base/num.h"
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
	ssize_t r = TEMP_FAILURE_RETRY(pread(fd, ret, n, (off_t)at));

	(void)ctx;
	return r < 0 ? -errno : r;
}

static ssize_t real_pwrite(void *ctx, int fd, const void *bytes, size_t n, uint64_t at)
{
	ssize_t r = TEMP_FAILURE_RETRY(pwrite(fd, bytes, n, (off_t)at));

	(void)ctx;
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

/* There is no disk, and no other process; what is removed may still be read. */
static int memory_ignore(void *ctx)
{
	(void)ctx;
	return 0;
}

static int memory_ignore_file(void *ctx, int fd)
{
	(void)fd;
	return memory_ignore(ctx);
}

static int memory_remove(void *ctx, const char *name)
{
	(void)name;
	return memory_ignore(ctx);
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

/* ---- a folder with many logs ---- */

static int folder_open(void *ctx, const char *name)
{
	const struct log_folder *f = ctx;

	return f->real.open(f->real.ctx, name);
}

static int folder_remove(void *ctx, const char *name)
{
	const struct log_folder *f = ctx;

	return f->real.remove(f->real.ctx, name);
}

static int folder_is_locked(void *ctx, int fd)
{
	const struct log_folder *f = ctx;

	return f->is_judged ? f->current->is_alive : f->real.is_locked(f->real.ctx, fd);
}

static int list_current(void *ctx, log_name_fn *fn, void *fn_ctx)
{
	const struct log_folder *f = ctx;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->current->n; i++)
		r = fn(fn_ctx, f->names[f->current->first + i]);
	return r;
}

/* A recorder's part of struct log_fs is that of another folder, and is not used. */
void log_folder_init(struct log_folder *f, int folder_fd)
{
	*f = (struct log_folder){ .real = log_fs_real(folder_fd) };
	f->fs = f->real;
	f->fs.ctx = f;
	f->fs.open = folder_open;
	f->fs.remove = folder_remove;
	f->fs.list = list_current;
	f->fs.is_locked = folder_is_locked;
	f->fs.create = NULL;
	f->fs.sync_folder = NULL;
}

void log_folder_release(struct log_folder *f)
{
	free(f->names);
	free(f->logs);
	*f = (struct log_folder){ 0 };
}

static int add_name(void *ctx, const char *name)
{
	struct log_folder *f = ctx;
	size_t n = strlen(name);

	if (n >= LOG_NAME_BYTES || n < LOG_ID_TEXT_BYTES || name[LOG_ID_TEXT_BYTES - 1] != '.')
		return 0;
	if (ARRAY_RESERVE(f->names, f->cap_names, f->n_names + 1) < 0)
		return -ENOMEM;
	memcpy(f->names[f->n_names++], name, n + 1);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int list_names(struct log_folder *f)
{
	int r;

	f->n_names = 0;
	r = f->real.list(f->real.ctx, add_name, f);
	if (f->n_names > 0)
		qsort(f->names, f->n_names, sizeof(*f->names), compare_names);
	return r;
}

static bool are_of_one_log(const char *a, const char *b)
{
	return memcmp(a, b, LOG_ID_TEXT_BYTES - 1) == 0;
}

int log_folder_list(struct log_folder *f)
{
	int r = list_names(f);

	f->n = 0;
	f->is_judged = false;
	for (size_t i = 0; r == 0 && i < f->n_names; i++) {
		char text[LOG_ID_TEXT_BYTES];
		struct log_listed *log;

		if (i > 0 && are_of_one_log(f->names[i - 1], f->names[i])) {
			f->logs[f->n - 1].n++;
			continue;
		}
		if (ARRAY_RESERVE(f->logs, f->cap, f->n + 1) < 0)
			return -ENOMEM;
		log = &f->logs[f->n++];
		*log = (struct log_listed){ .first = i, .n = 1 };
		snprintf(text, sizeof(text), "%.*s", LOG_ID_TEXT_BYTES - 1, f->names[i]);
		if (log_id_parse(text, &log->id) < 0)
			memset(&log->id, 0, sizeof(log->id));
	}
	return r;
}

/*
 * A recorder locks a new segment before it lets go of the last one. So one whose lock was free is
 * dead, if it has no other file in a list that was made after that.
 */
int log_folder_judge(struct log_folder *f)
{
	char(*before)[LOG_NAME_BYTES] = f->names;
	size_t at = 0;
	int r;

	f->names = NULL;
	f->cap_names = 0;
	r = list_names(f);
	for (size_t i = 0; r == 0 && i < f->n; i++) {
		struct log_listed *log = &f->logs[i];
		const char *first = before[log->first];
		size_t n = 0;

		while (at < f->n_names && memcmp(f->names[at], first, LOG_ID_TEXT_BYTES - 1) < 0)
			at++;
		for (; at + n < f->n_names && are_of_one_log(f->names[at + n], first); n++)
			log->is_alive |=
				n >= log->n || strcmp(f->names[at + n], first + n * LOG_NAME_BYTES);
		log->is_alive |= n != log->n;
		log->first = at;
		log->n = n;
		at += n;
	}
	free(before);
	f->is_judged = true;
	return r;
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

void log_boot_id_parse(const char *text, uint8_t ret[16])
{
	char digits[LOG_ID_TEXT_BYTES] = "";
	struct log_id id;

	for (size_t n = 0; *text && n < sizeof(digits) - 1; text++)
		if (*text != '-')
			digits[n++] = *text;
	if (log_id_parse(digits, &id) == 0)
		memcpy(ret, id.bytes, sizeof(id.bytes));
}

/* ---- numbers of attempts ---- */

#define NUMBER_NAME_BYTES 12
#define TAKE_TRIES 10000 /* each of which another run has won */

/* '/' is '%', which no id of a job has: see job_id_is_valid(). "." and ".." are none either. */
static int folder_name(const char *job_id, char ret[NAME_MAX + 1])
{
	size_t n = strlen(job_id);

	if (n == 0 || n > NAME_MAX || job_id[0] == '.' || strchr(job_id, '%'))
		return -EINVAL;
	for (size_t i = 0; i <= n; i++)
		ret[i] = job_id[i] == '/' ? '%' : job_id[i];
	return 0;
}

static int note_number(void *ctx, const char *name)
{
	int *highest = ctx;
	uint64_t n;

	if (num_parse_u64(name, &n) == 0 && n < INT_MAX - 1 && (int)n > *highest)
		*highest = (int)n;
	return 0;
}

/*
 * The number that the folder has as a file, and the highest if there are more. -EAGAIN: none was
 * seen, as another run renamed it meanwhile, or somebody has emptied the folder.
 */
static int find_number(int fd)
{
	int highest = -EAGAIN, r = real_list((void *)(intptr_t)fd, note_number, &highest);

	return r < 0 ? r : highest;
}

/* With its number 0 from the first moment on: whoever finds the folder finds a number. */
static int make_numbers(int folder_fd, const char *name)
{
	char making[64], path[80];
	struct timespec now;
	int file, r = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(making, sizeof(making), ".making-%d-%ld", (int)getpid(), now.tv_nsec);
	snprintf(path, sizeof(path), "%s/0", making);
	if (mkdirat(folder_fd, making, 0700) < 0)
		return -errno;
	file = openat(folder_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file >= 0)
		close(file);
	if (file < 0 || renameat(folder_fd, making, folder_fd, name) < 0) {
		r = errno == ENOTEMPTY ? -EEXIST : -errno;
		(void)unlinkat(folder_fd, path, 0);
		(void)unlinkat(folder_fd, making, AT_REMOVEDIR);
	}
	return r == -EEXIST ? 0 : r; /* another run was quicker */
}

/* Renaming is what takes a number: of two who rename the same file one fails. */
static int take_number(int fd, int above)
{
	char from[NUMBER_NAME_BYTES], to[NUMBER_NAME_BYTES];
	int n = find_number(fd);

	if (n < 0)
		return n;
	snprintf(from, sizeof(from), "%d", n);
	n = (n > above ? n : above) + 1;
	snprintf(to, sizeof(to), "%d", n);
	if (renameat(fd, from, fd, to) < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	return n;
}

int log_take_number(int folder_fd, const char *job_id, int above, int *ret, struct err *err)
{
	char name[NAME_MAX + 1];
	int n = -EAGAIN;

	if (folder_name(job_id, name) < 0)
		return err_set(err, -EINVAL, "%s is no name of a job", job_id);
	for (int i = 0; i < TAKE_TRIES && n == -EAGAIN; i++) {
		CLEANUP(close_fd)
		int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			n = take_number(fd, above);
		else if (errno != ENOENT)
			n = -errno;
		if (n == -EAGAIN) { /* an empty folder gives way to the new one */
			n = make_numbers(folder_fd, name);
			n = n < 0 ? n : -EAGAIN;
		}
	}
	if (n < 0)
		return err_set(err, n, "cannot number this run of %s: %s", job_id, strerror(-n));
	*ret = n;
	return 0;
}
