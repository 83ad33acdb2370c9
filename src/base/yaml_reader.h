/*
 * yaml_reader - the pieces of a YAML text, one after the other (inside of yaml).
 *
 * All of libyaml is behind this. It hands out only what files by schema need:
 * anchors, aliases, tags, further documents and text that is not UTF-8 are
 * refused, each with the line and what would be right.
 */
#ifndef PROCTOR_BASE_YAML_READER_H
#define PROCTOR_BASE_YAML_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/macros.h"

struct yaml_reader;

enum yaml_piece_kind {
	PIECE_SCALAR,
	PIECE_LIST,
	PIECE_LIST_END,
	PIECE_MAPPING,
	PIECE_MAPPING_END,
	PIECE_END, /* of the file */
};

struct yaml_piece {
	enum yaml_piece_kind kind;
	int line;	  /* from 1 */
	const char *text; /* of a scalar, without NULs inside; valid until the next call */
	bool is_quoted;	  /* "5" and not 5 */
	bool is_null;	  /* nothing, ~ or null */
};

/* Borrows all three until yaml_reader_close(). -EINVAL: not UTF-8 text. */
int yaml_reader_open(const char *text, size_t len, const char *name, struct err *err,
		     struct yaml_reader **ret);
struct yaml_reader *yaml_reader_close(struct yaml_reader *r);

int yaml_reader_next(struct yaml_reader *r, struct yaml_piece *ret);

/* Fills err with "FILE:LINE: …" and returns -EINVAL. */
int yaml_reader_fail(const struct yaml_reader *r, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same with -ENOMEM. */
int yaml_reader_fail_memory(const struct yaml_reader *r);

#endif
