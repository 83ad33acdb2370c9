/*
 * yaml - YAML files read by a schema: a table of keys per mapping (libyaml behind it).
 *
 * A schema row names a key, what its value must be and where it goes in a C
 * struct. A row may be a mapping with a schema of its own; where it is absent, the
 * outer defaults hold for it, so these contain the inner ones. Whatever does not fit (unknown or
 * repeated key, wrong type, value out of range, alias, second document, too deep, too long) is
 * refused with "FILE:LINE: what is wrong; what would be right", and for an unknown key the nearest
 * known one is offered. Strings and arrays go into the caller's arena.
 *
 * It is stricter than YAML: no anchors, aliases or tags, only true and false are
 * booleans, and a number stands without quotes. Text may be written either way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/macros.h"

#define YAML_MAX_BYTES (1024 * 1024)
#define YAML_MAX_ITEMS 10000 /* of one list or mapping */
#define YAML_MAX_FIELDS 32   /* rows of a schema */

enum yaml_kind {
	YAML_STRING,		/* const char *; any scalar, not empty */
	YAML_STRING_OR_NONE,	/* const char *; the same, and NULL for null or "" */
	YAML_INT,		/* int, min to max */
	YAML_U64,		/* uint64_t, min to max (both below 2^53), and 0 if zero_means */
	YAML_NUMBER,		/* double, min to max, or more than min if is_min_excluded */
	YAML_BOOL,		/* bool: true, false */
	YAML_DURATION,		/* double seconds, more than min, at most max: 200ms, 30s, 1h30m */
	YAML_CHOICE,		/* int: index into choices */
	YAML_STRINGS,		/* struct yaml_strings: list of strings */
	YAML_STRING_OR_STRINGS, /* struct yaml_strings: a string or a list of strings; is_list says
				   which */
	YAML_STRING_MAP,	/* struct yaml_pairs: mapping of name to scalar, "" allowed */
	YAML_MAPPING,		/* the struct of the item schema; without keys it is its defaults */
	YAML_MAPPINGS,		/* struct yaml_items: list of mappings by item schema */
};

struct yaml_strings {
	const char *const *items; /* NULL-terminated */
	const int *lines;	  /* where each stands */
	size_t n;
	bool is_list;
};

struct yaml_pair {
	const char *name;
	const char *value;
	int line;
};

struct yaml_pairs {
	const struct yaml_pair *items;
	size_t n;
};

struct yaml_items {
	void *items; /* array of structs of the item schema */
	size_t n;
};

struct yaml_schema;

/* One row: a key of a mapping. */
struct yaml_field {
	const char *key;
	enum yaml_kind kind;
	size_t offset;
	size_t line_offset; /* where the value's line goes, an int; 0: nowhere */
	bool is_required;
	double min, max;		/* YAML_INT, YAML_U64, YAML_NUMBER, YAML_DURATION */
	bool is_min_excluded;		/* YAML_NUMBER */
	const char *zero_means;		/* YAML_U64: "no limit", where 0 stands for that */
	const char *const *choices;	/* YAML_CHOICE, NULL-terminated */
	const struct yaml_schema *item; /* YAML_MAPPING, YAML_MAPPINGS */
	const char *not_yet;		/* for whoever lists the rows; not looked at here */
};

struct yaml_schema {
	const char *what; /* "job file", "sheet": for messages */
	const struct yaml_field *fields;
	size_t n_fields;
	size_t size;	     /* of the C struct */
	size_t line_offset;  /* where the mapping's line number goes, an int; SIZE_MAX: nowhere */
	size_t lines_offset; /* where those of its keys go, int[n_fields] (0: not given); 0: nowhere
			      */
	const void *defaults; /* copied into the struct before reading; NULL: zeros */
	bool may_slip;	      /* see yaml_load() */
};

/*
 * Reads text (a file's content, name for messages) into *ret. Keys that are
 * absent keep the default. -EINVAL with err filled for anything that does not fit.
 */
int yaml_parse(const char *text, size_t len, const char *name, const struct yaml_schema *schema,
	       struct arena *arena, void *ret, struct err *err);

/*
 * The same from a file. -ENOENT when it is not there. With slips, for who does better with defaults
 * than without the rest of the file: where a schema has may_slip, the default replaces a value that
 * does not fit, and a key that is unknown or given again is passed over, whatever its value is.
 * slips gets a line for each: what was wrong, and what is used instead. NULL: nothing may slip.
 */
int yaml_load(const char *path, const struct yaml_schema *schema, struct arena *arena, void *ret,
	      struct buf *slips, struct err *err);

/* How many bytes a value takes in the struct; 0: a mapping, which has a struct of its own. */
size_t yaml_value_bytes(enum yaml_kind kind);

/* What the value must be: "a whole number from 0 to 100". */
void yaml_describe_field(struct buf *out, const struct yaml_field *f);

/*
 * Writes the value at at, of the row's kind but no mapping and no list of them.
 * JSON is YAML too: read again it gives the same.
 */
void yaml_write_value(struct json *j, const struct yaml_field *f, const void *at);
