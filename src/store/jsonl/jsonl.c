#include "store/jsonl/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"

#define BLOCK_BYTES 16384

/*
 * ---- the files of a log, as its writers and readers find them ----
 *
 * The log is PATH; what it was before are PATH.1 and PATH.2. Their names change; a file is known by
 * its inode, which no other file gets while it is held open.
 */
#define N_FILES 3

struct names {
	char *names[N_FILES]; /* newest first: the log itself, .1, .2 */
};

static void names_release(struct names *n)
{
	for (size_t i = 0; i < N_FILES; i++)
		free(n->names[i]);
	*n = (struct names){ { NULL } };
}

static int names_init(struct names *n, const char *path)
{
	static const char *const suffixes[N_FILES] = { "", ".1", ".2" };

	*n = (struct names){ { NULL } };
	for (size_t i = 0; i < N_FILES; i++)
		if (asprintf(&n->names[i], "%s%s", path, suffixes[i]) < 0) {
			n->names[i] = NULL;
			names_release(n);
			return -ENOMEM;
		}
	return 0;
}

struct file {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
	uid_t uid;
	bool has_other_names; /* hard links */
};

#define FILE_NONE                  \
	{                          \
		-1, 0, 0, 0, false \
	}

static void file_close(struct file *f)
{
	close_fd(&f->fd);
}

/*
 * -ENOENT: not there. -ELOOP: a link. -EBADMSG: not a plain file. *ret is none then. O_NONBLOCK is
 * for what is no plain file: opening a pipe would wait for its other end.
 */
static int file_open(const char *name, int flags, struct file *ret)
{
	CLEANUP(close_fd) int fd = -1;
	struct stat st;

	*ret = (struct file)FILE_NONE;
	fd = open(name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	*ret = (struct file){ TAKE_FD(fd), st.st_dev, st.st_ino, st.st_uid, st.st_nlink > 1 };
	return 0;
}

/* Whether this file has the name now; of none, whether no file has. */
static bool file_is_at(const struct file *f, const char *name)
{
	struct stat st;

	if (lstat(name, &st) < 0)
		return f->fd < 0;
	return f->fd >= 0 && f->dev == st.st_dev && f->ino == st.st_ino;
}

/* n bytes from offset; fewer only where the file ends. Returns how many. */
static ssize_t file_read(const struct file *f, void *bytes, size_t n, uint64_t offset)
{
	size_t len = 0;

	while (len < n) {
		ssize_t got = pread(f->fd, (char *)bytes + len, n - len, (off_t)(offset + len));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		len += (size_t)got;
	}
	return (ssize_t)len;
}

/* How long the file is, and how long up to its last newline: nearly always that is its last byte.
 */
static int file_find_end(const struct file *f, uint64_t *ret_size, uint64_t *ret_whole)
{
	char block[BLOCK_BYTES];
	const char *newline = NULL;
	struct stat st;
	uint64_t end;
	size_t n = 1;

	if (fstat(f->fd, &st) < 0)
		return -errno;
	for (end = (uint64_t)st.st_size; end > 0 && !newline; n = sizeof(block)) {
		ssize_t got;

		n = n < end ? n : (size_t)end;
		got = file_read(f, block, n, end - n);
		if (got < 0)
			return (int)got;
		newline = memrchr(block, '\n', (size_t)got);
		end -= newline ? n - (size_t)(newline - block) - 1 : n;
	}
	*ret_size = (uint64_t)st.st_size;
	*ret_whole = end;
	return 0;
}

/* An errno, what it means here if strerror() does not say it, and what to do. */
static const struct failure {
	int error;
	const char *why;
	const char *advice;
} failures[] = {
	{ ENOSPC, NULL, "free some room on its disk" },
	{ EDQUOT, NULL, "free some room" },
	{ EFBIG, NULL, "raise the limit (ulimit -f)" },
	{ EACCES, NULL, "change its mode or that of its folder" },
	{ EROFS, NULL, "make its disk writable" },
	{ ENOENT, "its folder is not there", "make the folder" },
	{ ELOOP, "it is a link, and links are not followed", "remove the link" },
	{ EBADMSG, "it is not a log of proctor's", "move it away" },
	{ EPERM, NULL, "make it a file of your own" },
	{ EBUSY, "another process has locked it", "try again" },
};

/* "the log PATH cannot be WHAT (why): what to do"; returns -error. */
static int fail(const char *path, const char *what, int error, struct err *err)
{
	const struct failure *f = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].error == error)
			f = &failures[i];
	return err_set(err, -error,
		       "the log %s cannot be %s (%s): %s%sset jsonl_path to another file", path,
		       what, f && f->why ? f->why : strerror(error), f ? f->advice : "",
		       f ? ", or " : "");
}

uint64_t jsonl_count_bytes(const char *path, bool only_rotated)
{
	CLEANUP(names_release) struct names names;
	uint64_t n = 0;
	struct stat st;

	if (names_init(&names, path) < 0)
		return 0;
	for (size_t i = only_rotated; i < N_FILES; i++)
		if (lstat(names.names[i], &st) == 0 && S_ISREG(st.st_mode))
			n += (uint64_t)st.st_size;
	return n;
}

bool jsonl_rotated_bytes(const char *path, uint64_t n_older, uint64_t *ret)
{
	CLEANUP(names_release) struct names names;
	struct stat st;

	if (names_init(&names, path) < 0)
		return false;
	for (size_t i = N_FILES - 1; i > 0; i--) {
		if (lstat(names.names[i], &st) < 0 || n_older-- > 0)
			continue;
		*ret = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
		return true;
	}
	return false;
}

/* With the lock of the log nobody rotates: the oldest stays it. */
int jsonl_drop_oldest(const char *path)
{
	CLEANUP(names_release) struct names names;
	CLEANUP(file_close) struct file log = FILE_NONE;
	int r = names_init(&names, path);

	if (r == 0)
		r = file_open(names.names[0], O_RDONLY, &log);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (flock(log.fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (!file_is_at(&log, names.names[0]))
		return -EBUSY;
	for (size_t i = N_FILES - 1; i > 0; i--) {
		if (unlink(names.names[i]) == 0)
			return 1;
		if (errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* ---- writing ---- */

/* Of different lengths, so that several who wait do not come back all at once. */
#define PAUSE_MIN_NS UINT64_C(200000)
#define PAUSE_SPREAD_NS UINT64_C(800000)

/* Each time somebody else has made, rotated or removed the file just before: it ends. */
#define MAX_TRIES 1000

struct jsonl {
	struct names names;
	char *folder;
	uint64_t max_bytes;
	uint64_t lock_timeout_ns;
	struct file file; /* kept open from line to line */
	struct buf line;  /* of a snapshot, to be written */
};

struct jsonl *jsonl_new(const char *path, uint64_t max_bytes)
{
	const char *slash = strrchr(path, '/');
	struct jsonl *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->file = (struct file)FILE_NONE;
	log->line = (struct buf)BUF_INIT;
	log->max_bytes = max_bytes;
	log->folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	jsonl_set_lock_timeout(log, JSONL_LOCK_TIMEOUT_DEFAULT_MS);
	if (names_init(&log->names, path) < 0 || !log->folder)
		return jsonl_free(log);
	return log;
}

struct jsonl *jsonl_free(struct jsonl *log)
{
	if (!log)
		return NULL;
	file_close(&log->file);
	names_release(&log->names);
	buf_release(&log->line);
	free(log->folder);
	free(log);
	return NULL;
}

void jsonl_set_lock_timeout(struct jsonl *log, unsigned ms)
{
	log->lock_timeout_ns = ms * UINT64_C(1000000);
}

static const char *path_of(const struct jsonl *log)
{
	return log->names.names[0];
}

static int fail_writing(const struct jsonl *log, int error, struct err *err)
{
	return fail(path_of(log), "written", error, err);
}

/*
 * In a folder that others can write, theirs could stand there to read what we log, or another name
 * of a file that is not theirs to write. Something else than a log would be appended to, cut and
 * renamed.
 */
static int check_file(const struct jsonl *log)
{
	char first = '{';
	struct stat st;
	ssize_t n;

	if (log->file.has_other_names)
		return -EMLINK;
	if (log->file.uid != geteuid() &&
	    (geteuid() != 0 || stat(log->folder, &st) < 0 || st.st_uid != log->file.uid))
		return -EPERM;
	n = file_read(&log->file, &first, 1, 0);
	if (n < 0)
		return (int)n;
	return first == '{' ? 0 : -EBADMSG;
}

/* What was just made may have been filled and rotated away by others. */
static int open_or_make(struct jsonl *log)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		CLEANUP(close_fd) int fd = -1;
		int r = file_open(path_of(log), O_RDWR | O_APPEND, &log->file);

		if (r != -ENOENT)
			return r < 0 ? r : check_file(log);
		fd = open(path_of(log), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0 || fchmod(fd, 0600) < 0) /* whatever the umask is */
			return -errno;
		path_give_to_folder_owner(path_of(log), fd);
	}
	return -EBUSY;
}

int jsonl_check(struct jsonl *log, struct err *err)
{
	int r;

	file_close(&log->file);
	r = file_open(path_of(log), O_RDWR | O_APPEND, &log->file);
	if (r == 0)
		r = check_file(log);
	else if (r == -ENOENT && faccessat(AT_FDCWD, log->folder, W_OK | X_OK, AT_EACCESS) == 0)
		r = 0;
	else if (r == -ENOENT)
		r = -errno;
	file_close(&log->file);
	return r < 0 ? fail_writing(log, -r, err) : 0;
}

static int take_lock(const struct jsonl *log, uint64_t began_ns)
{
	while (flock(log->file.fd, LOCK_EX | LOCK_NB) < 0) {
		uint64_t now_ns = clock_boot_ns();
		struct timespec pause = { .tv_nsec =
						  (long)(PAUSE_MIN_NS + now_ns % PAUSE_SPREAD_NS) };

		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (now_ns - began_ns >= log->lock_timeout_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Opens the log and locks it. A process that waited may have the lock of what is .1 by now. */
static int lock_log(struct jsonl *log, uint64_t began_ns)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		int r = log->file.fd < 0 ? open_or_make(log) : 0;

		if (r == 0)
			r = take_lock(log, began_ns);
		if (r < 0 || file_is_at(&log->file, path_of(log)))
			return r;
		file_close(&log->file);
	}
	return -EBUSY;
}

/* A file without a whole line may be anybody's: one document, from its first byte to its last. */
static bool is_half_a_line(const struct jsonl *log, uint64_t size)
{
	static const char ours[] = "{\"timestamp\":";
	char first[sizeof(ours) - 1], last = '\0';
	ssize_t n = file_read(&log->file, first, sizeof(first), 0);

	if (n <= 0 || file_read(&log->file, &last, 1, size - 1) != 1)
		return false;
	return last != '}' || memcmp(first, ours, (size_t)n) == 0;
}

/* Under the lock: cuts off what is left of a line that was not written to its end. */
static int mend(const struct jsonl *log, uint64_t *ret_size)
{
	uint64_t size, whole;
	int r = file_find_end(&log->file, &size, &whole);

	if (r < 0)
		return r;
	if (whole == 0 && size > 0 && !is_half_a_line(log, size))
		return -EBADMSG;
	if (whole < size && ftruncate(log->file.fd, (off_t)whole) < 0)
		return -errno;
	*ret_size = whole;
	return 0;
}

/*
 * Under the lock: the oldest first, so that at no moment, and not by a kill either, is a file gone
 * that should be kept. Closing lets go of the lock: the file is no log any more.
 */
static int rotate(struct jsonl *log)
{
	for (int i = N_FILES - 1; i > 0; i--)
		if (rename(log->names.names[i - 1], log->names.names[i]) < 0 && errno != ENOENT)
			return -errno;
	file_close(&log->file);
	return 0;
}

/* Locks a log that has room for a line of so many bytes, and its newline. */
static int prepare(struct jsonl *log, size_t len, uint64_t began_ns, struct err *err)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		uint64_t size = 0;
		int r = lock_log(log, began_ns);

		if (r == 0)
			r = mend(log, &size);
		if (r < 0)
			return fail_writing(log, -r, err);
		if (size == 0 || size + len + 1 <= log->max_bytes)
			return 0;
		r = rotate(log);
		if (r < 0)
			return fail(path_of(log), "rotated", -r, err);
	}
	return fail_writing(log, EBUSY, err);
}

/* One call: half a line is there only if that was cut short. */
static int write_line(int fd, const char *line, size_t len)
{
	const struct iovec parts[] = { { (char *)line, len }, { (char *)"\n", 1 } };
	ssize_t n;
	int r = 0;

	do
		n = writev(fd, parts, ARRAY_SIZE(parts));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < len)
		r = io_write_all(fd, line + n, len - (size_t)n);
	return r < 0 || (size_t)n > len ? r : io_write_all(fd, "\n", 1);
}

/* After a failure everything begins anew with the next. */
static int append(struct jsonl *log, const char *line, size_t len, struct err *err)
{
	uint64_t size;
	int r;

	if (len >= JSONL_LINE_MAX_BYTES)
		return err_set(err, -EMSGSIZE, "a line of %zu bytes is too long for the log %s",
			       len + 1, path_of(log));
	r = prepare(log, len, clock_boot_ns(), err);
	if (r == 0) {
		r = write_line(log->file.fd, line, len);
		if (r < 0) {
			mend(log, &size); /* if that fails too, the next line does it */
			fail_writing(log, -r, err);
		}
	}
	if (r < 0)
		file_close(&log->file);
	else
		flock(log->file.fd, LOCK_UN);
	return r;
}

int jsonl_append(struct jsonl *log, const char *line, size_t len, struct err *err)
{
	if (len == 0 || line[0] != '{' || memchr(line, '\n', len))
		return err_set(err, -EINVAL, "what the log %s takes is a JSON object in one line",
			       path_of(log));
	return append(log, line, len, err);
}

int jsonl_append_snapshot(struct jsonl *log, const struct snapshot *snap, struct err *err)
{
	struct json j;

	buf_reset(&log->line);
	json_init(&j, &log->line);
	snapshot_write_json(&j, snap, SNAPSHOT_JOBS);
	if (buf_error(&log->line) < 0)
		return err_set(err, -ENOMEM, "no memory left for a line of the log %s",
			       path_of(log));
	return append(log, log->line.data, log->line.len, err);
}
