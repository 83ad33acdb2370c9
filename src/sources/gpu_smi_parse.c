#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu_smi.h"

#define FIELD_BYTES 64

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Without the blanks around it. False: it is too long for a number. */
static bool copy_field(const char *s, size_t n, char ret[FIELD_BYTES])
{
	for (; n > 0 && is_blank(s[0]); n--)
		s++;
	while (n > 0 && is_blank(s[n - 1]))
		n--;
	if (n >= FIELD_BYTES)
		return false;
	memcpy(ret, s, n);
	ret[n] = '\0';
	return true;
}

static const struct {
	const char *name;
	double value;
} odd_numbers[] = {
	{ "inf", INFINITY },	  { "+inf", INFINITY },	     { "-inf", -INFINITY },
	{ "infinity", INFINITY }, { "+infinity", INFINITY }, { "-infinity", -INFINITY },
	{ "nan", (double)NAN },
};

static bool parse_number(const char *s, size_t n, double *ret)
{
	char field[FIELD_BYTES];

	*ret = F64_UNKNOWN;
	if (!copy_field(s, n, field))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(odd_numbers); i++)
		if (strcasecmp(field, odd_numbers[i].name) == 0) {
			*ret = odd_numbers[i].value;
			return true;
		}
	return num_parse_f64(field[0] == '+' ? field + 1 : field, ret) == 0;
}

static void parse_line(const char *line, size_t n, struct smi_line *ret)
{
	size_t at = 0, n_fields = 0;

	ret->is_whole = true;
	for (size_t i = 0; i < SMI_FIELDS; i++)
		ret->values[i] = F64_UNKNOWN;
	while (at <= n) {
		const char *comma = memchr(line + at, ',', n - at);
		size_t len = comma ? (size_t)(comma - line) - at : n - at;

		if (n_fields < SMI_FIELDS && !parse_number(line + at, len, &ret->values[n_fields]))
			ret->is_whole = false;
		n_fields++;
		at += len + 1;
	}
	if (n_fields != SMI_FIELDS)
		ret->is_whole = false;
}

static bool is_empty(const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_blank(line[i]))
			return false;
	return true;
}

size_t smi_parse(const char *text, struct smi_line *ret, size_t max)
{
	size_t n_lines = 0;

	while (*text && n_lines < max) {
		size_t n = strcspn(text, "\n");

		if (!is_empty(text, n)) {
			ret[n_lines].index = (int)n_lines;
			parse_line(text, n, &ret[n_lines++]);
		}
		text += n + (text[n] == '\n');
	}
	return n_lines;
}
