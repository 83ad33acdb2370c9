#include "store/jsonl_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"

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
