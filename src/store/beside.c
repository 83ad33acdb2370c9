#include "store/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"

static const char *const suffixes[] = { "-wal", "-shm" };

/* They lie beside the file, not beside a link to it. NULL: no memory, or there is none. */
static char *find_file(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(path, NULL) : strdup(path);
}

/*
 * By O_PATH: closing any other descriptor of the file would drop the locks that this process may
 * have on it. A link that somebody has put there is not followed.
 */
static int give_mode(const char *name, mode_t mode, bool only_look)
{
	CLEANUP(close_fd) int fd = open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char link[32];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -EACCES;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return only_look || chmod(link, mode & 0777) == 0 ? 0 : -errno;
}

static int look_at(const char *file, const char *suffix, bool only_look, struct err *err)
{
	CLEANUP(free_ptr) char *name = NULL;
	struct stat st;
	int r;

	if (asprintf(&name, "%s%s", file, suffix) < 0)
		return err_set(err, -ENOMEM, "no memory left to open the database %s", file);
	if (faccessat(AT_FDCWD, name, W_OK, AT_EACCESS) == 0 || errno != EACCES)
		return 0; /* what else may be wrong SQLite finds */
	r = stat(file, &st) < 0 ? -errno : give_mode(name, st.st_mode, only_look);
	if (r == 0)
		return 0;
	return err_set(err, r,
		       "the database cannot be written, as %s beside it cannot (%s): give it the "
		       "owner and the mode that the database has, or set PROCTOR_HOME to another "
		       "folder",
		       name, strerror(-r));
}

static int look(const char *path, bool only_look, struct err *err)
{
	CLEANUP(free_ptr) char *file = find_file(path);
	int r = 0;

	for (size_t i = 0; file && r == 0 && i < ARRAY_SIZE(suffixes); i++)
		r = look_at(file, suffixes[i], only_look, err);
	return r;
}

int beside_make_writable(const char *path, struct err *err)
{
	return look(path, false, err);
}

int beside_check(const char *path, struct err *err)
{
	return look(path, true, err);
}
