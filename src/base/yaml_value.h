/*
 * yaml_value - the values of a mapping, one function per kind (inside of yaml).
 *
 * Each reads the value that begins with piece p into what at points to, or
 * says in one sentence what it should have been.
 */
#ifndef PROCTOR_BASE_YAML_VALUE_H
#define PROCTOR_BASE_YAML_VALUE_H

#include "base/arena.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "base/yaml_reader.h"

/* What a reading carries along. */
struct yaml_reading {
	struct yaml_reader *reader;
	struct arena *arena;
	struct buf *slips; /* NULL: nothing may slip */
	struct err *err;
};

typedef int yaml_read_fn(const struct yaml_reading *rd, const struct yaml_field *f,
			 const struct yaml_piece *p, void *at);

/* yaml_value.c */
yaml_read_fn yaml_read_string, yaml_read_string_or_none, yaml_read_int, yaml_read_u64,
	yaml_read_number, yaml_read_bool, yaml_read_duration, yaml_read_choice;
/* yaml_list.c */
yaml_read_fn yaml_read_strings, yaml_read_string_or_strings, yaml_read_string_map,
	yaml_read_mappings;

/* yaml.c */
yaml_read_fn yaml_read_nested;

/* yaml.c: the mapping that began in line, up to its end. */
int yaml_read_mapping(const struct yaml_reading *rd, const struct yaml_schema *schema, int line,
		      void *ret);

/* "a list", "empty", "'many'" */
const char *yaml_show_piece(const struct yaml_piece *p, char shown[UTF8_QUOTED_BYTES]);

/* "'retries' is 'many'; it must be a whole number from 0 to 100" */
int yaml_fail_value(const struct yaml_reading *rd, const struct yaml_field *f,
		    const struct yaml_piece *p);

/* "'name' is given again; keep this or line 3" */
int yaml_fail_repeated(const struct yaml_reading *rd, const char *key, int line, int first);

#endif
