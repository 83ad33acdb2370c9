#include "store/make.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "store/journal.h"
#include "store/layout.h"
#include "store/sqlite.h"
#include "store/store.h"

/* Of the file's header. */
#define AT_WRITE_VERSION 18 /* and behind it that of readers */
#define AT_LAYOUT 60	    /* PRAGMA user_version */
#define VERSION_WAL 2

/* ---- in memory ---- */

static void close_db(sqlite3 **db)
{
	sqlite3_close(*db);
}

static void free_image(unsigned char **image)
{
	sqlite3_free(*image);
}

/* As a file of this name has it; NULL: it cannot be made. */
static unsigned char *make_image(const char *name, size_t *ret_len)
{
	CLEANUP(close_db) sqlite3 *db = NULL;
	sqlite3_int64 len = 0;
	unsigned char *image;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK || layout_make(db) != SQLITE_OK)
		return NULL;
	image = sqlite3_serialize(db, "main", &len, 0);
	if (!image || len < AT_LAYOUT)
		return image;
	if (!journal_is_shared(name))
		image[AT_WRITE_VERSION] = image[AT_WRITE_VERSION + 1] = VERSION_WAL;
	*ret_len = (size_t)len;
	return image;
}

/* ---- on the disk ---- */

static bool is_beside(const char *path, const char *suffix)
{
	CLEANUP(free_ptr) char *name = NULL;
	struct stat st;

	return asprintf(&name, "%s%s", path, suffix) < 0 || lstat(name, &st) == 0;
}

/* A file without a name in the folder of the database. */
static int open_nameless(const char *path)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(free_ptr)
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	return folder ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
}

/*
 * 1: it is there. 0: another has made one meanwhile. What lies beside it would be taken for its
 * log, or for what it is to be rolled back to; of an empty file nobody takes it so.
 */
static int make_whole(const char *path)
{
	CLEANUP(close_fd) int fd = -1;
	CLEANUP(free_image) unsigned char *image = NULL;
	char name[32];
	size_t len = 0;
	int r;

	if (is_beside(path, "-wal") || is_beside(path, "-journal"))
		return -EEXIST;
	fd = open_nameless(path);
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return -errno;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	image = make_image(name, &len);
	r = len > 0 ? io_write_all(fd, image, len) : -ENOMEM;
	if (r < 0)
		return r;
	path_give_to_folder_owner(path, fd);
	if (fsync(fd) < 0)
		return -errno;
	if (linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return errno == EEXIST ? 0 : -errno;
	r = io_sync_folder_of(path);
	return r < 0 ? r : 1;
}

/*
 * SQLite would make it with the umask's mode. Its -wal and -shm get the mode and
 * owner of the file. O_EXCL also means that no file is opened and closed here
 * which another handle of this process has locked: closing would drop its locks.
 */
static int make_empty(const char *path, struct err *err)
{
	CLEANUP(close_fd) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return err_set(err, -errno,
			       "cannot make the database %s (%s): set PROCTOR_HOME to a folder "
			       "that can be written",
			       path, strerror(errno));
	path_give_to_folder_owner(path, fd);
	return 0;
}

int make_database(const char *path, struct err *err)
{
	struct stat st;
	int r = lstat(path, &st) == 0 ? 0 : make_whole(path);

	return r < 0 ? make_empty(path, err) : r;
}

bool store_is_ready(const char *path)
{
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	uint32_t layout;

	return fd >= 0 &&
	       pread(fd, &layout, sizeof(layout), AT_LAYOUT) == (ssize_t)sizeof(layout) &&
	       be32toh(layout) == LAYOUT;
}
