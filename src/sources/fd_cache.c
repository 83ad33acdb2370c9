#include "sources/fd_cache.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/pids.h"

/* For the store, pipes to jobs, and all clients that a daemon may have: at most half of what there
 * is. */
#define RESERVED_FILES 768

/* The kernel holds a page of text for each: this bounds it to some 64 MiB. */
#define MAX_KEPT_FILES 16384

#define PATH_MAX_BYTES 64 /* a pid, a slash, one of our file names */

/* From the soft RLIMIT_NOFILE as it is now, less a reserve for the rest of the program. */
static struct fd_budget fd_budget_from_limit(void)
{
	struct fd_budget b = { 0 };
	struct rlimit limit;
	size_t files;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return b;
	files = limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
	b.max = files / 2 > RESERVED_FILES ? files - RESERVED_FILES : files / 2;
	if (b.max > MAX_KEPT_FILES)
		b.max = MAX_KEPT_FILES;
	return b;
}

void fd_cache_close(struct fd_cache *k, struct fd_budget *budget)
{
	if (k->fd >= 0) {
		close(k->fd);
		budget->used--;
	}
	k->fd = FD_UNREAD;
}

static void path_of(struct fd_name name, char *path, size_t size)
{
	snprintf(path, size, "%d/%s", (int)name.pid, name.file);
}

static int open_file(struct fd_budget *budget, struct fd_name name, int flags)
{
	char path[PATH_MAX_BYTES];
	int fd;

	path_of(name, path, sizeof(path));
	fd = openat(name.proc_fd, path, flags | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0)
		return fd;
	if (errno == EMFILE || errno == ENFILE)
		budget->is_short = true;
	return -errno;
}

/* True if a file that is opened now is to stay open. */
static bool is_worth_keeping(const struct fd_cache *k, const struct fd_budget *budget)
{
	return k->fd == FD_READ_ONCE && budget->used < budget->max && !budget->is_short;
}

static void keep(struct fd_cache *k, struct fd_budget *budget, int fd)
{
	k->fd = fd;
	budget->used++;
}

/* Opens it, reads, and keeps it or closes it again. */
static ssize_t read_anew(struct fd_cache *k, struct fd_budget *budget, struct fd_name name,
			 char *text, size_t size)
{
	CLEANUP(close_fd) int fd = open_file(budget, name, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = io_pread_text(fd, text, size);
	if (n < 0)
		return n;
	if (is_worth_keeping(k, budget))
		keep(k, budget, TAKE_FD(fd));
	else
		k->fd = FD_READ_ONCE;
	return n;
}

/* The content into text, as io_pread_text() does. -ESRCH, -ENOENT: the process is gone. */
static ssize_t fd_cache_read(struct fd_cache *k, struct fd_budget *budget, struct fd_name name,
			     char *text, size_t size)
{
	ssize_t n;

	if (k->fd < 0)
		return read_anew(k, budget, name, text, size);
	n = io_pread_text(k->fd, text, size);
	if (n < 0)
		fd_cache_close(k, budget);
	return n;
}

/* O_PATH needs no right to list the folder, and makes the later question the cheapest there is. */
static int stat_anew(struct fd_cache *k, struct fd_budget *budget, struct fd_name name,
		     struct stat *ret)
{
	char path[PATH_MAX_BYTES];
	int fd;

	if (is_worth_keeping(k, budget)) {
		fd = open_file(budget, name, O_PATH);
		if (fd < 0)
			return fd;
		keep(k, budget, fd);
		return fstat(fd, ret) < 0 ? -errno : 0;
	}
	path_of(name, path, sizeof(path));
	if (fstatat(name.proc_fd, path, ret, 0) < 0)
		return -errno;
	k->fd = FD_READ_ONCE;
	return 0;
}

/* st_size into *ret, for folders as well. */
static int fd_cache_stat_size(struct fd_cache *k, struct fd_budget *budget, struct fd_name name,
			      uint64_t *ret)
{
	struct stat st;
	int r;

	if (k->fd >= 0)
		r = fstat(k->fd, &st) < 0 ? -errno : 0;
	else
		r = stat_anew(k, budget, name, &st);
	if (r < 0) {
		fd_cache_close(k, budget);
		return r;
	}
	*ret = st.st_size < 0 ? 0 : (uint64_t)st.st_size;
	return 0;
}

/* ---- what it takes to read the files of proc/PID ---- */

static bool is_procfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

int reader_init(struct reader *r, int proc_fd)
{
	struct stat st;

	r->proc_fd = proc_fd;
	/*
	 * Since Linux 6.2 st_size of proc/PID/fd is the number of open files; before,
	 * it is always 0, and in a captured tree it is the size of some folder. A
	 * single 0 would not tell an old kernel from a process without files, but we
	 * ourselves do have files open: so our own entry decides, once.
	 */
	r->has_fd_size =
		is_procfs(proc_fd) && fstatat(proc_fd, "self/fd", &st, 0) == 0 && st.st_size > 0;
	r->command = (struct buf)BUF_INIT;
	r->text = malloc(READER_TEXT_BYTES);
	/* The files of a captured tree have no process: one that is replaced would stay as it was.
	 */
	if (is_procfs(proc_fd))
		r->budget = fd_budget_from_limit();
	return r->text ? 0 : -ENOMEM;
}

bool reader_is_live(const struct reader *r)
{
	return is_procfs(r->proc_fd);
}

void reader_release(struct reader *r)
{
	buf_release(&r->command);
	free(r->text);
	r->text = NULL;
}

ssize_t reader_read(struct reader *r, struct fd_cache *k, pid_t pid, const char *file)
{
	struct fd_cache once = FD_CACHE_INIT;
	struct fd_name name = { r->proc_fd, pid, file };

	return fd_cache_read(k ? k : &once, &r->budget, name, r->text, READER_TEXT_BYTES);
}

static uint64_t count_entries(int proc_fd, pid_t pid)
{
	CLEANUP(dir_close) DIR *dir = NULL;
	const struct dirent *entry;
	uint64_t n = 0;
	char path[32];

	snprintf(path, sizeof(path), "%d/fd", (int)pid);
	dir = dir_open_at(proc_fd, path);
	if (!dir)
		return U64_UNKNOWN;
	errno = 0;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			n++;
	return errno == 0 ? n : U64_UNKNOWN;
}

uint64_t reader_count_fds(struct reader *r, struct fd_cache *k, pid_t pid)
{
	struct fd_name name = { r->proc_fd, pid, "fd" };
	uint64_t n;

	if (!r->has_fd_size)
		return count_entries(r->proc_fd, pid);
	return fd_cache_stat_size(k, &r->budget, name, &n) < 0 ? U64_UNKNOWN : n;
}
