/*
 * open_files - what a process has open, by the links in proc/PID/fd.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "sources/parse_process.h"
#include "sources/sources.h"

#define STAT_BYTES 4096
#define MAX_COUNTED 65536 /* entries; a process with more is slow to list */

/* The folder stays that of one process: who takes the pid later has another. */
static int open_process(int root_fd, struct proc_key key)
{
	char path[32], text[STAT_BYTES];
	struct pid_stat st;
	int fd;

	snprintf(path, sizeof(path), "proc/%d", (int)key.pid);
	fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (io_read_text_at(fd, "stat", text, sizeof(text)) > 0 && pid_stat_parse(text, &st) == 0 &&
	    st.start_ticks == key.start_ticks)
		return fd;
	close(fd);
	return -ESRCH;
}

static void close_folder(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

static DIR *open_fds(int process_fd)
{
	CLEANUP(close_fd) int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (folder)
		fd = -1; /* the DIR has it now */
	return folder;
}

/* A name may be as telling as a command line: it is shown as one. */
static void show_target(const struct mask *mask, char *link, size_t n, struct anomaly_file *file)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t length;

	link[n] = '\0';
	mask_command(mask, link, n + 1, &shown);
	if (buf_error(&shown) < 0)
		return;
	length = utf8_cut(shown.data, shown.len, sizeof(file->target) - 1);
	memcpy(file->target, shown.data, length);
	file->target[length] = '\0';
}

static void add_file(DIR *folder, const char *name, const struct mask *mask,
		     struct anomaly_evidence *e)
{
	struct anomaly_file *file = &e->files[e->n_files];
	char link[PATH_MAX];
	uint64_t fd;
	ssize_t n;

	if (num_parse_u64(name, &fd) < 0 || fd > INT_MAX)
		return;
	n = readlinkat(dirfd(folder), name, link, sizeof(link) - 1);
	if (n < 0)
		return; /* closed meanwhile */
	*file = (struct anomaly_file){ .fd = (int)fd };
	show_target(mask, link, (size_t)n, file);
	e->n_files++;
}

int sources_read_open_files(int root_fd, struct proc_key key, const struct mask *mask,
			    struct anomaly_evidence *e)
{
	CLEANUP(close_fd) int process_fd = open_process(root_fd, key);
	CLEANUP(close_folder) DIR *folder = NULL;
	const struct dirent *entry;
	uint64_t n = 0;

	if (process_fd < 0)
		return process_fd;
	folder = open_fds(process_fd);
	if (!folder)
		return -errno;
	e->n_files = 0;
	while (n < MAX_COUNTED && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		if (e->n_files < ARRAY_SIZE(e->files))
			add_file(folder, entry->d_name, mask, e);
	}
	e->n_files_open = n < MAX_COUNTED ? n : U64_UNKNOWN;
	return 0;
}
