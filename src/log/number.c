#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/num.h"
#include "log/log.h"

#define NUMBER_NAME_BYTES 12

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

	return num_parse_u64(name, &n) == 0 && n < INT_MAX ? (int)n : -1;
}

/* The highest number there is, 0 if there is none. Removes all that are lower than `below`. */
static int walk_numbers(int fd, int below)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), highest = 0;
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

		if (n > highest)
			highest = n;
		if (n >= 0 && n < below)
			(void)unlinkat(fd, entry->d_name, 0);
	}
	closedir(dir);
	return highest;
}

int log_take_number(int folder_fd, const char *job_id, int *ret, struct err *err)
{
	CLEANUP(close_fd) int fd = -1;
	char name[NAME_MAX + 1], number[NUMBER_NAME_BYTES];
	int n, file;

	if (folder_name(job_id, name) < 0)
		return err_set(err, -EINVAL, "%s is no name of a job", job_id);
	if (mkdirat(folder_fd, name, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make a folder for the job: %s",
			       strerror(errno));
	fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open the folder of the job: %s",
			       strerror(errno));
	n = walk_numbers(fd, 0);
	do { /* another run may take the same one */
		if (n < 0 || n == INT_MAX - 1)
			return err_set(err, n < 0 ? n : -EOVERFLOW, "cannot number this run of %s",
				       job_id);
		snprintf(number, sizeof(number), "%d", ++n);
		file = openat(fd, number, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	} while (file < 0 && errno == EEXIST);
	if (file < 0)
		return err_set(err, -errno, "cannot number this run of %s: %s", job_id,
			       strerror(errno));
	close(file);
	if (n > 1)
		(void)walk_numbers(fd, n);
	*ret = n;
	return 0;
}

void log_forget_numbers(int folder_fd, const char *job_id)
{
	CLEANUP(close_fd) int fd = -1;
	char name[NAME_MAX + 1];

	if (folder_name(job_id, name) < 0)
		return;
	fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)walk_numbers(fd, INT_MAX);
	(void)unlinkat(folder_fd, name, AT_REMOVEDIR);
}
