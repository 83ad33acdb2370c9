#include "base/yaml_value.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"

const char *yaml_show_piece(const struct yaml_piece *p, char shown[UTF8_QUOTED_BYTES])
{
	if (p->kind == PIECE_LIST)
		return "a list";
	if (p->kind == PIECE_MAPPING)
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

static void describe_choices(struct buf *b, const char *const *choices)
{
	for (size_t i = 0; choices[i]; i++)
		buf_printf(b, "%s%s", i == 0 ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
}

void yaml_describe_field(struct buf *b, const struct yaml_field *f)
{
	switch (f->kind) {
	case YAML_STRING:
		buf_add_str(b, "a text");
		break;
	case YAML_STRING_OR_NONE:
		buf_add_str(b, "a text, or null for none");
		break;
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
	case YAML_BOOL:
		buf_add_str(b, "true or false");
		break;
	case YAML_DURATION:
		buf_add_str(b, "a time such as 30s, 5m or 1h30m, longer than ");
		describe_seconds(b, f->min);
		buf_add_str(b, " and at most ");
		describe_seconds(b, f->max);
		break;
	case YAML_CHOICE:
		describe_choices(b, f->choices);
		break;
	case YAML_STRINGS:
		buf_add_str(b, "a list of texts");
		break;
	case YAML_STRING_OR_STRINGS:
		buf_add_str(b, "a text or a list of texts");
		break;
	case YAML_STRING_MAP:
		buf_add_str(b, "a mapping of names to texts");
		break;
	case YAML_MAPPING:
		buf_add_str(b, "a mapping of keys to values");
		break;
	case YAML_MAPPINGS:
		buf_printf(b, "a list with a mapping for each %s", f->item->what);
		break;
	}
}

int yaml_fail_value(const struct yaml_reading *rd, const struct yaml_field *f,
		    const struct yaml_piece *p)
{
	CLEANUP(buf_release) struct buf expected = BUF_INIT;
	char shown[UTF8_QUOTED_BYTES];

	yaml_describe_field(&expected, f);
	return yaml_reader_fail(rd->reader, p->line, "'%s' is %s; it must be %s", f->key,
				yaml_show_piece(p, shown), expected.data);
}

/* A number in quotes is a text: say so, it is hard to see otherwise. */
static int fail_quoted(const struct yaml_reading *rd, const struct yaml_field *f,
		       const struct yaml_piece *p)
{
	char shown[UTF8_QUOTED_BYTES];

	return yaml_reader_fail(rd->reader, p->line, "'%s' is the text %s; write it without quotes",
				f->key, yaml_show_piece(p, shown));
}

int yaml_fail_repeated(const struct yaml_reading *rd, const char *key, int line, int first)
{
	char shown[UTF8_QUOTED_BYTES];

	return yaml_reader_fail(rd->reader, line, "%s is given again; keep this or line %d",
				utf8_quote(key, shown), first);
}

int yaml_read_string(const struct yaml_reading *rd, const struct yaml_field *f,
		     const struct yaml_piece *p, void *at)
{
	const char *copy;

	if (p->kind != PIECE_SCALAR || p->is_null || p->text[0] == '\0')
		return yaml_fail_value(rd, f, p);
	copy = arena_strdup(rd->arena, p->text);
	if (!copy)
		return yaml_reader_fail_memory(rd->reader);
	*(const char **)at = copy;
	return 0;
}

int yaml_read_string_or_none(const struct yaml_reading *rd, const struct yaml_field *f,
			     const struct yaml_piece *p, void *at)
{
	if (p->kind == PIECE_SCALAR && (p->is_null || p->text[0] == '\0')) {
		*(const char **)at = NULL;
		return 0;
	}
	return yaml_read_string(rd, f, p, at);
}

int yaml_read_int(const struct yaml_reading *rd, const struct yaml_field *f,
		  const struct yaml_piece *p, void *at)
{
	int64_t v;

	if (p->kind != PIECE_SCALAR || num_parse_i64(p->text, &v) < 0 || (double)v < f->min ||
	    (double)v > f->max || v < INT_MIN || v > INT_MAX)
		return yaml_fail_value(rd, f, p);
	if (p->is_quoted)
		return fail_quoted(rd, f, p);
	*(int *)at = (int)v;
	return 0;
}

int yaml_read_u64(const struct yaml_reading *rd, const struct yaml_field *f,
		  const struct yaml_piece *p, void *at)
{
	uint64_t v;

	if (p->kind != PIECE_SCALAR || num_parse_u64(p->text, &v) < 0)
		return yaml_fail_value(rd, f, p);
	if (((double)v < f->min || (double)v > f->max) && !(v == 0 && f->zero_means))
		return yaml_fail_value(rd, f, p);
	if (p->is_quoted)
		return fail_quoted(rd, f, p);
	*(uint64_t *)at = v;
	return 0;
}

int yaml_read_number(const struct yaml_reading *rd, const struct yaml_field *f,
		     const struct yaml_piece *p, void *at)
{
	double v;

	if (p->kind != PIECE_SCALAR || num_parse_f64(p->text, &v) < 0 || v < f->min || v > f->max ||
	    (f->is_min_excluded && v == f->min))
		return yaml_fail_value(rd, f, p);
	if (p->is_quoted)
		return fail_quoted(rd, f, p);
	*(double *)at = v;
	return 0;
}

int yaml_read_bool(const struct yaml_reading *rd, const struct yaml_field *f,
		   const struct yaml_piece *p, void *at)
{
	bool is_true = p->kind == PIECE_SCALAR && strcmp(p->text, "true") == 0;
	bool is_false = p->kind == PIECE_SCALAR && strcmp(p->text, "false") == 0;

	if (!is_true && !is_false)
		return yaml_fail_value(rd, f, p);
	if (p->is_quoted)
		return fail_quoted(rd, f, p);
	*(bool *)at = is_true;
	return 0;
}

int yaml_read_duration(const struct yaml_reading *rd, const struct yaml_field *f,
		       const struct yaml_piece *p, void *at)
{
	double v;

	/* Not a number fails both comparisons, as it should. */
	if (p->kind != PIECE_SCALAR || num_parse_duration(p->text, &v) < 0 ||
	    !(v > f->min && v <= f->max))
		return yaml_fail_value(rd, f, p);
	*(double *)at = v;
	return 0;
}

int yaml_read_choice(const struct yaml_reading *rd, const struct yaml_field *f,
		     const struct yaml_piece *p, void *at)
{
	if (p->kind != PIECE_SCALAR)
		return yaml_fail_value(rd, f, p);
	for (int i = 0; f->choices[i]; i++)
		if (strcmp(p->text, f->choices[i]) == 0) {
			*(int *)at = i;
			return 0;
		}
	return yaml_fail_value(rd, f, p);
}
