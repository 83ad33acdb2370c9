/*
 * How a database gets out of the way, so that a crash at any moment loses nothing
 * and never leaves the log of the old database beside a new one:
 *
 *	1. An empty file is made under the new name. It and the database are locked,
 *	   as SQLite locks, against everybody.
 *	2. -wal, -shm and -journal get a second name beside the new one.
 *	3. The database and the empty file exchange their names, in one step.
 *	4. The old names of the three are removed; who comes now waits for the lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/holder.h"
#include "store/store.h"

#define STAMP_BYTES 24
#define NAMES_TRIED 100 /* of the same second */

/* What belongs to a database, by what is added to its name. */
static const char *const companions[] = { "-wal", "-shm", "-journal" };

struct aside {
	char *from; /* the database itself, not a link to it */
	char *to;
	int from_fd, to_fd; /* closing them drops the locks */
};

static void aside_release(struct aside *a)
{
	free(a->from);
	free(a->to);
	close_fd(&a->from_fd);
	close_fd(&a->to_fd);
}

static int refuse_move(const struct aside *a, int error, struct err *err)
{
	return err_set(err, error,
		       "the database %s is damaged, and cannot be moved aside (%s): set "
		       "PROCTOR_HOME to another folder",
		       a->from, strerror(-error));
}

static int refuse_busy(const struct aside *a, pid_t pid, struct err *err)
{
	char holder[HOLDER_BYTES];

	holder_describe(pid, holder);
	return err_set(
		err, -EBUSY,
		"the database %s is damaged, and cannot be moved aside while %s has it open: "
		"wait for it or end it",
		a->from, holder);
}

/* ---- whether it is a case for this ---- */

static void close_store(struct store **store)
{
	*store = store_close(*store);
}

/* 0 if it is damaged. */
static int diagnose(const char *path, bool all, struct err *err)
{
	CLEANUP(close_store) struct store *store = NULL;
	int r = store_open(path, STORE_READ, &store, err);

	if (r == 0)
		r = store_check(store, 0, err);
	if (r == 0)
		return err_set(err, -EALREADY, "the database %s is sound", path);
	if (r == -ENODATA) /* the next to write begins a new log */
		return -EALREADY;
	return r == -EBADMSG || (r == -EUCLEAN && all) ? 0 : r;
}

/* What cannot be looked at store_open() tells better. */
static int find_damaged(const char *path, bool all, struct aside *ret, struct stat *ret_st,
			struct err *err)
{
	int r;

	*ret_st = (struct stat){ 0 };
	if (stat(path, ret_st) == 0 && !S_ISREG(ret_st->st_mode))
		return err_set(err, -EBADMSG, "%s is not a file: move it away", path);
	r = diagnose(path, all, err);
	if (r < 0)
		return r;
	ret->from = realpath(path, NULL);
	return ret->from ? 0 : err_set(err, -errno, "cannot find %s: %s", path, strerror(errno));
}

/* ---- locks ---- */

/* As SQLite locks a file that it is about to change: nobody may read or write it. */
static int lock_whole(int fd, struct flock *ret)
{
	*ret = (struct flock){ .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = HOLDER_PENDING,
			       .l_len = HOLDER_LAST - HOLDER_PENDING + 1 };
	return fcntl(fd, F_SETLK, ret) < 0 ? -errno : 0;
}

static pid_t find_locker(int fd, struct flock *lock)
{
	if (fcntl(fd, F_GETLK, lock) < 0 || lock->l_type == F_UNLCK)
		return 0;
	return lock->l_pid;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Somebody else may have moved it before we had the lock. */
static int check_unmoved(const struct aside *a, const struct stat *examined, struct err *err)
{
	struct stat named, opened;

	if (stat(a->from, &named) == 0 && fstat(a->from_fd, &opened) == 0 &&
	    is_same_file(&named, examined) && is_same_file(&opened, examined))
		return 0;
	return err_set(err, -EBUSY,
		       "the database %s was replaced while it was looked at: try again", a->from);
}

/* With a rollback journal who has it open need not have a lock. */
static int take_alone(struct aside *a, const struct stat *examined, struct err *err)
{
	struct flock lock;
	pid_t opener;
	int r;

	a->from_fd = open(a->from, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (a->from_fd < 0)
		return refuse_move(a, -errno, err);
	r = lock_whole(a->from_fd, &lock);
	if (r == -EAGAIN || r == -EACCES)
		return refuse_busy(a, find_locker(a->from_fd, &lock), err);
	if (r < 0)
		return refuse_move(a, r, err);
	r = check_unmoved(a, examined, err);
	if (r < 0)
		return r;
	opener = holder_find_opener(examined);
	return opener ? refuse_busy(a, opener, err) : 0;
}

/* ---- names ---- */

/* path and a companion's suffix; NULL: no memory. */
static char *name_of(const char *path, const char *suffix)
{
	char *name = NULL;

	return asprintf(&name, "%s%s", path, suffix) < 0 ? NULL : name;
}

static bool is_free(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 && errno == ENOENT;
}

static bool is_wholly_free(const char *path)
{
	bool free_so_far = is_free(path);

	for (size_t i = 0; i < ARRAY_SIZE(companions) && free_so_far; i++) {
		CLEANUP(free_ptr) char *name = name_of(path, companions[i]);

		free_so_far = name && is_free(name);
	}
	return free_so_far;
}

/* The moment, in UTC; the second of the same second gets a number. */
static char *invent_name(const char *from, const char *stamp, int num)
{
	char number[16] = "";
	char *name = NULL;

	if (num > 1)
		snprintf(number, sizeof(number), "-%d", num);
	return asprintf(&name, "%s.damaged-%s%s", from, stamp, number) < 0 ? NULL : name;
}

static void format_stamp(char ret[STAMP_BYTES])
{
	time_t now = (time_t)(clock_wall_ns() / 1000000000u);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || strftime(ret, STAMP_BYTES, "%Y%m%dT%H%M%SZ", &tm) == 0)
		snprintf(ret, STAMP_BYTES, "unknown");
}

/* The empty file, for whom the database was. */
static int make_empty(const char *path, int like_fd)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) < 0 || fstat(like_fd, &st) < 0 ||
	    (geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) < 0)) {
		int error = errno;

		unlink(path);
		close(fd);
		return -error;
	}
	return fd;
}

static int reserve_name(struct aside *a, struct err *err)
{
	char stamp[STAMP_BYTES];
	struct flock lock;
	int r = -EEXIST;

	format_stamp(stamp);
	for (int num = 1; r == -EEXIST && num <= NAMES_TRIED; num++) {
		free(a->to);
		a->to = invent_name(a->from, stamp, num);
		if (!a->to)
			return refuse_move(a, -ENOMEM, err);
		if (is_wholly_free(a->to))
			r = make_empty(a->to, a->from_fd);
	}
	if (r < 0)
		return refuse_move(a, r, err);
	a->to_fd = r;
	r = lock_whole(a->to_fd, &lock);
	if (r < 0)
		unlink(a->to); /* the empty file */
	return r < 0 ? refuse_move(a, r, err) : 0;
}

/* ---- moving ---- */

/* A second name; where files have only one (FAT), another. */
static int rename_beside(const char *from, const char *to)
{
	if (is_free(from) || link(from, to) == 0)
		return 0;
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	return rename(from, to) < 0 ? -errno : 0;
}

/* The file stays: it has its other name. */
static int drop_old_name(const char *from, const char *to)
{
	return is_free(from) || is_free(to) || unlink(from) == 0 ? 0 : -errno;
}

static int restore_name(const char *from, const char *to)
{
	if (is_free(to))
		return 0;
	return (is_free(from) ? rename(to, from) : unlink(to)) < 0 ? -errno : 0;
}

/* Goes on after a failure, and returns the first. */
static int for_companions(const struct aside *a, int (*fn)(const char *from, const char *to))
{
	int first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		CLEANUP(free_ptr) char *from = name_of(a->from, companions[i]);
		CLEANUP(free_ptr) char *to = name_of(a->to, companions[i]);
		int r = from && to ? fn(from, to) : -ENOMEM;

		if (first == 0)
			first = r;
	}
	return first;
}

/* What the disk does not have after this is lost with the power, and no harm is done. */
static void sync_folder(const char *path)
{
	CLEANUP(free_ptr) char *folder = strndup(path, (size_t)(strrchr(path, '/') - path) + 1);
	CLEANUP(close_fd) int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		fsync(fd);
}

/*
 * Where two names cannot be exchanged (NFS) the database takes the place of the
 * empty file, and the old names go before it: its own is free afterwards.
 */
static int move_without_exchange(const struct aside *a)
{
	CLEANUP(close_fd) int fd = -1;
	int r = for_companions(a, drop_old_name);

	if (r == 0 && rename(a->from, a->to) < 0)
		r = -errno;
	if (r == 0)
		fd = make_empty(a->from, a->from_fd); /* or somebody was faster */
	return r;
}

static int move_database(const struct aside *a)
{
	if (renameat2(AT_FDCWD, a->from, AT_FDCWD, a->to, RENAME_EXCHANGE) < 0)
		return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP
			       ? move_without_exchange(a)
			       : -errno;
	/* It is done. With an old log that could not be removed the empty one is not opened. */
	for_companions(a, drop_old_name);
	return 0;
}

/* Nothing has changed if this fails. */
static int move(const struct aside *a, struct err *err)
{
	int r = for_companions(a, rename_beside);

	if (r == 0) {
		sync_folder(a->from);
		r = move_database(a);
	}
	if (r < 0) {
		for_companions(a, restore_name);
		unlink(a->to); /* the empty file */
	}
	sync_folder(a->from);
	return r < 0 ? refuse_move(a, r, err) : 0;
}

int store_set_aside(const char *path, bool all, char **ret_aside, struct err *err)
{
	CLEANUP(aside_release) struct aside a = { .from_fd = -1, .to_fd = -1 };
	struct stat examined;
	int r;

	r = find_damaged(path, all, &a, &examined, err);
	if (r < 0)
		return r;
	r = take_alone(&a, &examined, err);
	if (r < 0)
		return r;
	r = reserve_name(&a, err);
	if (r < 0)
		return r;
	r = move(&a, err);
	if (r < 0)
		return r;
	*ret_aside = TAKE_PTR(a.to);
	return 0;
}
