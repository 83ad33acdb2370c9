#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/jsonl/jsonl.h"
#include "store/jsonl/jsonl_file.h"

#define FIRST_BUFFER_BYTES 65536
#define COMPARE_BYTES 16384
#define MAX_SCANS 100

/*
 * The files of the log at one moment, oldest first. They are held open, so that they
 * can be read when they have been deleted, and are known again when they have not.
 */
struct chain {
	struct jsonl_file files[JSONL_FILES];
	size_t n;
	bool has_oldest; /* .2 is among them: whatever was before it is gone */
};

struct jsonl_tail {
	struct jsonl_names names;
	struct chain chain;
	size_t at; /* which of the chain is being read */

	char *bytes; /* of that file, from offset on */
	size_t cap;
	uint64_t offset;
	size_t n_whole; /* of bytes, up to the last newline */
	size_t n_given; /* of these, handed out */
	bool is_after_loss;
};

/* ---- the files ---- */

static void chain_close(struct chain *c)
{
	for (size_t i = 0; i < c->n; i++)
		jsonl_file_close(&c->files[i]);
	c->n = 0;
}

static bool chain_has(const struct chain *c, const struct jsonl_file *f)
{
	for (size_t i = 0; i < c->n; i++)
		if (jsonl_file_is_same(&c->files[i], f))
			return true;
	return false;
}

/* Newest first, as files move towards older names: so none slips through. */
static int open_names(const struct jsonl_names *names, struct chain *ret)
{
	for (; ret->n < JSONL_FILES; ret->n++) {
		int r = jsonl_file_open(names->names[ret->n], O_RDONLY, &ret->files[ret->n]);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* Whether each name is what it was when it was opened: as no file gets a name back, they all were
 * that at one moment. */
static bool is_settled(const struct jsonl_names *names, const struct chain *c)
{
	for (size_t i = 0; i < JSONL_FILES; i++)
		if (!jsonl_file_is_at(&c->files[i], names->names[i]))
			return false;
	return true;
}

/* Takes over what is there of the three, turned round. */
static void put_in_order(struct chain *by_name, struct chain *ret)
{
	ret->has_oldest = by_name->files[JSONL_FILES - 1].fd >= 0;
	for (size_t i = by_name->n; i-- > 0;)
		if (by_name->files[i].fd >= 0)
			ret->files[ret->n++] = by_name->files[i];
	by_name->n = 0;
}

/* -EAGAIN: it was rotated again and again. */
static int find_files(const struct jsonl_names *names, struct chain *ret)
{
	for (int i = 0; i < MAX_SCANS; i++) {
		CLEANUP(chain_close) struct chain by_name = { .n = 0 };
		int r = open_names(names, &by_name);

		if (r < 0)
			return r;
		if (is_settled(names, &by_name)) {
			put_in_order(&by_name, ret);
			return 0;
		}
	}
	return -EAGAIN;
}

/* ---- the bytes of one file ---- */

static void begin_file(struct jsonl_tail *t, size_t at, uint64_t offset)
{
	t->at = at;
	t->offset = offset;
	t->n_whole = t->n_given = 0;
}

enum { FILL_NONE, FILL_LINES, FILL_AGAIN };

/*
 * Takes n bytes for whole lines if the file still has them. A writer may have cut off
 * half a line and written another over it while we read: ours would begin as the one
 * and end as the other. Whoever has seen the new one's end sees all of it at a second look.
 */
static int confirm(struct jsonl_tail *t, size_t n)
{
	char again[COMPARE_BYTES];

	for (size_t i = 0; i < n; i += sizeof(again)) {
		size_t part = n - i < sizeof(again) ? n - i : sizeof(again);
		ssize_t got = jsonl_file_read(&t->chain.files[t->at], again, part, t->offset + i);

		if (got < 0)
			return (int)got;
		if ((size_t)got != part || memcmp(again, t->bytes + i, part) != 0)
			return FILL_AGAIN;
	}
	t->n_whole = n;
	return FILL_LINES;
}

/* Where somebody has emptied the file, the line before is not there: it begins anew. */
static int check_place(struct jsonl_tail *t)
{
	char before = '\0';
	ssize_t n;

	if (t->offset == 0)
		return 0;
	n = jsonl_file_read(&t->chain.files[t->at], &before, 1, t->offset - 1);
	if (n < 0)
		return (int)n;
	if (before != '\n') {
		begin_file(t, t->at, 0);
		t->is_after_loss = true;
	}
	return 0;
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
	const char *newline;
	ssize_t n;
	int r;

	r = check_place(t);
	if (r < 0)
		return r;
	n = jsonl_file_read(&t->chain.files[t->at], t->bytes, t->cap, t->offset);
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

/* ---- from file to file ---- */

static bool is_newest(const struct jsonl_tail *t)
{
	return t->at + 1 == t->chain.n &&
	       jsonl_file_is_at(&t->chain.files[t->at], t->names.names[0]);
}

/* Those found that come after all that the reader had; known ones are older. */
static size_t first_new(const struct jsonl_tail *t, const struct chain *found)
{
	size_t i = found->n;

	while (i > 0 && !chain_has(&t->chain, &found->files[i - 1]))
		i--;
	return i;
}

/* Whether something may have been between what was read and what was found. */
static bool may_have_lost(const struct jsonl_tail *t, const struct chain *found)
{
	if (t->chain.n == 0) /* there was no log yet */
		return found->has_oldest;
	return !chain_has(found, &t->chain.files[t->at]);
}

/* 1: there is another file to read; 0: not yet. */
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
	next = first_new(t, &found);
	if (next == found.n)
		return 0;
	t->is_after_loss |= may_have_lost(t, &found);
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
		bool may_grow = is_newest(t);
		int r = t->chain.n > 0 ? fill(t) : 0;

		if (r == 0 && may_grow)
			return 0;
		if (r == 0)
			r = move_on(t);
		if (r == 0)
			return 0;
		if (r < 0)
			return jsonl_file_fail(t->names.names[0], "read", -r, err);
	}
	return 1;
}

/* ---- open and close ---- */

static int go_to_end(struct jsonl_tail *t)
{
	uint64_t size, whole = 0;
	size_t last = t->chain.n - 1;
	int r;

	if (t->chain.n == 0)
		return 0;
	r = jsonl_file_find_end(&t->chain.files[last], &size, &whole);
	if (r == 0)
		begin_file(t, last, whole);
	return r;
}

static void close_tail(struct jsonl_tail **t)
{
	*t = jsonl_tail_close(*t);
}

int jsonl_tail_open(const char *path, enum jsonl_start start, struct jsonl_tail **ret,
		    struct err *err)
{
	CLEANUP(close_tail) struct jsonl_tail *t = calloc(1, sizeof(*t));
	int r = -ENOMEM;

	if (t)
		r = jsonl_names_init(&t->names, path);
	if (r == 0)
		r = grow(t);
	if (r == 0)
		r = find_files(&t->names, &t->chain);
	if (r == 0 && start == JSONL_END)
		r = go_to_end(t);
	if (r < 0)
		return jsonl_file_fail(path, "read", -r, err);
	*ret = TAKE_PTR(t);
	return 0;
}

struct jsonl_tail *jsonl_tail_close(struct jsonl_tail *t)
{
	if (!t)
		return NULL;
	chain_close(&t->chain);
	jsonl_names_release(&t->names);
	free(t->bytes);
	free(t);
	return NULL;
}
