/*
 * sample_fields - the kinds of fields that a process's sample has, and its members in JSON.
 *
 * The fields themselves are the rows of sample_fields.def. A new kind is a case in the writer
 * (snapshot_json.c), in the reader (tui/snapshot_read.c), and a macro of its name wherever a file
 * makes a table of those rows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FIELD_KEY_BYTES 32

/* How many of them are recorded, and how many of those a minute has an average of. */
enum sample_counts {
#define SAMPLE_RECORDED(kind_, member_, ...) RECORDED_##member_,
#include "model/sample_fields.def"
	SAMPLE_N_RECORDED,
};
enum gauge_counts {
#define SAMPLE_GAUGE(kind_, member_, ...) AVERAGED_##member_,
#include "model/sample_fields.def"
	SAMPLE_N_GAUGES,
};

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
