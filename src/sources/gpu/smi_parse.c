#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu/smi.h"

#define FIELD_BYTES SMI_UUID_BYTES

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

/* "[N/A]", "[Not Supported]", "ERR!": how it says that a value is not to be had. */
static bool is_no_value(const char *s, size_t n)
{
	char field[FIELD_BYTES];
	size_t len;

	if (!copy_field(s, n, field))
		return false;
	len = strlen(field);
	return (len >= 2 && field[0] == '[' && field[len - 1] == ']') ||
	       strcmp(field, "N/A") == 0 || strcmp(field, "ERR!") == 0;
}

static void parse_line(const char *line, size_t n, struct smi_line *ret)
{
	size_t at = 0, n_fields = 0;

	ret->is_whole = true;
	while (at <= n) {
		const char *comma = memchr(line + at, ',', n - at);
		size_t len = comma ? (size_t)(comma - line) - at : n - at;

		if (n_fields < SMI_FIELDS && !parse_number(line + at, len, &ret->values[n_fields]))
			ret->is_whole = false;
		n_fields++;
		at += len + 1;
	}
	if (n_fields == SMI_FIELDS)
		return;
	ret->is_whole = false; /* nobody knows which field is which */
	for (size_t i = 0; i < SMI_FIELDS; i++)
		ret->values[i] = F64_UNKNOWN;
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

/* ---- lines that begin with a device ---- */

/* "GPU-" and letters and digits; of a part of a device "MIG-" and a path. */
static bool is_uuid(const char *s)
{
	const char *rest = s + 4;

	if (strncmp(s, "GPU-", 4) != 0 && strncmp(s, "MIG-", 4) != 0)
		return false;
	for (; *rest; rest++)
		if (!isalnum((unsigned char)*rest) && *rest != '-' && *rest != '/')
			return false;
	return rest > s + 4;
}

/* The field before the next comma, or the last; *at is behind it, NULL if there is none more. */
static bool take_field(const char **at, char ret[FIELD_BYTES])
{
	size_t n;
	bool fits;

	if (!*at)
		return false;
	n = strcspn(*at, ",");
	fits = copy_field(*at, n, ret);
	*at = (*at)[n] ? *at + n + 1 : NULL;
	return fits;
}

/* The number behind the values, if there is a field for it; *n is then the length before it. */
static uint64_t take_index(const char *line, size_t *n)
{
	const char *last = strrchr(line, ',');
	char field[FIELD_BYTES];
	size_t n_commas = 0;
	uint64_t index;

	for (const char *s = line; *s; s++)
		n_commas += *s == ',';
	*n = strlen(line);
	if (n_commas != SMI_FIELDS)
		return U64_UNKNOWN;
	*n = (size_t)(last - line);
	return copy_field(last + 1, strlen(last + 1), field) && num_parse_u64(field, &index) == 0
		       ? index
		       : U64_UNKNOWN;
}

bool smi_parse_device(const char *line, struct smi_device *ret)
{
	size_t n;

	if (!take_field(&line, ret->uuid) || !is_uuid(ret->uuid) || !line)
		return false;
	ret->index = take_index(line, &n);
	parse_line(line, n, &ret->line);
	ret->is_listed = true;
	ret->is_lost = strstr(line, "[GPU is lost]") != NULL;
	return true;
}

/* A process whose device is not named is one all the same. */
bool smi_parse_process(const char *line, struct smi_process *ret)
{
	char pid[FIELD_BYTES], memory[FIELD_BYTES];
	uint64_t mib;

	if (!take_field(&line, ret->uuid) || !take_field(&line, pid) ||
	    !take_field(&line, memory) || line)
		return false;
	if (!is_uuid(ret->uuid) && !is_no_value(ret->uuid, strlen(ret->uuid)))
		return false;
	if (num_parse_u64(pid, &ret->pid) < 0)
		return false;
	ret->memory_bytes = U64_UNKNOWN;
	if (num_parse_u64(memory, &mib) < 0)
		return is_no_value(memory, strlen(memory));
	if (mib < UINT64_MAX >> 20)
		ret->memory_bytes = mib << 20;
	return true;
}
