/*
 * fields - numbers from text of the form "name: value" or "name value", one per line.
 *
 * Lines are found by name, in any order, and what is missing, negative, too
 * large or not a number is unknown. A last line without its newline was cut
 * off, perhaps in the middle of a number, and does not count.
 */
#ifndef PROCTOR_SOURCES_FIELDS_H
#define PROCTOR_SOURCES_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#define FIELD_LAST (-1)

enum field_unit {
	FIELD_PLAIN,
	FIELD_KB,  /* "12 kB", wanted as bytes; without its unit it is unknown */
	FIELD_HEX, /* "0000000000010000": a mask of up to 64 bits */
};

/* One row: a line that is wanted. */
struct field {
	const char *name; /* without the colon */
	size_t offset;	  /* of a uint64_t in the result */
	int column;	  /* which number of the line, from 0; FIELD_LAST: the last */
	enum field_unit unit;
};

/* Writes those found to their places in ret and U64_UNKNOWN to the others. */
void fields_read(const char *text, const struct field *fields, size_t n, void *ret);

/* Where the value of the line begins; NULL if no complete line has that name. */
const char *field_find(const char *text, const char *name);

/*
 * Reads the unsigned number at *cursor, with the blanks before it skipped, and
 * moves behind it. -EINVAL: no number there, or it does not end at a blank or
 * at the end of its line.
 */
int field_scan_u64(const char **cursor, uint64_t *ret);

/* The same for "0.25"; nothing negative. */
int field_scan_f64(const char **cursor, double *ret);

#endif
