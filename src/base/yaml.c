#include "base/yaml.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/io.h"
#include "base/num.h"
#include "base/suggest.h"
#include "base/utf8.h"

/*
 * ---- a YAML text as a tree ----
 *
 * All of libyaml is behind this. It hands out only what files by schema need:
 * anchors, aliases, tags, further documents and text that is not UTF-8 are
 * refused, each with the line and what would be right.
 */

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAPPING };

struct node {
	enum node_kind kind;
	int line;	    /* from 1 */
	const char *text;   /* of a scalar, without NULs inside */
	bool is_quoted;	    /* "5" and not 5 */
	bool is_null;	    /* nothing, ~ or null */
	struct node *first; /* of a list; of a mapping a key, which its value follows */
	struct node *next;
};

#define DEPTH_MAX 64

/* State of one reading. */
struct reading {
	yaml_parser_t parser;
	yaml_event_t event;
	const char *text;
	size_t len;
	const char *name;
	struct arena *arena;
	struct buf *slips; /* NULL: nothing may slip */
	struct err *err;
};

static void close_reading(struct reading *rd)
{
	yaml_event_delete(&rd->event);
	yaml_parser_delete(&rd->parser);
}

/* Fills err with "FILE:LINE: …" and returns -EINVAL. */
static int fail_at(const struct reading *rd, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);

static int fail_at(const struct reading *rd, int line, const char *fmt, ...)
{
	char what[sizeof(rd->err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(rd->err, -EINVAL, "%s:%d: %s", rd->name, line, what);
}

/* The same with -ENOMEM. */
static int fail_memory(const struct reading *rd)
{
	return err_set(rd->err, -ENOMEM, "out of memory while reading %s", rd->name);
}

/* libyaml would stop at these bytes too, but without a line. */
static int check_text(const struct reading *rd)
{
	int line = 1;

	for (size_t i = 0; i < rd->len;) {
		size_t n = utf8_char_len(rd->text + i, rd->len - i);
		char c = rd->text[i];

		if (n == 0)
			return fail_at(rd, line, "byte 0x%02x is not UTF-8; save the file as UTF-8",
				       (unsigned char)c);
		if (ascii_is_control(c) && c != '\n' && c != '\r' && c != '\t')
			return fail_at(rd, line,
				       "control character 0x%02x; the file must be plain text",
				       (unsigned char)c);
		line += c == '\n';
		i += n;
	}
	return 0;
}

/* Does the line (from 1) have a tab before its first letter? */
static bool is_indented_by_tab(const struct reading *rd, int line)
{
	const char *p = rd->text, *end = rd->text + rd->len;

	for (; line > 1 && p; line--) {
		p = memchr(p, '\n', (size_t)(end - p));
		p = p ? p + 1 : NULL;
	}
	for (; p && p < end && (*p == ' ' || *p == '\t'); p++)
		if (*p == '\t')
			return true;
	return false;
}

/* What libyaml says; what we say of it (has_opening: and where it began), and what would be right.
 */
static const struct problem {
	const char *problem;
	const char *what;
	bool has_opening;
	const char *right;
} problems[] = {
	{ "mapping values are not allowed in this context", "a ':' where none can be", false,
	  "quote the text if the ':' belongs to it, or check the indentation" },
	{ "could not find expected ':'", "a key without ':'", false, "write 'key: value'" },
	{ "did not find expected key", "this does not fit the mapping", true,
	  "indent keys of one mapping alike" },
	{ "did not find expected '-' indicator", "this does not fit the list", true,
	  "begin each item with '- '" },
	{ "did not find expected ',' or ']'", "a missing ',' or ']' in the list", true,
	  "put ',' between items and ']' at the end" },
	{ "did not find expected ',' or '}'", "a missing ',' or '}' in the mapping", true,
	  "put ',' between items and '}' at the end" },
	{ "found unexpected end of stream", "no end of the quoted text", true, "close the quote" },
	{ "found character that cannot start any token", "a value may not begin like this", false,
	  "quote text that begins with '@', '`' or '%'" },
	{ "found unknown escape character", "an unknown escape in double quotes", false,
	  "write \\\\ for a backslash, or use single quotes" },
	{ "did not find expected node content", "a value is missing", false,
	  "write one, or take out a stray ',', ']' or '}'" },
	{ "found incompatible YAML document", "this version of YAML is not read", false,
	  "leave the '%YAML' line out" },
	{ "block sequence entries are not allowed in this context", "a list item where none can be",
	  false, "begin the list on a line of its own" },
};

static int fail_in_parser(const struct reading *rd)
{
	const yaml_parser_t *p = &rd->parser;
	const struct problem *known = NULL;
	int line = (int)p->problem_mark.line + 1;

	for (size_t i = 0; p->problem && !known && i < ARRAY_SIZE(problems); i++)
		if (strcmp(p->problem, problems[i].problem) == 0)
			known = &problems[i];
	if (p->error == YAML_MEMORY_ERROR)
		return fail_memory(rd);
	if (is_indented_by_tab(rd, line))
		return fail_at(rd, line, "a tab in the indentation; use spaces");
	if (!known)
		return fail_at(rd, line, "%s; check quotes and indentation",
			       p->problem ? p->problem : "not YAML");
	if (known->has_opening && p->context)
		return fail_at(rd, line, "%s that began in line %d; %s", known->what,
			       (int)p->context_mark.line + 1, known->right);
	return fail_at(rd, line, "%s; %s", known->what, known->right);
}

static int refuse_decorations(const struct reading *rd, int line, const unsigned char *anchor,
			      const unsigned char *tag)
{
	char quoted[UTF8_QUOTED_BYTES];

	if (anchor)
		return fail_at(rd, line, "the anchor %s is not read; write the value out",
			       utf8_quote((const char *)anchor, quoted));
	if (tag)
		return fail_at(rd, line, "the tag %s is not read; leave it out",
			       utf8_quote((const char *)tag, quoted));
	return 0;
}

static int next_event(struct reading *rd)
{
	yaml_event_delete(&rd->event);
	return yaml_parser_parse(&rd->parser, &rd->event) ? 0 : fail_in_parser(rd);
}

static int read_text(struct reading *rd, struct node *node)
{
	static const char *const null_words[] = { "", "~", "null", "Null", "NULL" };
	const char *text = (const char *)rd->event.data.scalar.value;
	bool is_plain = rd->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	if (strlen(text) != rd->event.data.scalar.length)
		return fail_at(rd, node->line, "a NUL character (\\0) in a text; leave it out");
	for (size_t i = 0; is_plain && i < ARRAY_SIZE(null_words); i++)
		node->is_null |= strcmp(text, null_words[i]) == 0;
	node->is_quoted = !is_plain;
	node->text = arena_strdup(rd->arena, text);
	if (!node->text)
		return fail_memory(rd);
	return refuse_decorations(rd, node->line, rd->event.data.scalar.anchor,
				  rd->event.data.scalar.tag);
}

/* The node that begins with this event, with all that is in it. */
static int read_node(struct reading *rd, int depth, struct node **ret)
{
	const yaml_event_t *ev = &rd->event;
	int line = (int)ev->start_mark.line + 1, r = 0;
	struct node *node = arena_alloc(rd->arena, sizeof(*node)), **end;
	char quoted[UTF8_QUOTED_BYTES];

	if (!node)
		return fail_memory(rd);
	*node = (struct node){ .line = line };
	*ret = node;
	end = &node->first;
	if (ev->type == YAML_SCALAR_EVENT)
		return read_text(rd, node);
	if (ev->type == YAML_ALIAS_EVENT)
		return fail_at(rd, line, "the alias %s is not read; write the value out",
			       utf8_quote((const char *)ev->data.alias.anchor, quoted));
	if (depth > DEPTH_MAX)
		return fail_at(rd, line, "lists and mappings in more than %d others", DEPTH_MAX);
	node->kind = ev->type == YAML_MAPPING_START_EVENT ? NODE_MAPPING : NODE_LIST;
	r = node->kind == NODE_LIST ? refuse_decorations(rd, line, ev->data.sequence_start.anchor,
							 ev->data.sequence_start.tag)
				    : refuse_decorations(rd, line, ev->data.mapping_start.anchor,
							 ev->data.mapping_start.tag);
	while (r == 0 && (r = next_event(rd)) == 0 && ev->type != YAML_SEQUENCE_END_EVENT &&
	       ev->type != YAML_MAPPING_END_EVENT) {
		r = read_node(rd, depth + 1, end);
		end = &(*end)->next;
	}
	return r;
}

/* NULL: the file is empty. */
static int read_tree(struct reading *rd, struct node **ret)
{
	int r;

	*ret = NULL;
	while ((r = next_event(rd)) == 0 && rd->event.type != YAML_STREAM_END_EVENT) {
		if (rd->event.type == YAML_DOCUMENT_START_EVENT && *ret)
			return fail_at(rd, (int)rd->event.start_mark.line + 1,
				       "a second document ('---') begins; a file holds one");
		if (rd->event.type == YAML_STREAM_START_EVENT ||
		    rd->event.type == YAML_DOCUMENT_START_EVENT ||
		    rd->event.type == YAML_DOCUMENT_END_EVENT)
			continue;
		r = read_node(rd, 0, ret);
		if (r < 0)
			return r;
	}
	return r;
}

/*
 * Reads the value p into what at points to, or fails with one sentence that
 * describes the right value.
 */
typedef int read_fn(struct reading *rd, const struct yaml_field *f, const struct node *p, void *at);

/* How a kind is stored, described and read. */
static const struct kind {
	size_t bytes;		 /* in the struct; 0: a mapping, which has a struct of its own */
	const char *description; /* NULL: depends on the row */
	read_fn *read;
} kinds[YAML_MAPPINGS + 1];

size_t yaml_value_bytes(enum yaml_kind kind)
{
	return kinds[kind].bytes;
}

/* ---- messages ---- */

/* "a list", "empty", "'many'" */
static const char *show_node(const struct node *p, char shown[UTF8_QUOTED_BYTES])
{
	if (p->kind == NODE_LIST)
		return "a list";
	if (p->kind == NODE_MAPPING)
		return "a mapping";
	if (p->is_null || p->text[0] == '\0')
		return "empty";
	return utf8_quote(p->text, shown);
}

/* "3650d", "90s" */
static void describe_seconds(struct buf *b, double seconds)
{
	static const struct {
		double seconds;
		char unit;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (seconds > 0 && fmod(seconds, units[i].seconds) == 0) {
			buf_printf(b, "%.0f%c", seconds / units[i].seconds, units[i].unit);
			return;
		}
	buf_printf(b, "%gs", seconds);
}

void yaml_describe_field(struct buf *b, const struct yaml_field *f)
{
	switch (f->kind) {
	case YAML_INT:
	case YAML_U64:
		buf_printf(b, "a whole number from %.0f to %.0f", f->min, f->max);
		if (f->zero_means)
			buf_printf(b, ", or 0 for %s", f->zero_means);
		break;
	case YAML_NUMBER:
		buf_printf(b,
			   f->is_min_excluded ? "a number above %g, up to %g"
					      : "a number from %g to %g",
			   f->min, f->max);
		break;
	case YAML_DURATION:
		buf_add_str(b, "a time such as 200ms, 30s or 1h30m, longer than ");
		describe_seconds(b, f->min);
		buf_add_str(b, " and at most ");
		describe_seconds(b, f->max);
		break;
	case YAML_CHOICE:
		for (size_t i = 0; f->choices[i]; i++)
			buf_printf(b, "%s%s",
				   i == 0	       ? ""
				   : f->choices[i + 1] ? ", "
						       : " or ",
				   f->choices[i]);
		break;
	case YAML_MAPPINGS:
		buf_printf(b, "a list with a mapping for each %s", f->item->what);
		break;
	default:
		buf_add_str(b, kinds[f->kind].description);
	}
}

/* "'retries' is 'many'; it must be a whole number from 0 to 100" */
static int fail_value(struct reading *rd, const struct yaml_field *f, const struct node *p)
{
	CLEANUP(buf_release) struct buf expected = BUF_INIT;
	char shown[UTF8_QUOTED_BYTES];

	yaml_describe_field(&expected, f);
	return fail_at(rd, p->line, "'%s' is %s; it must be %s", f->key, show_node(p, shown),
		       expected.data);
}

static int fail_no_mapping(const struct reading *rd, const struct yaml_schema *schema,
			   const struct node *p)
{
	char shown[UTF8_QUOTED_BYTES];

	return fail_at(rd, p->line, "the %s is %s; it must be a mapping of keys to values",
		       schema->what, show_node(p, shown));
}

/* "'name' is given again; keep this or line 3" */
static int fail_repeated(struct reading *rd, const char *key, int line, int first)
{
	char shown[UTF8_QUOTED_BYTES];

	return fail_at(rd, line, "%s is given again; keep this or line %d", utf8_quote(key, shown),
		       first);
}

/* ---- scalars ---- */

static int read_string(struct reading *rd, const struct yaml_field *f, const struct node *p,
		       void *at)
{
	bool is_none = p->kind == NODE_SCALAR && (p->is_null || p->text[0] == '\0');

	if (p->kind != NODE_SCALAR || (is_none && f->kind != YAML_STRING_OR_NONE))
		return fail_value(rd, f, p);
	*(const char **)at = is_none ? NULL : p->text;
	return 0;
}

/* Numbers, booleans, durations and choices. */
static int read_scalar(struct reading *rd, const struct yaml_field *f, const struct node *p,
		       void *at)
{
	const char *text = p->kind == NODE_SCALAR ? p->text : "";
	union {
		int i;
		uint64_t u;
		double d;
		bool b;
	} v = { 0 };
	bool is_quotable = f->kind == YAML_DURATION || f->kind == YAML_CHOICE, fits = false;
	char shown[UTF8_QUOTED_BYTES];
	int64_t i64;

	switch (f->kind) {
	case YAML_INT:
		fits = num_parse_i64(text, &i64) == 0 && (double)i64 >= f->min &&
		       (double)i64 <= f->max && i64 >= INT_MIN && i64 <= INT_MAX;
		v.i = fits ? (int)i64 : 0;
		break;
	case YAML_U64:
		fits = num_parse_u64(text, &v.u) == 0 &&
		       (((double)v.u >= f->min && (double)v.u <= f->max) ||
			(v.u == 0 && f->zero_means));
		break;
	case YAML_NUMBER:
		fits = num_parse_f64(text, &v.d) == 0 && v.d >= f->min && v.d <= f->max &&
		       !(f->is_min_excluded && v.d == f->min);
		break;
	case YAML_DURATION: /* not a number fails both comparisons, as it should */
		fits = num_parse_time(text, &v.d) == 0 && v.d > f->min && v.d <= f->max;
		break;
	case YAML_BOOL:
		v.b = strcmp(text, "true") == 0;
		fits = v.b || strcmp(text, "false") == 0;
		break;
	case YAML_CHOICE:
		while (f->choices[v.i] && strcmp(text, f->choices[v.i]) != 0)
			v.i++;
		fits = f->choices[v.i];
		break;
	default:
		break;
	}
	if (!fits)
		return fail_value(rd, f, p);
	if (p->is_quoted && !is_quotable) /* hard to see otherwise: it is a text */
		return fail_at(rd, p->line, "'%s' is the text %s; write it without quotes", f->key,
			       show_node(p, shown));
	memcpy(at, &v, yaml_value_bytes(f->kind));
	return 0;
}

/* ---- lists ---- */

/* Moves the gathered bytes into the arena. */
static void *keep(struct reading *rd, const struct buf *gathered)
{
	void *copy = buf_error(gathered) < 0 ? NULL : arena_alloc(rd->arena, gathered->len + 1);

	if (copy)
		memcpy(copy, gathered->data, gathered->len);
	return copy;
}

static int fail_too_many(struct reading *rd, const struct yaml_field *f, int line)
{
	return fail_at(rd, line, "'%s' is too long; at most %d entries are read", f->key,
		       YAML_MAX_ITEMS);
}

/* A list; or a single text, where the row allows that. */
static int read_strings(struct reading *rd, const struct yaml_field *f, const struct node *p,
			void *at)
{
	CLEANUP(buf_release) struct buf items = BUF_INIT, lines = BUF_INIT;
	struct yaml_strings list = { .is_list = p->kind == NODE_LIST };
	char shown[UTF8_QUOTED_BYTES];
	const char *end = NULL;

	if (!list.is_list &&
	    (f->kind == YAML_STRINGS || p->kind != NODE_SCALAR || p->is_null || p->text[0] == '\0'))
		return fail_value(rd, f, p);
	for (const struct node *item = list.is_list ? p->first : p; item;
	     item = list.is_list ? item->next : NULL) {
		if (list.n++ == YAML_MAX_ITEMS)
			return fail_too_many(rd, f, item->line);
		/* Empty ones are fine when they are quoted: an argument may be empty. */
		if (item->kind != NODE_SCALAR || item->is_null)
			return fail_at(rd, item->line,
				       "an entry of '%s' is %s; it must be a text%s", f->key,
				       show_node(item, shown),
				       item->is_null ? " (\"\" for an empty one)" : "");
		buf_add(&items, &item->text, sizeof(item->text));
		buf_add(&lines, &item->line, sizeof(item->line));
	}
	buf_add(&items, &end, sizeof(end));
	list.items = keep(rd, &items);
	list.lines = keep(rd, &lines);
	if (!list.items || !list.lines)
		return fail_memory(rd);
	*(struct yaml_strings *)at = list;
	return 0;
}

static int read_string_map(struct reading *rd, const struct yaml_field *f, const struct node *p,
			   void *at)
{
	CLEANUP(buf_release) struct buf pairs = BUF_INIT;
	char name[UTF8_QUOTED_BYTES], text[UTF8_QUOTED_BYTES];
	struct yaml_pairs map = { NULL, 0 };

	if (p->kind != NODE_MAPPING)
		return fail_value(rd, f, p);
	for (const struct node *key = p->first, *value; key; key = value->next, map.n++) {
		const struct yaml_pair *earlier =
			(const struct yaml_pair *)(const void *)pairs.data;

		value = key->next;
		if (map.n == YAML_MAX_ITEMS)
			return fail_too_many(rd, f, key->line);
		if (key->kind != NODE_SCALAR)
			return fail_at(rd, key->line, "a key must be a text");
		for (size_t i = 0; i < map.n; i++)
			if (strcmp(earlier[i].name, key->text) == 0)
				return fail_repeated(rd, key->text, key->line, earlier[i].line);
		if (value->kind != NODE_SCALAR || value->is_null)
			return fail_at(rd, value->line, "%s of '%s' is %s; it must be a text%s",
				       utf8_quote(key->text, name), f->key, show_node(value, text),
				       value->is_null ? " (\"\" for an empty one)" : "");
		buf_add(&pairs,
			&(struct yaml_pair){
				.name = key->text, .value = value->text, .line = key->line },
			sizeof(struct yaml_pair));
		if (buf_error(&pairs) < 0)
			return fail_memory(rd);
	}
	map.items = keep(rd, &pairs);
	if (!map.items)
		return fail_memory(rd);
	*(struct yaml_pairs *)at = map;
	return 0;
}

/* ---- mappings ---- */

#define KNOWN_BYTES 300 /* there is room for so much in a sentence */

static int fail_unknown_key(struct reading *rd, const struct yaml_schema *schema,
			    const struct node *key)
{
	CLEANUP(buf_release) struct buf known = BUF_INIT; /* "a, b, c", or "a, b and 17 more" */
	struct suggest s = suggest_for(key->text);
	char shown[UTF8_QUOTED_BYTES];
	size_t i;

	for (i = 0; i < schema->n_fields; i++)
		suggest_offer(&s, schema->fields[i].key);
	if (s.best)
		return fail_at(rd, key->line, "unknown key %s in the %s; did you mean '%s'?",
			       utf8_quote(key->text, shown), schema->what, s.best);
	for (i = 0; i < schema->n_fields && known.len <= KNOWN_BYTES; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", schema->fields[i].key);
	if (i < schema->n_fields)
		buf_printf(&known, " and %zu more", schema->n_fields - i);
	return fail_at(rd, key->line, "unknown key %s in the %s; known are %s",
		       utf8_quote(key->text, shown), schema->what, known.data);
}

/* Reading failed with r: 1, and noted, if it may slip. */
static int let_slip(struct reading *rd, bool is_allowed, int r)
{
	if (r != -EINVAL || !rd->slips || !is_allowed)
		return r;
	buf_add_str(rd->slips, rd->err->text);
	*rd->err = (struct err)ERR_INIT;
	return 1;
}

/* A key of this schema, or a section that may have slips itself. */
static bool may_slip(const struct yaml_schema *schema, const struct yaml_field *f)
{
	return schema->may_slip || (f->kind == YAML_MAPPING && f->item->may_slip);
}

static int read_field(struct reading *rd, const struct yaml_schema *schema,
		      const struct yaml_field *f, const struct node *value, char *ret)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	/* Which has slips of its own. */
	bool is_inside = f->kind == YAML_MAPPING && value->kind == NODE_MAPPING;
	struct json j;
	int r;

	if (f->line_offset)
		*(int *)(void *)(ret + f->line_offset) = value->line;
	r = kinds[f->kind].read(rd, f, value, ret + f->offset);
	r = let_slip(rd, may_slip(schema, f) && !is_inside, r);
	if (r <= 0)
		return r;
	json_init(&j, &text);
	if (f->kind == YAML_MAPPING)
		buf_add_str(&text, "its defaults");
	else
		yaml_write_value(&j, f, ret + f->offset);
	buf_printf(rd->slips, "; used instead: %s\n", text.data);
	return 0;
}

/* A key that is refused with r. */
static int pass_over(struct reading *rd, bool is_allowed, int r)
{
	r = let_slip(rd, is_allowed, r);
	if (r > 0)
		buf_printf(rd->slips, " (passed over)\n");
	return r < 0 ? r : 0;
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

/* The mapping that began in line; NULL: an empty file, or a key without a value. */
static int read_mapping(struct reading *rd, const struct yaml_schema *schema,
			const struct node *mapping, int line, char *ret)
{
	int lines[YAML_MAX_FIELDS] = { 0 }; /* where each field was given; 0: it was not */
	const struct node *value;

	set_defaults(schema, line, ret);
	for (const struct node *key = mapping ? mapping->first : NULL; key; key = value->next) {
		size_t i = 0;
		int r;

		value = key->next;
		if (key->kind != NODE_SCALAR)
			return fail_at(rd, key->line, "a key must be a text");
		while (i < schema->n_fields && strcmp(schema->fields[i].key, key->text) != 0)
			i++;
		if (i == schema->n_fields) {
			r = pass_over(rd, schema->may_slip, fail_unknown_key(rd, schema, key));
		} else if (lines[i]) {
			r = pass_over(rd, may_slip(schema, &schema->fields[i]),
				      fail_repeated(rd, key->text, key->line, lines[i]));
		} else {
			lines[i] = key->line;
			r = read_field(rd, schema, &schema->fields[i], value, ret);
		}
		if (r < 0)
			return r;
	}
	if (schema->lines_offset)
		memcpy(ret + schema->lines_offset, lines, schema->n_fields * sizeof(*lines));
	for (size_t i = 0; i < schema->n_fields; i++)
		if (schema->fields[i].is_required && lines[i] == 0)
			return fail_at(rd, line, "the %s has no '%s'; add one", schema->what,
				       schema->fields[i].key);
	return 0;
}

static int read_nested(struct reading *rd, const struct yaml_field *f, const struct node *p,
		       void *at)
{
	if (p->kind == NODE_MAPPING || p->is_null) /* "retention:", and its keys commented out */
		return read_mapping(rd, f->item, p, p->line, at);
	return fail_value(rd, f, p);
}

static int read_mappings(struct reading *rd, const struct yaml_field *f, const struct node *p,
			 void *at)
{
	CLEANUP(buf_release) struct buf items = BUF_INIT;
	struct yaml_items list = { NULL, 0 };

	if (p->kind != NODE_LIST)
		return fail_value(rd, f, p);
	for (const struct node *item = p->first; item; item = item->next, list.n++) {
		int r;

		if (list.n == YAML_MAX_ITEMS)
			return fail_too_many(rd, f, item->line);
		if (item->kind != NODE_MAPPING)
			return fail_no_mapping(rd, f->item, item);
		if (buf_reserve(&items, f->item->size) < 0)
			return fail_memory(rd);
		r = read_mapping(rd, f->item, item, item->line, items.data + items.len);
		if (r < 0)
			return r;
		items.len += f->item->size;
	}
	list.items = keep(rd, &items);
	if (!list.items)
		return fail_memory(rd);
	*(struct yaml_items *)at = list;
	return 0;
}

static const struct kind kinds[YAML_MAPPINGS + 1] = {
	[YAML_STRING] = { sizeof(const char *), "a text", read_string },
	[YAML_STRING_OR_NONE] = { sizeof(const char *), "a text, or null for none", read_string },
	[YAML_INT] = { sizeof(int), NULL, read_scalar },
	[YAML_U64] = { sizeof(uint64_t), NULL, read_scalar },
	[YAML_NUMBER] = { sizeof(double), NULL, read_scalar },
	[YAML_BOOL] = { sizeof(bool), "true or false", read_scalar },
	[YAML_DURATION] = { sizeof(double), NULL, read_scalar },
	[YAML_CHOICE] = { sizeof(int), NULL, read_scalar },
	[YAML_STRINGS] = { sizeof(struct yaml_strings), "a list of texts", read_strings },
	[YAML_STRING_OR_STRINGS] = { sizeof(struct yaml_strings), "a text or a list of texts",
				     read_strings },
	[YAML_STRING_MAP] = { sizeof(struct yaml_pairs), "a mapping of names to texts",
			      read_string_map },
	[YAML_MAPPING] = { 0, "a mapping of keys to values", read_nested },
	[YAML_MAPPINGS] = { sizeof(struct yaml_items), NULL, read_mappings },
};

/* ---- documents ---- */

static int parse(const char *text, size_t len, const char *name, const struct yaml_schema *schema,
		 struct arena *arena, void *ret, struct buf *slips, struct err *err)
{
	CLEANUP(close_reading)
	struct reading rd = { .name = name, .arena = arena, .slips = slips, .err = err };
	struct node *root;
	int r;

	if (len > YAML_MAX_BYTES)
		return err_set(err, -EINVAL, "%s is longer than %d bytes; it cannot be a %s", name,
			       YAML_MAX_BYTES, schema->what);
	if (!yaml_parser_initialize(&rd.parser))
		return fail_memory(&rd);
	/* libyaml takes a byte order mark for an indentation of one. */
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	rd.text = text;
	rd.len = len;
	yaml_parser_set_encoding(&rd.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&rd.parser, (const unsigned char *)text, len);
	r = check_text(&rd);
	if (r < 0)
		return r;
	set_defaults(schema, 1, ret); /* also where it fails before the first key */
	r = read_tree(&rd, &root);
	if (r < 0)
		return r;
	if (root && root->kind != NODE_MAPPING && !root->is_null)
		return fail_no_mapping(&rd, schema, root);
	return read_mapping(&rd, schema, root, root && root->kind == NODE_MAPPING ? root->line : 1,
			    ret);
}

int yaml_parse(const char *text, size_t len, const char *name, const struct yaml_schema *schema,
	       struct arena *arena, void *ret, struct err *err)
{
	return parse(text, len, name, schema, arena, ret, NULL, err);
}

int yaml_load(const char *path, const struct yaml_schema *schema, struct arena *arena, void *ret,
	      struct buf *slips, struct err *err)
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

/* ---- writing ---- */

void yaml_write_value(struct json *j, const struct yaml_field *f, const void *at)
{
	const struct yaml_strings *list = at;
	const struct yaml_pairs *pairs = at;
	char text[32];

	switch (f->kind) {
	case YAML_STRING:
	case YAML_STRING_OR_NONE:
		json_str(j, *(const char *const *)at);
		break;
	case YAML_INT:
		json_i64(j, *(const int *)at);
		break;
	case YAML_U64:
		json_u64(j, *(const uint64_t *)at);
		break;
	case YAML_NUMBER:
		json_f64(j, *(const double *)at);
		break;
	case YAML_DURATION: /* a bare number would be read as minutes */
		snprintf(text, sizeof(text), "%.12gs", *(const double *)at);
		json_str(j, text);
		break;
	case YAML_BOOL:
		json_bool(j, *(const bool *)at);
		break;
	case YAML_CHOICE:
		json_str(j, f->choices[*(const int *)at]);
		break;
	case YAML_STRINGS:
	case YAML_STRING_OR_STRINGS:
		json_begin_array(j);
		for (size_t i = 0; i < list->n; i++)
			json_str(j, list->items[i]);
		json_end_array(j);
		break;
	case YAML_STRING_MAP:
		json_begin_object(j);
		for (size_t i = 0; i < pairs->n; i++)
			json_key_string(j, pairs->items[i].name, pairs->items[i].value);
		json_end_object(j);
		break;
	case YAML_MAPPING:
	case YAML_MAPPINGS:
		json_none(j);
		break;
	}
}
