#include "jsonl_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"

#define BLOCK_BYTES 16384
#define LINE_MAX_BYTES JSONL_LINE_MAX_BYTES

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

#define FIRST_BUFFER_BYTES 65536
#define MAX_SCANS 100

/*
 * The files of the log at one moment, oldest first. They are held open, so that they can be read
 * when they have been deleted, and are known again when they have not.
 */
struct chain {
	struct file files[N_FILES];
	size_t n;
	bool has_oldest; /* .2 is among them: whatever was before it is gone */
};

struct jsonl_tail {
	struct names names;
	struct chain chain;
	size_t at; /* which of the chain is being read */

	char *bytes; /* of that file, from offset on */
	size_t cap;
	uint64_t offset;
	size_t n_whole; /* of bytes, up to the last newline */
	size_t n_given; /* of these, handed out */
	bool is_after_loss;
};

static void chain_close(struct chain *c)
{
	for (size_t i = 0; i < c->n; i++)
		file_close(&c->files[i]);
	c->n = 0;
}

static bool chain_has(const struct chain *c, const struct file *f)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->files[i].dev == f->dev && c->files[i].ino == f->ino)
			return true;
	return false;
}

/*
 * The names newest first, as files move towards older names: so none slips through. If each name is
 * what it was when it was opened, they all were that at one moment, as no file gets a name back.
 * -EAGAIN: it was rotated again and again.
 */
static int find_files(const struct names *names, struct chain *ret)
{
	for (int i = 0; i < MAX_SCANS; i++) {
		CLEANUP(chain_close) struct chain by_name = { .n = 0 };
		bool is_settled = true;

		for (; by_name.n < N_FILES; by_name.n++) {
			int r = file_open(names->names[by_name.n], O_RDONLY,
					  &by_name.files[by_name.n]);

			if (r < 0 && r != -ENOENT)
				return r;
		}
		for (size_t k = 0; k < N_FILES; k++)
			is_settled = is_settled && file_is_at(&by_name.files[k], names->names[k]);
		if (!is_settled)
			continue;
		ret->has_oldest = by_name.files[N_FILES - 1].fd >= 0;
		for (size_t k = N_FILES; k-- > 0;)
			if (by_name.files[k].fd >= 0)
				ret->files[ret->n++] = by_name.files[k];
		by_name.n = 0; /* they are the caller's */
		return 0;
	}
	return -EAGAIN;
}

static void begin_file(struct jsonl_tail *t, size_t at, uint64_t offset)
{
	t->at = at;
	t->offset = offset;
	t->n_whole = t->n_given = 0;
}

enum { FILL_NONE, FILL_LINES, FILL_AGAIN };

/*
 * Takes n bytes for whole lines if the file still has them. A writer may have cut off half a line
 * and written another over it while we read: ours would begin as the one and end as the other. A
 * reader that has seen the new one's end sees all of it at a second look.
 */
static int confirm(struct jsonl_tail *t, size_t n)
{
	char again[BLOCK_BYTES];

	for (size_t i = 0; i < n; i += sizeof(again)) {
		size_t part = n - i < sizeof(again) ? n - i : sizeof(again);
		ssize_t got = file_read(&t->chain.files[t->at], again, part, t->offset + i);

		if (got < 0)
			return (int)got;
		if ((size_t)got != part || memcmp(again, t->bytes + i, part) != 0)
			return FILL_AGAIN;
	}
	t->n_whole = n;
	return FILL_LINES;
}

static int grow(struct jsonl_tail *t)
{
	size_t cap = t->cap ? 2 * t->cap : FIRST_BUFFER_BYTES;
	char *bytes;

	if (cap > JSONL_LINE_MAX_BYTES)
		return -EBADMSG;
	bytes = realloc(t->bytes, cap);
	if (!bytes)
		return -ENOMEM;
	t->bytes = bytes;
	t->cap = cap;
	return 0;
}

static int try_fill(struct jsonl_tail *t)
{
	const struct file *f = &t->chain.files[t->at];
	const char *newline;
	char before = '\n';
	ssize_t n = 0;
	int r;

	if (t->offset > 0)
		n = file_read(f, &before, 1, t->offset - 1);
	if (n < 0)
		return (int)n;
	if (t->offset > 0 && (n == 0 || before != '\n')) {
		/* Somebody has emptied the file: the line before is not there, it begins anew. */
		begin_file(t, t->at, 0);
		t->is_after_loss = true;
	}
	n = file_read(f, t->bytes, t->cap, t->offset);
	if (n < 0)
		return (int)n;
	newline = n > 0 ? memrchr(t->bytes, '\n', (size_t)n) : NULL;
	if (newline)
		return confirm(t, (size_t)(newline - t->bytes) + 1);
	if ((size_t)n < t->cap)
		return FILL_NONE;
	r = grow(t);
	return r < 0 ? r : FILL_AGAIN;
}

/* Reads on behind what was handed out. 1: there are whole lines; 0: not yet. */
static int fill(struct jsonl_tail *t)
{
	int r;

	begin_file(t, t->at, t->offset + t->n_given);
	do
		r = try_fill(t);
	while (r == FILL_AGAIN);
	return r;
}

static bool take_line(struct jsonl_tail *t, struct jsonl_line *ret)
{
	char *line = t->bytes + t->n_given;
	char *newline;

	if (t->n_given == t->n_whole)
		return false;
	newline = memchr(line, '\n', t->n_whole - t->n_given);
	*newline = '\0';
	*ret = (struct jsonl_line){ line, (size_t)(newline - line), t->is_after_loss };
	t->n_given += ret->len + 1;
	t->is_after_loss = false;
	return true;
}

/* From file to file. 1: there is another to read; 0: not yet. */
static int move_on(struct jsonl_tail *t)
{
	CLEANUP(chain_close) struct chain found = { .n = 0 };
	size_t next = t->at + 1;
	int r;

	if (next < t->chain.n) {
		begin_file(t, next, 0);
		return 1;
	}
	r = find_files(&t->names, &found);
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	/* Those that come after all that the reader had; known ones are older. */
	for (next = found.n; next > 0 && !chain_has(&t->chain, &found.files[next - 1]);)
		next--;
	if (next == found.n)
		return 0;
	/* Whether something may have been between what was read and what was found. */
	t->is_after_loss |=
		t->chain.n == 0 ? found.has_oldest : !chain_has(&found, &t->chain.files[t->at]);
	chain_close(&t->chain);
	t->chain = found;
	found.n = 0;
	begin_file(t, next, 0);
	return 1;
}

int jsonl_tail_next(struct jsonl_tail *t, struct jsonl_line *ret, struct err *err)
{
	while (!take_line(t, ret)) {
		/* Asked before reading: nothing is added any more to what is not the newest. */
		bool may_grow = t->at + 1 == t->chain.n &&
				file_is_at(&t->chain.files[t->at], t->names.names[0]);
		int r = t->chain.n > 0 ? fill(t) : 0;

		if (r == 0 && may_grow)
			return 0;
		if (r == 0)
			r = move_on(t);
		if (r == 0)
			return 0;
		if (r < 0)
			return err_set(err, r, "the log %s cannot be read (%s)", t->names.names[0],
				       strerror(-r));
	}
	return 1;
}

static void close_tail(struct jsonl_tail **t)
{
	*t = jsonl_tail_close(*t);
}

int jsonl_tail_open(const char *path, enum jsonl_start start, struct jsonl_tail **ret,
		    struct err *err)
{
	CLEANUP(close_tail) struct jsonl_tail *t = calloc(1, sizeof(*t));
	uint64_t size, whole = 0;
	int r = t ? names_init(&t->names, path) : -ENOMEM;

	if (r == 0)
		r = grow(t);
	if (r == 0)
		r = find_files(&t->names, &t->chain);
	if (r == 0 && start == JSONL_END && t->chain.n > 0) {
		r = file_find_end(&t->chain.files[t->chain.n - 1], &size, &whole);
		begin_file(t, t->chain.n - 1, whole);
	}
	if (r < 0)
		return err_set(err, r, "the log %s cannot be read (%s)", path, strerror(-r));
	*ret = TAKE_PTR(t);
	return 0;
}

struct jsonl_tail *jsonl_tail_close(struct jsonl_tail *t)
{
	if (!t)
		return NULL;
	chain_close(&t->chain);
	names_release(&t->names);
	free(t->bytes);
	free(t);
	return NULL;
}
