#include "store/spool_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

#define PAUSE_NS 5000000
#define MAX_TRIES 100 /* to lock a file that is renamed again and again */

char *spool_name(const char *db_path)
{
	char *name = NULL;

	return asprintf(&name, "%s-spool", db_path) < 0 ? NULL : name;
}

/* One with a second name may be anything: a user can give one to a file of root. */
static int check_owner(const char *db_path, const struct stat *st)
{
	struct stat db;

	if (!S_ISREG(st->st_mode))
		return -EBADMSG;
	if (st->st_nlink > 1)
		return -EMLINK;
	if (st->st_uid == geteuid())
		return 0;
	if (geteuid() == 0 && stat(db_path, &db) == 0 && db.st_uid == st->st_uid)
		return 0;
	return -EPERM;
}

int spool_open(const char *db_path, int flags, int *ret_fd)
{
	CLEANUP(free_ptr) char *name = spool_name(db_path);
	CLEANUP(close_fd) int fd = -1;
	struct stat st;
	int r;

	if (!name)
		return -ENOMEM;
	fd = open(name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = check_owner(db_path, &st);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Its owner's, whatever the umask was; and it may be the user's database that root writes. */
static void give_to_owner(const char *db_path, int fd)
{
	struct stat st;

	(void)fchmod(fd, 0600); /* a file system without modes */
	if (geteuid() == 0 && stat(db_path, &st) == 0 && st.st_uid != 0 &&
	    fchown(fd, st.st_uid, st.st_gid) < 0)
		return; /* a file system without owners */
}

static int lock(int fd, uint64_t patience_ns)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t began_ns = clock_boot_ns();

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (clock_boot_ns() - began_ns >= patience_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Who waited may have the lock of one that was set aside by now. */
static bool is_at(int fd, const char *name)
{
	struct stat own, there;

	return fstat(fd, &own) == 0 && lstat(name, &there) == 0 && own.st_dev == there.st_dev &&
	       own.st_ino == there.st_ino;
}

int spool_open_locked(const char *db_path, int flags, uint64_t patience_ns, int *ret_fd)
{
	CLEANUP(free_ptr) char *name = spool_name(db_path);

	if (!name)
		return -ENOMEM;
	for (int i = 0; i < MAX_TRIES; i++) {
		CLEANUP(close_fd) int fd = -1;
		int r = spool_open(db_path, flags, &fd);

		if (r == 0)
			r = lock(fd, patience_ns);
		if (r < 0)
			return r;
		if (!is_at(fd, name))
			continue;
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	return -EBUSY;
}

int spool_open_or_make(const char *db_path, uint64_t patience_ns, int *ret_fd)
{
	struct stat st;
	int r = spool_open_locked(db_path, O_RDWR | O_CREAT, patience_ns, ret_fd);

	if (r == 0 && fstat(*ret_fd, &st) == 0 && st.st_size == 0)
		give_to_owner(db_path, *ret_fd);
	return r;
}

int spool_sync_folder(const char *db_path)
{
	const char *slash = strrchr(db_path, '/');
	CLEANUP(free_ptr)
	char *folder = slash ? strndup(db_path, (size_t)(slash - db_path) + 1) : strdup(".");
	CLEANUP(close_fd) int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd >= 0 && fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}
