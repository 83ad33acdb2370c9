#include "base/yaml_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/ascii.h"
#include "base/utf8.h"

struct yaml_reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the text of the last piece lives in it */
	const char *text;
	size_t len;
	const char *name;
	struct err *err;
	int n_documents;
};

int yaml_reader_fail(const struct yaml_reader *r, int line, const char *fmt, ...)
{
	char what[sizeof(r->err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(r->err, -EINVAL, "%s:%d: %s", r->name, line, what);
}

int yaml_reader_fail_memory(const struct yaml_reader *r)
{
	return err_set(r->err, -ENOMEM, "out of memory while reading %s", r->name);
}

/* libyaml would stop at these bytes too, but without a line. */
static int check_text(const struct yaml_reader *r)
{
	int line = 1;

	for (size_t i = 0; i < r->len;) {
		size_t n = utf8_char_len(r->text + i, r->len - i);
		char c = r->text[i];

		if (n == 0)
			return yaml_reader_fail(r, line,
						"byte 0x%02x is not UTF-8; save the file as UTF-8",
						(unsigned char)c);
		if (ascii_is_control(c) && c != '\n' && c != '\r' && c != '\t')
			return yaml_reader_fail(
				r, line, "control character 0x%02x; the file must be plain text",
				(unsigned char)c);
		line += c == '\n';
		i += n;
	}
	return 0;
}

int yaml_reader_open(const char *text, size_t len, const char *name, struct err *err,
		     struct yaml_reader **ret)
{
	struct yaml_reader *r = calloc(1, sizeof(*r));
	int result;

	if (!r || !yaml_parser_initialize(&r->parser)) {
		free(r);
		return err_set(err, -ENOMEM, "out of memory while reading %s", name);
	}
	/* libyaml takes a byte order mark for an indentation of one. */
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	r->text = text;
	r->len = len;
	r->name = name;
	r->err = err;
	yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, len);
	result = check_text(r);
	if (result < 0) {
		yaml_reader_close(r);
		return result;
	}
	*ret = r;
	return 0;
}

struct yaml_reader *yaml_reader_close(struct yaml_reader *r)
{
	if (!r)
		return NULL;
	yaml_event_delete(&r->event);
	yaml_parser_delete(&r->parser);
	free(r);
	return NULL;
}

/* Does the line (from 1) have a tab before its first letter? */
static bool is_indented_by_tab(const struct yaml_reader *r, int line)
{
	const char *p = r->text, *end = r->text + r->len;

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

static int fail_in_parser(const struct yaml_reader *r)
{
	const yaml_parser_t *p = &r->parser;
	const struct problem *known = NULL;
	int line = (int)p->problem_mark.line + 1;

	for (size_t i = 0; p->problem && !known && i < ARRAY_SIZE(problems); i++)
		if (strcmp(p->problem, problems[i].problem) == 0)
			known = &problems[i];
	if (p->error == YAML_MEMORY_ERROR)
		return yaml_reader_fail_memory(r);
	if (is_indented_by_tab(r, line))
		return yaml_reader_fail(r, line, "a tab in the indentation; use spaces");
	if (!known)
		return yaml_reader_fail(r, line, "%s; check quotes and indentation",
					p->problem ? p->problem : "not YAML");
	if (known->has_opening && p->context)
		return yaml_reader_fail(r, line, "%s that began in line %d; %s", known->what,
					(int)p->context_mark.line + 1, known->right);
	return yaml_reader_fail(r, line, "%s; %s", known->what, known->right);
}

static int refuse_decorations(const struct yaml_reader *r, int line, const unsigned char *anchor,
			      const unsigned char *tag)
{
	char quoted[UTF8_QUOTED_BYTES];

	if (anchor)
		return yaml_reader_fail(r, line, "the anchor %s is not read; write the value out",
					utf8_quote((const char *)anchor, quoted));
	if (tag)
		return yaml_reader_fail(r, line, "the tag %s is not read; leave it out",
					utf8_quote((const char *)tag, quoted));
	return 0;
}

static bool is_null_word(const char *text)
{
	return strcmp(text, "") == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
	       strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

static int scalar_piece(const struct yaml_reader *r, int line, struct yaml_piece *ret)
{
	const char *text = (const char *)r->event.data.scalar.value;
	bool is_plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	if (strlen(text) != r->event.data.scalar.length)
		return yaml_reader_fail(r, line, "a NUL character (\\0) in a text; leave it out");
	*ret = (struct yaml_piece){
		.kind = PIECE_SCALAR,
		.line = line,
		.text = text,
		.is_quoted = !is_plain,
		.is_null = is_plain && is_null_word(text),
	};
	return refuse_decorations(r, line, r->event.data.scalar.anchor, r->event.data.scalar.tag);
}

/* 1: the event is no piece, go on. */
static int piece_from_event(struct yaml_reader *r, struct yaml_piece *ret)
{
	const yaml_event_t *ev = &r->event;
	int line = (int)ev->start_mark.line + 1;
	char quoted[UTF8_QUOTED_BYTES];

	*ret = (struct yaml_piece){ .line = line };
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return scalar_piece(r, line, ret);
	case YAML_SEQUENCE_START_EVENT:
		ret->kind = PIECE_LIST;
		return refuse_decorations(r, line, ev->data.sequence_start.anchor,
					  ev->data.sequence_start.tag);
	case YAML_SEQUENCE_END_EVENT:
		ret->kind = PIECE_LIST_END;
		return 0;
	case YAML_MAPPING_START_EVENT:
		ret->kind = PIECE_MAPPING;
		return refuse_decorations(r, line, ev->data.mapping_start.anchor,
					  ev->data.mapping_start.tag);
	case YAML_MAPPING_END_EVENT:
		ret->kind = PIECE_MAPPING_END;
		return 0;
	case YAML_STREAM_END_EVENT:
	case YAML_NO_EVENT: /* asked again behind the end */
		ret->kind = PIECE_END;
		return 0;
	case YAML_ALIAS_EVENT:
		return yaml_reader_fail(r, line, "the alias %s is not read; write the value out",
					utf8_quote((const char *)ev->data.alias.anchor, quoted));
	case YAML_DOCUMENT_START_EVENT:
		if (r->n_documents++ > 0)
			return yaml_reader_fail(
				r, line, "a second document ('---') begins; a file holds one");
		return 1;
	default:
		return 1;
	}
}

int yaml_reader_next(struct yaml_reader *r, struct yaml_piece *ret)
{
	int result;

	do {
		yaml_event_delete(&r->event);
		if (!yaml_parser_parse(&r->parser, &r->event))
			return fail_in_parser(r);
		result = piece_from_event(r, ret);
	} while (result == 1);
	return result;
}
