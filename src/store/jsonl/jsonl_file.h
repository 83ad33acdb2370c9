/*
 * jsonl_file - the files of a log as its writers and readers find them (inside of jsonl).
 *
 * The log is PATH; what it was before are PATH.1 and PATH.2. Their names change; a
 * file is known by its inode, which no other file gets while it is held open.
 */
#ifndef PROCTOR_STORE_JSONL_JSONL_FILE_H
#define PROCTOR_STORE_JSONL_JSONL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define JSONL_FILES 3

struct jsonl_names {
	char *names[JSONL_FILES]; /* newest first: the log itself, .1, .2 */
};

int jsonl_names_init(struct jsonl_names *n, const char *path); /* -ENOMEM */
void jsonl_names_release(struct jsonl_names *n);

struct jsonl_file {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
	uid_t uid;
	bool has_other_names; /* hard links */
};

#define JSONL_FILE_NONE            \
	{                          \
		-1, 0, 0, 0, false \
	}

/* -ENOENT: not there. -ELOOP: a link. -EBADMSG: not a plain file. *ret is none then. */
int jsonl_file_open(const char *name, int flags, struct jsonl_file *ret);
void jsonl_file_close(struct jsonl_file *f);

bool jsonl_file_is_same(const struct jsonl_file *a, const struct jsonl_file *b);

/* Whether this file has the name now; of none, whether no file has. */
bool jsonl_file_is_at(const struct jsonl_file *f, const char *name);

/* n bytes from offset; fewer only where the file ends. Returns how many. */
ssize_t jsonl_file_read(const struct jsonl_file *f, void *bytes, size_t n, uint64_t offset);

/* How long the file is, and how long up to its last newline. */
int jsonl_file_find_end(const struct jsonl_file *f, uint64_t *ret_size, uint64_t *ret_whole);

/* Fills err with "the log PATH cannot be WHAT (why): what to do" and returns -error. */
int jsonl_file_fail(const char *path, const char *what, int error, struct err *err);

#endif
