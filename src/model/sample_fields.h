/*
 * sample_fields - the members of a process in JSON, in the order in which they are written.
 *
 * One table for who writes them (sample_json.c) and who reads them back: a new one is a new row,
 * and a new kind of value is a case in both.
 */
#ifndef PROCTOR_MODEL_SAMPLE_FIELDS_H
#define PROCTOR_MODEL_SAMPLE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#define FIELD_KEY_BYTES 32

enum field_kind {
	FIELD_PID, /* never unknown */
	FIELD_U64,
	FIELD_INT, /* below 0 it is unknown */
	FIELD_F64,
	FIELD_MB,      /* of bytes */
	FIELD_SECONDS, /* of nanoseconds */
	FIELD_STRING,
	FIELD_CHAR,
	FIELD_COMM,
	FIELD_COUNTS, /* of system calls; */
	FIELD_TIMES,  /* both are of the whole process */
	FIELD_LIMIT,
	FIELD_ID,   /* 0: unknown */
	FIELD_FLAG, /* true or false in a signed char; below 0 it is unknown */
	FIELD_KINDS,
};

struct sample_field {
	char key[FIELD_KEY_BYTES]; /* as it stands in JSON: ",\"pid\":" */
	size_t len;
	enum field_kind kind;
	size_t offset; /* in a proc_sample */
	bool is_rare;  /* left out where it is unknown; else that is null */
};

extern const struct sample_field sample_fields[];
extern const size_t n_sample_fields;

/* Whether the i-th has this name. */
bool sample_field_is(size_t i, const char *name, size_t len);

#endif
