#include "sources/pids.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/num.h"

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

void pid_list_release(struct pid_list *list)
{
	free(list->items);
	*list = (struct pid_list){ 0 };
}

int pid_list_add(struct pid_list *list, pid_t pid)
{
	if (ARRAY_RESERVE(list->items, list->cap, list->n + 1) < 0)
		return -ENOMEM;
	list->items[list->n++] = pid;
	return 0;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* The kernel lists pids in order already; a captured tree does not. */
static void pid_list_sort(struct pid_list *list)
{
	for (size_t i = 1; i < list->n; i++) {
		if (list->items[i - 1] > list->items[i]) {
			qsort(list->items, list->n, sizeof(*list->items), compare_pids);
			return;
		}
	}
}

int pid_list_read(struct pid_list *list, DIR *proc)
{
	pid_t pid;

	list->n = 0;
	rewinddir(proc);
	while ((pid = dir_next_pid(proc)) > 0)
		if (pid_list_add(list, pid) < 0)
			return -ENOMEM;
	if (errno != 0)
		return -errno;
	pid_list_sort(list);
	return 0;
}

int pid_list_set(struct pid_list *list, const pid_t *pids, size_t n)
{
	size_t kept = 0;

	list->n = 0;
	for (size_t i = 0; i < n; i++)
		if (pid_list_add(list, pids[i]) < 0)
			return -ENOMEM;
	pid_list_sort(list);
	for (size_t i = 0; i < list->n; i++)
		if (i == 0 || list->items[i] != list->items[i - 1])
			list->items[kept++] = list->items[i];
	list->n = kept;
	return 0;
}
