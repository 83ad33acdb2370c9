#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/suggest.h"
#include "base/yaml_value.h"

static yaml_read_fn *const read_by_kind[] = {
	[YAML_STRING] = yaml_read_string,
	[YAML_STRING_OR_NONE] = yaml_read_string_or_none,
	[YAML_INT] = yaml_read_int,
	[YAML_U64] = yaml_read_u64,
	[YAML_NUMBER] = yaml_read_number,
	[YAML_BOOL] = yaml_read_bool,
	[YAML_DURATION] = yaml_read_duration,
	[YAML_CHOICE] = yaml_read_choice,
	[YAML_STRINGS] = yaml_read_strings,
	[YAML_STRING_OR_STRINGS] = yaml_read_string_or_strings,
	[YAML_STRING_MAP] = yaml_read_string_map,
	[YAML_MAPPING] = yaml_read_nested,
	[YAML_MAPPINGS] = yaml_read_mappings,
};

#define KNOWN_BYTES 300 /* there is room for so much in a sentence */

/* "a, b, c", or "a, b and 17 more". */
static void add_known(struct buf *out, const struct yaml_schema *schema)
{
	for (size_t i = 0; i < schema->n_fields; i++) {
		if (out->len > KNOWN_BYTES) {
			buf_printf(out, " and %zu more", schema->n_fields - i);
			return;
		}
		buf_printf(out, "%s%s", i ? ", " : "", schema->fields[i].key);
	}
}

static int fail_unknown_key(const struct yaml_reading *rd, const struct yaml_schema *schema,
			    const struct yaml_piece *key)
{
	CLEANUP(buf_release) struct buf known = BUF_INIT;
	struct suggest s = suggest_for(key->text);
	char shown[UTF8_QUOTED_BYTES];

	for (size_t i = 0; i < schema->n_fields; i++)
		suggest_offer(&s, schema->fields[i].key);
	add_known(&known, schema);
	if (s.best)
		return yaml_reader_fail(rd->reader, key->line,
					"unknown key %s in the %s; did you mean '%s'?",
					utf8_quote(key->text, shown), schema->what, s.best);
	return yaml_reader_fail(rd->reader, key->line, "unknown key %s in the %s; known are %s",
				utf8_quote(key->text, shown), schema->what, known.data);
}

static const struct yaml_field *find_field(const struct yaml_schema *schema, const char *key)
{
	for (size_t i = 0; i < schema->n_fields; i++)
		if (strcmp(schema->fields[i].key, key) == 0)
			return &schema->fields[i];
	return NULL;
}

/* What has begun with a list or mapping, up to its end. */
static int skip_rest(const struct yaml_reading *rd, const struct yaml_piece *first)
{
	size_t depth = first->kind == PIECE_LIST || first->kind == PIECE_MAPPING;
	struct yaml_piece p;

	while (depth > 0) {
		int r = yaml_reader_next(rd->reader, &p);

		if (r < 0)
			return r;
		if (p.kind == PIECE_LIST || p.kind == PIECE_MAPPING)
			depth++;
		else if (p.kind != PIECE_SCALAR)
			depth--;
	}
	return 0;
}

/* What failed with r at the beginning of this value: 1, and said, if it may slip. */
static int let_slip(const struct yaml_reading *rd, bool may_slip, const struct yaml_piece *value,
		    int r)
{
	struct err why;

	if (r != -EINVAL || !rd->slips || !may_slip)
		return r;
	why = *rd->err;
	r = skip_rest(rd, value);
	if (r < 0)
		return r;
	buf_printf(rd->slips, "%s", why.text);
	*rd->err = (struct err)ERR_INIT;
	return 1;
}

static void note_default(const struct yaml_reading *rd, const struct yaml_field *f, const void *at)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	json_init(&j, &text);
	if (f->kind == YAML_MAPPING)
		buf_add_str(&text, "its defaults");
	else
		yaml_write_value(&j, f, at);
	buf_printf(rd->slips, "; used instead: %s\n", text.data);
}

/* A key of this schema, or a section that may have slips itself. */
static bool may_slip(const struct yaml_schema *schema, const struct yaml_field *f)
{
	return schema->may_slip || (f && f->kind == YAML_MAPPING && f->item->may_slip);
}

static int read_field(const struct yaml_reading *rd, const struct yaml_schema *schema,
		      const struct yaml_field *f, char *ret)
{
	struct yaml_piece value;
	bool is_inside;
	int r;

	r = yaml_reader_next(rd->reader, &value);
	if (r < 0)
		return r;
	if (f->line_offset)
		*(int *)(void *)(ret + f->line_offset) = value.line;
	is_inside = f->kind == YAML_MAPPING && value.kind == PIECE_MAPPING; /* which has its own */
	r = read_by_kind[f->kind](rd, f, &value, ret + f->offset);
	r = let_slip(rd, may_slip(schema, f) && !is_inside, &value, r);
	if (r > 0)
		note_default(rd, f, ret + f->offset);
	return r < 0 ? r : 0;
}

/* A key that is refused with r, and its value. */
static int pass_over(const struct yaml_reading *rd, bool may_slip, int r)
{
	struct yaml_piece value;
	struct err why;

	if (!rd->slips || !may_slip)
		return r;
	why = *rd->err;
	if (yaml_reader_next(rd->reader, &value) < 0)
		return rd->err->code;
	*rd->err = why;
	r = let_slip(rd, may_slip, &value, r);
	if (r > 0)
		buf_printf(rd->slips, " (passed over)\n");
	return r < 0 ? r : 0;
}

/* The key f of the schema, or one that it has not (NULL). */
static int read_key(const struct yaml_reading *rd, const struct yaml_schema *schema,
		    const struct yaml_piece *key, const struct yaml_field *f, int *lines, char *ret)
{
	int *line = f ? &lines[f - schema->fields] : NULL;

	if (!f)
		return pass_over(rd, schema->may_slip, fail_unknown_key(rd, schema, key));
	if (*line)
		return pass_over(rd, may_slip(schema, f),
				 yaml_fail_repeated(rd, f->key, key->line, *line));
	*line = key->line;
	return read_field(rd, schema, f, ret);
}

static void set_defaults(const struct yaml_schema *schema, int line, char *ret)
{
	if (schema->defaults)
		memcpy(ret, schema->defaults, schema->size);
	else
		memset(ret, 0, schema->size);
	if (schema->line_offset != SIZE_MAX)
		*(int *)(void *)(ret + schema->line_offset) = line;
}

/* lines[i] is where field i was given, 0 if it was not. */
static void note_lines(const struct yaml_schema *schema, const int *lines, char *ret)
{
	if (schema->lines_offset)
		memcpy(ret + schema->lines_offset, lines, schema->n_fields * sizeof(*lines));
}

static int check_required(const struct yaml_reading *rd, const struct yaml_schema *schema, int line,
			  const int *lines)
{
	for (size_t i = 0; i < schema->n_fields; i++)
		if (schema->fields[i].is_required && lines[i] == 0)
			return yaml_reader_fail(rd->reader, line, "the %s has no '%s'; add one",
						schema->what, schema->fields[i].key);
	return 0;
}

/* The mapping that began in line, up to its end. */
int yaml_read_mapping(const struct yaml_reading *rd, const struct yaml_schema *schema, int line,
		      void *ret)
{
	int lines[YAML_MAX_FIELDS] = { 0 };

	set_defaults(schema, line, ret);
	for (;;) {
		struct yaml_piece key;
		int r = yaml_reader_next(rd->reader, &key);

		if (r < 0)
			return r;
		if (key.kind == PIECE_MAPPING_END)
			break;
		if (key.kind != PIECE_SCALAR)
			return yaml_reader_fail(rd->reader, key.line, "a key must be a text");
		r = read_key(rd, schema, &key, find_field(schema, key.text), lines, ret);
		if (r < 0)
			return r;
	}
	note_lines(schema, lines, ret);
	return check_required(rd, schema, line, lines);
}

/* An empty file, or a key without a value, is a mapping without keys. */
static int read_no_keys(const struct yaml_reading *rd, const struct yaml_schema *schema, int line,
			void *ret)
{
	static const int no_lines[YAML_MAX_FIELDS];

	set_defaults(schema, line, ret);
	return check_required(rd, schema, line, no_lines);
}

int yaml_read_nested(const struct yaml_reading *rd, const struct yaml_field *f,
		     const struct yaml_piece *p, void *at)
{
	if (p->kind == PIECE_MAPPING)
		return yaml_read_mapping(rd, f->item, p->line, at);
	if (p->is_null) /* "retention:", and the keys below it commented out */
		return read_no_keys(rd, f->item, p->line, at);
	return yaml_fail_value(rd, f, p);
}

static int read_root(const struct yaml_reading *rd, const struct yaml_schema *schema, void *ret)
{
	struct yaml_piece p;
	char text[UTF8_QUOTED_BYTES];
	int r;

	r = yaml_reader_next(rd->reader, &p);
	if (r < 0)
		return r;
	if (p.kind == PIECE_MAPPING)
		r = yaml_read_mapping(rd, schema, p.line, ret);
	else if (p.kind == PIECE_END || p.is_null)
		r = read_no_keys(rd, schema, 1, ret);
	else
		r = yaml_reader_fail(rd->reader, p.line,
				     "the %s is %s; it must be a mapping of keys to values",
				     schema->what, yaml_show_piece(&p, text));
	/* A second document would come here. */
	return r < 0 || p.kind == PIECE_END ? r : yaml_reader_next(rd->reader, &p);
}

static void reader_close_ptr(struct yaml_reader **r)
{
	yaml_reader_close(*r);
}

static int parse(const char *text, size_t len, const char *name, const struct yaml_schema *schema,
		 struct arena *arena, void *ret, struct buf *slips, struct err *err)
{
	CLEANUP(reader_close_ptr) struct yaml_reader *reader = NULL;
	struct yaml_reading rd = { NULL, arena, slips, err };
	int r;

	if (len > YAML_MAX_BYTES)
		return err_set(err, -EINVAL, "%s is longer than %d bytes; it cannot be a %s", name,
			       YAML_MAX_BYTES, schema->what);
	r = yaml_reader_open(text, len, name, err, &reader);
	if (r < 0)
		return r;
	rd.reader = reader;
	set_defaults(schema, 1, ret); /* also where it fails before the first key */
	return read_root(&rd, schema, ret);
}

int yaml_parse(const char *text, size_t len, const char *name, const struct yaml_schema *schema,
	       struct arena *arena, void *ret, struct err *err)
{
	return parse(text, len, name, schema, arena, ret, NULL, err);
}

int yaml_load_loosely(const char *path, const struct yaml_schema *schema, struct arena *arena,
		      void *ret, struct buf *slips, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	int r;

	r = io_read_document(path, YAML_MAX_BYTES, &text, err);
	if (r == -EFBIG)
		return err_set(err, -EINVAL, "%s is longer than %d bytes; it cannot be a %s", path,
			       YAML_MAX_BYTES, schema->what);
	if (r < 0)
		return r;
	return parse(text.data, text.len, path, schema, arena, ret, slips, err);
}

int yaml_load(const char *path, const struct yaml_schema *schema, struct arena *arena, void *ret,
	      struct err *err)
{
	return yaml_load_loosely(path, schema, arena, ret, NULL, err);
}
