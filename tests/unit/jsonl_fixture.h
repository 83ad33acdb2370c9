/*
 * jsonl_fixture - a log in a folder of its own, and what its files hold.
 */
#ifndef PROCTOR_TESTS_JSONL_FIXTURE_H
#define PROCTOR_TESTS_JSONL_FIXTURE_H

#include "store_fixture.h"

#include "base/buf.h"
#include "base/io.h"
#include "store/jsonl/jsonl.h"

#include "jsonl_tail.h"

#define JSONL_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

/* The log's path with this suffix, in one of a few buffers that take turns. */
static inline const char *log_path(const struct fixture *f, const char *suffix)
{
	static char paths[4][192];
	static unsigned turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/proctor.jsonl%s", f->dir, suffix);
	return path;
}

static inline void log_cleanup(struct jsonl **log)
{
	*log = jsonl_free(*log);
}

static inline void tail_cleanup(struct jsonl_tail **tail)
{
	*tail = jsonl_tail_close(*tail);
}

static inline struct jsonl *must_new(const struct fixture *f, uint64_t max_bytes)
{
	struct jsonl *log = jsonl_new(log_path(f, ""), max_bytes);

	assert_non_null(log);
	return log;
}

static inline void must_append(struct jsonl *log, const char *line)
{
	struct err err = ERR_INIT;

	must(jsonl_append(log, line, strlen(line), &err), &err);
}

static inline void must_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
	assert_int_equal(fclose(file), 0);
}

/* NULL: the file must not be there. */
static inline void assert_file(const char *path, const char *text)
{
	CLEANUP(buf_release) struct buf b = BUF_INIT;
	int r = io_read_at(AT_FDCWD, path, 1 << 30, &b);

	if (!text) {
		assert_int_equal(r, -ENOENT);
		return;
	}
	assert_int_equal(r, 0);
	assert_string_equal(b.data, text);
}

static inline struct jsonl_tail *must_tail(const struct fixture *f, enum jsonl_start start)
{
	struct jsonl_tail *tail = NULL;
	struct err err = ERR_INIT;

	must(jsonl_tail_open(log_path(f, ""), start, &tail, &err), &err);
	return tail;
}

/* Reads all there is into one text; '!' stands before a line that follows a loss. */
static inline const char *read_all(struct jsonl_tail *tail, struct buf *b)
{
	struct err err = ERR_INIT;
	struct jsonl_line line;
	int r;

	buf_reset(b);
	while ((r = jsonl_tail_next(tail, &line, &err)) > 0) {
		assert_int_equal(line.text[line.len], '\0');
		buf_add_str(b, line.is_after_loss ? "!" : "");
		buf_add(b, line.text, line.len);
		buf_add_char(b, '\n');
	}
	must(r, &err);
	return b->data;
}

#endif
