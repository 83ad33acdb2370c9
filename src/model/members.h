/*
 * members - the members of a struct as an object of JSON, by one table: written and read.
 *
 *	static const struct member file_members[] = {
 *		MEMBER(anomaly_file, PID, fd, "fd"),
 *		MEMBER(anomaly_file, COMM, target, "target"),
 *	};
 *
 * A new kind is a case in the writer and in the reader (members.c), and a macro of its name
 * wherever a file makes a table of the rows of sample_fields.def.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_cursor.h"

#define FIELD_KEY_BYTES 32

enum field_kind {
	FIELD_PID, /* int, never unknown */
	FIELD_U64,
	FIELD_INT,	/* below 0 it is unknown */
	FIELD_POSITIVE, /* int; 0 and below is unknown */
	FIELD_F64,
	FIELD_MB,      /* of bytes */
	FIELD_SECONDS, /* of nanoseconds */
	FIELD_STRING,
	FIELD_CHAR,
	FIELD_COMM,   /* an array of char */
	FIELD_NAME,   /* the same; "" is unknown */
	FIELD_COUNTS, /* of system calls; */
	FIELD_TIMES,  /* both are of the whole process */
	FIELD_LIMIT,
	FIELD_LIMIT_MB,	 /* of bytes; MEMORY_UNLIMITED is null as well, and told by the next */
	FIELD_UNLIMITED, /* the same, as true or false */
	FIELD_ID,	 /* 0: unknown */
	FIELD_FLAG,	 /* true or false in a signed char; below 0 it is unknown */
	FIELD_TRUE,	 /* a bool that is left out where it is false */
	FIELD_PSI,
	FIELD_PSI_LINE,
	FIELD_THROTTLE, /* bits, as a list of names */
	FIELD_ITEMS,	/* objects in an array of the struct, or null */
	FIELD_KINDS,
};

struct member {
	char key[FIELD_KEY_BYTES]; /* as it stands in JSON: ",\"pid\":" */
	size_t len;
	enum field_kind kind;
	size_t offset, size;
	bool is_rare; /* left out where it is unknown; else that is null */
	const struct member_items *items;
};

/* Of FIELD_ITEMS. */
struct member_items {
	size_t max, n_offset;
	size_t known_offset; /* of a bool; or of a uint64_t that is unknown where they are */
	bool is_known_by_count;
	const struct member *members;
	size_t n_members;
	size_t size;	     /* of one */
	const void *unknown; /* one before it is read */
};

#define MEMBER_OF(struct_, kind_, field_, key_, is_rare_, items_)                                \
	{                                                                                        \
		",\"" key_ "\":", sizeof(",\"" key_ "\":") - 1, FIELD_##kind_,                   \
			offsetof(struct struct_, field_), sizeof(((struct struct_ *)0)->field_), \
			is_rare_, items_                                                         \
	}
#define MEMBER(struct_, kind_, field_, key_) MEMBER_OF(struct_, kind_, field_, key_, false, NULL)
#define MEMBER_RARE(struct_, kind_, field_, key_) \
	MEMBER_OF(struct_, kind_, field_, key_, true, NULL)

/*
 * Without braces: others may add keys of their own. A snapshot of a thousand processes has more
 * than forty thousand of these: keys are written as they stand in the table, no more is decided
 * than what kind of value it is, and room is asked for once for all that stands between two
 * strings.
 */
void members_write(struct json *j, const struct member *members, size_t n, const void *from);

/* One that is neither text nor a list, as JSON has it: JSON_NUMBER_BYTES at most. Returns its end.
 */
char *member_put_number(char *at, enum field_kind kind, const void *place);

/*
 * An object; what is no object is passed over, and so are keys that are not in the table. Strings
 * go into the arena. Of another type than it should be a value is unknown; numbers that cannot be
 * keep what they were.
 */
void members_read(struct json_cursor *c, struct arena *arena, const struct member *members,
		  size_t n, void *ret);

/*
 * The value of a key, for who looks at some keys by himself. *at is where the one before was found:
 * they mostly come in the order of the table.
 */
void members_read_value(struct json_cursor *c, struct arena *arena, const struct member *members,
			size_t n, const char *key, size_t len, size_t *at, void *ret);
