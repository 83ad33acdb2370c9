#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"
#include "log/log.h"

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

static int parse_number(const char *name)
{
	uint64_t n;

	return num_parse_u64(name, &n) == 0 && n < INT_MAX - 1 ? (int)n : -1;
}

/*
 * The number that the folder has as a file, and the highest if there are more. -EAGAIN: none was
 * seen, as another run renamed it meanwhile, or the folder is one that log_forget_numbers() left.
 */
static int find_number(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), highest = -EAGAIN;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!dir) {
		int r = -errno;

		if (copy >= 0)
			close(copy);
		return r;
	}
	while ((entry = readdir(dir))) {
		int n = parse_number(entry->d_name);

		if (n >= 0 && n > highest)
			highest = n;
	}
	closedir(dir);
	return highest;
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

void log_forget_numbers(int folder_fd, const char *job_id)
{
	CLEANUP(close_fd) int fd = -1;
	char name[NAME_MAX + 1], number[NUMBER_NAME_BYTES];
	int n;

	if (folder_name(job_id, name) < 0)
		return;
	fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	n = find_number(fd);
	snprintf(number, sizeof(number), "%d", n);
	if (n >= 0)
		(void)unlinkat(fd, number, 0);
	(void)unlinkat(folder_fd, name, AT_REMOVEDIR);
}
