#include "daemon/follow/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/num.h"

/* More than any job that somebody means; the rest is found at the next look. */
#define MAX_PIDS 65536
#define MAX_LIST_BYTES (1 << 20)

struct found {
	pid_t *items;
	size_t n, cap;
};

static void release_found(struct found *f)
{
	free(f->items);
}

static bool add(struct found *f, pid_t pid)
{
	if (f->n == MAX_PIDS)
		return false;
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 64;
		pid_t *grown = reallocarray(f->items, cap, sizeof(*grown));

		if (!grown)
			return false;
		f->items = grown;
		f->cap = cap;
	}
	f->items[f->n++] = pid;
	return true;
}

/* "12 34 " */
static void add_list(struct found *f, const char *text)
{
	uint64_t pid;

	while (num_scan_u64(&text, &pid) == 0 && pid > 1 && pid <= INT32_MAX)
		if (!add(f, (pid_t)pid) || *text++ != ' ')
			return;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static DIR *open_threads(int root_fd, pid_t pid)
{
	char path[48];
	int fd;
	DIR *dir;

	snprintf(path, sizeof(path), "proc/%d/task", (int)pid);
	fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* Each thread has its own. */
static void add_children(struct found *f, int root_fd, pid_t pid)
{
	CLEANUP(close_dir) DIR *threads = open_threads(root_fd, pid);
	struct dirent *entry;

	while (threads && (entry = readdir(threads))) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		char path[300];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/children", entry->d_name);
		if (io_read_at(dirfd(threads), path, MAX_LIST_BYTES, &text) >= 0 && text.len > 0)
			add_list(f, text.data);
	}
}

void descendants_each(int root_fd, pid_t pid, descendants_fn *fn, void *ctx)
{
	CLEANUP(release_found) struct found found = { 0 };

	add_children(&found, root_fd, pid);
	for (size_t i = 0; i < found.n; i++) {
		fn(ctx, found.items[i]);
		add_children(&found, root_fd, found.items[i]);
	}
}
