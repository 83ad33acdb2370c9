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
#include "store/jsonl/jsonl_file.h"

#define BLOCK_BYTES 16384

int jsonl_names_init(struct jsonl_names *n, const char *path)
{
	static const char *const suffixes[JSONL_FILES] = { "", ".1", ".2" };

	*n = (struct jsonl_names){ { NULL } };
	for (size_t i = 0; i < JSONL_FILES; i++)
		if (asprintf(&n->names[i], "%s%s", path, suffixes[i]) < 0) {
			n->names[i] = NULL;
			jsonl_names_release(n);
			return -ENOMEM;
		}
	return 0;
}

void jsonl_names_release(struct jsonl_names *n)
{
	for (size_t i = 0; i < JSONL_FILES; i++)
		free(n->names[i]);
	*n = (struct jsonl_names){ { NULL } };
}

/* O_NONBLOCK is for what is no plain file: opening a pipe would wait for its other end. */
int jsonl_file_open(const char *name, int flags, struct jsonl_file *ret)
{
	CLEANUP(close_fd) int fd = -1;
	struct stat st;

	*ret = (struct jsonl_file)JSONL_FILE_NONE;
	fd = open(name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	*ret = (struct jsonl_file){ TAKE_FD(fd), st.st_dev, st.st_ino, st.st_uid, st.st_nlink > 1 };
	return 0;
}

void jsonl_file_close(struct jsonl_file *f)
{
	close_fd(&f->fd);
}

bool jsonl_file_is_same(const struct jsonl_file *a, const struct jsonl_file *b)
{
	return a->fd >= 0 && b->fd >= 0 && a->dev == b->dev && a->ino == b->ino;
}

bool jsonl_file_is_at(const struct jsonl_file *f, const char *name)
{
	struct stat st;

	if (lstat(name, &st) < 0)
		return f->fd < 0;
	return f->fd >= 0 && f->dev == st.st_dev && f->ino == st.st_ino;
}

ssize_t jsonl_file_read(const struct jsonl_file *f, void *bytes, size_t n, uint64_t offset)
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

/* Backwards from size; nearly always the last byte is a newline. */
static int find_newline(const struct jsonl_file *f, uint64_t size, uint64_t *ret_end)
{
	char block[BLOCK_BYTES];
	uint64_t end = size;
	size_t n = 1;

	for (; end > 0; end -= n, n = sizeof(block)) {
		const char *newline;
		ssize_t got;

		n = n < end ? n : (size_t)end;
		got = jsonl_file_read(f, block, n, end - n);
		if (got < 0)
			return (int)got;
		newline = memrchr(block, '\n', (size_t)got);
		if (newline) {
			*ret_end = end - n + (uint64_t)(newline - block) + 1;
			return 0;
		}
	}
	*ret_end = 0;
	return 0;
}

int jsonl_file_find_end(const struct jsonl_file *f, uint64_t *ret_size, uint64_t *ret_whole)
{
	struct stat st;
	int r;

	if (fstat(f->fd, &st) < 0)
		return -errno;
	r = find_newline(f, (uint64_t)st.st_size, ret_whole);
	if (r < 0)
		return r;
	*ret_size = (uint64_t)st.st_size;
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

int jsonl_file_fail(const char *path, const char *what, int error, struct err *err)
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

static uint64_t size_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* Of the files from this one on. */
static uint64_t count_from(const char *path, size_t first)
{
	CLEANUP(jsonl_names_release) struct jsonl_names names;
	uint64_t n = 0;

	if (jsonl_names_init(&names, path) < 0)
		return 0;
	for (size_t i = first; i < JSONL_FILES; i++)
		n += size_of(names.names[i]);
	return n;
}

uint64_t jsonl_count_bytes(const char *path)
{
	return count_from(path, 0);
}

uint64_t jsonl_count_rotated_bytes(const char *path)
{
	return count_from(path, 1);
}

/* Nobody rotates while we hold the log: what is the oldest stays it. */
static int lock_log(const char *name, struct jsonl_file *ret)
{
	int r = jsonl_file_open(name, O_RDONLY, ret);

	if (r < 0)
		return r;
	if (flock(ret->fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return jsonl_file_is_at(ret, name) ? 0 : -EBUSY;
}

int jsonl_drop_oldest(const char *path)
{
	CLEANUP(jsonl_names_release) struct jsonl_names names;
	CLEANUP(jsonl_file_close) struct jsonl_file log = JSONL_FILE_NONE;
	int r = jsonl_names_init(&names, path);

	if (r == 0)
		r = lock_log(names.names[0], &log);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = JSONL_FILES - 1; i > 0; i--) {
		if (unlink(names.names[i]) == 0)
			return 1;
		if (errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* Of different lengths, so that several who wait do not come back all at once. */
#define PAUSE_MIN_NS UINT64_C(200000)
#define PAUSE_SPREAD_NS UINT64_C(800000)

/* Each time somebody else has made, rotated or removed the file just before: it ends. */
#define MAX_TRIES 1000

struct jsonl {
	struct jsonl_names names;
	char *folder;
	uint64_t max_bytes;
	uint64_t patience_ns;
	struct jsonl_file file; /* kept open from line to line */
	struct buf line;	/* of a snapshot, to be written */
};

struct jsonl *jsonl_new(const char *path, uint64_t max_bytes)
{
	const char *slash = strrchr(path, '/');
	struct jsonl *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->file = (struct jsonl_file)JSONL_FILE_NONE;
	log->line = (struct buf)BUF_INIT;
	log->max_bytes = max_bytes;
	log->folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	jsonl_set_patience(log, JSONL_PATIENCE_DEFAULT_MS);
	if (jsonl_names_init(&log->names, path) < 0 || !log->folder)
		return jsonl_free(log);
	return log;
}

struct jsonl *jsonl_free(struct jsonl *log)
{
	if (!log)
		return NULL;
	jsonl_file_close(&log->file);
	jsonl_names_release(&log->names);
	buf_release(&log->line);
	free(log->folder);
	free(log);
	return NULL;
}

void jsonl_set_patience(struct jsonl *log, unsigned ms)
{
	log->patience_ns = ms * UINT64_C(1000000);
}

static const char *path_of(const struct jsonl *log)
{
	return log->names.names[0];
}

static int fail(const struct jsonl *log, int error, struct err *err)
{
	return jsonl_file_fail(path_of(log), "written", error, err);
}

/* ---- the file ---- */

static int make_file(const struct jsonl *log)
{
	CLEANUP(close_fd) int fd = -1;

	fd = open(path_of(log), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	if (fchmod(fd, 0600) < 0) /* whatever the umask is */
		return -errno;
	path_give_to_folder_owner(path_of(log), fd);
	return 0;
}

/* In a folder that others can write, theirs could stand there to read what we log, or another name
 * of a file that is not theirs to write. */
static int check_owner(const struct jsonl *log)
{
	struct stat st;

	if (log->file.has_other_names)
		return -EMLINK;
	if (log->file.uid == geteuid())
		return 0;
	if (geteuid() == 0 && stat(log->folder, &st) == 0 && st.st_uid == log->file.uid)
		return 0;
	return -EPERM;
}

/* Something else than a log would be appended to, cut and renamed. */
static int check_beginning(const struct jsonl *log)
{
	char first = '{';
	ssize_t n = jsonl_file_read(&log->file, &first, 1, 0);

	if (n < 0)
		return (int)n;
	return first == '{' ? 0 : -EBADMSG;
}

/* What was just made may have been filled and rotated away by others. */
static int open_or_make(struct jsonl *log)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		int r = jsonl_file_open(path_of(log), O_RDWR | O_APPEND, &log->file);

		if (r != -ENOENT)
			return r;
		r = make_file(log);
		if (r < 0)
			return r;
	}
	return -EBUSY;
}

static int check_file(const struct jsonl *log)
{
	int r = check_owner(log);

	return r < 0 ? r : check_beginning(log);
}

static int open_file(struct jsonl *log)
{
	int r = open_or_make(log);

	return r < 0 ? r : check_file(log);
}

int jsonl_check(struct jsonl *log, struct err *err)
{
	int r;

	jsonl_file_close(&log->file);
	r = jsonl_file_open(path_of(log), O_RDWR | O_APPEND, &log->file);
	if (r == 0)
		r = check_file(log);
	else if (r == -ENOENT && faccessat(AT_FDCWD, log->folder, W_OK | X_OK, AT_EACCESS) == 0)
		r = 0;
	else if (r == -ENOENT)
		r = -errno;
	jsonl_file_close(&log->file);
	return r < 0 ? fail(log, -r, err) : 0;
}

/* ---- the lock ---- */

/* Sleeps for less than a millisecond; false without doing so when the patience is used up. */
static bool wait_a_little(const struct jsonl *log, uint64_t began_ns)
{
	uint64_t now_ns = clock_boot_ns();
	struct timespec pause = { .tv_nsec = (long)(PAUSE_MIN_NS + now_ns % PAUSE_SPREAD_NS) };

	if (now_ns - began_ns >= log->patience_ns)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static int take_lock(const struct jsonl *log, uint64_t began_ns)
{
	while (flock(log->file.fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (!wait_a_little(log, began_ns))
			return -EBUSY;
	}
	return 0;
}

/* Opens the log and locks it. Who waited may have the lock of what is .1 by now. */
static int jsonl_lock_log(struct jsonl *log, uint64_t began_ns)
{
	int r;

	for (int i = 0; i < MAX_TRIES; i++) {
		r = log->file.fd < 0 ? open_file(log) : 0;
		if (r < 0)
			return r;
		r = take_lock(log, began_ns);
		if (r < 0 || jsonl_file_is_at(&log->file, path_of(log)))
			return r;
		jsonl_file_close(&log->file);
	}
	return -EBUSY;
}

/* ---- under the lock ---- */

/* A file without a whole line may be anybody's: one document, from its first byte to its last. */
static bool is_half_a_line(const struct jsonl *log, uint64_t size)
{
	static const char ours[] = "{\"timestamp\":";
	char first[sizeof(ours) - 1], last = '\0';
	ssize_t n = jsonl_file_read(&log->file, first, sizeof(first), 0);

	if (n <= 0 || jsonl_file_read(&log->file, &last, 1, size - 1) != 1)
		return false;
	return last != '}' || memcmp(first, ours, (size_t)n) == 0;
}

/* Cuts off what is left of a line that was not written to its end. */
static int mend(const struct jsonl *log, uint64_t *ret_size)
{
	uint64_t size, whole;
	int r;

	r = jsonl_file_find_end(&log->file, &size, &whole);
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
 * The oldest first, so that at no moment, and not by a kill either, is a file
 * gone that should be kept. Closing lets go of the lock: the file is no log any more.
 */
static int rotate(struct jsonl *log)
{
	for (int i = JSONL_FILES - 1; i > 0; i--)
		if (rename(log->names.names[i - 1], log->names.names[i]) < 0 && errno != ENOENT)
			return -errno;
	jsonl_file_close(&log->file);
	return 0;
}

/* Locks a log that has room for a line of so many bytes, and its newline. */
static int prepare(struct jsonl *log, size_t len, uint64_t began_ns, struct err *err)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		uint64_t size = 0;
		int r = jsonl_lock_log(log, began_ns);

		if (r == 0)
			r = mend(log, &size);
		if (r < 0)
			return fail(log, -r, err);
		if (size == 0 || size + len + 1 <= log->max_bytes)
			return 0;
		r = rotate(log);
		if (r < 0)
			return jsonl_file_fail(path_of(log), "rotated", -r, err);
	}
	return fail(log, EBUSY, err);
}

/* One call: half a line is there only if that was cut short. */
static int write_all(int fd, const char *line, size_t len)
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

static int write_line(const struct jsonl *log, const char *line, size_t len, struct err *err)
{
	int r = write_all(log->file.fd, line, len);
	uint64_t size;

	if (r == 0)
		return 0;
	mend(log, &size); /* if that fails too, the next line does it */
	return fail(log, -r, err);
}

/* ---- a line ---- */

/* After a failure everything begins anew with the next. */
static int append(struct jsonl *log, const char *line, size_t len, struct err *err)
{
	int r;

	if (len >= JSONL_LINE_MAX_BYTES)
		return err_set(err, -EMSGSIZE, "a line of %zu bytes is too long for the log %s",
			       len + 1, path_of(log));
	r = prepare(log, len, clock_boot_ns(), err);
	if (r == 0)
		r = write_line(log, line, len, err);
	if (r < 0)
		jsonl_file_close(&log->file);
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
