#include "sources/reader.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/unknown.h"

static bool is_procfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/*
 * Since Linux 6.2 st_size of proc/PID/fd is the number of open files; before,
 * it is always 0, and in a captured tree it is the size of some folder. A
 * single 0 would not tell an old kernel from a process without files, but we
 * ourselves do have files open: so our own entry decides, once.
 */
static bool probe_fd_size(int proc_fd)
{
	struct stat st;

	return is_procfs(proc_fd) && fstatat(proc_fd, "self/fd", &st, 0) == 0 && st.st_size > 0;
}

int reader_init(struct reader *r, int proc_fd)
{
	r->proc_fd = proc_fd;
	r->has_fd_size = probe_fd_size(proc_fd);
	r->command = (struct buf)BUF_INIT;
	r->text = malloc(READER_TEXT_BYTES);
	/* The files of a captured tree have no process: one that is replaced would stay as it was.
	 */
	if (is_procfs(proc_fd))
		r->budget = kept_budget_from_limit();
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

ssize_t reader_read(struct reader *r, struct kept *k, pid_t pid, const char *file)
{
	struct kept once = KEPT_INIT;
	struct kept_name name = { r->proc_fd, pid, file };

	return kept_read(k ? k : &once, &r->budget, name, r->text, READER_TEXT_BYTES);
}

static void close_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

static uint64_t count_entries(int proc_fd, pid_t pid)
{
	CLEANUP(close_dir) DIR *dir = NULL;
	const struct dirent *entry;
	uint64_t n = 0;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "%d/fd", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return U64_UNKNOWN;
	dir = fdopendir(fd);
	if (!dir) {
		close_fd(&fd);
		return U64_UNKNOWN;
	}
	errno = 0;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			n++;
	return errno == 0 ? n : U64_UNKNOWN;
}

uint64_t reader_count_fds(struct reader *r, struct kept *k, pid_t pid)
{
	struct kept_name name = { r->proc_fd, pid, "fd" };
	uint64_t n;

	if (!r->has_fd_size)
		return count_entries(r->proc_fd, pid);
	return kept_stat_size(k, &r->budget, name, &n) < 0 ? U64_UNKNOWN : n;
}
