#include "sources/fields.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "base/unknown.h"

#define NUMBER_MAX_BYTES 32

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *p)
{
	while (is_blank(*p))
		p++;
	return p;
}

static const char *skip_word(const char *p)
{
	while (*p && *p != '\n' && !is_blank(*p))
		p++;
	return p;
}

int field_scan_u64(const char **cursor, uint64_t *ret)
{
	const char *p = skip_blanks(*cursor);
	uint64_t v;
	int r;

	r = num_scan_u64(&p, &v);
	if (r < 0)
		return r;
	if (!is_blank(*p) && *p != '\n')
		return -EINVAL;
	*cursor = p;
	*ret = v;
	return 0;
}

int field_scan_f64(const char **cursor, double *ret)
{
	const char *p = skip_blanks(*cursor);
	const char *end = skip_word(p);
	char word[NUMBER_MAX_BYTES];
	size_t n = (size_t)(end - p);
	int r;

	if (n >= sizeof(word) || *end == '\0' || *p == '-')
		return -EINVAL;
	memcpy(word, p, n);
	word[n] = '\0';
	r = num_parse_f64(word, ret);
	if (r < 0)
		return r;
	*cursor = end;
	return 0;
}

/* Behind the name and its separator if the line is that name's, else NULL. */
static const char *match_name(const char *line, const char *name)
{
	while (*name && *line == *name) {
		line++;
		name++;
	}
	if (*name || (*line != ':' && !is_blank(*line)))
		return NULL;
	return line + 1;
}

const char *field_find(const char *text, const char *name)
{
	const char *end;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		const char *value = match_name(text, name);

		if (value)
			return value;
	}
	return NULL;
}

/* The start of the wanted word of a line, or NULL. */
static const char *find_column(const char *p, int column)
{
	const char *last = NULL;

	for (int i = 0;; i++) {
		p = skip_blanks(p);
		if (*p == '\n' || *p == '\0')
			return column == FIELD_LAST ? last : NULL;
		if (i == column)
			return p;
		last = p;
		p = skip_word(p);
	}
}

static uint64_t read_hex(const char *p)
{
	const char *end = skip_word(p);
	uint64_t v = 0;

	if (end == p || end - p > 16 || *end == '\0')
		return U64_UNKNOWN;
	for (; p < end; p++) {
		if (!isxdigit((unsigned char)*p))
			return U64_UNKNOWN;
		v = v << 4 | (uint64_t)(*p <= '9' ? *p - '0' : (*p | 0x20) - 'a' + 10);
	}
	return v;
}

static uint64_t read_value(const char *line, const struct field *f)
{
	const char *p = find_column(line, f->column);
	uint64_t v;

	if (p && f->unit == FIELD_HEX)
		return read_hex(p);
	if (!p || field_scan_u64(&p, &v) < 0)
		return U64_UNKNOWN;
	if (f->unit == FIELD_PLAIN)
		return v;
	p = skip_blanks(p);
	if (strncmp(p, "kB\n", 3) != 0 || __builtin_mul_overflow(v, UINT64_C(1024), &v))
		return U64_UNKNOWN;
	return v;
}

static void set_value(void *ret, const struct field *f, uint64_t v)
{
	memcpy((char *)ret + f->offset, &v, sizeof(v));
}

void fields_read(const char *text, const struct field *fields, size_t n, void *ret)
{
	const char *end;
	size_t at =
		0; /* lines mostly come in the order of the table: the next row is tried first */

	for (size_t i = 0; i < n; i++)
		set_value(ret, &fields[i], U64_UNKNOWN);

	for (; (end = strchr(text, '\n')); text = end + 1) {
		const char *value = NULL;

		for (size_t tried = 0; tried < n && !value; tried++) {
			const struct field *f = &fields[at];

			at = at + 1 < n ? at + 1 : 0;
			value = match_name(text, f->name);
			if (value)
				set_value(ret, f, read_value(value, f));
		}
	}
}
